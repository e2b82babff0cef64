"""``triobot send``, ``signal`` and ``start``: a chat of the running bot, reached from another process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

import attrs
import pytest
import trio
from cli_rig import Command, Ended, child_environment

from tests.bot.rig import Chats, make_bot
from triobot import Bot, Chat
from triobot.filters import signal, text

STORE = "sqlite:bot.db"


class Way(Enum):
    POST = "post"
    BIKE = "bike"


@attrs.frozen
class Line:
    what: str
    count: int = 1


@attrs.frozen
class Shipped:
    order: int
    way: Way = Way.POST
    lines: tuple[Line, ...] = ()
    paid: float | None = None


def a_shop(chats: Chats) -> Bot:
    bot = make_bot(chats, store=STORE)

    @bot.aside(signal(Shipped), name="shipped")
    async def shipped(chat: Chat[Shipped]) -> None:
        told = chat.event
        await chat.send(f"{told.order} {told.way.name} {[line.what for line in told.lines]} {told.paid}")

    @bot.aside(name="ask_later")
    async def ask_later(chat: Chat, order: int, words: str = "there") -> None:
        await chat.send(f"Is {order} {words}?")

    @bot.conversation(text("hello"))
    async def greet(chat: Chat) -> None:
        await chat.send("Hello.")

    return bot


@pytest.fixture
def command(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command of the operator of the bot that `rig` makes; it needs no token."""
    monkeypatch.setenv("TRIOBOT_STORE", STORE)
    return triobot


def beside(chats: Chats, said: int, *commands: Callable[[], Ended]) -> Sequence[Ended]:
    """Run these while the bot runs, until it has said so many things."""

    async def main() -> Sequence[Ended]:
        async with a_shop(chats).running():
            found = [await trio.to_thread.run_sync(one) for one in commands]
            with trio.fail_after(10):
                while len(chats.texts[5]) < said:
                    await trio.sleep(0.01)
            return found

    return trio.run(main)


def test_a_chat_is_reached_while_the_bot_runs(command: Command) -> None:
    """By a message, a signal with its fields, and a route with its arguments; each key counts once."""
    chats = Chats()
    fields = json.dumps({"order": 7, "way": "BIKE", "lines": [{"what": "tea"}, {"what": "cup"}], "paid": 2})
    done = beside(
        chats,
        4,
        lambda: command("send", "5", "Closed tomorrow."),
        lambda: command("signal", "5", "Shipped", fields, "--key", "shipped-7"),
        lambda: command("signal", "5", "Shipped", fields, "--key", "shipped-7"),
        lambda: command("signal", "5", f"{__name__}.Shipped", '{"order": 8}', "--json"),
        lambda: command("start", "5", "ask_later", "[9]", "--key", "order-9"),
        lambda: command("start", "5", "ask_later", "[9]", "--key", "order-9"),
    )
    assert [one.code for one in done] == [0] * 6, done
    assert done[0].out.startswith("sent: message ")
    assert json.loads(done[3].out) == {"done": True}
    known = ["stored\n", "nothing to do: one with this key is known\n"]
    assert [one.out for one in (*done[1:3], *done[4:])] == known * 2
    told = ["7 BIKE ['tea', 'cup'] 2", "8 POST [] None", "Closed tomorrow.", "Is 9 there?"]
    assert sorted(chats.texts[5]) == told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("signal", "5", "Nothing"), "'Nothing' is no frozen attrs class or dataclass of"),
        (("signal", "5", "os.Nothing"), "'os.Nothing' is no frozen attrs class or dataclass of os"),
        (("signal", "5", "Way"), "'Way' is no frozen attrs class"),
        (("signal", "5", "Shipped", "{"), "this is no JSON"),
        (("signal", "5", "Shipped", "[]"), "Shipped can't be made of that: TypeError"),
        (("signal", "5", "Shipped", "{}"), "Shipped can't be made of that"),
        (
            ("signal", "5", "Shipped", '{"order": "7"}'),
            "Shipped can't be made of that: TypeError: <class 'int'>",
        ),
        (
            ("signal", "5", "Shipped", '{"order": 7, "where": 1}'),
            "of that: KeyError: 'where'",
        ),
        (
            ("signal", "5", "Shipped", '{"order": 7, "way": "AIR"}'),
            "of that: KeyError: 'AIR'",
        ),
        (("start", "5", "nothing"), "there is no route 'nothing'; the bot has shipped, ask_later"),
        (("start", "5", "ask_later", "7"), "the arguments of a route are a JSON list"),
        (("start", "5", "ask_later", "[]"), "the arguments don't fit"),
        (("start", "5", "ask_later", '["7"]'), "argument 1 can't be made of that: TypeError"),
        (("send", "5", ""), "must not be empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_can_t_be_done_is_said(command: Command, line: Sequence[str], words: str) -> None:
    """On the error output; nothing has reached the chat."""
    chats = Chats()
    (ended,) = beside(chats, 0, lambda: command(*line))
    assert (ended.code, ended.out) == (1, "")
    assert words in ended.err
    assert not chats.texts[5]


def test_without_a_bot_nothing_is_reached(command: Command) -> None:
    """Neither before its first start nor after it."""
    assert "there is no store" in command("send", "5", "Hello").err
    beside(Chats(), 0)
    for line in (("send", "5", "Hello"), ("signal", "5", "Shipped"), ("start", "5", "ask_later")):
        ended = command(*line)
        assert (ended.code, ended.out) == (1, "")
        assert "no bot runs, and only a running bot reaches its chats" in ended.err


@pytest.mark.processes
@pytest.mark.slow
def test_another_process_reaches_it(tmp_path: Path) -> None:
    """As a job of cron would, with the store's address and nothing else."""
    chats, environment = Chats(), child_environment(TRIOBOT_STORE=f"sqlite:{tmp_path}/bot.db")
    line = [sys.executable, "-m", "triobot", "send", "5", "Good morning."]

    def run() -> Ended:
        ended = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=60, check=False)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    (ended,) = beside(chats, 1, run)
    assert ended.code == 0, ended
    assert chats.texts[5] == ["Good morning."]
