"""One bot in two processes on one PostgreSQL in shards: both work, and what happens to one of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from socket import gethostname

import pytest
import trio
import trustme

from tests.loopback import PATIENCE, Users, open_platform
from tests.postgres import Server, run_pair, why_not
from tests.processes.cluster import (
    SCHEMA,
    SHARDS,
    SKEWED,
    Trouble,
    drop,
    fair,
    on_this_machine,
    order_from_cluster,
)
from tests.processes.machines import needs_machines
from tests.processes.process import SECRET
from tests.processes.proxy import needs
from tests.processes.test_processes_postgres import Operator
from triobot.nodes.links import VERSION
from triobot.shards import shard_of
from triobot.wire.ids import ChatId

needs_postgres = pytest.mark.skipif(why_not() is not None, reason=f"{why_not()}")
pytestmark = [pytest.mark.processes, needs("nginx")]

CHATS = 12
BETWEEN = 2.0
"""Else all processes would do what they can for as long as a trouble lasts."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "troubles",
    [
        ("stop", "drain"),
        pytest.param(("kill", "freeze"), marks=pytest.mark.long),
        ("restart",),
        ("deploy", "back"),
        pytest.param(("unplug", "part"), marks=needs_machines),
        pytest.param(("away",), marks=[needs_machines, pytest.mark.long]),
    ],
    ids=["leave", "die", "restart", "deploy", "cut", "away"],
)
async def test_every_conversation_ends_right(
    tmp_path: Path, postgres: Server, troubles: tuple[Trouble, ...]
) -> None:
    """No answer that got its 200 is lost, each chat hears everything in order, and nothing starts twice."""
    drop(postgres)
    lived = await order_from_cluster(tmp_path, postgres, troubles, chats=CHATS, between=BETWEEN)
    lived.check(CHATS)
    check_left(postgres)


@pytest.mark.parametrize(
    "troubles",
    [("kill", "freeze"), pytest.param(("restart", "stop", "drain"), marks=pytest.mark.long)],
    ids=["die", "leave"],
)
async def test_whoever_pays_gets_it_once(
    tmp_path: Path, postgres: Server, troubles: tuple[Trouble, ...]
) -> None:
    """Each order is paid for in its middle, and given under one key, whatever happens to its node."""
    drop(postgres)
    lived = await order_from_cluster(tmp_path, postgres, troubles, chats=CHATS, between=BETWEEN, buying=True)
    lived.check(CHATS)
    check_left(postgres)
    if "freeze" in troubles:
        assert "ALARM crash_loop: " not in lived.output
        assert "other nodes have taken over what this one had" in lived.output


def check_left(server: Server) -> None:
    """Nothing waits or is under way, and nobody has anything."""
    for shard in range(SHARDS):
        schema = f"{SCHEMA}_{shard}"
        assert server.ask(f"SELECT count(*) FROM {schema}.inbox") == [(0,)]
        assert server.ask(f"SELECT count(*) FROM {schema}.conversations") == [(0,)]
        assert server.ask(f"SELECT owner FROM {schema}.shard") == [(None,)]
    assert server.ask(f"SELECT count(*) FROM {SCHEMA}.nodes") == [(0,)]


def epoch_of(server: Server, shard: int) -> int:
    found = server.ask(f"SELECT value FROM {SCHEMA}_{shard}.meta WHERE name = 'epoch'")
    return int(str(found[0][0])) if found else 0


def commits_of(server: Server) -> list[int]:
    return [int(str(server.ask(f"SELECT commits FROM {SCHEMA}_{n}.shard")[0][0])) for n in range(SHARDS)]


@pytest.mark.slow
@needs_postgres
async def test_every_conversation_ends_right_when_the_database_fails_over(tmp_path: Path) -> None:
    """To a synchronous standby, which has all that was acknowledged: no shard begins an epoch."""
    with run_pair(synchronous=True) as (primary, standby):
        lived = await order_from_cluster(tmp_path, primary, ["failover"], chats=CHATS, standby=standby)
        lived.check(CHATS)
        check_left(standby)
        assert [epoch_of(standby, shard) for shard in range(SHARDS)] == [0] * SHARDS
    assert "nothing acknowledged is missing" in lived.output


@pytest.mark.slow
@needs_postgres
async def test_nodes_go_on_from_what_an_asynchronous_standby_has(tmp_path: Path) -> None:
    """Of shards that lack commits an epoch begins. The old primary, when it is back, gets no node."""
    with run_pair(synchronous=False) as (primary, standby):
        async with open_platform() as platform:
            cluster = on_this_machine(tmp_path, platform, primary, standby)
            cluster.bot = "bot"
            ask = partial(trio.to_thread.run_sync, Operator(platform.url, cluster.store))
            try:
                await cluster.mend()
                users = [Users(node.port, f"/{SECRET}") for node in cluster.nodes]

                async def say(chats: Sequence[int], text: str) -> None:
                    """Say this in each chat until it is taken, and wait for what comes back."""
                    for chat in chats:
                        while await users[chat % 2].calls(chat, text) != 200:
                            await trio.sleep(0.1)
                    await platform.wait_until(lambda: all(text in platform.texts[chat] for chat in chats))

                chats = range(1, 13)
                await say(chats, "kept")
                await trio.to_thread.run_sync(partial(standby.catch_up, primary))
                standby.lag()
                had = commits_of(standby)
                await say(chats[:2], "lost")
                await trio.to_thread.run_sync(cluster.fail_over)
                await say(chats, "again")
                await cluster.until(*fair(2))
                epochs = [epoch_of(standby, shard) for shard in range(SHARDS)]
                told = (await ask("alarms", "list", "--json")).stdout.splitlines()
                assert [json.loads(row)["kind"] for row in told] == ["store_restored"] * sum(epochs)

                primary.start()
                # What nobody waits for is a commit, too: not only the shards of those two chats may lack one.
                lost = [int(count > before) for count, before in zip(commits_of(primary), had, strict=True)]
                assert epochs == lost
                assert all(lost[shard_of(ChatId(chat), SHARDS)] for chat in chats[:2])
                await say(chats, "still")
                assert "two of its servers take writes" in (await ask("nodes")).stderr
                assert cluster.nodes[0].process is not None
                await cluster.nodes[0].process.kill()
                with pytest.raises(RuntimeError, match="the bot did not start: exit code 1"):
                    await cluster.start(cluster.nodes[0])
                assert "two of its servers take writes" in cluster.nodes[0].log.read_text()
                await trio.to_thread.run_sync(primary.die)
                await cluster.mend()
                await say(chats, "on")
                await cluster.stop()
            finally:
                cluster.kill()


@pytest.mark.slow
async def test_events_may_come_to_any_node_and_operators_ask_all_of_them(
    tmp_path: Path, postgres: Server
) -> None:
    drop(postgres)
    async with open_platform() as platform:
        cluster = on_this_machine(tmp_path, platform, postgres)
        triobot = Operator(platform.url, cluster.store)
        ask = partial(trio.to_thread.run_sync, triobot)
        try:
            await cluster.mend()
            users = [Users(node.port, f"/{SECRET}") for node in cluster.nodes]
            for chat in range(1, 21):
                assert await users[chat % 2].calls(chat, f"{chat}") == 200
            await platform.wait_until(lambda: platform.total == 20)
            told = json.loads((await ask("status", "--json")).stdout)
            assert (told["running"], told["working"], told["shards"]) == (True, True, SHARDS)
            pids = [node.process.popen.pid for node in cluster.nodes if node.process is not None]
            assert all(f"number {pid} on " in told["node"] for pid in pids)
            rows = [json.loads(line) for line in (await ask("journal", "list", "--json")).stdout.splitlines()]
            assert sorted(row["chat_id"] for row in rows) == list(range(1, 21))
            listed = (await ask("nodes")).stdout
            assert all(f":{pid}  door 127.0.0.1:" in listed for pid in pids)
            assert listed.count("shards: ") == 2
            assert len(json.loads((await ask("nodes", "--json")).stdout)["owners"]) == SHARDS
            refused = await ask("nodes", "drain", "nobody")
            assert (refused.returncode, "no node is called nobody" in refused.stderr) == (1, True)
            assert listed.count("build build-1") == 2
            assert "shards go to" not in listed
            for build, words in (("build-0", "no node has ever run a build build-0"), ("-b", "usage: ")):
                refused = await ask("nodes", "prefer", build)
                assert (refused.returncode != 0, words in refused.stderr) == (True, True), refused.stderr
            assert "shards go to the build build-1" in (await ask("nodes", "prefer", "build-1")).stdout
            await cluster.stop()
        finally:
            cluster.kill()
        assert "no node runs" in (await ask("nodes")).stdout
        told = json.loads((await ask("status", "--json")).stdout)
        assert (told["running"], told["conversations"]) == (False, 20)


@pytest.mark.slow
async def test_a_node_whose_clock_is_wrong_has_no_shards_until_it_is_right(
    tmp_path: Path, postgres: Server
) -> None:
    drop(postgres)
    async with open_platform() as platform:
        cluster = on_this_machine(tmp_path, platform, postgres)
        cluster.module = SKEWED
        ask = partial(trio.to_thread.run_sync, Operator(platform.url, cluster.store))
        (one, two), users = cluster.nodes, [Users(node.port, f"/{SECRET}") for node in cluster.nodes]
        chats = iter(range(1, 100))

        async def take_events() -> None:
            """Both nodes do, whoever has their shards."""
            heard = platform.total
            for user in users * 4:
                chat = next(chats)
                assert await user.calls(chat, f"{chat}") == 200
            await platform.wait_until(lambda: platform.total == heard + 8)

        try:
            await cluster.mend()
            for off, words in (("5000", "s ahead of the database"), ("-3600000", "s behind the database")):
                cluster.set_by[0].write_text(off)
                await cluster.until_has(two, SHARDS)
                assert f"its clock is {abs(int(off)) / 1000:.0f}" in (await ask("nodes")).stdout
                assert words in (await ask("nodes")).stdout
                await take_events()
                cluster.set_by[0].write_text("0")
                await cluster.until(SHARDS // 2, SHARDS // 2)
                await take_events()
            assert one.process is not None
            assert await one.process.stop() == 0
            cluster.set_by[0].write_text("5000")
            await cluster.start(one)
            with trio.fail_after(PATIENCE):
                while "its clock is 5" not in (await ask("nodes")).stdout:
                    pass
            await cluster.until(0, SHARDS)
            told = [json.loads(line) for line in (await ask("alarms", "list", "--json")).stdout.splitlines()]
            # It is one alarm, of the machine, and no shard has noted a jump.
            assert [(alarm["kind"], alarm["key"]) for alarm in told] == [("clock_differs", gethostname())]
            cluster.set_by[0].write_text("0")
            await cluster.until(SHARDS // 2, SHARDS // 2)
            await cluster.stop()
        finally:
            cluster.kill()
        output = "".join(node.log.read_text() for node in cluster.nodes)
        assert "clock_jumped" not in output
        assert "this machine's clock is right again" in output


@pytest.mark.slow
async def test_nodes_with_certificates_hand_events_on_and_let_nobody_else_in(
    tmp_path: Path, postgres: Server
) -> None:
    drop(postgres)
    authority = trustme.CA()
    issued = authority.issue_cert("pizza.internal")
    certificate, key, ca = (tmp_path / name for name in ("certificate.pem", "key.pem", "ca.pem"))
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    async with open_platform() as platform:
        cluster = on_this_machine(tmp_path, platform, postgres)
        cluster.environ = {"TRIOBOT_DOOR_CERTIFICATE": str(certificate), "TRIOBOT_DOOR_KEY": str(key)}
        try:
            with pytest.raises(RuntimeError, match="the bot did not start: exit code 1"):
                await cluster.start(cluster.nodes[0])
            assert "set TRIOBOT_DOOR_CA too" in cluster.nodes[0].log.read_text()
            cluster.environ |= {"TRIOBOT_DOOR_CA": str(ca)}
            await cluster.mend()
            users = [Users(node.port, f"/{SECRET}") for node in cluster.nodes]
            for chat in range(1, 21):
                assert await users[chat % 2].calls(chat, f"{chat}") == 200
            await platform.wait_until(lambda: platform.total == 20)
            ((door,),) = postgres.ask(f"SELECT min(door) FROM {SCHEMA}.nodes")
            host, _, port = str(door).rpartition(":")
            async with await trio.open_tcp_stream(host, int(port)) as stream:
                await stream.send_all(VERSION + bytes(32))
                assert VERSION not in await stream.receive_some()
            await cluster.stop()
        finally:
            cluster.kill()
        output = "".join(node.log.read_text() for node in cluster.nodes)
        assert "TLS was not agreed on (" in output


async def test_a_door_that_can_not_be_is_told_before_anything_begins(
    tmp_path: Path, postgres: Server
) -> None:
    drop(postgres)
    triobot = Operator("http://127.0.0.1:9", postgres.url(query=f"schema={SCHEMA}&shards={SHARDS}"))
    bot = "tests.processes.bots:orders"
    for door, words in (
        ("10.0.0.11", "HOST:PORT, such as"),
        ("0.0.0.0:7300", "one address of this machine"),
        ("192.0.2.1:7300", "the other nodes can't reach this one at 192.0.2.1:7300"),
    ):
        done = await trio.to_thread.run_sync(partial(triobot, "run", bot, "--port", "0", "--door", door))
        assert (done.returncode, words in done.stderr) == (1, True), done.stderr
