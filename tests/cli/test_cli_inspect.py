"""`triobot inspect`: over a bot's store, over the bot itself, over an exported journal."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trio
from cli_rig import Command, child_environment

from tests.bot.rig import SECRET, Chats, say
from tests.loopback import PATIENCE
from tests.passing import SCHEMA
from tests.schema import wrong
from triobot.cli.loading import load_bot

pytestmark = [pytest.mark.processes, pytest.mark.virtual_time(False)]

BOT = """\
from enum import Enum

from tests.bot.rig import SECRET, Chats, make_bot
from triobot import Chat, Key

SEEN = Key("seen", str, default="")
TOKEN = "rig-token"
chats = Chats()
bot = make_bot(chats, store="sqlite:bot.db")


class Cook:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<cook {self.name}>"


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Name?")
    cook, names = Cook(name), [name]
    chat.data[SEEN] = name
    phone = await chat.ask(f"Phone of {name}?")
    if phone == "none":
        raise ValueError(f"{name} has no phone")
    await chat.ask("Street?")
"""
SAID = ("Hannelore", "09121234567", "Begonia", "rig-token", SECRET)
"""What people have written, and the bot keeps secret: nothing of it may be in an answer."""


@attrs.frozen
class Looking:
    """A server of `triobot inspect`; what it answered is in `told`."""

    client: httpx.AsyncClient
    process: trio.Process
    told: list[str] = attrs.Factory(list)

    async def get(self, path: str) -> Any:
        answer = await self.client.get(f"/control/travel{path}")
        self.told.append(answer.text)
        assert answer.status_code == 200, answer.text
        return answer.json() if "json" in answer.headers["content-type"] else answer.text

    async def opened(self, chat: int, conversation: int) -> Any:
        """Open a pass; return its head once it is ready."""
        answer = await self.client.post(f"/control/travel/{chat}/{conversation}/open", json={})
        assert answer.status_code == 202, answer.text
        id = answer.json()["id"]
        with trio.fail_after(PATIENCE):
            while "format" not in (head := await self.get(f"/pass/{id}")):
                await trio.sleep(0.02)
        assert wrong(head, SCHEMA["$defs"]["head"], SCHEMA) is None
        return head

    async def notches(self, head: Any) -> list[Any]:
        notches: list[Any] = (await self.get(f"/pass/{head['id']}/notches?from=0&to=256"))["notches"]
        assert [wrong(one, SCHEMA["$defs"]["notch"], SCHEMA) for one in notches] == [None] * len(notches)
        return notches


@asynccontextmanager
async def inspecting(folder: Path, *arguments: str) -> AsyncGenerator[Looking]:
    """Run the command until the block ends; its log is in ``inspect.log``."""
    ready, theirs = os.pipe()
    command = [sys.executable, "-m", "triobot", "inspect", *arguments, "--ready-fd", str(theirs)]
    with (folder / "inspect.log").open("wb") as log:
        process = await trio.lowlevel.open_process(
            command, cwd=folder, env=child_environment(), pass_fds=[theirs], stdout=log, stderr=log
        )
    os.close(theirs)
    async with trio.lowlevel.FdStream(ready) as told:
        with trio.fail_after(PATIENCE):
            line = b"".join([chunk async for chunk in told])
    assert line, (folder / "inspect.log").read_text("utf-8")
    page, _, key = json.loads(line)["page"].partition("/#")
    headers = {"X-Triobot-Control": key}
    async with httpx.AsyncClient(base_url=page, headers=headers, timeout=PATIENCE, trust_env=False) as client:
        yield Looking(client, process)
    process.terminate()
    with trio.fail_after(PATIENCE):
        await process.wait()


@asynccontextmanager
async def ordering(folder: Path) -> AsyncGenerator[None]:
    """Run a bot: somebody in chat 7 is asked for the street, somebody's order has crashed in chat 8."""
    (folder / "ordering.py").write_text(BOT, encoding="utf-8")
    bot = load_bot(f"{folder / 'ordering.py'}:bot")
    chats: Chats = sys.modules["ordering"].chats
    async with bot.running() as intake:
        for chat, phone in ((7, SAID[1]), (8, "none")):
            await say(intake, chat, "Begonia")
            await chats.wait_for(chat, "Name?")
            await say(intake, chat, "Hannelore")
            await chats.wait_for(chat, "Name?", "Phone of Hannelore?")
            await say(intake, chat, phone)
        await chats.wait_for(7, "Name?", "Phone of Hannelore?", "Street?")
        with trio.fail_after(PATIENCE):
            while len(chats.texts[8]) < 3:  # it says that something went wrong
                await trio.sleep(0.01)
        yield


def unchanged(folder: Path) -> dict[str, bytes]:
    """All files of a store."""
    return {path.name: path.read_bytes() for path in folder.glob("bot.db*")}


@pytest.mark.slow
async def test_a_stopped_bots_store_without_what_people_wrote(tmp_path: Path) -> None:
    """Every answer, for one that waits and one that has crashed; its door; and no route that does a thing."""
    async with ordering(tmp_path):
        pass
    before = unchanged(tmp_path)

    async with inspecting(tmp_path, "ordering.py:bot", "--store", "sqlite:bot.db") as looking:
        listed = await looking.get("")
        assert (listed["about"]["what"], listed["about"]["hidden"], listed["after"]) == ("store", True, None)
        rows = {row["chat_id"]: row for row in listed["conversations"]}
        assert {chat: row["state"] for chat, row in rows.items()} == {7: "waits", 8: "crashed"}
        assert (await looking.get("/7"))["can"] == []

        head = await looking.opened(7, rows[7]["conversation"])
        *_, answered, asked = await looking.notches(head)
        assert (head["state"], head["hidden"]) == ("waits", True)
        assert answered["in"] == {"what": "message", "text": "", "letters": 11, "content": {"type": "text"}}
        whole = (await looking.get(f"/pass/{head['id']}/notches?from={asked['n']}&to=99"))["notches"][0]
        (values,) = whole["v"][""]
        assert {name: values[name] for name in ("name", "phone", "cook", "names")} == {
            "name": "text, 9 letters",
            "phone": "text, 11 letters",
            "cook": "Cook",
            "names": "list, 1 value",
        }
        assert whole["data"] == {"seen": "text, 9 letters"}
        (frame,) = whole["f"][""]
        assert BOT.splitlines()[frame[1] - 1].strip() == 'await chat.ask("Street?")'
        source = await looking.get(f"/pass/{head['id']}/source/0")
        assert source == BOT.replace("rig-token", "***")

        crashed = await looking.opened(8, rows[8]["conversation"])
        assert (crashed["state"], crashed["failures"][0]["error"]) == ("crashed", "ValueError")
        assert crashed["failures"][0]["v"][0]["phone"] == "text, 4 letters"
        await looking.notches(crashed)

        for text in looking.told:
            assert [said for said in SAID if said in text] == []

        for method, path, status in (
            ("POST", f"/pass/{head['id']}/branch", 404),
            ("POST", f"/pass/{head['id']}/test", 404),
            ("POST", f"/7/{rows[7]['conversation']}/answers", 404),
            ("POST", "/7/0/open", 404),
            ("POST", "/../users", 404),
            ("GET", "/9", 200),
        ):
            kind = {"Content-Type": "application/json"}
            answer = await looking.client.request(method, f"/control/travel{path}", headers=kind)
            assert answer.status_code == status, path
            assert "Hannelore" not in answer.text
        for headers in (
            {"X-Triobot-Control": "x"},
            {"Host": "evil.example"},
            {"Origin": "http://evil.example"},
        ):
            answer = await looking.client.get("/control/travel", headers=headers)
            assert answer.status_code == 403
        page = await looking.client.get("/")
        assert "triobot inspect" in page.text
        assert "trusted-types 'none'" in page.headers["Content-Security-Policy"]

    assert unchanged(tmp_path) == before
    assert "Hannelore" not in (tmp_path / "inspect.log").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.cold
async def test_a_running_bot_with_what_people_wrote(tmp_path: Path) -> None:
    """It is asked over its socket, and the log says who looked. Once it has stopped, that is said."""
    async with ordering(tmp_path):
        look = inspecting(tmp_path, "7", "ordering.py:bot", "--store", "sqlite:bot.db", "--show-values")
        async with look as looking:
            listed = await looking.get("")
            assert (listed["about"]["what"], listed["about"]["hidden"]) == ("bot", False)
            (row,) = listed["conversations"]
            head = await looking.opened(7, row["conversation"])
            assert "hidden" not in head
            notches = await looking.notches(head)
            assert notches[-2]["in"]["text"] == "09121234567"
            assert "<cook Hannelore>" in str([notch.get("v") for notch in notches])
            (tmp_path / "bot.db.sock").unlink()
            gone = await looking.client.get("/control/travel/7")
            assert (gone.status_code, gone.json()["error"]) == (404, "the bot has ended meanwhile; ask again")
    log = (tmp_path / "inspect.log").read_text("utf-8")
    assert "sees what was written in chat 7" in log
    assert "Hannelore" not in log


@pytest.mark.slow
async def test_exported_journals(tmp_path: Path, triobot: Command) -> None:
    async with ordering(tmp_path):
        pass
    shown = await trio.to_thread.run_sync(
        lambda: triobot("journal", "export", "1", "--store", "sqlite:bot.db")
    )
    by_chat = await trio.to_thread.run_sync(
        lambda: triobot("journal", "export", "7", "--store", "sqlite:bot.db")
    )
    assert by_chat.out == shown.out
    async with inspecting(tmp_path, "1", "ordering.py:bot", "--store", "sqlite:bot.db") as looking:
        assert [row["conversation"] for row in (await looking.get(""))["conversations"]] == [1]
    (tmp_path / "whole.jsonl").write_text(shown.out, encoding="utf-8")

    async with inspecting(tmp_path, "whole.jsonl", "ordering.py:bot") as looking:
        (row,) = (await looking.get(""))["conversations"]
        head = await looking.opened(7, row["conversation"])
        assert [one["in"]["letters"] for one in await looking.notches(head) if "in" in one] == [7, 9, 11]
        assert [said for text in looking.told for said in SAID if said in text] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py:bot"], "there is no file"),
        (["7"], "which code? triobot inspect WHICH MODULE:BOT"),
        ([], "which bot?"),
        (["hello.py:bot", "--store", "sqlite:none.db"], "there is no store at"),
        (["hello.py:bot", "--store", "memory:"], "only a sqlite: store is a file"),
        (["hello.py:bot", "--store", "sqlite:other.db"], "other.db is a database of another program"),
        (["none.jsonl", "hello.py:bot"], "can't be read"),
        (["note.txt", "hello.py:bot"], "is no exported journal"),
        (["list.jsonl", "hello.py:bot"], "is no exported journal"),
        (["redacted.jsonl", "hello.py:bot"], "this export was redacted"),
    ],
)
def test_what_can_not_be_looked_at(arguments: list[str], words: str, triobot: Command, hello: Path) -> None:
    folder = hello.parent
    (folder / "note.txt").write_text("Hannelore\n")
    (folder / "list.jsonl").write_text("[1]\n")
    (folder / "redacted.jsonl").write_text('{"conversation": 1, "chat_id": 0}\n')
    connection = sqlite3.connect(folder / "other.db")
    connection.execute("CREATE TABLE one (two)")
    connection.close()

    ended = triobot("inspect", *arguments)

    assert ended.code == 1
    assert words in ended.err
    assert "Hannelore" not in ended.err
    assert "triobot-inspect-" not in ended.err
