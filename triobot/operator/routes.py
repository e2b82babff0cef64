"""HTTP routes of the operator's requests, and statuses of their answers. Pure.

The server decodes requests with the table `ROUTES`, the client encodes requests with the same table, and
``GET /`` lists the table. A request's fields are in the path, in the query, or in a JSON object as the body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, final
from urllib.parse import parse_qsl, quote, unquote, urlencode

import attrs

from ..base.frozen import guarded
from ..errors import (
    ConfigError,
    ConflictError,
    LocalProtocolError,
    NotFoundError,
    ProtocolError,
    RemoteProtocolError,
    StoreAwayError,
    StoreError,
    StoreFullError,
    TriobotError,
)
from .requests import (
    AboutBroadcasts,
    AboutJobs,
    AboutPayments,
    AcceptLines,
    Answer,
    Backup,
    EndAlarms,
    Forget,
    ListAlarms,
    ListChats,
    ListJournals,
    OrderEnd,
    Reach,
    ReadCode,
    ReadJournals,
    ReadKept,
    Request,
    SettleParked,
    ShowJournal,
    Status,
    StreamStore,
)

Sort: TypeAlias = Literal["number", "flag", "text", "words"]
"""Format of a field in a path or query: ``5``, ``true``, any text, or ``one,two``."""

LONGEST_BODY: Final = 64 * 1024

_OTHER_VERSION: Final = (
    "the bot that runs is of another version than this command; restart it, or ask it with its own"
)
_FAILED: Final = "the bot failed to answer; its log names the mistake"

_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_FLAGS: Final = {"true": True, "false": False}
# Values that can't be a segment of a path, or that would change the path's meaning.
_NO_PLACE: Final = (None, "", ".", "..")
_IN_QUERY: Final = ("GET", "DELETE")
_SORTS: Final[Mapping[Sort, str]] = {
    "number": "a whole number",
    "flag": "true or false",
    "text": "a text",
    "words": "a list",
}


@final
@guarded
class HttpRoute:
    """An HTTP route of a request class.

    Attributes:
        method, path: ``{name}`` in the path stands for a field.
        kind: class of the request.
        fields: fields that the request may have, with their formats.
        fixed: fields with a fixed value on this route.
    """

    method: str
    path: str
    kind: type[Request]
    fields: Mapping[str, Sort]
    fixed: Answer

    @property
    def places(self) -> Sequence[str]:
        """Names of the fields in the path."""
        return _PLACE.findall(self.path)

    @property
    def is_of_many(self) -> bool:
        """Whether the answer is JSON lines; otherwise the answer is one JSON object."""
        return self.kind not in _OF_ONE

    def found_in(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """Return the fields in a path's segments; None if the path doesn't match this route."""
        own = self.path.split("/")
        if len(own) != len(segments):
            return None
        found: dict[str, str] = {}
        for mine, theirs in zip(own, segments, strict=True):
            if (place := _PLACE.fullmatch(mine)) and theirs:
                found[place[1]] = unquote(theirs)
            elif mine != theirs:
                return None
        return found

    def can_say(self, fields: Answer) -> bool:
        """Whether this route can transport exactly these fields."""
        left = {name: value for name, value in fields.items() if name not in self.fixed}
        return (
            all(name in fields and fields[name] == value for name, value in self.fixed.items())
            and left.keys() <= self.fields.keys()
            and all(left.get(name) not in _NO_PLACE for name in self.places)
        )


def _at(line: str, kind: type[Request], fields: str = "", **fixed: object) -> HttpRoute:
    """Make a route from ``GET /path`` and ``name:sort name:sort``."""
    method, _, path = line.partition(" ")
    pairs = (field.split(":") for field in fields.split())
    sorts: dict[str, Sort] = {name: cast("Sort", sort) for name, sort in pairs}
    return HttpRoute(method, path, kind, sorts, fixed)


_OF_ONE: Final = (Status, OrderEnd, Forget, Reach, Backup, AboutBroadcasts, AboutPayments)
_PARKED: Final = "conversation:number chat_id:number route:text because:text"
_REACH: Final = "chat_id:number name:text value:text key:text"
_LIST: Final = "states:words chat:number before:number after:text limit:number"
_ADOPT: Final = "number:text chat:number amount:number currency:text kind:text"

# If two routes match, the first is used.
ROUTES: Final = (
    _at("GET /status", Status),
    _at("GET /journals", ListJournals, "chat_id:number after:number limit:number crashed:flag"),
    _at("GET /journals/open", ReadJournals, "after:number whole:flag"),
    _at("GET /journals/code", ReadCode),
    _at("POST /journals/accept", AcceptLines, "function:text was:text now:text"),
    _at("GET /journals/{conversation}", ShowJournal, "conversation:number"),
    _at("POST /journals/{conversation}/end", OrderEnd, "conversation:number"),
    _at("GET /kept/{key}", ReadKept, "key:text after:number"),
    _at("GET /chats", ListChats, "limit:number"),
    _at("DELETE /chats/{chat_id}", Forget, "chat_id:number"),
    _at("POST /chats/{chat_id}/send", Reach, "chat_id:number value:text", way="send"),
    _at("POST /chats/{chat_id}/signal", Reach, _REACH, way="signal"),
    _at("POST /chats/{chat_id}/start", Reach, _REACH, way="start"),
    _at("GET /parked", SettleParked, _PARKED),
    _at("POST /parked/end", SettleParked, f"{_PARKED} say:text", dry=False, end=True),
    _at("POST /parked/retry", SettleParked, _PARKED, dry=False),
    _at("GET /jobs", AboutJobs),
    _at("POST /jobs/{run}/run", AboutJobs, "run:text"),
    _at("DELETE /jobs/{forget}", AboutJobs, "forget:text"),
    _at("POST /backup", Backup, "path:text"),
    _at("GET /stream", StreamStore),
    _at("GET /alarms", ListAlarms),
    _at("POST /alarms/acknowledge", EndAlarms, "kind:text key:text all:flag"),
    _at("GET /broadcasts", AboutBroadcasts, ask="broadcast.list"),
    _at("GET /broadcasts/{key}", AboutBroadcasts, "key:text", ask="broadcast.status"),
    _at("POST /broadcasts/{key}/stop", AboutBroadcasts, "key:text", ask="broadcast.stop"),
    _at("GET /payments", AboutPayments, _LIST, ask="payments.list"),
    _at("POST /payments", AboutPayments, _ADOPT, ask="payments.adopt"),
    _at("GET /payments/counts", AboutPayments, ask="payments.counts"),
    _at("GET /payments/ages", AboutPayments, ask="payments.ages"),
    _at("GET /payments/totals", AboutPayments, "since:number until:number", ask="payments.totals"),
    _at("GET /payments/alarms", AboutPayments, ask="payments.alarms"),
    _at("POST /payments/alarms/acknowledge", AboutPayments, "kind:text key:text", ask="payments.acknowledge"),
    _at("GET /payments/{ref}", AboutPayments, "ref:text", ask="payments.show"),
    _at("POST /payments/{ref}/inquire", AboutPayments, "ref:text", ask="payments.inquire"),
    _at("POST /payments/{ref}/verify", AboutPayments, "ref:text", ask="payments.verify"),
    _at("POST /payments/{ref}/redeliver", AboutPayments, "ref:text", ask="payments.redeliver"),
    _at("POST /payments/{ref}/settle", AboutPayments, "ref:text", ask="payments.settle"),
    _at("POST /payments/{ref}/resolve", AboutPayments, "ref:text", ask="payments.resolve"),
)


def routes_at(path: str) -> Mapping[str, tuple[HttpRoute, Mapping[str, str]]]:
    """Return the routes of a path by their methods, each with the fields in the path."""
    segments = path.split("/")
    found: dict[str, tuple[HttpRoute, Mapping[str, str]]] = {}
    for route in ROUTES:
        if (fields := route.found_in(segments)) is not None:
            # Routes are tried in order: a literal segment wins over a field.
            found.setdefault(route.method, (route, fields))
    return found


def request_at(method: str, target: str, body: bytes) -> Request:
    """Decode a request.

    Raises:
        NotFoundError: there is no such route.
        ProtocolError: as `decode_request`; or the body is too long.
    """
    path, _, query = target.partition("?")
    if (found := routes_at(path).get(method)) is None:
        raise NotFoundError("there is no such path")
    if len(body) > LONGEST_BODY:
        raise RemoteProtocolError("body", f"must have {LONGEST_BODY} bytes at most")
    return decode_request(*found, query, body)


def decode_request(route: HttpRoute, fields: Mapping[str, str], query: str, body: bytes) -> Request:
    """Decode a request of a known route.

    Args:
        fields: fields in the path.

    Raises:
        ProtocolError: a field is unknown, missing, repeated or invalid.
    """
    given: dict[str, Any] = {}
    for name, text in (*fields.items(), *_pairs(query)):
        sort = _sort_of(route, name)
        _check_once(name, given)
        given[name] = _read(name, text, sort)
    for name, value in _members(body):
        sort = _sort_of(route, name)
        _check_once(name, given)
        given[name] = _checked(name, value, sort)
    given |= route.fixed
    if route.kind is AboutBroadcasts:
        return AboutBroadcasts(given)
    if route.kind is AboutPayments:
        return AboutPayments(given)
    for field in attrs.fields(route.kind):
        if field.default is attrs.NOTHING and field.name not in given:
            raise RemoteProtocolError(field.name, "must be given")
    return route.kind(**given)


def _pairs(query: str) -> Sequence[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        raise RemoteProtocolError("query", "must be NAME=VALUE, joined by &") from None


def _sort_of(route: HttpRoute, name: str) -> Sort:
    if name not in route.fields:
        known = ", ".join(route.fields) or "none at all"
        raise RemoteProtocolError("request", f"has a field that isn't known here; known are {known}")
    return route.fields[name]


def _check_once(name: str, given: Answer) -> None:
    # A repeated field is ambiguous, and requests that end or pay something must not guess.
    if name in given:
        raise RemoteProtocolError(name, "must be given once")


def _read(name: str, text: str, sort: Sort) -> object:
    match sort:
        case "text":
            return _plain(name, text)
        case "words":
            return [word for word in text.split(",") if word]
        case "number" if _NUMBER.fullmatch(text):
            return int(text)
        case "flag" if text in _FLAGS:
            return _FLAGS[text]
        case _:
            raise RemoteProtocolError(name, f"must be {_SORTS[sort]}")


def _checked(name: str, value: object, sort: Sort) -> object:
    """Return a field of the body unchanged, if it has this format or is null."""
    fits = {
        "text": isinstance(value, str),
        "words": isinstance(value, list),
        "flag": isinstance(value, bool),
        "number": isinstance(value, int) and not isinstance(value, bool),
    }
    if value is not None and not fits[sort]:
        raise RemoteProtocolError(name, f"must be {_SORTS[sort]}")
    return _plain(name, value) if isinstance(value, str) else value


def _plain(name: str, text: str) -> str:
    """Return a text that file names and stores can contain; refuse NUL characters and lone surrogates."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise RemoteProtocolError(name, "must be text without NUL characters and lone surrogates")
    return text


@final
@guarded
class _Members:
    """The members of a JSON object, including repeated names."""

    pairs: Sequence[tuple[str, object]]


def _members(body: bytes) -> Sequence[tuple[str, object]]:
    try:
        found: object = json.loads(body, object_pairs_hook=_Members) if body.strip() else _Members([])
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, _Members):
        raise RemoteProtocolError("body", "must be a JSON object, or nothing")
    return found.pairs


def encode_request(request: Request) -> tuple[str, str, bytes]:
    """Encode a request as method, target and body.

    Raises:
        LocalProtocolError: no route accepts all of the request's fields.
    """
    fields = _said(request)
    for route in ROUTES:
        if route.kind is not type(request) or not route.can_say(fields):
            continue
        left = {name: value for name, value in fields.items() if name not in route.fixed}
        path = route.path
        for name in route.places:
            path = path.replace(f"{{{name}}}", quote(_written(left.pop(name)), safe=""))
        if route.method in _IN_QUERY:
            query = urlencode({name: _written(value) for name, value in left.items()}, quote_via=quote)
            return route.method, f"{path}?{query}" if query else path, b""
        return route.method, path, json.dumps(left).encode() if left else b""
    raise LocalProtocolError("request", "must be something that a bot can be asked")


def _said(request: Request) -> dict[str, Any]:
    """Return the request's fields that differ from their defaults."""
    match request:
        case AboutBroadcasts(fields) | AboutPayments(fields):
            return {name: value for name, value in fields.items() if value is not None}
        case _:
            usual = {field.name: field.default for field in attrs.fields(type(request))}
            said = attrs.asdict(request, filter=lambda field, value: value != usual[field.name])
            return {name: str(value) if isinstance(value, Path) else value for name, value in said.items()}


def _written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return ",".join(map(str, cast("list[object]", value)))
        case _:
            return str(value)


# --- statuses

_STATUSES: Final[Sequence[tuple[type[TriobotError], int]]] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (ConfigError, 400),
    (ProtocolError, 400),
    (StoreAwayError, 503),
    (StoreFullError, 507),
    (StoreError, 503),
)


def status_of(error: TriobotError) -> int:
    """Return the HTTP status for an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def error_in(status: int, body: bytes) -> TriobotError:
    """Convert an error answer of a bot to an exception."""
    try:
        text = str(json.loads(body)["error"])
    except (ValueError, TypeError, KeyError):
        return StoreError(_FAILED if status == HTTPStatus.INTERNAL_SERVER_ERROR else _OTHER_VERSION)
    kind = next((kind for kind, one in _STATUSES if one == status and kind is not ProtocolError), StoreError)
    return kind(text)


def read_line(line: str | bytes) -> Answer:
    """Parse a line of an answer.

    Raises:
        StoreError: the line is no JSON: the bot runs another version.
    """
    try:
        told: Answer = json.loads(line)
    except ValueError:
        raise StoreError(_OTHER_VERSION) from None
    return told
