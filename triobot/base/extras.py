"""Optional dependencies (pip's extras) and other packages' entry points."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from ..errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_BROUGHT: Final = frozenset({"opentelemetry", "persiantools", "psycopg", "shtab"})


@cache
def distribution() -> Distribution | None:
    """Return the installed distribution that contains triobot, with its name in pip; None if triobot was not
    installed.

    The distribution is found by the console script ``triobot``, because an editable installation doesn't list
    its packages.
    """
    from importlib.metadata import entry_points  # imported here because most starts don't need this module

    for command in entry_points(group="console_scripts", name="triobot"):
        if command.value == "triobot.cli:main":
            return command.dist
    return None


def install_line(extra: str) -> str:
    """Return the pip command that installs an extra of the installed triobot."""
    installed = distribution()
    return f"pip install '{installed.name if installed else '.'}[{extra}]'"


@contextmanager
def needing(extra: str, what: str) -> Generator[None]:
    """Raise ConfigError with the install command if an import in the block fails because `extra` isn't
    installed.

    In nested blocks, the error names the extra and `what` of the outermost block, which is the feature that
    the user asked for.

    Raises:
        ConfigError: the extra isn't installed.
    """
    try:
        yield
    except (ModuleNotFoundError, ConfigError) as error:
        absent = error.__cause__ if isinstance(error, ConfigError) else error
        if not isinstance(absent, ModuleNotFoundError) or not absent.name:
            raise
        if absent.name.partition(".")[0] not in _BROUGHT:
            raise
        raise ConfigError(f"{what} needs the extra {extra!r}: {install_line(extra)}") from absent


def installed(kind: Literal["routes", "widgets"], name: str) -> Any:
    """Load an installed package's `Router` or widget by its entry point name.

    The package declares an entry point in the group ``triobot.routes`` or ``triobot.widgets``.

    Raises:
        ConfigError: no package or several packages declare the name, or the import fails.

    Examples:
        >>> bot.include(installed("routes", "feedback"))
    """
    from importlib.metadata import entry_points

    group = entry_points(group=f"triobot.{kind}")
    found = [one for one in group if one.name == name]
    if len({one.value for one in found}) != 1:
        known = ", ".join(sorted({one.name for one in group})) or "none"
        how = "several packages offer" if found else "no package offers"
        raise ConfigError(f"{how} triobot.{kind} named {name!r}; those that are installed: {known}")
    try:
        return found[0].load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{found[0].value}, of triobot.{kind}, can't be imported: {error}") from error
