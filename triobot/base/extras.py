"""What pip brings only when it is asked to: extras, with the line that asks for it, and others' routes."""

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
    """Return what pip installed triobot from, under pip's own name; None where it was not installed.

    It is found by the command that it brings: an editable one lists no package.
    """
    from importlib.metadata import entry_points  # a start has no use for it

    for command in entry_points(group="console_scripts", name="triobot"):
        if command.value == "triobot.cli:main":
            return command.dist
    return None


def install_line(extra: str) -> str:
    """Return the command that brings an extra to the triobot that runs."""
    installed = distribution()
    return f"pip install '{installed.name if installed else '.'}[{extra}]'"


@contextmanager
def needing(extra: str, what: str) -> Generator[None]:
    """Say in one line which extra brings what the block imports, where that isn't installed.

    Of blocks in one another the outermost says it: that is what was asked for.

    Raises:
        ConfigError: it is not.
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
    """Return what a package that is installed offers bots under this name: a `Router`, or a widget.

    A package offers it as an entry point of the group ``triobot.routes`` or ``triobot.widgets``.

    Raises:
        ConfigError: no package offers it, several do, or it can't be imported.

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
