"""A send with the answer 200 was accepted, whatever the answer's body contains."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

import httpx
import pytest
import trio
from trio.testing import MockClock

from tests.bot.rig import SECRET, say
from triobot import Bot, Chat, Image, Settings
from triobot.base.alarm_kinds import Alarm
from triobot.base.secrets import Secret
from triobot.errors import DeliveryUnknownError

BODIES = {
    "no id": (b'{"ok": true}', "{ok: boolean}"),
    "empty": (b"", "empty"),
    "a page": (b"<html><h1>Thank you, Sara</h1></html>", "a page of 37 bytes"),
    "an id of another type": (b'{"id": {"n": 7}}', "{id: object}"),
    "a number out of range": (b'{"id": -7}', "{id: integer}"),
    "a list": (b'[{"id": 7}]', "a JSON list"),
    "beyond all bounds": (b'"' + bytes(2_000_000) + b'"', "more than 1048576 bytes"),
}


class Platform:
    """Answers 200 with a body."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.seen: list[tuple[str, str]] = []

    async def take(self, request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        fields = parse_qs((await request.aread()).decode("latin-1"))
        self.seen.append((request.url.path.strip("/"), fields.get("data", [""])[0]))
        return httpx.Response(200, content=self.body)


def bot_of(take: Callable[[httpx.Request], object]) -> Bot:
    settings = Settings(
        token=Secret("rig-token"),
        base_url="http://127.0.0.1:9",
        webhook_secret=Secret(SECRET),
        store="memory:",
    )
    return Bot(settings=settings, transport=httpx.MockTransport(take))  # type: ignore[arg-type]


@pytest.mark.parametrize("what", BODIES)
async def test_what_was_answered_200_is_not_sent_again(autojump_clock: MockClock, what: str) -> None:
    body, shape = BODIES[what]
    platform, told = Platform(body), list[Alarm]()
    bot = bot_of(platform.take)

    @bot.on_alarm
    async def keep(alarm: Alarm) -> None:
        told.append(alarm)

    @bot.conversation
    async def talk(chat: Chat) -> None:
        sent = await chat.send("One.")
        assert sent.id is None
        await chat.send("Two.")

    async with bot.running() as intake:
        await say(intake, 5, "hi")
        await trio.sleep(300)
    assert platform.seen == [("sendMessage", "One."), ("sendMessage", "Two.")]
    (alarm,) = told
    assert (alarm.kind, alarm.key) == ("answer_unreadable", "sendMessage")
    assert shape in alarm.text
    assert "Sara" not in alarm.text


async def test_a_file_whose_descriptor_can_not_be_read_is_uploaded_once(autojump_clock: MockClock) -> None:
    """Each repeat would bring the same answer, and the file again."""
    platform, told, caught = Platform(b'{"ok": true}'), list[Alarm](), list[DeliveryUnknownError]()
    bot = bot_of(platform.take)

    @bot.on_alarm
    async def keep(alarm: Alarm) -> None:
        told.append(alarm)

    @bot.conversation
    async def talk(chat: Chat) -> None:
        try:
            await chat.send(Image.from_bytes(b"picture", "a.jpg"))
        except DeliveryUnknownError as error:
            caught.append(error)

    async with bot.running() as intake:
        await say(intake, 5, "hi")
        await trio.sleep(300)
    assert [path for path, _ in platform.seen] == ["upload"]
    assert caught[0].operation == "upload"
    assert [(alarm.kind, alarm.key) for alarm in told] == [("answer_unreadable", "upload")]
