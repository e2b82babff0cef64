"""What a conversation knows of the place that it runs in, whether that is a chat or not."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from triobot import Bot, Chat, Room
from triobot.filters import join
from triobot.testing import drive


def a_talk(seen: list[tuple[str, bool]]) -> Bot:
    bot = Bot()

    def look(room: Room, where: str) -> None:
        seen.append((where, room.replaying))

    @bot.conversation(join(), name="talk")
    async def talk(chat: Chat) -> None:
        look(chat, "first line")
        name = await chat.ask("Your name?")
        look(chat, "named")
        await chat.send(f"{name} in {chat.route}, {chat.key == str(chat.id)}.")
        await chat.ask("Well?")
        look(chat, "at the end")

    return bot


async def test_what_runs_again_is_told_so_until_the_journal_is_at_its_end(autojump_clock: MockClock) -> None:
    seen: list[tuple[str, bool]] = []
    async with drive(a_talk(seen), replay_check=False) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Your name?")
        await ali.says("Ali")
        await ali.sees("Ali in talk, True.")
        await ali.sees("Well?")
        assert seen == [("first line", False), ("named", False)]
        seen.clear()

        await world.crashes()
        await ali.says("Fine")
        await world.waits(seconds=1)

    assert seen == [("first line", True), ("named", True), ("at the end", False)]


@pytest.mark.parametrize("replay_check", [False, True])
async def test_a_journal_that_is_only_looked_at_is_replaying_throughout(
    autojump_clock: MockClock, replay_check: bool
) -> None:
    seen: list[tuple[str, bool]] = []
    async with drive(a_talk(seen), replay_check=replay_check) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("Ali")
        await ali.sees("Well?")

    assert [where for where, replaying in seen if not replaying] == ["first line", "named"]
    assert bool([where for where, replaying in seen if replaying]) is replay_check
