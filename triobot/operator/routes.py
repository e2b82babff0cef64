"""The table of an operator's requests with their HTTP methods and paths, and the statuses of the answers.

Pure.

A request is a mapping of JSON values: ``ask`` is the name of the request, and the other values are its
fields. The server decodes requests with the table `ROUTES`, the client encodes requests with the same table,
and ``GET /`` lists the table. A request's fields are in the path, in the query, or in a JSON object as the
body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias, cast, final
from urllib.parse import parse_qsl, quote, unquote, urlencode

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
from ..seams.rooms import LARGEST_PLACE
from ..wire.rules import check_integer, check_is_a, check_text

Question: TypeAlias = Mapping[str, object]
"""A request: its name under ``ask``, and its fields. A field that is None counts as absent."""
Answer: TypeAlias = Mapping[str, object]
"""An answer, or a line of an answer: JSON values."""
Format: TypeAlias = Literal["number", "count", "id", "flag", "text", "speech", "words"]
"""Format of a field. ``number``: any whole number; ``count``: a whole number from 0; ``id``: from 1;
``flag``: ``true`` or ``false``; ``text``: a text that isn't empty; ``speech``: any text;
``words``: ``one,two``.
"""

LONGEST_BODY: Final = 64 * 1024

_OTHER_VERSION: Final = (
    "the bot that runs is of another version than this command; restart it, or ask it with its own"
)
_FAILED: Final = "the bot failed to answer; its log names the mistake"

_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_FLAGS: Final = {"true": True, "false": False}
# Values that can't be a segment of an HTTP path, or that would change the path's meaning.
_NO_PLACE: Final = ("", ".", "..")
_IN_QUERY: Final = ("GET", "DELETE")
_LEAST: Final[Mapping[str, int]] = {"number": -LARGEST_PLACE, "count": 0, "id": 1}


@final
@guarded
class HttpRoute:
    """An HTTP route of a request.

    Attributes:
        method, path: ``{name}`` in the path stands for a field.
        ask: name of the request.
        fields: fields that the request may have, with their formats.
        needed: fields that the request must have.
        is_of_many: whether the answer is JSON lines; otherwise the answer is one JSON object.
    """

    method: str
    path: str
    ask: str
    fields: Mapping[str, Format]
    needed: Sequence[str]
    is_of_many: bool

    @property
    def places(self) -> Sequence[str]:
        """Names of the fields in the path."""
        return _PLACE.findall(self.path)

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


def _at(line: str, ask: str, fields: str = "", *, many: bool = False) -> HttpRoute:
    """Make a route from ``GET /path`` and ``name:format name:format``. Fields in the path, and fields with a
    ``!``, are needed.
    """
    method, _, path = line.partition(" ")
    pairs = [field.split(":") for field in fields.split()]
    formats: dict[str, Format] = {name: cast("Format", form.rstrip("!")) for name, form in pairs}
    needed = [name for name, form in pairs if form.endswith("!") or f"{{{name}}}" in path]
    return HttpRoute(method, path, ask, formats, needed, many)


_PARKED: Final = "conversation:id chat_id:number route:text because:text"
_CALL: Final = "chat_id:number name:text! value:speech key:text"
_LIST: Final = "states:words chat:number before:number after:text limit:number"
_ADOPT: Final = "number:text! chat:number! amount:id! currency:text kind:text"

# If two HTTP routes match, the first is used.
ROUTES: Final = (
    _at("GET /status", "status"),
    _at("GET /journals", "journals.list", "chat_id:number after:count limit:id crashed:flag", many=True),
    _at("GET /journals/open", "journals.open", "after:count whole:flag", many=True),
    _at("GET /journals/code", "journals.code", many=True),
    _at("POST /journals/accept", "journals.accept", "function:text! was:text! now:text!", many=True),
    _at("GET /journals/{conversation}", "journals.show", "conversation:id", many=True),
    _at("POST /journals/{conversation}/end", "journals.end", "conversation:id"),
    _at("GET /kept/{key}", "kept", "key:text after:number", many=True),
    _at("GET /chats", "chats.list", "limit:id", many=True),
    _at("DELETE /chats/{chat_id}", "chats.forget", "chat_id:number"),
    _at("POST /chats/{chat_id}/send", "chats.send", "chat_id:number value:text!"),
    _at("POST /chats/{chat_id}/signal", "chats.signal", _CALL),
    _at("POST /chats/{chat_id}/start", "chats.start", _CALL),
    _at("GET /parked", "parked.count", _PARKED, many=True),
    _at("POST /parked/end", "parked.end", f"{_PARKED} say:speech", many=True),
    _at("POST /parked/retry", "parked.retry", _PARKED, many=True),
    _at("GET /jobs", "jobs.list", many=True),
    _at("POST /jobs/{name}/run", "jobs.run", "name:text", many=True),
    _at("POST /backup", "backup", "path:text!"),
    _at("GET /alarms", "alarms.list", many=True),
    _at("POST /alarms/acknowledge", "alarms.acknowledge", "kind:text key:text all:flag", many=True),
    _at("GET /broadcasts", "broadcast.list"),
    _at("GET /broadcasts/{key}", "broadcast.status", "key:text"),
    _at("POST /broadcasts/{key}/stop", "broadcast.stop", "key:text"),
    _at("GET /payments", "payments.list", _LIST),
    _at("POST /payments", "payments.adopt", _ADOPT),
    _at("GET /payments/ages", "payments.ages"),
    _at("GET /payments/totals", "payments.totals", "since:number until:number"),
    _at("GET /payments/{ref}", "payments.show", "ref:text"),
    _at("POST /payments/{ref}/inquire", "payments.inquire", "ref:text"),
    _at("POST /payments/{ref}/verify", "payments.verify", "ref:text"),
    _at("POST /payments/{ref}/redeliver", "payments.redeliver", "ref:text"),
    _at("POST /payments/{ref}/settle", "payments.settle", "ref:text"),
    _at("POST /payments/{ref}/resolve", "payments.resolve", "ref:text"),
)


def check_question(question: Question) -> tuple[HttpRoute, dict[str, Any]]:
    """Return a request's HTTP route, and the request's fields.

    Raises:
        LocalProtocolError: there is no such request, or a field is unknown, missing or invalid.
    """
    route = next((route for route in ROUTES if route.ask == question.get("ask")), None)
    if route is None:
        raise LocalProtocolError("request", "must be something that a bot can be asked")
    fields = {name: value for name, value in question.items() if value is not None and name != "ask"}
    for name, value in fields.items():
        if name not in route.fields:
            known = ", ".join(route.fields) or "none at all"
            raise LocalProtocolError("request", f"has a field that isn't known here; known are {known}")
        _check(name, value, route.fields[name])
    for name in route.needed:
        if name not in fields:
            raise LocalProtocolError(name, "must be given")
    return route, fields


def _check(name: str, value: object, form: Format) -> None:
    match form:
        case "flag":
            check_is_a(name, value, bool)
        case "words":
            check_is_a(name, value, list)
        case "text" | "speech":
            # File names and stored texts can't contain a NUL character.
            if "\0" in check_text(name, value, empty=form == "speech"):
                raise LocalProtocolError(name, "must be text without NUL characters")
        case _:
            check_integer(name, value, least=_LEAST[form], most=LARGEST_PLACE)


def routes_at(path: str) -> Mapping[str, tuple[HttpRoute, Mapping[str, str]]]:
    """Return the HTTP routes for a path, by method, each with the fields in the path."""
    segments = path.split("/")
    found: dict[str, tuple[HttpRoute, Mapping[str, str]]] = {}
    for route in ROUTES:
        if (fields := route.found_in(segments)) is not None:
            # Try the HTTP routes in order, so that a literal segment wins over a field.
            found.setdefault(route.method, (route, fields))
    return found


def question_at(method: str, target: str, body: bytes) -> Question:
    """Decode a request.

    Raises:
        NotFoundError: no HTTP route matches.
        ProtocolError: as `decode_question`; or the body is too long.
    """
    path, _, query = target.partition("?")
    if (found := routes_at(path).get(method)) is None:
        raise NotFoundError("there is no such path")
    if len(body) > LONGEST_BODY:
        raise RemoteProtocolError("body", f"must have {LONGEST_BODY} bytes at most")
    return decode_question(*found, query, body)


def decode_question(route: HttpRoute, fields: Mapping[str, str], query: str, body: bytes) -> Question:
    """Decode an operator's HTTP request for `route`. `check_question` checks the fields' values.

    Args:
        fields: fields in the path.

    Raises:
        ProtocolError: the query or the body can't be read, or a field is repeated.
    """
    question: dict[str, object] = {"ask": route.ask}
    texts = (*fields.items(), *_pairs(query))
    given = [(name, _read(text, route.fields.get(name))) for name, text in texts]
    for name, value in (*given, *_members(body)):
        # A repeated field is ambiguous, and a request may end conversations or change payments. So the bot
        # guesses no value.
        if name in question:
            raise RemoteProtocolError(name, "must be given once")
        question[name] = value
    return question


def _pairs(query: str) -> Sequence[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        raise RemoteProtocolError("query", "must be NAME=VALUE, joined by &") from None


def _read(text: str, form: Format | None) -> object:
    """Read a field in a path or query; an invalid text is returned unchanged."""
    match form:
        case "flag":
            return _FLAGS.get(text, text)
        case "words":
            return [word for word in text.split(",") if word]
        case "number" | "count" | "id" if _NUMBER.fullmatch(text):
            return int(text)
        case _:
            return text


def _members(body: bytes) -> Sequence[tuple[str, object]]:
    try:
        # The parser returns objects as tuples of pairs, which keep repeated names. Lists stay lists, and are
        # refused below.
        found: object = json.loads(body, object_pairs_hook=tuple) if body.strip() else ()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, tuple):
        raise RemoteProtocolError("body", "must be a JSON object, or nothing")
    return cast("Sequence[tuple[str, object]]", found)


def encode_question(question: Question) -> tuple[str, str, bytes]:
    """Encode a request as method, target and body.

    Raises:
        LocalProtocolError: as `check_question`; or a field can't be part of the path.
    """
    route, left = check_question(question)
    path = route.path
    for name in route.places:
        if (value := str(left.pop(name))) in _NO_PLACE:
            raise LocalProtocolError(name, "must be text that can be part of a path")
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if route.method in _IN_QUERY:
        query = urlencode({name: _written(value) for name, value in left.items()}, quote_via=quote)
        return route.method, f"{path}?{query}" if query else path, b""
    return route.method, path, json.dumps(left).encode() if left else b""


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
        StoreError: the line is no JSON, because the bot runs another version.
    """
    try:
        answer: Answer = json.loads(line)
    except ValueError:
        raise StoreError(_OTHER_VERSION) from None
    return answer
