"""A person in the app, for demos and for tests: a small client of the control API.

::

    async with connect(emulator.control_url, emulator.control_token) as app:
        ali = await app.user("Ali", irr=500_000)
        await ali.joins()
        await ali.sees("Your name?")
        await ali.says("Ali")
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, TypeVar, cast, final
from urllib.parse import urlsplit

import attrs
import httpx
import trio

from ..base.frozen import guarded
from ..errors import TriobotError
from ..wire.content import Blob, Contact, Content, Location, Media
from ..wire.ids import ChatId, SenderId
from ..wire.rules import JsonValue
from .control import LONGEST_WAIT, REFUSALS, Asked, ControlApi
from .door import CONTROL_HEADER
from .exchange import Exchange
from .views import SHOWN
from .world import NotShownError

FoundT = TypeVar("FoundT")
JsonObject: TypeAlias = dict[str, JsonValue]
Expected: TypeAlias = (
    "str | re.Pattern[str] | type[str] | type[Media] | type[Contact] | type[Location] | None"
)

# Seconds to wait for a message or button on the screen. Bots answer in a fraction of this time.
PATIENCE: Final = 5.0
_SHOWN: Final = 12


@final
class AppError(TriobotError):
    """The app refused an act; the text comes from the control API.

    Attributes:
        not_shown: whether the requested button, bill or form isn't on the screen, but may still appear.
    """

    def __init__(self, text: str, *, not_shown: bool = False) -> None:
        super().__init__(text)
        self.not_shown = not_shown


@final
class NotSeenError(TriobotError, AssertionError):
    """The expected message or button did not appear in time; the text contains the chat so far."""


@final
@guarded
class Seen:
    """A message on the screen.

    Attributes:
        type: ``text``, a kind of media, ``contact`` or ``location``; ``deleted`` for a deleted message.
        text: the text, or the caption.
        buttons: labels of the inline buttons, row by row.
        form: names of the form's fields; empty without a form.
        raw: the message as the control API returns it.
    """

    id: int
    from_bot: bool
    type: str
    text: str = attrs.field(repr=False)
    buttons: tuple[tuple[str, ...], ...]
    form: tuple[str, ...]
    raw: JsonObject = attrs.field(repr=False)

    @classmethod
    def of(cls, message: JsonObject) -> Seen:
        """Convert a message of the control API."""
        number, mine = cast("int", message["id"]), bool(message["from_bot"])
        if message["deleted"]:
            return cls(number, mine, "deleted", "", (), (), message)
        content = cast("JsonObject", message["content"])
        rows = cast("list[list[JsonObject]]", message["buttons"])
        fields = cast("list[JsonObject]", message["form"] or [])
        return cls(
            number,
            mine,
            str(content["type"]),
            str(content.get("text") or content.get("caption") or content.get("desc") or ""),
            tuple(tuple(str(button["text"]) for button in row) for row in rows),
            tuple(str(field["name"]) for field in fields if "name" in field),
            message,
        )

    def is_what(self, expected: Expected) -> bool:
        """Whether the message fits `expected`: a text, a pattern or a class of content; None fits always."""
        match expected:
            case None:
                return True
            case str():
                return self.text == expected
            case re.Pattern():
                return expected.search(self.text) is not None
            case _:
                return self.type == _TYPES.get(expected, getattr(expected, "kind", None))

    def line(self) -> str:
        """Return the message as one line for a terminal, without control characters."""
        who = "bot" if self.from_bot else "   "
        what = "" if self.type == "text" else f"[{self.type}] "
        buttons = "".join(f" <{label}>" for row in self.buttons for label in row)
        return f"{who} #{self.id} {printable(what + self.text + buttons)}"


_TYPES: Final[Mapping[type, str]] = {str: "text", Contact: "contact", Location: "location"}


def printable(text: str) -> str:
    """Return a text with unprintable characters escaped, since a terminal would interpret some of them."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def act_of(content: Content) -> tuple[str, JsonObject]:
    """Return the act that sends `content`, and the act's arguments.

    Raises:
        AppError: `content` is media, but its source isn't bytes.
    """
    match content:
        case str():
            return "say", {"text": content}
        case Contact(phone=phone, name=name):
            return "share-contact", {"phone": phone, "name": name}
        case Location(lat=lat, long=long, desc=desc):
            return "share-location", {"lat": lat, "long": long, "desc": desc}
        case Media(kind=kind, source=Blob(data=data, filename=filename), caption=caption):
            encoded = base64.b64encode(data).decode()
            return "media", {"kind": kind, "filename": filename, "base64": encoded, "caption": caption}
        case _:
            raise AppError("media must come from bytes")


@final
class Person:
    """A person in one chat with the bot; created by `DrivenWorld.user` or `App.user`."""

    def __init__(self, app: App, user: JsonObject, chat_id: ChatId, cursor: int) -> None:
        self._app = app
        self.id = SenderId(cast("int", user["id"]))
        self.name = str(user["name"])
        self.phone = str(user["phone"])
        self._user = user
        self.chat_id = chat_id
        self._cursor = self._since = cursor
        self._places: dict[ChatId, Person] = {chat_id: self}

    def at(self, chat_id: ChatId) -> Person:
        """Return the same person in a group. Each call for this group returns the same object.

        Raises:
            AppError: `chat_id` isn't an integer.
        """
        if not isinstance(cast("object", chat_id), int):
            if isinstance(cast("object", chat_id), Coroutine):
                cast("Coroutine[object, object, object]", chat_id).close()  # nobody awaits this coroutine
            raise AppError("at() takes a chat's id: group = await world.group(...), then ali.at(group)")
        if chat_id not in self._places:
            there = self._places[chat_id] = Person(self._app, self._user, chat_id, self._since)
            there._places = self._places
        return self._places[chat_id]

    async def joins(self) -> None:
        """Join the service, or this group."""
        await self._act("join")

    async def leaves(self) -> None:
        """Leave the service, or this group."""
        await self._act("leave")

    async def says(self, content: Content) -> None:
        """Write text, or send a contact, a location, or media whose bytes are given."""
        await self._act(*act_of(content))

    async def shares_contact(self) -> None:
        """Send the person's own contact."""
        await self._act("share-contact")

    async def shares_location(self) -> None:
        """Send the app's default location."""
        await self._act("share-location")

    async def presses(
        self,
        label: str,
        *,
        times: int = 1,
        row: int | None = None,
        column: int | None = None,
        nth: int = 0,
        within: float = PATIENCE,
    ) -> None:
        """Press the newest button or key with this label, as soon as there is one.

        Args:
            row, column: position in the keyboard, from 0, if several buttons or keys have the label.
            nth: index among the buttons and keys that match, from 0, row by row.
            within: seconds to wait for the button; 0: raise AppError if the button isn't shown now.

        Raises:
            NotSeenError: the button was not shown in time.
            AppError: the app refuses, for example because the button needs a payment.
        """
        place = {"row": row, "column": column, "nth": nth or None}
        await self._act_once_shown("press", {"label": label, "times": times, **place}, within)

    async def submits(self, values: Mapping[str, str], *, within: float = PATIENCE) -> None:
        """Fill in and send the newest form, as soon as there is one.

        Args:
            within: seconds to wait for a form; 0: raise AppError if no form is shown now.

        Raises:
            NotSeenError: no form was shown in time.
            AppError: the form has no such field, or doesn't offer this option.
        """
        await self._act_once_shown("submit", {"values": dict(values)}, within)

    async def pays(
        self,
        label: str | None = None,
        *,
        code: int | None = None,
        taken: bool = False,
        amount: int | None = None,
        invoice: bool = False,
        within: float = PATIENCE,
    ) -> None:
        """Pay the newest payment button, the button with this label, or the newest invoice, once it is shown.

        Args:
            code: fail with this code, 1000 to 1006, regardless of the wallet.
            taken: whether the money leaves the wallet even though the payment fails with `code`, as if the
                platform reported a success as a failure.
            amount: pay this amount instead of the amount of the button or invoice.
            within: seconds to wait for the button or invoice; 0: raise AppError if neither is shown now.

        Raises:
            NotSeenError: no such button or invoice appeared in time.
            AppError: the app refuses.
        """
        await self._act_once_shown(
            "pay",
            {
                "label": label,
                "code": code,
                "taken": taken,
                "amount": amount,
                "newest_invoice": invoice or None,
            },
            within,
        )

    async def tops_up(self, *, irr: int = 0, coin: int = 0) -> None:
        """Put money into the wallet."""
        await self._app.post(f"users/{self.id}/top-up", {"IRR": irr, "coin": coin})

    async def wallet(self) -> Mapping[str, int]:
        """Return the wallet's amounts, by currency."""
        people = cast("list[JsonObject]", await self._app.get("users"))
        mine = next(person for person in people if person["id"] == self.id)
        return cast("Mapping[str, int]", mine["wallet"])

    async def sees(self, expected: Expected = None, *, within: float = PATIENCE) -> Seen:
        """Wait for the bot's next message that is `expected`. The bot's earlier messages then count as seen.

        An edit that changes the content counts as a message.

        Args:
            expected: the whole text or caption, a pattern to search in the text or caption, a class of
                content such as `Image`, or None for any message.
            within: seconds to wait.

        Raises:
            NotSeenError: the message did not come in time.
        """

        def shown(change: JsonObject) -> Seen | None:
            if change["kind"] == "message" or (change["kind"] == "edit" and change["anew"]):
                seen = Seen.of(cast("JsonObject", change["message"]))
                return seen if seen.from_bot and seen.is_what(expected) else None
            return None

        if (found := await self._next(within, shown)) is None:
            raise await self._not_seen(f"{_wanted(expected)} did not come within {within:g} s")
        return found

    async def sees_answer(self, text: str | None = None, *, within: float = PATIENCE) -> str:
        """Wait for the bot's next answer to a press of this person, and return the answer's text.

        Args:
            text: the whole text of the awaited answer; None for any answer.
            within: seconds to wait.

        Raises:
            NotSeenError: the answer did not come in time.
        """

        def answered(change: JsonObject) -> str | None:
            if change["kind"] == "answer" and change["user"] == self.id and text in (None, change["text"]):
                return str(change["text"])
            return None

        if (found := await self._next(within, answered)) is None:
            raise await self._not_seen(f"no such answer to a press came within {within:g} s")
        return found

    async def sees_buttons(self, *labels: str, within: float = PATIENCE) -> None:
        """Wait until the labels of the newest buttons, or of the keyboard's keys, are `labels`.

        Args:
            labels: labels in the order in which they are shown; without labels, wait until nothing can be
                pressed.

        Raises:
            NotSeenError: the labels were not shown in time.
        """
        wanted, shown = list(labels), (list[str](), list[str]())

        def fits(screen: JsonObject) -> bool | None:
            nonlocal shown
            shown = labels_on(screen)
            return True if ((wanted in shown) if wanted else shown == ([], [])) else None

        if await self._wait(within, fits) is None:
            raise await self._not_seen(f"the buttons {wanted} were not shown, but {shown[0] or shown[1]}")

    async def sees_nothing(self, *, within: float) -> None:
        """Check that the bot sends nothing for `within` seconds.

        Raises:
            NotSeenError: the bot sent something.
        """

        def sent(change: JsonObject) -> Seen | None:
            seen = Seen.of(cast("JsonObject", change["message"])) if change["kind"] == "message" else None
            return seen if seen is not None and seen.from_bot else None

        if (came := await self._next(within, sent)) is not None:
            line = came.line().lstrip()
            raise await self._not_seen(f"{self.name} was to see nothing, but had not yet seen {line!r}")

    async def opens(self, seen: Seen) -> bytes:
        """Return the bytes of a picture or file in a message.

        Raises:
            AppError: the message has no file, or the file is gone.
        """
        content = cast("JsonObject", seen.raw.get("content") or {})
        descriptor = cast("JsonObject", content.get("descriptor") or {})
        if not isinstance(address := descriptor.get("path"), str):
            raise AppError("there is no file in this message")
        return await self._app.fetch(address)

    async def screen(self) -> JsonObject:
        """Return the chat as the control API shows it: typing, keys, messages."""
        return await self._look(self._cursor, 0)

    async def history(self) -> Sequence[Seen]:
        """Return the newest messages, oldest first."""
        messages = cast("list[JsonObject]", (await self.screen())["messages"])
        return [Seen.of(message) for message in messages]

    async def _next(self, within: float, wanted: Callable[[JsonObject], FoundT | None]) -> FoundT | None:
        """Wait for the first change that `wanted` accepts, and count all changes up to it as seen."""

        def new(screen: JsonObject) -> FoundT | None:
            for change in cast("list[JsonObject]", screen["changes"]):
                if (found := wanted(change)) is not None:
                    self._cursor = cast("int", change["seq"])
                    return found
            return None

        return await self._wait(within, new, after=self._cursor, newest=0)

    async def _wait(
        self,
        within: float,
        wanted: Callable[[JsonObject], FoundT | None],
        *,
        after: int = 0,
        newest: int = SHOWN,
    ) -> FoundT | None:
        """Call `wanted` with the screen, now and after each change, until `wanted` returns a value.

        Returns None after `within` seconds.
        """
        deadline, patience = trio.current_time() + within, 0
        while True:
            screen = await self._look(after, patience, newest=newest)
            if (found := wanted(screen)) is not None:
                return found
            after, left = cast("int", screen["seq"]), deadline - trio.current_time()
            if left <= 0:
                return None
            patience = min(LONGEST_WAIT, math.ceil(left))

    async def _look(self, after: int, wait: int, *, newest: int = SHOWN) -> JsonObject:
        query = {"chat": self.chat_id, "after": after, "wait": wait, "newest": newest}
        return cast("JsonObject", await self._app.get(f"users/{self.id}/chat", query))

    async def _not_seen(self, what: str) -> NotSeenError:
        lines = [seen.line() for seen in (await self.history())[-_SHOWN:]]
        return NotSeenError("\n".join((f"{what}; {self.name}'s chat so far:", *lines)))

    async def _act_once_shown(self, name: str, keys: Mapping[str, JsonValue], within: float) -> None:
        """Carry out an act as soon as the screen offers this act."""
        position, deadline = 0, trio.current_time() + within
        while True:
            try:
                await self._act(name, keys)
            except AppError as error:
                if not error.not_shown or not within:
                    raise
                refused = error
            else:
                return
            left = deadline - trio.current_time()
            if left <= 0:
                raise await self._not_seen(f"{refused}, within {within:g} s") from None
            # The first `_look` returns the current position at once. Later calls wait for the next change.
            screen = await self._look(position, min(LONGEST_WAIT, math.ceil(left)) if position else 0)
            position = cast("int", screen["seq"])

    async def _act(self, name: str, keys: Mapping[str, JsonValue] | None = None) -> None:
        given = {key: value for key, value in (keys or {}).items() if value is not None}
        await self._app.post(f"users/{self.id}/{name}", {"chat": self.chat_id, **given})


def labels_on(screen: JsonObject) -> tuple[list[str], list[str]]:
    """Return the labels of the newest message with buttons, and of the keys below the chat."""
    shown = [Seen.of(message) for message in cast("list[JsonObject]", screen["messages"])]
    buttons = next((seen.buttons for seen in reversed(shown) if seen.buttons), ())
    keys = cast("list[list[JsonObject]]", screen["reply_keyboard"] or [])
    return [label for row in buttons for label in row], [str(key["label"]) for row in keys for key in row]


def _wanted(expected: Expected) -> str:
    match expected:
        case None:
            return "a message"
        case re.Pattern():
            return f"a message that matches {expected.pattern!r}"
        case str():
            return f"the message {expected!r}"
        case _:
            return f"a message of {expected.__name__}"


@final
class App:
    """The messenger app of all people, and the controls of the platform behind the app.

    `get` and `post` send requests to the control API; the module `control` lists the paths. `fetch` downloads
    a file. A refused request raises `AppError`.
    """

    def __init__(self, control: HttpControl | InsideControl) -> None:
        self.get = control.get
        self.post = control.post
        self.fetch = control.fetch

    async def user(
        self, name: str, *, irr: int = 0, coin: int = 0, phone: str | None = None, username: str | None = None
    ) -> Person:
        """Create a person with a wallet, who is not yet a member of the private chat."""
        given: JsonObject = {"name": name, "wallet": {"IRR": irr, "coin": coin}}
        given.update({key: value for key, value in (("phone", phone), ("username", username)) if value})
        user = cast("JsonObject", await self.post("users", given))
        return Person(self, user, ChatId(cast("int", user["chat_id"])), 0)

    async def group(self, name: str, *members: Person, chat_id: int | None = None) -> ChatId:
        """Create a group; its members join one after the other."""
        given: JsonObject = {"name": name, "members": [member.id for member in members]}
        given.update({} if chat_id is None else {"id": chat_id})
        return ChatId(cast("int", cast("JsonObject", await self.post("groups", given))["chat_id"]))


@final
class HttpControl:
    """The control API over HTTP."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, query: Mapping[str, int] | None = None) -> JsonValue:
        # A GET may wait `LONGEST_WAIT` seconds for a change, and the answer then takes further time.
        return _read(await self._client.get(path, params=query, timeout=LONGEST_WAIT + 30))

    async def post(self, path: str, given: JsonObject) -> JsonValue:
        # A request may replay a conversation, which takes long on a busy machine.
        return _read(await self._client.post(path, json=given, timeout=LONGEST_WAIT + 30))

    async def fetch(self, address: str) -> bytes:
        answer = await self._client.get(address)
        if answer.status_code != 200:
            raise AppError(f"{answer.status_code}: the file is not there")
        return answer.content


@final
class InsideControl:
    """The control API as function calls."""

    def __init__(self, exchange: Exchange) -> None:
        self._blobs = exchange.blobs
        self._api = ControlApi(exchange)

    async def get(self, path: str, query: Mapping[str, int] | None = None) -> JsonValue:
        return await self._ask("GET", path, query or {})

    async def post(self, path: str, given: JsonObject) -> JsonValue:
        return await self._ask("POST", path, given)

    async def fetch(self, address: str) -> bytes:
        """Return the bytes of an uploaded file."""
        file_id = urlsplit(address).path.split("/")[2]
        stored = self._blobs.get(file_id)
        if stored is None:
            raise AppError("the file is not there")
        return b"".join([chunk async for chunk in self._blobs.read(stored)])

    async def _ask(self, method: str, path: str, given: Mapping[str, object]) -> JsonValue:
        try:
            return await self._api.ask(method, path, Asked(given))
        except REFUSALS as error:
            raise AppError(str(error), not_shown=isinstance(error, NotShownError)) from None


def _read(answer: httpx.Response) -> JsonValue:
    value = cast("JsonValue", answer.json())
    if not answer.is_success:
        body: JsonObject = value if isinstance(value, dict) else {"error": value}
        raise AppError(f"{answer.status_code}: {body.get('error')}", not_shown="not_shown" in body)
    return value


@asynccontextmanager
async def connect(
    control_url: str, control_token: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncGenerator[App]:
    """Open a client of the control API.

    Args:
        transport: transport of the requests; None for the network.
    """
    async with httpx.AsyncClient(
        base_url=control_url.rstrip("/") + "/",
        headers={CONTROL_HEADER: control_token},
        transport=transport,
        trust_env=False,
    ) as client:
        yield App(HttpControl(client))
