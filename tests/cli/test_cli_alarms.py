"""``triobot alarms``: with a bot that runs, and without one."""

from __future__ import annotations

import json

import pytest
import trio
from cli_rig import Command, Ended

from tests.bot.rig import Chats, make_bot
from triobot import Chat
from triobot.base.alarm_kinds import AlarmKind
from triobot.seams.money import RaiseAlarm
from triobot.store import Stamp, open_store

STORE = "sqlite:bot.db"
NOON = 1_800_000_000_000


class Clock:
    def now(self) -> int:
        return NOON


@pytest.fixture
def command(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command of the operator of the bot that `rig` makes, whose store has three alarms."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "rig-token")
    monkeypatch.setenv("TRIOBOT_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TRIOBOT_STORE", STORE)
    raised: list[tuple[AlarmKind, str]] = [
        ("conversation_crashed", "pizza \x1b[2J"),
        ("backlog", "sends"),
        ("adopted", "77"),
    ]

    async def keep() -> None:
        async with open_store(STORE, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()) as store:
            for kind, key in raised:
                await store.commit(RaiseAlarm(kind, key, f"text of {key}", NOON))

    trio.run(keep)
    return triobot


def beside_a_bot(run: Command, *arguments: str) -> Ended:
    async def main() -> Ended:
        bot = make_bot(Chats(), store=STORE)

        @bot.conversation
        async def silent(chat: Chat) -> None:
            """Says nothing."""

        async with bot.running():
            return await trio.to_thread.run_sync(lambda: run(*arguments))

    return trio.run(main)


def test_all_that_are_open_are_listed_with_what_to_do(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may read the store needs no token."""
    monkeypatch.delenv("TRIOBOT_TOKEN")
    ended = command("alarms")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line.partition(" ")[0] for line in lines if not line.startswith(" ")] == [
        *("adopted", "backlog", "conversation_crashed")
    ]
    assert "\x1b" not in ended.out
    assert "To compare with the portal, type `triobot payments show 77`" in ended.out
    rows = [json.loads(line) for line in command("alarms", "list", "--json").out.splitlines()]
    assert {row["kind"] for row in rows} == {"adopted", "backlog", "conversation_crashed"}


@pytest.mark.parametrize("runs", [False, True])
def test_a_person_ends_those_that_they_name(command: Command, runs: bool) -> None:
    ask = (lambda *words: beside_a_bot(command, *words)) if runs else command
    left = ask("alarms", "acknowledge", "--kind", "conversation_crashed").out
    assert "conversation_crashed" not in left
    assert "adopted 77" in left and "backlog sends" in left
    assert "backlog" not in ask("alarms", "acknowledge", "--key", "sends").out
    assert ask("alarms", "acknowledge", "--all").out == "no alarm is open\n"


def test_none_is_ended_by_a_command_that_names_none(command: Command) -> None:
    for words in ((), ("--all", "--kind", "backlog")):
        ended = command("alarms", "acknowledge", *words)
        assert ended.code == 1
        assert "say which alarms" in ended.err
    assert command("alarms", "acknowledge", "--kind", "nothing").code == 2
    assert len(command("alarms", "--json").out.splitlines()) == 3
