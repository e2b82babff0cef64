"""``triobot talk``: one's own bot, from the terminal, with nothing set up."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from cli_rig import child_environment

from tests.loopback import PATIENCE
from triobot.cli.terminal import INTERRUPTED
from triobot.studio.commands import talk

BOT = """
import time
import attrs
from triobot import Bot, Chat, File, Key, Location, Paid
from triobot.filters import paid
SOLD = Key("sold", int, default=0)
bot = Bot()

@attrs.frozen
class Details:
    floor: int

# As long as a turn may take on a busy machine: what is typed ahead waits for it.
def take_long() -> None:
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        pass

@bot.conversation
async def shop(chat: Chat) -> None:
    await chat.choose("Size?", {"s": "Small", "l": "Large"})
    await chat.ask("Where?", Location)
    details = await chat.fill(Details, "How?")
    take_long()
    label = await chat.ask("Label?", File)
    await chat.charge(500, "All of it", item="all", late="refund")
    await chat.send(f"floor {details.floor}, {label.filename}")

@bot.aside(paid(str))
async def deliver(chat: Chat[Paid[str]]) -> None:
    chat.data[SOLD] += 1
    await chat.send("Here it is.")
"""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.cold
def test_a_whole_order_can_be_typed(tmp_path: Path) -> None:
    """Buttons by their label, a place, a form, a file and money; a typing error ends nothing."""
    (tmp_path / "shop.py").write_text(BOT)
    (tmp_path / "label.txt").write_text("label")
    typed = ["Large", "!location", "!submit floor=3", "!fly", "!file nowhere", "!file label.txt", "!pay"]

    ran = subprocess.run(
        [sys.executable, "-m", "triobot", "talk", "shop.py:bot"],
        cwd=tmp_path,
        env=child_environment(),
        input="\n".join([*typed, "!quit"]) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "! nobody knows !fly" in ran.stdout
    assert "! the file can't be read" in ran.stdout
    assert "floor 3, label.txt" in ran.stdout
    done = [
        "(You pressed “Large”)",
        "(You sent the form: 3)",
        "(You paid 500 rials)",
        "(The bot took 500 rials)",
    ]
    assert [line for line in done if line not in ran.stdout] == []


@pytest.mark.slow
@pytest.mark.processes
def test_what_an_edit_shows_is_written(tmp_path: Path) -> None:
    """A menu opens the next one in the same message; buttons that only go away are no news."""
    (tmp_path / "card.py").write_text(
        "from triobot import Bot, Chat\n"
        "from triobot.widgets import Menu, menu\n"
        "bot = Bot()\n"
        "@bot.conversation\n"
        "async def card(chat: Chat) -> None:\n"
        "    await menu(chat, Menu('What?', {'bread': 'Bread'}, [Menu('Drinks', {'tea': 'Tea'})]))\n"
        "    async with chat.live('0 %') as shown:\n"
        "        shown.show('100 %')\n"
        "    await chat.send('Done.')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "triobot", "talk", "card.py:bot"],
        cwd=tmp_path,
        env=child_environment(),
        input="Drinks\nTea\n!quit\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    shown = [line.strip() for line in ran.stdout.split("(You joined)\n")[1].splitlines()]
    assert shown == [
        *("bot : What?", "[ Drinks ]", "[ Bread ]", "(You pressed “Drinks”)"),
        *("bot : (edited) Drinks", "[ Tea ]", "[ « Back ]", "(You pressed “Tea”)"),
        *("bot : 0 %", "bot : (edited) 100 %", "bot : Done."),
    ]


@pytest.mark.slow
@pytest.mark.processes
def test_an_error_of_the_bot_s_own_is_shown_with_its_lines_and_its_cause(tmp_path: Path) -> None:
    """The author is at the terminal: the text is shown, the runtime's own lines are counted."""
    (tmp_path / "order.py").write_text(
        "from triobot import Bot, Chat\n"
        "bot = Bot()\n"
        "async def price(size):\n"
        "    return {'small': 1}[size]\n"
        "@bot.conversation\n"
        "async def order(chat: Chat) -> None:\n"
        "    await chat.step(price, await chat.ask('Size?'))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "triobot", "talk", "order.py:bot"],
        cwd=tmp_path,
        env=child_environment(),
        input="hi\nlarge\n!quit\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "order.py:7" in ran.stderr
    shown = [line.strip(" |") for line in ran.stderr.splitlines() if line.startswith("  | ")]
    assert "KeyError: 'large'" in shown or "KeyError: 'hi'" in shown
    assert any(
        line.startswith("File") and "order.py" in line and "line 4, in price" in line for line in shown
    )
    assert not any(line.startswith("File") and "triobot" in line for line in shown)
    assert "(frames of triobot and of libraries left out: " in shown[-1]


TOWN = """
from triobot import Bot, Chat, Message
from triobot.filters import join, text
bot = Bot()
bot.ignore(join())

@bot.conversation(text())
async def hello(chat: Chat[Message[str]]) -> None:
    who = chat.sender.name if chat.sender else "nobody"
    size = await chat.choose(f"Hello, {who}. Size?", {"s": "Small one", "l": "Large one"})
    await chat.send(f"{who} takes {size}.")
"""


@pytest.mark.slow
@pytest.mark.processes
def test_several_people_talk_in_chats_of_their_own_and_in_groups(tmp_path: Path) -> None:
    (tmp_path / "town.py").write_text(TOWN)
    typed = ["hi", "!as Ali", "hi", "Small one", "!as You", "Large one", "!group team Ali Mina"]
    typed += ["hello all", "!as Mina", "!in team", "Large one", "!in nowhere", "!group team Ali"]
    ran = subprocess.run(
        [sys.executable, "-m", "triobot", "talk", "town.py:bot"],
        cwd=tmp_path,
        env=child_environment(),
        input="\n".join(typed) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    lines = [line.strip() for line in ran.stdout.splitlines()]
    for expected in (
        "bot : [Ali] Ali takes s.",
        "bot : [You] You takes l.",
        "Ali : [team] hello all",
        "bot : [team] Ali takes l.",
        "! there is no group nowhere; !group nowhere ALI MINA makes one",
        "! !group takes a new name, and the people in it: !group team Ali Mina",
    ):
        assert expected in lines


@pytest.mark.slow
@pytest.mark.processes
def test_lines_are_typed_at_a_terminal_while_the_bot_speaks(tmp_path: Path) -> None:
    """In a terminal, which is left as it was."""
    (tmp_path / "town.py").write_text(TOWN)
    ours, its = pty.openpty()
    before = termios.tcgetattr(its)
    seen = b""

    def until(expected: bytes) -> None:
        nonlocal seen
        while expected not in seen:
            ready, _, _ = select.select([ours], [], [], PATIENCE)
            assert ready, seen
            seen += os.read(ours, 4096)

    with subprocess.Popen(
        [sys.executable, "-m", "triobot", "talk", "town.py:bot"],
        cwd=tmp_path,
        env=child_environment(TERM="xterm"),
        stdin=its,
        stdout=its,
        stderr=its,
    ) as process:
        until(b"You> ")
        os.write(ours, b"hi\n")
        until(b"[ Large one ]")
        os.write(ours, b"hm \xff\n")
        until("hm \ufffd".encode())
        os.write(ours, b"Large one\n")
        until(b"You takes l.")
        os.write(ours, b"!quit\n")
        assert process.wait(PATIENCE) == 0, seen
    assert termios.tcgetattr(its) == before
    os.close(ours)
    os.close(its)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.cold
def test_ctrl_c_ends_it_while_nothing_is_typed(tmp_path: Path) -> None:
    """The terminal's line is still being read then, and an interpreter that was started ends all the same."""
    (tmp_path / "town.py").write_text(TOWN)
    ours, its = pty.openpty()
    seen = b""
    with subprocess.Popen(
        [sys.executable, "-m", "triobot", "talk", "town.py:bot"],
        cwd=tmp_path,
        env=child_environment(TERM="xterm"),
        stdin=its,
        stdout=its,
        stderr=subprocess.DEVNULL,
    ) as process:
        while not seen.endswith(b"You> "):
            ready, _, _ = select.select([ours], [], [], PATIENCE)
            assert ready, seen
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == INTERRUPTED
    os.close(ours)
    os.close(its)


async def test_an_input_that_was_closed_before_the_start_is_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)

    assert await talk._read("> ") is None


async def test_a_byte_that_is_no_text_costs_itself_and_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = io.BytesIO(b"caf\xe9, please\nhalf \xf0\x9f\nthe next\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(typed), encoding="utf-8"))

    lines = [await talk._read("> ") for _ in range(4)]
    assert lines == ["caf\ufffd, please", "half \ufffd", "the next", None]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    "does",
    [
        "while True: pass",
        "time.sleep(1000)",
        "await trio.to_thread.run_sync(time.sleep, 1000)",
        "await stay()",
    ],
)
def test_the_second_ctrl_c_ends_it_whatever_the_bot_does(does: str, tmp_path: Path) -> None:
    (tmp_path / "spins.py").write_text(
        "import time\n"
        "import trio\n"
        "from triobot import Bot, Chat\n"
        "bot = Bot()\n"
        "async def stay() -> None:\n"
        "    with trio.CancelScope(shield=True):\n"
        "        await trio.sleep(1000)\n"
        "@bot.conversation\n"
        "async def hello(chat: Chat) -> None:\n"
        "    print('at work', flush=True)\n"
        f"    {does}\n"
    )
    command = [sys.executable, "-m", "triobot", "talk", "spins.py:bot"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=tmp_path, env=child_environment(), stdin=pipe, stdout=pipe, text=True
    ) as talk:
        assert talk.stdin is not None
        assert talk.stdout is not None
        talk.stdin.write("hello\n")
        talk.stdin.flush()
        assert any("at work" in line for line in talk.stdout)
        while talk.poll() is None:  # a signal that comes while another is taken is one with it
            talk.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                talk.wait(0.1)
        assert talk.returncode == INTERRUPTED
