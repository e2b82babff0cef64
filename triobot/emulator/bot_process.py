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

    def chats(self) -> Sequence[dict[str, JsonValue]]:
        """What goes on in its memory, chat by chat, those in which something happened last first."""
        ...

    def payments(self) -> Sequence[JsonValue]:
        """Its ledger's newest entries."""
        ...

    async def journal(self, conversation: int) -> Sequence[dict[str, JsonValue]]:
        """What happened in one of its conversations, record by record, for people.

        Raises:
            ImpossibleActError: there is none, or the bot doesn't run.
        """
        ...

    def lines(self, after: int) -> Sequence[tuple[int, str]]:
        """What it wrote behind this line, as far as it is kept, with the lines' growing numbers."""
        ...

    async def pass_time(self, milliseconds: int) -> None:
        """Put its clocks forward; returns once it has done what was due, or a moment later."""
        ...

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        ...

    def restart(self) -> None:
        """Start it, or bring it to rest and start it again."""
        ...
