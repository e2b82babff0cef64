"""The page's files, and what a page is told: everything first, then whatever is new."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import trio
from emulated import BASE, CONTROL, Emulated, emulated

from tests.beside import FakeBeside
from triobot.emulator.faults import EventFault, Fault
from triobot.emulator.follower import NEWEST, NEWEST_CALLS, Follower, events
from triobot.emulator.world import LOG, User
from triobot.studio.travel.routes import bot_blueprint
from triobot.wire.ids import ChatId
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, PayButton, ReplyKeyboard
from triobot.wire.operations import AnswerCallback, CreateInvoice, SendAction, SendMessage, VerifyPayment
from triobot.wire.results import Sent

ASSETS = Path(__file__).parents[2] / "triobot" / "emulator" / "page" / "assets"
FILES = {path.relative_to(ASSETS).as_posix(): path for path in ASSETS.rglob("*") if path.is_file()}
OURS = {name: path for name, path in FILES.items() if not name.startswith("vendor/")}
SERVED = sorted(name for name in FILES if name.endswith((".html", ".js", ".mjs", ".css", ".svg")))
YES = CallbackButton("Yes", "y")
PAY = PayButton("Pay", 700, "1234567890123456")  # type: ignore[arg-type]


def joined(platform: Emulated, name: str = "Sara", *, irr: int = 0) -> User:
    user = platform.exchange.world.add_user(name, irr=irr)
    platform.exchange.act(user, lambda acting: acting.join())
    return user


def says(platform: Emulated, user: User, text: str) -> None:
    platform.exchange.act(user, lambda acting: acting.say(text))


# --- files


async def test_the_page_needs_no_token_and_holds_none(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        page = await platform.platform.get("/", headers={"token": ""})

        assert page.status_code == 200
        assert CONTROL not in page.text
        assert page.headers["content-type"] == "text/html; charset=utf-8"


async def test_each_file_is_served_as_what_it_is(tmp_path: Path) -> None:
    """With a policy under which a text can't become a script, in whatever way it got in."""
    assert SERVED
    async with emulated(tmp_path) as platform:
        for name in SERVED:
            answer = await platform.platform.get(f"/page/{name}")

            assert answer.status_code == 200, name
            assert answer.content == (ASSETS / name).read_bytes(), name
            assert answer.headers["x-content-type-options"] == "nosniff", name
            policy = set(answer.headers["content-security-policy"].split("; "))
            assert {"default-src 'none'", "script-src 'self'", "connect-src 'self'"} <= policy, name
            assert {"require-trusted-types-for 'script'", "frame-ancestors 'none'"} <= policy, name
            assert "base-uri 'none'" in policy, name
            assert "unsafe" not in answer.headers["content-security-policy"], name


async def test_the_page_comes_compressed_in_three_requests(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        page = await platform.platform.get("/")
        assert re.findall(r'href="(/page/[\w./]+css)"', page.text) == ["/page/all.css"]
        assert page.headers["content-encoding"] == "gzip"
        assert re.findall(r'src="(/page/[\w./]+)"', page.text) == ["/page/all.js"]
        script = await platform.platform.get("/page/all.js")
        assert script.headers["content-encoding"] == "gzip"
        assert sum(f'"{name}": () => {{' in script.text for name in OURS if name.endswith(".js")) > 50
        assert re.findall(r"^(?:import|export) .*", script.text, re.MULTILINE) == []
        whole = (await platform.platform.get("/page/all.css")).text
        for name in re.findall(r'href="/page/([\w./]+css)"', FILES["index.html"].read_text("utf-8")):
            assert FILES[name].read_text("utf-8") in whole
        plain = await platform.platform.get("/page/main.js", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers


@pytest.mark.parametrize(
    "name",
    [
        "nothing.js",
        "..%2fserving.py",
        "%2e%2e/serving.py",
        "sub/base.css",
        "vendor/README.md",
        "vendor/..%2fbase.css",
    ],
)
async def test_nothing_else_is_served(tmp_path: Path, name: str) -> None:
    async with emulated(tmp_path) as platform:
        answer = await platform.platform.get(f"/page/{name}")

        assert answer.status_code in (404, 405)


async def test_another_host_name_gets_no_page(tmp_path: Path) -> None:
    """Else a page of somebody's could make itself ours by a name that resolves to this machine."""
    async with emulated(tmp_path) as platform:
        for path in ("/", "/page/main.js", "/control/stream"):
            answer = await platform.platform.get(path, headers={"host": "evil.example"})
            assert answer.status_code == 403


def test_the_scripts_make_no_markup_of_text() -> None:
    """Nor load anything from elsewhere. A browser would refuse, too; a reader should not have to wonder."""
    for name, path in OURS.items():
        script = path.read_text(encoding="utf-8")
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ):
            assert word not in script, name
    for name in SERVED:
        addresses = set(re.findall(r"https?://([\w.-]+)", FILES[name].read_text(encoding="utf-8")))
        assert addresses <= {"www.w3.org"}, name


def test_each_script_and_sheet_is_used_and_read_in_one_sitting() -> None:
    """A name that is misspelt in an import shows only when somebody opens the page."""
    named = {"index.html", "inspect.html", "travel/saved.js"}
    for name in SERVED:
        text = FILES[name].read_text(encoding="utf-8")
        named |= set(re.findall(r'"/page/([\w./]+)"', text))
        for found in re.findall(r'(?:from|import) ?\(?"(\.{1,2}/[\w./]+)"', text):
            named.add(posixpath.normpath(posixpath.join(posixpath.dirname(name), found)))

    assert named == set(SERVED)
    assert [name for name, path in OURS.items() if len(path.read_text("utf-8").splitlines()) > 550] == []


def test_what_is_of_others_is_theirs_and_licensed() -> None:
    """Byte for byte what they publish, as its table says; each script with its licence beside it."""
    told = dict(
        re.findall(r"^\| `([\w.-]+)` .* `([0-9a-f]{64})` \|$", FILES["vendor/README.md"].read_text(), re.M)
    )
    there = {path.name: path for path in (ASSETS / "vendor").iterdir()}

    assert told.keys() == there.keys() - {"README.md", "preact.d.mts", "htm.d.mts"}
    assert {name: hashlib.sha256(there[name].read_bytes()).hexdigest() for name in told} == told
    for name in told:
        assert f"{name.split('.')[0].removesuffix('-LICENSE')}-LICENSE.txt" in told


# --- what a page is told


def news(follower: Follower) -> dict[str, Any]:
    """What is new, as the page reads it."""
    told = follower.news()
    assert told is not None
    return json.loads(json.dumps(told))


async def test_it_begins_with_everything(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        sara = joined(platform, irr=1_000)
        keys = ReplyKeyboard(((Key("s", "Small"),),))
        platform.exchange.perform(SendMessage(sara.chat_id, "Size?", keys, InlineKeyboard(((YES, PAY),))))
        group = platform.exchange.world.add_group("team")

        told = json.loads(json.dumps(Follower(platform.exchange).everything()))

        assert told["all"] is True
        assert told["base_url"] == BASE
        assert [user["name"] for user in told["users"]] == ["Sara"]
        chat, team = told["chats"]
        assert (chat["id"], chat["name"], chat["members"]) == (sara.chat_id, None, [sara.id])
        assert chat["reply_keyboard"] == [[{"value": "s", "label": "Small"}]]
        assert [message["content"]["text"] for message in chat["messages"]] == ["Size?"]
        assert chat["older"] is False
        assert (team["id"], team["name"]) == (group.id, "@team")
        assert [bill["state"] for bill in told["bills"]] == ["open"]
        assert told["bot"] is None


async def test_nothing_new_is_nothing(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        follower = Follower(platform.exchange)
        joined(platform)
        follower.everything()

        assert follower.news() is None


async def test_only_what_is_new_follows(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        sara, ali = joined(platform), joined(platform, "Ali")
        says(platform, sara, "before")
        follower = Follower(platform.exchange)
        follower.everything()

        says(platform, ali, "after")

        told = news(follower)
        assert [change["message"]["content"]["text"] for change in told["changes"]] == ["after"]
        assert [chat["id"] for chat in told["chats"]] == [ali.chat_id]
        assert "messages" not in told["chats"][0]
        assert "users" not in told and "calls" not in told and "machine" not in told
        assert follower.news() is None


async def test_newcomers_are_told(tmp_path: Path) -> None:
    """Nothing in the world's log says that there is a person or a group."""
    async with emulated(tmp_path) as platform:
        follower = Follower(platform.exchange)
        follower.everything()

        platform.exchange.world.add_user("Ali")
        platform.exchange.world.add_group("team")

        told = news(follower)
        assert [user["name"] for user in told["users"]] == ["Ali"]
        assert [chat["name"] for chat in told["chats"]] == [None, "@team"]


async def test_a_press_waits_until_it_is_answered(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        exchange, sara = platform.exchange, joined(platform)
        sent = exchange.perform(SendMessage(sara.chat_id, "?", None, InlineKeyboard(((YES,),))))
        assert isinstance(sent, Sent)
        follower = Follower(exchange)
        follower.everything()

        exchange.act(sara, lambda acting: acting.press(sent.id, YES))

        told = news(follower)
        [press] = told["changes"]
        assert (press["kind"], press["user"], press["message_id"], press["label"]) == (
            "press",
            sara.id,
            sent.id,
            "Yes",
        )
        [waiting] = told["chats"][0]["waiting"]
        assert waiting["callback_id"] == press["callback_id"]

        exchange.perform(AnswerCallback(sara.chat_id, waiting["callback_id"], "Done", False))

        told = news(follower)
        assert [(change["kind"], change["text"]) for change in told["changes"]] == [("answer", "Done")]
        assert told["chats"][0]["waiting"] == []


async def test_money_brings_the_wallets_and_the_bills(tmp_path: Path) -> None:
    """Until it went back within the hour, which nobody has to ask for."""
    async with emulated(tmp_path) as platform:
        exchange, sara = platform.exchange, joined(platform, irr=1_000)
        sent = exchange.perform(SendMessage(sara.chat_id, "?", None, InlineKeyboard(((PAY,),))))
        assert isinstance(sent, Sent)
        follower = Follower(exchange)
        follower.everything()

        exchange.act(sara, lambda acting: acting.pay(sent.id, PAY))
        told = news(follower)
        assert [user["wallet"]["IRR"] for user in told["users"]] == [300]
        assert [bill["state"] for bill in told["bills"]] == ["paid"]

        exchange.clock.advance(3_600_000)
        told = news(follower)
        assert [user["wallet"]["IRR"] for user in told["users"]] == [1_000]
        assert [bill["state"] for bill in told["bills"]] == ["refunded"]


async def test_an_invoice_brings_its_bill(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        sara = joined(platform)
        follower = Follower(platform.exchange)
        follower.everything()

        platform.exchange.perform(CreateInvoice(sara.chat_id, 500, "Tea"))

        assert [(bill["kind"], bill["description"]) for bill in news(follower)["bills"]] == [
            ("invoice", "Tea")
        ]


async def test_plans_and_the_clock_are_told(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        follower = Follower(platform.exchange)
        follower.everything()

        platform.exchange.plan.add(Fault(status=500, times=1))
        platform.exchange.plan.add(EventFault(duplicates=1))
        platform.exchange.pass_time(60_000)

        machine = news(follower)["machine"]
        assert [fault.get("status") for fault in machine["faults"]] == [500, None]
        assert machine["ahead"] == 60_000


async def test_the_bots_process_is_told(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        memory = list[Any]()
        process = FakeBeside({"runtime": lambda: {"live": 3}, "inside": lambda: {"chats": [*memory]}})
        platform.exchange.beside = process.beside()
        follower = Follower(platform.exchange)

        told = follower.everything()
        assert (told["bot"], told["lines"]) == ({"phase": "running"}, ["one", "two"])
        assert told["runtime"] == {"live": 3}

        process.phase = "failed"
        process.said.append((3, "three"))
        told = news(follower)
        assert (told["bot"], told["lines"]) == ({"phase": "failed"}, ["three"])
        assert "inside" not in told

        memory.append({"chat_id": 5})
        assert news(follower)["inside"] == {"chats": [{"chat_id": 5}]}


async def test_time_passes_in_the_bot_first_and_in_strides(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        process = FakeBeside()
        platform.exchange.beside = process.beside()

        await platform.control.post("clock", json={"seconds": 120})
        assert process.done == ["pass 2000"] * 60
        assert platform.exchange.clock.ahead == 120_000


async def test_who_missed_too_much_begins_anew(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        sara = joined(platform)
        follower = Follower(platform.exchange)
        follower.everything()
        for _ in range(LOG + 1):
            platform.exchange.perform(SendAction(sara.chat_id))

        assert news(follower)["all"] is True
        assert follower.news() is None


async def test_older_messages_are_asked_for(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        sara = joined(platform)
        for number in range(NEWEST + 5):
            says(platform, sara, str(number))

        [chat] = json.loads(json.dumps(Follower(platform.exchange).everything()))["chats"]
        assert (len(chat["messages"]), chat["older"]) == (NEWEST, True)
        first = chat["messages"][0]["id"]
        answer = await platform.control.get("history", params={"chat": sara.chat_id, "before": first})

        older = answer.json()
        assert [message["content"]["text"] for message in older["messages"]] == ["0", "1", "2", "3", "4"]
        assert older["older"] is False


@pytest.mark.parametrize("query", [{"chat": 1}, {"chat": "x"}, {"chats": 13601}, {}])
async def test_history_of_nothing_is_refused(tmp_path: Path, query: dict[str, Any]) -> None:
    async with emulated(tmp_path) as platform:
        assert (await platform.control.get("history", params=query)).status_code in (400, 409)


async def test_what_is_beside_the_platform_has_routes_of_its_own(tmp_path: Path) -> None:
    bot: Any = Mock()
    routes = bot_blueprint(bot, Mock(), Mock())
    async with emulated(tmp_path) as platform:
        for path in ("bot/kill", "bot/restart"):
            assert (await platform.control.post(path, json={})).status_code == 404
        platform.exchange.beside = FakeBeside(routes=[routes]).beside()
        for path in ("bot/kill", "bot/restart"):
            assert (await platform.control.post(path, json={})).status_code == 200

        assert [name for name, *_ in bot.method_calls] == ["kill", "restart"]


# --- the stream


def read(event: bytes) -> Any:
    """One server-sent event; None for a beat."""
    assert event.endswith(b"\n\n") and b"\n" not in event[:-2]
    return json.loads(event[6:]) if event.startswith(b"data: ") else None


async def test_the_stream_tells_at_once_and_beats(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        sara = joined(platform)
        stream = events(platform.exchange)
        assert read(await anext(stream))["all"] is True

        async def later() -> None:
            await trio.sleep(0.5)
            says(platform, sara, "one\ntwo\u2028three")
            says(platform, sara, "four")

        nursery.start_soon(later)
        start = trio.current_time()
        told = read(await anext(stream))
        while told is None:
            told = read(await anext(stream))
        # Both at once: a page can't draw faster than that.
        assert len(told["changes"]) == 2
        assert trio.current_time() - start < 0.6
        assert read(await anext(stream)) is None
        await stream.aclose()


async def test_the_stream_needs_the_token(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        assert (await platform.platform.get("/control/stream")).status_code == 403


async def test_names_that_are_no_text_do_not_end_the_stream(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        platform.exchange.world.add_user("\ud800")
        stream = events(platform.exchange)

        assert read(await anext(stream))["users"][0]["name"] == "?"
        await stream.aclose()


async def test_money_that_was_verified_is_told(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        exchange, sara = platform.exchange, joined(platform, irr=1_000)
        sent = exchange.perform(SendMessage(sara.chat_id, "?", None, InlineKeyboard(((PAY,),))))
        assert isinstance(sent, Sent)
        exchange.act(sara, lambda acting: acting.pay(sent.id, PAY))
        follower = Follower(exchange)
        follower.everything()

        exchange.perform(VerifyPayment(ChatId(sara.chat_id), PAY.ref_id))

        assert [bill["state"] for bill in news(follower)["bills"]] == ["captured"]


async def test_a_page_is_told_of_the_newest_requests_and_asks_for_older_ones(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        traffic = platform.exchange.traffic
        for number in range(NEWEST_CALLS + 5):
            traffic.begin("event", "text", number)
        follower = Follower(platform.exchange)

        told: Any = follower.everything()
        assert [call["number"] for call in told["calls"]][:1] == [6]
        assert (len(told["calls"]), told["older_calls"]) == (NEWEST_CALLS, True)
        assert follower.news() is None
        traffic.begin("event", "text", 0)
        fresh: Any = follower.news()
        assert [call["number"] for call in fresh["calls"]] == [NEWEST_CALLS + 6]

        older: Any = await platform.app.get("calls", {"before": 6, "count": 3})
        assert ([call["number"] for call in older["calls"]], older["older_calls"]) == ([3, 4, 5], True)
        oldest: Any = await platform.app.get("calls", {"before": 3})
        assert ([call["number"] for call in oldest["calls"]], oldest["older_calls"]) == ([1, 2], False)
