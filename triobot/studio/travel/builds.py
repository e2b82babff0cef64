"""A process that runs an older build: its modules come from the store, whatever files there are now."""

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
    """Have the author's modules come from these texts from now on, and return the bot's name among them.

    Args:
        sources: the modules' names with their texts.
        bot: ``MODULE:BOT``, or the same with a file.

    Raises:
        ConfigError: the module of the bot is not among them.
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
    """Finds the modules of a build."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        has_more = any(name.startswith(f"{fullname}.") for name in self._texts)
        # A store has no source of a package that is empty.
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
    """Runs one module, and says that it is in the file of today: what reads beside it finds its folder."""

    def __init__(self, file: str, text: str, *, is_package: bool) -> None:
        self._file, self._text, self._is_package = file, text, is_package

    def get_filename(self, fullname: str) -> str:
        return self._file

    def get_source(self, fullname: str) -> str:
        return self._text

    def is_package(self, fullname: str) -> bool:
        return self._is_package
