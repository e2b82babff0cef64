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

if TYPE_CHECKING:
    from ..emulator.exchange import Exchange
    from ..emulator.views import JsonObject

# What is lost by a kill -9 of the platform itself; a chat of thousands of messages takes a while to write.
_EVERY: Final = 2.0
_SHARE: Final = 20
_BEFORE: Final = "before_its_store"


def path_beside(store: str, suffix: str) -> Path | None:
    """Return the file of this kind beside the store at this address; None for a store that is no file."""
    engine, _, place = store.partition(":")
    if engine != "sqlite" or not place:
        return None
    path = Path(place).resolve()
    return path.with_name(f"{path.name}.{suffix}")


def read_skipped(store: str) -> int:
    """Read how many milliseconds were skipped in the runs before; 0 for a store that is made only now.

    Raises:
        ConfigError: the file holds something else.
    """
    path = path_beside(store, "ahead")
    if path is None or not path.exists() or not path.with_suffix("").exists():
        return 0
    text = path.read_text(errors="replace").strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise ConfigError(f"{path} should hold the milliseconds that were skipped; delete it, or mend it")
    return int(text)


def keep_skipped(store: str, milliseconds: int) -> None:
    """Remember how many milliseconds were skipped."""
    if (path := path_beside(store, "ahead")) is not None:
        path.write_text(f"{milliseconds}\n")


@final
class SavedPlatform:
    """Keeps a platform between runs; keeps nothing beside a store that is in memory, or is thrown away.

    Args:
        store: the address of a store that outlives the run; None where none does.

    Attributes:
        folder: where its files are; None where nothing is kept.
    """

    def __init__(self, store: str | None) -> None:
        self._path = path_beside(store, "platform") if store is not None else None
        self.folder: Path | None = None
        self._exchange: Exchange | None = None
        if self._path is not None:
            self.folder = self._path.with_suffix(".files")
            if not self._store_is_there() and not self._is_before_its_store():
                # The store was thrown away, and with it all that the bot knew of these people.
                self._path.unlink(missing_ok=True)
                shutil.rmtree(self.folder, ignore_errors=True)

    def load(self, exchange: Exchange) -> None:
        """Put back the platform of the run before; from now on it is this one that is kept.

        Raises:
            ConfigError: its file is damaged.
        """
        if self._path is not None and self._path.exists():
            try:
                pending = load_world(exchange.world, json.loads(self._path.read_bytes()))
            except (UnreadableWorldError, ValueError) as error:
                raise ConfigError(
                    f"{self._path} should hold the platform of the run before, and can't be read; "
                    "delete it together with the store, or mend it"
                ) from error
            exchange.pusher.push(*pending)
        self._exchange = exchange

    async def keep(self) -> None:
        """Write down what happens, for ever; a moment behind it."""
        if self._path is None or self._exchange is None:
            return
        heard, written = 0, None
        while True:
            heard = await self._exchange.wait_news(heard)
            began = trio.current_time()
            kept = self._dump(self._exchange, closed=False)
            # Most news is of requests, and of the bot's process.
            if kept != written:
                await trio.to_thread.run_sync(self._write, kept)
                written = kept
            await trio.sleep(max(_EVERY, _SHARE * (trio.current_time() - began)))

    def close(self) -> None:
        """Write down how it ended; nothing where none was loaded, so that what is damaged can be mended."""
        if self._path is not None and self._exchange is not None:
            self._write(self._dump(self._exchange, closed=True))

    def _dump(self, exchange: Exchange, *, closed: bool) -> JsonObject:
        kept = dump_world(exchange.world, exchange.pusher.pending, closed=closed)
        return {**kept, _BEFORE: not self._store_is_there()}

    def _store_is_there(self) -> bool:
        return cast("Path", self._path).with_suffix("").exists()

    def _is_before_its_store(self) -> bool:
        """Tell whether no bot had made the store when this was written: it failed, or the run was short."""
        try:
            kept = json.loads(cast("Path", self._path).read_bytes())
        except (OSError, ValueError):
            return False
        return isinstance(kept, dict) and cast("JsonObject", kept).get(_BEFORE) is True

    def _write(self, kept: JsonObject) -> None:
        path = cast("Path", self._path)
        fresh = path.with_name(f"{path.name}.new")
        # As private as the store: what was said in the chats is in it.
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(kept, file)
        fresh.replace(path)
