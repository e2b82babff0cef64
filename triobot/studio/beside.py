"""The parts of `triobot dev` beside the platform, for the platform's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from quart import Blueprint

from ..base.frozen import guarded
from ..emulator.exchange import Exchange
from ..wire.rules import JsonValue
from .commands.dev_reload import HeldReload
from .supervisor import BotSupervisor
from .travel.crowds import CrowdProcess
from .travel.routes import bot_blueprint, past_blueprint
from .travel.twins import Twins


@final
@guarded(eq=False)
class Development:
    """The bot's process and the views of its conversations; see `triobot.emulator.exchange.Beside`."""

    exchange: Exchange
    bot: BotSupervisor
    travels: Twins
    crowds: CrowdProcess
    reload: HeldReload

    def process(self) -> dict[str, JsonValue]:
        return self.bot.view()

    def view(self) -> dict[str, JsonValue]:
        return {
            **self.bot.reported,
            "crowd": self.crowds.crowd(),
            "travel": list(self.travels.view()),
            "held": list(self.reload.view()),
        }

    def lines(self, after: int) -> Sequence[tuple[int, str]]:
        return self.bot.lines(after)

    async def pass_time(self, milliseconds: int) -> None:
        await self.bot.pass_time(milliseconds)

    def blueprints(self) -> Sequence[Blueprint]:
        return (
            past_blueprint(self.exchange, self.travels, self.reload),
            bot_blueprint(self.bot, self.crowds, self.travels),
        )
