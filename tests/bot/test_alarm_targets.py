"""Alarms reach people once, again by the rule, and at their end; a failing target delays no other target."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trio
import trio.testing

from tests.bot.mail_server import HOST, MailServer, receiving
from tests.bot.rig import Chats, make_bot
from tests.loopback import PATIENCE, Line
from triobot import Alarm, Bot, Chat, Settings
from triobot.alarms.http_target import HttpTarget
from triobot.alarms.sink import AlarmSink
from triobot.alarms.targets import AlarmNews, ChatTarget, Courier, NotYetError, Target
from triobot.base.alarm_kinds import AlarmKind
from triobot.base.secrets import Secret
from triobot.errors import ConfigError, StoreFullError
from triobot.seams.money import AcknowledgeAlarms, RaiseAlarm
from triobot.store import Store
from triobot.store.memory import open_memory

HOUR = 3600.0
CANARY = "canary-0123456789"
NEWS = AlarmNews("raised", "shop", "adopted", "77", "text", 1_700_000_000_000, 1, 2, 3)


class Clock:
    """The time of day, which passes as Trio's does."""

    def now(self) -> int:
        return 1_700_000_000_000 + int(trio.current_time() * 1000)


@attrs.define
class Told:
    """Remembers what it is told; fails, or takes its time, if a test wants that."""

    name: str = "url"
    heard: list[tuple[str, str]] = attrs.Factory(list)
    news: list[AlarmNews] = attrs.Factory(list)
    fails: bool = False
    takes: float = 0.0

    async def tell(self, news: AlarmNews) -> None:
        await trio.sleep(self.takes)
        if self.fails:
            raise OSError(f"https://{CANARY}@example.org")
        self.heard.append((news.happened, news.key))
        self.news.append(news)


@attrs.frozen
class Watch:
    """A bell, and targets that hear it."""

    sink: AlarmSink
    store: Store
    couriers: list[Courier]
    over: set[str]

    def ring(self, key: str, kind: AlarmKind = "backlog", text: str = "text") -> None:
        self.sink.ring(Alarm(kind, key, text))


@asynccontextmanager
async def watched(store: Store, *targets: Target, repeat: float | None = 6 * HOUR) -> AsyncGenerator[Watch]:
    over: set[str] = set()
    sink = AlarmSink(None)
    cover: Callable[[str], str] = lambda text: text.replace(CANARY, "***")  # noqa: E731
    couriers = [
        Courier(
            target,
            "shop",
            store,
            Clock(),
            unstored=sink.unstored,
            repeat=None if repeat is None else int(repeat * 1000),
            raise_alarm=sink.ring,
            cover=cover,
        )
        for target in targets
    ]

    async def is_over(kind: str, key: str, quiet: float) -> bool:
        if kind == "alarm_untold":
            return all(courier.works for courier in couriers if courier.name == key)
        return key in over

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sink.keep_telling, store, Clock(), is_over)
        for courier in couriers:
            sink.listen(courier.wake)
            nursery.start_soon(courier.run)
        yield Watch(sink, store, couriers, over)
        nursery.cancel_scope.cancel()


async def test_each_is_told_once_again_by_rule_and_when_it_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told = Told()
    async with open_memory(clock=Clock()) as store, watched(store, told) as there:
        for _ in range(3):
            there.ring("sends")
            await trio.sleep(60)
        assert told.heard == [("raised", "sends")]
        await trio.sleep(5 * HOUR)
        assert told.heard == [("raised", "sends")]
        await trio.sleep(HOUR + 600)
        assert told.heard == [("raised", "sends"), ("repeated", "sends")]
        there.over.add("sends")
        await trio.sleep(900)
        assert told.heard[2:] == [("resolved", "sends")]
        await trio.sleep(20 * HOUR)
        assert len(told.heard) == 3
        there.over.clear()
        there.ring("sends")
        await trio.sleep(60)
        assert told.heard[3:] == [("raised", "sends")]
    assert len({news.id for news in told.news[:3]}) == 1
    assert told.news[3].id != told.news[0].id


async def test_what_happened_once_is_told_once_whatever_the_rule(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """And nothing is over when a person has seen it; of a payment they hear that."""
    told = Told()
    async with open_memory(clock=Clock()) as store, watched(store, told) as there:
        there.ring("pizza", "conversation_crashed")
        there.ring("77", "adopted")
        await trio.sleep(30 * HOUR)
        assert told.heard.count(("raised", "pizza")) == 1
        assert ("repeated", "pizza") not in told.heard
        assert told.heard.count(("repeated", "77")) == 4
        there.ring("pizza", "conversation_crashed")
        await trio.sleep(600)
        assert told.heard[-1] == ("repeated", "pizza")
        await store.commit(AcknowledgeAlarms((), None, Clock().now()))
        await trio.sleep(600)
        assert told.heard[-1] == ("resolved", "77")
        assert ("resolved", "pizza") not in told.heard


async def test_a_restart_tells_nothing_twice_and_forgets_no_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    first, second = Told(), Told()
    async with open_memory(clock=Clock()) as store:
        async with watched(store, first) as there:
            there.ring("sends")
            there.ring("events")
            await trio.sleep(60)
        await store.commit(AcknowledgeAlarms((), "events", Clock().now()))
        async with watched(store, second):
            await trio.sleep(60)
    assert sorted(first.heard) == [("raised", "events"), ("raised", "sends")]
    assert second.heard == [("resolved", "events")]


async def test_a_target_that_fails_or_hangs_delays_no_other(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Others tell that it fails, once; what was open then is told once it works."""
    caplog.set_level(logging.WARNING)
    good, bad, slow = Told(), Told("e-mail", fails=True), Told("chat", takes=9 * HOUR)
    async with open_memory(clock=Clock()) as store, watched(store, good, bad, slow) as there:
        began = trio.current_time()
        there.ring("sends")
        await trio.sleep(1)
        assert good.heard[0] == ("raised", "sends")
        assert good.news[0].at - 1_700_000_000_000 == int(began * 1000)
        await trio.sleep(2 * HOUR)
        assert sorted(key for _, key in good.heard) == ["chat", "e-mail", "sends"]
        assert len([one for one in caplog.records if "alarms can't be told by e-mail" in one.message]) == 2
        bad.fails = False
        slow.takes = 0
        await trio.sleep(HOUR)
        assert bad.heard[0] == ("raised", "sends")
        assert ("raised", "e-mail") not in bad.heard
        assert ("resolved", "e-mail") in good.heard
        assert ("raised", "sends") in slow.heard
        assert await store.alarms.open(kinds=("alarm_untold",), limit=9) == []
    assert CANARY not in caplog.text
    assert "by e-mail (OSError)" in caplog.text


async def test_of_a_flood_a_few_are_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    told = Told()
    async with open_memory(clock=Clock()) as store:
        for number in range(50):
            await store.commit(RaiseAlarm("adopted", f"{number}", "text", Clock().now()))
        async with watched(store, told):
            await trio.sleep(1)
            assert len(told.heard) == 20
            await trio.sleep(300)
            assert len(told.heard) == len(set(told.heard)) == 50


async def test_a_store_that_takes_nothing_is_told_of(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own alarm has no row."""
    told = Told()
    async with open_memory(clock=Clock()) as store, watched(store, told) as there:
        commit, full = store.commit, True

        async def fail(*writes: Any) -> None:
            if full:
                raise StoreFullError("full")
            await commit(*writes)

        monkeypatch.setattr(store, "commit", fail)
        there.ring("store", "store_unwritable")
        await trio.sleep(HOUR)
        assert told.heard == [("raised", "store")]
        full = False
        there.over.add("store")
        await trio.sleep(900)
        assert told.heard == [("raised", "store"), ("resolved", "store")]


async def test_no_secret_is_told(autojump_clock: trio.testing.MockClock) -> None:
    told = Told()
    async with open_memory(clock=Clock()) as store, watched(store, told) as there:
        there.ring(f"key {CANARY}", "adopted", f"text {CANARY}")
        await trio.sleep(1)
    (news,) = told.news
    assert CANARY not in news.words + json.dumps(attrs.asdict(news))


def test_a_line_is_a_line() -> None:
    news = attrs.evolve(NEWS, key="a\nBcc: x")
    assert "\n" not in news.line
    assert "--key 'a\nBcc: x'" in news.words


# --- an address


@asynccontextmanager
async def served(answer: bytes) -> AsyncGenerator[tuple[str, list[tuple[bytes, bytes]]]]:
    """An address that answers so, and what came to it."""
    came: list[tuple[bytes, bytes]] = []

    async def serve(stream: trio.SocketStream) -> None:
        line = Line(stream)
        came.append(await line.message())
        await line.answer(answer, b"")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        yield f"http://127.0.0.1:{port}/hook/{CANARY}", came
        nursery.cancel_scope.cancel()


async def test_a_post_is_signed() -> None:
    async with served(b"204 No Content") as (url, came):
        await HttpTarget(Secret(url), Secret("key")).tell(NEWS)
    ((head, body),) = came
    assert head.startswith(f"POST /hook/{CANARY} HTTP/1.1\r\n".encode())
    found = re.search(rb"(?i)triobot-signature: t=(\d+),v1=([0-9a-f]{64})", head)
    assert found is not None and found[1] == b"1700000000"
    digest = hmac.new(b"key", found[1] + b"." + body, hashlib.sha256).hexdigest()
    assert found[2].decode() == digest
    told = json.loads(body)
    assert (told["happened"], told["bot"], told["kind"], told["key"]) == ("raised", "shop", "adopted", "77")
    assert told["id"] == NEWS.id


async def test_a_user_and_a_password_of_the_address_are_said() -> None:
    async with served(b"200 OK") as (url, came):
        known = url.replace("://", "://me:p%40ss@")
        await HttpTarget(Secret(known), Secret("key")).tell(NEWS)
        await HttpTarget(Secret(url), Secret("key")).tell(NEWS)
    basic = base64.b64encode(b"me:p@ss")
    assert [b"authorization: basic " + basic.lower() in head.lower() for head, _ in came] == [True, False]
    assert b"p%40ss" not in came[0][0]


@pytest.mark.parametrize("status", [b"500 No", b"302 Found", b"404 Not Found"])
async def test_an_address_that_does_not_take_it_has_not_heard_it(status: bytes) -> None:
    async with served(status) as (url, _):
        with pytest.raises(Exception, match=f"it answered {status[:3].decode()}"):
            await HttpTarget(Secret(url), Secret("key")).tell(NEWS)


@pytest.mark.parametrize("url", [f"http://example.org/{CANARY}", "ftp://localhost/x", "https://", "no"])
def test_an_address_that_is_none_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="ALARM_URL must be https") as refused:
        HttpTarget(Secret(url), Secret("key"))
    assert CANARY not in str(refused.value)


def test_settings_that_go_together() -> None:
    with pytest.raises(ConfigError, match="go together"):
        Settings(alarm_url="https://x")  # type: ignore[arg-type]
    assert CANARY not in repr(Settings(alarm_url=f"https://{CANARY}", alarm_secret=CANARY))  # type: ignore[arg-type]


# --- e-mail


async def test_the_lines_of_the_page_mail_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within TLS and after a login, as the page on running has it."""
    page = (Path(__file__).parents[2] / "docs" / "run.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"(?ms)^```python\n(import os\nimport smtplib.*?)^```", page)
    server = MailServer("bot@example.org", CANARY)
    server.authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SMTP_PASSWORD", CANARY)
    recipe: dict[str, Any] = {}
    exec(code, recipe)
    given = make_bot(Chats(), store=f"sqlite:{tmp_path}/shop.db").settings()
    bot = Bot(settings=given)
    bot.conversation(silent)
    bot.on_alarm(recipe["mail"])
    async with receiving(server):
        monkeypatch.setenv("SMTP_HOST", HOST)
        monkeypatch.setenv("SMTP_PORT", str(server.port))
        async with bot.running() as intake:
            intake.sink.ring(Alarm("adopted", "77\nBcc: c@example.org", "فارسی"))
            with trio.fail_after(PATIENCE):
                while not server.mails:
                    await trio.sleep(0.01)
    (mail,) = server.mails
    assert (mail["To"], mail["Bcc"]) == ("you@example.org", None)
    assert "77\\nBcc" in mail["Subject"]
    assert "فارسی" in mail.get_content()


# --- a chat as a target, and the whole bot


async def silent(chat: Chat) -> None:
    """Says nothing."""


async def test_a_chat_of_the_bot_hears_its_alarms(tmp_path: Path) -> None:
    chats = Chats()
    given = attrs.evolve(make_bot(chats, store=f"sqlite:{tmp_path}/shop.db").settings(), alarm_chat=99)
    bot = Bot(settings=given, transport=httpx.MockTransport(chats.take))
    bot.conversation(silent)
    async with bot.running() as intake:
        intake.sink.ring(Alarm("conversation_crashed", "pizza", "It crashed."))
        with trio.fail_after(PATIENCE):
            while not chats.texts[99]:
                await trio.sleep(0.01)
    (text,) = chats.texts[99]
    assert text.startswith("[shop] ALARM: conversation_crashed pizza")
    assert "It crashed." in text


async def test_a_chat_waits_until_the_bot_works(autojump_clock: trio.testing.MockClock) -> None:
    """An alarm that is open at a start is no fault of the chat's: nobody is told that it takes none."""
    with pytest.raises(NotYetError):
        await ChatTarget(1, lambda: None).tell(NEWS)
    working, chat = False, Told("chat")

    class Target:
        name = "chat"

        async def tell(self, news: AlarmNews) -> None:
            if not working:
                raise NotYetError
            await chat.tell(news)

    told = Told()
    async with open_memory(clock=Clock()) as store, watched(store, told, Target()) as there:
        there.ring("pizza", "conversation_crashed")
        await trio.sleep(90)
        assert (chat.heard, there.couriers[1].works) == ([], True)
        working = True
        await trio.sleep(5)
        assert chat.heard == told.heard == [("raised", "pizza")]


async def test_a_bot_whose_settings_name_an_address_posts_there(tmp_path: Path) -> None:
    """A restart posts nothing twice."""
    async with served(b"200 OK") as (url, came):
        given = make_bot(Chats(), store=f"sqlite:{tmp_path}/shop.db").settings()
        given = attrs.evolve(given, alarm_url=url, alarm_secret="key", name="shop")
        bot = Bot(settings=given, transport=httpx.MockTransport(Chats().take))
        bot.conversation(silent)
        for key in ("pizza", "pasta"):
            async with bot.running() as intake:
                intake.sink.ring(Alarm("conversation_crashed", key, "It crashed."))
                with trio.fail_after(PATIENCE):
                    while not any(key.encode() in body for _, body in came):
                        await trio.sleep(0.01)
                setting = "alarms_told url"
                with trio.fail_after(PATIENCE):
                    while key not in (await intake.store.setting(setting) or ""):
                        await trio.sleep(0.01)
    assert [json.loads(body)["key"] for _, body in came] == ["pizza", "pasta"]
