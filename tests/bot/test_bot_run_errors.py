"""`Bot.run` in an author's script raises the documented errors themselves, not exception groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bot.rig import Chats, make_bot
from triobot import Bot, Chat, Settings
from triobot.errors import ConfigError, StoreLockedError
from triobot.store.lock import take_lock


def hello_bot(bot: Bot) -> Bot:
    """With something to do."""

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.send("hello")

    return bot


def test_a_missing_token_is_a_plain_error() -> None:
    """The last line that the author sees says what to set."""
    with pytest.raises(ConfigError, match="TRIOBOT_TOKEN"):
        hello_bot(Bot(settings=Settings(store="memory:", port=0))).run()


@pytest.mark.slow
def test_a_bot_without_routes_is_a_plain_error() -> None:
    """Though it is found out deep inside."""
    with pytest.raises(ConfigError, match="no route"):
        make_bot(Chats()).run()


@pytest.mark.slow
def test_a_locked_store_is_a_plain_error(tmp_path: Path) -> None:
    """Another process has it."""
    path = tmp_path / "bot.db"
    lock = take_lock(path)
    try:
        with pytest.raises(StoreLockedError):
            hello_bot(make_bot(Chats(), store=f"sqlite:{path}")).run()
    finally:
        lock.release()
