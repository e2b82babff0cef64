"""Which lines of the bot were reached: requests of the control API that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from ..wire.rules import JsonValue
from .control import Asked, Given, as_number
from .exchange import Coverage, Exchange, TravelError
from .world import ImpossibleActError

_NOT_OURS: Final = "nothing is known of the bot's lines here: only `triobot dev` loads its code"


@final
class CoverageControl:
    """Answers requests that concern the lines of the bot."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def changes(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {"lines": self._look}

    def looks(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {"lines": self._files, "lines/file": self._file}

    def _there(self) -> Coverage:
        if self._exchange.coverage is None:
            raise ImpossibleActError(_NOT_OURS)
        return self._exchange.coverage

    async def _look(self, asked: Asked) -> JsonValue:
        asked.only(())
        there = self._there()
        try:
            await there.look()
        except (TravelError, OSError) as error:
            raise ImpossibleActError(str(error)) from error
        return there.files()

    def _files(self, asked: Asked) -> JsonValue:
        asked.only(())
        return None if self._exchange.coverage is None else self._exchange.coverage.files()

    def _file(self, asked: Asked) -> JsonValue:
        asked.only(("file",))
        number = as_number("file", asked.values().get("file"))
        try:
            return self._there().file(number)
        except TravelError as error:
            raise ImpossibleActError(str(error)) from error
