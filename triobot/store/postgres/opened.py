"""Opened stores: the session that owns a store, and the steps of opening and closing the store.

The order of the opening matters. The server is checked first. Before any write, the schema is identified as
this bot's, in a version that this code can use. One transaction takes the store, migrates the schema and
counts the process, while the owner's row is locked. So this transaction either makes this process the owner,
or changes nothing. Every later commit requires that this session has the owner's lock. So a process that has
lost the store without noticing can't write (`ownership`).
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
from ...seams.journals import Opening
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
# Stores that this process closed while the server was away; see `acquit_late`.
_unacquitted: Final[list[OpenedStore]] = []
_ours: Final[dict[int, int | None]] = {}
"""All node numbers that this process has or had. A process's name doesn't identify the process, because a
process in another container may have the same name. If a node was closed while the server was away, the value
is the node's number of commits; otherwise None."""

_OWNER: Final = b"SELECT id, name FROM owner"
_LOCK: Final = b"SELECT id FROM owner FOR UPDATE"
_TELL: Final = b"SELECT pg_notify($1, '')"
PATIENCE: Final = SECONDS + 1
"""How long `open_here` waits for an owner that may just have died, in seconds."""
_LOOK_AGAIN: Final = 0.05
_LEAP: Final = f"SELECT setval('numbers', (last_value / {LEAP} + 1) * {LEAP}) FROM numbers".encode()


def channel_of(address: PostgresAddress) -> str:
    """Return the channel on which a closing owner notifies waiting processes that the store is free."""
    return f"{address.schema} is free"


@final
class OpenedStore:
    """An open store; implements `triobot.store.table_store.Opened`.

    Attributes:
        name: name of the store in logs and errors.
        opening: facts about the use of the store by this process and by the previous process.
        node: the number of this process.
        sql: executes statements; used only by this class, or by a tool that uses the store without `serve`.
        address: the store's address.
    """

    def __init__(self, address: PostgresAddress, session: Session, node: int) -> None:
        self.name = named(address)
        self.opening = Opening(boot=0, at=0)
        self.tables = PostgresTables(session, numbers_key(address))
        self.notes = WorkNotes()
        # The lock is reentrant: a tool sends queries inside a `put`, which has locked the lock already.
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
        assert self._transactions is not None
        return self._transactions

    def held(self) -> float:
        """Return for how many seconds this process will certainly still own the store; 0 if the store may be
        lost already.
        """
        return 0.0 if self._lease is None else self._lease.held()

    def on_loss(self, tell: Callable[[], None]) -> None:
        """Register a function that is called, in any thread, when another process has taken the store.

        If the store is lost already, `tell` is called at once.
        """
        self._tell_lost = tell
        if self.transactions.broken is not None:
            tell()

    def _look(self, speak: bool) -> bool:
        """Return whether the session lives.

        With `speak`, also send a query to the server, unless a batch is being executed.
        """
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
        copying: Copying | None = None,
    ) -> None:
        """Make the schema if needed, take the store, migrate the schema, and count this process.

        Args:
            copying: whether `triobot store copy` reads from or writes to this store; None otherwise.

        Raises:
            StoreLockedError: another process has the store open.
        """
        make_store(self.sql, self.address, stamp, copying=copying)
        self._visited = visit
        run = self.sql.run
        run(b"BEGIN")
        try:
            self._take()
            # This check needs the lock: while this process waited, `triobot store copy` may have copied the
            # store.
            check_whole(self.sql, self.name, copying)
            migrate(self.sql)
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
        """Lock the row that names the owner, and delete the commit count of a dead owner.

        A failover gives the server another history, and frees the owner's lock. The owner then gets more time
        to make a new session, and to prove by its count that no commit is missing.

        Raises:
            StoreLockedError: the owner lives, or may live.
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
            # Don't wait for the row. Either the process that has locked the row is alive, or the server's
            # timeout soon ends that process's transaction.
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
        """Count this process, and the processes that crashed before; see `acquit`."""
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
            # The notes are of this computer's last process. After that process, processes of other computers
            # may have owned the store.
            opening = attrs.evolve(opening, at_work=noted, unclean=max(1, opening.unclean))
        return opening

    def acquit(self, *, late: bool = False) -> None:
        """Store the fact that this process did not crash; the process no longer owns the store.

        Without this fact, the next owner of the store counts this process as crashed. The write is safe
        without the fence, because only starting processes read the fact, under the same lock.

        Args:
            late: whether this process closed the store a while ago. The table `owner` may then still name
                this process.

        Raises:
            TriobotError, psycopg.Error: the fact can't be stored now.
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
                    # No later start has reset the crash count to 0, so the count includes this process.
                    unclean = int(get_meta(session, "unclean") or 0)
                    put_meta(session, "unclean", str(max(0, unclean - 1)))
        finally:
            session.close()

    def _note_history(self, now: int) -> None:
        """Begin the next epoch if the server's history has changed since the store was last open.

        In a new history, acknowledged commits may be missing. Only a process that had the store open can
        detect missing commits, by the number of its own commits. If no commit is missing, such a process has
        stored the new history already, and no epoch begins; see `triobot.store.postgres.history.go_on`.
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
        """Start a thread that ends the wait for a silent server once the lease has expired; called when the
        closing begins.

        Acknowledged work is stored in any case. Unacknowledged work is not stored, or the outcome of its
        commit is unknown.
        """
        give_up(lambda: not self.held(), self.transactions.give_up, self._closed)

    def erase_log(self) -> None:
        """Do nothing: the server removes deleted data by vacuum, and deletes old parts of its own log."""

    def close(self, *, clean: bool, now: int) -> None:
        """Release the store, so that the next process can open it, and close the session.

        Errors are only logged.
        """

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
                        self.notes.clear()  # a clean stop must not raise a crash count
                    self._work_file.release()
                self._closed.set()
                self.sql.close()

    def _renew(self) -> tuple[Connection, int | None]:
        """Make a session in place of a lost session; return the new connection and the stored commit count.

        Raises:
            ConfigError, StoreError, psycopg.Error: no session can be made now.
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
    copying: Copying | None = None,
) -> OpenedStore:
    """Connect to the server, make or migrate the schema, and take the store; called in a worker thread.

    If the owner may just have died, wait up to `PATIENCE` seconds until its lock is free.

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
                opened.open(stamp, now=now, retention=retention, visit=visit, copying=copying)
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
    """Call `acquit` for the stores that this process closed while the server was away.

    To be called in a worker thread. After a few restarts of the server without this call, the bot's next
    start would log a warning of crashes.
    """
    for opened in [one for one in _unacquitted if one.address == address]:
        try:
            opened.acquit(late=True)
        except (TriobotError, psycopg.Error):
            return
        _unacquitted.remove(opened)


def is_had(connection: Connection) -> bool:
    """Return whether a process owns the store. Also end the sessions of frozen owners."""
    if connection.execute(THERE).fetchone() != (True,):
        return False
    end_silent(connection)
    owner, _ = _row_of(connection.execute(_OWNER))
    return owner is not None and free_for(connection, owner) is None


def new_node() -> int:
    """Return a new node number. A process that opens several stores has a number for each store."""
    node = secrets.randbits(62)
    _ours[node] = None
    return node


def own_name() -> str:
    """Return the name of this process in texts for people."""
    return f"number {os.getpid()} on {socket.gethostname()}"


def _row_of(found: psycopg.Cursor[TupleRow]) -> TupleRow:
    row = found.fetchone()
    assert row is not None
    return row
