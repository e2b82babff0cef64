"""The twin, a process that replays journals: ``python -m triobot.studio.commands.twin WHOSE FD``.

See `travel.twin`. The twin has the environment of the bot's process. Output of the author's modules on import
is dropped, since the bot's process under ``triobot dev`` has already printed the same output.
"""

from __future__ import annotations

import sys
from typing import Any

import trio

from ..travel.twin import serve_twin


def main() -> None:
    """Answer the parent's requests until the parent is gone."""
    whose: Any = sys.argv[1]
    trio.run(serve_twin, int(sys.argv[2]), whose)


if __name__ == "__main__":
    main()
