"""The control API: people's acts in the app, and planned faults. JSON under ``/control/``.

Every request needs the header ``X-Triobot-Control`` with this run's token; a POST needs
``Content-Type: application/json``. Other requests are answered 403 (see `door`). An error is
``{"error": text}``. The status is 400 for an invalid request, 409 for an act that the app doesn't offer, and
503 while too many events wait. A 409 also has ``"not_shown": true`` if the requested button, bill or form
isn't on the screen, but may still appear.

====================================  ===================================================================
``GET  users``                        all people
``POST users``                        ``name``, ``username``, ``phone``, ``wallet: {"IRR": 0, "coin": 0}``;
                                      ``id``, ``chat_id`` for chosen numbers
``POST groups``                       ``name``, ``members: [user ids]``, all of whom join; ``id``
``POST users/<id>/join``, ``leave``   ``chat``: a group's id, else the service
``POST users/<id>/say``               ``text``
``POST users/<id>/media``             ``kind``, ``filename``, ``base64``, ``caption``, ``duration``
``POST users/<id>/share-contact``     sends ``phone`` (and ``name``), by default the person's own contact
``POST users/<id>/share-location``    ``lat``, ``long``, ``desc``: all or none
``POST users/<id>/press``             ``label`` of an inline button or of a key, ``message``, ``times``;
                                      ``row``, ``column``, ``nth`` choose among several with the same label;
                                      or ``index`` of the button in the message
``POST users/<id>/tap``               ``label`` and ``value`` of a key; ``lat``, ``long``, ``desc`` to share
``POST users/<id>/submit``            ``values: {name: text}``, ``message``
``POST users/<id>/pay``               the newest button; or ``label``, ``message``; or ``invoice`` (an id) or
                                      ``newest_invoice: true``; ``code``, ``taken``, ``amount``
``POST users/<id>/top-up``            ``IRR``, ``coin``
``GET  users/<id>/chat``              ``?chat=&after=&wait=&newest=``: the chat with its newest messages (50),
                                      and its changes after ``after``; waits at most ``wait`` seconds (60)
                                      for a change
``GET  payments``                     every payment button and invoice, with its state
``GET  faults``, ``POST faults``      the fields of `EventFault` if there is ``type``, else of `Fault`
``POST faults/clear``
``POST outage``                       ``seconds``: refuse connections
``POST clock``                        ``seconds``: put the clock forward
``POST switches``                     the fields of `Switches`
``POST forget-uploads``               forget all files: their descriptors are refused from now on
``GET  requests``                     the bot's newest requests
``GET  deliveries``                   ``?count=``: the newest events, with the states of their deliveries
``POST deliveries/again``             ``number``: post this event again; ``type``, ``data``, ``chat_id`` and
                                      ``from`` (null for none) change the event
``GET  address``                      whether a bot listens at the address of events
``GET  liberties``                    the bot's requests beyond the interface's promises: see `strictness`
``GET  calls``                        ``?before=&count=``: requests in both directions, with their bodies,
                                      and with numbers below ``before``
``GET  history``                      ``?chat=&before=&count=``: a chat's messages, before one of them, and
                                      the lines between them
``GET  openapi``                      the control API as an OpenAPI 3.1 description
``GET  stream``                       the complete state, then changes, as server-sent events: see
                                      `follower`; or as a WebSocket's texts, an empty text each second
====================================  ===================================================================

All acts take ``chat`` (a group's id), and answer ``{"seq": number of the newest change, "events":
[types posted]}``; the answer to a press also has ``callback_ids``. `triobot dev` adds the routes of
`triobot.studio.travel.routes`.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import io
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar, cast, final

import attrs
import trio
from quart import Blueprint, Response, request

from ..errors import LocalProtocolError, TriobotError
from ..wire.content import MEDIA, Contact, Content, Location, MediaKind
from ..wire.encode import encode_error, encode_event_data
from ..wire.events import BESIDE, Event, Press, Sender, UnknownEvent
from ..wire.ids import ChatId, InvoiceId, MessageId, SenderId
from ..wire.markup import InlineButton, Key, PayButton
from ..wire.rules import JsonValue, compact_json
from . import acts
from .blobs import FileTooLargeError
from .chats import HISTORY, ChatMessage, Pick, PlatformChat
from .deliveries import view_delivery
from .exchange import Exchange
from .faults import EventFault, Fault
from .follower import NEWEST, NEWEST_CALLS, view_history
from .pusher import PushQueueFullError
from .traffic import view_calls
from .views import SHOWN, JsonObject, json_for_pages, view_bill, view_chat, view_user
from .world import ImpossibleActError, NotShownError, User

Given: TypeAlias = "JsonValue | Awaitable[JsonValue]"
"""Answer of a route: JSON, or an awaitable of JSON."""

LONGEST_BODY: Final = 32 * 1024 * 1024
_MOST_CALLS: Final = 1_000
_DIGITS: Final = 19
LONGEST_WAIT: Final = 60
_MOST_PRESSES: Final = 10
_CHANGED: Final = ("type", "data", "chat_id", "from")
# Keys that are allowed with each message, of any content.
_SAID: Final = ("chat", *BESIDE)
_PLACE: Final = ("index", "row", "column", "nth")
# Keys that determine the outcome of a payment.
_ENDS: Final = ("code", "taken", "amount")
# Maximum number of labels in the error for a mistyped label. Buttons of old messages work too, but a person
# rarely means an old button.
_MOST_NAMED: Final = 20
# Maximum number of strides into which a skip of the clock is divided. Work that is due within the same stride
# may run in any order. With more strides, a skip would take longer than a person waits.
STRIDES: Final = 60
SHORTEST: Final = 1_000

SettingsT = TypeVar("SettingsT")


@final
class BadAskError(TriobotError):
    """A request to the control API is invalid; the text names the key."""


@final
class Asked:
    """The keys of one request. Each method returns the value of a key; a wrong type raises `BadAskError`."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    @classmethod
    def read(cls, body: bytes) -> Asked:
        """Parse a JSON object; an empty body is an empty object."""
        try:
            value: object = json.loads(body) if body.strip() else {}
        except (ValueError, RecursionError):
            raise BadAskError("the body must be JSON") from None
        if not isinstance(value, dict):
            raise BadAskError("the body must be a JSON object")
        given = cast("dict[str, object]", value)
        if b"\\u" in body and _has_half_letters(given):
            # No answer could contain a text with half of a surrogate pair.
            raise BadAskError("the body must be text that UTF-8 can hold: it has half of a surrogate pair")
        return cls(given)

    def only(self, names: Collection[str]) -> None:
        """Raise `BadAskError` for unknown keys: a misspelt key would be ignored silently."""
        for name in self._values:
            if name not in names:
                raise BadAskError(f"{name!r} is not known here; known are {', '.join(sorted(names))}")

    def values(self) -> Mapping[str, object]:
        """Return all keys with their values, unchecked."""
        return self._values

    def text(self, name: str) -> str:
        """Return a required text."""
        if (value := self.optional_text(name)) is None:
            raise BadAskError(f"{name!r} must be given")
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a text; None if the request lacks this key."""
        return cast("str | None", self._read(name, None, "text", lambda value: isinstance(value, str)))

    def integer(self, name: str, default: int) -> int:
        """Return an integer, or the default."""
        return cast("int", self._read(name, default, "an integer", _is_integer))

    def optional_integer(self, name: str) -> int | None:
        """Return an integer; None if the request lacks this key."""
        return cast("int | None", self._read(name, None, "an integer", _is_integer))

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """Return a number in a range, or the default; an integer if `least` and `default` are integers."""
        is_whole = isinstance(least, int) and isinstance(default, int)
        what = f"{'an integer' if is_whole else 'a number'} from {least:g} to {most:g}"

        def fits(value: object) -> bool:
            return (not is_whole or _is_integer(value)) and _is_number(value, most) and value >= least  # type: ignore[operator]

        return cast("float", self._read(name, default, what, fits))

    def seconds(self, name: str) -> float:
        """Return a required number of seconds, from 0 to a year."""
        what = "a number of seconds, at most a year"
        return cast("float", self._read(name, "", what, lambda value: _is_number(value, 366 * 86_400)))

    def flag(self, name: str) -> bool:
        """Return true or false; false if the request lacks this key."""
        return cast("bool", self._read(name, False, "true or false", lambda value: isinstance(value, bool)))

    def texts(self, name: str) -> Mapping[str, str]:
        """Return an object of texts; an empty object if the request lacks this key."""
        value = self._object(name)
        if not all(isinstance(entry, str) for entry in value.values()):
            raise BadAskError(f"{name!r} must hold texts only")
        return cast("Mapping[str, str]", value)

    def integers(self, name: str) -> list[int]:
        """Return a list of integers; an empty list if the request lacks this key."""
        return cast("list[int]", self._read(name, [], "a list of integers", _are_integers))

    def list_of_texts(self, name: str) -> list[str]:
        """Return a list of texts; an empty list if the request lacks this key."""
        return cast("list[str]", self._read(name, [], "a list of texts", _are_texts))

    def inner(self, name: str) -> Asked:
        """Return an inner object; an empty object if the request lacks this key."""
        return Asked(self._object(name))

    def _object(self, name: str) -> Mapping[str, object]:
        value = self._read(name, {}, "an object", lambda value: isinstance(value, dict))
        return cast("dict[str, object]", value)

    def _read(self, name: str, default: object, what: str, fits: Callable[[object], bool]) -> object:
        value = self._values.get(name)
        if value is None:
            value = default
        if value is not None and not fits(value):
            raise BadAskError(f"{name!r} must be {what}")
        return value


def _is_integer(value: object) -> bool:
    return type(value) is int


def _is_number(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def _has_half_letters(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _are_integers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_integer, cast("list[object]", value)))


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[object]", value))


def as_number(name: str, value: object) -> int:
    """Parse an integer from an address, where every value is text."""
    text = str(value)
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= _DIGITS):
        raise BadAskError(f"{name!r} must be an integer")
    return int(text)


def control_blueprint(exchange: Exchange) -> Blueprint:
    """Return the routes of the control API."""
    blueprint = Blueprint("control", __name__, url_prefix="/control")
    people, platform = PersonControl(exchange), PlatformControl(exchange)

    def of_user(name: str, answer: Callable[[User, Asked], Given], method: str = "POST") -> None:
        async def view(user_id: int) -> Response:
            def of_this(asked: Asked) -> Given:
                return answer(exchange.world.people.get(SenderId(user_id)), asked)

            return await _answered(exchange, of_this)

        blueprint.add_url_rule(f"/users/<int:user_id>/{name}", name, view, methods=[method])

    def of_all(name: str, answer: Callable[[Asked], Given], method: str = "POST") -> None:
        async def view() -> Response:
            return await _answered(exchange, answer)

        blueprint.add_url_rule(f"/{name}", f"{method} {name}", view, methods=[method])

    for name, act in people.routes().items():
        of_user(name, act)
    of_user("chat", people.chat, "GET")
    for name, change in platform.changes().items():
        of_all(name, change)
    for name, look in platform.looks().items():
        of_all(name, look, "GET")
    # This route catches misspelt paths. Without it, they would count as operations of the platform.
    blueprint.add_url_rule("/<path:rest>", view_func=_nowhere, methods=["GET", "POST"])
    return blueprint


async def _nowhere(rest: str) -> Response:
    await trio.lowlevel.checkpoint()
    return _refused(404, "there is no such path in the control API")


async def _answered(exchange: Exchange, answer: Callable[[Asked], Given]) -> Response:
    try:
        asked = Asked({**request.args}) if request.method == "GET" else Asked.read(await read_body())
        value = answer(asked)
        if inspect.isawaitable(value):
            value = await value
        if request.method == "POST":
            exchange.tell()
    except NotShownError as error:
        words = compact_json({"error": str(error), "not_shown": True})
        return Response(words, 409, content_type="application/json")
    except ImpossibleActError as error:
        return _refused(409, str(error))
    except (BadAskError, LocalProtocolError) as error:
        return _refused(400, str(error))
    except PushQueueFullError as error:
        return _refused(503, str(error))
    except FileTooLargeError:
        return _refused(400, "the file is too large")
    return Response(json_for_pages(value), 200, content_type="application/json")


async def read_body() -> bytes:
    """Read the body of the current request.

    Raises:
        BadAskError: the body is too large.
    """
    body = bytearray()
    async for chunk in request.body:
        body += chunk
        if len(body) > LONGEST_BODY:
            raise BadAskError(f"the body must be at most {LONGEST_BODY} bytes")
    return bytes(body)


def _refused(status: int, reason: str) -> Response:
    return Response(encode_error(reason), status, content_type="application/json")


@final
class PlatformControl:
    """Answers requests that concern the platform as a whole."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._world = exchange.world
        self._skipping = trio.Lock()

    def changes(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {
            "users": self._make_user,
            "groups": self._make_group,
            "faults": self._plan_fault,
            "faults/clear": self._clear_faults,
            "outage": self._outage,
            "clock": self._clock,
            "switches": self._switches,
            "forget-uploads": self._forget_uploads,
            "deliveries/again": self._again,
        }

    def looks(self) -> Mapping[str, Callable[[Asked], Given]]:
        return {
            "users": lambda asked: [view_user(user) for user in self._world.people],
            "payments": self._payments,
            "faults": lambda asked: [_plain(fault) for fault in self._exchange.plan.pending()],
            "requests": lambda asked: [_plain(entry) for entry in self._exchange.requests],
            "liberties": self._liberties,
            "calls": self._calls,
            "history": self._history,
            "openapi": lambda asked: _described(),
            "deliveries": self._deliveries,
            "address": lambda asked: self._exchange.view_address(),
        }

    def _make_user(self, asked: Asked) -> JsonValue:
        asked.only(("name", "id", "chat_id", "username", "phone", "wallet"))
        user_id = asked.optional_integer("id")
        wallet = asked.inner("wallet")
        wallet.only(("IRR", "coin"))
        user = self._world.add_user(
            asked.text("name"),
            user_id=None if user_id is None else SenderId(user_id),
            chat_id=_chat_of(asked, "chat_id"),
            username=asked.optional_text("username"),
            phone=asked.optional_text("phone"),
            irr=wallet.integer("IRR", 0),
            coin=wallet.integer("coin", 0),
        )
        return view_user(user)

    def _make_group(self, asked: Asked) -> JsonValue:
        asked.only(("name", "members", "id"))
        members = [self._world.people.get(SenderId(member)) for member in asked.integers("members")]
        self._exchange.pusher.check_room()
        chat = self._world.add_group(asked.text("name"), _chat_of(asked, "id"))
        for user in members:
            self._exchange.act(partial(acts.join, self._world, user, chat=chat.id))
        return {"chat_id": chat.id, "name": chat.name, "seq": self._world.seq}

    def _payments(self, asked: Asked) -> JsonValue:
        now = self._exchange.clock.now()
        self._world.catch_up(now)
        return [view_bill(bill, now) for bill in self._world.bills]

    def _plan_fault(self, asked: Asked) -> JsonValue:
        given = asked.values()
        try:
            if "type" in given:
                self._exchange.plan.add(_settings(EventFault, given))
            else:
                self._exchange.plan.add(_settings(Fault, given))
        except ValueError as error:
            raise BadAskError(str(error)) from None
        return {}

    def _clear_faults(self, asked: Asked) -> JsonValue:
        self._exchange.plan.clear()
        return {}

    def _outage(self, asked: Asked) -> JsonValue:
        asked.only(("seconds",))
        self._exchange.outage.begin(asked.seconds("seconds"))
        return {}

    async def _clock(self, asked: Asked) -> JsonValue:
        asked.only(("seconds",))
        exchange, milliseconds = self._exchange, round(asked.seconds("seconds") * 1_000)
        async with self._skipping:  # simultaneous requests are served one after the other
            if exchange.beside is None:
                exchange.pass_time(milliseconds)
            else:
                await skip(milliseconds, bot=exchange.beside.pass_time, platform=exchange.pass_time)
        return {"now": exchange.clock.now()}

    def _switches(self, asked: Asked) -> JsonValue:
        given = _plain(self._world.switches)
        asked.only(given.keys())
        self._world.switches = _settings(type(self._world.switches), {**given, **asked.values()})
        return _plain(self._world.switches)

    def _calls(self, asked: Asked) -> JsonValue:
        asked.only(("before", "count"))
        given = {name: as_number(name, value) for name, value in asked.values().items()}
        count = min(max(given.get("count", NEWEST_CALLS), 1), _MOST_CALLS)
        traffic = self._exchange.traffic
        return view_calls(traffic.newest(count, before=given.get("before")), traffic)

    def _liberties(self, asked: Asked) -> JsonValue:
        return [
            {"operation": operation, **_plain(liberty), "count": count}
            for (operation, liberty), count in self._exchange.liberties.items()
        ]

    def _deliveries(self, asked: Asked) -> JsonValue:
        asked.only(("count",))
        given = {name: as_number(name, value) for name, value in asked.values().items()}
        count = min(max(given.get("count", NEWEST_CALLS), 1), _MOST_CALLS)
        return [view_delivery(posted) for posted in self._exchange.pusher.deliveries.newest(count)]

    def _again(self, asked: Asked) -> JsonValue:
        asked.only(("number", *_CHANGED))
        number = asked.optional_integer("number")
        if number is None:
            raise BadAskError("'number' must be given")
        return view_delivery(self._exchange.post_again(number, partial(_changed, asked)))

    def _history(self, asked: Asked) -> JsonValue:
        asked.only(("chat", "before", "count"))
        given = {name: as_number(name, value) for name, value in asked.values().items()}
        chat = self._world.chat(ChatId(given.get("chat", 0)))
        return view_history(chat, given.get("before"), min(max(given.get("count", NEWEST), 1), HISTORY))

    def _forget_uploads(self, asked: Asked) -> JsonValue:
        self._world.uploads.forget()
        return {}


def _described() -> JsonValue:
    described: JsonValue = json.loads(Path(__file__).with_name("openapi.json").read_text(encoding="utf-8"))
    return described


def _plain(value: attrs.AttrsInstance) -> JsonObject:
    return cast("JsonObject", attrs.asdict(value))


def _settings(kind: Callable[..., SettingsT], given: Mapping[str, object]) -> SettingsT:
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        # The error's text names the argument and the broken rule.
        raise BadAskError(str(error.args[0])) from None


def _changed(asked: Asked, event: Event) -> Event:
    """Return the event with the requested changes; the event itself if there are none."""
    if not asked.values().keys() & set(_CHANGED):
        return event
    kind, data = encode_event_data(event)
    chat_id, kind = asked.integer("chat_id", event.chat_id), asked.optional_text("type") or kind
    text, sender = asked.optional_text("data"), event.sender
    if "from" in asked.values():
        of = asked.inner("from")
        of.only(("id", "name", "user"))
        person, name, user = of.optional_integer("id"), of.optional_text("name"), of.optional_text("user")
        sender = None if person is None else Sender(SenderId(person), name or "", user or "")
    # The changed event isn't checked before it is posted.
    return UnknownEvent(ChatId(chat_id), kind, data if text is None else text, sender=sender)


def _chat_of(asked: Asked, name: str = "chat") -> ChatId | None:
    value = asked.optional_integer(name)
    return ChatId(value) if value is not None else None


def _message_of(asked: Asked) -> MessageId | None:
    value = asked.optional_integer("message")
    return MessageId(value) if value is not None else None


def _place_of(asked: Asked) -> Location:
    if asked.optional_text("lat") is None and asked.optional_text("long") is None:
        return acts.HOME
    return Location(asked.text("lat"), asked.text("long"), asked.optional_text("desc") or "")


def _pick(label: str, asked: Asked) -> Pick:
    row, column = asked.optional_integer("row"), asked.optional_integer("column")
    if (nth := asked.integer("nth", 0)) < 0:
        raise BadAskError("'nth' counts from 0")
    return Pick(label, row, column, nth)


def _button(chat: PlatformChat, asked: Asked) -> tuple[ChatMessage, InlineButton] | None:
    """Return the requested button: at position ``index`` of the message, or with the requested label."""
    label, message = asked.optional_text("label") or "", _message_of(asked)
    index = asked.optional_integer("index")
    if index is None or message is None:
        return chat.button(_pick(label, asked), message)
    entry = chat.entries.get(message)
    buttons = list(entry.buttons()) if entry is not None else []
    if entry is None or not 0 <= index < len(buttons) or buttons[index].text != label:
        return None
    return entry, buttons[index]


@final
class PersonControl:
    """Performs the acts of one person."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._world = exchange.world

    def routes(self) -> Mapping[str, Callable[[User, Asked], Given]]:
        return {
            "join": self._join,
            "leave": self._leave,
            "say": self._say,
            "media": self._media,
            "share-contact": self._share_contact,
            "share-location": self._share_location,
            "press": self._press,
            "tap": self._tap,
            "submit": self._submit,
            "pay": self._pay,
            "top-up": self._top_up,
        }

    def _do(self, what: Callable[[int], tuple[Event, ...]]) -> JsonObject:
        events = self._exchange.act(what)
        kinds: list[JsonValue] = [encode_event_data(event)[0] for event in events]
        presses: list[JsonValue] = [event.callback_id for event in events if isinstance(event, Press)]
        return {"seq": self._world.seq, "events": kinds, "callback_ids": presses}

    def _join(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("chat",))
        return self._do(lambda now: acts.join(self._world, user, now, chat=_chat_of(asked)))

    def _leave(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("chat",))
        return self._do(lambda now: acts.leave(self._world, user, now, chat=_chat_of(asked)))

    def _say(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("text", *_SAID))
        text = asked.text("text")
        if not text:
            raise BadAskError("'text' must not be empty")
        return self._says(user, asked, text)

    def _says(self, user: User, asked: Asked, content: Content) -> JsonValue:
        given, chat = asked.values(), _chat_of(asked)
        more = {name: given[name] for name in BESIDE if name in given}
        return self._do(lambda now: acts.say(self._world, user, content, now, chat=chat, more=more))

    async def _media(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("kind", "filename", "base64", "caption", "duration", *_SAID))
        kind = cast("MediaKind", asked.text("kind"))
        if kind not in MEDIA:
            raise BadAskError(f"'kind' must be one of {', '.join(MEDIA)}")
        try:
            data = base64.b64decode(asked.text("base64"), validate=True)
        except (binascii.Error, ValueError):
            raise BadAskError("'base64' must be base64") from None
        caption = asked.optional_text("caption") or ""
        acts.chat_of(self._world, user, _chat_of(asked))
        duration = asked.seconds("duration") if "duration" in asked.values() else 0
        descriptor = await self._exchange.upload(kind, asked.text("filename"), io.BytesIO(data), duration)
        return self._says(user, asked, MEDIA[kind](descriptor, caption))

    def _share_contact(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("phone", "name", *_SAID))
        phone = asked.optional_text("phone")
        contact = Contact(phone or user.phone, asked.optional_text("name") or ("" if phone else user.name))
        return self._says(user, asked, contact)

    def _share_location(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("lat", "long", "desc", *_SAID))
        return self._says(user, asked, _place_of(asked))

    def _press(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("label", "message", *_PLACE, "times", "chat"))
        label, times = asked.text("label"), asked.integer("times", 1)
        if not 1 <= times <= _MOST_PRESSES:
            raise BadAskError(f"'times' must be from 1 to {_MOST_PRESSES}")

        def press(now: int) -> tuple[Event, ...]:
            chat = acts.chat_of(self._world, user, _chat_of(asked))
            found = _button(chat, asked)
            by_index = asked.optional_integer("index") is not None
            if found is None and not by_index and (key := chat.key(_pick(label, asked))) is not None:
                return tuple(
                    event
                    for _ in range(times)
                    for event in acts.tap(self._world, user, key, now, chat=chat.id)
                )
            if found is None:
                _nothing(label, chat)
            entry, button = found
            return tuple(
                event
                for _ in range(times)
                for event in acts.press(self._world, user, entry.id, button, now, chat=chat.id)
            )

        return self._do(press)

    def _tap(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("label", "value", "lat", "long", "desc", "chat"))
        key, place = Key(asked.text("value"), asked.text("label")), _place_of(asked)
        return self._do(lambda now: acts.tap(self._world, user, key, now, chat=_chat_of(asked), place=place))

    def _submit(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("values", "message", "chat"))
        values, message = asked.texts("values"), _message_of(asked)
        return self._do(
            lambda now: acts.submit(self._world, user, values, now, message_id=message, chat=_chat_of(asked))
        )

    def _pay(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("label", "message", "invoice", "newest_invoice", *_PLACE, *_ENDS, "chat"))
        code, amount = asked.optional_integer("code"), asked.optional_integer("amount")
        taken, invoice = asked.flag("taken"), asked.optional_text("invoice")

        def pay(now: int) -> tuple[Event, ...]:
            world, chat = self._world, _chat_of(asked)
            if invoice is not None or asked.flag("newest_invoice"):
                bill = InvoiceId(invoice) if invoice is not None else acts.newest_invoice(world, user, now)
                return acts.pay_invoice(world, user, bill, now, code=code, taken=taken, amount=amount)
            message, button = self._pay_button(user, asked)
            return acts.pay(
                world, user, message, button, now, chat=chat, code=code, taken=taken, amount=amount
            )

        return self._do(pay)

    def _pay_button(self, user: User, asked: Asked) -> tuple[MessageId, PayButton]:
        chat, label = _chat_of(asked), asked.optional_text("label")
        if label is None:
            return acts.newest_pay_button(self._world, user, chat=chat, message_id=_message_of(asked))
        in_chat = acts.chat_of(self._world, user, chat)
        found = _button(in_chat, asked)
        if found is None:
            _nothing(label, in_chat)
        entry, button = found
        if not isinstance(button, PayButton):
            raise ImpossibleActError("this button is not paid")
        return entry.id, button

    def _top_up(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("IRR", "coin"))
        irr, coin = asked.integer("IRR", 0), asked.integer("coin", 0)
        return self._do(lambda now: acts.top_up(self._world, user, now, irr=irr, coin=coin))

    async def chat(self, user: User, asked: Asked) -> JsonValue:
        asked.only(("chat", "after", "wait", "newest"))
        given = {name: as_number(name, value) for name, value in asked.values().items()}
        chat = self._world.chat(ChatId(given.get("chat", user.chat_id)))
        if user.id not in chat.members and chat.id != user.chat_id:
            raise ImpossibleActError("not a member of this chat")
        after = seen = given.get("after", self._world.seq)
        with trio.move_on_after(min(max(given.get("wait", 0), 0), LONGEST_WAIT)):
            while not any(change.what.chat_id == chat.id for change in self._world.changes(seen)):
                seen = max(seen, self._world.seq)
                await self._exchange.wait_change(seen)
        newest = min(max(given.get("newest", SHOWN), 0), SHOWN)
        return view_chat(self._world, chat, self._exchange.clock.now(), after=after, newest=newest)


def _nothing(label: str, chat: PlatformChat) -> NoReturn:
    labels = [repr(one) for one in islice(dict.fromkeys(chat.labels()), _MOST_NAMED)]
    what = f"what there is to press: {', '.join(labels)}" if labels else "there is nothing to press"
    raise NotShownError(f"there is no button {label!r}; {what}")


def strides(milliseconds: int) -> list[int]:
    """Divide a time into at most `STRIDES` parts; all but the last have at least `SHORTEST` milliseconds."""
    stride = max(SHORTEST, -(-milliseconds // STRIDES))
    whole, rest = divmod(milliseconds, stride)
    return [stride] * whole + ([rest] if rest else [])


async def skip(
    milliseconds: int, *, bot: Callable[[int], Awaitable[None]], platform: Callable[[int], None]
) -> None:
    """Let time pass in the parts that `strides` returns; in each part, first put the bot's clocks forward.

    Args:
        bot: puts the bot's clocks forward, and returns once the bot has done the work that became due.
        platform: puts the platform's clock forward.
    """
    for stride in strides(milliseconds):
        await bot(stride)
        platform(stride)
