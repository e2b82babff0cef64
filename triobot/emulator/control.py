"""The control API: people's acts in the app, and planned faults. JSON under ``/control/``.

Every request needs the header ``X-Triobot-Control`` with this process's token; a POST needs ``Content-Type:
application/json``. Other requests are answered 403 (see `door`). An error is ``{"error": text}``. The status
is 400 for an invalid request, 409 for an act that the app doesn't offer, and 503 while too many events wait.
A 409 also has ``"not_shown": true`` if the requested button, bill or form isn't on the screen, but may still
appear.

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
                                      ``row``, ``column``, ``nth`` choose among several with the same label
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
``GET  deliveries``                   ``?count=``: the newest events, with the states of their deliveries
``POST deliveries/again``             ``number``: post this event again; ``type``, ``data``, ``chat_id`` and
                                      ``from`` (null for none) change the event
``GET  address``                      whether a bot listens at the address of events
``GET  liberties``                    the bot's requests beyond the interface's promises: see `strictness`
``GET  calls``                        ``?before=&count=``: requests in both directions, with their bodies;
                                      with ``before``, only requests with lower numbers
``GET  history``                      ``?chat=&before=&count=``: a chat's messages, and the lines between
                                      the messages; with ``before``, only messages with lower ids
``GET  openapi``                      the control API as an OpenAPI 3.1 description
``GET  stream``                       the complete state, then changes, as server-sent events: see
                                      `follower`; or as a WebSocket's texts, an empty text each second
====================================  ===================================================================

All acts except ``top-up`` take ``chat``, a group's id. All acts answer ``{"seq": number of the newest change,
"events": [types posted], "callback_ids": [ids of the presses]}``. `triobot dev` adds the HTTP routes of
`triobot.studio.travel.routes`.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import io
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar, cast, final

import attrs
import trio
from quart import Blueprint, Response, request

from ..errors import LocalProtocolError, TriobotError
from ..wire.content import MEDIA, Contact, Content, Location, MediaKind
from ..wire.encode import encode_event_data
from ..wire.events import BESIDE, Event, Press, Sender, UnknownEvent
from ..wire.ids import ChatId, InvoiceId, MessageId, SenderId
from ..wire.markup import Key, PayButton
from ..wire.rules import JsonValue, compact_json
from .acts import HOME, Acting, Events
from .blobs import FileTooLargeError
from .chats import HISTORY, Pick, PlatformChat
from .deliveries import view_delivery
from .exchange import Exchange
from .faults import AnyFault, EventFault, Fault, Switches
from .follower import NEWEST, NEWEST_CALLS, view_history
from .pusher import PushQueueFullError
from .traffic import view_calls
from .views import SHOWN, JsonObject, json_for_pages, view_bill, view_chat, view_user
from .world import ImpossibleActError, NotShownError, User

Given: TypeAlias = "JsonValue | Awaitable[JsonValue]"
"""Answer of an HTTP route: JSON, or an awaitable of JSON; None for an empty object."""

LONGEST_BODY: Final = 32 * 1024 * 1024
_MOST_CALLS: Final = 1_000
_DIGITS: Final = 19
LONGEST_WAIT: Final = 60
_MOST_PRESSES: Final = 10
_CHANGED: Final = ("type", "data", "chat_id", "from")
# Keys that are allowed in each request that sends a message, whatever the message's content.
_SAID: Final = ("chat", *BESIDE)
_PLACE: Final = ("row", "column", "nth")
# Keys that determine the outcome of a payment.
_ENDS: Final = ("code", "taken", "amount")
# Maximum number of labels in the error for a mistyped label. Buttons of old messages work too, but a person
# rarely means an old button.
_MOST_NAMED: Final = 20
# Maximum number of strides into which a skip of the clock is divided. Work that is due within the same stride
# may run in any order. With more strides, a skip would take longer than a person waits.
STRIDES: Final = 60
SHORTEST: Final = 1_000

_OF_ONE: Final = re.compile("users/([0-9]+)/(.*)", re.ASCII)

SettingsT = TypeVar("SettingsT")


@final
class BadAskError(TriobotError):
    """A request to the control API is invalid; the text names the key."""


_STATUS: Final[Mapping[type[Exception], int]] = {
    ImpossibleActError: 409,
    BadAskError: 400,
    LocalProtocolError: 400,
    FileTooLargeError: 400,
    PushQueueFullError: 503,
}
REFUSALS: Final = tuple(_STATUS)
"""Errors with which the control API refuses a request."""


@final
class Asked:
    """The keys of one request. A method with a `name` returns this key's value; a wrong type raises
    `BadAskError`."""

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
        """Raise `BadAskError` for unknown keys: otherwise a misspelt key would be ignored silently."""
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
        """Return a number from `least` to `most`, or the default.

        The number must be an integer if `least` and `default` are integers.
        """
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
    blueprint, api = Blueprint("control", __name__, url_prefix="/control"), ControlApi(exchange)

    async def view(user_id: int | None = None) -> Response:
        return await _answered(exchange, api)

    for folder, routes in (("/", api.of_all), ("/users/<int:user_id>/", api.of_one)):
        for method, _, name in (route.partition(" ") for route in routes):
            blueprint.add_url_rule(f"{folder}{name}", f"{method} {folder}{name}", view, methods=[method])
    # This HTTP route catches misspelt paths, which would otherwise count as operations of the platform.
    blueprint.add_url_rule("/<path:rest>", view_func=_nowhere, methods=["GET", "POST"])
    return blueprint


async def _nowhere(rest: str) -> Response:
    await trio.lowlevel.checkpoint()
    return _refused(404, "there is no such path in the control API")


async def _answered(exchange: Exchange, api: ControlApi) -> Response:
    method, path = request.method.replace("HEAD", "GET"), request.path.removeprefix("/control/")
    try:
        asked = Asked({**request.args}) if method == "GET" else Asked.read(await read_body())
        value = await api.ask(method, path, asked)
        if method == "POST":
            exchange.tell()
    except REFUSALS as error:
        [status] = {status for kind, status in _STATUS.items() if isinstance(error, kind)}
        return _refused(status, str(error), not_shown=isinstance(error, NotShownError))
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


def _refused(status: int, reason: str, *, not_shown: bool = False) -> Response:
    body: JsonObject = {"error": reason, **({"not_shown": True} if not_shown else {})}
    return Response(compact_json(body), status, content_type="application/json")


@final
class ControlApi:
    """The control API as function calls; the module's docstring lists the paths.

    Attributes:
        of_all: requests that concern the platform as a whole, by method and path, with their allowed keys;
            None allows any keys.
        of_one: requests that concern one person, by method and the path's last segment, with their allowed
            keys.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._world = exchange.world
        self._skipping = trio.Lock()
        world, plan = exchange.world, exchange.plan
        self.of_all: Mapping[str, tuple[Callable[[Asked], Given], Collection[str] | None]] = {
            "POST users": (self._make_user, ("name", "id", "chat_id", "username", "phone", "wallet")),
            "POST groups": (self._make_group, ("name", "members", "id")),
            "POST faults": (self._plan_fault, None),
            "POST faults/clear": (lambda asked: plan.clear(), None),
            "POST outage": (lambda asked: exchange.outage.begin(asked.seconds("seconds")), ("seconds",)),
            "POST clock": (self._clock, ("seconds",)),
            "POST switches": (self._switches, attrs.fields_dict(Switches)),
            "POST forget-uploads": (lambda asked: world.uploads.forget(), None),
            "POST deliveries/again": (self._again, ("number", *_CHANGED)),
            "GET users": (lambda asked: [view_user(user) for user in world.people], None),
            "GET payments": (self._payments, None),
            "GET faults": (lambda asked: [_plain(fault) for fault in plan.pending()], None),
            "GET liberties": (self._liberties, None),
            "GET calls": (self._calls, ("before", "count")),
            "GET history": (self._history, ("chat", "before", "count")),
            "GET openapi": (lambda asked: _described(), None),
            "GET deliveries": (self._deliveries, ("count",)),
            "GET address": (lambda asked: exchange.view_address(), None),
        }
        self.of_one: Mapping[str, tuple[Callable[[User, Asked], Given], Collection[str]]] = {
            **{f"POST {name}": (partial(self._acted, act), keys) for name, (act, keys) in _ACTS.items()},
            "POST media": (self._media, ("kind", "filename", "base64", "caption", "duration", *_SAID)),
            "GET chat": (self._chat, ("chat", "after", "wait", "newest")),
        }

    async def ask(self, method: str, path: str, asked: Asked) -> JsonValue:
        """Answer a request; `path` is relative to ``/control/``.

        Raises:
            BadAskError, ImpossibleActError, other `REFUSALS`: the request is refused.
        """
        await trio.lowlevel.checkpoint()
        if (of_one := _OF_ONE.fullmatch(path)) is None:
            answer, keys = self.of_all[f"{method} {path}"]
        else:
            if (key := f"{method} {of_one[2]}") not in self.of_one:
                names = ", ".join(known.partition(" ")[2] for known in self.of_one)
                raise ImpossibleActError(f"there is no act {of_one[2]!r}; there are {names}")
            act, keys = self.of_one[key]
            answer = partial(act, self._world.people.get(SenderId(int(of_one[1]))))
        if keys is not None:
            asked.only(keys)
            if method == "GET":
                asked = Asked({name: as_number(name, value) for name, value in asked.values().items()})
        value = answer(asked)
        value = await value if inspect.isawaitable(value) else value
        return {} if value is None else value

    # --- the platform

    def _make_user(self, asked: Asked) -> JsonValue:
        user_id, chat_id = asked.optional_integer("id"), asked.optional_integer("chat_id")
        wallet = asked.inner("wallet")
        wallet.only(("IRR", "coin"))
        user = self._world.add_user(
            asked.text("name"),
            user_id=None if user_id is None else SenderId(user_id),
            chat_id=None if chat_id is None else ChatId(chat_id),
            username=asked.optional_text("username"),
            phone=asked.optional_text("phone"),
            irr=wallet.integer("IRR", 0),
            coin=wallet.integer("coin", 0),
        )
        return view_user(user)

    def _make_group(self, asked: Asked) -> JsonValue:
        members = [self._world.people.get(SenderId(member)) for member in asked.integers("members")]
        self._exchange.pusher.check_room()
        chat = self._world.add_group(asked.text("name"), _chat_of(asked, "id"))
        for user in members:
            self._exchange.act(user, Acting.join, chat.id)
        return {"chat_id": chat.id, "name": chat.name, "seq": self._world.seq}

    def _payments(self, asked: Asked) -> JsonValue:
        now = self._exchange.clock.now()
        self._world.catch_up(now)
        return [view_bill(bill, now) for bill in self._world.bills]

    def _plan_fault(self, asked: Asked) -> None:
        given = asked.values()
        kind: Callable[..., AnyFault] = EventFault if "type" in given else Fault
        self._exchange.plan.add(_settings(kind, given))

    async def _clock(self, asked: Asked) -> JsonValue:
        exchange, milliseconds = self._exchange, round(asked.seconds("seconds") * 1_000)
        async with self._skipping:  # simultaneous requests are served one after the other
            if exchange.beside is None:
                exchange.pass_time(milliseconds)
            else:
                await skip(milliseconds, bot=exchange.beside.pass_time, platform=exchange.pass_time)
        return {"now": exchange.clock.now()}

    def _switches(self, asked: Asked) -> JsonValue:
        self._world.switches = _settings(Switches, {**_plain(self._world.switches), **asked.values()})
        return _plain(self._world.switches)

    def _calls(self, asked: Asked) -> JsonValue:
        traffic = self._exchange.traffic
        return view_calls(traffic.newest(_count(asked), before=asked.optional_integer("before")), traffic)

    def _liberties(self, asked: Asked) -> JsonValue:
        return [
            {"operation": operation, **_plain(liberty), "count": count}
            for (operation, liberty), count in self._exchange.liberties.items()
        ]

    def _deliveries(self, asked: Asked) -> JsonValue:
        return [view_delivery(posted) for posted in self._exchange.pusher.deliveries.newest(_count(asked))]

    def _again(self, asked: Asked) -> JsonValue:
        number = asked.optional_integer("number")
        if number is None:
            raise BadAskError("'number' must be given")
        return view_delivery(self._exchange.post_again(number, partial(_changed, asked)))

    def _history(self, asked: Asked) -> JsonValue:
        chat = self._world.chat(_chat_of(asked) or ChatId(0))
        return view_history(chat, asked.optional_integer("before"), _count(asked, NEWEST, HISTORY))

    # --- one person

    def _acted(self, act: Callable[[Acting, Asked], Events], user: User, asked: Asked) -> JsonValue:
        events = self._exchange.act(user, lambda acting: act(acting, asked), _chat_of(asked))
        kinds: list[JsonValue] = [encode_event_data(event)[0] for event in events]
        presses: list[JsonValue] = [event.callback_id for event in events if isinstance(event, Press)]
        return {"seq": self._world.seq, "events": kinds, "callback_ids": presses}

    async def _media(self, user: User, asked: Asked) -> JsonValue:
        kind = cast("MediaKind", asked.text("kind"))
        if kind not in MEDIA:
            raise BadAskError(f"'kind' must be one of {', '.join(MEDIA)}")
        try:
            data = base64.b64decode(asked.text("base64"), validate=True)
        except (binascii.Error, ValueError):
            raise BadAskError("'base64' must be base64") from None
        caption, filename = asked.optional_text("caption") or "", asked.text("filename")
        # `chat` raises ImpossibleActError if the person isn't a member: such a person can't upload files.
        _ = Acting(self._world, user, self._exchange.clock.now(), _chat_of(asked)).chat
        duration = asked.seconds("duration") if "duration" in asked.values() else 0
        descriptor = await self._exchange.upload(kind, filename, io.BytesIO(data), duration)
        return self._acted(partial(_says, MEDIA[kind](descriptor, caption)), user, asked)

    async def _chat(self, user: User, asked: Asked) -> JsonValue:
        chat = self._world.chat(_chat_of(asked) or user.chat_id)
        if user.id not in chat.members and chat.id != user.chat_id:
            raise ImpossibleActError("not a member of this chat")
        after = seen = asked.integer("after", self._world.seq)
        with trio.move_on_after(min(max(asked.integer("wait", 0), 0), LONGEST_WAIT)):
            while not any(change.what.chat_id == chat.id for change in self._world.changes(seen)):
                seen = max(seen, self._world.seq)
                await self._exchange.wait_change(seen)
        newest = min(max(asked.integer("newest", SHOWN), 0), SHOWN)
        return view_chat(self._world, chat, self._exchange.clock.now(), after=after, newest=newest)


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
    """Return the event with the requested changes; the same object if the request changes nothing."""
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


def _count(asked: Asked, default: int = NEWEST_CALLS, most: int = _MOST_CALLS) -> int:
    return min(max(asked.integer("count", default), 1), most)


def _chat_of(asked: Asked, name: str = "chat") -> ChatId | None:
    value = asked.optional_integer(name)
    return ChatId(value) if value is not None else None


def _message_of(asked: Asked) -> MessageId | None:
    value = asked.optional_integer("message")
    return MessageId(value) if value is not None else None


def _place_of(asked: Asked) -> Location:
    if asked.optional_text("lat") is None and asked.optional_text("long") is None:
        return HOME
    return Location(asked.text("lat"), asked.text("long"), asked.optional_text("desc") or "")


def _pick(label: str, asked: Asked) -> Pick:
    row, column = asked.optional_integer("row"), asked.optional_integer("column")
    if (nth := asked.integer("nth", 0)) < 0:
        raise BadAskError("'nth' counts from 0")
    return Pick(label, row, column, nth)


# --- the acts of a person, as requested


def _says(content: Content, acting: Acting, asked: Asked) -> Events:
    given = asked.values()
    return acting.say(content, more={name: given[name] for name in BESIDE if name in given})


def _say(acting: Acting, asked: Asked) -> Events:
    if not (text := asked.text("text")):
        raise BadAskError("'text' must not be empty")
    return _says(text, acting, asked)


def _share_contact(acting: Acting, asked: Asked) -> Events:
    phone, own = asked.optional_text("phone"), acting.user
    contact = Contact(phone or own.phone, asked.optional_text("name") or ("" if phone else own.name))
    return _says(contact, acting, asked)


def _press(acting: Acting, asked: Asked) -> Events:
    label, times = asked.text("label"), asked.integer("times", 1)
    if not 1 <= times <= _MOST_PRESSES:
        raise BadAskError(f"'times' must be from 1 to {_MOST_PRESSES}")
    pick, message = _pick(label, asked), _message_of(asked)
    if (found := acting.chat.button(pick, message)) is not None:
        return tuple(event for _ in range(times) for event in acting.press(found[0].id, found[1]))
    if message is not None or (key := acting.chat.key(pick)) is None:
        _nothing(label, acting.chat)
    return tuple(event for _ in range(times) for event in acting.tap(key))


def _tap(acting: Acting, asked: Asked) -> Events:
    return acting.tap(Key(asked.text("value"), asked.text("label")), place=_place_of(asked))


def _pay(acting: Acting, asked: Asked) -> Events:
    code, amount = asked.optional_integer("code"), asked.optional_integer("amount")
    taken, invoice = asked.flag("taken"), asked.optional_text("invoice")
    if invoice is not None or asked.flag("newest_invoice"):
        bill = acting.newest_invoice() if invoice is None else InvoiceId(invoice)
        return acting.pay_invoice(bill, code=code, taken=taken, amount=amount)
    return acting.pay(*_pay_button(acting, asked), code=code, taken=taken, amount=amount)


def _pay_button(acting: Acting, asked: Asked) -> tuple[MessageId, PayButton]:
    label = asked.optional_text("label")
    if label is None:
        return acting.newest_pay_button(_message_of(asked))
    if (found := acting.chat.button(_pick(label, asked), _message_of(asked))) is None:
        _nothing(label, acting.chat)
    entry, button = found
    if not isinstance(button, PayButton):
        raise ImpossibleActError("this button is not paid")
    return entry.id, button


def _nothing(label: str, chat: PlatformChat) -> NoReturn:
    labels = [repr(one) for one in islice(dict.fromkeys(chat.labels()), _MOST_NAMED)]
    what = f"what there is to press: {', '.join(labels)}" if labels else "there is nothing to press"
    raise NotShownError(f"there is no button {label!r}; {what}")


_ACTS: Final[Mapping[str, tuple[Callable[[Acting, Asked], Events], Sequence[str]]]] = {
    "join": (lambda acting, asked: acting.join(), ("chat",)),
    "leave": (lambda acting, asked: acting.leave(), ("chat",)),
    "say": (_say, ("text", *_SAID)),
    "share-contact": (_share_contact, ("phone", "name", *_SAID)),
    "share-location": (
        lambda acting, asked: _says(_place_of(asked), acting, asked),
        ("lat", "long", "desc", *_SAID),
    ),
    "press": (_press, ("label", "message", *_PLACE, "times", "chat")),
    "tap": (_tap, ("label", "value", "lat", "long", "desc", "chat")),
    "submit": (
        lambda acting, asked: acting.submit(asked.texts("values"), message_id=_message_of(asked)),
        ("values", "message", "chat"),
    ),
    "pay": (_pay, ("label", "message", "invoice", "newest_invoice", *_PLACE, *_ENDS, "chat")),
    "top-up": (
        lambda acting, asked: acting.top_up(irr=asked.integer("IRR", 0), coin=asked.integer("coin", 0)),
        ("IRR", "coin"),
    ),
}


def strides(milliseconds: int) -> list[int]:
    """Divide a time into at most `STRIDES` strides; all but the last have at least `SHORTEST` ms."""
    stride = max(SHORTEST, -(-milliseconds // STRIDES))
    whole, rest = divmod(milliseconds, stride)
    return [stride] * whole + ([rest] if rest else [])


async def skip(
    milliseconds: int, *, bot: Callable[[int], Awaitable[None]], platform: Callable[[int], None]
) -> None:
    """Put the clocks forward, stride by stride (see `strides`). In each stride, the bot's clocks come first.

    Args:
        bot: puts the bot's clocks forward, and returns once the bot has done the work that became due.
        platform: puts the platform's clock forward.
    """
    for stride in strides(milliseconds):
        await bot(stride)
        platform(stride)
