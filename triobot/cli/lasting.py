"""The platform of ``triobot dev`` beside a store that outlives the run: its people, chats, money and files.

A bot whose store is kept goes on talking to the chats that it knows. Were the next run's platform a new one,
it would refuse all of them, and give their numbers to others.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import trio

from ..emulator.remembering import UnreadableWorldError, dump_world, load_world
from ..errors import ConfigError
from .skipped import lasting_path

if TYPE_CHECKING:
    from ..emulator.exchange import Exchange
    from ..emulator.views import JsonObject

# What is lost by a kill -9 of the platform itself; a chat of thousands of messages takes a while to write.
_EVERY: Final = 2.0
_SHARE: Final = 20


@final
class Lasting:
    """Where a platform is kept between runs; nowhere beside a store that is made only now, or in memory.

    Attributes:
        folder: where its files are; None where nothing is kept.
    """

    def __init__(self, store: str, *, keep: bool) -> None:
        self._path = lasting_path(store, "platform") if keep else None
        self.folder: Path | None = None
        if self._path is not None:
            self.folder = self._path.with_suffix(".files")
            if not self._path.with_suffix("").exists():
                # The store was thrown away, and who knew these people with it.
                self._path.unlink(missing_ok=True)
                shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, exchange: Exchange) -> None:
        """Put back the platform of the run before.

        Raises:
            ConfigError: its file is damaged.
        """
        if self._path is None or not self._path.exists():
            return
        try:
            pending = load_world(exchange.world, json.loads(self._path.read_bytes()))
        except (UnreadableWorldError, ValueError) as error:
            raise ConfigError(
                f"{self._path} should hold the platform of the run before, and can't be read; "
                "delete it together with the store, or mend it"
            ) from error
        exchange.pusher.push(*pending)

    async def keep(self, exchange: Exchange) -> None:
        """Write down what happens, for ever; a moment behind it."""
        if self._path is None:
            return
        heard, written = 0, None
        while True:
            heard = await exchange.wait_news(heard)
            began = trio.current_time()
            kept = dump_world(exchange.world, exchange.pusher.pending, closed=False)
            # Most news is of requests, and of the bot's process.
            if kept != written:
                await trio.to_thread.run_sync(self._write, kept)
                written = kept
            await trio.sleep(max(_EVERY, _SHARE * (trio.current_time() - began)))

    def close(self, exchange: Exchange) -> None:
        """Write down how it ended."""
        if self._path is not None:
            self._write(dump_world(exchange.world, exchange.pusher.pending, closed=True))

    def _write(self, kept: JsonObject) -> None:
        path = cast("Path", self._path)
        fresh = path.with_name(f"{path.name}.new")
        # As private as the store: what was said in the chats is in it.
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(kept, file)
        fresh.replace(path)
