"""Replay-check's second look: at the end of a drive, in two other processes whose sets have other orders.

The two are compared with one another, and not with the test's own process: that may have patched the bot's
modules, and no other process would know. They are kept for the tests that follow.
"""

from __future__ import annotations

import ast
import atexit
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import attrs

from ..conversations.inspection.checking import Checked
from ..conversations.inspection.rerun import Divergence
from ..journal.records import Done
from ..twin import Home, Twin, differing, home_of, question

# Fixed, so that a test that fails does so again.
_SEEDS: Final = (1, 2)
# A crowd of a thousand goes the same few ways.
_LOOKED_AT: Final = 8
_KEPT: Final = 256
_SETS: Final = frozenset({"set", "frozenset"})
_HASHES: Final = frozenset({"hash", "id"})
_WHERE: Final = "in two other processes, where sets have other orders"
_VIEWS: Final = frozenset({"keys", "items"})

_twins: Final = tuple(Twin(seed) for seed in _SEEDS)
_seen: Final[set[object]] = set()
_mention: Final[dict[Path, bool]] = {}


@final
class SecondLook:
    """What a drive has to look at once more; with None in place of a bot, nothing."""

    def __init__(self, bot: object) -> None:
        home = None if bot is None else home_of(bot)
        self._home = home if home is not None and _may_depend_on_order(Path(home.file)) else None
        self._newest: dict[tuple[int, int], Checked] = {}

    def passed(self, checked: Checked, tell: Callable[[Divergence], None]) -> None:
        """Keep where a conversation came to rest last; what repeats itself here may not do so elsewhere."""
        if self._home is None:
            return
        row = checked.stored.row
        self._newest.pop((row.id, row.started_at), None)
        self._newest[row.id, row.started_at] = checked
        if len(self._newest) > _KEPT:
            del self._newest[next(iter(self._newest))]

    async def look(self) -> tuple[str, Divergence] | None:
        """Look at those that went a way that none went before; the route and how it parts, if one does."""
        new = {_way(self._home, checked): checked for checked in self._newest.values()}
        chosen = [(way, checked) for way, checked in new.items() if way not in _seen][:_LOOKED_AT]
        if self._home is None or not chosen:
            return None
        for twin in _twins:
            twin.start()
        for way, checked in chosen:
            _seen.add(way)
            asked = question(self._home, checked)
            one, other = [await twin.ask(asked) for twin in _twins]
            if one is not None and other is not None and (found := differing(one, other)) is not None:
                _seen.discard(way)  # the same test is to fail again
                return checked.stored.row.route, attrs.evolve(found, what=f"{found.what} ({_WHERE})")
        return None


def _way(home: Home | None, checked: Checked) -> object:
    done = tuple((one.id, one.kind) for one in checked.stored.records if isinstance(one, Done))
    return home, checked.stored.row.route, done, checked.standing.line


@atexit.register
def _close() -> None:
    for twin in _twins:
        twin.close()


# --- whom it is for


def _may_depend_on_order(file: Path) -> bool:
    """Whether the bot's own modules mention a set at all: most don't, and their tests start no process."""
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = {Path(name).resolve() for name in modules if isinstance(name, str) and name.endswith(".py")}
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    own = [one for one in files if one.is_relative_to(folder) and not _is_of_tests(one)]
    return any(_mentions_order(one) for one in {file, *own})


def _is_of_tests(file: Path) -> bool:
    return file.name.startswith(("test_", "conftest")) or "site-packages" in file.parts


def _mentions_order(file: Path) -> bool:
    if file not in _mention:
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):
            return False
        _mention[file] = any(map(_is_unordered, ast.walk(tree)))
    return _mention[file]


def _is_unordered(node: ast.AST) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in _SETS
        case ast.Call(func=ast.Name(id=name)):
            return name in _HASHES
        case ast.BinOp(left=ast.Call(func=ast.Attribute(attr=name))):
            return name in _VIEWS
        case _:
            return False
