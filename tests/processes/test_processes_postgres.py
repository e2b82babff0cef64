"""A real bot whose store is in PostgreSQL: killed, refused beside another one, and asked by its operator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.loopback import Users, open_platform
from tests.postgres import Server
from tests.processes.ordering import order_all
from tests.processes.process import SECRET, environment, listen, start_bot

pytestmark = pytest.mark.processes

CHATS, KILLS, ORDERS = 20, 2, 2


@pytest.fixture
def store(postgres: Server) -> str:
    """The address of a store that isn't there yet: it will be of this test's platform."""
    postgres.ask("DROP SCHEMA IF EXISTS bot CASCADE")
    return postgres.url(query="schema=bot")


async def test_kill_9_loses_no_answer(tmp_path: Path, postgres: Server, store: str) -> None:
    """Every conversation ends as it should, in its order; twice came only what nobody knew to have come."""
    result = await order_all(tmp_path, CHATS, KILLS, ORDERS, store=store)
    result.check(CHATS, ORDERS)
    assert postgres.ask("SELECT count(*) FROM bot.inbox") == [(0,)]
    assert postgres.ask("SELECT value FROM bot.meta WHERE name = 'clean'") != []


async def test_the_server_is_killed_under_a_running_bot(tmp_path: Path, postgres: Server, store: str) -> None:
    """All its sessions crash; what was answered with 200 is there, and the bot goes on by itself."""
    log = tmp_path / "log"
    async with open_platform() as platform:
        with listen() as sock:
            process = await start_bot("orders", platform=platform.url, store=store, sock=sock, log=log)
            try:
                users = Users(sock.getsockname()[1], f"/{SECRET}")
                assert await users.calls(7, "hi") == 200
                await platform.wait_until(lambda: len(platform.texts[7]) == 1)
                # On a busy machine its recovery takes longer than the webhook lets a connection idle.
                await trio.to_thread.run_sync(postgres.crash)
                while (status := await users.calls(7, "large")) != 200:
                    assert status == 503
                await platform.wait_until(lambda: len(platform.texts[7]) >= 2)
                assert await process.stop() == 0
            finally:
                process.kill_now()
                process.popen.wait()


async def test_a_second_bot_is_refused_and_the_operator_is_told_what_can_be_asked(
    tmp_path: Path, store: str
) -> None:
    def triobot(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "triobot", *arguments, "--store", store]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    async with open_platform() as platform:
        environ = environment(TRIOBOT_BASE_URL=platform.url)
        with listen() as sock:
            process = await start_bot(
                "orders", platform=platform.url, store=store, sock=sock, log=tmp_path / "log"
            )
            try:
                told = triobot("journal", "list")
                assert told.returncode != 0
                assert "can't be asked yet" in told.stderr
                assert "Traceback" not in told.stderr
                assert await process.stop() == 0
            finally:
                process.kill_now()
                process.popen.wait()
    environ["TRIOBOT_TOKEN"] = "another token, for the same bot"
    assert "store rebind" in triobot("status").stderr
    assert "now belongs" in triobot("store", "rebind", "tests.processes.bots:orders").stdout
    assert "conversations: 0" in triobot("status").stdout
    assert "pg_dump" in triobot("store", "backup", str(tmp_path / "copy")).stderr
