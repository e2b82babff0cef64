"""``triobot payments``: with a bot that runs, and without one."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import attrs
import pytest
import trio
from cli_rig import Command

from tests.bot.rig import Chats, make_bot
from tests.payments.payments_rig import START, after, button
from triobot import Chat
from triobot.payments.records import row_of
from triobot.seams.money import PutPayment, RaiseAlarm
from triobot.store import Stamp, open_store
from triobot.wire.ids import RefId

STORE = "sqlite:bot.db"
REF = "1234567890123456"


class Clock:
    def now(self) -> int:
        return START


@pytest.fixture
def command(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command of the operator of the bot that `rig` makes."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "rig-token")
    monkeypatch.setenv("TRIOBOT_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TRIOBOT_STORE", STORE)
    return triobot


async def keep_two() -> None:
    """One that is paid for and nobody takes, one that was another amount."""
    paid = after(
        button(taker="nobody"), "send_begun", "send_ok", "taker_gone", "operator_verify", "verify_begun"
    )
    verified = attrs.evolve(after(paid, "verify_ok"), revision=1)
    wrong = attrs.evolve(after(paid, "verify_wrong"), revision=1, id=RefId("77"), currency="coin")
    async with open_store(STORE, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()) as store:
        for entry in (verified, wrong):
            await store.commit(PutPayment(row_of(entry), "made", START))
        await store.commit(RaiseAlarm("amount_mismatch", "77", "text\x1b[2J", START))


@pytest.mark.slow
def test_without_a_bot(command: Command) -> None:
    """The store itself is read and written."""
    trio.run(keep_two)

    listed = command("payments", "list").out
    assert f"{REF}  verified" in listed
    assert "77  mismatch" in listed
    assert command("payments", "list", "--state", "mismatch").out.count("\n") == 1
    assert "verify_ok" not in command("payments", "show", REF).out
    assert "settled" in command("payments", "settle", REF).out
    assert "operator_settled" in command("payments", "show", REF).out
    status = command("status").out
    assert "payments: mismatch 1, settled 1" in status
    assert "captured and not settled: 1, the oldest for" in status
    assert "open alarms: 1\n" in status
    assert "\x1b" not in command("alarms").out
    assert "resolved" in command("payments", "resolve", "77").out
    assert "no alarm is open" in command("alarms").out
    totals = command("payments", "totals", "--days", "10000").out
    assert "button IRR" in totals
    assert "button coin" in totals
    rows = list(csv.DictReader(io.StringIO(command("payments", "export").out)))
    assert {row["ref"]: row["currency"] for row in rows} == {REF: "IRR", "77": "coin"}


def test_an_exported_table_holds_no_formula(command: Command) -> None:
    """An invoice's number is whatever the platform says."""

    async def keep_one() -> None:
        entry = attrs.evolve(after(button(), "send_begun"), revision=1, kind="invoice", invoice_id="=1+1")
        async with open_store(STORE, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()) as store:
            await store.commit(PutPayment(row_of(entry), "made", START))

    trio.run(keep_one)
    (row,) = csv.DictReader(io.StringIO(command("payments", "export").out))
    assert row["invoice"] == "'=1+1"


@pytest.mark.parametrize(
    "words",
    [
        ("settle", "9"),
        ("inquire", REF),
        ("resolve", "1 2"),
    ],
)
def test_what_cant_be_done_is_one_line(command: Command, words: tuple[str, ...]) -> None:
    """And exit code 1."""
    trio.run(keep_two)
    ended = command("payments", *words)

    assert ended.code == 1
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "required: ACTION"),
        (("show",), "required: REF"),
        (("list", "7"), "unrecognized arguments: 7"),
        (("adopt", "1", "2"), "required: AMOUNT"),
        (("adopt", "1", "2", "x"), "argument AMOUNT: must be a number from 1"),
        (("list", "--state", "lost"), "argument --state: invalid choice: 'lost'"),
    ],
)
def test_wrong_usage_of_an_action_is_told_as_such(
    command: Command, words: tuple[str, ...], what: str
) -> None:
    ended = command("payments", *words)
    assert (ended.code, ended.out) == (2, "")
    assert what in ended.err


@pytest.mark.parametrize("action", ["list", "show", "adopt", "settle"])
def test_each_action_has_a_help_of_its_own(triobot: Command, action: str) -> None:
    ended = triobot("payments", action, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"usage: triobot payments {action}")
    assert ("--limit" in ended.out) is (action == "list")
    assert ("REF" in ended.out) is (action in ("show", "settle"))


def test_beside_a_running_bot(command: Command) -> None:
    """Asked over its socket; it does what is due at once."""
    trio.run(keep_two)
    seen: list[str] = []

    async def main() -> None:
        bot = make_bot(Chats(), store=STORE)

        @bot.conversation
        async def patient(chat: Chat) -> None:
            await chat.ask("What?")

        async with bot.running():
            for words in (("list",), ("resolve", REF), ("status",)):
                name = ("payments", *words) if words != ("status",) else words
                ended = await trio.to_thread.run_sync(lambda name=name: command(*name))
                seen.append(ended.out + ended.err)

    trio.run(main)
    assert f"{REF}  verified" in seen[0]
    assert "resolved" in seen[1]


def test_programs_read_json(command: Command) -> None:
    trio.run(keep_two)

    def told(*arguments: str) -> list[Any]:
        return [json.loads(line) for line in command("payments", *arguments, "--json").out.splitlines()]

    assert [one["ref"] for one in told("list")] == [one["ref"] for one in told("export")]
    assert {one["state"] for one in told("list", "--state", "mismatch")} == {"mismatch"}
    (shown,) = told("show", REF)
    assert (shown["payment"]["id"], len(shown["history"])) == (REF, 1)
    assert isinstance(told("totals"), list)
    (settled,) = told("settle", REF)
    assert settled["payment"]["ref"] == REF
