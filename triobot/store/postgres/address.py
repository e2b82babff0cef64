"""The address of a store in PostgreSQL: libpq's connection string, the schema, and accepted risks."""

from __future__ import annotations

import re
from typing import Any, Final, final
from urllib.parse import parse_qsl, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...base.frozen import guarded
from ...errors import ConfigError

SCHEMA: Final = "triobot"
"""The default schema."""

_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret")
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_FORM: Final = (
    "a PostgreSQL store's address is postgresql://USER@HOST/DATABASE?schema=NAME, or"
    " postgresql:host=HOST dbname=DATABASE, as libpq takes them"
)


@final
@guarded
class PostgresAddress:
    """The parsed address of a store.

    Attributes:
        conninfo: libpq's connection string, without a password.
        schema: the schema of the store.
        accept_loss: whether the store may be on a server that can lose acknowledged commits.
        hosts: number of servers that the address names.
    """

    conninfo: str
    schema: str = SCHEMA
    accept_loss: bool = False
    hosts: int = 1


def read_address(place: str) -> PostgresAddress:
    """Parse the part of an address after ``postgresql:``.

    The part after ``?`` may contain ``schema=NAME`` and ``accept-loss``. In an address with ``//``, this part
    may also contain libpq's parameters.

    Raises:
        ConfigError: the address can't be parsed, or contains a password. The error's text repeats no part of
            the address.
    """
    body, _, query = place.partition("?")
    schema, accept_loss = SCHEMA, False
    for_libpq: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "schema":
            schema = value
        elif name == "accept-loss" and value in ("", "yes"):
            accept_loss = True
        else:
            for_libpq.append((name, value))
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigError(
            "the schema of a PostgreSQL store is named with small letters, digits and _, and not pg_..."
        )
    if body.startswith("//"):
        conninfo = f"postgresql:{body}" + (f"?{urlencode(for_libpq)}" if for_libpq else "")
    elif for_libpq:
        raise ConfigError(f"behind ? such an address takes schema=NAME and accept-loss; {_FORM}")
    else:
        conninfo = body
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.Error:
        # libpq's error repeats the address, which may contain a password.
        raise ConfigError(f"this address can't be read; {_FORM}") from None
    if any(name in given for name in _SECRETS):
        raise ConfigError(
            "a store's address must hold no password: others see it in the list of processes. Put it into"
            " PGPASSWORD, into a password file (PGPASSFILE, ~/.pgpass) or into a service (PGSERVICEFILE)"
        )
    hosts = str(given.get("host") or given.get("hostaddr") or "").count(",") + 1
    return PostgresAddress(conninfo, schema, accept_loss, hosts)


def from_the_other_end(conninfo: str) -> dict[str, Any]:
    """Return libpq's parameters with the servers in reverse order, for a connection to the last usable
    server.
    """
    given = conninfo_to_dict(conninfo)
    for name in ("host", "hostaddr", "port"):
        if name in given:
            given[name] = ",".join(reversed(str(given[name]).split(",")))
    return given
