"""The operator's commands while a bot runs on PostgreSQL: they say what they say of a bot with a file."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from cli_rig import Command, Ended

from tests.bot.rig import Chats, make_bot, say
from tests.postgres import Server
from triobot import Bot, Chat
from triobot.cli import consulting
from triobot.cli.consulting import ask_running, gather, open_to_look
from triobot.errors import ConfigError
from triobot.runtime.settings import Settings, read_environment
from triobot.runtime.work import Intake
from triobot.seams.money import RaiseAlarm
from triobot.webhook.answers import Readiness

COMMANDS = [
    line.split()
    for line in """
        status
        status --json
        status --check
        journal list
        journal list --chat 7
        journal show 1
        journal show 99
        journal export 1
        journal check bots:bot
        journal check bots:other
        journal retry --route nothing
        journal retry 1
        journal end 99
        replay 7 bots:bot
        alarms
        alarms --json
        alarms acknowledge --kind adopted --key 77
        alarms
        payments list
        payments totals
        payments show 77
        payments verify 1234567890123456
        payments adopt 77 --chat 7 --amount 5 --currency IRR
        broadcast list
        broadcast status spring
        broadcast stop spring
        jobs
        jobs run spring.clean
        forget 8 --yes
        forget --person 71 --yes --json
        forget --room shop.lobby --yes
        forget 7 --yes
        status --check --json
        journal list
    """.strip().splitlines()
]
VARYING = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b17\d{11}\b|\b18\d{11}\b", "TIME"),
    (r"\b[0-9a-f]{32}\b", "DIGEST"),
    # The second bot finds more modules loaded.
    (r"\bbuild\"?: \d+", "BUILD"),
    (r"(?m)^\{.*\"sources?\": .*\n", ""),
    (r"\b\d+(\.\d+)?(?=( s\b| ms\b))", "SPAN"),
)


async def patient(chat: Chat) -> None:
    await chat.send("What?")
    await chat.ask("And?")


async def stranger(chat: Chat) -> None:
    await chat.send("Who?")


@pytest.fixture
def command(triobot: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, postgres: Server) -> Command:
    """A command of the operator of the bot that `rig` makes; its store's address is to be given."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "rig-token")
    monkeypatch.setenv("TRIOBOT_BASE_URL", "http://127.0.0.1:9")
    postgres.ask("DROP SCHEMA IF EXISTS bot CASCADE")
    (tmp_path / "bots.py").write_text(
        "from triobot import Bot\nfrom test_cli_through_the_store import patient, stranger\n"
        "bot, other = Bot(), Bot()\nbot.conversation(patient)\nother.conversation(stranger)\n"
    )
    return triobot


@pytest.fixture
def url(postgres: Server) -> str:
    """The address of a store that isn't there yet."""
    return postgres.url(query="schema=bot")


def beside_a_bot(command: Command, store: str, commands: list[list[str]]) -> list[Ended]:
    """Run these, one after the other, while a bot runs."""

    async def main() -> list[Ended]:
        chats = Chats()
        bot = make_bot(chats, store=store)
        bot.conversation(patient)
        async with bot.running() as intake:
            store_of = getattr(intake, "intake", intake)  # a store on a server comes and goes
            await store_of.store.commit(RaiseAlarm("adopted", "77", "text", 1_800_000_000_000))
            await say(intake, 7, "hi")
            await chats.wait_for(7, "What?", "And?")
            return [
                await trio.to_thread.run_sync(lambda one=one: command(*one, "--store", store))
                for one in commands
            ]

    return trio.run(main)


def plainly(text: str) -> str:
    """A text without what no two runs have in common."""
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return text


@pytest.mark.slow
def test_each_command_says_what_it_says_of_a_bot_with_a_file(
    command: Command, url: str, postgres: Server
) -> None:
    with_a_file = beside_a_bot(command, "sqlite:bot.db", COMMANDS)
    through_the_store = beside_a_bot(command, url, COMMANDS)
    named = f"number {os.getpid()} on "
    assert f", the active node being {named}" in through_the_store[0].out
    assert json.loads(through_the_store[1].out)["node"].startswith(named)
    for line, one, other in zip(COMMANDS, with_a_file, through_the_store, strict=True):
        if line[0] == "status":
            assert (one.code, one.err) == (other.code, other.err)
            if "--json" in line:
                first, second = json.loads(one.out), json.loads(other.out)
                first, second = first.get("status", first), second.get("status", second)
                assert first.keys() | {"node"} == second.keys()
            continue
        as_with_a_file = attrs.evolve(one, out=plainly(one.out), err=plainly(one.err))
        assert attrs.evolve(other, out=plainly(other.out), err=plainly(other.err)) == as_with_a_file, line
    assert "chat 7" in through_the_store[3].out
    assert postgres.ask("SELECT count(*) FROM bot.orders") == [(0,)]


def test_a_probe_hears_how_a_bot_is(
    command: Command, url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(store: str = url) -> tuple[int, str]:
        ended = command("status", "--check", "--store", store)
        return ended.code, ended.out.removesuffix("\n")

    monkeypatch.delenv("TRIOBOT_TOKEN")
    assert probe() == (3, "no bot runs")
    monkeypatch.setattr(Intake, "readiness", lambda self: Readiness(False, {"outbox": "held"}))
    (ended,) = beside_a_bot(command, url, [["status", "--check"]])
    assert (ended.code, ended.out) == (5, "the bot DOES NOT WORK (outbox held)\n")
    assert probe() == (3, "no bot runs")
    code, said = probe(postgres.url(port=1))
    assert code == 4
    assert "can't be reached" in said
    assert probe(postgres.url(user="nobody"))[0] == 1


def test_the_webhook_s_address_is_known_while_a_bot_runs(command: Command, url: str) -> None:
    """As at the start of a process at a terminal that is to stand by: it prints the address, too."""
    address = ["webhook-url", "--public-url", "https://bot.example.org", "--store", url]
    settings = attrs.evolve(read_environment(os.environ), store=url, allow_insecure=True)

    async def main() -> list[Ended]:
        bot = Bot(settings=settings)
        bot.conversation(patient)
        async with bot.running():
            return [
                await trio.to_thread.run_sync(lambda more=more: command(*address, *more))
                for more in ([], ["--renew"])
            ]

    running, renewed = trio.run(main)
    assert running.code == 0, running.err
    assert running.out.startswith("https://bot.example.org/")
    assert "stop the bot for a moment" in renewed.err
    assert command(*address).out == running.out


def test_what_is_for_files_says_so(command: Command, url: str) -> None:
    backup, check = beside_a_bot(command, url, [["store", "backup", "copy"], ["store", "check"]])
    for ended in (backup, check):
        assert ended.code == 1
        assert "pg_dump" in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.slow
def test_many_questions_are_asked_of_the_bot_that_runs(url: str, command: Command) -> None:
    async def main() -> None:
        chats = Chats()
        bot = make_bot(chats, store=url)
        bot.conversation(patient)
        settings = Settings(store=url)
        async with bot.running() as intake:
            await say(intake, 7, "hi")
            await chats.wait_for(7, "What?", "And?")
            for opening in (consulting.open_api(settings), open_to_look(settings)):
                async with opening as opened:
                    ask = opened[0] if isinstance(opened, tuple) else opened
                    (row,) = await gather(ask, {"ask": "journals.list"})
                    assert row["chat_id"] == 7
                    assert await gather(ask, {"ask": "parked.count"}) == [{"parked": 0, "done": 0}]
        async with consulting.open_api(settings) as asks:
            (row,) = await gather(asks, {"ask": "journals.list"})
        assert await gather(partial(ask_running, url), {"ask": "journals.list"}) == []

    trio.run(main)


def test_no_question_makes_a_store_that_is_gone(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew and empty, it would not be missed by the next start."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    url = postgres.url(query="schema=lost")
    settings = attrs.evolve(read_environment(os.environ), store=url)
    for request in ({"ask": "status"}, {"ask": "parked.count"}):
        with pytest.raises(ConfigError, match=r"there is no store at postgresql:.*schema=lost"):
            consulting.consult(settings, request)
