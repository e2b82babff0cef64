"""Moves a store between engines: `triobot store copy`.

Read `copier` first, which says in which order what is done; then `tables`, which rows go; `ends` is what both
engines have in common for it.
"""

from __future__ import annotations

from .copier import TableCount as TableCount
from .copier import copy_elsewhere as copy_elsewhere
