"""What a session does beside the statements of the tables."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest

from tests.postgres import Server
from triobot.store.postgres.address import read_address
from triobot.store.postgres.session import Session, connect

ASK = b"SELECT $1::int8 + 1"


@pytest.mark.parametrize("savepoint", [False, True])
def test_what_the_server_did_not_read_behind_an_error_is_not_prepared(
    postgres: Server, savepoint: bool
) -> None:
    """Also where something was taken back before anything had been prepared."""
    with connect(read_address(postgres.url())) as connection:
        session = Session(connection)

        def take_back() -> None:
            session.roll_back_to("work") if savepoint else session.roll_back()

        session.run(b"BEGIN")
        session.run(b"SAVEPOINT work")
        take_back()
        if not savepoint:
            session.run(b"BEGIN")
        for _ in range(2):  # the next one is to be prepared
            session.run(ASK, (1,))
        with suppress(psycopg.errors.DivisionByZero), connection.pipeline():
            session.run(b"SELECT 1 / $1::int8", (0,))
            session.run(ASK, (1,))
        take_back()
        assert session.run(ASK, (1,)).fetchone() == (2,)
