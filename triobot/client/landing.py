"""Where a fetched file lands: never where its sender says, and never half.

Bytes go to a file beside the place, which takes the place only when it is whole.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

import trio

# Endings that a desktop opens in a viewer or a player. Anything else is kept without one, so that nothing
# which a sender named "invoice.exe" or "report.html" runs by a click.
_SUFFIXES: Final = frozenset(
    {".jpg", ".jpeg", ".png", ".gif", ".webp", ".heic"}
    | {".mp4", ".m4v", ".mov", ".webm", ".mkv", ".3gp"}
    | {".mp3", ".m4a", ".aac", ".ogg", ".oga", ".opus", ".wav", ".flac", ".amr"}
    | {".pdf", ".txt", ".zip"}
)


async def place_for(to: Path, name: str) -> Path:
    """`to` itself, or a random name inside it when it is a directory.

    Of `name`, the sender's, at most a harmless ending is taken over.
    """
    if await trio.Path(to).is_dir():
        return to / f"{secrets.token_hex(16)}{harmless_suffix(name)}"
    return to


def harmless_suffix(name: str) -> str:
    """The ending of a name, in lower case, if it is on the list; else nothing."""
    suffix = PurePosixPath(name).suffix.lower()
    return suffix if suffix in _SUFFIXES else ""


@asynccontextmanager
async def new_file(place: Path) -> AsyncGenerator[BinaryIO, None]:
    """A file to write to, which takes `place` when the block ends well and is gone when it doesn't.

    Only the owner can read it. What was at `place` before is replaced; a link there is replaced, not
    followed.

    Raises:
        OSError: the disk's refusal, as it is.
    """
    temporary = place.with_name(f".{secrets.token_hex(12)}.part")
    file = await trio.to_thread.run_sync(_create, temporary)
    try:
        yield file
        await trio.to_thread.run_sync(_finish, file, temporary, place)
    except BaseException:
        # Shielded, because a cancelled download must not leave its half behind; a local disk's time at most.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(_discard, file, temporary)
        raise


def _create(temporary: Path) -> BinaryIO:
    return os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


def _finish(file: BinaryIO, temporary: Path, place: Path) -> None:
    file.close()
    temporary.replace(place)


def _discard(file: BinaryIO, temporary: Path) -> None:
    # Closing writes what is buffered, which fails again on a full disk.
    with suppress(OSError):
        file.close()
    temporary.unlink(missing_ok=True)
