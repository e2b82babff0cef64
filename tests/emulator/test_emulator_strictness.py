"""What the platform may take, and the interface doesn't promise: noted, or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from emulated import Emulated, emulated

from triobot.emulator.faults import Switches
from triobot.emulator.follower import Follower
from triobot.emulator.strictness import _FIELDS  # pyright: ignore[reportPrivateUsage]
from triobot.wire import operations

PNG = b"\x89PNG\r\n\x1a\n"
TEXT = {"type": "text", "data": "Hello."}
GO = {"type": "submit", "label": "Go"}
PRESS = [[{"text": "Yes", "cb_data": "y"}]]


def keyed(field: str, value: object) -> dict[str, object]:
    return {**TEXT, field: json.dumps(value)}


# By liberty: the operation, what is sent beside chat_id, the field, and words of the rule.
TAKEN: dict[str, tuple[str, Mapping[str, object], str, str]] = {
    "slash": ("sendMessage/", TEXT, "path", "no slash at its end"),
    "outside": ("gameEvent", {"event": "e", "value": "1"}, "path", "no operation of the interface"),
    "unknown field": (
        "sendMessage",
        {**TEXT, "parse_mode": "html"},
        "parse_mode",
        "is no field of sendMessage",
    ),
    "capital type": ("sendMessage", {"type": "Text", "data": "Hi"}, "type", "small letters"),
    "capital action": ("sendAction", {"type": "Typing"}, "type", "small letters"),
    "no alert": ("answerCallback", {"callback_id": "CALLBACK", "text": "Ok"}, "show_alert", "must be given"),
    "no data": (
        "editMessage",
        {"message_id": "MESSAGE", "inline_keyboard": json.dumps(PRESS)},
        "data",
        "must be given",
    ),
    "a phone": ("deleteMessage", {"chat_id": "PHONE", "message_id": "7"}, "chat_id", "when sending only"),
    "keys to one side": (
        "sendMessage",
        keyed("reply_keyboard", {"keyboard": [[{"a": "A"}]], "once": True}),
        "reply_keyboard",
        "the key 'once'",
    ),
    "no keys": ("sendMessage", keyed("reply_keyboard", {"keyboard": []}), "reply_keyboard", "have a row"),
    "no buttons": ("sendMessage", keyed("inline_keyboard", []), "inline_keyboard", "have a row"),
    "a button's key": (
        "sendMessage",
        keyed("inline_keyboard", [[{"text": "Yes", "cb_data": "y", "callback_data": "y"}]]),
        "inline_keyboard",
        "a button with the key 'callback_data'",
    ),
    "amount as text": (
        "sendMessage",
        keyed("inline_keyboard", [[{"text": "Pay", "amount": "5", "currency": "IRR", "ref_id": "1"}]]),
        "inline_keyboard",
        "a number for 'amount'",
    ),
    "ref_id of a button": (
        "sendMessage",
        keyed("inline_keyboard", [[{"text": "Pay", "amount": 5, "currency": "IRR", "ref_id": "a-b"}]]),
        "inline_keyboard",
        "base64 for 'ref_id'",
    ),
    "a field's value": (
        "sendMessage",
        keyed("form", [{"type": "text", "name": "a", "label": "A", "value": "b"}, GO]),
        "form",
        "the type inbuilt only",
    ),
    "a submit's name": (
        "sendMessage",
        keyed("form", [{"type": "text", "name": "a", "label": "A"}, {**GO, "name": "go"}]),
        "form",
        "no 'name' for the type submit",
    ),
    "a field's key": (
        "sendMessage",
        keyed("form", [{"type": "text", "name": "a", "label": "A", "hint": "b"}, GO]),
        "form",
        "a field with the key 'hint'",
    ),
    "a place's key": (
        "sendMessage",
        {"type": "location", "data": '{"lat":"1","long":"2"}'},
        "data",
        "have the key 'desc'",
    ),
    "a place's number": (
        "sendMessage",
        {"type": "location", "data": '{"lat":1,"long":"2","desc":""}'},
        "data",
        "text for 'lat'",
    ),
    "a phone without plus": (
        "sendMessage",
        {"type": "contact", "data": '{"phone":"98910","name":"A"}'},
        "data",
        "plus sign",
    ),
    "a picture elsewhere": (
        "sendMessage",
        {"type": "image", "data": '{"path":"https://example.org/a.png"}'},
        "data",
        "what upload has answered, with",
    ),
    "another kind": ("sendMessage", {"type": "file", "data": "DESCRIPTOR"}, "data", "for the type file"),
    "currency": (
        "invoice",
        {"amount": 5, "description": "Tea", "currency": "coin"},
        "currency",
        "is no field of invoice",
    ),
}


async def prepared(platform: Emulated, given: Mapping[str, object]) -> dict[str, object]:
    """Fill in what only the platform knows."""
    sara = await platform.app.user("Sara")
    await sara.joins()
    head: dict[str, object] = {"chat_id": sara.chat_id}
    sent = await platform.perform("sendMessage", **head, **keyed("inline_keyboard", PRESS))
    [pressed] = (await platform.control.post(f"users/{sara.id}/press", json={"label": "Yes"})).json()[
        "callback_ids"
    ]
    descriptor = await platform.platform.post("/upload", files={"image": ("a.png", PNG)})
    person = platform.exchange.world.people.get(sara.id)
    known = {
        "CALLBACK": pressed,
        "MESSAGE": sent.json()["id"],
        "PHONE": person.phone,
        "DESCRIPTOR": descriptor.text,
    }
    return {**head, **{name: known.get(str(value), value) for name, value in given.items()}}


@pytest.mark.parametrize("what", TAKEN)
async def test_a_liberty_is_noted_or_refused(tmp_path: Path, what: str) -> None:
    path, given, field, rule = TAKEN[what]
    async with emulated(tmp_path) as platform:
        fields = await prepared(platform, given)
        assert platform.exchange.liberties == {}

        answer = await platform.perform(path, **fields)
        assert answer.status_code == 200, answer.text
        call = platform.exchange.traffic.newest(1)[0]
        assert [(one.field, rule in one.rule) for one in call.liberties] == [(field, True)]

        platform.exchange.world.switches = Switches(strict=True)
        before = platform.exchange.world.seq
        answer = await platform.perform(path, **fields)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(f"{field} is not valid: ")
        assert platform.exchange.world.seq == before
        [counted] = (await platform.control.get("liberties")).json()
        assert counted == {
            "operation": path.strip("/"),
            "field": field,
            "count": 2,
            "rule": call.liberties[0].rule,
        }


async def test_what_is_no_form_or_comes_beside_a_file(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        sara = await platform.app.user("Sara")
        await sara.joins()
        for strict, status in ((False, 200), (True, 400)):
            platform.exchange.world.switches = Switches(strict=strict)
            sent = await platform.platform.post("/sendMessage", json={"chat_id": sara.chat_id, **TEXT})
            assert sent.status_code == status
            assert [one.field for one in platform.exchange.traffic.newest(1)[0].liberties] == ["body"]
            files, data = {"image": ("a.png", PNG)}, {"chat_id": "5", "desc": "Look"}
            uploaded = await platform.platform.post("/upload", files=files, data=data)
            assert uploaded.status_code == status
            assert [one.field for one in platform.exchange.traffic.newest(1)[0].liberties] == [
                "chat_id",
                "desc",
            ]


async def test_keyboards_of_an_upload_are_looked_at_as_a_message_s(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        platform.exchange.world.switches = Switches(strict=True)
        files = {"image": ("a.png", PNG)}
        good = {"reply_keyboard": '{"keyboard":[[{"y":"Yes"}]]}', "inline_keyboard": json.dumps(PRESS)}
        uploaded = await platform.platform.post("/upload", files=files, data=good)
        assert uploaded.status_code == 200
        for name, bad in (("reply_keyboard", "{"), ("inline_keyboard", '[[{"text":"Yes"}]]')):
            refused = await platform.platform.post("/upload", files=files, data={**good, name: bad})
            assert (refused.status_code, refused.json()["error"]) == (400, f"{name} is not valid")
        taken = {"reply_keyboard": '{"keyboard":[[{"y":"Yes"}]],"once":true}'}
        refused = await platform.platform.post("/upload", files=files, data=taken)
        assert refused.json()["error"].startswith("reply_keyboard is not valid: ")


async def test_a_page_is_told_of_it(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        follower = Follower(platform.exchange)
        follower.everything()
        heard: list[tuple[str, str]] = []
        platform.exchange.hear_liberty = lambda path, liberty: heard.append((path, liberty.field))
        fields = await prepared(platform, TAKEN["capital type"][1])
        for _ in range(2):
            await platform.perform("sendMessage", **fields)
        calls: Any = (follower.news() or {})["calls"]
        assert list(calls[-1]["liberties"]) == [{"field": "type", "rule": "must be in small letters"}]
        assert heard == [("sendMessage", "type")]


def test_every_operation_of_the_interface_is_known() -> None:
    paths = {getattr(one, "path", None) for one in vars(operations).values() if isinstance(one, type)}
    assert {path for path in paths if isinstance(path, str) and path} == set(_FIELDS)
