"""Moves a store between engines and numbers of shards: `triobot store copy`.

Read `copier` first, which says in which order what is done; then `tables`, which rows go where, with
`broadcasts`; `ends` is what both engines have in common for it.
"""

from __future__ import annotations

from .copier import Divide as Divide
from .copier import Settings as Settings
from .copier import SettingsFound as SettingsFound
from .copier import TableCount as TableCount
from .copier import copy_elsewhere as copy_elsewhere
