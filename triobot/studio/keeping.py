"""A platform between two runs: its people, chats, money, files and keys, in a file of its own.

One run at a time has it, from before anything is read until after the last word is written.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self, cast, final

import trio

from ..base.file_locks import try_lock
from ..emulator.exchange import Exchange
from ..emulator.remembering import UnreadableWorldError, dump_world, load_world
from ..errors import ConfigError
from ..operator.loopback import file_of

# What is lost by a kill -9 of the platform itself; a chat of thousands of messages takes a while to write.
_EVERY: Final = 2.0
_SHARE: Final = 20
# Windows has neither: there a descriptor isn't inherited unless told so, and few may make a link.
_CAREFULLY: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_BEFORE: Final = "before_its_store"


def path_beside(store: str, suffix: str) -> Path | None:
    """Return the file of this kind beside the store at this address; None for a store that is no file."""
    path = file_of(store)
    return None if path is None else path.resolve().with_name(f"{path.name}.{suffix}")


@final
class SavedPlatform:
    """Keeps a platform between runs.

    Args:
        path: its file; None to keep nothing.
        store: the store of its bot, if the platform is worth nothing without that.

    Attributes:
        folder: where its files are; None where nothing is kept.
        ahead: how far its clock was ahead, in milliseconds.

    Raises:
        ConfigError: another run has it, or its file is damaged.
    """

    def __init__(self, path: Path | None, *, store: Path | None = None) -> None:
        self._path = path
        self._store = store
        self._exchange: Exchange | None = None
        self._secrets: dict[str, str] = {}
        self._world: str | None = None
        self.folder: Path | None = None
        self.ahead = 0
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
        """Keep it beside a bot's store that outlives the run; nothing, if this is None or no file."""
        if store is None or (path := path_beside(store, "platform")) is None:
            return cls(None)
        return cls(path, store=path.with_suffix(""))

    def _find(self, path: Path, folder: Path) -> None:
        if not path.exists():
            return
        try:
            kept: object = json.loads(path.read_bytes())
            if not isinstance(kept, dict):
                raise TypeError("a JSON object is kept there")
            found = cast("dict[str, Any]", kept)
            if not self._store_is_there() and found.get(_BEFORE) is not True:
                # The store was thrown away, and with it all that the bot knew of these people.
                self._throw_away(path, folder)
                return
            self._world = found["world"]
            self._secrets = {**found.get("secrets", {})}
            self.ahead = int(found.get("ahead", 0))
        except (OSError, ValueError, KeyError, TypeError) as error:
            if self._store_is_there():
                raise self._damaged() from error
            self._throw_away(path, folder)

    def _throw_away(self, path: Path, folder: Path) -> None:
        path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)

    def secret(self, name: str, given: str | None = None) -> str:
        """Return the key of this name: the one that is given, else that of the run before, else a new one."""
        self._secrets[name] = given or self._secrets.get(name) or secrets.token_urlsafe(24)
        return self._secrets[name]

    def load(self, exchange: Exchange) -> None:
        """Put back the platform of the run before; from now on it is this one that is kept.

        Raises:
            ConfigError: its file is damaged.
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
        """Write down what happens, for ever; a moment behind it."""
        if self._path is None or self._exchange is None:
            return
        heard, written = 0, None
        while True:
            began = trio.current_time()
            kept = self._dump(self._exchange, closed=False)
            # Most news is of requests, and of the bot's process.
            if kept != written:
                await trio.to_thread.run_sync(self._write, kept)
                written = kept
            await trio.sleep(max(_EVERY, _SHARE * (trio.current_time() - began)))
            heard = await self._exchange.wait_news(heard)

    def close(self) -> None:
        """Write down how it ended; nothing where none was loaded, so that what is damaged can be mended."""
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
            "world": dump_world(exchange.world, exchange.pusher.pending, closed=closed),
        }

    def _store_is_there(self) -> bool:
        return self._store is None or self._store.exists()

    def _write(self, kept: Mapping[str, object]) -> None:
        path = cast("Path", self._path)
        fresh = path.with_name(f"{path.name}.new")
        # As private as the store: what was said in the chats is in it, and the keys.
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(kept, file)
        fresh.replace(path)


def _locked(path: Path) -> int:
    """Take the platform of this file. Its lock stays behind: deleting that would race with the next run."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | _CAREFULLY, 0o600)
    except OSError as error:
        raise ConfigError(f"{lock} can't be opened: {error.strerror}") from None
    if not try_lock(fd):
        os.close(fd)
        raise ConfigError(
            f"another `triobot dev` or `triobot emulate` has the platform in {path}; end it, or name another"
            " store. Nothing of it was changed"
        )
    return fd
