"""The parent process of the twins: opens passes and branches of past conversations for the page.

If a twin's process ends, its passes are lost, and the page opens these passes again.
"""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast, final

import attrs
import trio

from ...base.frozen import guarded
from ...cli.exported import Stretch, read_exported, stretches_of
from ...emulator.views import JsonObject
from ...engine import Record
from ...engine.records import time_of
from ...errors import TriobotError
from ...wire.rules import JsonValue
from ..errors import TravelError
from ..stored_journals import StoredJournals
from .outside import run_test, save_test
from .pool import TwinPool, TwinProcess
from .staging import ByPerson, events_of
from .twin import KEPT
from .views import state_of

_BESIDE: Final = 20
"""Maximum number of a chat's other conversations that a branch receives."""
_COMPARED: Final = 200
"""Maximum number of conversations that are tried under new code."""
_LISTED: Final = ("chat_id", "conversation", "route", "kind", "started_at", "updated_at")
"""Columns of a conversation's row in the list."""
_SOURCES: Final = 1_000
"""Count of the source numbers that are reserved for each section of a pass."""
_FRAME: Final = re.compile(r'^ *File "(.+)", line (\d+), in (\S+)', re.MULTILINE)
_GONE: Final = "the process in which it was has ended"


@final
@guarded
class _InTwin:
    """The section of a pass that one process has replayed and keeps.

    Attributes:
        id: the pass's id in that process.
        first: number of the first notch.
        source: number of the first source.
    """

    twin: TwinProcess
    id: str
    first: int
    source: int


@final
@attrs.define(eq=False)
class _Open:
    """A pass that a page has opened.

    Attributes:
        parts: the sections of the pass, one for each build that ran the conversation, in order.
        now: the whole pass under the present code, or under the last build if the present code can't be
            loaded.
        head: head of the pass; None until the pass is ready.
        failed: why the pass failed; empty if it didn't fail.
        beside: the other journals of a chat outside the bot's store; None: the store has these journals.
        marks: kills and restarts of the process, for a chat outside the bot's store.
    """

    id: str
    chat_id: int
    conversation: int
    parts: list[_InTwin] = attrs.field(factory=lambda: list[_InTwin]())
    now: _InTwin | None = None
    head: JsonObject | None = None
    failed: str = ""
    beside: Sequence[Sequence[JsonObject]] | None = None
    marks: Sequence[JsonObject] = ()

    @property
    def every(self) -> list[_InTwin]:
        """The sections of the pass, and the whole pass under the present code."""
        return self.parts if self.now is None else [*self.parts, self.now]

    @property
    def gone(self) -> bool:
        """Whether a process of the pass has ended."""
        return any(part.twin.ended for part in self.every)


@final
@guarded
class _PageBranch:
    """A branch that a page has opened.

    Attributes:
        kills: kills and restarts of the bot's process before the branch.
        origin: the journal whose answers are repeated; None for a branch at a notch.
    """

    twin: TwinProcess
    kills: Sequence[JsonValue] = ()
    origin: Sequence[JsonObject] | None = None


@final
class Twins:
    """Opens passes and branches, and answers the page's requests.

    Args:
        command: command line of a twin; the descriptor of its socket is appended.
        environ: complete environment of the twins.
        bot: ``MODULE:BOT``.
        tell: called after each change.

    Attributes:
        pool: the twins; `TwinPool.run` must run while passes are open.
        may_take: returns whether new code may replace the conversation, given the conversation's row.
        why_not_take: returns why a branch still can't replace its conversation; None if it can.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        bot: str,
        journals: StoredJournals,
        tell: Callable[[], object],
    ) -> None:
        self._bot = bot
        self._journals = journals
        self._tell = tell
        self.pool = TwinPool(command, environ, bot, tell)
        self._numbers = itertools.count(1)
        self._passes: OrderedDict[str, _Open] = OrderedDict()
        self._branches: dict[str, _PageBranch] = {}
        self.may_take: Callable[[JsonObject], bool] = lambda _: False
        self.why_not_take: Callable[[str], Awaitable[str | None]] = _no_reason

    # --- new code

    async def journals_now(self) -> list[Sequence[JsonObject]]:
        """Read the journals of the open conversations, at most `_COMPARED`, before the bot's process loads
        new code.
        """
        found: list[Sequence[JsonObject]] = []
        with suppress(TravelError):
            for row in (await self._journals.waiting())[-_COMPARED:]:
                found.append(await self._journals.journal(cast("int", row["conversation"])))
        return [lines for lines in found if lines]

    async def compare(
        self, journals: Sequence[Sequence[JsonObject]]
    ) -> tuple[int, Sequence[str], list[JsonObject]]:
        """Replay `journals` under the present code.

        Returns:
            The number of conversations that fit the new code; descriptions of lines with changed words; and,
            for each conversation that the new code would park, the difference between code and journal (see
            `parting.parting_of`).

        Raises:
            TravelError: the new code can't be loaded, or a process has ended.
        """
        fits, texts, parts = 0, dict[str, None](), list[JsonObject]()
        twin = await self.pool.present()
        await twin.ask("know", code=await self._journals.code())
        for lines in journals:
            answer = await twin.ask("compare", lines=lines)
            if (parting := answer["parting"]) is None:
                fits += 1
                texts |= dict.fromkeys(answer["reworded"])
            else:
                names = ("chat_id", "conversation", "route")
                parts.append({**{name: lines[0][name] for name in names}, **parting})
        return fits, list(texts), parts

    # --- the page's requests

    def view(self) -> list[JsonValue]:
        """Return the state of each pass as JSON: ready, failed for a reason, or not ready yet."""
        return [
            {
                "id": one.id,
                "chat_id": one.chat_id,
                "conversation": one.conversation,
                "ready": one.head is not None and not one.gone,
                "failed": one.failed or (_GONE if one.gone else ""),
            }
            for one in self._passes.values()
        ]

    async def conversations(self, chat_id: int) -> JsonValue:
        """Return a chat's conversations, newest first."""
        rows = await self._journals.conversations(chat_id)
        views = [view_row(row) for row in reversed(rows) if row["chat_id"] == chat_id]
        for one in views[:_BESIDE]:
            with suppress(TriobotError):  # the journal may have been deleted just now
                lines = await self._journals.journal(cast("int", one["conversation"]))
                records = read_exported(lines).records
                one |= {"taken": [*_taken(records)], "state": view_row(lines[0], records)["state"]}
        return {"conversations": list[JsonValue](views)}

    async def open(self, chat_id: int, conversation: int) -> JsonValue:
        """Start a pass over a conversation, under the builds that ran the conversation and under the present
        code. `view` shows when the pass is ready.
        """
        lines = await self._journal(chat_id, conversation)
        return self._begin(_Open(f"p{next(self._numbers)}", chat_id, conversation), lines)

    async def _journal(self, chat_id: int, conversation: int) -> Sequence[JsonObject]:
        lines = await self._journals.journal(conversation)
        if not lines or lines[0].get("chat_id") != chat_id:
            raise TravelError("this chat has no such conversation")
        return lines

    def open_view(self, journals: Sequence[Sequence[JsonObject]], marks: Sequence[JsonObject]) -> JsonValue:
        """Start a pass over the first of `journals`. The journals' chat is not in the bot's store.

        Args:
            marks: kills and restarts of the process that wrote the journals.
        """
        lines, *beside = journals
        chat_id, conversation = (cast("int", lines[0][name]) for name in ("chat_id", "conversation"))
        id = f"p{next(self._numbers)}"
        return self._begin(_Open(id, chat_id, conversation, beside=beside, marks=marks), lines)

    def _begin(self, one: _Open, lines: Sequence[JsonObject]) -> JsonValue:
        nursery = self.pool.nursery()
        self._passes[one.id] = one
        while len(self._passes) > KEPT:
            self._passes.popitem(last=False)
        nursery.start_soon(self._pass, one, lines)
        self._tell()
        return {"id": one.id}

    async def _pass(self, one: _Open, lines: Sequence[JsonObject]) -> None:
        try:
            stored = read_exported(lines)
            code = await self._journals.code() if one.beside is None else ()
            stretches = stretches_of(stored, code) if one.beside is None else list[Stretch]()
            last, broken = stretches[-1].digests if stretches else None, ""
            try:
                present = await self.pool.present()
            except TravelError as error:
                if last is None:
                    raise
                present, broken = await self.pool.build(last, code), str(error)
            stretches = stretches or [Stretch(0, 0, None, present.digests)]
            heads, builds, known = list[JsonObject](), list[JsonValue](), True
            compares = last is not None and not last <= present.digests
            if compares:
                await present.ask("know", code=code)
            for stretch in stretches:
                upto = stretch.last if stretch is not stretches[-1] else None
                twin, known = present, stretch.digests is not None
                if stretch.digests is not None and not stretch.digests <= present.digests:
                    try:
                        twin = await self.pool.build(stretch.digests, code, [part.twin for part in one.parts])
                    except TravelError:  # a module that the old code imports may be missing by now
                        known = False
                given = {"upto": upto, "knows": known, "compares": compares and twin is present}
                part, head = await self._in_twin(one, twin, lines, len(heads), stretch.first, **given)
                one.parts.append(part)
                heads.append(head)
                builds.append({"first": stretch.first, "since": stretch.since, "known": known})
            shown = now = heads[-1]
            one.now = part = one.parts[-1]
            if one.now.twin is not present:
                given = {"upto": None, "knows": True, "compares": compares}
                one.now, now = await self._in_twin(one, present, lines, len(heads), 0, **given)
                heads.append(now)
            began = cast("int", shown["started_at"])
            marks = self._journals.marks(began) if one.beside is None else one.marks
            steps = [mark["steps"] for mark in marks if mark.get("conversation") == one.conversation]
            texts: Any = steps[-1] if steps else ()
            for failure, words in zip(cast("Any", shown["failures"]), texts, strict=False):
                if words and not failure["causes"]:
                    failure["step"] = words
                    of_step = await part.twin.ask("frames", id=part.id, frames=_FRAME.findall(words))
                    failure["frames"] += of_step["frames"]
                    failure["v"] += [{} for _ in of_step["frames"]]
                    shown["sources"] = of_step["sources"]
            marks = [mark for mark in marks if mark["what"] != "failure"]
            sources = [source for head in heads for source in cast("list[JsonValue]", head["sources"])]
            one.head = {**shown, "id": one.id, "marks": list[JsonValue](marks), "sources": sources}
            one.head |= {"code": now["code"], "builds": builds, "now": None, "broken": broken}
            if len(heads) > 1 or not known:
                one.head["now"] = {"divergence": now["divergence"], "says": now["says"]}
        except TriobotError as error:
            one.failed = str(error)
        self._tell()

    async def _in_twin(
        self,
        one: _Open,
        twin: TwinProcess,
        lines: Sequence[JsonObject],
        place: int,
        first: int,
        **given: Any,
    ) -> tuple[_InTwin, JsonObject]:
        """Replay a journal, or some turns of a journal, in `twin`; return the section and its head."""
        found = _InTwin(twin, f"{one.id}.{place}", first, _SOURCES * place)
        return found, await twin.ask("open", id=found.id, lines=lines, sources_from=found.source, **given)

    def passed(self, id: str) -> JsonObject:
        """Return a pass's head, or only its id while the pass isn't ready."""
        one = self._find(id)
        if one.failed:
            raise TravelError(one.failed)
        return one.head or {"id": one.id}

    async def notches(self, id: str, start: int, end: int) -> JsonValue:
        """Return the notches from `start` to `end` (exclusive), at most to the end of one build's section."""
        part, end = self._at(id, start, end)
        return cast("JsonValue", await part.twin.ask("notches", id=part.id, start=start, end=end))

    async def path(self, id: str, start: int, end: int) -> JsonValue:
        """Return the paths of the turns from `start` to `end` (exclusive), at most to a section's end."""
        part, end = self._at(id, start, end)
        return cast("JsonValue", await part.twin.ask("path", id=part.id, start=start, end=end))

    async def source(self, id: str, source: int) -> str:
        parts = self._ready(id).every
        part = next((part for part in reversed(parts) if part.source <= source), parts[0])
        return cast("str", await part.twin.ask("source", id=part.id, source=source))

    def _at(self, id: str, notch: int, end: int) -> tuple[_InTwin, int]:
        """Return the section of pass `id` that contains `notch`, and the lesser of `end` and the section's
        end.
        """
        one = self._ready(id)
        part = next((part for part in reversed(one.parts) if part.first <= notch), one.parts[0])
        return part, min([end, *(other.first for other in one.parts if other.first > notch)])

    def _ready(self, id: str) -> _Open:
        one = self._find(id)
        if one.head is None:
            raise TravelError(one.failed or "this pass is not ready yet")
        return one

    # --- branches

    async def branch(
        self, id: str, notch: int, *, group: bool | None, asks: Sequence[str] = ()
    ) -> JsonObject:
        """Open a branch at a notch of a pass; return the branch's state."""
        one, now = self._present(id)
        given = await self._around(one, group)
        asked = {"of": now.id, "notch": notch, "asks": list(asks), "sent": await _sent(one)}
        return await self._begin_branch(_PageBranch(now.twin, _kills(one)), "branch", **asked, **given)

    async def same_answers(
        self,
        chat_id: int,
        conversation: int,
        *,
        group: bool | None,
        numbers: int,
        asks: Sequence[str] = (),
        said: Sequence[JsonValue] = (),
    ) -> JsonObject:
        """Open a branch in which the present code gets the recorded answers; return the branch's state."""
        lines = await self._journal(chat_id, conversation)
        beside, twin = await self._beside(chat_id, conversation), await self.pool.present()
        chat: dict[str, Any] = {"beside": beside, "group": group, "numbers": numbers, "said": said}
        asked = {**chat, "lines": lines, "asks": list(asks), "code": await self._journals.code()}
        return await self._begin_branch(_PageBranch(twin, origin=lines), "same answers", **asked)

    async def _begin_branch(self, branch: _PageBranch, do: str, **asked: Any) -> JsonObject:
        id = f"b{next(self._numbers)}"
        look = await branch.twin.ask(do, id=id, **asked)
        self._branches = {old: one for old, one in self._branches.items() if not one.twin.dead}
        self._branches[id] = branch
        return await self._looks(id, look)

    async def _looks(self, id: str, look: JsonObject) -> JsonObject:
        """Return the branch's state `look`, and add whether the branch can replace its conversation."""
        origin = self._branches[id].origin
        may = origin is not None and not look["asked"] and self.may_take(origin[0])
        why = await self.why_not_take(id) if may else None
        return {**look, "can_take": may and why is None, "cannot_take": why}

    def origin(self, id: str) -> Sequence[JsonObject]:
        """Return the journal whose answers are repeated in a branch of new code.

        Raises:
            TravelError: the branch is gone, or was opened at a notch.
        """
        if (origin := self._find_branch(id).origin) is None:
            raise TravelError(
                "this branch was opened at a notch: nothing takes its chat's place", refused=True
            )
        return origin

    async def in_branch(self, id: str, what: str, given: Mapping[str, object]) -> JsonObject:
        """Run one command in a branch: ``look``, ``act``, ``wait``, ``step`` or ``answers``."""
        look = await self._find_branch(id).twin.ask("in branch", id=id, what=what, given=given)
        return await self._looks(id, look)

    async def replacement(self, id: str) -> JsonObject:
        """Return a branch's conversation under the new code as JSON, for `replacement_of`."""
        return cast("JsonObject", await self._find_branch(id).twin.ask("replacement", id=id))

    async def close_branch(self, id: str) -> None:
        branch = self._find_branch(id)
        del self._branches[id]
        await branch.twin.ask("close branch", id=id)

    async def keep(self, id: str, notch: int | None, *, group: bool | None) -> JsonValue:
        """Write and run a test of pass `id` up to `notch`, or of branch `id`. Save the test if it passes.

        Args:
            notch: number of the last notch in the test; None if `id` is a branch.
        """
        if notch is None:
            branch = self._find_branch(id)
            text = await branch.twin.ask("branch test", id=id, kills=branch.kills)
        else:
            one, now = self._present(id)
            given = await self._around(one, group)
            text = await now.twin.ask("test", of=now.id, notch=notch, kills=_kills(one), **given)
        folder = _folder_of(self._bot)
        kept = await run_test(cast("str", text), folders=[folder])
        answer: JsonObject = attrs.asdict(kept)
        if kept.passed:
            try:
                answer["path"] = str(save_test(Path(folder), kept.text).relative_to(folder))
            except OSError as error:
                answer["unsaved"] = str(error)
        return answer

    async def _around(self, one: _Open, group: bool | None) -> dict[str, Any]:
        """Return the chat's other journals, and whether the chat is a group."""
        if one.beside is None:
            return {"beside": await self._beside(one.chat_id, one.conversation), "group": group}
        # The bot's own chat with this number is a different chat.
        return {"beside": one.beside[-_BESIDE:], "group": None}

    async def _beside(self, chat_id: int, conversation: int) -> list[JsonValue]:
        """Return the journals of a chat's other conversations, at most the newest `_BESIDE` of them."""
        rows = await self._journals.conversations(chat_id)
        others = [row for row in rows if row["chat_id"] == chat_id and row["conversation"] != conversation]
        found: list[JsonValue] = []
        for row in others[-_BESIDE:]:
            with suppress(TravelError):  # the journal may have been deleted just now
                found.append(list[JsonValue](await self._journals.journal(cast("int", row["conversation"]))))
        return [lines for lines in found if lines]

    def _find_branch(self, id: str) -> _PageBranch:
        found = self._branches.get(id)
        if found is None or found.twin.dead:
            raise TravelError("this branch is gone: open it again", gone=True)
        return found

    async def close(self, id: str) -> None:
        one = self._passes.pop(id, None)
        for part in [] if one is None else one.every:
            if not part.twin.dead:
                with suppress(TravelError):
                    await part.twin.ask("close", id=part.id)
        self._tell()

    def _present(self, id: str) -> tuple[_Open, _InTwin]:
        """Return a pass that is ready, and its replay under the present code (`_Open.now`)."""
        one = self._ready(id)
        assert one.now is not None
        return one, one.now

    def _find(self, id: str) -> _Open:
        one = self._passes.get(id)
        if one is None or one.gone:
            raise TravelError("this pass is gone: open it again", gone=True)
        return one


async def _no_reason(_: str) -> None:
    await trio.lowlevel.checkpoint()


async def _sent(one: _Open) -> JsonObject:
    """Return the texts of sent messages, by operation, from replays under the builds that sent them."""
    sent: JsonObject = {}
    with suppress(TravelError):
        # The replay of a section also ran the turns of earlier sections, but with the later build's texts. So
        # texts from earlier sections overwrite texts from later sections.
        for part in reversed(one.parts):
            sent |= await part.twin.ask("sent", id=part.id)
    return sent


def _kills(one: _Open) -> list[JsonValue]:
    """Return the kills and restarts in a pass, each as its time and whether it was a restart."""
    marks = [] if one.head is None else cast("list[JsonObject]", one.head["marks"])
    return [[mark["t"], mark["what"] == "restart"] for mark in marks]


def _folder_of(bot: str) -> str:
    """Return the folder that contains the module of ``MODULE:BOT``."""
    place = Path(bot.rpartition(":")[0])
    return str(place.resolve().parent if place.suffix == ".py" else Path.cwd())


def _taken(records: Iterable[Record]) -> Iterator[JsonValue]:
    """Yield the times of people's acts that a conversation received, from its journal."""
    for record in records:
        with suppress(TriobotError):  # the class of the author's event may have changed
            done = [one for one in events_of(record) if isinstance(one, ByPerson)]
            yield from [time_of(record)] * len(done)


def view_row(row: JsonObject, records: Iterable[Record] = ()) -> JsonObject:
    """Return a conversation's entry for the page's list, without people's texts.

    Args:
        records: the journal's records, if available; they show how the conversation ended.
    """
    over, failed = row.get("ended_at") is not None, row.get("error") is not None
    because = row.get("parked_because")
    state = state_of(records, over=over, failed=failed, parked=because is not None)
    return {name: row[name] for name in _LISTED} | {"state": state, "because": because}
