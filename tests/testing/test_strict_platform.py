"""What the runtime itself sends, on a platform that takes nothing but what its interface promises."""

from __future__ import annotations

from functools import partial
from urllib.parse import parse_qsl

import attrs
import pytest

from triobot import Bot, Buttons, Chat, Image, Keyboard
from triobot.emulator import api
from triobot.testing import Switches, drive


@attrs.frozen
class Where:
    floor: int
    name: str


async def test_fields_that_may_not_be_filled_in_are_shown_empty(autojump_clock: object) -> None:
    """A form that was filled in wrong, and one with a prefill; a conversation doesn't end for it."""
    bot = Bot()

    @bot.conversation
    async def order(chat: Chat) -> None:
        where = await chat.fill(Where, "Where to?", prefill=Where(3, "Ahmadi"))
        again = await chat.fill(Where, "And the bill?")
        await chat.send(f"{where.floor}, {again.floor}")

    async with drive(bot, switches=Switches(strict=True)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Where to?")
        await sara.submits({"floor": "second", "name": "Ahmadi"})
        await sara.sees("Floor: please enter a whole number.")
        await world.crashes()
        await sara.submits({"floor": "2", "name": "Ahmadi"})
        await sara.sees("And the bill?")
        await sara.submits({"floor": "first", "name": "Ahmadi"})
        await sara.sees("Floor: please enter a whole number.")
        await sara.submits({"floor": "1", "name": "Ahmadi"})
        await sara.sees("2, 1")


async def test_keyboards_go_with_an_upload_and_with_each_message(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is uploaded with some is shown with those of its message, which may be none."""
    uploaded = list[tuple[str, str]]()  # the platform keeps no bodies of uploads
    monkeypatch.setattr(api, "decode_keyboards", uploaded.extend)
    bot = Bot()
    buttons, keyboard = Buttons({"y": "Yes"}), Keyboard({"m": "More"}, once=None)

    @bot.conversation
    async def show(chat: Chat) -> None:
        upload = partial(bot.upload, buttons=buttons, keyboard=keyboard)
        image = await chat.step(upload, Image.from_bytes(b"cake", "cake.png"))
        await chat.send(image)
        await chat.send(image, buttons=buttons, keyboard=keyboard)

    async with drive(bot, switches=Switches(strict=True)) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees_buttons("Yes")
        assert [bool(message.buttons) for message in await sara.history() if message.from_bot] == [
            False,
            True,
        ]
        sent = dict(parse_qsl(world.exchange.traffic.newest(1)[0].body.decode()))
    for name in ("reply_keyboard", "inline_keyboard"):
        assert dict(uploaded)[name] == sent[name]
