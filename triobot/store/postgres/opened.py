"""An open store: its schema, and the session that has it.

The order matters: the server is looked at before anything is asked of it; the schema is known to be ours, and
of a version that can be read, before anything is written. One transaction takes the store, migrates it and
counts the run, under the lock of the row of its owner: it ends with an owner, or leaves no trace. From then
on the lock of the session is what keeps a process from writing that has lost the store, and does not know it
yet (`ownership`).
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

import attrs
import psycopg
from psycopg import errors
from psycopg.rows import TupleRow

from ...base.clock import steady_time
from ...errors import StoreLockedError, TriobotError
from ...seams.journals import Lease, Opening
from ...seams.writes import LeaseLostError
from ..broadcasts import stop_after_restore
from ..lock import FileLock, locked, machine_boot
from ..notes import WorkNotes
from ..opening import LEAP, begin_epoch, count_run
from ..rules import Retention
from ..schema import Copying, Stamp, check_whole, get_meta, put_meta
from .address import PostgresAddress
from .failures import first_line, for_the_opener
from .history import SEEN, go_on, history_of, store_of
from .ownership import (
    COUNT,
    CUT,
    GRACE,
    SECONDS,
    SETTLE,
    SETTLE_SURELY,
    TAKE,
    THERE,
    SpokenLease,
    end_silent,
    free_for,
    hold,
)
from .rows import PostgresTables
from .schemas import make_store, migrate, numbers_key
from .session import Connection, Session, connect, make_connection, named, risk_of
from .threads import give_up
from .transactions import PostgresTransactions
from .work_file import take_work_file

_log: Final = logging.getLogger("triobot.store")
# Runs of this process that came to their end while the server was away; see `acquit_late`.
_unacquitted: Final[list[OpenedStore]] = []
_ours: Final[dict[int, int | None]] = {}
"""The nodes that this process is or was: by its name one of another container may have it, too. And how many
commits one knew of that was closed while the server was away."""

_OWNER: Final = b"SELECT id, name FROM owner"
_LOCK: Final = b"SELECT id FROM owner FOR UPDATE"
_TELL: Final = b"SELECT pg_notify($1, '')"
PATIENCE: Final = SECONDS + 1
"""How long one who opens a store waits for a process that has died a moment ago."""
_LOOK_AGAIN: Final = 0.05
_LEAP: Final = f"SELECT setval('numbers', (last_value / {LEAP} + 1) * {LEAP}) FROM numbers".encode()


def channel_of(address: PostgresAddress) -> str:
    """Return the channel on which whoever lets a store go says so."""
    return f"{address.schema} is free"


@final
class OpenedStore:
    """An open store, to be served; `triobot.store.table_store.Opened`.

    Attributes:
        name: what the store is called in logs and errors.
        opening: what is known of this run and of the one before.
        node: the number of this process.
        sql: what runs statements; another's only if that has the store alone and serves it to nobody.
        address: where it is.
    """

    def __init__(self, address: PostgresAddress, session: Session, node: int) -> None:
        self.name = named(address)
        self.opening = Opening(boot=0, at=0)
        self.tables = PostgresTables(session, numbers_key(address))
        self.notes = WorkNotes()
        # A tool that has it by itself asks within what it puts.
        self.turn = threading.RLock()
        self.address = address
        self.sql = session
        self._visited = False
        self.node = node
        self._closed = threading.Event()
        self._run: str | None = None
        self._work_file: FileLock | None = None
        self._lease: SpokenLease | None = None
        self._transactions: PostgresTransactions | None = None
        self._tell_lost: Callable[[], None] = lambda: None

    @property
    def transactions(self) -> PostgresTransactions:
        """Return what runs batches."""
        assert self._transactions is not None
        return self._transactions

    def held(self) -> float:
        """Return for how many seconds more nobody else can have it, 0 if they may; in any thread."""
        return 0.0 if self._lease is None else self._lease.held()

    def on_loss(self, tell: Callable[[], None]) -> None:
        """Have this called when another process has it, in whatever thread; at once if that is so."""
        self._tell_lost = tell
        if self.transactions.broken is not None:
            tell()

    def _look(self, speak: bool) -> bool:
        """Return whether the session lives; have it say something, unless it is used: then it says enough."""
        if self.turn.acquire(blocking=False):
            try:
                if not self._closed.is_set():
                    self.transactions.look(SETTLE if speak else None)
            finally:
                self.turn.release()
        if self.transactions.broken is not None:
            self._tell_lost()
        return not self.sql.lost

    def open(
        self,
        stamp: Stamp | None,
        *,
        now: int,
        retention: Retention,
        visit: bool,
        rebind: bool,
        copying: Copying | None = None,
    ) -> None:
        """Make the schema if it isn't there, take the store, migrate it, and count this run.

        Args:
            copying: it is to be copied, or to become a copy; see `check_whole`.

        Raises:
            StoreLockedError: another process has it.
        """
        make_store(self.sql, self.address, stamp, rebind=rebind, copying=copying)
        self._visited = visit
        run = self.sql.run
        run(b"BEGIN")
        try:
            self._take()
            # Under the lock: whoever had it may have been a copy, which has come to its end meanwhile.
            check_whole(self.sql, self.name, copying)
            migrate(self.sql, stamp, rebind=rebind)
            self._note_history(now)
            opening = self._count(now, visit=visit)
            asked = steady_time()
            run(TAKE, (self.node, own_name()))
            run(COUNT, (self.node,))
            run(b"COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                run(b"ROLLBACK")
            if self._work_file is not None:
                self._work_file.release()
            raise
        self.notes.clear()
        self.notes.begin(int(self._run or 0))
        self.opening = attrs.evolve(opening, risk=risk_of(self.sql.connection), node=own_name())
        self.tables.retention = retention
        self.tables.journals.lease = Lease(self.opening.boot)
        self._lease = SpokenLease(self.node, asked)
        self._transactions = PostgresTransactions(
            self.sql, self.tables, self._renew, self._lease, name=self.name
        )
        self._lease.begin(self._look)
        try:
            with self.turn:
                self.tables.count_everything()
        except BaseException:
            self._lease.end()
            raise

    def _take(self) -> None:
        """Lock the row of the owner, and cut one that is gone.

        Where the server goes on in another history an owner gets more time to come back, and to prove by its
        count that nothing is missing: its lock didn't come along.

        Raises:
            StoreLockedError: its owner lives, or may.
        """
        run, connection = self.sql.run, self.sql.connection
        self._lock_row()
        owner, name = _row_of(run(_OWNER))
        if owner is None:
            return
        known = _ours.get(owner)
        whole = known is not None and _row_of(run(SETTLE, (owner,))) == (known,)
        free = (free_for(connection, owner) or 0) >= GRACE
        if not free or (not whole and self._is_early()):
            raise self._locked(name, owner)
        run(CUT, (owner,))
        if whole:
            go_on(connection, self.name)

    def _lock_row(self) -> None:
        try:
            # One that lives is committing, or holds it for no longer than the server lets it.
            self.sql.run(_LOCK + b" NOWAIT")
        except errors.LockNotAvailable:
            raise self._locked(None) from None

    def _is_early(self) -> bool:
        history = history_of(self.sql.connection)
        if get_meta(self.sql, "history") in (None, history):
            return False
        return SEEN.seconds(self.address.conninfo, history.partition("/")[0]) < SECONDS

    def _locked(self, name: str | None, owner: int | None = None) -> StoreLockedError:
        who = "" if name is None else f", {name}"
        return locked(self.name, who, here=owner in _ours)

    def _count(self, now: int, *, visit: bool) -> Opening:
        """Count this run, and how many before it have died; see `acquit`."""
        sql = self.sql
        lived = get_meta(sql, "lived") == (get_meta(sql, "run") or "")
        opening = count_run(sql, self.tables, self.notes, machine=machine_boot(), now=now, visit=visit)
        if visit:
            return opening
        if lived and opening.unclean:
            opening = attrs.evolve(opening, unclean=opening.unclean - 1)
            put_meta(sql, "unclean", str(opening.unclean))
        if not opening.unclean:
            put_meta(sql, "unclean_since", str(opening.boot))
        self._run = get_meta(sql, "run")
        self._work_file = take_work_file(store_of(self.sql.connection), machine_boot())
        if self._work_file is not None:
            self.notes = WorkNotes(self._work_file.notes)
        if noted := self.notes.at_work_left():
            # Of this machine's last process here, whoever has had the store since.
            opening = attrs.evolve(opening, at_work=noted, unclean=max(1, opening.unclean))
        return opening

    def acquit(self, *, late: bool = False) -> None:
        """Note that this run, whose store is another process's or nobody's, has not died.

        Whoever took the store has counted it among those that have, since it could not know better; or
        the next one that runs the bot will. It is the one thing that is written without the fence. Only
        starts read it, and they hold the lock under which it is done.

        Args:
            late: it has been over for a while, and may count as the owner yet.

        Raises:
            TriobotError, psycopg.Error: it can't be noted now.
        """
        session = Session(make_connection(self.address, patience=2))
        try:
            with session.connection.transaction():
                ((owner,),) = session.run(_LOCK).fetchall()
                if owner == self.node and not late:
                    return
                if get_meta(session, "run") == self._run:
                    put_meta(session, "lived", self._run or "")
                elif self.opening.boot >= int(get_meta(session, "unclean_since") or 0):
                    # Nobody has stopped cleanly since, so it is among those that are counted.
                    unclean = int(get_meta(session, "unclean") or 0)
                    put_meta(session, "unclean", str(max(0, unclean - 1)))
        finally:
            session.close()

    def _note_history(self, now: int) -> None:
        """Begin an epoch if the server's history isn't the one in which the store was open before.

        Nothing here can tell whether something acknowledged is missing; it is treated as if it were. One that
        had it open, and found all, has noted the new history; see `triobot.store.postgres.history.go_on`.
        """
        history = history_of(self.sql.connection)
        known = get_meta(self.sql, "history")
        if known == history:
            return
        put_meta(self.sql, "history", history)
        if known is not None:
            begin_epoch(self.sql, now)
            stop_after_restore(self.sql)
            self.sql.run(_LEAP)

    def hurry(self) -> None:
        """Hear that it is to be closed: from now on a server that doesn't answer is given up with the lease.

        What it didn't answer is not stored, or it isn't known whether it is; all acknowledged before is.
        """
        give_up(lambda: not self.held(), self.transactions.give_up, self._closed)

    def erase_log(self) -> None:
        """Do nothing: what was deleted leaves the server's files by its own vacuum and its own log's end."""

    def close(self, *, clean: bool, now: int) -> None:
        """Let the next process in, and close the session; where that goes wrong, the log says so."""

        def let_go() -> None:
            if clean and not self._visited:
                put_meta(self.sql, "clean", str(now))
            self.sql.run(CUT, (self.node,))
            self.sql.run(TAKE, (None, None))
            self.sql.run(_TELL, (channel_of(self.address),))

        with self.turn:
            try:
                if (broken := self.transactions.broken) is None:
                    self.transactions.put(let_go)
                elif isinstance(broken, LeaseLostError) and not self._visited:
                    self.acquit()
            except (TriobotError, psycopg.Error) as error:
                _log.warning("the store %s could not be closed cleanly: %s", self.name, first_line(error))
                if self.transactions.broken is None:
                    _ours[self.node] = self.transactions.commits
                if not self._visited:
                    _unacquitted.append(self)
            finally:
                if self._lease is not None:
                    self._lease.end()
                if self._work_file is not None:
                    if clean:
                        self.notes.clear()  # nobody's code has killed it
                    self._work_file.release()
                self._closed.set()
                self.sql.close()

    def _renew(self) -> tuple[Connection, int | None]:
        """Make a new session in place of one that was lost, which holds the lock.

        Raises:
            ConfigError, StoreError, psycopg.Error: there is none now.
        """
        connection = connect(self.address)
        try:
            hold(connection, self.node)
            found = connection.execute(SETTLE_SURELY, (self.node,)).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection, None if found is None else found[0]


def open_here(
    address: PostgresAddress,
    stamp: Stamp | None,
    *,
    now: int,
    retention: Retention,
    visit: bool = False,
    rebind: bool = False,
    copying: Copying | None = None,
) -> OpenedStore:
    """Connect, check, take, create or migrate, and open the store at this address; in a worker thread.

    Waits `PATIENCE` seconds for a process that has died a moment ago.

    Raises: as `triobot.store.postgres.open_postgres`.
    """
    session = Session(connect(address))
    role, node = session.connection.info.user, new_node()
    began = time.monotonic()
    try:
        hold(session.connection, node)
        while True:
            opened = OpenedStore(address, session, node)
            try:
                opened.open(stamp, now=now, retention=retention, visit=visit, rebind=rebind, copying=copying)
            except StoreLockedError:
                if time.monotonic() - began >= PATIENCE:
                    raise
                end_silent(session.connection)
                time.sleep(_LOOK_AGAIN)
            else:
                return opened
    except BaseException as error:
        with suppress(psycopg.Error):
            session.close()
        if isinstance(error, psycopg.Error):
            raise for_the_opener(error, named(address), role) from error
        raise


def acquit_late(address: PostgresAddress) -> None:
    """Note that runs of this process have not died whose server was away at their end; in a worker thread.

    Else a server that is restarted a few times would have the next start warn of a program that dies.
    """
    for opened in [one for one in _unacquitted if one.address == address]:
        try:
            opened.acquit(late=True)
        except (TriobotError, psycopg.Error):
            return
        _unacquitted.remove(opened)


def is_had(connection: Connection) -> bool:
    """Return whether a process has the store; end the session of one that stands still."""
    if connection.execute(THERE).fetchone() != (True,):
        return False
    end_silent(connection)
    owner, _ = _row_of(connection.execute(_OWNER))
    return owner is not None and free_for(connection, owner) is None


def new_node() -> int:
    """Return a number for this process, or for one thing that it has open."""
    node = secrets.randbits(62)
    _ours[node] = None
    return node


def own_name() -> str:
    """Return what people are told of this process."""
    return f"number {os.getpid()} on {socket.gethostname()}"


def _row_of(found: psycopg.Cursor[TupleRow]) -> TupleRow:
    row = found.fetchone()
    assert row is not None
    return row
