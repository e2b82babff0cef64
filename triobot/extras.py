"""Extras: what pip brings only when it is asked to, and the line that asks for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from .errors import ConfigError

_BROUGHT: Final = frozenset(
    {"PIL", "hypercorn", "opentelemetry", "psycopg", "quart", "quart_trio", "watchfiles"}
)


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
        raise ConfigError(f"{what} needs the extra {extra!r}: pip install 'triobot[{extra}]'") from absent
