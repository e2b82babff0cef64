"""Copies a store, and kills itself at the nth transaction: right before its commit, or right after it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from triobot.store import Stamp
from triobot.store.copying import copier, ends, tables

STAMP = Stamp("https://platform.test/api", "token-one")


class _Noon:
    def now(self) -> int:
        return 1_800_000_000_000


def _dying(put: Callable[..., None], at: int, when: str, counted: list[int]) -> Callable[..., None]:
    def put_and_die(end: Any, work: Callable[[], object]) -> None:
        counted[0] += 1
        number = counted[0]

        def do() -> None:
            work()
            if number == at and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)

        put(end, do)
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return put_and_die


def main(origin: str, target: str, at: str, when: str) -> None:
    """Copy, with a page for every few rows."""
    from triobot.store.postgres import end

    tables._MOST_ROWS = 12  # type: ignore[misc]
    counted = [0]
    for kind in (ends.FileEnd, end.PostgresEnd):
        kind.put = _dying(kind.put, int(at), when, counted)  # type: ignore[method-assign, assignment]
    rows = copier.copy_elsewhere(origin, target, stamp=STAMP, clock=_Noon(), tell=print)
    print(f"done {counted[0]} {rows}")


if __name__ == "__main__":
    main(*sys.argv[1:])
