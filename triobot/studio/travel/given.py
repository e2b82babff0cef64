"""A twin's objects that branches need: the loaded bot, and the journals of a branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import attrs

from ...base.frozen import guarded
from ...base.secrets import Secret
from ...conversations.revival.stored import Stored
from ...conversations.routes.declarations import Table
from ...conversations.services import Services
from ...runtime.bot import Bot
from ...runtime.settings import Settings


@final
@guarded
class LoadedBot:
    """The bot that a twin has loaded.

    Attributes:
        target: the bot as ``MODULE:BOT``.
        services: services without effects.
    """

    bot: Bot
    target: str
    settings: Settings
    services: Services
    table: Table

    def secrets(self) -> list[str]:
        """Return the bot's secret settings, split into words at commas."""
        settings = attrs.asdict(self.bot.settings(), recurse=False)
        texts = [value.reveal() for value in settings.values() if isinstance(value, Secret)]
        return [word for text in texts for word in text.split(",")]


@final
@guarded
class PastOrigin:
    """The journals from which a branch or a test starts.

    Attributes:
        beside: journals of the chat's other conversations.
        group: whether the chat is a group; None: the journal decides.
    """

    stored: Stored
    beside: Sequence[Stored] = ()
    group: bool | None = None
