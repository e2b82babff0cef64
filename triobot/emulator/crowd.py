"""Requests of the control API that concern the simulated crowd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from ..wire.rules import JsonValue
from .control import Asked, Given
from .exchange import Crowds, Exchange, TravelError
from .world import ImpossibleActError

_NOT_OURS: Final = "there is no crowd here: only `triobot dev` loads the bot's code"

# Settings of `triobot.testing.Plan`: default, least and greatest value.
_RANGES: Final[Mapping[str, tuple[float, float, float]]] = {
    "chats": (20, 1, 10_000),
    "groups": (0, 0, 1_000),
    "hours": (12, 0.01, 10_000),
    "crashes": (3, 0, 10_000),
    "faults": (3, 0, 100),
}


@final
class CrowdControl:
    """Answers requests that concern the crowd."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def changes(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {"crowd": self._let_in, "crowd/stop": self._stop, "crowd/open": self._open}

    def looks(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {"crowd": self._crowd}

    def _crowds(self) -> Crowds:
        if self._exchange.crowds is None:
            raise ImpossibleActError(_NOT_OURS)
        return self._exchange.crowds

    def _crowd(self, asked: Asked) -> JsonValue:
        asked.only(())
        return None if self._exchange.crowds is None else self._exchange.crowds.crowd()

    def _let_in(self, asked: Asked) -> JsonValue:
        asked.only(("seed", *_RANGES))
        plan: dict[str, JsonValue] = {"seed": asked.integer("seed", 0)}
        for name, (default, least, most) in _RANGES.items():
            plan[name] = asked.number(name, default, least, most)
        crowds = self._crowds()
        try:
            crowds.let_in(plan)
        except TravelError as error:
            raise ImpossibleActError(str(error)) from error
        return crowds.crowd()

    def _stop(self, asked: Asked) -> JsonValue:
        asked.only(())
        self._crowds().send_home()
        return {}

    def _open(self, asked: Asked) -> JsonValue:
        asked.only(())
        crowds, travels = self._crowds(), self._exchange.travels
        if travels is None:
            raise ImpossibleActError(_NOT_OURS)
        try:
            return travels.open_told(*crowds.failing())
        except TravelError as error:
            raise ImpossibleActError(str(error)) from error
