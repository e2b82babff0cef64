"""How far something is, as one line. Pure."""

from __future__ import annotations

from typing import Final

from ..jobs import BroadcastStatus
from .terminal import harmless

_WIDTH: Final = 30


def drawn(share: float) -> str:
    """A bar, of which this share is full.

    Example:
        >>> drawn(0.5)
        '[###############---------------] '
    """
    full = int(share * _WIDTH)
    return f"[{'#' * full}{'-' * (_WIDTH - full)}] "


def progress_line(key: str, status: BroadcastStatus, *, bar: bool = True) -> str:
    """A broadcast's line; without the bar where nobody watches.

    Example:
        >>> progress_line("news", BroadcastStatus("sending", 200, sent=90, gone=10), bar=False)
        'news: sending, 100 of 200 (50 %), 90 sent, 10 gone, 0 failed, 0 unknown'
    """
    if status.state == "none":
        return f"{harmless(key)}: never started"
    behind = status.total - status.left
    share = behind / status.total if status.total else float(status.over)
    line = ""
    if bar:
        line = drawn(share)
    return (
        f"{harmless(key)}: {line}{status.state}, {behind:,} of {status.total:,} ({int(share * 100)} %),"
        f" {status.sent:,} sent, {status.gone:,} gone, {status.failed:,} failed, {status.unknown:,} unknown"
    )
