"""The twin: a process that replays journals, beside the bot's process.

The twin runs the author's code between operations. If this code hangs, exhausts memory or ends the process,
the bot's process and the page's process are unaffected. A new twin loads everything but the bot, and waits
for a request to load the bot. A twin loads the bot once: new code needs a new twin. A twin ends when its
connection to the parent is closed.

Parent and twin send lines of JSON. A request has a number ``n``, a command ``do`` and its arguments. The
answer has the same number, and either ``value``, or ``error`` with the text of a `TravelError` and its
attributes.
"""

from __future__ import annotations

import json
import linecache
import os
import signal
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from ...base.frozen import guarded
from ...base.lines import lines_of
from ...cli.exported import comparison_of, read_exported
from ...cli.loading import load_bot
from ...conversations.revival.code import Code
from ...conversations.revival.stored import Stored
from ...conversations.routes.router import table_of
from ...conversations.running.lines import is_authors
from ...errors import TriobotError
from ...exact.verdicts import Comparison
from ...runtime.bot import dry_services_of
from ...runtime.settings import read_environment
from ...wire.rules import JsonValue, compact_json
from ..errors import TravelError
from .builds import take_modules_from
from .given import LoadedBot, PastOrigin
from .hiding import covered, hidden, outline
from .parting import parting_of
from .passes import Passed, run_pass, view_source
from .past import up_to
from .path import Path, paths_of
from .values import shown

LONGEST: Final = 256 * 1024 * 1024
"""Maximum length of a line in bytes; the longest lines are journals."""
LARGEST: Final = 1_000_000
"""Maximum size of an answer with notches or a source, in characters."""
KEPT: Final = 8
"""Maximum number of passes that a twin keeps."""
WINDOW: Final = 256
"""Maximum number of notches in an answer."""
_LOADS: Final = 60
"""Seconds within which the author's modules must be loaded."""

Whose: TypeAlias = Literal["dev", "shown", "hidden"]
"""``dev`` under ``triobot dev``. Under ``triobot inspect``, ``shown`` if people's words and the bot's secrets
are shown, else ``hidden``.
"""
Lines: TypeAlias = Sequence[Mapping[str, object]]
"""An exported journal: its row, records and effects."""


@final
@guarded
class _KeptPass:
    """A pass that the twin keeps.

    Attributes:
        stored: the replayed journal, for another replay.
        first: number of the pass's first source.
        files: the pass's sources, in the order of their numbers. The sources in the notches come first, then
            other sources that ran.
        texts: texts of `files`.
        paths: paths of the turns; None until they are requested.
    """

    stored: Stored
    passed: Passed
    first: int
    files: list[str]
    texts: list[str]
    paths: Sequence[Path] | None = None


@final
class Twin:
    """Answers the parent's requests.

    Args:
        whose: if ``hidden``, people's words and the bot's secrets stay in this process. Branches can be
            opened only under ``dev``.
    """

    def __init__(self, line: trio.SocketStream, whose: Whose) -> None:
        self._line = line
        self._whose = whose
        self._loaded: LoadedBot | None = None
        self._branches: Any = None
        self._comparison: Comparison | None = None
        self._kept: OrderedDict[str, _KeptPass] = OrderedDict()
        self._replays: Mapping[str, Callable[..., Awaitable[JsonValue]]] = {
            "open": self._open,
            "compare": self._compare,
            "path": self._path,
        }
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
        answer: dict[str, JsonValue] = {"n": asked.pop("n")}
        try:
            answer["value"] = await self._do(asked.pop("do"), asked)
        except TravelError as error:
            answer |= {"error": str(error), "gone": error.gone, "refused": error.refused}
        except Exception as error:  # for example, an error of an author's module on import.
            # Errors of triobot itself don't contain people's words.
            shows = self._whose != "hidden" or isinstance(error, TriobotError)
            words = f": {error}" if shows else ""
            answer["error"] = f"{type(error).__name__}{words}"[:4_000]
        async with self._says:
            await self._line.send_all(compact_json(answer).encode("utf-8", "replace") + b"\n")

    async def _do(self, what: str, asked: dict[str, Any]) -> JsonValue:
        match what:
            case "load":
                return self._load(**asked)
            case "open" | "compare" | "path":
                async with self._one:
                    return await self._replays[what](**asked)
            case "know":
                self._comparison = comparison_of(Code(self._bot.table), asked["code"])
                return None
            case "notches":
                return self._notches(**asked)
            case "source":
                kept = self._find(asked["id"])
                number = int(asked["source"]) - kept.first
                if not 0 <= number < len(kept.texts):
                    raise TravelError("there is no such source")
                return kept.texts[number][:LARGEST]
            case "frames":
                kept = self._find(asked["id"])
                found = [[self._number(kept, file), int(line), name] for file, line, name in asked["frames"]]
                frames = list[JsonValue](frame for frame in found if frame[0] is not None)
                return {"frames": frames, "sources": _sources(kept)}
            case "sent":
                turns = cast("list[dict[str, Any]]", self._find(asked["id"]).passed.turns)
                sent = [out for notch in turns for out in notch.get("out", [])]
                return {out["id"]: out["text"] for out in sent if isinstance(out.get("text"), str)}
            case "close":
                self._kept.pop(asked["id"], None)
                return None
            case _:
                return await self._branch(what, asked)

    def _load(self, bot: str, sources: Sequence[tuple[str, str]] | None = None) -> JsonValue:
        """Load the bot from `sources`, or from the current files; return the digests of the bot's sources."""
        # SIGALRM ends the process if a module doesn't finish loading.
        signal.alarm(_LOADS)
        try:
            target = bot if sources is None else take_modules_from(sources, bot)
            loaded = load_bot(target)
            settings = read_environment(os.environ)
            if self._whose == "dev":
                settings = attrs.evolve(settings, development=True)
            services, table = dry_services_of(loaded, settings), table_of(loaded)
            self._loaded = LoadedBot(loaded, target, settings, services, table)
        finally:
            signal.alarm(0)
        # This call reads the files now, so that a pass shows the sources as they were loaded.
        return [*Code(table).sites.present]

    @property
    def _bot(self) -> LoadedBot:
        assert self._loaded is not None, "the first request loads the bot"
        return self._loaded

    @property
    def _secrets(self) -> Collection[str]:
        """Words to hide in sources."""
        return self._bot.secrets() if self._whose == "hidden" else ()

    def _find(self, id: str) -> _KeptPass:
        kept = self._kept.get(id)
        if kept is None:
            raise TravelError("this pass is gone: open it again", gone=True)
        self._kept.move_to_end(id)
        return kept

    # --- replays

    async def _open(
        self, id: str, lines: Lines, sources_from: int, upto: int | None, knows: bool, compares: bool
    ) -> JsonValue:
        """Replay a journal, up to notch `upto` if given, and return the head of the pass."""
        bot, stored, hides = self._bot, read_exported(lines), self._whose == "hidden"
        if upto is not None:
            stored = up_to(stored, upto, noted=False)
        passed = await run_pass(
            bot.services,
            bot.table,
            stored,
            write=outline if hides else shown,
            sources_from=sources_from,
            knows=knows,
            fills=upto is not None,
            comparison=self._comparison if compares else None,
        )
        if hides:
            passed = hidden(passed, self._secrets)
        files = [str(one["path"]) for one in cast("list[dict[str, str]]", passed.head["sources"])]
        self._kept[id] = _KeptPass(stored, passed, sources_from, files, [*passed.texts])
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return {**passed.head, "id": id}

    async def _compare(self, lines: Lines) -> JsonValue:
        bot, stored = self._bot, read_exported(lines)
        passed = await run_pass(bot.services, bot.table, stored, variables=0, comparison=self._comparison)
        parting = parting_of(passed.head, passed.texts, passed.parting)
        if parting is not None:
            parting["gone"] = bot.table.named(stored.row.route) is None
        return {"parting": parting, "reworded": [*passed.reworded]}

    async def _path(self, id: str, start: int, end: int) -> JsonValue:
        kept = self._find(id)
        if kept.paths is None:
            bot, number_of = self._bot, partial(self._number, kept)
            paths = await paths_of(bot.services, bot.table, kept.stored, number_of)
            self._kept[id] = kept = attrs.evolve(kept, paths=paths)
        found = (kept.paths or ())[start : min(end, start + WINDOW)]
        lists: list[JsonValue] = [[[*line] for line in path] for path in found]
        return {"from": start, "to": start + len(found), "paths": lists, "sources": _sources(kept)}

    def _notches(self, id: str, start: int, end: int) -> JsonValue:
        """Return as many notches as fit in an answer, but at least one."""
        found, size = list[JsonValue](), 0
        for notch in self._find(id).passed.window(start, min(end, start + WINDOW)):
            size += len(compact_json(notch)) + 1
            if found and size > LARGEST:
                break
            found.append(notch)
        return {"from": start, "to": start + len(found), "notches": found}

    def _number(self, kept: _KeptPass, file: str) -> int | None:
        """Return a file's number in a pass. Add a new file of the author; return None for other new files."""
        if file not in kept.files and is_authors(file):
            kept.texts.append(covered("".join(linecache.getlines(file)), self._secrets))
            kept.files.append(file)
        return kept.first + kept.files.index(file) if file in kept.files else None

    # --- branches

    async def _branch(self, what: str, asked: dict[str, Any]) -> JsonValue:
        if self._whose != "dev":
            raise TravelError("there are no branches here")
        if self._branches is None:
            # Branches need the emulator, which makes up a third of a twin's imports. Each save starts a twin,
            # and most twins never open a branch.
            from .branching import Branching

            self._branches = Branching(self._bot)
        origin = self._origin(asked) if "beside" in asked else None
        try:
            return cast("JsonValue", await self._branches.answer(what, asked, origin))
        except TravelError:
            raise
        except (TriobotError, ValueError, KeyError, TypeError) as error:
            raise TravelError(str(error) or type(error).__name__, refused=True) from error

    def _origin(self, asked: Mapping[str, Any]) -> PastOrigin:
        """Return the journals from which a branch starts: the journal of a kept pass, or exported lines."""
        stored = self._find(asked["of"]).stored if "of" in asked else read_exported(asked["lines"])
        beside = [read_exported(lines) for lines in asked["beside"]]
        return PastOrigin(stored, [one for one in beside if one.row.id != stored.row.id], asked["group"])


def _sources(kept: _KeptPass) -> list[JsonValue]:
    known = enumerate(zip(kept.files, kept.texts, strict=True), kept.first)
    return [view_source(number, *source) for number, source in known]


async def serve_twin(fd: int, whose: Whose) -> None:
    """Run a twin on the socket with descriptor `fd`; see `Twin`."""
    # This module is also imported on Windows, where AF_UNIX is missing.
    family, kind = cast("int", trio.socket.AF_UNIX), cast("int", trio.socket.SOCK_STREAM)
    end = trio.socket.fromfd(fd, family, kind)
    async with trio.SocketStream(end) as line:
        await Twin(line, whose).serve()
