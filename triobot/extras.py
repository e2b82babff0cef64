"""Extras: what pip brings only when it is asked to, and the line that asks for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from .errors import ConfigError

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
