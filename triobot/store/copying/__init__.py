"""Copies of a store to another database or address: `triobot store copy`.

Read `copier` first, for the order of the steps; then `tables`, for the copied rows. `ends` defines the
interface of the source and the target, and implements it for SQLite; `postgres.end` implements it for
PostgreSQL.
"""

from __future__ import annotations

from .copier import copy_elsewhere as copy_elsewhere
