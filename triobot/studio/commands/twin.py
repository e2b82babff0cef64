"""The twin, a process that replays journals: ``python -m triobot.studio.commands.twin WHOSE FD``.

See `travel.twin`. WHOSE is ``dev`` under ``triobot dev``. Under ``triobot inspect``, WHOSE is ``shown`` if
people's words and the bot's secrets are shown, else ``hidden``. The twin has the environment of the bot's
process. Output of the author's modules on import is dropped, since the bot's process under ``triobot dev``
has already printed the same output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

import attrs
import trio

from ...base.secrets import Secret
from ...cli.exported import read_exported
from ...cli.loading import load_bot
from ...conversations.routes.router import table_of
from ...emulator.views import JsonObject
from ...runtime.bot import Bot, dry_services_of
from ...runtime.settings import Settings, read_environment
from ..travel.twin import Branch, BranchedFrom, Loaded, serve_twin


def main() -> None:
    """Answer the parent's requests until the parent is gone."""
    whose, fd = sys.argv[1:]
    twin = _TwinBot(development=whose == "dev")
    branch, secrets = twin.branch if whose == "dev" else None, twin.secrets if whose == "hidden" else None
    trio.run(partial(serve_twin, int(fd), twin.load, read_exported, branch, secrets=secrets))


@final
class _TwinBot:
    """Loads the bot, and loads the code for branches when the first branch is opened.

    Branches need the emulator, which makes up a third of a twin's imports. Each save starts a twin, and most
    twins never open a branch.
    """

    def __init__(self, *, development: bool) -> None:
        self._development = development
        self._bot: tuple[Bot, str, Settings] | None = None
        self._branch: Branch | None = None

    def load(self, target: str) -> Loaded:
        """Load the bot, and return its dry services and its routes."""
        bot = load_bot(target)
        settings = read_environment(os.environ)
        if self._development:
            settings = attrs.evolve(settings, development=True)
        self._bot = bot, target, settings
        return dry_services_of(bot, settings), table_of(bot)

    def secrets(self) -> list[str]:
        """Return the bot's secret settings, split into words at commas."""
        if self._bot is None:
            return []
        settings = attrs.asdict(self._bot[0].settings(), recurse=False)
        texts = [value.reveal() for value in settings.values() if isinstance(value, Secret)]
        return [word for text in texts for word in text.split(",")]

    async def branch(
        self, what: str, asked: Mapping[str, Any], origin: Callable[[], BranchedFrom]
    ) -> JsonObject | str | None:
        """Answer a request about branches; see `Branching.answer`."""
        if self._branch is None:
            from ..travel.branching import Branching

            assert self._bot is not None, "a branch is of a bot that was loaded"
            self._branch = Branching(*self._bot).answer
        return await self._branch(what, asked, origin)


if __name__ == "__main__":
    main()
