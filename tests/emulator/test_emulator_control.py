"""The control API and its Python client: everything a person does, and what the machine room offers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from emulated import Emulated, emulated

from triobot.emulator.faults import Switches
from triobot.emulator.person import AppError, NotSeenError, Person
from triobot.wire.content import Contact, Image, Location
from triobot.wire.decode import decode_event
from triobot.wire.events import Event, InvoiceCallback, Join, Leave, Message, PayCallback, Press, Submission
from triobot.wire.forms import Form, Radio, Submit, TextField
from triobot.wire.markup import CallbackButton, InlineButton, InlineKeyboard, Key, PayButton, ReplyKeyboard
from triobot.wire.operations import AnswerCallback, CreateInvoice, EditMessage, SendAction, SendMessage
from triobot.wire.results import InvoiceCreated, Sent


async def joined(platform: Emulated, name: str = "Ali", *, irr: int = 0) -> Person:
    ali = await platform.app.user(name, irr=irr)
    await ali.joins()
    return ali


def events(platform: Emulated) -> list[Event]:
    """What was posted since the last time."""
    pusher = platform.exchange.pusher
    found = [decode_event(body.content_type, body.data) for body in platform.posted]
    platform.posted.clear()
    assert pusher.waiting == 0
    return found


async def pushed(platform: Emulated, nursery: trio.Nursery) -> None:
    nursery.start_soon(platform.exchange.pusher.run)
    await platform.exchange.pusher.wait_idle()


async def test_a_head_is_answered_as_a_get(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        for path, status in (("users", 200), ("nothing", 404)):
            answer = await platform.control.head(path)
            assert (answer.status_code, answer.content) == (status, b"")


async def test_everything_a_person_does_is_posted(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        nursery.start_soon(platform.exchange.pusher.run)
        exchange = platform.exchange
        ali = await joined(platform, irr=1_000)
        rows: tuple[tuple[InlineButton, ...], ...] = (
            (CallbackButton("Yes", "y"), PayButton("Pay", 700, "77")),  # type: ignore[arg-type]
        )
        keys = ReplyKeyboard(((Key("s", "Small"),),))
        form = Form((TextField("name", "Name"), Submit("Send")))
        exchange.perform(SendMessage(ali.chat_id, "?", keys, InlineKeyboard(rows), form))
        bill = exchange.perform(CreateInvoice(ali.chat_id, 100, "Tea"))
        assert isinstance(bill, InvoiceCreated)

        await ali.says("hello")
        await ali.presses("Yes", times=2)
        await ali.presses("Small")
        await ali.submits({"name": "Ali"})
        await ali.pays()
        await ali.pays(invoice=True)
        await ali.pays("Pay", code=1005)
        await ali.shares_contact()
        await ali.says(Location("1.5", "2.5", "there"))
        await ali.says(Image.from_bytes(b"123", "a.png", "look"))
        await ali.leaves()
        await exchange.pusher.wait_idle()

        got = events(platform)
        assert [type(event) for event in got] == [
            Join,
            Message,
            Press,
            Press,
            Message,
            Submission,
            PayCallback,
            InvoiceCallback,
            PayCallback,
            Message,
            Message,
            Message,
            Leave,
        ]
        assert all(event.chat_id == ali.chat_id for event in got)
        assert all(event.sender is not None and event.sender.id == ali.id for event in got)
        contents = [event.content for event in got if isinstance(event, Message)]
        assert contents[:4] == ["hello", "s", Contact(ali.phone, "Ali"), Location("1.5", "2.5", "there")]
        assert isinstance(contents[4], Image) and (contents[4].caption, contents[4].filesize) == ("look", 3)
        assert [event.code for event in got if isinstance(event, PayCallback)] == [None, 1005]
        assert await ali.wallet() == {"IRR": 200, "coin": 0}
        nursery.cancel_scope.cancel()


async def test_groups_have_one_chat_for_all(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        ali, sara = await platform.app.user("Ali"), await platform.app.user("Sara")
        team = await platform.app.group("team", ali, sara)
        platform.exchange.perform(SendMessage(team, "hello all"))

        await sara.at(team).sees("hello all")
        await sara.at(team).says("hi")
        await pushed(platform, nursery)
        last = events(platform)[-1]
        assert last.chat_id == team and last.sender is not None and last.sender.id == sara.id
        with pytest.raises(AppError, match="409: not a member"):
            await ali.says("hi")
        nursery.cancel_scope.cancel()


async def test_a_look_has_as_many_messages_as_are_asked_for(tmp_path: Path) -> None:
    """All its changes come with any of them."""
    async with emulated(tmp_path) as platform:
        ali = await joined(platform)
        for text in ("one", "two", "three"):
            await ali.says(text)

        async def look(**query: int) -> tuple[list[str], int]:
            screen = cast("dict[str, Any]", await platform.app.get(f"users/{ali.id}/chat", query))
            return [shown["content"]["text"] for shown in screen["messages"]], len(screen["changes"])

        assert await look(after=0) == (["one", "two", "three"], 4)
        assert await look(after=0, newest=2) == (["two", "three"], 4)
        assert await look(after=0, newest=0) == ([], 4)


async def test_sees_waits_for_what_comes_later(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        ali = await joined(platform)

        async def bot() -> None:
            await trio.sleep(3)
            platform.exchange.perform(SendAction(ali.chat_id))
            await trio.sleep(1)
            platform.exchange.perform(SendMessage(ali.chat_id, "one"))
            sent = platform.exchange.perform(SendMessage(ali.chat_id, "two"))
            assert isinstance(sent, Sent)
            platform.exchange.perform(EditMessage(ali.chat_id, sent.id, "three"))

        nursery.start_soon(bot)
        start = trio.current_time()
        assert (await ali.sees(re.compile("^tw"))).text == "two"
        assert trio.current_time() - start == 4
        assert (await ali.sees(str)).text == "three"
        with pytest.raises(NotSeenError):
            await ali.sees("one", within=1)


async def test_what_was_not_seen_is_told_with_the_chat_so_far(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with emulated(tmp_path) as platform:
        ali = await joined(platform)
        await ali.says("hello")
        buttons = InlineKeyboard(((CallbackButton("Yes", "y"),),))
        platform.exchange.perform(SendMessage(ali.chat_id, "sure\x1b[2J?", inline_keyboard=buttons))

        with pytest.raises(NotSeenError) as caught:
            await ali.sees("bye", within=2)

        text = str(caught.value)
        assert "the message 'bye' did not come within 2 s; Ali's chat so far:" in text
        assert "hello" in text and "sure\\x1b[2J? <Yes>" in text
        assert "\x1b" not in text
        await ali.sees()
        await ali.sees_nothing(within=2)
        platform.exchange.perform(SendMessage(ali.chat_id, "more"))
        with pytest.raises(NotSeenError):
            await ali.sees_nothing(within=2)


async def test_answers_to_presses_are_seen(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await joined(platform)
        buttons = InlineKeyboard(((CallbackButton("Yes", "y"),),))
        platform.exchange.perform(SendMessage(ali.chat_id, "?", inline_keyboard=buttons))
        answer = await platform.control.post(
            f"users/{ali.id}/press", json={"label": "Yes", "chat": ali.chat_id}
        )
        [callback_id] = answer.json()["callback_ids"]
        assert (await ali.screen())["unanswered"] == [callback_id]

        platform.exchange.perform(AnswerCallback(ali.chat_id, callback_id, "noted", show_alert=True))

        assert await ali.sees_answer() == "noted"
        assert (await ali.screen())["unanswered"] == []


async def test_an_hour_passes_when_told(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await joined(platform, irr=1_000)
        row = ((PayButton("Pay", 700, "77"),),)  # type: ignore[arg-type]
        platform.exchange.perform(SendMessage(ali.chat_id, "?", inline_keyboard=InlineKeyboard(row)))
        await ali.pays()
        [bill] = (await platform.control.get("payments")).json()
        assert (bill["state"], await ali.wallet()) == ("paid", {"IRR": 300, "coin": 0})

        await platform.app.post("clock", {"seconds": 3_600})

        [bill] = (await platform.control.get("payments")).json()
        assert (bill["state"], await ali.wallet()) == ("refunded", {"IRR": 1_000, "coin": 0})
        verified = await platform.perform("payment/verify", chat_id=ali.chat_id, ref_id="77")
        assert verified.json() == {"amount": 700, "status": "error"}


async def test_switches_are_changed_one_by_one(tmp_path: Path) -> None:
    async with emulated(tmp_path, Switches(pay_twice=True)) as platform:
        answer = await platform.control.post("switches", json={"second_verify": "error"})

        assert answer.status_code == 200
        assert platform.exchange.world.switches == Switches(pay_twice=True, second_verify="error")
        for wrong in ({"second_verify": "maybe"}, {"senders": 1}, {"sender": True}, {"verify_window": -1}):
            assert (await platform.control.post("switches", json=wrong)).status_code == 400


async def test_requests_that_make_no_sense_are_told_why(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await joined(platform)
        mine = f"users/{ali.id}"
        keys = ReplyKeyboard(((Key("key", "Below"),),))
        buttons = InlineKeyboard(((CallbackButton("No", "n"), CallbackButton("Maybe", "m")),))
        form = Form((Radio("size", "Size", (("s", "Small"), ("l", "Large"))), Submit("Go")))
        platform.exchange.perform(SendMessage(ali.chat_id, "?", keys, buttons))
        platform.exchange.perform(SendMessage(ali.chat_id, "?", None, buttons, form))
        there = "there is no button 'Yes'; what there is to press: 'Below', 'No', 'Maybe'"
        for path, given, status, words in (
            ("users", {}, 400, "'name' must be given"),
            ("users", {"name": "B", "wallet": 3}, 400, "'wallet' must be an object"),
            ("users", {"name": "Ali"}, 409, "somebody has this name"),
            ("users/7/join", {}, 409, "there is nobody of this id"),
            (f"{mine}/say", {"txt": "x"}, 400, "'txt' is not known here"),
            (f"{mine}/say", {"text": ""}, 400, "'text' must not be empty"),
            (f"{mine}/press", {"label": "Yes"}, 409, there),
            (f"{mine}/pay", {"label": "Yes"}, 409, there),
            (f"{mine}/submit", {"values": {"sise": "s"}}, 409, "no field 'sise'; its fields: 'size'"),
            (f"{mine}/submit", {"values": {"size": "m"}}, 409, "doesn't offer this option, but 's', 'l'"),
            (f"{mine}/press", {"label": "Yes", "times": 11}, 400, "'times' must be from 1 to 10"),
            (f"{mine}/pay", {}, 409, "there is nothing to pay"),
            (f"{mine}/media", {"kind": "film"}, 400, "'kind' must be one of"),
            (f"{mine}/media", {"kind": "file", "base64": "!"}, 400, "'base64' must be base64"),
            (f"{mine}/share-location", {"lat": "99", "long": "0"}, 400, "lat: must be"),
            ("clock", {"seconds": -1}, 400, "'seconds' must be a number"),
            ("groups", {"name": "a", "members": [99]}, 409, "there is nobody of this id"),
        ):
            answer = await platform.control.post(path, json=given)
            assert (answer.status_code, words in answer.json()["error"]) == (status, True), (
                path,
                answer.text,
            )
        broken = await platform.control.post(
            "users", content=b"[", headers={"content-type": "application/json"}
        )
        assert broken.status_code == 400
        # Half of a letter would come back in each answer about the person, which nothing could encode.
        half = await platform.control.post(
            "users", content=b'{"name": "\\ud800"}', headers={"content-type": "application/json"}
        )
        assert (half.status_code, "surrogate" in half.json()["error"]) == (400, True)
        assert (await platform.control.get("users")).status_code == 200
        assert (await platform.control.get(f"{mine}/chat?after=x")).status_code == 400
        assert (await platform.control.get(f"{mine}/chat?wait=-1")).status_code == 200
        assert (await platform.control.get("nowhere")).status_code == 404


async def test_acts_are_refused_while_the_bot_is_too_far_behind(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await joined(platform)
        while platform.exchange.pusher.waiting < 10_000 - 16:
            platform.exchange.pusher.push(Join(ali.chat_id))
        await ali.says("the last one")
        with pytest.raises(AppError, match="503"):
            await ali.says("one too many")
        assert [seen.text for seen in await ali.history()] == ["the last one"]


async def test_verify_words_are_what_the_world_says(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await joined(platform, irr=10)
        answer = await platform.perform("invoice", chat_id=ali.chat_id, amount=10, description="Tea")
        ref_id = answer.json()["id"]
        await ali.pays(invoice=True)

        verified = await platform.perform("invoice/verify", chat_id=ali.chat_id, ref_id=ref_id)

        assert verified.json() == {"amount": 10, "status": "verified"}


async def test_the_very_button_is_pressed(tmp_path: Path) -> None:
    """Two buttons of a message may have one label; and one label may be a button's and a key's."""
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        ali = await joined(platform)
        same = InlineKeyboard(((CallbackButton("Go", "one"), CallbackButton("Go", "two")),))
        keys = ReplyKeyboard(((Key("key", "Go"), Key("$location", "Here")),))
        sent = platform.exchange.perform(SendMessage(ali.chat_id, "?", keys, same))
        assert isinstance(sent, Sent)
        await pushed(platform, nursery)
        events(platform)
        act = f"users/{ali.id}"

        await platform.app.post(f"{act}/press", {"label": "Go", "message": sent.id, "column": 1})
        await platform.app.post(f"{act}/tap", {"label": "Go", "value": "key"})
        place = {"lat": "1", "long": "2", "desc": "there"}
        await platform.app.post(f"{act}/tap", {"label": "Here", "value": "$location", **place})
        for wrong in ({"label": "Go", "column": 2}, {"label": "No", "column": 1}, {"label": "Go", "row": 1}):
            with pytest.raises(AppError, match="409"):
                await platform.app.post(f"{act}/press", {"message": sent.id, **wrong})
        with pytest.raises(AppError, match="409"):
            await platform.app.post(f"{act}/tap", {"label": "Go", "value": "other"})

        await platform.exchange.pusher.wait_idle()
        press, tap, shared = events(platform)
        assert isinstance(press, Press) and press.value == "two"
        assert isinstance(tap, Message) and tap.content == "key"
        assert isinstance(shared, Message) and shared.content == Location("1", "2", "there")
        nursery.cancel_scope.cancel()


async def test_a_keyboard_that_comes_or_goes_is_no_edit_to_people(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        ali = await joined(platform)
        rows = InlineKeyboard(((CallbackButton("Go", "one"),),))
        sent = platform.exchange.perform(SendMessage(ali.chat_id, "?", None, rows))
        assert isinstance(sent, Sent)
        chat = platform.exchange.world.chat(ali.chat_id)

        platform.exchange.perform(EditMessage(ali.chat_id, sent.id, "?"))
        assert chat.entries[sent.id].edited_at is None
        platform.exchange.perform(EditMessage(ali.chat_id, sent.id, "!"))
        assert chat.entries[sent.id].edited_at is not None
