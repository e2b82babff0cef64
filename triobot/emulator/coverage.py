"""Which lines of the bot were reached, and the crowd: requests of the control API that concern them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from ..wire.rules import JsonValue
from .control import Asked, Given, as_number
from .exchange import Coverage, Exchange, TravelError
from .world import ImpossibleActError

_NOT_OURS: Final = "nothing is known of the bot's lines here: only `triobot dev` loads its code"

# Of `triobot.testing.Plan`, with what is usual here, the least and the most.
_RANGES: Final[Mapping[str, tuple[float, float, float]]] = {
    "chats": (20, 1, 10_000),
    "groups": (0, 0, 1_000),
    "hours": (12, 0.01, 10_000),
    "crashes": (3, 0, 10_000),
    "faults": (3, 0, 100),
}


@final
class CoverageControl:
    """Answers requests that concern the lines of the bot, and the crowd."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def changes(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {
            "lines": self._look,
            "crowd": self._let_in,
            "crowd/stop": self._stop,
            "crowd/open": self._open,
        }

    def looks(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {"lines": self._files, "lines/file": self._file, "crowd": self._crowd}

    def _coverage(self) -> Coverage:
        if self._exchange.coverage is None:
            raise ImpossibleActError(_NOT_OURS)
        return self._exchange.coverage

    async def _look(self, asked: Asked) -> JsonValue:
        asked.only(())
        coverage = self._coverage()
        try:
            await coverage.look()
        except (TravelError, OSError) as error:
            raise ImpossibleActError(str(error)) from error
        return coverage.files()

    def _files(self, asked: Asked) -> JsonValue:
        asked.only(())
        return None if self._exchange.coverage is None else self._exchange.coverage.files()

    def _file(self, asked: Asked) -> JsonValue:
        asked.only(("file",))
        number = as_number("file", asked.values().get("file"))
        try:
            return self._coverage().file(number)
        except TravelError as error:
            raise ImpossibleActError(str(error)) from error

    def _crowd(self, asked: Asked) -> JsonValue:
        asked.only(())
        return None if self._exchange.coverage is None else self._exchange.coverage.crowd()

    def _let_in(self, asked: Asked) -> JsonValue:
        asked.only(("seed", *_RANGES))
        plan: dict[str, JsonValue] = {"seed": asked.integer("seed", 0)}
        for name, (default, least, most) in _RANGES.items():
            plan[name] = asked.number(name, default, least, most)
        coverage = self._coverage()
        try:
            coverage.let_in(plan)
        except TravelError as error:
            raise ImpossibleActError(str(error)) from error
        return coverage.crowd()

    def _stop(self, asked: Asked) -> JsonValue:
        asked.only(())
        self._coverage().send_home()
        return {}

    def _open(self, asked: Asked) -> JsonValue:
        asked.only(())
        coverage, travels = self._coverage(), self._exchange.travels
        if travels is None:
            raise ImpossibleActError(_NOT_OURS)
        try:
            return travels.open_told(*coverage.failing())
        except TravelError as error:
            raise ImpossibleActError(str(error)) from error
