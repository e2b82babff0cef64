"""Filters that look at what the chat keeps."""

from __future__ import annotations

from typing import Any, cast

import pytest

from triobot import Bot, Chat, Command, Key, Router
from triobot.conversations import registry
from triobot.errors import ConfigError
from triobot.filters import command, kept, text
from triobot.testing import drive

ADMIN = Key("admin", bool, default=False)
LEVEL = Key("level", int)


def a_bot_with_admins() -> Bot:
    bot, admin = Bot(), Router(when=kept(ADMIN))

    @admin.conversation(command("edit"))
    async def edit(chat: Chat[Command]) -> None:
        await chat.ask("What?")
        await chat.send("Edited.")

    @bot.aside(command("admin"))
    async def sign_in(chat: Chat[Command]) -> None:
        chat.data[ADMIN] = chat.event.rest == "let me in"
        await chat.send("You may." if chat.data[ADMIN] else "No.")

    @bot.aside(text("raise") & kept(LEVEL, lambda level: level > 3))
    async def high(chat: Chat) -> None:
        await chat.send("High enough.")

    bot.include(admin)

    @bot.conversation(command("start", "edit"))
    async def other(chat: Chat) -> None:
        await chat.send("Hello.")

    return bot


@pytest.mark.parametrize("memory", [1, 10_000])
async def test_who_has_signed_in_is_let_in(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    monkeypatch.setattr(registry, "KEPT", memory)
    async with drive(a_bot_with_admins()) as world:
        ali, sara = world.user("Ali"), world.user("Sara")
        for person in (ali, sara):
            await person.joins()
            await person.says("/edit")
            await person.sees("Hello.")
        await ali.says("/admin let me in")
        await ali.sees("You may.")
        await ali.says("/edit")
        await ali.sees("What?")
        await sara.says("/edit")
        await sara.sees("Hello.")
        await world.crashes()
        await ali.says("This")
        await ali.sees("Edited.")
        await ali.says("/edit")
        await ali.sees("What?")
        await ali.says("That")
        await ali.sees("Edited.")
        await ali.says("/admin")
        await ali.sees("No.")
        await ali.says("/edit")
        await ali.sees("Hello.")


async def test_what_is_set_from_elsewhere_is_seen_by_the_next_event(autojump_clock: object) -> None:
    bot = a_bot_with_admins()
    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("raise")
        for level in (3, 4):
            await bot.to(ali.chat_id).set(LEVEL, level)
            await ali.says("raise")
        await ali.sees("High enough.")
        assert len([seen for seen in await ali.history() if seen.from_bot]) == 1


def test_what_is_no_key_or_no_condition_is_refused() -> None:
    with pytest.raises(ConfigError, match="what a chat keeps has a Key"):
        kept(cast("Any", "admin"))
    with pytest.raises(ConfigError, match=r"kept\(\) takes a function of what is kept"):
        kept(ADMIN, cast("Any", 3))
