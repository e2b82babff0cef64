"""Two processes of one bot on one PostgreSQL: one works, and the other one takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres import Server
from tests.processes.nodes import Trouble, order_from_two
from tests.processes.proxy import needs

pytestmark = [pytest.mark.processes, needs("nginx")]

CHATS, ORDERS = 10, 2


@pytest.mark.parametrize(
    "troubles", [("stop", "kill"), ("freeze", "restart")], ids=["stop-kill", "freeze-restart"]
)
async def test_every_conversation_ends_right(
    tmp_path: Path, postgres: Server, troubles: tuple[Trouble, ...]
) -> None:
    """No answer that got its 200 is lost, each chat hears everything in order, and nothing starts twice."""
    postgres.ask("DROP SCHEMA IF EXISTS bot CASCADE")
    store = postgres.url(query="schema=bot")
    lived = await order_from_two(tmp_path, postgres, store, troubles, chats=CHATS, orders=ORDERS)
    lived.check(CHATS, ORDERS)
    assert [trouble for trouble, _ in lived.pauses] == list(troubles)
    assert postgres.ask("SELECT count(*) FROM bot.inbox") == [(0,)]
    assert postgres.ask("SELECT count(*) FROM bot.conversations WHERE parked IS NOT NULL") == [(0,)]
    assert postgres.ask("SELECT id FROM bot.owner") == [(None,)]
    if "freeze" in troubles:
        assert "ALARM crash_loop: " not in lived.output
        assert "another process has taken the store over" in lived.output
