"""The control API is as its description says: every route, every key that is taken, and what is answered."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args
from unittest.mock import Mock

import attrs
import pytest
import trio
from emulated import Emulated, emulated
from quart import Blueprint
from quart_trio import QuartTrio

import triobot.emulator
from tests.beside import FakeBeside
from triobot.emulator.chats import ChatMessage, Consequence
from triobot.emulator.control import control_blueprint
from triobot.emulator.exchange import Exchange
from triobot.emulator.faults import EventFault, Fault, Switches
from triobot.emulator.follower import stream_blueprint
from triobot.emulator.views import view_entry
from triobot.studio.travel.routes import bot_blueprint, past_blueprint
from triobot.wire.content import Image
from triobot.wire.forms import Checkbox, Form, Inbuilt, Radio, Select, Submit, TextArea, TextField
from triobot.wire.ids import MessageId
from triobot.wire.markup import CallbackButton, InlineKeyboard, Key, LinkButton, PayButton, ReplyKeyboard
from triobot.wire.operations import CreateInvoice, DeleteMessage, SendMessage
from triobot.wire.results import Sent

PATH: Final = Path(triobot.emulator.__file__).with_name("openapi.json")
DESCRIBED: Final[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
NEED_A_BOT: Final = ("/stream", "/openapi", "/bot", "/crowd")
PNG: Final = b"\x89PNG\r\n\x1a\n"


def routes() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each of the description: its method, its path, and what is said of it."""
    for path, methods in DESCRIBED["paths"].items():
        for method, said in methods.items():
            yield method, path, said


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    place = schema.get("$ref")
    return schema if place is None else resolved(DESCRIBED["components"]["schemas"][place.rpartition("/")[2]])


TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def misfits(schema: Mapping[str, Any], value: object, at: str = "") -> Iterator[str]:
    """Yield where a value isn't what the schema says: that part of JSON Schema which the description uses."""
    schema = resolved(schema)
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            if all(list(misfits(one, value, at)) for one in schema[choice]):
                yield f"{at}: none of {choice}"
            return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is not listed"
    kinds = schema.get("type", list(TYPES))
    kinds = kinds if isinstance(kinds, list) else [kinds]
    fitting = [kind for kind in kinds if isinstance(value, TYPES[kind])]
    if not fitting or (isinstance(value, bool) and "boolean" not in kinds):
        yield f"{at}: {value!r} is no {kinds}"
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from misfits(schema.get("items", {}), one, f"{at}[{number}]")
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{at}: without {name}"
        for name, one in value.items():
            if name in known:
                yield from misfits(known[name], one, f"{at}.{name}")
            elif known and schema.get("additionalProperties") is not True:
                yield f"{at}: {name} is not described"


def answer_of(said: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = said["responses"]["200"]["content"]["application/json"]["schema"]
    return schema


def routes_beside(exchange: Exchange) -> tuple[Blueprint, Blueprint]:
    """The routes of `triobot dev`, which has nothing behind them here."""
    nothing: Any = Mock()
    return bot_blueprint(nothing, nothing, nothing), past_blueprint(exchange, nothing, nothing)


def served(exchange: Exchange) -> Iterator[tuple[str, str]]:
    """Each route that is there: its method, and its path as the description writes it."""
    app = QuartTrio(__name__)
    for part in (control_blueprint(exchange), *routes_beside(exchange), stream_blueprint(exchange)):
        app.register_blueprint(part)
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(int:)?(\w+)>", lambda found: "{" + found[2].removesuffix("_id") + "}", rule.rule)
        several = re.fullmatch(r"(.*)<any\((.*)\):\w+>", path)
        for one in [path] if several is None else [several[1] + name for name in several[2].split(", ")]:
            for method in (rule.methods or set()) & {"GET", "POST", "DELETE"}:
                if one.startswith("/control/") and not rule.websocket and "<path:" not in one:
                    yield method.lower(), one.removeprefix("/control")


async def test_every_route_is_described_and_no_other(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform:
        assert {(method, path) for method, path, _ in routes()} == set(served(platform.exchange))
        names = [said["operationId"] for _, _, said in routes()]
        assert len(names) == len(set(names))
        assert (await platform.control.get("openapi")).json() == DESCRIBED


async def test_every_key_is_described(tmp_path: Path) -> None:
    """A route says itself which keys it takes, when it refuses another one."""
    async with emulated(tmp_path) as platform:
        platform.exchange.beside = FakeBeside(routes=routes_beside(platform.exchange)).beside()
        ali = await platform.app.user("Ali")
        for method, path, said in routes():
            place = re.sub(r"\{\w+\}", "1", path.strip("/").replace("{user}", str(ali.id)))
            if method == "delete":
                continue
            if method == "post":
                schema = resolved(said["requestBody"]["content"]["application/json"]["schema"])
                known = schema.get("properties", {})
                answer = await platform.control.post(place, json={"what?": 1})
            else:
                known = [one["name"] for one in said.get("parameters", ()) if one["in"] == "query"]
                if not known or path == "/stream":
                    continue
                answer = await platform.control.get(place, params={"what?": 1})
            if path in ("/faults", "/faults/clear", "/forget-uploads"):
                continue
            assert answer.status_code in (400, 409), (path, answer.text)
            if known:
                words = re.search(r"known are (.*)", answer.json()["error"])
                assert words is not None, path
                assert sorted(known) == words[1].split(", "), path


@pytest.mark.parametrize("kind", [Fault, EventFault, Switches])
def test_every_setting_is_described(kind: type[attrs.AttrsInstance]) -> None:
    schema = DESCRIBED["components"]["schemas"][kind.__name__]

    assert list(schema["properties"]) == [field.name for field in attrs.fields(kind)]


async def test_answers_are_as_described(tmp_path: Path) -> None:
    async with emulated(tmp_path) as platform, trio.open_nursery() as nursery:
        nursery.start_soon(platform.exchange.pusher.run)
        ids = await live(platform)
        seen = 0
        for method, path, said in routes():
            if method != "get" or path in NEED_A_BOT or path.startswith("/travel"):
                continue
            wanted = {one["name"] for one in said.get("parameters", ()) if one.get("required")}
            place = path.strip("/").replace("{user}", str(ids["user"]))
            answer = await platform.control.get(
                place, params={"chat": ids["chat"]} if "chat" in wanted else {}
            )
            assert answer.status_code == 200, (path, answer.text)
            assert list(misfits(answer_of(said), answer.json(), path)) == []
            seen += 1
        assert seen == 9
        nursery.cancel_scope.cancel()


async def live(platform: Emulated) -> Mapping[str, int]:
    """Let everything happen that is answered in its own shape; what acts answer is checked on the way."""
    posts = {path: said for method, path, said in routes() if method == "post"}
    perform = platform.exchange.perform

    async def act(path: str, expected: int = 200, /, **given: object) -> Any:
        answer = await platform.control.post(path.strip("/"), json=given)
        assert answer.status_code == expected, (path, answer.text)
        said = posts[re.sub("/[0-9]+/", "/{user}/", path)]
        body = said["requestBody"]["content"]["application/json"]["schema"]
        assert bool(list(misfits(body, given, path))) == (expected == 400)
        if expected == 200:
            assert list(misfits(answer_of(said), answer.json(), path)) == []
        else:
            assert str(expected) in said["responses"], path
            assert list(misfits({"$ref": "#/components/schemas/Error"}, answer.json(), path)) == []
        return answer.json()

    sara = await act("/users", name="Sara", wallet={"IRR": 5_000})
    place, chat = f"/users/{sara['id']}", sara["chat_id"]
    await act(f"{place}/say", 409, text="Not a member.")
    await act(f"{place}/join")
    await act("/groups", name="club", members=[sara["id"]])
    await act(f"{place}/say", text="Hi")
    await act(f"{place}/say", 400, txt="Hi")
    await act(f"{place}/media", kind="image", filename="a.png", base64="iVBORw0KGgo=", caption="Look")
    await act(f"{place}/share-contact")
    await act(f"{place}/share-location")
    fields = (
        *(TextField("a", "A"), TextArea("b", "B", "b"), Radio("c", "C", (("1", "One"),))),
        *(Select("d", "D", (("1", "One"),)), Checkbox("e", "E"), Inbuilt("f", "F", "barcode"), Submit("Go")),
    )
    pay = PayButton("Pay", 700, "77")  # type: ignore[arg-type]
    rows = ((CallbackButton("Yes", "y"), LinkButton("Web", "https://example.org")), (pay,))
    perform(
        SendMessage(chat, "?", ReplyKeyboard(((Key("s", "Small"),),)), InlineKeyboard(rows), Form(fields))
    )
    perform(SendMessage(chat, Image(await platform.exchange.upload("image", "b.png", io.BytesIO(PNG)))))
    gone = perform(SendMessage(chat, "Gone."))
    assert isinstance(gone, Sent)
    perform(DeleteMessage(chat, gone.id))
    perform(CreateInvoice(chat, 100, "Tea"))
    await act(f"{place}/press", label="Yes")
    await act(f"{place}/press", 409, label="No")
    await act(f"{place}/tap", label="Small", value="s")
    await act(f"{place}/submit", values={"a": "1", "c": "1", "e": "true"})
    await act(f"{place}/pay")
    await act(f"{place}/pay", newest_invoice=True)
    await act(f"{place}/top-up", IRR=1)
    await platform.perform("sendMessage", chat_id=chat, type="Text", data="Hello")
    await act("/faults", operation="sendMessage", status=500)
    await act("/faults", type="text", drop=True, times=1)
    await act("/clock", seconds=1)
    await act("/switches", pay_twice=True)
    await platform.exchange.pusher.wait_idle()
    await act("/deliveries/again", number=1)
    changed = await act("/deliveries/again", number=1, type="wave", **{"from": None})
    assert (changed["type"], changed["user"], changed["again"], changed["changed"]) == ("wave", None, 1, True)
    await act("/deliveries/again", 409, number=10_000)
    await platform.exchange.pusher.wait_idle()
    return {"user": sara["id"], "chat": chat}


def test_every_kind_of_change_is_described() -> None:
    listed = DESCRIBED["components"]["schemas"]["Change"]["properties"]["kind"]["enum"]
    kinds = {getattr(what, "kind", None) for what in get_args(Consequence)} - {None}

    known = {kind for kind in kinds if isinstance(kind, str)} | {"join", "leave"}
    assert set(listed) == known, "triobot/emulator/openapi.json: Change.kind"


def test_every_field_of_a_message_is_described() -> None:
    message = ChatMessage(MessageId(1), None, "Hi", 1)
    listed = DESCRIBED["components"]["schemas"]["Message"]["properties"]

    assert set(listed) == set(view_entry(message)), "triobot/emulator/openapi.json: Message"
