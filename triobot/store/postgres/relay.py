"""Operators' requests to the process that has a store, and its answers, as rows beside the store.

A command may run on any machine that reaches the store, so the store is the way. The command puts a request
down for the store's owner, who is told by a notification, takes it, and puts the answer down part by part;
the command takes each part away, and at the end the request. The tables are unlogged: nothing of them reaches
the server's log, and so no standby and no archive, and a crash of the server empties them.

A request's row says until when its asker, and who answers it, are known to be there, by the server's clock.
Each of them renews its own word while it waits or works. So neither waits for one that is gone for longer
than `SILENCE`, and a row that nobody waits for goes at the next look of whoever answers.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Final, final

import attrs
import psycopg
import trio

from ...base.frozen import guarded
from ...errors import ConfigError, StoreAwayError, StoreError, TriobotError
from ...seams.writes import Hear, Relayed
from .address import PostgresAddress, read_address
from .failures import first_line
from .ownership import GRACE, LIVES
from .session import Connection, connect, make_connection, named
from .threads import ask

_log: Final = logging.getLogger("triobot.store")

AT_ONCE: Final = 8
SILENCE: Final = 5.0
"""How long either side may say nothing."""
LONGEST_PART: Final = 64 * 1024
"""Bytes from which on lines are written before the next one."""
_LOOK_EVERY: Final = 0.5
_SWEEP_EVERY: Final = 1.0

RELAY_TABLES: Final = (
    b"""CREATE UNLOGGED TABLE operator_requests (
        id bigint PRIMARY KEY,
        node bigint NOT NULL,
        method text COLLATE "C" NOT NULL,
        target text COLLATE "C" NOT NULL,
        body bytea NOT NULL,
        taken boolean NOT NULL,
        asker_until timestamptz NOT NULL,
        node_until timestamptz NOT NULL
    )""",
    b"""CREATE UNLOGGED TABLE operator_answers (
        request bigint NOT NULL REFERENCES operator_requests ON DELETE CASCADE,
        n bigint NOT NULL,
        status bigint NOT NULL,
        lines bytea NOT NULL,
        last boolean NOT NULL,
        PRIMARY KEY (request, n)
    )""",
)

_STATE: Final = (
    b"SELECT to_regclass('operator_requests') IS NOT NULL,"
    b" to_regclass('shard') IS NOT NULL AND to_regclass('nodes') IS NOT NULL"
)
_OWNED: Final = b"SELECT 1 FROM shard JOIN nodes ON nodes.id = shard.owner WHERE " + LIVES
_PUT: Final = (
    b"INSERT INTO operator_requests SELECT $1, nodes.id, $2, $3, $4, false,"
    b" clock_timestamp() + make_interval(secs => $5), clock_timestamp() + make_interval(secs => $5)"
    b" FROM shard JOIN nodes ON nodes.id = shard.owner WHERE " + LIVES + b" RETURNING"
    b" (SELECT name FROM nodes WHERE nodes.id = operator_requests.node)"
)
_KEEP: Final = (
    b"UPDATE operator_requests SET asker_until = clock_timestamp() + make_interval(secs => $2) WHERE id = $1"
    b" RETURNING taken, node_until > clock_timestamp(),"
    b" EXISTS (" + _OWNED + b" AND shard.owner = operator_requests.node)"
)
_HEAR: Final = b"DELETE FROM operator_answers WHERE request = $1 RETURNING n, status, lines, last"
_WITHDRAW: Final = b"DELETE FROM operator_requests WHERE id = $1 AND NOT taken"
_END: Final = b"DELETE FROM operator_requests WHERE id = $1"
_NOTIFY: Final = b"SELECT pg_notify($1, '')"

_WORDS: Final = b"clock_timestamp() + make_interval(secs => $3)"
_TAKE: Final = (
    b"UPDATE operator_requests SET taken = true, node_until = " + _WORDS + b" WHERE id IN (SELECT id FROM"
    b" operator_requests WHERE node = $1 AND NOT taken AND EXISTS (SELECT 1 FROM shard WHERE owner = $1)"
    b" ORDER BY node_until LIMIT $2) AND NOT taken RETURNING id, method, target, body"
)
_WORK: Final = (
    b"UPDATE operator_requests SET node_until = " + _WORDS + b" WHERE node = $1 AND id = ANY($2) RETURNING id"
)
# The row stays locked until the part is there, so that both go together.
_ANSWER: Final = (
    b"INSERT INTO operator_answers SELECT id, $2, $3, $4, $5 FROM operator_requests WHERE id = $1"
    b" FOR KEY SHARE ON CONFLICT (request, n) DO UPDATE SET n = excluded.n"
)
_SWEEP: Final = b"DELETE FROM operator_requests WHERE asker_until <= clock_timestamp()"
_LEFT: Final = b"SELECT EXISTS (SELECT 1 FROM operator_requests)"


def channel_of(address: PostgresAddress) -> str:
    """Return the channel on which whoever lets a store go says so."""
    return f"{address.schema} is free"


def _asked_channel(address: PostgresAddress) -> str:
    return f"{address.schema} is asked"


def _answered_channel(address: PostgresAddress) -> str:
    return f"{address.schema} has answered"


def _listen(connection: Connection, *channels: str) -> Connection:
    try:
        for channel in channels:
            connection.execute(f'LISTEN "{channel}"'.encode())
    except BaseException:
        connection.close()
        raise
    return connection


def _has_rung(connection: Connection) -> bool:
    """Return whether there was a notification since the last look, and drop it."""
    return bool(list(connection.notifies(timeout=0)))


# --- who asks


@final
@guarded
class _Piece:
    n: int
    status: int
    lines: bytes = attrs.field(repr=False)
    last: bool


@final
@guarded
class _Look:
    """What an asker sees.

    Attributes:
        parts: of the answer, which are nowhere else any more.
        taken: somebody has begun to answer.
        speaks: who answers, or is to, has given its word in time.
        lives: it has the store.
        rung: there may be more to see by now.
    """

    parts: Sequence[_Piece]
    taken: bool
    speaks: bool
    lives: bool
    rung: bool


@final
class _Asker:
    """One request, over a session of its own; each method is to be called in a worker thread.

    Attributes:
        name: of the process that is asked.
    """

    def __init__(self, address: PostgresAddress, relayed: Relayed, patience: float) -> None:
        self.name = ""
        self._address = address
        self._relayed = relayed
        self._patience = patience
        self._id = secrets.randbits(62)
        self._next = 0
        self.connection = _listen(connect(address), _answered_channel(address), channel_of(address))

    def put(self) -> bool:
        """Put the request down; False if no process has the store.

        Raises:
            StoreError: the one that has it knows nothing of requests.
        """
        run = self.connection.execute
        carries, is_store = _row(run(_STATE))
        if not carries:
            if is_store and run(_OWNED).fetchone() is not None:
                raise StoreError(
                    "the bot that runs is of another version than this command; restart it, or ask it with"
                    " its own"
                )
            return False
        asked = self._relayed
        values = (self._id, asked.method, asked.target, asked.body, self._patience)
        # Together: whoever sweeps wakes for what it was told of, so a row of which it wasn't would stay.
        with self.connection.transaction():
            if (found := run(_PUT, values).fetchone()) is None:
                return False
            run(_NOTIFY, (_asked_channel(self._address),))
        self.name = str(found[0])
        return True

    def look(self) -> _Look:
        """Say that somebody waits, and take what has been answered.

        Raises:
            StoreError: the request is gone.
        """
        run = self.connection.execute
        _has_rung(self.connection)
        if (found := run(_KEEP, (self._id, self._patience)).fetchone()) is None:
            raise StoreError("this command stood still, and its answer was dropped meanwhile; ask again")
        taken, speaks, lives = found
        if not taken:  # it may have been told while it made a session
            run(_NOTIFY, (_asked_channel(self._address),))
        parts = sorted((_Piece(*row) for row in run(_HEAR, (self._id,))), key=lambda part: part.n)
        # One whose commit was in doubt to its writer comes twice.
        new = [part for part in parts if part.n >= self._next]
        self._next += len(new)
        return _Look(new, taken, speaks, lives, _has_rung(self.connection))

    def withdraw(self) -> bool:
        """Take the request back, and return whether nobody had taken it."""
        return self.connection.execute(_WITHDRAW, (self._id,)).rowcount == 1

    def close(self) -> None:
        """Leave nothing behind; what goes wrong is left to whoever sweeps."""
        with suppress(psycopg.Error):
            self.connection.execute(_END, (self._id,))
        self.connection.close()


async def ask_owner(place: str, relayed: Relayed, hear: Hear, *, patience: float = SILENCE) -> bool:
    """Ask the process that has the store at this address; False if none has it.

    Args:
        hear: takes the answer, part by part; what it raises is raised.
        patience: how many seconds it may say nothing.

    Raises: as `triobot.store.ask_owner`.

    Cancellation: *ambiguous*.
    """
    address = read_address(place)
    try:
        asker = await trio.to_thread.run_sync(partial(_Asker, address, relayed, patience))
        try:
            while await trio.to_thread.run_sync(asker.put):
                if await _has_answered(asker, hear, patience):
                    return True
            return False
        finally:
            with trio.CancelScope(shield=True):  # a session left open would keep the request
                await trio.to_thread.run_sync(asker.close)
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigError(
            f"this role may not ask the bot of the store {named(address)}: {first_line(error)}; run the"
            " command as the bot's role"
        ) from None
    except psycopg.Error as error:
        raise StoreAwayError(
            f"the store {named(address)} went away while the bot was asked: {first_line(error)}"
        ) from None


async def _has_answered(asker: _Asker, hear: Hear, patience: float) -> bool:
    """Hear the whole answer; False if whoever was to give it has let the store go before it had begun.

    Raises:
        StoreError: there is none.
    """
    gone_at: float | None = None
    while True:
        seen = await trio.to_thread.run_sync(asker.look)
        for part in seen.parts:
            await hear(part.status, part.lines)
            if part.last:
                return True
        if seen.parts or seen.rung:
            continue
        if seen.lives:
            gone_at = None
        elif gone_at is None:
            gone_at = trio.current_time()
        # Who has lost its session makes another one within a moment.
        is_gone = gone_at is not None and trio.current_time() >= gone_at + 2 * GRACE
        if is_gone or (seen.lives and not seen.speaks):
            undone = not seen.taken and await trio.to_thread.run_sync(asker.withdraw)
            if seen.lives and not seen.taken and not undone:
                continue  # it has been taken this moment
            if seen.lives:
                raise StoreError(
                    f"the active node is {asker.name}, and did not answer within {patience:g} s; "
                    + ("nothing was done" if undone else "what it was asked for may be done all the same")
                )
            if undone:
                return False
            raise StoreError(f"the active node, {asker.name}, ended before it had answered; ask again")
        with trio.move_on_after(_LOOK_EVERY):
            await trio.lowlevel.wait_readable(asker.connection.fileno())


# --- who answers


@final
@attrs.define(eq=False)
class _Unwritten:
    """A part on its way."""

    request: int
    part: _Piece
    written: trio.Event = attrs.field(factory=trio.Event)


@final
@guarded
class _Round:
    """What one look of whoever answers has brought.

    Attributes:
        taken: numbers and requests.
        awaited: of those in hand, the ones that somebody waits for.
        left: there are requests, be they answered already.
        rung: there may be more by now.
    """

    taken: Sequence[tuple[int, Relayed]]
    awaited: frozenset[int]
    left: bool
    rung: bool


@final
class _Answerer:
    """Takes requests, and writes answers; one task has the session, and all else is handed to it."""

    def __init__(self, address: PostgresAddress, node: int) -> None:
        self._address = address
        self._node = node
        self._unwritten: list[_Unwritten] = []
        self._in_hand: dict[int, trio.CancelScope] = {}
        self._changed = trio.Event()

    async def run(self, answer: Callable[[Relayed, Hear], Awaitable[None]]) -> None:
        """Work until cancelled; while the server is away, try again and again."""
        connection: Connection | None = None
        away = False
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    self._changed = trio.Event()
                    unwritten = list(self._unwritten)
                    try:
                        if connection is None:
                            connection = await ask(self._connect)
                        look = partial(self._look, connection, unwritten, list(self._in_hand))
                        turn = await ask(look, connection)
                    except (TriobotError, psycopg.Error) as error:
                        if not away:
                            _log.warning(
                                "operators can't ask through the store %s now: %s",
                                named(self._address),
                                first_line(error),
                            )
                        away = True
                        if connection is not None:
                            connection.close()
                        connection = None
                        await trio.sleep(_LOOK_EVERY)
                        continue
                    away = False
                    self._settle(unwritten, turn)
                    for number, relayed in turn.taken:
                        self._in_hand[number] = trio.CancelScope()
                        nursery.start_soon(self._answer, number, relayed, answer)
                    if not turn.rung:
                        await self._wait(connection, _SWEEP_EVERY if turn.left else inf)
        finally:
            if connection is not None:
                connection.close()

    def _settle(self, unwritten: Sequence[_Unwritten], turn: _Round) -> None:
        """Let go on who waited for a part to be written, and end what nobody waits for."""
        self._unwritten = [one for one in self._unwritten if one not in unwritten]
        for one in unwritten:
            one.written.set()
        for number, scope in self._in_hand.items():
            if number not in turn.awaited:
                scope.cancel()

    async def _wait(self, connection: Connection, seconds: float) -> None:
        """Wait until there is something to take or to write, so long at most."""
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:

                async def hear() -> None:
                    await trio.lowlevel.wait_readable(connection.fileno())
                    nursery.cancel_scope.cancel()

                nursery.start_soon(hear)
                await self._changed.wait()
                nursery.cancel_scope.cancel()

    async def _answer(
        self, number: int, relayed: Relayed, answer: Callable[[Relayed, Hear], Awaitable[None]]
    ) -> None:
        """Have one request answered, and its parts written down."""
        lines, status, n = bytearray(), 200, 0

        async def put(*, last: bool) -> None:
            nonlocal n
            unwritten = _Unwritten(number, _Piece(n, status, bytes(lines), last))
            lines.clear()
            n += 1
            self._unwritten.append(unwritten)
            self._changed.set()
            await unwritten.written.wait()

        async def hear(told: int, more: bytes) -> None:
            nonlocal status
            if lines and (told != status or len(lines) >= LONGEST_PART):
                await put(last=False)
            status = told
            lines.extend(more)

        try:
            with self._in_hand[number]:
                await answer(relayed, hear)
                await put(last=True)
        finally:
            del self._in_hand[number]
            self._unwritten = [one for one in self._unwritten if one.request != number]
            self._changed.set()

    # --- in a worker thread

    def _connect(self) -> Connection:
        return _listen(make_connection(self._address), _asked_channel(self._address))

    def _look(
        self, connection: Connection, unwritten: Sequence[_Unwritten], in_hand: Sequence[int]
    ) -> _Round:
        run, node = connection.execute, self._node
        _has_rung(connection)
        for one in unwritten:
            part = one.part
            run(_ANSWER, (one.request, part.n, part.status, part.lines, part.last))
        if unwritten:
            run(_NOTIFY, (_answered_channel(self._address),))
        run(_SWEEP)
        awaited = run(_WORK, (node, list(in_hand), SILENCE)).fetchall() if in_hand else []
        room = AT_ONCE - len(in_hand)
        taken = run(_TAKE, (node, room, SILENCE)).fetchall() if room > 0 else []
        (left,) = _row(run(_LEFT))
        return _Round(
            [(number, Relayed(method, target, body)) for number, method, target, body in taken],
            frozenset(number for (number,) in awaited),
            left,
            _has_rung(connection),
        )


async def answer_requests(
    address: PostgresAddress, node: int, answer: Callable[[Relayed, Hear], Awaitable[None]]
) -> None:
    """Have requests to this node answered, `AT_ONCE` at most, until cancelled.

    Args:
        answer: answers one; cancelled when nobody waits for it any more.
    """
    await _Answerer(address, node).run(answer)


def _row(found: psycopg.Cursor[tuple[object, ...]]) -> tuple[bool, ...]:
    row = found.fetchone()
    assert row is not None
    return tuple(map(bool, row))
