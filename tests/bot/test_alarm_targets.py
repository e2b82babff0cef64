"""Alarms reach people: each once, again by rule, and when it is over; whatever a target does."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
import hmac
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import attrs
import httpx
import pytest
import trio
import trio.testing

from tests.bot.mail_server import HOST, MailServer, receiving
from tests.bot.rig import Chats, make_bot
from tests.loopback import PATIENCE, Line
from triobot import Alarm, Bot, Chat, Settings
from triobot.alarm_kinds import AlarmKind
from triobot.alarm_targets import AlarmNews, ChatTarget, Courier, HttpTarget, MailTarget, NotYetError, Target
from triobot.alarms import AlarmBell
from triobot.errors import ConfigError, StoreFullError
from triobot.money import AcknowledgeAlarms, RaiseAlarm
from triobot.secrets import Secret
from triobot.store import Store, open_memory

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

    bell: AlarmBell
    store: Store
    couriers: list[Courier]
    over: set[str]

    def ring(self, key: str, kind: AlarmKind = "backlog", text: str = "text") -> None:
        self.bell.ring(Alarm(kind, key, text))


@asynccontextmanager
async def watched(store: Store, *targets: Target, repeat: float | None = 6 * HOUR) -> AsyncGenerator[Watch]:
    over: set[str] = set()
    bell = AlarmBell(None)
    cover: Callable[[str], str] = lambda text: text.replace(CANARY, "***")  # noqa: E731
    couriers = [
        Courier(
            target,
            "shop",
            store,
            Clock(),
            unstored=bell.unstored,
            repeat=None if repeat is None else int(repeat * 1000),
            raise_alarm=bell.ring,
            cover=cover,
        )
        for target in targets
    ]

    async def is_over(kind: str, key: str, quiet: float) -> bool:
        if kind == "alarm_untold":
            return all(courier.works for courier in couriers if courier.name == key)
        return key in over

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bell.keep_telling, store, Clock(), is_over)
        for courier in couriers:
            bell.listen(courier.wake)
            nursery.start_soon(courier.run)
        yield Watch(bell, store, couriers, over)
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


@pytest.mark.parametrize(
    "server",
    [
        *(f"http://{CANARY}@example.org", "smtp://", f"{CANARY}", f"smtp://u:{CANARY}@exa mple.org"),
        *(f"smtps://u:{CANARY}@example.org:99999", f"smtps://u:{CANARY}@example.org:0"),
        *(f"smtps://u:a/{CANARY}@example.org", f"smtps://u:a#{CANARY}@example.org"),
        *(f"smtps://u:a?{CANARY}@example.org", f"smtp://example.org/{CANARY}"),
    ],
)
def test_a_mail_server_that_is_none_is_refused_and_not_shown(server: str) -> None:
    with pytest.raises(ConfigError, match=r"ALARM_SMTP .*must be smtps://USER:PASSWORD@HOST") as refused:
        MailTarget(Secret(server), None, ["a@example.org"])
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "sender", "receiver"), [("FROM", "bot", "a@example.org"), ("EMAIL", "b@example.org", "a")]
)
def test_what_is_no_mailbox_is_refused(name: str, sender: str, receiver: str) -> None:
    with pytest.raises(ConfigError, match=f"ALARM_{name} must hold addresses"):
        MailTarget(Secret("smtps://example.org"), sender, [receiver])


async def test_a_bot_does_not_start_with_a_mail_server_that_is_none(tmp_path: Path) -> None:
    """The line names its own variable: each of several bots has one."""
    given = make_bot(Chats(), store=f"sqlite:{tmp_path}/shop.db").settings()
    wrong = attrs.evolve(given, env="SHOP_", alarm_email=("a@b",), alarm_smtp=Secret("smtp://x/y"))
    bot = Bot(settings=wrong)
    bot.conversation(silent)
    with pytest.RaisesGroup(
        pytest.RaisesExc(ConfigError, match="^SHOP_ALARM_SMTP must be"), flatten_subgroups=True
    ):
        async with bot.running():
            pass


def test_settings_that_go_together() -> None:
    for wrong in ({"alarm_url": "https://x"}, {"alarm_email": ("a@b",)}, {"alarm_smtp": "smtp://x"}):
        with pytest.raises(ConfigError, match="go together"):
            Settings(**wrong)  # type: ignore[arg-type]
    assert CANARY not in repr(Settings(alarm_url=f"https://{CANARY}", alarm_secret=CANARY))  # type: ignore[arg-type]


# --- e-mail


async def take_mail(mails: list[EmailMessage], accepts: bytes, stream: trio.SocketStream) -> None:
    """Just enough SMTP."""
    rest = b""

    async def until(mark: bytes) -> bytes:
        nonlocal rest
        while mark not in rest:
            rest += await stream.receive_some(65536) or mark
        part, rest = rest.split(mark, 1)
        return part

    await stream.send_all(b"220 here\r\n")
    while True:
        line = await until(b"\r\n")
        word = line[:4].upper()
        if word in (b"", b"QUIT"):
            return
        if word == b"DATA":
            await stream.send_all(b"354 go on\r\n")
            text = await until(b"\r\n.\r\n")
            mails.append(cast(EmailMessage, email.message_from_bytes(text, policy=email.policy.default)))
            await stream.send_all(accepts)
        elif b"nobody@" in line:
            await stream.send_all(b"550 there is no such person\r\n")
        else:
            await stream.send_all(b"250 fine\r\n")


@pytest.mark.parametrize("accepts", [b"250 taken\r\n", b"451 later\r\n"])
async def test_a_mail_says_it_all(accepts: bytes) -> None:
    mails: list[EmailMessage] = []
    async with trio.open_nursery() as nursery:
        take = partial(take_mail, mails, accepts)
        listeners = await nursery.start(partial(trio.serve_tcp, take, 0, host="127.0.0.1"))
        server = f"smtp://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        target = MailTarget(Secret(server), "bot@example.org", ["a@example.org", "b@example.org"])
        news = attrs.evolve(NEWS, text="فارسی", key="77\nBcc: c@example.org")
        with trio.fail_after(PATIENCE):
            if accepts.startswith(b"250"):
                await target.tell(news)
            else:
                with pytest.raises(Exception, match="451"):
                    await target.tell(news)
        nursery.cancel_scope.cancel()
    (mail,) = mails
    assert mail["Subject"].startswith("[shop] ALARM: adopted '77\\nBcc")
    assert (mail["To"], mail["From"], mail["Bcc"]) == (
        "a@example.org, b@example.org",
        "bot@example.org",
        None,
    )
    assert "فارسی" in mail.get_content()
    assert "triobot alarms acknowledge --kind adopted" in mail.get_content()


async def test_an_address_that_the_server_refuses_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The others have heard it, so that it isn't said again."""
    mails: list[EmailMessage] = []
    async with trio.open_nursery() as nursery:
        take = partial(take_mail, mails, b"250 taken\r\n")
        listeners = await nursery.start(partial(trio.serve_tcp, take, 0, host="127.0.0.1"))
        server = f"smtp://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        target = MailTarget(Secret(server), "bot@example.org", ["a@example.org", "nobody@example.org"])
        with trio.fail_after(PATIENCE):
            await target.tell(NEWS)
        nursery.cancel_scope.cancel()
    assert len(mails) == 1
    assert "the mail server refuses 1 of the 2 addresses of ALARM_EMAIL" in caplog.text
    assert "nobody@" not in caplog.text


@pytest.mark.parametrize("wrapped", [False, True], ids=["starttls", "smtps"])
async def test_a_bot_mails_its_alarms_within_tls_after_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    """As its settings say, with a password that an address can't hold as it is."""
    password = f"{CANARY}/p@ss #1"
    server = MailServer("bot@example.org", password, wrapped=wrapped)
    trust(server, tmp_path, monkeypatch)
    async with receiving(server):
        login = f"bot%40example.org:{quote(password, safe='')}"
        scheme = "smtps" if wrapped else "smtp"
        given = attrs.evolve(
            make_bot(Chats(), store=f"sqlite:{tmp_path}/shop.db").settings(),
            alarm_email=("you@example.org",),
            alarm_smtp=Secret(f"{scheme}://{login}@{HOST}:{server.port}"),
        )
        bot = Bot(settings=given)
        bot.conversation(silent)
        async with bot.running() as intake:
            intake.bell.ring(Alarm("adopted", "77", "A payment was taken into the books."))
            with trio.fail_after(PATIENCE):
                while not server.mails:
                    await trio.sleep(0.01)
    (mail,) = server.mails
    assert (mail["From"], mail["To"]) == ("bot@example.org", "you@example.org")
    assert "A payment was taken into the books." in mail.get_content()
    # In clear went the greeting and the wish for TLS, and nothing else.
    in_clear = server.said[: len(server.said) - server.ciphered]
    assert [line.split()[0].upper() for line in in_clear] == ([] if wrapped else ["EHLO", "STARTTLS"])


@pytest.mark.parametrize(
    ("secured", "trusted", "right", "error"),
    [
        (True, True, False, "SMTPAuthenticationError"),
        (True, False, True, "SSLCertVerificationError"),
        (False, True, True, "SMTPNotSupportedError"),
    ],
    ids=["a wrong password", "a certificate of nobody's", "no TLS"],
)
async def test_a_mail_server_that_takes_no_mail_learns_no_password(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    secured: bool,
    trusted: bool,
    right: bool,
    error: str,
) -> None:
    """What the log and the alarm say names the class of the error: its text holds what the server said."""
    server = MailServer("bot@example.org", CANARY if right else f"{CANARY}-2", secured=secured)
    if trusted:
        trust(server, tmp_path, monkeypatch)
    caplog.set_level("DEBUG")
    async with receiving(server):
        address = f"smtp://bot%40example.org:{CANARY}@{HOST}:{server.port}"
        target = MailTarget(Secret(address), None, ["you@example.org"])
        async with open_memory(clock=Clock()) as store, trio.open_nursery() as nursery:
            rung: list[Alarm] = []
            ring = rung.append
            courier = Courier(target, "shop", store, Clock(), repeat=None, raise_alarm=ring)
            await store.commit(RaiseAlarm("adopted", "77", "text", 1))
            nursery.start_soon(courier.run)
            with trio.fail_after(PATIENCE):
                while not rung:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert server.mails == []
    assert f"e-mail ({error})" in rung[0].text
    assert CANARY not in rung[0].text + caplog.text
    # The right password was never said; the wrong one within TLS only.
    assert any(line.startswith("AUTH") for line in server.said) != right
    assert not any(line.startswith("AUTH") for line in server.said[: len(server.said) - server.ciphered])


def trust(server: MailServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have programs that begin a connection now trust the server's authority."""
    server.authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "authority.pem"))


# --- a chat, and the whole


async def silent(chat: Chat) -> None:
    """Says nothing."""


async def test_a_chat_of_the_bot_hears_its_alarms(tmp_path: Path) -> None:
    chats = Chats()
    given = attrs.evolve(make_bot(chats, store=f"sqlite:{tmp_path}/shop.db").settings(), alarm_chat=99)
    bot = Bot(settings=given, transport=httpx.MockTransport(chats.take))
    bot.conversation(silent)
    async with bot.running() as intake:
        intake.bell.ring(Alarm("conversation_crashed", "pizza", "It crashed."))
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
                intake.bell.ring(Alarm("conversation_crashed", key, "It crashed."))
                with trio.fail_after(PATIENCE):
                    while not any(key.encode() in body for _, body in came):
                        await trio.sleep(0.01)
                setting = "alarms_told url"
                with trio.fail_after(PATIENCE):
                    while key not in (await intake.store.setting(setting) or ""):
                        await trio.sleep(0.01)
    assert [json.loads(body)["key"] for _, body in came] == ["pizza", "pasta"]
