"""The lines of curl on the page about running a bot run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.bot.rig import Chats, make_bot
from triobot import Chat

PAGE: Final = (Path(__file__).parents[2] / "docs/run.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_lines_of_curl_are_answered_by_a_bot_as_the_page_says(tmp_path: Path) -> None:
    block = re.search(r"(?ms)^```sh\nS=\S+\n(.*?)^```", PAGE)
    assert block is not None
    lines = block[1].replace("$S", f"{tmp_path}/bot.db.sock").replace("/var/backups", str(tmp_path))
    said: list[tuple[int, str, int]] = []
    bot = make_bot(Chats(), store=f"sqlite:{tmp_path}/bot.db")

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.ask("What?")

    async with bot.running():
        for line in lines.splitlines():
            command, _, status = line.partition("  #")
            ended = await trio.run_process(
                ["sh", "-c", f"{command} -sS -w '%{{stderr}}%{{http_code}}'"],
                capture_stdout=True,
                capture_stderr=True,
            )
            told = [json.loads(one) for one in ended.stdout.splitlines()]
            said.append((int(ended.stderr), command, int(status or 200)))
            assert all("error" in one for one in told) or not status
    assert [status for status, _, _ in said] == [expected for _, _, expected in said], said
    assert (tmp_path / "pizza.db").is_file()
    assert len({status for status, _, _ in said}) == 4
