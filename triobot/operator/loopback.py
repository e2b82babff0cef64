"""Access to an operator's listener: a Unix socket beside the store, or a loopback port with a key.

On systems without Unix sockets, the bot listens on a free port of this computer. The bot writes the port and
a new key to a file beside the store. On a system with file permissions, only the file's owner can read the
file. Anyone who can read the file may send requests.
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
    """Return whether the store at this address is on a database server."""
    return store.startswith("postgresql:")


def socket_path(store: str) -> Path | None:
    """Return the path of the bot's socket beside the store at `store`; None if the store is no file."""
    path = file_of(store)
    return None if path is None else path.resolve().with_name(f"{path.name}.sock")


@contextmanager
def short_name(path: Path) -> Generator[str]:
    """Yield a name for `path` that is short enough for a socket; valid within the block.

    Raises:
        OSError: there is no short name (ENAMETOOLONG), or the folder can't be opened. A long path needs a
            system with ``/proc``.
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
    """A bot's loopback port and key for its operator."""

    port: int
    key: Secret

    @property
    def address(self) -> str:
        """Base address of requests."""
        return f"http://{HOST}:{self.port}"

    @property
    def header(self) -> tuple[str, str]:
        """Name and value of the header that each request needs. *Sensitive*: the value contains the key."""
        return HEADER, _SCHEME + self.key.reveal()

    def opens(self, given: bytes) -> bool:
        """Return whether `given` is the right value of the header.

        The comparison takes the same time for every wrong value.
        """
        return hmac.compare_digest(given, self.header[1].encode())


def has_unix_sockets() -> bool:
    """Return whether this system has Unix sockets; with a Unix socket, no key is needed."""
    return hasattr(socket, "AF_UNIX")


def door_file(place: Path) -> Path:
    """Return the path of the file with port and key; the file replaces the socket at `place`."""
    return place.with_suffix(".key")


def open_door(place: Path, port: int) -> Loopback:
    """Make a new key, and write port and key to the file.

    Raises:
        OSError: the file can't be written.
    """
    door, path = Loopback(port, Secret(secrets.token_urlsafe(32))), door_file(place)
    part = path.with_name(f"{path.name}.part")
    # The caller has the store's lock, so a file of this name is left over from a dead process.
    part.unlink(missing_ok=True)
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CAREFUL, OWNER_ONLY)
    try:
        os.write(fd, json.dumps({"port": port, "key": door.key.reveal()}).encode() + b"\n")
    finally:
        os.close(fd)
    part.replace(path)
    return door


def close_door(place: Path, door: Loopback) -> None:
    """Delete the file with port and key, unless another bot has replaced the file."""
    with suppress(OSError, ConfigError):
        if read_door(place) == door:
            door_file(place).unlink()


def read_door(place: Path) -> Loopback | None:
    """Return the bot's port and key from the file; None if there is no file.

    Raises:
        ConfigError: this user may not read the file, or its content is invalid.
    """
    path = door_file(place)
    try:
        with path.open("rb") as file:
            fields: Any = json.loads(file.read(_LONGEST))
        return Loopback(int(fields["port"]), Secret(str(fields["key"])))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        raise ConfigError(
            f"this user may not ask the bot: {path} can't be read; run the command as the bot's user"
        ) from None
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{path} holds no key of a bot; delete it, if no bot runs") from None
