"""The bot's own process, where the program that runs the emulator runs the bot, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..wire.rules import JsonValue


class BotProcess(Protocol):
    """What people may know of the bot's process, and do to it."""

    def view(self) -> dict[str, JsonValue]:
        """How it is: ``phase``, ``pid``, ``since``, ``starts``, ``problem``, ``target``."""
        ...

    def runtime(self) -> dict[str, JsonValue]:
        """What the bot says of itself: counts by name, and its ``alarms``; empty while it says nothing."""
        ...

    def lines(self, after: int) -> Sequence[tuple[int, str]]:
        """What it wrote behind this line, as far as it is kept, with the lines' growing numbers."""
        ...

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        ...

    def restart(self) -> None:
        """Start it, or bring it to rest and start it again."""
        ...
