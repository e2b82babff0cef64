"""`triobot replay` and `triobot journal check`, over a store that a bot has left, or runs on."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing
from cli_rig import Command, Ended

from tests.bot.rig import say
from triobot.cli import journal_check
from triobot.cli.loading import load_bot
from triobot.conversations import data as slots
from triobot.conversations.texts import Texts
from triobot.studio.commands import replay as replay_command

HEAD = """\
import trio
import trio.testing
from tests.bot.rig import Chats, make_bot
from triobot import Chat, Room

chats = Chats()
bot = make_bot(chats, store="sqlite:bot.db")


@bot.conversation
async def order(chat: Chat) -> None:
"""
ASKS = """
    name = await chat.ask("Name?")
    with chat.move_on_after(3600):
        await chat.ask("Street?")
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes the bot's file, anew each time; gives what names the bot."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)

    def write(body: str) -> str:
        sys.modules.pop("ordering", None)
        (tmp_path / "ordering.py").write_text(HEAD + body.removeprefix("\n"), encoding="utf-8")
        return f"{tmp_path / 'ordering.py'}:bot"

    return write


def live(target: str, *commands: Callable[[], Ended], first: str = "Name?") -> list[Ended]:
    """Let the bot ask its second question in chat 7; meanwhile run these commands."""

    async def main() -> list[Ended]:
        bot = load_bot(target)
        chats = sys.modules["ordering"].chats
        async with bot.running() as intake:
            await say(intake, 7, "hi")
            await chats.wait_for(7, first)
            await say(intake, 7, "Sara")
            await chats.wait_for(7, first, "Street?")
            await trio.testing.wait_all_tasks_blocked(0.05)
            return [await trio.to_thread.run_sync(one) for one in commands]

    return trio.run(main)


def test_where_a_conversation_stands(triobot: Command, write: Callable[[str], str]) -> None:
    """In which line, in what, until when; its variables on demand. Beside the running bot, and after it."""
    target = write(ASKS)
    (beside,) = live(target, lambda: triobot("replay", "7", target))
    assert beside.code == 0
    after = triobot("replay", "7", target, "--locals")
    assert "receive" in after.out
    assert "ordering.py:14" in after.out
    assert "block" in after.out
    assert "Sara" in after.out
    assert "Sara" not in beside.out
    assert all(line in after.out for line in beside.out.splitlines())


HOOKED = """\


@bot.around
async def around(room: Room, call: object) -> None:
    number = await room.step(trio.lowlevel.checkpoint)
    await call()
"""


def test_hooks_are_run_again_too(triobot: Command, write: Callable[[str], str]) -> None:
    """Their lines are around the handler's, and what they do is checked like everything else."""
    target = write(ASKS + HOOKED)
    live(target)
    stands = triobot("replay", "7", target, "--locals")
    assert stands.code == 0, stands.err
    assert re.search(r"ordering.py:20 > \S*ordering.py:14", stands.out)
    assert "around.number" in stands.out
    assert "order.name" in stands.out
    assert ", 0 would be parked" in triobot("journal", "check", target).out
    without = triobot("journal", "check", write(ASKS))
    assert without.code == 1
    assert "step" in without.out


def test_a_hook_without_operations_parks_nobody(triobot: Command, write: Callable[[str], str]) -> None:
    live(write(ASKS))
    plain = HOOKED.replace("await room.step(trio.lowlevel.checkpoint)", "1")
    ended = triobot("journal", "check", write(ASKS + plain))
    assert ended.code == 0, ended.out
    assert "1 conversations: 1 go on, 0 would be parked" in ended.out


CRASHES = """
    name = await chat.ask("Name?")
    await chat.send("Street?")
    await price(name)
"""
PRICE = """\


async def price(name: str) -> int:
    prices = {"Ali": 1}
    return prices[name]
"""


def test_a_crashed_conversation_is_shown_where_it_failed(
    triobot: Command, write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line and the way there; its words and variables on demand; the debugger where it failed."""
    live(target := write(CRASHES + PRICE))
    shown = triobot("replay", "7", target)
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0].startswith("it failed with KeyError at ")
    assert lines[0].endswith("ordering.py:19")
    assert [line.partition("ordering.py:")[2] for line in lines[1:]] == [
        "14 in order: await price(name)",
        "19 in price: return prices[name]",
    ]
    assert "Sara" not in shown.out

    with_locals = triobot("replay", "7", target, "--locals")
    assert "KeyError: 'Sara'" in with_locals.out
    assert "prices = {'Ali': 1}" in with_locals.out
    assert "name = 'Sara'" in with_locals.out

    seen: list[Any] = []
    monkeypatch.setattr(replay_command.pdb, "post_mortem", seen.append)
    triobot("replay", "7", target, "--pdb")
    (traceback,) = seen
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    assert traceback.tb_frame.f_locals["prices"] == {"Ali": 1}

    mended = triobot("replay", "7", write(CRASHES.replace("await price(name)", "await chat.ask('Floor?')")))
    assert mended.code == 1
    assert "when it ran, it failed with" in mended.out


def test_a_live_conversation_comes_before_those_that_crashed(
    triobot: Command, write: Callable[[str], str]
) -> None:
    live(target := write(CRASHES + PRICE))
    # It begins anew with what was said last.
    write(ASKS)

    async def begin() -> None:
        bot = load_bot(target)
        async with bot.running() as intake:
            await say(intake, 7, "again")
            await trio.testing.wait_all_tasks_blocked(0.05)

    trio.run(begin)
    stands = triobot("replay", "7", target)
    assert "it waits in receive" in stands.out
    assert "since they crashed: 1" in stands.err
    crashed = triobot("replay", "7", target, "--conversation", "1")
    assert "it failed" in crashed.out or "DIVERGES" in crashed.out
    listed = triobot("journal", "list", "--chat", "7", "--bot", target, "--json").out.splitlines()
    assert [json.loads(line)["error"] is None for line in listed] == [False, True]


def test_a_journal_is_a_table(triobot: Command, write: Callable[[str], str]) -> None:
    live(target := write(ASKS))
    rows = triobot("journal", "show", "1", "--bot", target).out.splitlines()
    head = next(n for n, row in enumerate(rows) if row.startswith("n "))
    assert rows[head].split() == ["n", "when", "what", "id", "kind", "line", "value"]
    assert "Start" in rows[head + 1]
    received = next(row for row in rows if " receive " in row)
    assert "'Sara'" in received
    assert "ordering.py:12" in received
    (row, *records) = map(
        json.loads, triobot("journal", "show", "1", "--bot", target, "--json").out.splitlines()
    )
    assert row["conversation"] == 1
    assert records[0]["n"] == 0


def test_reading_takes_no_token(
    triobot: Command, write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may read the store may see what is in it: it need not be a bot's that runs here."""
    target = write(ASKS)
    live(target)
    Path("tokenless.py").write_text(Path("ordering.py").read_text().replace("make_bot(chats, ", "Bot("))
    Path("tokenless.py").write_text(
        Path("tokenless.py").read_text().replace("import Chat, Room", "import Bot, Chat, Room")
    )
    for command in (("journal", "list"), ("journal", "show", "1"), ("journal", "export", "1")):
        ended = triobot(*command, "--bot", "tokenless.py:bot")
        assert ended.code == 0, ended.err
    for command in (("jobs",), ("jobs", "list"), ("broadcast", "list"), ("broadcast", "status", "news")):
        ended = triobot(*command, "--bot", "tokenless.py:bot")
        assert ended.code == 0, ended.err
    for command in (("journal", "end", "1"), ("jobs", "run", "weekly"), ("broadcast", "stop", "news")):
        refused = triobot(*command, "--bot", "tokenless.py:bot")
        assert refused.code == 1
        assert "token" in refused.err


def test_it_stops_before_an_operation(triobot: Command, write: Callable[[str], str]) -> None:
    """Where that has begun, and has no outcome."""
    live(target := write(ASKS))
    first = triobot("replay", "7", target, "--until", "2")
    assert "ordering.py:12" in first.out
    assert "block" not in first.out
    none = triobot("replay", "7", target, "--until", "77")
    assert none.code == 1
    assert "knows no operation 77" in none.err


def test_an_exported_journal(triobot: Command, write: Callable[[str], str], tmp_path: Path) -> None:
    """As it was exported; but not without its content."""
    live(target := write(ASKS))
    (tmp_path / "whole.jsonl").write_text(triobot("journal", "export", "1", "--bot", target).out)
    (tmp_path / "less.jsonl").write_text(triobot("journal", "export", "1", "--redact", "--bot", target).out)
    assert "ordering.py:14" in triobot("replay", "whole.jsonl", target).out
    refused = triobot("replay", "less.jsonl", target)
    assert refused.code == 1
    assert "redacted" in refused.err


def test_the_debugger_opens_there(
    triobot: Command, write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the frames of the author's code, the innermost last."""
    live(target := write(ASKS))
    seen: list[object] = []

    def post_mortem(traceback: object) -> None:
        seen.append(traceback)

    monkeypatch.setattr(replay_command.pdb, "post_mortem", post_mortem)
    triobot("replay", "7", target, "--pdb")
    (traceback,) = seen
    assert traceback.tb_frame.f_locals["name"] == "Sara"  # type: ignore[attr-defined]
    assert traceback.tb_lineno == 14  # type: ignore[attr-defined]


def test_code_that_goes_on(triobot: Command, write: Callable[[str], str]) -> None:
    """A reworded question parks nobody, nor does what comes later."""
    live(write(ASKS))
    target = write(ASKS.replace("Name?", "Your name?") + '    await chat.send("Bye.")\n')
    ended = triobot("journal", "check", target)
    assert ended.code == 0, ended.err
    assert "1 conversations: 1 go on, 0 would be parked" in ended.out
    assert "1 would read other words than were said:" in ended.out
    reworded, told = map(json.loads, triobot("journal", "check", target, "--json").out.splitlines())
    assert "Name?" in reworded["was"]
    assert "Your name?" in reworded["now"]
    assert told == {"total": 1, "checked": 1, "parked": 0, "reworded": 1, "again": 0}


def test_a_journal_whose_records_are_lost_ends_no_check(
    triobot: Command, write: Callable[[str], str]
) -> None:
    """A start parks such a conversation, like each that is damaged."""
    live(write(ASKS))
    with closing(sqlite3.connect("bot.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM journal")
    ended = triobot("journal", "check", write(ASKS))
    assert (ended.code, ended.err) == (1, "")
    assert "a journal begins with its start" in ended.out
    assert "1 conversations: 0 go on, 1 would be parked" in ended.out


STEPS = """
    await chat.step(price)
    await chat.step(stock)
"""
NAME, STREET, NOTE = (f'    await chat.ask("{word}?")\n' for word in ("Name", "Street", "Note"))
CHOICE = '    await chat.choose("Street?", {"a": "Old", "b": "New"})\n'
OLD = f'{STEPS}{NAME}{STREET}{NOTE}    await chat.send("Bye.")\n'
FUNCTIONS = """

async def price(cake: str = "lemon") -> int:
    return 250


async def stock() -> int:
    return 7
"""
# This module is loaded, too, and calls no such function.
CALL = "whose" + "_turn(chat"
ONCE = "Who " + "eats that?"
HELPER = f"\n\nasync def {CALL}: Chat) -> None:\n{NAME}"
EACH = f"""
    many = {{}}
    for number, what in enumerate(("cake", "tea")):
        if number == 0:
            many[what] = await chat.ask("Name?")
{STREET}"""
# This module has the other two, and a text that is somewhere else, too, is no other one.
ASKED = """
    for question in ("Name?", "Street?", "Note?"):
        await chat.ask(question)
"""
SLEPT = f"{NAME}    await chat.sleep(1)\n{STREET}"
STORED = f"""
    cake = await chat.step(bake)
{NAME}    cake.kind
{STREET}

import attrs


@attrs.frozen
class Cake:
    kind: str


async def bake() -> Cake:
    return Cake("lemon")
"""
CHANGES = {
    "words, labels": (OLD, OLD.replace("Street?", "Where?")),
    "format, comments": (
        OLD,
        OLD.replace(NAME, f"\n    # Who is it?\n{NAME}".replace('ask("', 'ask(\n        "')),
    ),
    "a function moves": (
        OLD.replace(NAME, f"    await {CALL})\n") + HELPER,
        (OLD.replace(NAME, f"    await {CALL})\n") + HELPER).replace(CALL, f"his_{CALL}"),
    ),
    # Words that no other module of this process says: who moves and is said once is known again.
    "an `ask` moves": (
        OLD.replace("Name?", ONCE),
        (OLD.replace(NAME, f"    await {CALL})\n") + HELPER).replace("Name?", ONCE),
    ),
    "a parser or options": (OLD, OLD.replace('ask("Name?"', 'ask("Name?", str.strip')),
    "a question *after*": (OLD, OLD.replace(NOTE, NOTE + NOTE)),
    "an `ask` inserted": (OLD, OLD.replace(STREET, NOTE + STREET)),
    "an `ask` removed": (OLD, OLD.replace(STREET, "")),
    "two `ask` swapped": (OLD, OLD.replace(STREET + NOTE, NOTE + STREET)),
    "an `ask` replaced": (OLD, OLD.replace('    await chat.ask("Name?")', '    x = await chat.ask("Zip?")')),
    "a question put into a loop that asks again": (
        OLD,
        OLD.replace(STREET, f"    if True:\n    {STREET}"),
    ),
    "two options of `choose`": (
        OLD.replace(STREET, CHOICE),
        OLD.replace(STREET, CHOICE.replace('"Old"', '"?"').replace('"New"', '"Old"').replace('"?"', '"New"')),
    ),
    "a loop's items in another order": (EACH, EACH.replace('"cake", "tea"', '"tea", "cake"')),
    "one of several questions with equal words": (EACH, EACH.replace("many[what]", "many[what[:1]]")),
    "a loop asks the texts": (ASKED, ASKED.replace("Note?", "A note?")),
    "how long a `sleep`": (SLEPT, SLEPT.replace("sleep(1)", "sleep(2)")),
    "a stored class gains": (STORED, STORED.replace("kind: str\n", 'kind: str\n    size: str = "small"\n')),
    "a field or class is": (
        STORED,
        STORED.replace("kind: str", "sort: str").replace("cake.kind", "cake.sort"),
    ),
    "another function in": (OLD, OLD.replace("step(price)", "step(stock)")),
    "two `step`, or two arguments": (
        OLD,
        OLD.replace("price", "?").replace("stock", "price").replace("?", "stock"),
    ),
    "another argument": (OLD, OLD.replace("step(price", 'step(price, "apple"')),
    "a `step`, or a `send`, inserted": (OLD, OLD.replace("    await chat.step(price)\n", "")),
    "`ask` becomes `choose`": (OLD, OLD.replace(STREET, CHOICE)),
    "an option of": (
        OLD.replace(STREET, CHOICE),
        OLD.replace(STREET, CHOICE.replace('"a": "Old"', '"c": "Red"')),
    ),
}
"""How a row of the table in docs/changing-code.md begins, and the code before and after such a change."""
PAGE: Final = Path(__file__).parents[2] / "docs" / "changing-code.md"


@pytest.mark.parametrize("row", CHANGES)
def test_the_page_on_changed_code_says_what_the_check_finds(
    triobot: Command, write: Callable[[str], str], row: str
) -> None:
    (told,) = re.findall(rf"(?m)^\| {re.escape(row)}[^|]*\| (\d) \|", PAGE.read_text(encoding="utf-8"))
    before, after = CHANGES[row]
    live(write(before + FUNCTIONS), first=ONCE if ONCE in before else "Name?")
    assert triobot("journal", "check", write(after + FUNCTIONS)).code == int(told)


def test_each_row_of_the_page_on_changed_code_is_tried() -> None:
    rows = re.findall(r"(?m)^\| ([^|]+) \| \d \|", PAGE.read_text(encoding="utf-8"))
    assert [row for row in rows if not row.startswith(tuple(CHANGES))] == []


@pytest.mark.parametrize("between", ["", STEPS])
def test_who_waits_further_on_is_found_as_well(
    triobot: Command, write: Callable[[str], str], between: str
) -> None:
    """Whatever comes between a question that is new and the one where they wait."""
    live(write(f"\n{NAME}{between}{STREET}{FUNCTIONS}"))
    ended = triobot("journal", "check", write(f"\n{NOTE}{NAME}{between}{STREET}{FUNCTIONS}"))
    assert ended.code == 1
    # Where the recorded line still stands, nobody can mean that another one is the same.
    assert "New? Put it behind chat.patched(NAME).\n" in ended.out


def test_code_that_parks(triobot: Command, write: Callable[[str], str]) -> None:
    """Which, where in the code, and both sides; while the bot runs."""
    old = write(ASKS)

    def check() -> Ended:
        return triobot("journal", "check", write('    await chat.sleep(1)\n    await chat.ask("Name?")\n'))

    (ended,) = live(old, check)
    assert ended.code == 1
    assert "chat 7" in ended.out
    assert "ordering.py:12" in ended.out
    assert 'ask("Name?")' in ended.out
    assert "sleep" in ended.out


TALK = """
    name = await chat.ask("Name?")
    street = await chat.ask("Street?")
    await chat.send(f"{name}, {street}.")
"""
RENAMED = TALK.replace("name", "who").replace("Name?", "Who are you?")


@pytest.mark.parametrize("deployed", [False, True])
def test_two_lines_are_said_to_be_the_same(
    triobot: Command, write: Callable[[str], str], deployed: bool
) -> None:
    """Before a deploy, or beside the bot that has parked them; nothing is done without --yes."""
    live(write(TALK))
    target = write(RENAMED)

    async def main() -> None:
        bot = load_bot(target)
        chats = sys.modules["ordering"].chats
        async with bot.running() as intake:
            await say(intake, 7, "Main Street")
            if deployed:
                await chats.wait_for(7, Texts.english().parked)
                await trio.to_thread.run_sync(accept)
            with trio.fail_after(60):
                while chats.texts[7][-1:] != ["Sara, Main Street."]:
                    await trio.sleep(0.01)

    def accept() -> None:
        told = triobot("journal", "check", target)
        assert told.code == 1
        (code,) = re.findall("triobot journal accept ([0-9a-f]{6})", told.out)
        counted = triobot("journal", "accept", code, target)
        assert counted.code == 0, counted.err
        assert "1 of ordering.order\n" in counted.out
        assert "1 conversations would go on; say --yes to do it" in counted.out
        assert triobot("journal", "check", target).code == 1
        assert triobot("journal", "accept", code, target, "--yes").code == 0
        assert triobot("journal", "check", target).code == 0
        assert triobot("journal", "accept", code, target).code == 1

    if not deployed:
        accept()
    trio.run(main)


@pytest.mark.parametrize(
    "body",
    [
        "    while True:\n        pass\n",
        "    await trio.sleep_forever()\n",
        "    while True:\n        await trio.lowlevel.checkpoint()\n",
    ],
)
def test_code_that_does_not_end(
    triobot: Command, write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """It is named like every other, and the check ends."""
    live(write(ASKS))
    if "pass" in body:  # what waits is ended by the other limit, however late it looks at the clock
        monkeypatch.setattr(journal_check, "SPINS", 0.3)
    monkeypatch.setattr("triobot.conversations.inspection.rerun.SECONDS", 0.2)
    ended = triobot("journal", "check", write(body))
    assert ended.code == 1
    assert "1 would be parked" in ended.out
    assert "ordering.py:1" in ended.out


def test_what_resources_give_is_not_compared(triobot: Command, write: Callable[[str], str]) -> None:
    """None is open here: neither a method of one nor a value is what it was."""
    body = """
    name = await chat.ask("Name?")
    await chat.step(chat.use(pool).fetch, name)
    await chat.step(fetch, chat.use(address), name)
    await chat.ask("Street?")


from contextlib import asynccontextmanager


class Pool:
    async def fetch(self, name: str) -> None:
        await trio.lowlevel.checkpoint()


async def fetch(address: str, name: str) -> None:
    await trio.lowlevel.checkpoint()


@bot.resource
@asynccontextmanager
async def pool():
    yield Pool()


@bot.resource
@asynccontextmanager
async def address():
    yield "https://example.org"
"""
    live(target := write(body))
    ended = triobot("journal", "check", target)
    assert ended.code == 0, ended.err
    assert "1 go on, 0 would be parked" in ended.out
    assert "other words" not in ended.out


def test_a_route_that_was_renamed(triobot: Command, write: Callable[[str], str]) -> None:
    """It parks what is stored of it, unless it says what it was called."""
    live(write(ASKS))
    renamed = HEAD.replace("@bot.conversation\nasync def order", "{}\nasync def sale")
    for declared, parked in (
        ("@bot.conversation", 1),
        ('@bot.conversation(formerly=("ordering.order",))', 0),
        ('@bot.conversation(name="sale", formerly=("ordering.order",))', 0),
    ):
        target = write("")
        Path("ordering.py").write_text(renamed.format(declared) + ASKS.removeprefix("\n"), encoding="utf-8")
        ended = triobot("journal", "check", target)
        assert ended.code == parked, ended.err
        assert f"{parked} would be parked" in ended.out
        assert ("no route 'ordering.order'" in ended.out) is bool(parked)


# --- many journals

TWO_ROUTES = """
    await chat.ask("Name?")
    await chat.ask("Street?")


@bot.aside(command("help"))
async def help_(chat: Chat) -> None:
    await chat.ask("With what?")


KEPT = Key("kept", int, default=0)


@bot.interrupt(command("keep"))
async def keep(chat: Chat) -> None:
    chat.data[KEPT] = chat.id
"""
LISTS = TWO_ROUTES.replace('"kept", int, default=0', '"kept", list[int]').replace("= chat.id", "= [chat.id]")
CHATS = range(1, 6)


@pytest.fixture
def crowd(
    write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[str], str]:
    """Leaves five orders and five who need help, and what five chats keep; gives a bot with another body."""
    old = HEAD.replace(
        "from triobot import Chat", "from triobot.filters import command\nfrom triobot import Key, Chat"
    )

    # What other tests have declared is nothing of this bot's.
    monkeypatch.setattr(slots, "_keys", {})

    def written(body: str) -> str:
        target = write("")
        Path("ordering.py").write_text(old + body.removeprefix("\n"), encoding="utf-8")
        return target

    async def main() -> None:
        bot = load_bot(written(getattr(request, "param", TWO_ROUTES)))
        chats = sys.modules["ordering"].chats
        async with bot.running() as intake:
            for chat in CHATS:
                await say(intake, chat, "/keep")
                await say(intake, chat, "hi")
                await chats.wait_for(chat, "Name?")
                await say(intake, chat, "/help")
                await chats.wait_for(chat, "Name?", "With what?")
            await trio.testing.wait_all_tasks_blocked(0.05)

    trio.run(main)
    return written


def test_a_reason_is_told_once(triobot: Command, crowd: Callable[[str], str]) -> None:
    """By route, line and reason, with how many and an example; the bar is for a terminal only."""
    target = crowd(TWO_ROUTES.replace('ask("Name?")', "sleep(1)"))
    ended = triobot("journal", "check", target)
    assert ended.code == 1
    first, recorded, now, example, remedy, last, values = ended.out.splitlines()
    assert first.startswith("5 of ordering.order would be parked: ")
    assert recorded == '    recorded  ordering.py:13  await chat.ask("Name?")'
    assert now == "    now       ordering.py:13  await chat.sleep(1)"
    assert re.search(r"triobot journal accept [0-9a-f]{6}$", remedy)
    assert example.startswith("    such as chat ")
    assert "conversation" in example
    assert last == "10 conversations: 5 go on, 5 would be parked"
    assert values == "5 values of 1 keys: 5 can be read, 0 can't"
    assert not ended.err


def test_a_terminal_shows_how_far_it_is(
    triobot: Command, crowd: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ended = triobot("journal", "check", crowd(TWO_ROUTES))
    assert "] 10 of 10, 0 parked" in ended.err


@pytest.mark.processes
def test_several_processes_find_the_same(triobot: Command, crowd: Callable[[str], str]) -> None:
    target = crowd(TWO_ROUTES.replace('ask("Name?")', "sleep(1)"))
    alone, beside = (triobot("journal", "check", target, "--processes", number) for number in ("1", "2"))
    counts = [[line for line in ended.out.splitlines() if "such as" not in line] for ended in (alone, beside)]
    assert counts[0] == counts[1], beside.out
    assert beside.code == 1


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize("at_import", [True, False])
def test_code_that_writes_past_python(
    triobot: Command, crowd: Callable[[str], str], *, at_import: bool
) -> None:
    """As a library in C, or a program that the bot starts, does: more than fits into a pipe."""
    said = "for fd in (1, 2): __import__('os').write(fd, b'said\\n' * 20_000)"
    program = "__import__('subprocess').run(['echo', 'said'])"
    body = TWO_ROUTES.replace(
        'await chat.ask("Name?")', f"{said}\n    {program}\n    await chat.ask('Name?')"
    )
    if at_import:
        body = f"{TWO_ROUTES}\n{said}\n{program}\n"
    ended = triobot("journal", "check", crowd(body), "--processes", "2")
    assert "10 conversations: 10 go on, 0 would be parked" in ended.out


@pytest.mark.slow
@pytest.mark.processes
def test_code_that_takes_its_process_down(triobot: Command, crowd: Callable[[str], str]) -> None:
    """Each such journal is named, and the others are run."""
    ends = '__import__("os")._exit(3) if chat.id in (2, 4) else await chat.ask("Name?")'
    target = crowd(TWO_ROUTES.replace('await chat.ask("Name?")', ends))
    ended = triobot("journal", "check", target, "--processes", "2")
    assert "2 of ordering.order would be parked: its code ends the process, or takes it down" in ended.out
    assert "10 conversations: 8 go on, 2 would be parked" in ended.out


def test_a_sample_has_of_each_route(triobot: Command, crowd: Callable[[str], str]) -> None:
    """The same ones each time."""
    target = crowd(TWO_ROUTES.replace('ask("Name?")', "sleep(1)"))
    once, again = (triobot("journal", "check", target, "--sample", "4") for _ in range(2))
    assert "4 of 10 conversations: 2 go on, 2 would be parked" in once.out
    assert once == again
    many = triobot("journal", "check", target, "--sample", "99")
    assert "10 conversations: 5 go on, 5 would be parked" in many.out


@pytest.mark.parametrize("running", [True, False])
def test_every_stored_value_is_read(triobot: Command, crowd: Callable[[str], str], *, running: bool) -> None:
    """Also of chats in which nothing runs; while the bot runs, and afterwards."""
    old = crowd(TWO_ROUTES)
    new = TWO_ROUTES.replace('Key("kept", int, default=0)', 'Key("kept", str, default="")')

    def check() -> Ended:
        return triobot("journal", "check", crowd(new))

    async def beside() -> Ended:
        async with load_bot(old).running():
            return await trio.to_thread.run_sync(check)

    ended = trio.run(beside) if running else check()
    assert ended.code == 1
    assert "10 conversations: 10 go on, 0 would be parked" in ended.out
    assert "5 stored values park who reads them: Key('kept') holds a int, and not a str" in ended.out
    assert "    such as that of chat 1\n" in ended.out
    assert "5 values of 1 keys: 0 can be read, 5 can't" in ended.out


@pytest.mark.parametrize("crowd", [LISTS], indirect=True)
def test_stored_elements_are_read_too(triobot: Command, crowd: Callable[[str], str]) -> None:
    same = triobot("journal", "check", crowd(LISTS))
    assert "5 values of 1 keys: 5 can be read, 0 can't" in same.out
    ended = triobot("journal", "check", crowd(LISTS.replace("list[int]", "list[str]")))
    assert ended.code == 1
    assert "5 stored values park who reads them: Key('kept') holds a list, and not a list[str]" in ended.out


@pytest.mark.parametrize("processes", [False, True])
def test_the_funnel_says_where_people_wait(
    triobot: Command, write: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, processes: bool
) -> None:
    """At which line, how many, for how long; and nothing of what they said."""
    target = write(ASKS)
    live(target)
    if processes:
        monkeypatch.setattr(journal_check, "FEW", 0)
        monkeypatch.setattr(os, "cpu_count", lambda: 2)
    ended = triobot("journal", "list", "--by", "line", "--bot", target)
    assert ended.code == 0, ended.err
    (line,) = ended.out.splitlines()
    assert re.search(
        r'1  \S*order  ordering.py:14  half of them for \d+ s, the longest for \d+ s  .*ask\("Street\?"', line
    )
    assert "Sara" not in line
    (told,) = [
        json.loads(row)
        for row in triobot("journal", "list", "--by", "line", "--bot", target, "--json").out.splitlines()
    ]
    assert told["count"] == 1
    assert told["line"].endswith("ordering.py:14")
    assert 0 <= told["median"] <= told["longest"]


def test_the_funnel_needs_the_code(triobot: Command, write: Callable[[str], str]) -> None:
    live(write(ASKS))
    ended = triobot("journal", "list", "--by", "line")
    assert (ended.code, ended.out) == (1, "")
    assert "lines of which code? add --bot MODULE:BOT" in ended.err
