"""Load a bot by its target: ``module:bot`` or ``path/bot.py:bot``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

from ..base.authors import contained
from ..conversations.running.lines import failing_line, is_authors
from ..errors import ConfigError, ExitError
from ..runtime.bot import Bot, importing
from ..runtime.logs import open_logs

_USUAL: Final = "bot"


def load_bot(target: str) -> Bot:
    """Import the bot that `target` names. A target without ``:name`` means the module's variable ``bot``.

    The working directory is searched first, as by ``python -m``.

    Raises:
        ConfigError: there is no such module or file, its import failed, or the target is no `Bot`.
    """
    place, name, is_file = parse_target(target)
    with importing(place):
        found: object = _import_file(Path(place), name) if is_file else _import_module(place)
    open_logs()
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(f"{place} has no {name!r}; name the bot as in {place}:bot") from None
    if not isinstance(found, Bot):
        raise ConfigError(f"{place}:{name} is a {type(found).__name__}, not a triobot.Bot")
    return found


def parse_target(target: str) -> tuple[str, str, bool]:
    """Split a target into module or file, name of the bot, and whether `target` names a file.

    Raises:
        ConfigError: `target` names no bot.
    """
    place, colon, name = target.rpartition(":")
    if not colon:
        place, name = target, _USUAL
    if not place or not name:
        raise ConfigError(f"{target!r} names no bot; write MODULE:BOT, such as echo:bot or path/echo.py:bot")
    return place, name, place.endswith(".py") or "/" in place


def check_there(target: str) -> None:
    """Check that the target's file or module exists; import nothing.

    Raises:
        ConfigError: the file or module doesn't exist, or the target names no bot.
    """
    place, _, is_file = parse_target(target)
    top = place.partition(".")[0]
    if is_file:
        _check_file(Path(place))
    elif top not in sys.builtin_module_names and not PathFinder.find_spec(top, [str(Path.cwd()), *sys.path]):
        raise _no_module(place)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r}")


def _no_module(name: str) -> ConfigError:
    return ConfigError(f"there is no module {name!r} here or in Python's path; a file is {name}.py:bot")


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if sys.path[0] != here:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # If `a` or `b` is missing, the error of `import a.b` has the name "a" or "a.b". With any other name,
        # the error comes from an import inside the module.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise _no_module(name) from error
        raise _failed(name, error) from error
    except BaseException as error:
        raise _failed(name, contained(error)) from error


def _import_file(path: Path, name_in_it: str) -> ModuleType:
    _check_file(path)
    folder = str(path.resolve().parent)
    if sys.path[0] != folder:
        sys.path.insert(0, folder)
    # A bot in queue.py must not replace the standard library's queue.
    name = path.stem
    if name in sys.stdlib_module_names or (name in sys.modules and not _is_of(sys.modules[name], path)):
        name = f"bot_{name}"
    if name in sys.modules and _is_of(sys.modules[name], path):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{str(path)!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # type hints of the module's classes are resolved through `sys.modules`
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        raise _failed(str(path), contained(error), _hint_at_package(path, name_in_it, error)) from error
    return module


def _hint_at_package(path: Path, name: str, error: BaseException) -> str:
    """Suggest the module name of a file that imports from its own package: a module that is loaded as a file
    has no package.
    """
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    first = (missing or "").partition(".")[0]
    names, top = [path.stem], Path("/")
    for top in path.resolve().parents:
        if first in names[:-1] or (len(names) > 1 and not first and not (top / "__init__.py").is_file()):
            break
        names.insert(0, top.name)
    relative = "relative import" in str(error)
    if not relative and first not in names[:-1]:
        return ""
    why = "it is in a package" if relative else f"if its folder {first} is meant, and no library"
    place = "" if top == Path.cwd() else f" from the folder {top}"
    return f"; {why}: name it{place} as {'.'.join(names).removesuffix('.__init__')}:{name}"


def _hint_at_own_file(error: BaseException) -> str:
    """Suggest that an author's own file hides a library of the same name."""
    module = error.obj if isinstance(error, AttributeError) else None
    name = error.name if isinstance(error, ImportError) else getattr(module, "__name__", None)
    top = str(name).partition(".")[0] if name else ""
    specs = [PathFinder.find_spec(top, [folder]) for folder in sys.path]
    files = list(dict.fromkeys(spec.origin for spec in specs if spec is not None and spec.origin))
    if not files or not is_authors(files[0]) or (files[0] in str(error) and not files[1:]):
        return ""  # no author's file hides a library
    return f"; {top} is your own {files[0]}, which stands before any library of that name"


def _is_of(module: ModuleType, path: Path) -> bool:
    return Path(getattr(module, "__file__", None) or "/").resolve() == path.resolve()


def _failed(name: str, error: Exception, hint: str = "") -> ConfigError:
    where = "" if isinstance(error, SyntaxError) else f" at {Path(failing_line(error.__traceback__)).name}"
    words = str(error) if isinstance(error, ExitError) else f"{type(error).__name__}: {error}"
    return ConfigError(f"importing {name} failed{where}: {words}{_hint_at_own_file(error) or hint}")
