"""Defects to plant into the engine's text: a fuzzer that finds none of them proves nothing."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PACKAGE = "triobot.engine"
ENGINE = Path(__file__).parents[2] / "triobot" / "engine"

MUTANTS: dict[str, tuple[str, str, str, str]] = {
    # module, what stands there, what is planted, the mode that finds it
    "rearmed": (
        "machine",
        "is_cut(block.around)",
        "is_cut(block.around[: -1 if self.journal.turns else None])",
        "directed",
    ),
    "shuffled": (
        "machine",
        "sorted(struck, key=lambda op: op.key)",
        "__import__('random').sample(struck, len(struck))",
        "directed",
    ),
    "eager": (
        "machine",
        "        self.holder = None\n        self.pump(op)",
        "        self.holder = None\n        self._arm(op)\n        self.pump(op)",
        "directed",
    ),
    "resting": (
        "machine",
        "about_to and trio.current_effective_deadline() == -math.inf",
        "False",
        "directed",
    ),
    "forget": (
        "machine",
        "if op.given is None and tag != CUT and not self.dying:",
        "if False:",
        "directed",
    ),
    "catchup": ("machine", "if due <= self.journal.revived:", "if False:", "directed"),
    "mid": ("machine", "if ahead[0] == INTERRUPTED and", "if False and", "directed"),
    "rows": ("machine", "self.journal.effects.get(op.id)", "None", "directed"),
    "notes": (
        "run",
        "record = self.journal.beside.get((READ, turn, key))",
        "record = None",
        "race",
    ),
    "writes": ("run", " or (WROTE, turn, key, n) in self.journal.beside", "", "race"),
}
"""By name. "behind", which doesn't wait for commits, needs no change of the text."""


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, old: str, new: str) -> None:
        super().__init__(fullname, path)
        self._old, self._new = old, new

    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text(encoding="utf-8")
        assert text.count(self._old) == 1, f"{fullname} has this {text.count(self._old)} times: {self._old}"
        return compile(text.replace(self._old, self._new), self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, name: str) -> None:
        module, self._old, self._new, _ = MUTANTS[name]
        self._fullname = f"{PACKAGE}.{module}"
        self._path = ENGINE / f"{module}.py"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._fullname:
            return None
        loader = _Loader(fullname, str(self._path), self._old, self._new)
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


def plant_from(arguments: Sequence[str]) -> None:
    """Plant the defect that a command line names, for the rest of the process."""
    for flag, name in pairwise(arguments):
        if flag == "--mutant" and name in MUTANTS:
            sys.meta_path.insert(0, _Finder(name))  # type: ignore[arg-type]


@contextmanager
def planted(name: str) -> Generator[Any]:
    """Plant a defect for a while; gives the fuzzer that runs on it."""

    def ours(module: str) -> bool:
        fuzzers = {f"tests.engine.{one}" for one in ("fuzz", "programs", "world")}
        return module == PACKAGE or module.startswith(f"{PACKAGE}.") or module in fuzzers

    kept = {key: module for key, module in sys.modules.items() if ours(key)}
    package, attribute = sys.modules.get("triobot"), "engine"
    known = getattr(package, attribute, None)
    for key in kept:
        del sys.modules[key]
    finder = _Finder(name)
    sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
    try:
        yield importlib.import_module("tests.engine.fuzz")
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]
        for key in [key for key in sys.modules if ours(key)]:
            del sys.modules[key]
        sys.modules.update(kept)
        if known is not None:
            setattr(package, attribute, known)
