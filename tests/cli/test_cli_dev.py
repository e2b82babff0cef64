"""``triobot dev``: the bot runs on a platform of its own, and survives what one does to it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from cli_rig import Command, child_environment

from tests.loopback import PATIENCE
from tests.passing import SCHEMA
from tests.processes.process import lives
from tests.schema import wrong
from triobot.emulator.person import App, AppError, connect
from triobot.studio.commands.dev import can_reload, folder_of
from triobot.studio.commands.dev import child_environment as environment_of_bot

Told = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples"

# What a bot's file says is for production: none of it may be used here.
BOT = """\
from triobot import Bot, Chat

bot = Bot(token="production-token", base_url="https://production.example", store="sqlite:production.db")


@bot.conversation
async def hello(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    await chat.send(f"Hello, {name}.")
"""


ASKS = '    name = await chat.ask("Your name?")\n'
ASKS_MORE = BOT.replace(ASKS, f'{ASKS}    city = await chat.ask("Which city do you live in?")\n')


PAID = """\
import attrs

from triobot import Bot, Chat, Paid
from triobot.filters import paid

bot = Bot()


@attrs.frozen
class Tea:
    cups: int


@bot.conversation
async def hello(chat: Chat) -> None:
    await chat.charge(5_000, "Tea", item=Tea(1))
    await chat.send("Thank you.")


@bot.aside(paid(Tea))
async def give(chat: Chat[Paid[Tea]]) -> None:
    await chat.send("Here it is.")
"""


@attrs.define
class Dev:
    """A running ``triobot dev``."""

    popen: subprocess.Popen[str]
    app: App
    log: Path

    async def bot(self) -> dict[str, object]:
        """How the bot's process is, as the control API tells it."""
        return cast("dict[str, object]", await self.app.get("bot"))

    async def wait_phase(self, phase: str) -> dict[str, object]:
        with trio.fail_after(PATIENCE):
            while (bot := await self.bot())["phase"] != phase:
                await trio.sleep(0.05)
        return bot

    async def wait_start(self, number: int) -> None:
        """Wait until the bot's process of this number, from 1, runs."""
        with trio.fail_after(PATIENCE):
            while (bot := await self.bot())["starts"] != number or bot["phase"] != "running":
                await trio.sleep(0.05)

    async def wait_held(self) -> list[Told]:
        """Wait until conversations hold the reload; gives them."""
        with trio.fail_after(PATIENCE):
            while not (held := cast("Told", await self.app.get("travel/held"))["held"]):
                await trio.sleep(0.05)
        return cast("list[Told]", held)

    async def ends(self, by: signal.Signals = signal.SIGINT) -> None:
        """Ctrl-C: whatever was done until now is kept. Without it, the command is killed."""
        self.popen.send_signal(by)
        assert await trio.to_thread.run_sync(partial(self.popen.wait, timeout=PATIENCE)) == 0

    async def wait_log(self, words: str) -> None:
        with trio.fail_after(PATIENCE):
            while words not in self.log.read_text():
                await trio.sleep(0.05)


@asynccontextmanager
async def developing(folder: Path, *arguments: str, port: int = 0, **environ: str) -> AsyncGenerator[Dev]:
    """Run the command on `folder`'s bot.py; at the end it is killed, unless it `ends` before."""
    log = folder / "dev.log"
    with log.open("w") as errors:
        popen = subprocess.Popen(
            [sys.executable, "-m", "triobot", "dev", "bot.py:bot", "--port", str(port), *arguments],
            cwd=folder,
            env=child_environment(**environ),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert popen.stdout is not None
        line = ""
        while "/#" not in line:
            line = await trio.to_thread.run_sync(popen.stdout.readline, abandon_on_cancel=True)
            assert line, log.read_text()
        page, _, token = line.strip().partition("/#")
        async with connect(f"{page}/control", token) as app:
            yield Dev(popen, app, log)
    finally:
        popen.kill()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(popen.wait, timeout=PATIENCE))
        assert popen.stdout is not None
        popen.stdout.close()


@pytest.mark.processes
async def test_a_bot_is_killed_restarted_broken_and_mended(tmp_path: Path) -> None:
    """Nothing that is said in the meantime is lost; and no setting for production is used."""
    source = tmp_path / "bot.py"
    source.write_text(BOT)
    async with developing(
        tmp_path,
        TRIOBOT_TOKEN="production-token",
        TRIOBOT_STORE="sqlite:production.db",
        TRIOBOT_BASE_URL="https://production.example",
    ) as dev:
        sara = await dev.app.user("Lena")
        await sara.joins()
        await sara.sees("Your name?", within=PATIENCE)
        await sara.says("Lena")
        await sara.sees("Hello, Lena.", within=PATIENCE)

        await dev.app.post("bot/kill", {})
        killed = await dev.wait_phase("killed")
        assert killed["pid"] is None
        await sara.says("Are you there?")
        await dev.app.post("bot/restart", {})
        await sara.sees("Your name?", within=PATIENCE)
        assert (await dev.wait_phase("running"))["starts"] == 2

        if not can_reload():
            pytest.skip("watchfiles is not installed")
        source.write_text(BOT.replace("chat.ask(", "chat.ask(("))
        failed = await dev.wait_phase("failed")
        assert "SyntaxError" in str(failed["problem"]) and "line 8" in str(failed["problem"])
        assert "importlib" not in str(failed["problem"])
        assert "SyntaxError" in dev.log.read_text()
        await sara.says("Still there?")
        source.write_text(BOT.replace("Your name?", "Who are you?"))
        running = await dev.wait_phase("running")
        # Until the place in a conversation is kept, what is said afterwards begins it anew.
        await sara.says("Now?")
        await sara.sees("Who are you?", within=PATIENCE)

        await dev.ends()
        assert not lives(cast("int", running["pid"]))
    assert not (tmp_path / "production.db").exists()
    assert "Traceback" not in dev.log.read_text()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.cold  # each of its processes hashes in another way
async def test_the_order_of_a_set_is_found_out(tmp_path: Path) -> None:
    """Nothing of it shows in one process: the next has another order, and names the line."""
    (tmp_path / "bot.py").write_text(
        BOT.replace("chat.ask(", "chat.choose(").replace(
            '"Your name?"', '"You?", {f"{n}": f"{n}" for n in {f"{n}" for n in range(20)}}'
        )
    )
    async with developing(tmp_path, "--no-reload") as dev:
        sara = await dev.app.user("Lena")
        await sara.joins()
        await sara.sees("You?", within=PATIENCE)
        await dev.app.post("bot/restart", {})
        await sara.presses("7")
        await sara.sees("Hello, 7.", within=PATIENCE)
        await dev.wait_log("has other arguments than before")
        assert "bot.py:8: conversation bot.hello doesn't repeat itself" in dev.log.read_text()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.cold
async def test_a_bot_ends_with_a_dev_that_was_killed(tmp_path: Path) -> None:
    """Nobody is left to stop it, so it looks after itself."""
    (tmp_path / "bot.py").write_text(BOT)
    async with developing(tmp_path, "--no-reload") as dev:
        pid = (await dev.wait_phase("running"))["pid"]
        dev.popen.kill()
        with trio.fail_after(PATIENCE):
            while lives(cast("int", pid)):
                await trio.sleep(0.05)


def test_a_name_that_can_be_no_bot_is_refused(triobot: Command) -> None:
    ended = triobot("dev", ":bot")

    assert (ended.code, ended.out) == (1, "")
    assert "names no bot" in ended.err


def test_what_is_kept_is_kept_in_a_file(triobot: Command, hello: Path) -> None:
    ended = triobot("dev", "hello:bot", "--store", "dev.db")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "triobot: --store takes sqlite:PATH, such as sqlite:dev.db\n"


def test_no_setting_of_ours_reaches_the_bot() -> None:
    ours = {
        "HOME": "/home/me",
        "TRIOBOT_TOKEN_FILE": "/secret",
        "TRIOBOT_USERNAME": "shop",
        "LISTEN_FDS": "1",
    }

    given = environment_of_bot(ours, token="t", base_url="http://b", secret="s", store="memory:")

    assert given.pop("HOME") == "/home/me"
    assert given == {
        "PYTHONUNBUFFERED": "1",
        "TRIOBOT_TOKEN": "t",
        "TRIOBOT_BASE_URL": "http://b",
        "TRIOBOT_WEBHOOK_SECRET": "s",
        "TRIOBOT_STORE": "memory:",
    }


def test_the_files_beside_a_bot_are_watched(tmp_path: Path) -> None:
    assert folder_of(f"{tmp_path}/shop.py:bot") == tmp_path
    assert folder_of("shop:bot") == Path.cwd()


@pytest.mark.slow
@pytest.mark.processes
async def test_a_crash_is_looked_at_while_the_bot_runs_and_after_it(tmp_path: Path) -> None:
    """In a terminal of its own, without a token, as the command says at its start."""
    (tmp_path / "bot.py").write_text(BOT.replace("Hello, {name}.", "Hello, {name.nothing}."))
    look = [sys.executable, "-m", "triobot", "replay"]

    async def replayed(chat: int) -> subprocess.CompletedProcess[str]:
        command = [*look, str(chat), "bot.py:bot", "--store", "sqlite:dev.db"]
        run = partial(subprocess.run, cwd=tmp_path, env=child_environment(), capture_output=True, text=True)
        return await trio.to_thread.run_sync(partial(run, command))

    async with developing(tmp_path, "--store", "sqlite:dev.db") as dev:
        sara = await dev.app.user("Lena")
        await sara.joins()
        await sara.sees("Your name?", within=PATIENCE)
        waiting = await replayed(sara.chat_id)
        assert "it waits in receive" in waiting.stdout, waiting.stderr
        await sara.says("Lena")
        await dev.wait_log("AttributeError")
        with trio.fail_after(PATIENCE):
            while "it failed" not in (crashed := await replayed(sara.chat_id)).stdout:
                await trio.sleep(0.05)
        await dev.ends()
    assert "it failed with AttributeError at " in crashed.stdout
    assert "bot.py:9" in crashed.stdout
    after = await replayed(sara.chat_id)
    assert (after.returncode, after.stdout) == (0, crashed.stdout)


@pytest.mark.slow
@pytest.mark.processes
async def test_what_a_conversation_was(tmp_path: Path) -> None:
    """Its turns are told while it waits, and while the bot is down; and when the bot was killed."""
    (tmp_path / "bot.py").write_text(BOT)
    async with developing(tmp_path, "--no-reload") as dev:
        sara = await dev.app.user("Lena")
        await sara.joins()
        await sara.sees("Your name?", within=PATIENCE)
        chat = f"travel/{sara.chat_id}"
        with trio.fail_after(PATIENCE):
            while not (listed := cast("Told", await dev.app.get(chat)))["conversations"]:
                await trio.sleep(0.05)
        (conversation,) = listed["conversations"]
        assert (conversation["route"], conversation["state"]) == ("bot.hello", "waits")

        await dev.app.post("bot/kill", {})
        await dev.wait_phase("killed")
        opened = cast("Told", await dev.app.post(f"{chat}/{conversation['conversation']}/open", {}))
        with trio.fail_after(PATIENCE):
            while "format" not in (head := cast("Told", await dev.app.get(f"travel/pass/{opened['id']}"))):
                await trio.sleep(0.05)
        assert wrong(head, SCHEMA["$defs"]["head"], SCHEMA) is None
        assert [mark["what"] for mark in head["marks"]] == ["kill"]
        told = cast("Told", await dev.app.get(f"travel/pass/{opened['id']}/notches"))
        assert [notch["k"] for notch in told["notches"]] == ["begin", "send"]
        assert [wrong(notch, SCHEMA["$defs"]["notch"], SCHEMA) for notch in told["notches"]] == [None] * 2
        with pytest.raises(AppError, match="open it again"):
            await dev.app.get("travel/pass/p99")


@pytest.mark.slow
@pytest.mark.processes
async def test_what_ended_well_was(tmp_path: Path) -> None:
    """An order that was paid for, and the aside that gave it: both are over, and both can be seen."""
    for name in ("pizza.py", "pizza.jpg"):
        (tmp_path / name.replace("pizza.py", "bot.py")).write_bytes((EXAMPLES / name).read_bytes())
    async with developing(tmp_path, "--no-reload") as dev:
        sara = await dev.app.user("Lena", irr=1_000_000)
        await sara.joins()
        await sara.sees("Your name?", within=PATIENCE)
        await sara.says("Lena")
        await sara.presses("Large", within=PATIENCE)
        await sara.sees("Where to?", within=PATIENCE)
        await sara.shares_location()
        await sara.submits({"floor": "2", "doorbell": "L", "cutlery": "true"}, within=PATIENCE)
        await sara.pays(within=PATIENCE)
        seen = await sara.sees(within=PATIENCE)
        while "Ready in 30 minutes" not in str(seen.raw):
            seen = await sara.sees(within=PATIENCE)
        with trio.fail_after(PATIENCE):
            while True:
                listed = cast("Told", await dev.app.get(f"travel/{sara.chat_id}"))["conversations"]
                if [one["state"] for one in listed] == ["ended", "ended"]:
                    break
                await trio.sleep(0.05)
        assert {one["route"] for one in listed} == {"bot.pizza", "bot.deliver"}
        for one in listed:
            path = f"travel/{sara.chat_id}/{one['conversation']}/open"
            opened = cast("Told", await dev.app.post(path, {}))
            with trio.fail_after(PATIENCE):
                while "format" not in (
                    head := cast("Told", await dev.app.get(f"travel/pass/{opened['id']}"))
                ):
                    await trio.sleep(0.05)
            assert head["state"] == "ended", str(head)
            told = cast("Told", await dev.app.get(f"travel/pass/{opened['id']}/notches"))["notches"]
            assert (told[-1]["k"], told[-1]["dot"]) == ("end", "end")
            assert "money" in {notch["dot"] for notch in told} or one["route"] == "bot.deliver"


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(not can_reload(), reason="watchfiles is not installed")
async def test_a_reload_is_held_for_a_chat_that_it_would_break(tmp_path: Path) -> None:
    """The commonest thing that anyone does: a line is added where a chat waits; each way out of that."""
    source, asks = tmp_path / "bot.py", '    name = await chat.ask("Your name?")'
    source.write_text(BOT)
    longer = BOT.replace(asks, f'    await chat.send("Welcome!")\n{asks}')
    async with developing(tmp_path) as dev:
        sara = await dev.app.user("Lena")
        chat = f"travel/{sara.chat_id}"

        async def is_held() -> Told:
            with trio.fail_after(PATIENCE):
                while not (held := cast("Told", await dev.app.get("travel/held"))["held"]):
                    await trio.sleep(0.05)
            (one,) = held
            assert (await dev.bot())["phase"] == "running"
            return cast("Told", one)

        async def choose(one: Told, way: str) -> None:
            await dev.app.post(f"{chat}/{one['conversation']}/held", {"way": way})

        async def takes(starts: int) -> None:
            """The bot takes the code, and a process has loaded it."""
            with trio.fail_after(PATIENCE):
                while (bot := await dev.bot())["starts"] != starts or bot["phase"] != "running":
                    await trio.sleep(0.05)
                assert cast("Told", await dev.app.get("travel/held")) == {"held": []}
                while not (listed := cast("Told", await dev.app.get(chat))["conversations"]):
                    await trio.sleep(0.05)
                opened = cast("Told", await dev.app.post(f"{chat}/{listed[0]['conversation']}/open", {}))
                while "format" not in cast("Told", await dev.app.get(f"travel/pass/{opened['id']}")):
                    await trio.sleep(0.05)

        await sara.joins()
        await sara.sees("Your name?", within=PATIENCE)
        await takes(1)
        source.write_text(longer)
        held = await is_held()
        assert (held["chat_id"], held["route"], held["notch"], held["way"]) == (
            sara.chat_id,
            "bot.hello",
            0,
            None,
        )
        await dev.wait_log(f"the new code parts from chat {sara.chat_id} (bot.hello) at notch 0")
        assert 'is `await chat.send("Welcome!")` in line 8' in dev.log.read_text()
        assert f"the reload is held for chat {sara.chat_id}" in dev.log.read_text()
        with pytest.raises(AppError, match="must be wait or end"):
            await choose(held, "sleep")
        with pytest.raises(AppError, match="doesn't hold the reload"):
            await choose({"conversation": 99}, "end")
        # The old code goes on until it has come to its end.
        await choose(held, "wait")
        assert (await is_held())["way"] == "wait"
        await sara.says("Lena")
        await sara.sees("Hello, Lena.", within=PATIENCE)
        await takes(2)
        await sara.says("Again.")
        await sara.sees("Welcome!", within=PATIENCE)
        await sara.sees("Your name?", within=PATIENCE)

        # What is saved while it is held is tried in its turn, and what can't be loaded changes nothing.
        source.write_text(BOT)
        before = await is_held()
        source.write_text(BOT.replace("chat.ask(", "chat.ask(("))
        await dev.wait_log("the new code can't be loaded, and the reload stays held")
        broken = await is_held()
        assert broken == {**before, "broken": broken["broken"]}
        assert "SyntaxError: '(' was never closed (bot.py, line 8)" in broken["broken"]
        source.write_text(BOT.replace("Your name?", "Who are you?"))
        with trio.fail_after(PATIENCE):
            while dev.log.read_text().count("the reload is held for chat") < 3:
                await trio.sleep(0.05)
        assert (await is_held())["broken"] == ""
        await choose(await is_held(), "end")
        await sara.says("Hello?")
        await sara.sees("Who are you?", within=PATIENCE)
        await takes(3)

        # A process that is down ends nothing by itself; the next one does what was ordered.
        source.write_text(longer)
        held = await is_held()
        await dev.app.post("bot/kill", {})
        await dev.wait_phase("killed")
        with pytest.raises(AppError, match="nothing ends by itself"):
            await choose(held, "wait")
        await choose(held, "end")
        await sara.says("Hello?")
        await sara.sees("Welcome!", within=PATIENCE)
        await sara.sees("Your name?", within=PATIENCE)
        await takes(4)

        # Whoever restarts it takes the code all the same; and Ctrl-C ends it as ever.
        source.write_text(BOT)
        await is_held()
        await dev.app.post("bot/restart", {})
        await takes(5)
        reza = await dev.app.user("Reza")
        await reza.joins()
        await reza.sees("Your name?", within=PATIENCE)
        source.write_text(longer)
        assert (await is_held())["chat_id"] == reza.chat_id
        await dev.ends()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(not can_reload(), reason="watchfiles is not installed")
async def test_new_code_takes_the_place_of_a_chat_that_it_has_parked(tmp_path: Path) -> None:
    """The code was loaded in spite of all; the same answers are a way out then, too."""
    source = tmp_path / "bot.py"
    source.write_text(ASKS_MORE)
    async with developing(tmp_path) as dev:
        sara = await dev.app.user("Lena")
        await sara.joins()
        # At once: what waits while the conversation begins is a part of it, too.
        await sara.says("Lena")
        await sara.sees("Which city do you live in?", within=PATIENCE)
        more = '    await chat.sleep(0.1)\n    age = await chat.ask("How old are you?")\n'
        source.write_text(BOT.replace(ASKS, ASKS + more))
        await dev.wait_held()
        await dev.app.post("bot/restart", {})
        await dev.wait_start(2)
        await sara.says("Shiraz")
        chat = f"travel/{sara.chat_id}"
        with trio.fail_after(PATIENCE):
            while (listed := cast("Told", await dev.app.get(chat))["conversations"])[0]["state"] != "parked":
                await trio.sleep(0.05)
        path = f"{chat}/{listed[0]['conversation']}"
        look = cast("Told", await dev.app.post(f"{path}/answers", {}))
        assert look["can_take"] is True
        await dev.app.post(f"travel/branch/{look['id']}/take", {})
        await dev.wait_start(3)
        assert cast("Told", await dev.app.get("travel/held")) == {"held": []}
        # What came while it was parked is the new code's.
        await sara.sees("How old are you?", within=PATIENCE)
        await sara.sees("Hello, Lena.", within=PATIENCE)
        shown = cast("Told", await dev.app.get(f"users/{sara.id}/chat"))
        texts = [message["content"]["text"] for message in shown["messages"]]
        assert texts[-4:] == ["Your name?", "Lena", "How old are you?", "Hello, Lena."]
        assert len(texts) == 5, texts
        await dev.ends()


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(not can_reload(), reason="watchfiles is not installed")
async def test_new_code_takes_a_chats_place_with_the_same_answers(tmp_path: Path) -> None:
    """A question is put before another: the developer answers it, and the chat goes on with the new code."""
    source = tmp_path / "bot.py"
    source.write_text(ASKS_MORE)
    async with developing(tmp_path) as dev:
        sara = await dev.app.user("Lena")
        await sara.joins()
        await sara.sees("Your name?", within=PATIENCE)
        await sara.says("Lena")
        await sara.sees("Which city do you live in?", within=PATIENCE)

        before = '    drink = await chat.ask("Something to drink?")\n'
        source.write_text(ASKS_MORE.replace(ASKS, before + ASKS))
        (one,) = await dev.wait_held()
        path = f"travel/{sara.chat_id}/{one['conversation']}"

        async def given() -> Told:
            """What the new code asks first; then it gets the answers that were given."""
            look = cast("Told", await dev.app.post(f"{path}/answers", {}))
            branch = f"travel/branch/{look['id']}"
            assert (look["answers"]["left"], look["can_take"]) == (1, True)
            await dev.app.post(f"{branch}/act", {"name": "say", "values": {"text": "Tea"}})
            look = cast("Told", await dev.app.post(f"{branch}/answers", {"way": "go_on"}))
            assert look["answers"] == {"left": 0, "stopped": None}
            return look

        look = await given()
        # The old code goes on: what people say to it meanwhile is not in the branch.
        await sara.says("Shiraz")
        await sara.sees("Hello, Lena.", within=PATIENCE)
        with pytest.raises(AppError, match=r"gone on since|neither holds|no such|has ended"):
            await dev.app.post(f"travel/branch/{look['id']}/take", {})
        await dev.wait_phase("running")
        with trio.fail_after(PATIENCE):
            while (await dev.bot())["starts"] != 2:
                await trio.sleep(0.05)

        # The other way round, and now nothing comes between.
        await dev.wait_phase("running")
        await sara.says("Hello")
        await sara.sees("Something to drink?", within=PATIENCE)
        await sara.says("Water")
        await sara.sees("Your name?", within=PATIENCE)
        source.write_text(ASKS_MORE)
        held = await dev.wait_held()
        path = f"travel/{sara.chat_id}/{held[0]['conversation']}"
        look = cast("Told", await dev.app.post(f"{path}/answers", {}))
        branch = f"travel/branch/{look['id']}"
        look = cast("Told", await dev.app.post(f"{branch}/answers", {"way": "insist"}))
        assert look["can_take"] is True
        await dev.app.post(f"{branch}/take", {})
        await dev.wait_start(3)
        assert cast("Told", await dev.app.get("travel/held")) == {"held": []}
        shown = cast("Told", await dev.app.get(f"users/{sara.id}/chat"))
        texts = [message["content"]["text"] for message in shown["messages"]]
        assert texts[-3:] == ["Your name?", "Water", "Which city do you live in?"]
        assert "Something to drink?" not in texts[-4:]
        history = cast("Told", await dev.app.get(f"history?chat={sara.chat_id}"))
        last = history["lines"][-1]
        assert (last["kind"], last["after"] >= history["messages"][-1]["id"]) == ("replayed", True)
        await sara.says("Shiraz")
        await dev.wait_log("goes on with the new code, which was given its answers")
        with trio.fail_after(PATIENCE):
            while True:
                shown = cast("Told", await dev.app.get(f"users/{sara.id}/chat"))
                if shown["messages"][-1]["content"].get("text") == "Hello, Water.":
                    break
                await trio.sleep(0.05)

        # Where money was asked for, no chat's place is taken: none may be lost.
        source.write_text(PAID)
        await dev.wait_start(4)
        await sara.says("Hello")
        with trio.fail_after(PATIENCE):
            while not await dev.app.get("payments"):
                await trio.sleep(0.05)
        charges = "    await chat.charge("
        source.write_text(PAID.replace(charges, f'    await chat.send("Welcome!")\n{charges}'))
        held = await dev.wait_held()
        path = f"travel/{sara.chat_id}/{held[0]['conversation']}"
        look = cast("Told", await dev.app.post(f"{path}/answers", {}))
        assert (look["can_take"], "money was asked for in it" in look["cannot_take"]) == (False, True)
        with pytest.raises(AppError, match="money was asked for in it"):
            await dev.app.post(f"travel/branch/{look['id']}/take", {})
        assert cast("Told", await dev.app.get("travel/held"))["held"][0]["way"] is None
        await dev.ends()
