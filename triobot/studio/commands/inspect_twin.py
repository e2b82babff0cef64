"""The twin's process under ``triobot inspect``: ``python -m triobot.studio.commands.inspect_twin VALUES FD``.

VALUES is ``hidden`` or ``shown``. What the author's modules print when they are loaded says nobody anything
here. See `travel.twin`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Final, final

import attrs
import trio

from ...base.secrets import Secret
from ...cli.exported import read_exported
from ...cli.loading import load_bot
from ...conversations.routes.router import table_of
from ...runtime.bot import Bot, dry_services_of
from ...runtime.settings import read_environment
from ..travel.twin import Loaded, serve_twin

MODULE: Final = __name__


def main() -> None:
    """Answer until the parent is gone."""
    values, fd = sys.argv[1:]
    loading = _Loading()
    secrets = None if values == "shown" else loading.secrets
    trio.run(partial(serve_twin, int(fd), loading.load, read_exported, secrets=secrets))


@final
class _Loading:
    """Loads the bot, and knows its secrets then."""

    def __init__(self) -> None:
        self._bot: Bot | None = None

    def load(self, target: str) -> Loaded:
        """Load it, closed."""
        self._bot = load_bot(target)
        return dry_services_of(self._bot, read_environment(os.environ)), table_of(self._bot)

    def secrets(self) -> list[str]:
        """Return what its settings keep secret, each word."""
        if self._bot is None:
            return []
        settings = attrs.asdict(self._bot.settings(), recurse=False)
        texts = [value.reveal() for value in settings.values() if isinstance(value, Secret)]
        return [word for text in texts for word in text.split(",")]


if __name__ == "__main__":
    main()
