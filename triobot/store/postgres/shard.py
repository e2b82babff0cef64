"""A shard: a schema that holds a whole store, and the session that has it.

The order matters: the server is looked at before anything is asked of it; the schema is known to be ours, and
of a version that can be read, before anything is written. One transaction takes the shard, migrates it and
counts the run, under the lock of the shard's row: it ends with an owner, or leaves no trace. From then on the
fence is what keeps a process from writing that has lost it, and does not know it yet.

A store by itself is had by the lock of the session that commits (`ownership`). A shard of several is had
under the lease of its node (`lease`).
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, final

import attrs
import psycopg
from psycopg import errors
from psycopg.rows import TupleRow

from ...clock import steady_time
from ...errors import StoreLockedError, TriobotError
from ...journals import Lease, Opening
from ...seams import Hear, LeaseLostError, Relayed
from ..belief import SECONDS
from ..broadcasts import stop_after_restore
from ..lock import FileLock, locked, machine_boot
from ..notes import WorkNotes
from ..opening import LEAP, begin_epoch, count_run
from ..rules import Retention
from ..schema import Copying, Stamp, check_whole, get_meta, put_meta
from . import ownership
from .address import PostgresAddress
from .failures import first_line, for_the_opener
from .history import SEEN, history_of, store_of
from .lease import END, END_OVER, TAKE, NodeLease
from .ownership import (
    COUNT,
    CUT,
    LIVES,
    SETTLE,
    SETTLE_SURELY,
    SpokenLease,
    end_silent,
    hold,
    is_free,
    lock_out,
)
from .relay import answer_requests, channel_of, nodes_channel
from .rows import ShardTables
from .schemas import make_store, migrate, numbers_key
from .session import Connection, Session, connect, make_connection, named, risk_of
from .threads import give_up
from .transactions import CommitFence, ShardTransactions
from .work_file import take_work_file

_log: Final = logging.getLogger("triobot.store")
_ours: Final[set[int]] = set()
"""The nodes that this process is or was; by its name one of another container may have it, too."""

_IDENTITY: Final = b"SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END_OLD: Final = (
    b"SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
    b" WHERE pid = $1 AND backend_start = $2::text::timestamptz"
)
# In another history another process may have the same fence. That the row is locked makes it a commit, which
# waits for synchronous standbys: what it finds is there as well.
_ROW: Final = b"SELECT CASE WHEN owner = $1 THEN fence ELSE -1 END, commits FROM shard FOR UPDATE"
_OWNER: Final = (
    b"SELECT shard.fence, shard.commits, shard.owner, nodes.name,"
    b" coalesce(nodes.until > clock_timestamp(), false) FROM shard LEFT JOIN nodes ON nodes.id = shard.owner"
)
_HAD: Final = b"SELECT EXISTS (SELECT 1 FROM shard JOIN nodes ON nodes.id = shard.owner WHERE " + LIVES + b")"
_OWNER_OF_ALL: Final = b"SELECT owner, (SELECT name FROM nodes WHERE id = owner) FROM shard"
# What the shards of a store have in common is no store; whoever opens it is told so.
_THERE: Final = b"SELECT to_regclass('nodes') IS NOT NULL AND to_regclass('shard') IS NOT NULL"
_TAKEN: Final = b"UPDATE shard SET fence = fence + 1, commits = commits + 1, owner = $1"
_LOCK: Final = b"SELECT owner FROM shard FOR UPDATE"
_LET_GO: Final = b"UPDATE shard SET owner = NULL"
# For whoever looks at all shards; the shard's own row is what counts.
_OWNS: Final = (
    b"UPDATE owners SET owner = $2, name = $3, since = clock_timestamp(), works = false WHERE shard = $1"
)
_OWNED_NO_MORE: Final = b"UPDATE owners SET owner = NULL, since = clock_timestamp() WHERE shard = $1"
_FREED: Final = b"UPDATE owners SET owner = NULL, since = clock_timestamp() WHERE owner = $1"
_TELL: Final = b"SELECT pg_notify($1, '')"
PATIENCE: Final = SECONDS + 1
"""How long one who opens a shard waits for a process that has died a moment ago."""
_LOOK_AGAIN: Final = 0.1
_LOCKED_OUT: Final = 1.0
# The version of the row that is seen names the transaction that has it locked. The owner may have no lease:
# whoever took another of its shards has ended it. A process that is just taking this one says something.
_END_HOLDER: Final = (
    b"SELECT pg_terminate_backend(pid, 1000) FROM shard LEFT JOIN nodes ON nodes.id = shard.owner"
    b" JOIN pg_stat_activity ON backend_xid = shard.xmax"
    b" WHERE coalesce(nodes.until <= clock_timestamp(), true)"
    b" AND wait_event_type = 'Client' AND state_change < clock_timestamp() - interval '1 s'"
)
_LEAP: Final = f"SELECT setval('numbers', (last_value / {LEAP} + 1) * {LEAP}) FROM numbers".encode()


@final
class Shard:
    """An open shard, to be served; `triobot.store.table_store.Opened`.

    Attributes:
        name: what the store is called in logs and errors.
        opening: what is known of this run and of the one before.
        hangs: whether it can't be taken because its row is locked, whoever has it.
        early: whether it can't be taken because its owner may come back yet; see `_take`.
    """

    def __init__(
        self, address: PostgresAddress, session: Session, lease: NodeLease | None = None, node: int = 0
    ) -> None:
        self.name = named(address)
        self.opening = Opening(boot=0, at=0)
        self.tables = ShardTables(session, numbers_key(address) if address.common is None else None)
        if address.share is not None:
            self.tables.share = address.share
        self.notes = WorkNotes()
        # A tool that has it by itself asks within what it puts.
        self.turn = threading.RLock()
        self._address = address
        self._session = session
        self._visited = False
        self._identity = _identity_of(session.connection)
        self._fence = 0
        self._shared = lease
        self._node = node if lease is None else lease.node
        # By its session's lock, and not under a lease.
        self._locks = address.common is None
        self._closed = threading.Event()
        self._proven = False
        self._run: str | None = None
        self._work_file: FileLock | None = None
        self._lease: NodeLease | SpokenLease | None = None
        self.hangs = self.early = False
        self._transactions: ShardTransactions | None = None
        self._tell_lost: Callable[[], None] = lambda: None

    @property
    def sql(self) -> Session:
        """Return what runs statements, for a tool that has the shard alone and serves it to nobody."""
        return self._session

    @property
    def transactions(self) -> ShardTransactions:
        """Return what runs batches."""
        assert self._transactions is not None
        return self._transactions

    def held(self) -> float:
        """Return for how many seconds more nobody else can have it, 0 if they may; in any thread."""
        lease = self._lease
        if lease is None:
            return 0.0
        return lease.held() if isinstance(lease, SpokenLease) else lease.belief.held()

    def on_loss(self, tell: Callable[[], None]) -> None:
        """Have this called when another process has it, in whatever thread; at once if that is so."""
        self._tell_lost = tell
        if self.transactions.broken is not None:
            tell()

    async def relay(self, answer: Callable[[Relayed, Hear], Awaitable[None]]) -> None:
        """Have operators' requests to this process answered, until cancelled."""
        await answer_requests(self._address, self._node, answer)

    def _lose(self) -> None:
        self.transactions.lose()
        self._tell_lost()

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
        return not self._session.lost

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
        """Make the schema if it isn't there, take the shard, migrate it, and count this run.

        Args:
            copying: it is to be copied, or to become a copy; see `check_whole`.

        Raises:
            StoreLockedError: another process has it.
        """
        make_store(self._session, self._address, stamp, rebind=rebind, copying=copying)
        self._visited = visit
        run = self._session.run
        run(b"BEGIN")
        try:
            commits = self._take_lock() if self._locks else self._take()
            # Under the lock: whoever had it may have been a copy, which has come to its end meanwhile.
            check_whole(self._session, self.name, copying)
            migrate(self._session, stamp, rebind=rebind)
            self._note_history(now)
            opening = self._count(now, visit=visit)
            asked = steady_time()
            if self._locks:
                run(ownership.TAKE, (self._node, own_name()))
                run(COUNT, (self._node,))
            elif self._shared is None:
                run(TAKE, (self._node, own_name()))
            run(_TAKEN, (self._node,))
            if (share := self._address.share) is not None:
                run(_OWNS, (share.number, self._node, label()))
            run(b"COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                run(b"ROLLBACK")
            if self._work_file is not None:
                self._work_file.release()
            raise
        self.notes.clear()
        self.notes.begin(int(self._run or 0))
        self.opening = attrs.evolve(opening, risk=risk_of(self._session.connection), node=own_name())
        self.tables.retention = retention
        self.tables.journals.lease = Lease(0, self.opening.boot)
        if self._locks:
            self._lease = SpokenLease(self._node, asked, self._look)
        else:
            self._lease = self._shared or NodeLease(self._address, self._node, asked)
        self._transactions = ShardTransactions(
            self._session,
            self.tables,
            self._renew_lock if self._locks else self._renew,
            self._lease.belief,
            name=self.name,
            fence=CommitFence.by_lock(self._node) if self._locks else CommitFence.in_row(self._fence),
            commits=commits if self._locks else commits + 1,
        )
        self._lease.belief.listen(self._lose)
        try:
            with self.turn:
                self.tables.count_everything()
        except BaseException:
            self._end_lease()
            raise

    def _end_lease(self) -> None:
        if self._lease is not None:
            self._lease.belief.forget(self._lose)
            if self._lease is not self._shared:
                self._lease.end()

    def _take_lock(self) -> int:
        """Lock the store's row, cut an owner that is gone, and return the count of this process's commits.

        Where the server goes on in another history an owner gets more time to come back; see `_take`.

        Raises:
            StoreLockedError: its owner lives, or may.
        """
        run, connection = self._session.run, self._session.connection
        self._lock_row()
        owner, name = _row_of(run(_OWNER_OF_ALL))
        if owner is None or name is None:
            return 0
        if not is_free(connection, owner):
            raise self._locked(name, owner)
        if self._is_early():
            self.early = True
            raise self._locked(name, owner)
        if not lock_out(connection, owner):
            raise self._locked(name, owner)
        for statement in CUT:
            run(statement, (owner,))
        return 0

    def _lock_row(self) -> None:
        try:
            # One that lives is committing, or holds it for no longer than the server lets it.
            self._session.run(b"SELECT 1 FROM shard FOR UPDATE NOWAIT")
        except errors.LockNotAvailable:
            self.hangs = True
            raise self._locked(None) from None

    def _take(self) -> int:
        """Lock the shard's row, end the lease of an owner that is gone, and return the count of commits.

        Where the server goes on in another history, the lease in the row is worth nothing: another clock may
        have counted it, and its last renewals may be missing. So an owner has the time of one more. It may
        come back and prove by its count that nothing is missing; after that it believes in its lease no more.

        Raises:
            StoreLockedError: its owner lives, or may.
        """
        run = self._session.run
        self._lock_row()
        fence, commits, owner, name, lives = _row_of(run(_OWNER))
        self._proven = (
            self._shared is not None
            and owner == self._node
            and (self._shared.left.pop(self._address.schema, None) == (fence, commits))
        )
        if owner not in (None, self._node) and not lives and self._is_early():
            self.early = True
            raise self._locked(name, owner)
        if owner != self._node and (lives or (name is not None and not run(END_OVER, (owner,)).rowcount)):
            raise self._locked(name, owner)
        if owner not in (None, self._node) and self._address.common is not None:
            run(_FREED, (owner,))
        self._fence = fence + 1
        return int(commits)

    def _is_early(self) -> bool:
        history = history_of(self._session.connection)
        if get_meta(self._session, "history") in (None, history):
            return False
        return SEEN.seconds(self._address.conninfo, history.partition("/")[0]) < SECONDS

    def _locked(self, name: str | None, owner: int | None = None) -> StoreLockedError:
        who = "" if name is None else f", {name}"
        return locked(self.name, who, here=owner in _ours)

    def _count(self, now: int, *, visit: bool) -> Opening:
        """Count this run, and how many before it have died; see `_acquit`."""
        sql = self._session
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
        self._work_file = take_work_file(store_of(self._session.connection), machine_boot())
        if self._work_file is not None:
            self.notes = WorkNotes(self._work_file.notes)
        if noted := self.notes.at_work_left():
            # Of this machine's last process here, whoever has had the store since.
            opening = attrs.evolve(opening, at_work=noted, unclean=max(1, opening.unclean))
        return opening

    def _acquit(self) -> None:
        """Note that this run, whose shard is another process's or nobody's, has not died.

        Whoever took the shard has counted it among those that have, since it could not know better; or
        the next one that runs the bot will. It is the one thing that is written without the fence. Only
        starts read it, and they hold the lock under which it is done.

        Raises:
            TriobotError, psycopg.Error: it can't be noted now.
        """
        session = Session(make_connection(self._address, patience=2))
        try:
            with session.connection.transaction():
                ((owner,),) = session.run(_LOCK).fetchall()
                if owner == self._node and self._shared is None:
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

        Unless this process had it open then, nothing here can tell whether something acknowledged is
        missing; it is treated as if it were. Another one that had it open, and found all, has noted the new
        history; see `triobot.store.postgres.history.go_on`.
        """
        history = history_of(self._session.connection)
        known = get_meta(self._session, "history")
        if known == history:
            return
        put_meta(self._session, "history", history)
        if known is not None and not self._proven:
            begin_epoch(self._session, now)
            stop_after_restore(self._session)
            self._session.run(_LEAP)

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
                put_meta(self._session, "clean", str(now))
            for statement in CUT if self._locks else () if self._shared is not None else (END,):
                self._session.run(statement, (self._node,))
            self._session.run(_LET_GO)
            if (share := self._address.share) is not None:
                self._session.run(_OWNED_NO_MORE, (share.number,))
            self._session.run(_TELL, (channel_of(self._address),))
            if self._address.common is not None:
                self._session.run(_TELL, (nodes_channel(self._address.common),))

        with self.turn:
            try:
                if (broken := self.transactions.broken) is None:
                    self.transactions.put(let_go)
                elif isinstance(broken, LeaseLostError) and not self._visited:
                    self._acquit()
            except (TriobotError, psycopg.Error) as error:
                _log.warning("the store %s could not be closed cleanly: %s", self.name, first_line(error))
                if self._shared is not None and self.transactions.broken is None:
                    self._shared.left[self._address.schema] = self._fence, self.transactions.commits
            finally:
                self._end_lease()
                if self._work_file is not None:
                    if clean:
                        self.notes.clear()  # nobody's code has killed it
                    self._work_file.release()
                self._closed.set()
                self._session.close()

    def _renew(self) -> tuple[Connection, int, int]:
        """Make a new session in place of one that was lost.

        Raises:
            ConfigError, StoreError, psycopg.Error: there is none now.
        """
        connection = connect(self._address)
        try:
            # The server may not know yet that the old one is lost; what it had begun ends with it.
            connection.execute(_END_OLD, self._identity)
            fence, commits = _fetched(connection.execute(_ROW, (self._node,)))
            self._identity = _identity_of(connection)
        except BaseException:
            connection.close()
            raise
        return connection, fence, commits

    def _renew_lock(self) -> tuple[Connection, int, int]:
        """Make a new session in place of one that was lost, which holds the lock.

        Raises: as `_renew`.
        """
        connection = connect(self._address)
        try:
            hold(connection, self._node)
            found = connection.execute(SETTLE_SURELY, (self._node,)).fetchone()
        except BaseException:
            connection.close()
            raise
        return (connection, 0, 0) if found is None else (connection, self._node, found[0])


def open_shard(
    address: PostgresAddress,
    stamp: Stamp | None,
    *,
    now: int,
    retention: Retention,
    visit: bool = False,
    rebind: bool = False,
    copying: Copying | None = None,
    lease: NodeLease | None = None,
) -> Shard:
    """Connect, check, take, create or migrate, and open the store at this address; in a worker thread.

    Waits `PATIENCE` seconds for a process that has died a moment ago, and whose lease isn't over.

    Args:
        lease: under which this process has other shards; then it waits for no other process. None: this store
            has one of its own.

    Raises: as `triobot.store.postgres.open_postgres`.
    """
    session = Session(connect(address))
    role, node = session.connection.info.user, new_node()
    began = time.monotonic()
    try:
        if address.common is None:
            hold(session.connection, node)
        while True:
            shard = Shard(address, session, lease, node)
            try:
                shard.open(stamp, now=now, retention=retention, visit=visit, rebind=rebind, copying=copying)
            except StoreLockedError:
                locked_out = time.monotonic() - began
                if locked_out >= PATIENCE or (lease is not None and not (shard.hangs or shard.early)):
                    raise
                if address.common is None:
                    end_silent(session.connection)
                elif shard.hangs and locked_out >= _LOCKED_OUT:
                    # An owner that stands still between statements which it sends without waiting for their
                    # answers is not idle to the server, which would let it keep the lock for ever.
                    session.run(_END_HOLDER)
                time.sleep(_LOOK_AGAIN)
            else:
                return shard
    except BaseException as error:
        with suppress(psycopg.Error):
            session.close()
        if isinstance(error, psycopg.Error):
            raise for_the_opener(error, named(address), role) from error
        raise


def is_had(connection: Connection) -> bool:
    """Return whether a process has the store; end the session of one that stands still."""
    if connection.execute(_THERE).fetchone() != (True,):
        return False
    end_silent(connection)
    (had,) = _row_of(connection.execute(_HAD))
    return bool(had)


def new_node() -> int:
    """Return a number for this process, or for one thing that it has open."""
    node = secrets.randbits(62)
    _ours.add(node)
    return node


def label() -> str:
    """Return what people call this process among several."""
    return f"{socket.gethostname()}:{os.getpid()}"


def own_name() -> str:
    """Return what people are told of this process."""
    return f"number {os.getpid()} on {socket.gethostname()}"


def _row_of(found: psycopg.Cursor[TupleRow]) -> TupleRow:
    row = found.fetchone()
    assert row is not None
    return row


def _fetched(found: psycopg.Cursor[tuple[object, ...]]) -> tuple[int, int]:
    row = found.fetchone()
    assert row is not None
    return row  # type: ignore[return-value]


def _identity_of(connection: Connection) -> tuple[int, str]:
    return _fetched(connection.execute(_IDENTITY))  # type: ignore[return-value]
