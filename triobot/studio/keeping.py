"""Saves the emulated platform to a file for the next start: people, chats, money, uploaded files and keys.

A lock file gives one process at a time exclusive use of the saved platform, from before the first read until
after the last write.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self, cast, final

import trio

from ..base.file_locks import try_lock
from ..base.open_files import CAREFUL, OWNER_ONLY
from ..emulator.exchange import Exchange
from ..emulator.remembering import UnreadableWorldError, dump_world, load_world
from ..emulator.views import JsonObject
from ..errors import ConfigError
from ..operator.loopback import file_of

# Minimum seconds between two writes. A kill -9 of the platform's process loses the changes since the last
# write. A write of a chat with thousands of messages takes long, so the pause after a write is also at least
# `_SHARE` times the write's duration.
_EVERY: Final = 2.0
_SHARE: Final = 20
_MARKS: Final = 1_000
_BEFORE: Final = "before_its_store"


@final
class SavedPlatform:
    """Saves the platform's state to a file, and restores the state at the next start.

    Args:
        path: file for the saved state; None saves nothing.
        store: store of the platform's bot. If the store is missing, the saved platform is deleted. A platform
            that was saved before its bot created the store is kept.

    Attributes:
        folder: folder of the uploaded files; None if nothing is saved.
        ahead: lead of the platform's clock over real time, in milliseconds.
        marks: the newest kills, restarts and failures of the bot's process.

    Raises:
        ConfigError: another process holds the lock, or the file is damaged.
    """

    def __init__(self, path: Path | None, *, store: Path | None = None) -> None:
        self._path = path
        self._store = store
        self._exchange: Exchange | None = None
        self._secrets: dict[str, str] = {}
        self._world: str | None = None
        self.folder: Path | None = None
        self.ahead = 0
        self.marks = deque[JsonObject](maxlen=_MARKS)
        self._lock: int | None = None
        if path is None:
            return
        self.folder = path.with_name(f"{path.name.removesuffix('.platform')}.files")
        self._lock = _locked(path)
        try:
            self._find(path, self.folder)
        except BaseException:
            os.close(self._lock)
            raise

    @classmethod
    def beside(cls, store: str | None) -> Self:
        """Save the platform beside the bot's store `store`; save nothing if `store` is None or not a file."""
        if store is None or (path := file_of(store)) is None:
            return cls(None)
        path = path.resolve()
        return cls(path.with_name(f"{path.name}.platform"), store=path)

    def _find(self, path: Path, folder: Path) -> None:
        if not path.exists():
            return
        try:
            kept: object = json.loads(path.read_bytes())
            if not isinstance(kept, dict):
                raise TypeError("a JSON object is kept there")
            found = cast("dict[str, Any]", kept)
            if not self._store_is_there() and found.get(_BEFORE) is not True:
                # The bot's data about the platform's people was deleted with the store.
                self._throw_away(path, folder)
                return
            self._world = found["world"]
            self._secrets = {**found.get("secrets", {})}
            self.ahead = int(found.get("ahead", 0))
            self.marks.extend(found.get("marks", ()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            if self._store_is_there():
                raise self._damaged() from error
            self._throw_away(path, folder)

    def _throw_away(self, path: Path, folder: Path) -> None:
        path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def secret(self, name: str, given: str | None = None) -> str:
        """Return the secret `name`: `given`, else the saved secret, else a new random secret."""
        self._secrets[name] = given or self._secrets.get(name) or secrets.token_urlsafe(24)
        return self._secrets[name]

    def load(self, exchange: Exchange) -> None:
        """Restore the saved platform into `exchange`, and save `exchange` from now on.

        Raises:
            ConfigError: the file is damaged.
        """
        if self._world is not None:
            try:
                pending = load_world(exchange.world, self._world)
            except UnreadableWorldError as error:
                raise self._damaged() from error
            exchange.pusher.push(*pending)
        self._exchange = exchange

    def _damaged(self) -> ConfigError:
        together = "" if self._store is None else " together with the store"
        return ConfigError(
            f"{self._path} should hold the platform of the run before, and can't be read; "
            f"delete it{together}, or mend it"
        )

    async def keep(self) -> None:
        """Until cancelled, write the state to the file shortly after each change of the platform."""
        if self._path is None or self._exchange is None:
            return
        heard, written = 0, None
        while True:
            began = trio.current_time()
            kept = self._dump(self._exchange, closed=False)
            # Most news, such as requests or states of the bot's process, doesn't change the saved text.
            if kept != written:
                await trio.to_thread.run_sync(self._write, kept)
                written = kept
            await trio.sleep(max(_EVERY, _SHARE * (trio.current_time() - began)))
            heard = await self._exchange.wait_news(heard)

    def close(self) -> None:
        """Write the state, and release the lock. After a failed `load`, the damaged file stays unchanged."""
        if self._path is not None and self._exchange is not None:
            self._write(self._dump(self._exchange, closed=True))
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _dump(self, exchange: Exchange, *, closed: bool) -> Mapping[str, object]:
        return {
            _BEFORE: not self._store_is_there(),
            "secrets": self._secrets,
            "ahead": exchange.clock.ahead,
            "marks": [*self.marks],
            "world": dump_world(exchange.world, exchange.pusher.pending, closed=closed),
        }

    def _store_is_there(self) -> bool:
        return self._store is None or self._store.exists()

    def _write(self, kept: Mapping[str, object]) -> None:
        path = cast("Path", self._path)
        fresh = path.with_name(f"{path.name}.new")
        # The file must be as private as the store, since it contains the chats' messages, and the keys.
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(kept, file)
        fresh.replace(path)


def _locked(path: Path) -> int:
    """Lock the saved platform. The lock file is never deleted: a deletion races with the next process."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | CAREFUL, OWNER_ONLY)
    except OSError as error:
        raise ConfigError(f"{lock} can't be opened: {error.strerror}") from None
    if not try_lock(fd):
        os.close(fd)
        raise ConfigError(
            f"another `triobot dev` or `triobot emulate` has the platform in {path}; end it, or name another"
            " store. Nothing of it was changed"
        )
    return fd
