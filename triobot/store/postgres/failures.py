"""Meaning of PostgreSQL's errors, for the caller whose work failed and for code that opens a store. Pure.

    PostgreSQL's error                           affects          error
    a value that can't be stored                 its caller       LocalProtocolError
    no room, no memory; takes no writes now      its caller       StoreAwayError
    cancelled, deadlock, a lock not taken        its caller       StoreAwayError
    damage; a missing table or right             all, for good    StoreCorruptError

Only the first line of PostgreSQL's texts is repeated: the following lines may contain stored values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg import errors

from ...errors import ConfigError, LocalProtocolError, StoreAwayError, StoreCorruptError, TriobotError

_UNSTORABLE: Final = (psycopg.DataError, UnicodeError, OverflowError, errors.ProgramLimitExceeded)
_NO_ROOM: Final[Mapping[type[Exception], str]] = {
    errors.DiskFull: "free some space on the database's server",
    errors.OutOfMemory: "the database's server lacks memory: look at what takes it there",
    errors.ReadOnlySqlTransaction: "the database takes no writes: look whether it is a standby, or set so",
}
"""Remedies for the operator, by error."""
_PASSING: Final = (
    errors.QueryCanceled,
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.InsufficientResources,
)
# Codes for a missing right, table, column or schema, and the first two characters of the codes for damage.
_GONE: Final = frozenset({"42501", "42P01", "42703", "3F000"})
_DAMAGE: Final = "XX"
_OF_THE_CONNECTION: Final = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
_LAST_WORDS: Final = frozenset({"FATAL", "PANIC"})
_CLOSING: Final = ("08", "57P")

# libpq has no error codes before a session begins; texts that don't come from the server are always English.
_AT_CONNECT: Final = (
    ("password authentication failed", "the server refused this user's password"),
    ("no password supplied", "the server wants a password, and none was given"),
    ("fe_sendauth", "the server wants a password, and none was given"),
    ("does not exist", "there is no such database, or no such role"),
    ("no pg_hba.conf entry", "the server admits no such connection (pg_hba.conf)"),
    ("permission denied for database", "this role may not use the database"),
    ("definition of service", "there is no such service in the service file"),
)
_HOW: Final = (
    "; the password is taken from PGPASSWORD, a password file or a service, all else from the address or from"
    " libpq's variables"
)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text; the following lines may contain stored values."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def ends_the_session(error: Exception) -> bool:
    """Return whether the session ended with this error, even if libpq still reports an open connection.

    When the server ends a session, libpq either reads the server's last message, with a code, or only finds
    the connection closed. So an error without a code means a closed connection. The exceptions are two errors
    of psycopg itself: a refused value, and a statement that was skipped after an error in a pipeline.
    """
    if not isinstance(error, psycopg.Error) or isinstance(error, errors.PipelineAborted):
        return False
    if error.sqlstate is None:
        return isinstance(error, _OF_THE_CONNECTION)
    return error.diag.severity_nonlocalized in _LAST_WORDS or error.sqlstate.startswith(_CLOSING)


def ends_the_store(error: Exception) -> bool:
    """Return whether the store must not be used after this error, although the session still lives."""
    code = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    return code in _GONE or code.startswith(_DAMAGE)


def for_the_caller(error: Exception, name: str) -> Exception:
    """Convert a failure of one caller's own work into the error for this caller alone."""
    if isinstance(error, _UNSTORABLE):
        return LocalProtocolError("row", "holds a value that can't be stored")
    if isinstance(error, tuple(_NO_ROOM)):
        return _caused(_full(error, name), error)
    if isinstance(error, _PASSING):
        return _caused(StoreAwayError(f"the store {name} did not do it: {first_line(error)}"), error)
    return error


def _full(error: Exception, name: str) -> StoreAwayError:
    remedy = next(words for kind, words in _NO_ROOM.items() if isinstance(error, kind))
    return StoreAwayError(f"the store {name} could not be written: {first_line(error)}", remedy=remedy)


def _caused(failure: TriobotError, error: Exception) -> TriobotError:
    failure.__cause__ = error
    return failure


def for_the_connector(error: psycopg.Error, name: str) -> TriobotError:
    """Convert an error of a connection attempt: a wrong configuration into ConfigError, any other error into
    StoreAwayError.
    """
    text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    for words, why in _AT_CONNECT:
        if words in text:
            return ConfigError(f"the store {name} can't be opened: {why}{_HOW} ({text})")
    if isinstance(error, errors.InsufficientPrivilege):
        return ConfigError(
            f"the store {name} can't be opened: {text}; the server's owner must give that right"
        )
    return StoreAwayError(f"the store {name} can't be reached: {text}")


def for_the_opener(error: psycopg.Error, name: str, role: str) -> TriobotError:
    """Convert PostgreSQL's error into the error that explains why a store could not be opened."""
    if isinstance(error, errors.InsufficientPrivilege):
        return ConfigError(
            f"the store {name} can't be opened: {first_line(error)}; let an owner of the database run: CREATE"
            f" SCHEMA ... AUTHORIZATION {role}"
        )
    if isinstance(error, tuple(_NO_ROOM)):
        return _full(error, name)
    if isinstance(error, psycopg.OperationalError) or ends_the_session(error):
        return StoreAwayError(f"the store {name} went away while it was opened: {first_line(error)}")
    return StoreCorruptError(f"the store {name} could not be opened: {first_line(error)}")
