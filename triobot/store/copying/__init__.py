"""Copies of a store to another database or address: `triobot store copy`.

Read `copier` first, for the order of the steps; then `tables`, for the copied rows. `ends` has the interface
that a store implements to be copied, for SQLite and for PostgreSQL.
"""

from __future__ import annotations

from .copier import copy_elsewhere as copy_elsewhere
