"""Runs an older build: imports the author's modules from recorded sources instead of the current files."""

from __future__ import annotations

import importlib.util
import linecache
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import final

from ...cli.loading import parse_target
from ...errors import ConfigError


def take_modules_from(sources: Sequence[tuple[str, str]], bot: str) -> str:
    """Import the author's modules from `sources` from now on; return the target of the bot in `sources`.

    Args:
        sources: names and texts of the modules.
        bot: ``MODULE:BOT``, or ``FILE:BOT``.

    Raises:
        ConfigError: the bot's module is not among `sources`.
    """
    texts = dict(sources)
    place, name, is_file = parse_target(bot)
    if is_file:
        path = Path(place).resolve()
        sys.path.insert(0, str(path.parent))
        place = path.stem if path.stem in texts else f"bot_{path.stem}"
    if place not in texts:
        raise ConfigError(f"the build that ran then had no module {place}")
    sys.meta_path.insert(0, _StoredModules(texts))
    return f"{place}:{name}"


@final
class _StoredModules(MetaPathFinder):
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        has_more = any(name.startswith(f"{fullname}.") for name in self._texts)
        # A store doesn't record the sources of empty packages.
        text = self._texts.get(fullname, "" if has_more else None)
        if text is None:
            return None
        now = PathFinder.find_spec(fullname, path)
        is_package = has_more or (now is not None and now.submodule_search_locations is not None)
        file = None if now is None else now.origin
        if file is None:
            folder = Path(next(iter(path or ()), str(Path.cwd())))
            own = fullname.rpartition(".")[2]
            file = str(folder / own / "__init__.py" if is_package else folder / f"{own}.py")
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        loader = _StoredModule(file, text, is_package=is_package)
        return importlib.util.spec_from_loader(fullname, loader)


@final
class _StoredModule(ExecutionLoader):
    """Executes one module under its current file name, since the code may read files beside the module."""

    def __init__(self, file: str, text: str, *, is_package: bool) -> None:
        self._file, self._text, self._is_package = file, text, is_package

    def get_filename(self, fullname: str) -> str:
        return self._file

    def get_source(self, fullname: str) -> str:
        return self._text

    def is_package(self, fullname: str) -> bool:
        return self._is_package
