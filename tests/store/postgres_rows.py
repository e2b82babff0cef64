"""What stores in PostgreSQL hold, for bots that are driven in virtual time: in place of `MemoryRows`.

Each job is done where it is asked for, by a real server. The loop stands still meanwhile, and with it the
virtual clock, so that what is decided by a seed is decided by it here, too.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final, cast, final

import pytest
import trio

from tests.postgres import Server
from triobot.base.clock import WallClock
from triobot.store import Stamp
from triobot.store.inline import InlineWriter
from triobot.store.rules import RETENTION, Retention
from triobot.store.table_store import Store
from triobot.store.writer import Job, Transactions
from triobot.testing import driving

_STAMP: Final = Stamp("https://platform.test", "t")


@final
class PostgresRows:
    """One store after another in the schema ``triobot``, which is emptied first.

    Attributes:
        server: that holds them.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._opened: Any = None
        self._writer: InlineWriter | None = None
        server.empty()

    @property
    def tables(self) -> Any:
        """Those of the store that is open."""
        return self._opened.tables

    @property
    def turn(self) -> Any:
        """The turn of whoever speaks over the session: a thread that looks after it does, too."""
        return self._opened.turn

    def open(self, clock: WallClock, retention: Retention = RETENTION) -> Store:
        """Open the store, for a new run."""
        from triobot.store.postgres.address import read_address
        from triobot.store.postgres.opened import open_here

        address = read_address(self.server.url().partition(":")[2])
        self._opened = opened = open_here(address, _STAMP, now=clock.now(), retention=retention)
        alone = cast("Transactions", _Alone(opened))
        self._writer = InlineWriter(opened.tables, alone, clock)
        return Store(opened.opening, self._writer, opened.notes, clock, back_up=_back_up)

    def run(self, job: Job[Any]) -> Exception | None:
        """Do a job by itself, and tell whether it failed."""
        return _Alone(self._opened).run_alone(job)

    def close(self, now: int) -> None:
        """Close the store, and note that its run ended cleanly."""
        assert self._writer is not None
        self._writer.close()
        self._opened.close(clean=True, now=now)

    def crashed(self) -> None:
        """Have the next run believe that this one, which was closed, had been killed."""
        self.server.ask("DELETE FROM triobot.meta WHERE name = 'clean'")


@final
class _Alone:
    """Runs each job as a batch of its own."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def run_alone(self, job: Job[Any]) -> Exception | None:
        verdict: Exception | None
        with self._opened.turn:
            (verdict,) = self._opened.transactions.run([job])
        return verdict


async def _back_up(path: Path) -> None:
    await trio.lowlevel.checkpoint()
    raise NotImplementedError


def drive_on(server: Server, patch: pytest.MonkeyPatch) -> None:
    """Keep the stores of the bots that are driven on this server."""
    patch.setattr(driving, "MemoryRows", partial(PostgresRows, server))
