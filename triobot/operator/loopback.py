"""The way to an operator's listener: a Unix socket beside the store, or loopback and a key.

Where the system has no such sockets, the bot takes a free port of this machine, and writes its number and a
new key into a file beside the store that only its owner can read, as far as the system keeps others out.
Whoever can read it may ask.
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import secrets
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, final

from ..base.frozen import guarded
from ..base.open_files import CAREFUL, OWNER_ONLY
from ..base.secrets import Secret
from ..errors import ConfigError
from ..store import file_of as file_of

HOST: Final = "127.0.0.1"
HEADER: Final = "authorization"
_SCHEME: Final = "Bearer "
_LONGEST: Final = 4_096
_LONGEST_PATH: Final = 100
_DESCRIPTORS: Final = Path("/proc/self/fd")
_LONGEST_NAME: Final = _LONGEST_PATH - len(f"{_DESCRIPTORS}/12345/")


def is_on_server(store: str) -> bool:
    """Return whether the store at this address is in a database server."""
    return store.startswith("postgresql:")


def socket_path(store: str) -> Path | None:
    """Return the socket path of the bot with this store address; None if the store is no file."""
    path = file_of(store)
    return None if path is None else path.resolve().with_name(f"{path.name}.sock")


@contextmanager
def short_name(path: Path) -> Generator[str]:
    """Yield a name of this path that is short enough for the kernel; it holds within the block.

    Raises:
        OSError: there is none (ENAMETOOLONG), or the folder can't be opened. Where the system has no
            ``/proc``, none is made.
    """
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    if len(os.fsencode(path.name)) > _LONGEST_NAME or not _DESCRIPTORS.is_dir():
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{_DESCRIPTORS}/{folder}/{path.name}"
    finally:
        os.close(folder)


@final
@guarded
class Loopback:
    """Where a bot listens to its operator, and with which key."""

    port: int
    key: Secret

    @property
    def address(self) -> str:
        """Return where requests go."""
        return f"http://{HOST}:{self.port}"

    @property
    def header(self) -> tuple[str, str]:
        """Return the header that each request needs. *Sensitive*: it holds the key."""
        return HEADER, _SCHEME + self.key.reveal()

    def opens(self, given: bytes) -> bool:
        """Return whether this is the header's value; takes the same time wherever they differ."""
        return hmac.compare_digest(given, self.header[1].encode())


def has_unix_sockets() -> bool:
    """Return whether a bot is asked at a Unix socket here, without any key."""
    return hasattr(socket, "AF_UNIX")


def door_file(place: Path) -> Path:
    """Return the file that holds the door's port and key, in place of the socket at this path."""
    return place.with_suffix(".key")


def open_door(place: Path, port: int) -> Loopback:
    """Make a new key, and write it down.

    Raises:
        OSError: it can't be.
    """
    door, path = Loopback(port, Secret(secrets.token_urlsafe(32))), door_file(place)
    part = path.with_name(f"{path.name}.part")
    # Under the store's lock: what has this name is a dead process's, or nobody's.
    part.unlink(missing_ok=True)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFUL, OWNER_ONLY)
    try:
        os.write(fd, json.dumps({"port": port, "key": door.key.reveal()}).encode() + b"\n")
    finally:
        os.close(fd)
    part.replace(path)
    return door


def close_door(place: Path, door: Loopback) -> None:
    """Remove the file, unless it is another's by now."""
    with suppress(OSError, ConfigError):
        if read_door(place) == door:
            door_file(place).unlink()


def read_door(place: Path) -> Loopback | None:
    """Read where the bot listens; None if there is no such file.

    Raises:
        ConfigError: this user may not read it, or it holds something else.
    """
    path = door_file(place)
    try:
        with path.open("rb") as file:
            told: Any = json.loads(file.read(_LONGEST))
        return Loopback(int(told["port"]), Secret(str(told["key"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        raise ConfigError(
            f"this user may not ask the bot: {path} can't be read; run the command as the bot's user"
        ) from None
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{path} holds no key of a bot; delete it, if no bot runs") from None
