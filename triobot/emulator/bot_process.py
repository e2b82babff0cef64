"""The bot's own process, where the program that runs the emulator runs the bot, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..wire.rules import JsonValue


class BotProcess(Protocol):
    """What people may know of the bot's process, and do to it."""

    def view(self) -> dict[str, JsonValue]:
        """Return the process's state: ``phase``, ``pid``, ``since``, ``starts``, ``problem``, ``target``."""
        ...

    def runtime(self) -> dict[str, JsonValue]:
        """Return the bot's counts by name, and its ``alarms``; empty until the bot reports them."""
        ...

    def chats(self) -> Sequence[dict[str, JsonValue]]:
        """Return the chats in its memory, those with the latest happenings first."""
        ...

    def payments(self) -> Sequence[JsonValue]:
        """Return the newest entries of its ledger."""
        ...

    async def journal(self, conversation: int) -> Sequence[dict[str, JsonValue]]:
        """Return the records of one of its conversations in readable form, in their order.

        Raises:
            ImpossibleActError: there is none, or the bot doesn't run.
        """
        ...

    def lines(self, after: int) -> Sequence[tuple[int, str]]:
        """Return the lines that it wrote after this number and that are still kept, with their numbers."""
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
