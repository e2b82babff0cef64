"""A real bot whose store is in PostgreSQL: killed, and asked by its operator."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.loopback import PATIENCE, Users, free_port, open_platform
from tests.postgres import Server
from tests.processes.nodes import READY, STANDBY, Node
from tests.processes.ordering import order_all
from tests.processes.process import BOTS, SECRET, BotProcess, environment, listen, start_bot, start_node
from tests.wire_proxy import proxying

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


@pytest.mark.slow
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
                refused: set[int] = set()
                while (status := await users.calls(7, "large")) != 200:
                    refused.add(status)
                # On a busy machine it may just have begun to work: then it begins anew, and cuts what it has.
                assert refused <= ({0, 503} if "it begins anew" in process.output else {503})
                await platform.wait_until(lambda: len(platform.texts[7]) >= 2)
                assert await process.stop() == 0
            finally:
                process.kill_now()
                process.popen.wait()


@pytest.mark.slow
async def test_a_server_that_goes_away_while_the_bot_begins_is_waited_for(
    tmp_path: Path, postgres: Server, store: str
) -> None:
    """It has the store, and is about to read what it needs to begin; then it stands by until that can be."""
    log = tmp_path / "log"
    with proxying(postgres.port) as proxy, listen() as sock:
        port = sock.getsockname()[1]

        def watch(who: str, said: bytes) -> bool:
            proxy.refuses = proxy.refuses or (who == "client" and b"FROM settings" in said)
            return not proxy.refuses

        proxy.watch = watch
        sock.close()
        store = postgres.url(port=proxy.port, query="schema=bot")
        async with open_platform() as platform, trio.open_nursery() as nursery:

            async def mend() -> None:
                while not log.exists() or "it begins anew" not in log.read_text():
                    await trio.sleep(0.02)
                proxy.watch = lambda who, said: True
                proxy.refuses = False

            nursery.start_soon(mend)
            node = await start_node(
                "orders", port=port, platform=platform.url, store=store, log=log, ready=b" 200 "
            )
            try:
                assert await Users(port, f"/{SECRET}").calls(7, "hi") == 200
                await platform.wait_until(lambda: len(platform.texts[7]) == 1)
                assert await node.stop() == 0
            finally:
                node.kill_now()
                node.popen.wait()


class Operator:
    """Runs commands on a bot's store, in processes of their own."""

    def __init__(self, platform: str, store: str) -> None:
        self.environ = environment(TRIOBOT_BASE_URL=platform)
        self._store = store

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a command."""
        command = [sys.executable, "-m", "triobot", *arguments, "--store", self._store]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.environ, stdout=pipe, stderr=pipe, text=True)

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.begin(*arguments)
        out, err = process.communicate()
        assert "Traceback" not in err
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.mark.slow
async def test_operators_ask_the_bot_that_runs_and_the_store_when_none_does(
    tmp_path: Path, postgres: Server, store: str
) -> None:
    left = "SELECT count(*) FROM bot.orders"
    async with open_platform() as platform:
        triobot = Operator(platform.url, store)
        with listen() as sock:
            process = await start_bot(
                "orders", platform=platform.url, store=store, sock=sock, log=tmp_path / "log"
            )
            try:
                assert await Users(sock.getsockname()[1], f"/{SECRET}").calls(7, "1") == 200
                await platform.wait_until(lambda: len(platform.texts[7]) == 1)
                at_once = [triobot.begin("journal", "list"), triobot.begin("status")]
                listed, status = [await trio.to_thread.run_sync(one.communicate) for one in at_once]
                assert "chat 7" in listed[0]
                assert f", the active node being number {process.popen.pid} on " in status[0]
                # A command that is killed before it can read its answer leaves nothing behind.
                process.popen.send_signal(signal.SIGSTOP)
                killed = triobot.begin("journal", "list")
                while postgres.ask(left) == [(0,)]:
                    await trio.sleep(0.01)
                killed.kill()
                killed.communicate()
                process.popen.send_signal(signal.SIGCONT)
                while postgres.ask(left) != [(0,)]:
                    await trio.sleep(0.05)
                checked = await trio.to_thread.run_sync(triobot, "status", "--check")
                assert (checked.returncode, checked.stdout) == (0, "the bot works\n")
                assert await process.stop() == 0
            finally:
                process.kill_now()
                process.popen.wait()
        assert "no bot runs" in triobot("status").stdout
        assert triobot("status", "--check").returncode == 3
        triobot.environ["TRIOBOT_TOKEN"] = "another token, for the same bot"
        assert "store rebind" in triobot("status").stderr
        assert "now belongs" in triobot("store", "rebind", "tests.processes.bots:orders").stdout
        assert "conversations: 1" in triobot("status").stdout
        assert "pg_dump" in triobot("store", "backup", str(tmp_path / "copy")).stderr


def node_of(process: BotProcess, port: int) -> Node:
    """A node that refuses connections for a moment, while it takes over."""
    assert process.log is not None
    return Node(port, process.log, process)


@pytest.mark.slow
async def test_operators_are_told_which_of_two_nodes_is_active(
    tmp_path: Path, postgres: Server, store: str
) -> None:
    unclean = "SELECT value FROM bot.meta WHERE name = 'unclean'"
    ports: list[int] = []
    for _ in range(2):
        with listen() as sock:
            ports.append(sock.getsockname()[1])
    async with open_platform() as platform:
        triobot = Operator(platform.url, store)
        nodes: list[BotProcess] = []
        try:
            for port, ready in zip(ports, (READY, STANDBY), strict=True):
                node = partial(start_node, "orders", port=port, platform=platform.url, store=store)
                nodes.append(await node(log=tmp_path / f"log{port}", ready=ready))
            active, other = nodes
            status = await trio.to_thread.run_sync(triobot, "status", "--json")
            assert json.loads(status.stdout)["node"].startswith(f"number {active.popen.pid} on ")
            await active.freeze()
            with trio.fail_after(PATIENCE):
                while not await node_of(other, ports[1]).says(READY):
                    await trio.sleep(0.05)
            status = await trio.to_thread.run_sync(triobot, "status", "--json")
            told = json.loads(status.stdout)
            assert told["node"].startswith(f"number {other.popen.pid} on ")
            # One that stands still looks dead, until it goes on and says so.
            assert (told["unclean"], postgres.ask(unclean)) == (1, [("1",)])
            active.thaw()
            with trio.fail_after(PATIENCE):
                while postgres.ask(unclean) != [("0",)]:
                    await trio.sleep(0.05)
            assert await active.stop() == 0
            assert await other.stop() == 0
        finally:
            for node in nodes:
                node.kill_now()
                node.popen.wait()


@pytest.mark.slow
async def test_a_standby_with_other_code_says_so(tmp_path: Path, store: str) -> None:
    (tmp_path / "new").mkdir()
    new = tmp_path / "new" / BOTS.name
    new.write_text(f"{BOTS.read_text('utf-8')}NEW = 1\n", "utf-8")
    nodes: list[BotProcess] = []
    async with open_platform() as platform:
        try:
            for number, (module, ready) in enumerate([(BOTS, READY), (BOTS, STANDBY), (new, STANDBY)]):
                start = partial(start_node, "orders", port=free_port(), platform=platform.url, store=store)
                log = tmp_path / f"log{number}"
                nodes.append(await start(log=log, ready=ready, module=module))
            told = ["other code than the one that works" in node.output for node in nodes]
        finally:
            for node in nodes:
                node.kill_now()
                node.popen.wait()
    assert told == [False, False, True]
