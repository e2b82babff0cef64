"""Orders from operators' commands to the process that owns a store, and the owner's answers.

A command may run on any computer that reaches the store, so order and answer are rows in tables beside the
store's own tables. The command inserts its order as a row, and notifies the owner. The owner executes the
order, and inserts the answer in pieces. Finally, the command deletes the rows of the order and its answer.
The tables are unlogged: their content reaches neither the server's write-ahead log, nor a standby, nor an
archive.

Advisory locks show which processes are alive. A command has a lock on its order's number, and an owner has a
lock on its own number (`ownership`). So no process has to renew a row. Whenever the owner looks for orders,
it first deletes the rows of killed commands.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

import psycopg
import trio

from ...errors import ConfigError, StoreAwayError, StoreError, TriobotError
from ...seams.writes import Answered, CarryOut, OperatorOrder
from .address import PostgresAddress, read_address
from .failures import first_line
from .ownership import GRACE, LIVES, SESSION, SILENT, THERE
from .session import Connection, connect, make_connection, named
from .threads import ask

PATIENCE: Final = 5.0
"""Number of seconds within which every owner takes an order, unless the owner's event loop is blocked."""
_LOOK_EVERY: Final = 0.5

ORDERS: Final = b"""CREATE UNLOGGED TABLE orders (
    id bigint PRIMARY KEY,
    node bigint NOT NULL,
    method text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    taken boolean NOT NULL,
    status bigint
)"""
ANSWERS: Final = b"""CREATE UNLOGGED TABLE answers (
    id bigint NOT NULL REFERENCES orders ON DELETE CASCADE,
    n bigint NOT NULL,
    lines bytea NOT NULL,
    PRIMARY KEY (id, n)
)"""

_OWNER: Final = b"FROM owner WHERE " + LIVES
_AWAIT: Final = b"SELECT pg_advisory_lock($1)"
_PUT: Final = (
    b"INSERT INTO orders SELECT $1, owner.id, $2, $3, $4, false "
    + _OWNER
    + b" RETURNING (SELECT name FROM owner)"
)
_LOOK: Final = (
    b"SELECT taken, status, EXISTS (SELECT 1 " + _OWNER + b" AND owner.id = orders.node) FROM orders"
    b" WHERE id = $1"
)
_SILENCE: Final = b"SELECT " + SILENT + b" FROM owner LEFT JOIN " + SESSION
_WITHDRAW: Final = b"DELETE FROM orders WHERE id = $1 AND NOT taken"
_END: Final = b"DELETE FROM orders WHERE id = $1"
_NOTIFY: Final = b"SELECT pg_notify($1, '')"

_SWEEP: Final = b"DELETE FROM orders WHERE pg_try_advisory_xact_lock_shared(id)"
_TAKE: Final = (
    b"UPDATE orders SET taken = true WHERE node = $1 AND status IS NULL AND id <> ALL($2) AND EXISTS"
    b" (SELECT 1 FROM owner WHERE owner.id = $1) RETURNING id, method, target, body"
)
_ANSWER: Final = b"INSERT INTO answers VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
_ANSWERED: Final = b"UPDATE orders SET status = $2 WHERE id = $1"
_READ: Final = b"SELECT lines FROM answers WHERE id = $1 ORDER BY n"


def news_channel(address: PostgresAddress) -> str:
    """Return the channel on which the owner of a store is notified of events and orders."""
    return f"{address.schema} has events"


def _answered_channel(address: PostgresAddress) -> str:
    return f"{address.schema} has answered"


# --- the command


async def ask_owner(place: str, order: OperatorOrder, *, patience: float = PATIENCE) -> Answered | None:
    """Send an order to the store's owner; return the answer, or None if no process owns the store.

    Args:
        patience: number of seconds within which the owner must take the order.

    Raises: as `triobot.store.ask_owner`.

    Cancellation: *ambiguous*.
    """
    address = read_address(place)
    try:
        return await ask(partial(_have_done, address, order, patience))
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigError(
            f"this role may not ask the bot of the store {named(address)}: {first_line(error)}; run the"
            " command as the bot's role"
        ) from None
    except psycopg.Error as error:
        raise StoreAwayError(
            f"the store {named(address)} went away while the bot was asked: {first_line(error)}"
        ) from None


def _have_done(address: PostgresAddress, order: OperatorOrder, patience: float) -> Answered | None:
    with connect(address) as connection:
        if connection.execute(THERE).fetchone() != (True,):
            return None
        number = secrets.randbits(62)
        connection.execute(_AWAIT, (number,))
        connection.execute(f'LISTEN "{_answered_channel(address)}"'.encode())
        try:
            while (name := _put(connection, address, number, order)) is not None:
                if (answered := _answer_to(connection, number, name, patience)) is not None:
                    return answered
            return None
        finally:
            with suppress(psycopg.Error):
                connection.execute(_END, (number,))


def _put(connection: Connection, address: PostgresAddress, number: int, order: OperatorOrder) -> str | None:
    """Insert the order, and return the owner's name; None if no process owns the store."""
    found = connection.execute(_PUT, (number, order.method, order.target, order.body)).fetchone()
    if found is None:
        return None
    connection.execute(_NOTIFY, (news_channel(address),))
    return str(found[0])


def _answer_to(connection: Connection, number: int, name: str, patience: float) -> Answered | None:
    """Wait for the answer, and return the answer; None if the owner ended before it took the order.

    Raises:
        StoreError: no answer will come.
    """
    began, lived_at = time.monotonic(), time.monotonic()
    while True:
        found = connection.execute(_LOOK, (number,)).fetchone()
        if found is None:
            raise StoreError("the order was dropped before it was answered; ask again")
        taken, status, lives = found
        if status is not None:
            pieces = connection.execute(_READ, (number,))
            return int(status), b"".join(lines for (lines,) in pieces)
        now = time.monotonic()
        lived_at = now if lives else lived_at
        # A short wait: a living owner that has lost its session makes a new session.
        is_gone = now >= lived_at + 2 * GRACE
        if is_gone or (not taken and now >= began + patience):
            undone = connection.execute(_WITHDRAW, (number,)).rowcount == 1
            if is_gone and not undone:
                raise StoreError(f"the active node, {name}, ended before it had answered; ask again")
            if undone and not is_gone:
                ((silent,),) = connection.execute(_SILENCE)
                still = f", nor tell the database anything for {silent:.0f} s: it stands still, or is cut off"
                raise StoreError(
                    f"the active node is {name}, and did not answer within {patience:g} s"
                    f"{still if silent else ''}; nothing was done"
                )
            if undone:
                return None
        list(connection.notifies(timeout=_LOOK_EVERY, stop_after=1))


# --- the owner


def take_orders(
    connection: Connection, node: int, in_hand: Sequence[int]
) -> Sequence[tuple[int, OperatorOrder]]:
    """Take the orders for this node, and return the orders with their numbers; called in a worker thread.

    Orders of ended commands are deleted.

    Args:
        in_hand: numbers of the orders that this node is executing now. If an order was taken before but isn't
            in `in_hand`, the result of that earlier call was lost, so the order is returned again.
    """
    connection.execute(_SWEEP)
    taken = connection.execute(_TAKE, (node, list(in_hand))).fetchall()
    return [(number, OperatorOrder(method, target, body)) for number, method, target, body in taken]


async def carry_out(address: PostgresAddress, number: int, order: OperatorOrder, answer: CarryOut) -> None:
    """Execute an order, and store the answer for the command; cancel the execution if the command has
    ended.
    """
    pieces = count()
    with trio.CancelScope() as scope:

        async def put(statement: bytes, *values: object) -> None:
            def do() -> None:
                with make_connection(address) as connection:
                    connection.execute(statement, (number, *values))
                    connection.execute(_NOTIFY, (_answered_channel(address),))

            while True:
                try:
                    return await ask(do)
                except psycopg.errors.ForeignKeyViolation:
                    scope.cancel()
                except (TriobotError, psycopg.Error):
                    await trio.sleep(_LOOK_EVERY)

        async def tell(lines: bytes) -> None:
            await put(_ANSWER, next(pieces), lines)

        await put(_ANSWERED, int(await answer(order, tell)))
