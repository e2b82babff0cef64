"""How much time was skipped under ``triobot dev``, kept beside a store that outlives the run.

What the bot waits for is stored as a time of day. Were the next run's clocks those of the machine again, a
bot that has lived through a skipped day would stand still for that day.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError


def lasting_path(store: str, suffix: str) -> Path | None:
    """The file of this kind beside this store (its address); None for a store that is beside nothing."""
    engine, _, place = store.partition(":")
    if engine != "sqlite" or not place:
        return None
    path = Path(place).resolve()
    return path.with_name(f"{path.name}.{suffix}")


def read_skipped(store: str) -> int:
    """How many milliseconds were skipped in the runs before; 0 for a store that is made only now.

    Raises:
        ConfigError: the file holds something else.
    """
    path = lasting_path(store, "ahead")
    if path is None or not path.exists() or not path.with_suffix("").exists():
        return 0
    text = path.read_text(errors="replace").strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise ConfigError(f"{path} should hold the milliseconds that were skipped; delete it, or mend it")
    return int(text)


def keep_skipped(store: str, milliseconds: int) -> None:
    """Remember how many milliseconds were skipped."""
    if (path := lasting_path(store, "ahead")) is not None:
        path.write_text(f"{milliseconds}\n")
