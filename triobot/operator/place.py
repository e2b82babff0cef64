"""Where a bot's socket is: beside its store, under the store's name.

The kernel takes about a hundred characters for the path of a Unix socket, and folders can be deeper. On Linux
a folder that is open has a short name of its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LONGEST: Final = 100
_LONGEST_NAME: Final = _LONGEST - len("/proc/self/fd/12345/")


def socket_path(store: str) -> Path | None:
    """Return the socket path of the bot with this store address; None if the store is no file."""
    engine, _, place = store.partition(":")
    if engine != "sqlite" or not place:
        return None
    path = Path(place).resolve()
    return path.with_name(f"{path.name}.sock")


@contextmanager
def short_name(path: Path) -> Generator[str]:
    """Yield a name of this path that is short enough for the kernel; it holds within the block.

    Raises:
        OSError: there is none (ENAMETOOLONG), or the folder can't be opened.
    """
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
