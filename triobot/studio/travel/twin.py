"""The twin: a process that replays journals, beside the bot's process.

The author's code between operations runs here. If that code hangs, exhausts memory or ends the process, the
bot's process and the page's process are unaffected. A new twin loads everything but the bot, and waits for a
request to load the bot. A twin loads the bot once: new code needs a new twin. A twin ends when its connection
to the parent is closed.

Both ends send lines of JSON. A request has a number ``n``, a command ``do`` and its arguments. The answer has
the same number and one of these: ``value``; ``error`` with a text; or ``size``, the number of bytes of
compressed JSON after this line.
"""

from __future__ import annotations

import gzip
import json
import linecache
import signal
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio

from ...base.frozen import guarded
from ...base.lines import lines_of
from ...cli.exported import comparison_of
from ...conversations.revival.changed import Code
from ...conversations.revival.stored import Stored
from ...conversations.routes.declarations import Table
from ...conversations.running.lines import is_authors
from ...conversations.services import Services
from ...emulator.views import JsonObject, exact_for_pages
from ...errors import TriobotError
from ...exact.verdicts import Comparison
from ...wire.rules import JsonValue
from .builds import take_modules_from
from .hiding import covered, hidden, outline
from .notches import WINDOW
from .parting import parting_of
from .passes import Passed, run_pass, told_source, value_in_full
from .past import up_to
from .path import Path, paths_of
from .values import shown

LONGEST: Final = 256 * 1024 * 1024
"""Maximum length of a line in bytes; the longest lines are journals."""
LARGEST: Final = 1_000_000
"""Maximum size of an answer before compression, in bytes."""
KEPT: Final = 8
"""Maximum number of passes that a twin keeps."""
MEMORY: Final = 64 * 1024 * 1024
"""Maximum size of the kept passes' notches as JSON, in bytes."""
_LOADS: Final = 60
"""Seconds within which the author's modules must be loaded."""
_LEVEL: Final = 5

Loaded: TypeAlias = tuple[Services, Table]
Load: TypeAlias = Callable[[str], Loaded]
Read: TypeAlias = Callable[[Sequence[Mapping[str, object]]], Stored]
Secrets: TypeAlias = Callable[[], Collection[str]]


@final
@guarded
class BranchedFrom:
    """Origin of a branch.

    Attributes:
        beside: journals of the chat's other conversations.
        group: whether the chat is a group; None derives it from the journal.
    """

    stored: Stored
    beside: Sequence[Stored] = ()
    group: bool | None = None


# Its arguments are a command, the command's arguments, and a function that reads the branch's origin.
Branch: TypeAlias = Callable[
    [str, Mapping[str, Any], Callable[[], BranchedFrom]], Awaitable[JsonObject | str | None]
]


@final
class _UntoldError(TriobotError):
    """A request that can't be answered; the text contains the reason."""


@final
class _NotDoneError(TriobotError):
    """A refused command in a branch; the text contains the reason."""


@final
@guarded
class _KeptPass:
    """A pass that the twin keeps.

    Attributes:
        stored: the replayed journal, for another replay.
        size: size of the notches as JSON, in bytes.
        first: number of the pass's first source.
        files: the pass's sources, in the order of their numbers. The sources in the notches come first, then
            other sources that ran.
        texts: texts of `files`.
        paths: paths of the turns; None until they are requested.
    """

    stored: Stored
    passed: Passed
    size: int
    first: int
    files: list[str]
    texts: list[str]
    paths: Sequence[Path] | None = None


@final
class Twin:
    """Answers the parent's requests.

    Args:
        load: loads a bot by its target.
        read: reads an exported journal.
        branch: handles branches of the loaded bot; None refuses branches.
        secrets: returns the loaded bot's secrets. These secrets and people's words then stay in the process.
            None: nothing is hidden.
    """

    def __init__(
        self,
        line: trio.SocketStream,
        load: Load,
        read: Read,
        branch: Branch | None = None,
        *,
        secrets: Secrets | None = None,
    ) -> None:
        self._line = line
        self._secrets = secrets
        self._branches = branch
        self._load = load
        self._read = read
        self._loaded: Loaded | None = None
        self._comparison: Comparison | None = None
        self._kept: OrderedDict[str, _KeptPass] = OrderedDict()
        self._one = trio.Lock()
        self._says = trio.Lock()

    async def serve(self) -> None:
        """Answer requests until the parent is gone."""
        async with trio.open_nursery() as nursery:
            async with aclosing(lines_of(self._line, LONGEST)) as lines:
                async for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    nursery.start_soon(self._answer, json.loads(line))
            nursery.cancel_scope.cancel()

    async def _answer(self, asked: dict[str, Any]) -> None:
        answer: JsonObject = {"n": asked["n"]}
        body = b""
        try:
            value = await self._do(asked["do"], asked)
            if isinstance(value, bytes):
                body = value
                answer["size"] = len(body)
            else:
                answer["value"] = value
        except (_UntoldError, _NotDoneError) as error:
            answer["error"] = str(error)
            answer["refused"] = isinstance(error, _NotDoneError)
        except Exception as error:  # any error of an author's module on import
            # triobot's own errors don't contain people's words.
            told = self._secrets is None or isinstance(error, TriobotError)
            words = f": {error}" if told else ""
            answer["error"] = f"{type(error).__name__}{words}"[:4_000]
        await self._say(answer, body)

    async def _say(self, told: JsonObject, body: bytes = b"") -> None:
        async with self._says:
            await self._line.send_all(_json(told) + b"\n" + body)

    async def _do(self, what: str, asked: dict[str, Any]) -> JsonValue | bytes:
        match what:
            case "load":
                return self._load_now(asked["bot"], asked.get("sources"))
            case "open":
                async with self._one:
                    return await self._open(asked["id"], asked["lines"], asked.get("part", {}))
            case "know":
                self._comparison = comparison_of(Code(self._of_bot[1]), asked["code"])
                return None
            case "compare":
                async with self._one:
                    return await self._compare(asked["lines"])
            case "notches":
                return packed_window(self._find(asked["id"]).passed, asked["from"], asked["to"])
            case "path":
                async with self._one:
                    return await self._path(asked["id"], asked["from"], asked["to"])
            case "source":
                kept = self._find(asked["id"])
                number = int(asked["source"]) - kept.first
                if not 0 <= number < len(kept.texts):
                    raise _UntoldError("there is no such source")
                return gzip.compress(kept.texts[number][:LARGEST].encode("utf-8", "replace"), _LEVEL)
            case "frames":
                kept = self._find(asked["id"])
                found = [[self._number(kept, file), int(line), name] for file, line, name in asked["frames"]]
                frames = list[JsonValue](frame for frame in found if frame[0] is not None)
                return {"frames": frames, "sources": _sources(kept)}
            case "sent":
                told = cast("list[JsonObject]", self._find(asked["id"]).passed.notches)
                sent = [out for notch in told for out in cast("list[JsonObject]", notch.get("out", []))]
                return {str(out["id"]): out["text"] for out in sent if isinstance(out.get("text"), str)}
            case "value":
                async with self._one:
                    return await self._value(asked)
            case "close":
                self._kept.pop(asked["id"], None)
                return None
            case _:
                return await self._branch(what, asked)

    def _load_now(self, bot: str, sources: Sequence[tuple[str, str]] | None) -> JsonValue:
        """Load the bot, from `sources` or from the current files; return the digests of its sources."""
        # SIGALRM ends the process if a module doesn't finish loading.
        signal.alarm(_LOADS)
        try:
            self._loaded = self._load(bot if sources is None else take_modules_from(sources, bot))
        finally:
            signal.alarm(0)
        # Reads the files now, so that a pass shows the sources as they were loaded.
        return [*Code(self._loaded[1]).sites.present]

    def _find(self, id: str) -> _KeptPass:
        kept = self._kept.get(id)
        if kept is None:
            raise _UntoldError("this pass is gone: open it again")
        self._kept.move_to_end(id)
        return kept

    async def _open(
        self, id: str, lines: Sequence[Mapping[str, object]], part: Mapping[str, Any]
    ) -> JsonValue:
        """Replay a journal, or the requested part of it, and return the head of the pass."""
        services, table = self._of_bot
        stored, write = self._read(lines), shown if self._secrets is None else outline
        upto, first = part.get("upto"), part.get("sources_from", 0)
        if upto is not None:
            stored = up_to(stored, upto, noted=False)
        run = partial(run_pass, services, table, stored, write=write, sources_from=first)
        by = self._comparison if part.get("compares") else None
        passed = await run(knows=part.get("knows", True), fills=upto is not None, comparison=by)
        if self._secrets is not None:
            passed = hidden(passed, self._secrets())
        size = sum(len(_json(notch)) for notch in passed.notches)
        files = [str(one["path"]) for one in cast("list[JsonObject]", passed.head["sources"])]
        self._kept[id] = _KeptPass(stored, passed, size, first, files, [*passed.texts])
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT or sum(kept.size for kept in self._kept.values()) > MEMORY
        ):
            self._kept.popitem(last=False)
        return {**passed.head, "id": id}

    async def _compare(self, lines: Sequence[Mapping[str, object]]) -> JsonValue:
        (services, table), stored = self._of_bot, self._read(lines)
        passed = await run_pass(services, table, stored, variables=0, comparison=self._comparison)
        parting = parting_of(passed.head, passed.texts, passed.parting)
        if parting is not None:
            parting["gone"] = table.named(stored.row.route) is None
        return {"parting": parting, "reworded": [*passed.reworded]}

    @property
    def _of_bot(self) -> Loaded:
        if self._loaded is None:
            raise _UntoldError("there is no bot yet")
        return self._loaded

    async def _branch(self, what: str, asked: dict[str, Any]) -> JsonValue | bytes:
        if self._branches is None:
            raise _UntoldError("there are no branches here")
        try:
            told = await self._branches(what, asked, partial(self._origin, asked))
        except (TriobotError, ValueError, KeyError, TypeError) as error:
            raise _NotDoneError(str(error) or type(error).__name__) from error
        if what == "replacement" and isinstance(told, Mapping):  # only for the parent
            return gzip.compress(_json(told), 1)
        return _packed(told) if isinstance(told, Mapping) else told

    def _origin(self, asked: dict[str, Any]) -> BranchedFrom:
        """Return the journals from which a branch starts: the journal of a kept pass, or exported lines."""
        stored = self._find(asked["id"]).stored if "id" in asked else self._read(asked["lines"])
        beside = [self._read(lines) for lines in asked.get("beside", ())]
        return BranchedFrom(
            stored, [one for one in beside if one.row.id != stored.row.id], asked.get("group")
        )

    async def _path(self, id: str, start: int, end: int) -> bytes:
        kept = self._find(id)
        if kept.paths is None:
            number_of = partial(self._number, kept)
            kept = attrs.evolve(kept, paths=await paths_of(*self._of_bot, kept.stored, number_of))
            self._kept[id] = kept
        assert kept.paths is not None
        end = min(end, start + WINDOW, len(kept.paths))
        paths: list[JsonValue] = [[[*line] for line in path] for path in kept.paths[start:end]]
        return _packed({"from": start, "to": end, "paths": paths, "sources": _sources(kept)})

    def _number(self, kept: _KeptPass, file: str) -> int | None:
        """Return a file's number in a pass. Add a new file of the author; return None for other new files."""
        if file not in kept.files and is_authors(file):
            text = "".join(linecache.getlines(file))
            kept.texts.append(covered(text, () if self._secrets is None else self._secrets()))
            kept.files.append(file)
        return kept.first + kept.files.index(file) if file in kept.files else None

    async def _value(self, asked: dict[str, Any]) -> JsonValue:
        if self._secrets is not None:
            raise _UntoldError("values are hidden here")
        kept = self._find(asked["id"])
        place = (asked["notch"], asked["branch"], asked["frame"], asked["name"])
        text = await value_in_full(*self._of_bot, kept.stored, *place)
        if text is None:
            raise _UntoldError("there is no such variable")
        return {"text": text}


def _sources(kept: _KeptPass) -> list[JsonValue]:
    known = enumerate(zip(kept.files, kept.texts, strict=True), kept.first)
    return [told_source(number, *source) for number, source in known]


def packed_window(passed: Passed, start: int, end: int) -> bytes:
    """Return as many notches as fit in an answer, but at least one, as compressed JSON."""
    parts: list[bytes] = []
    room = LARGEST
    for notch in passed.window(start, min(end, start + WINDOW)):
        part = _for_pages(notch)
        if parts and len(part) > room:
            break
        room -= len(part) + 1
        parts.append(part)
    head = f'{{"from":{start},"to":{start + len(parts)},"notches":['.encode()
    return gzip.compress(head + b",".join(parts) + b"]}", _LEVEL)


def _packed(told: JsonObject) -> bytes:
    return gzip.compress(_for_pages(told), _LEVEL)


def _for_pages(told: JsonObject) -> bytes:
    return exact_for_pages(_json(told).decode()).encode()


def _json(told: JsonObject) -> bytes:
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


async def serve_twin(
    fd: int, load: Load, read: Read, branch: Branch | None = None, *, secrets: Secrets | None = None
) -> None:
    """Run a twin on the socket with descriptor `fd`; see `Twin`."""
    # Windows imports this module too, and lacks AF_UNIX.
    family, kind = cast("int", trio.socket.AF_UNIX), cast("int", trio.socket.SOCK_STREAM)
    end = trio.socket.fromfd(fd, family, kind)
    async with trio.SocketStream(end) as line:
        await Twin(line, load, read, branch, secrets=secrets).serve()
