"""Copies of a store to another database or place: `triobot store copy`.

Read `copier` first, for the order of the steps; then `tables`, for the copied rows. `ends` is the interface
that both engines implement for a copy.
"""

from __future__ import annotations

from .copier import copy_elsewhere as copy_elsewhere
