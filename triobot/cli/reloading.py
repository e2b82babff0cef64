"""Restarting the bot when its files change, by watchfiles where it is installed (the extra ``dev``)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import trio

from .loading import parse_target


def can_reload() -> bool:
    """Whether files can be watched here."""
    return importlib.util.find_spec("watchfiles") is not None


def folder_of(target: str) -> Path:
    """Where the files of a bot are: beside its own file, or under the working directory for a module."""
    place, _, is_file = parse_target(target)
    return Path(place).resolve().parent if is_file else Path.cwd()


async def watch(folder: Path, changed: Callable[[str], None]) -> None:
    """Call `changed` with the names of Python files that were saved, once for those saved together."""
    from watchfiles import PythonFilter, awatch

    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_set_at_end, stop)
        async for found in awatch(folder, watch_filter=PythonFilter(), stop_event=stop):
            changed(", ".join(sorted({Path(path).name for _, path in found})))


async def _set_at_end(stop: trio.Event) -> None:
    # The watching thread looks at this event every few milliseconds, and not at a cancellation.
    try:
        await trio.sleep_forever()
    finally:
        stop.set()
