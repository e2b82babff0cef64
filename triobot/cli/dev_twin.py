"""The twin's process under ``triobot dev``: ``python -m triobot.cli.dev_twin FD``; see `travel.twin`.

Its variables are those of the bot's process. What the author's modules print when they are loaded once more
is said by the bot already.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Final

import attrs
import trio

from ..bot import dry_services_of
from ..conversations.routes.router import table_of
from ..settings import read_environment
from ..travel.branching import Branching
from ..travel.twin import Loaded, serve_twin
from .loading import load_bot
from .replay import read_exported

MODULE: Final = __name__


def main() -> None:
    """Answer until the parent is gone."""
    branching = Branching()
    load = partial(_load, branching)
    trio.run(partial(serve_twin, int(sys.argv[1]), load, read_exported, branching))


def _load(branching: Branching, target: str) -> Loaded:
    bot = load_bot(target)
    settings = attrs.evolve(read_environment(os.environ), development=True)
    branching.loaded(bot, target, settings)
    return dry_services_of(bot, settings), table_of(bot)


if __name__ == "__main__":
    main()
