"""A stand-in for the bot's process that the emulated platform shows under `triobot dev`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio
from quart import Blueprint

from triobot.emulator.exchange import Beside


@attrs.define(eq=False)
class FakeBeside:
    """A process that is only talked about.

    Attributes:
        views: what the page's stream is told, by name; each is asked for anew.
        routes: routes of its own.
    """

    views: dict[str, Callable[[], Any]] = attrs.field(factory=dict[str, Callable[[], Any]])
    routes: Sequence[Blueprint] = ()
    phase: str = "running"
    said: list[tuple[int, str]] = attrs.field(factory=lambda: [(1, "one"), (2, "two")])
    done: list[str] = attrs.field(factory=list[str])

    def process(self) -> dict[str, Any]:
        return {"phase": self.phase}

    def view(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "runtime": {},
            "inside": {"chats": [], "payments": []},
            "crowd": None,
            "travel": [],
            "held": [],
        }
        return told | {name: view() for name, view in self.views.items()}

    def lines(self, after: int) -> list[tuple[int, str]]:
        return [line for line in self.said if line[0] > after]

    async def pass_time(self, milliseconds: int) -> None:
        await trio.lowlevel.checkpoint()
        self.done.append(f"pass {milliseconds}")

    def beside(self) -> Beside:
        """Return it as the platform takes it."""
        return Beside(self.process, self.view, self.lines, self.pass_time, self.routes)
