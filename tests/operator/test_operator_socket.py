"""The operator's socket: who gets in, what is answered, and that nothing said there harms the bot."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from triobot.errors import (
    ConfigError,
    ConflictError,
    LocalProtocolError,
    NotFoundError,
    StoreError,
    StoreFullError,
)
from triobot.operator import calling, serving
from triobot.operator.api import OperatorApi
from triobot.operator.calling import ask
from triobot.operator.loopback import socket_path
from triobot.operator.routes import (
    ROUTES,
    Answer,
    Question,
    check_question,
    decode_question,
    encode_question,
    routes_at,
)
from triobot.operator.serving import serve_api
from triobot.seams.inbox import Arrival, InboxRow, Quota
from triobot.seams.journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    ConversationRow,
    Journal,
    KeepResult,
)
from triobot.seams.money import RaiseAlarm
from triobot.seams.writes import Consume, PutData
from triobot.store import Store
from triobot.store.memory import open_memory
from triobot.wire.ids import ChatId

NOON = 1_800_000_000_000
STATUS = {"ask": "status"}


@attrs.define
class Clock:
    time: int = NOON

    def now(self) -> int:
        return self.time


@pytest.fixture
async def store() -> AsyncGenerator[Store]:
    async with open_memory(clock=Clock()) as store:
        yield store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "bot.db.sock"


@asynccontextmanager
async def behind(place: Path, api: OperatorApi) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_api, api, place)
        yield
        nursery.cancel_scope.cancel()


async def answer(place: Path, question: Question) -> list[Answer]:
    told: list[Answer] = []

    async def tell(fields: Answer) -> None:
        await trio.lowlevel.checkpoint()
        told.append(fields)

    assert await ask(place, question, tell), "nobody is there"
    return told


async def begin(store: Store, id_: int, chat: int = 7) -> None:
    conversation = ConversationId(id_)
    await store.commit(
        BeginConversation(conversation, ChatId(chat), "pizza", "v1", NOON),
        AppendRecords(conversation, 0, ('["first"]', '["second"]')),
        KeepResult(conversation, 1, "0.1", NOON, "[]"),
    )


# --- what is answered


async def test_the_status_joins_the_store_and_the_running_bot(store: Store, place: Path) -> None:
    await store.accept(Arrival(ChatId(7), None, NOON - 5_000, "text/plain", b"x"), quota=Quota())
    await begin(store, 1)
    health = {"working": True, "live": 4, "outbox": {"held": False}, "payment_facts": {"verify_ok": 2}}
    await store.commit(RaiseAlarm("amount_mismatch", "77", "text", NOON))
    api = OperatorApi(store, Clock(), health=lambda: health)

    async with behind(place, api):
        (told,) = await answer(place, STATUS)

    assert (told["running"], told["working"], told["live"]) == (True, True, 4)
    assert (told["conversations"], told["parked"], told["inbox"]) == (1, 0, 1)
    assert told["oldest_event_at"] == NOON - 5_000
    assert told["outbox"] == {"held": False}
    assert (told["payments"], told["payment_facts"], told["open_alarms"]) == ({}, {"verify_ok": 2}, 1)
    json.dumps(told)


async def test_an_api_without_a_bot_says_what_the_store_knows(store: Store, place: Path) -> None:
    async with behind(place, OperatorApi(store, Clock())):
        (told,) = await answer(place, STATUS)
    assert told["running"] is False
    assert "live" not in told


async def test_journals_are_listed_in_pages_and_shown_whole(store: Store, place: Path) -> None:
    for n in range(1, 251):
        await begin(store, n, n % 3)
    async with behind(place, OperatorApi(store, Clock())):
        every = await answer(place, {"ask": "journals.list", "limit": 1_000})
        some = await answer(place, {"ask": "journals.list", "after": 100, "limit": 120})
        of_chat = await answer(place, {"ask": "journals.list", "chat_id": 2, "after": 100, "limit": 3})
        row, first, second, effect = await answer(place, {"ask": "journals.show", "conversation": 41})

    assert [told["conversation"] for told in every] == list(range(1, 251))
    assert [told["conversation"] for told in some] == list(range(101, 221))
    assert [told["conversation"] for told in of_chat] == [101, 104, 107]
    assert every[0]["last_record"] == {"what": "?"}
    assert (row["conversation"], row["position"]) == (41, 2)
    assert (first, second) == ({"n": 0, "record": '["first"]'}, {"n": 1, "record": '["second"]'})
    assert (effect["operation"], effect["result"]) == ("0.1", "[]")


async def test_what_its_event_stands_for_is_listed_in_its_place(store: Store, place: Path) -> None:
    """Between those that are stored, over several pages of either, and of an inbox in which others wait."""
    for n in range(1, 351):
        arrival = Arrival(ChatId(n), None, NOON, "text/plain", b"x")
        await store.accept(arrival, quota=Quota(), beginning=(lambda chat: "begun") if n % 3 == 0 else None)
        if n % 3 == 1:
            await begin(store, n, n)
            await store.commit(Consume((n,)))
    async with behind(place, OperatorApi(store, Clock(), begun=standing_for)):
        every = await answer(place, {"ask": "journals.list", "limit": 1_000})
        some = await answer(place, {"ask": "journals.list", "after": 100, "limit": 130})
        (of_chat,) = await answer(place, {"ask": "journals.list", "chat_id": 42})
        row, first = await answer(place, {"ask": "journals.show", "conversation": 42})
        whole = await read_on(place, whole=True)
        bare = await read_on(place, whole=False)
        with pytest.raises(ConfigError, match="no conversation 41"):
            await answer(place, {"ask": "journals.show", "conversation": 41})
        assert await answer(place, {"ask": "journals.list", "chat_id": 41}) == []

    assert [told["conversation"] for told in every] == [n for n in range(1, 351) if n % 3 != 2]
    assert [told["conversation"] for told in some] == [n for n in range(101, 300) if n % 3 != 2][:130]
    assert (of_chat["last_record"], first["record"]) == ({"what": "?"}, '["of 42"]')
    # And whole, page by page, as each of them is shown.
    journals: list[Any] = [told["journal"] for told in whole]
    assert [lines[0]["conversation"] for lines in journals] == [told["conversation"] for told in every]
    assert [told["conversation"] for told in bare] == [told["conversation"] for told in every]
    assert [row, first] in journals
    assert (row["conversation"], row["chat_id"], row["unfinished"]) == (42, 42, True)


async def read_on(place: Path, *, whole: bool) -> list[Answer]:
    """All pages, one after the other."""
    found: list[Answer] = []
    after: Any = 0
    while after is not None:
        *page, end = await answer(place, {"ask": "journals.open", "after": after, "whole": whole})
        found += page
        after = end["after"]
    return found


async def test_what_chats_keep_is_read_in_pages(store: Store, place: Path) -> None:
    await store.commit(*(PutData(ChatId(n), "visits", f"[1,{n}]") for n in range(-300, 300)))
    await store.commit(PutData(ChatId(7), "other", "[1,7]"))
    found: list[Answer] = []
    async with behind(place, OperatorApi(store, Clock())):
        after: Any = None
        while True:
            *page, end = await answer(place, {"ask": "kept", "key": "visits", "after": after})
            found += page
            if (after := end["after"]) is None:
                break
        assert await answer(place, {"ask": "kept", "key": "none"}) == [{"after": None}]

    assert found == [{"chat_id": n, "value": f"[1,{n}]"} for n in range(-300, 300)]


def standing_for(row: InboxRow) -> Journal | None:
    """What began with a row, made easy."""
    if row.begun is None:
        return None
    id = ConversationId(row.seq)
    it = ConversationRow(
        id=id, chat_id=row.chat_id, route="pizza", kind="conversation", version="v1", sender_id=None,
        started_at=NOON, updated_at=NOON,
    )  # fmt: skip
    return Journal(it, 0, (f'["of {row.seq}"]',), {})


async def test_an_error_comes_back_as_it_was(store: Store, place: Path, tmp_path: Path) -> None:
    async with behind(place, OperatorApi(store, Clock())):
        with pytest.raises(NotFoundError, match="no conversation 5"):
            await answer(place, {"ask": "journals.show", "conversation": 5})
        with pytest.raises(ConflictError, match="conversation 5 isn't parked"):
            await answer(place, {"ask": "parked.count", "conversation": 5})
        with pytest.raises(ConfigError, match="in memory can't be backed up"):
            await answer(place, {"ask": "backup", "path": str(tmp_path / "copy")})


async def test_what_runs_is_ended_before_a_chat_is_forgotten(store: Store, place: Path) -> None:
    await begin(store, 1, 7)
    await begin(store, 2, 8)
    ended: list[ChatId] = []

    async def end(chat_id: ChatId) -> None:
        assert [row.id for row in await store.conversations(chat_id)] == [1]
        ended.append(chat_id)

    async with behind(place, OperatorApi(store, Clock(), end=end)):
        (told,) = await answer(place, {"ask": "chats.forget", "chat_id": 7})

    assert (ended, told["conversations"], told["records"]) == ([7], 1, 2)
    assert [row.id for row in await store.all_conversations(after=0, limit=9)] == [2]


async def test_a_chat_with_open_money_is_not_forgotten(store: Store, place: Path) -> None:
    """What is owed is looked for before anything is ended; what may still be paid, once nothing runs."""
    await begin(store, 1, 7)
    done: list[str] = []
    refuses = 1

    async def end(chat_id: ChatId) -> None:
        done.append("ended")

    async def payments(question: Answer) -> Answer:
        done.append("owed?" if question.get("captured") else "payable?")
        if len(done) == refuses:
            raise ConfigError("money is open")
        return {}

    async with behind(place, OperatorApi(store, Clock(), end=end, payments=payments)):
        for refuses in (1, 3):
            with pytest.raises(ConfigError, match="money is open"):
                await answer(place, {"ask": "chats.forget", "chat_id": 7})
            assert done == ["owed?", "ended", "payable?"][:refuses]
            assert len(await store.all_conversations(after=0, limit=9)) == 1
            done.clear()
        refuses = 0
        await answer(place, {"ask": "chats.forget", "chat_id": 7})
    assert await store.all_conversations(after=0, limit=9) == []


# --- who gets in


async def test_the_socket_is_its_owners_and_goes_with_the_bot(store: Store, place: Path) -> None:
    async with behind(place, OperatorApi(store, Clock())):
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert not place.exists()
    told: list[Answer] = []
    assert not await ask(place, STATUS, told.append)  # type: ignore[arg-type]


async def test_a_dead_bots_socket_is_nobody_and_is_replaced(store: Store, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    assert not await ask(place, STATUS, None)  # type: ignore[arg-type]
    async with behind(place, OperatorApi(store, Clock())):
        await answer(place, STATUS)


async def test_a_bot_that_stands_still_is_not_waited_for(
    place: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """What it was asked for must not be done by the time it goes on: all that reached it is a knock."""
    with trio.socket.socket(socket.AF_UNIX) as still:
        await still.bind(str(place))
        still.listen()
        with pytest.raises(calling.SilentBotError, match="no answer within 5 s, so nothing was asked of it"):
            await ask(place, {"ask": "chats.forget", "chat_id": 7}, nothing)
        connection, _ = await still.accept()
        with connection:
            assert (await connection.recv(10_000)).startswith(b"GET / ")
            assert await connection.recv(10_000) == b""


@pytest.mark.parametrize("planted", ["file", "link", "dangling", "folder", "socket of another user"])
async def test_what_is_not_the_bots_stays_in_the_sockets_place(
    store: Store,
    place: Path,
    planted: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A slip in the settings must not cost a file, nor a link lead elsewhere; the bot runs all the same."""
    target = place.with_name("target")
    if planted == "file":
        place.write_text("years of work")
    elif planted == "link":
        target.write_text("years of work")
        place.symlink_to(target)
    elif planted == "dangling":
        place.symlink_to(target)
    elif planted == "folder":
        place.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(str(place))
        mine = place.lstat().st_uid
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    before = place.lstat()

    async with behind(place, OperatorApi(store, Clock())):
        assert not await ask(place, STATUS, nothing)

    assert place.lstat() == before
    assert target.exists() is (planted == "link")
    assert "was left alone" in caplog.text


async def test_a_socket_that_another_took_the_place_of_is_not_removed(store: Store, place: Path) -> None:
    """At its end a bot removes its own."""
    async with behind(place, OperatorApi(store, Clock())):
        place.rename(place.with_name("moved"))
        place.write_text("somebody else's")

    assert place.read_text() == "somebody else's"


async def nothing(told: Answer) -> None:
    await trio.lowlevel.checkpoint()


async def test_a_folder_too_deep_for_the_kernel_is_no_obstacle(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 25) / ("er" * 50)
    folder.mkdir(parents=True)
    async with behind(folder / "bot.db.sock", OperatorApi(store, Clock())):
        await answer(folder / "bot.db.sock", STATUS)


async def test_a_name_too_long_for_the_kernel_means_that_nobody_is_there(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Then the command opens the store itself; the bot does without a socket, and says so."""
    place = tmp_path / f"{'long' * 30}.sock"
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_api, OperatorApi(store, Clock()), place)
    assert "can't be made: File name too long" in caplog.text

    with pytest.raises(AssertionError, match="nobody is there"):
        await answer(place, STATUS)


async def test_who_is_sent_away_unheard_is_told_so(place: Path) -> None:
    """The kernel says "connection reset" then: what was asked lies unread."""
    listener = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await listener.bind(str(place))
    listener.listen(1)

    async def send_away() -> None:
        connection, _ = await listener.accept()
        await trio.testing.wait_all_tasks_blocked()
        connection.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_away)
        with pytest.raises(StoreError, match="another user"):
            await answer(place, STATUS)
    listener.close()


async def test_who_may_not_ask_is_told_as_whom_to_ask(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def refused(path: Path) -> Generator[str]:
        raise PermissionError(errno.EACCES, "Permission denied")
        yield str(path)

    monkeypatch.setattr(calling, "short_name", refused)
    with pytest.raises(ConfigError, match="as the bot's user"):
        await answer(place, STATUS)


async def test_a_bot_runs_without_a_socket_where_none_can_be_made(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_api, OperatorApi(store, Clock()), tmp_path / "no folder" / "bot.db.sock")
    assert "can't be made" in caplog.text


def test_the_socket_is_beside_the_store() -> None:
    assert socket_path("sqlite:/var/lib/bot.db") == Path("/var/lib/bot.db.sock")
    assert socket_path("sqlite:bot.db") == Path.cwd() / "bot.db.sock"
    assert socket_path("memory:") is None


async def test_a_bot_of_another_version_is_named_in_a_line(place: Path) -> None:
    """One that knows no HTTP, and one that knows it for metrics only."""
    listener = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await listener.bind(str(place))
    listener.listen(1)
    for said in (
        b'{"failed":"StoreError","text":"line: must be JSON"}\n',
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 18\r\nConnection: close\r\n\r\nthere is /metrics\n",
    ):

        async def reply(said: bytes = said) -> None:
            while True:
                connection, _ = await listener.accept()
                await connection.recv(4096)
                await connection.send(said)
                connection.close()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reply)
            with pytest.raises(StoreError, match="of another version than this command"):
                await answer(place, STATUS)
            nursery.cancel_scope.cancel()
    listener.close()


# --- what is said there


async def talk(place: Path, said: bytes) -> bytes:
    """What comes back for these bytes, to the end of the connection."""
    async with await trio.open_unix_socket(str(place)) as stream:
        try:
            await stream.send_all(said)
            await stream.send_eof()
        except trio.BrokenResourceError:
            pass  # it was refused before its end
        return b"".join([chunk async for chunk in stream])


def http(line: str, body: bytes = b"") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: bot\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"hello\n", 400),
        (b'{"ask":"status"}\n', 400),
        (b"GET /" + b"x" * 200_000, 431),
        (http("GET /nothing"), 404),
        (http("GET /journals/"), 404),
        (http("GET //status"), 404),
        (http("GET /journals/5"), 404),
        (http("POST /status"), 405),
        (http("DELETE /journals/5"), 405),
        (http("GET /journals?after=-1"), 400),
        (http("GET /journals?after=1.5"), 400),
        (http("GET /journals?after=" + "9" * 30), 400),
        (http("GET /journals?chat=7"), 400),
        (http("GET /journals?crashed=yes"), 400),
        (http("GET /journals?x"), 400),
        (http("GET /journals?after=1&after=2"), 400),
        (http("GET /journals/5?conversation=6"), 400),
        (http("DELETE /chats/7?chat_id=8"), 400),
        (http("POST /payments", b'{"chat": 7, "amount": 5}'), 400),
        (http("POST /parked/end?route=a", b'{"route": "b"}'), 400),
        (http("POST /parked/end", b'{"route": "a", "route": "b"}'), 400),
        (http("GET /journals?chat_id=%FF"), 400),
        (http("DELETE /chats/seven"), 400),
        (http("POST /backup", b'{"path": "relative"}'), 400),
        (http("POST /backup", b'{"path": 5}'), 400),
        (http("POST /backup"), 400),
        (http("POST /backup", b'{"path": "/a\\u0000b"}'), 400),
        (http("POST /backup", b'{"path": "/\\ud800"}'), 400),
        (http("POST /backup", b'{"path": "/no/such/folder/copy"}'), 400),
        (http("GET /kept/a%00b"), 400),
        (http("POST /backup", b"[]"), 400),
        (http("POST /backup", b"[" * 60_000), 400),
        (http("POST /backup", b"\xff\xfe"), 400),
        (http("POST /backup", b"x" * 200_000), 413),
        (http("POST /parked/retry", b'{"dry": false}'), 400),
        (http("POST /parked/retry", b'{"conversation": true}'), 400),
        (http("POST /parked/retry", b'{"conversation": 5}'), 409),
        (http("POST /parked/retry"), 400),
        (http("POST /parked/end", b'{"say": "Sorry."}'), 400),
        (http("POST /alarms/acknowledge", b'{"kind": "nonsense"}'), 400),
        (http("POST /alarms/acknowledge"), 400),
    ],
    ids=lambda said: repr(said[:40]) if isinstance(said, bytes) else None,
)
async def test_nonsense_is_answered_with_its_status_and_harms_nobody(
    store: Store, place: Path, said: bytes, status: int
) -> None:
    async with behind(place, OperatorApi(store, Clock(), order=give_no_order)):
        head, _, body = (await talk(place, said)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        if b"application/json" in head:
            assert json.loads(body)["error"]
        assert (b"allow:" in head) == (status == 405)
        assert (await answer(place, STATUS))[0]["running"] is False


async def give_no_order(row: ConversationRow, end: bool, say: str) -> bool:
    raise AssertionError("nothing is parked")


async def test_head_says_what_get_would(store: Store, place: Path) -> None:
    async with behind(place, OperatorApi(store, Clock())):
        head, _, body = (await talk(place, http("HEAD /status"))).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert body == b""


async def test_all_that_can_be_asked_is_listed(store: Store, place: Path) -> None:
    async with behind(place, OperatorApi(store, Clock())):
        _, _, body = (await talk(place, http("GET /"))).partition(b"\r\n\r\n")
    assert [json.loads(line)["path"] for line in body.splitlines()] == [route.path for route in ROUTES]


async def test_who_waits_while_the_bot_stops_is_told_so(store: Store, place: Path) -> None:
    asked = trio.Event()

    async def end(chat_id: ChatId) -> None:
        asked.set()
        await trio.sleep_forever()

    async def forget() -> None:
        with pytest.raises(StoreError, match="the bot is stopping"):
            await answer(place, {"ask": "chats.forget", "chat_id": 7})

    async with trio.open_nursery() as asking, behind(place, OperatorApi(store, Clock(), end=end)):
        asking.start_soon(forget)
        await asked.wait()


async def test_an_answer_that_fails_in_its_middle_breaks_off(
    store: Store, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def chats(limit: int) -> Generator[Answer]:
        yield {"chat_id": 7}
        raise StoreError("the disk is gone")

    async with behind(place, OperatorApi(store, Clock(), chats=chats)):
        with pytest.raises(StoreError, match="ended before"):
            await answer(place, {"ask": "chats.list"})
    assert "broke off: the disk is gone" in caplog.text


async def test_a_full_disk_is_told_as_one(store: Store, place: Path) -> None:
    async def jobs(asked: Question) -> list[Answer]:
        raise StoreFullError("no room")

    async with behind(place, OperatorApi(store, Clock(), jobs=jobs)):
        with pytest.raises(StoreFullError, match="no room"):
            await answer(place, {"ask": "jobs.run", "name": "tidy"})


async def test_a_mistake_in_an_answer_does_not_end_the_bot(
    store: Store, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def health() -> Answer:
        raise ValueError("secret words")

    caplog.set_level("INFO")
    async with behind(place, OperatorApi(store, Clock(), health=health)):
        for _ in range(2):
            with pytest.raises(StoreError, match="its log"):
                await answer(place, STATUS)
        assert await answer(place, {"ask": "journals.list"}) == []
    assert "ValueError" in caplog.text
    assert "secret words" not in caplog.text


async def test_those_who_say_nothing_do_not_shut_others_out(store: Store, place: Path) -> None:
    async with behind(place, OperatorApi(store, Clock())):
        silent = [await trio.open_unix_socket(str(place)) for _ in range(serving.AT_ONCE * 2)]
        with trio.fail_after(60):
            assert await answer(place, {"ask": "journals.list"}) == []
        for stream in silent:
            await stream.aclose()


QUESTIONS: list[Question] = [
    STATUS,
    {"ask": "journals.list"},
    {"ask": "journals.list", "chat_id": -5, "after": 3, "limit": 4, "crashed": True},
    {"ask": "journals.show", "conversation": 5},
    {"ask": "journals.end", "conversation": 5},
    {"ask": "journals.open"},
    {"ask": "journals.open", "after": 7, "whole": False},
    {"ask": "journals.code"},
    {"ask": "journals.accept", "function": "order", "was": "_.ask('A')", "now": "_.ask('B')"},
    {"ask": "kept", "key": "visits"},
    {"ask": "kept", "key": "a/b?c=d&e #%ä", "after": -5},
    {"ask": "chats.list", "limit": 3},
    {"ask": "chats.forget", "chat_id": -(10**17)},
    {"ask": "chats.send", "chat_id": 7, "value": "Good morning, all"},
    {
        "ask": "chats.signal",
        "chat_id": 7,
        "name": "shop.Shipped",
        "value": '{"order": 7}',
        "key": "shipped-7",
    },
    {"ask": "chats.start", "chat_id": -7, "name": "shop.ask_later", "value": "[7]"},
    {"ask": "parked.count"},
    {"ask": "parked.count", "route": "pizza.order", "because": "a b"},
    {"ask": "parked.retry", "conversation": 5},
    {"ask": "parked.end", "chat_id": 7, "say": "سلام" * 900},
    {"ask": "jobs.list"},
    {"ask": "jobs.run", "name": "pizza.tidy"},
    {"ask": "backup", "path": "/tmp/ä b"},
    {"ask": "alarms.list"},
    {"ask": "alarms.acknowledge", "kind": "backlog", "key": "sends"},
    {"ask": "alarms.acknowledge", "all": True},
    {"ask": "broadcast.list"},
    {"ask": "broadcast.status", "key": "version 2"},
    {"ask": "broadcast.stop", "key": "5"},
    {"ask": "payments.list", "states": ["open", "verified"], "chat": 7, "before": 5, "limit": 9},
    {"ask": "payments.list", "after": "007", "limit": 9},
    {
        "ask": "payments.adopt",
        "number": "4444",
        "chat": 7,
        "amount": 5,
        "currency": "IRR",
        "kind": "button",
    },
    {"ask": "payments.ages"},
    {"ask": "payments.totals", "since": 0, "until": 9},
    *(
        {"ask": f"payments.{what}", "ref": "0077"}
        for what in ("show", "inquire", "verify", "redeliver", "settle", "resolve")
    ),
]


def test_a_question_arrives_as_it_left() -> None:
    taken: list[tuple[str, str]] = []
    for question in QUESTIONS:
        method, target, body = encode_question(question)
        path, _, query = target.partition("?")
        route, there = routes_at(path)[method]
        arrived = decode_question(route, there, query, body)
        assert arrived == question
        check_question(arrived)
        taken.append((route.method, route.path))
    assert set(taken) == {(route.method, route.path) for route in ROUTES}


def test_what_no_route_can_say_is_not_asked() -> None:
    for question in (
        {"ask": "parked.count", "end": True},
        {"ask": "payments.forget", "chat": 7},
        {"ask": "kept", "key": ".."},
        {"ask": "kept"},
    ):
        with pytest.raises(LocalProtocolError):
            encode_question(question)
