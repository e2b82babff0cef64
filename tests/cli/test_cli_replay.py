"""`triobot replay` and `triobot journal check`, over a store that a bot has left, or runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from cli_rig import Command, Ended

from tests.bot.rig import say
from triobot.cli import journal_check
from triobot.cli import replay as replay_command
from triobot.cli.loading import load_bot

HEAD = """\
import trio
import trio.testing
from tests.bot.rig import Chats, make_bot
from triobot import Chat

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


def live(target: str, *commands: Callable[[], Ended]) -> list[Ended]:
    """Let the bot ask its second question in chat 7; meanwhile run these commands."""

    async def main() -> list[Ended]:
        bot = load_bot(target)
        chats = sys.modules["ordering"].chats
        async with bot.running() as intake:
            await say(intake, 7, "hi")
            await chats.wait_for(7, "Name?")
            await say(intake, 7, "Sara")
            await chats.wait_for(7, "Name?", "Street?")
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
    assert "1 conversations: 1 go on, 0 would be parked, 1 with other words" in ended.out


def test_code_that_parks(triobot: Command, write: Callable[[str], str]) -> None:
    """Which, where in the code, and both sides; while the bot runs."""
    old = write(ASKS)

    def check() -> Ended:
        return triobot("journal", "check", write('    await chat.sleep(1)\n    await chat.ask("Name?")\n'))

    (ended,) = live(old, check)
    assert ended.code == 1
    assert "chat 7" in ended.out
    assert "ordering.py:12" in ended.out
    assert "send" in ended.out
    assert "sleep" in ended.out


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
