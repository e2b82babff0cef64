"""Sessions with a server: connecting, checking the server, and executing the tables' statements."""

from __future__ import annotations

import logging
import selectors
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8Dumper, IntLoader

from ...errors import ConfigError, StoreAwayError
from ..sql import Cursor
from .address import PostgresAddress
from .dialect import translated
from .failures import ends_the_session, for_the_connector
from .history import check_timeline
from .server import FACTS, ServerFacts, refusal, risk, why_closed
from .stream import Stream, Streamed

_log: Final = logging.getLogger("triobot.store")

Connection: TypeAlias = psycopg.Connection[TupleRow]

MADE: Final[ContextVar[list[Connection] | None]] = ContextVar("MADE", default=None)
"""List to which a worker thread adds its new connections, so that the caller can cut these connections."""

_DEFAULTS: Final = {
    "application_name": "triobot",
    # With these settings, client and server each detect a dead peer before a lease expires.
    "keepalives_idle": 1,
    "keepalives_interval": 1,
    "keepalives_count": 2,
    "tcp_user_timeout": 2_000,
}
_SETTINGS: Final = (
    "SET tcp_keepalives_idle = 1",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 2",
    "SET tcp_user_timeout = 2000",
    # A process that freezes inside a transaction keeps its row locks no longer than this timeout.
    "SET idle_in_transaction_session_timeout = 2000",
    "SET lock_timeout = 3000",
    "SET statement_timeout = 0",
    # The server keeps a query plan that was made while the table was small. This plan must not scan the whole
    # table, because the table may grow.
    "SET enable_seqscan = off",
    "SET jit = off",  # with `jit`, the server compiles each costly query, such as the scan of a table
    "SET standard_conforming_strings = on",
    "SET DateStyle = ISO",
)
_SINCE_17: Final = ("SET transaction_timeout = 0",)


def named(address: PostgresAddress) -> str:
    """Return a store's name for errors and logs, without any password."""
    given = conninfo_to_dict(address.conninfo)
    parts = [f"{name} {given[name]}" for name in ("service", "dbname", "host", "port") if given.get(name)]
    return f"postgresql ({', '.join([*parts, f'schema {address.schema}'])})"


@final
class Session:
    """A session for the statements of the tables; implements `triobot.store.sql.Sql`.

    Attributes:
        connection: the connection, in autocommit mode; a transaction begins only with ``BEGIN``. A lost
            connection is replaced.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._stream: Stream | None = None
        self._rolled_back = 0

    @contextmanager
    def streaming(self) -> Generator[Stream]:
        """Send statements without waiting for the answers, while the block runs; see `stream`.

        The end of the block waits for all answers.

        Raises:
            psycopg.Error: a statement has failed, or has changed an unexpected number of rows; the server has
                skipped all later statements.
        """
        failed: Exception | None = None
        try:
            with self.connection.pipeline():
                self._stream = stream = Stream(self.connection)
                try:
                    yield stream
                    stream.send_held()
                except Exception as error:
                    failed = error  # raised after the pipeline, which would log skipped statements
        finally:
            self._stream = None
        if failed is not None:
            raise failed

    def later(self, found: Cursor, take: Callable[[list[Any]], None]) -> None:
        """Call `take` with all rows of `found`. In a stream, `take_late` makes this call; otherwise, the call
        is made at once.
        """
        if self._stream is None:
            take(found.fetchall())
        else:
            assert isinstance(found, Streamed)
            self._stream.later(found, take)

    def take_late(self) -> None:
        """Wait for the rows of all statements that were passed to `later`, and pass each statement's rows to
        its `take`.
        """
        if self._stream is not None:
            self._stream.take_late()

    @property
    def lost(self) -> bool:
        """Whether the connection is closed."""
        return self.connection.closed

    def has_ended(self) -> bool:
        """Read the data that has arrived; return whether the server has ended the session. Sends nothing."""
        with selectors.DefaultSelector() as here:
            here.register(self.connection.fileno(), selectors.EVENT_READ)
            while not self.lost and here.select(0):
                try:
                    self.connection.pgconn.consume_input()
                except psycopg.OperationalError:
                    self.close()
        return self.lost

    def lost_with(self, error: Exception) -> bool:
        """Close the session if `error` has ended the session; return whether the session is closed."""
        if ends_the_session(error):
            self.close()
        return self.lost

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, including a failed one."""
        return self.connection.info.transaction_status in (
            psycopg.pq.TransactionStatus.INTRANS,
            psycopg.pq.TransactionStatus.INERROR,
        )

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Cursor:
        if self._stream is not None:
            return self._stream.run(statement, [values])
        return self.connection.cursor().execute(translated(statement), values)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Cursor:
        """Run a statement of the tables for each row of values, without waiting between the rows."""
        if self._stream is not None:
            return self._stream.run(statement, rows)
        cursor = self.connection.cursor()
        cursor.executemany(translated(statement), list(rows))
        return cursor

    def roll_back(self) -> None:
        """Roll the transaction back.

        After an error, the server has skipped the next statements, but psycopg counts the skipped statements
        as prepared. psycopg's rollback method forgets these statements. After a plain ROLLBACK statement,
        psycopg would forget these statements only if the text of the ROLLBACK was new.
        """
        self.connection.rollback()

    def roll_back_to(self, savepoint: str) -> None:
        self._rolled_back += 1
        # Each ROLLBACK statement has a different text, so that psycopg forgets the skipped statements; see
        # `roll_back`.
        self.run(f"ROLLBACK TO SAVEPOINT {savepoint} -- {self._rolled_back}".encode())

    def run(self, statement: bytes, values: Sequence[Any] | None = None) -> psycopg.Cursor[TupleRow]:
        """Execute a PostgreSQL statement; a statement without values is not prepared."""
        if self._stream is not None:
            self._stream.send_held()
        return self.connection.cursor().execute(statement, values, prepare=None if values else False)

    def close(self) -> None:
        self.connection.close()


def make_connection(address: PostgresAddress, *, patience: int = 5) -> Connection:
    """Connect to a server without checking its settings; for a server that `connect` has checked before.

    Args:
        patience: timeout in seconds, unless the address sets one; libpq's minimum is 2.

    Raises: as `connect`.
    """
    given = conninfo_to_dict(address.conninfo)
    defaults = {"connect_timeout": patience, **_DEFAULTS}
    more: dict[str, Any] = {name: value for name, value in defaults.items() if name not in given}
    if address.hosts > 1 and "target_session_attrs" not in given:
        more["target_session_attrs"] = "primary"
    try:
        connection = psycopg.connect(
            address.conninfo,
            autocommit=True,
            prepare_threshold=2,
            cursor_factory=psycopg.RawCursor,
            client_encoding="UTF8",
            **more,
        )
    except psycopg.Error as error:
        raise for_the_connector(error, named(address)) from None
    if (made := MADE.get()) is not None:
        made.append(connection)
    with _closed_on_error(connection, address):
        _set(connection, address)
        check_timeline(connection, address, named(address))
    return connection


def connect(address: PostgresAddress) -> Connection:
    """Connect, and check the server.

    Raises:
        ConfigError: the server, the database or the role is unsuitable for a store; the text explains why.
        StoreAwayError: the server can't be reached now, or accepts no writes.
    """
    connection = make_connection(address)
    with _closed_on_error(connection, address):
        _look_at(connection, address)
    return connection


@contextmanager
def _closed_on_error(connection: Connection, address: PostgresAddress) -> Generator[None]:
    try:
        yield
    except BaseException as error:
        connection.close()
        if isinstance(error, psycopg.Error):
            raise for_the_connector(error, named(address)) from None
        raise


def risk_of(connection: Connection) -> str | None:
    """Return why this server may lose acknowledged commits, and the remedy; None for a safe server."""
    return risk(_facts_of(connection))


def _facts_of(connection: Connection) -> ServerFacts:
    row = connection.execute(FACTS).fetchone() or ()
    facts: tuple[Any, ...] = (*row, connection.info.backend_pid)
    return ServerFacts(*facts)


def _look_at(connection: Connection, address: PostgresAddress) -> None:
    name, server = named(address), _facts_of(connection)
    if (why := refusal(server)) is not None:
        raise ConfigError(f"the store {name} can't be there: {why}")
    if (why := why_closed(server)) is not None:
        raise StoreAwayError(f"the store {name} is away: {why}")
    if (why := risk(server)) is not None:
        if not address.accept_loss:
            raise ConfigError(
                f"the store {name} can't be there: {why}; accept-loss in the address accepts that"
            )
        _log.warning("the store %s accepts loss: %s", name, why)


def _set(connection: Connection, address: PostgresAddress) -> None:
    connection.prepared_max = 512
    # By default, psycopg sends an integer as one of three types, by its size. Each statement would then be
    # prepared once for each type.
    connection.adapters.register_dumper(int, Int8Dumper)
    # The sum of integers has the type `numeric` in PostgreSQL.
    connection.adapters.register_loader("numeric", IntLoader)
    since = connection.info.server_version // 10_000
    settings = [*_SETTINGS, *(_SINCE_17 if since >= 17 else ()), f'SET search_path TO "{address.schema}"']
    connection.execute("; ".join(settings).encode(), prepare=False)
