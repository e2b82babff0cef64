"""Notches: a conversation's state at each of its turns, recorded while its journal is replayed.

A notch is recorded when all tasks are blocked, before the replay begins the journal's next turn. A notch
contains the operations in which the conversation's tasks wait, the author's lines with their variables, the
open blocks, the chat's data, and the messages sent in the turn. A page gets the first notch complete, and
each later notch as differences from the previous notch (see `changes`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from inspect import CO_COROUTINE
from itertools import islice, zip_longest
from types import FrameType, TracebackType
from typing import Final, cast, final

import attrs
import trio

from ...base.frozen import guarded
from ...conversations.chat import Chat, Room
from ...conversations.inspection.replay_state import authors_frames
from ...conversations.revival.stored import Stored, read_opening
from ...conversations.running.branches import Onlooker, OperationKind
from ...conversations.running.lines import frames_of, is_authors, running_frames
from ...emulator.views import JsonObject
from ...engine import Record, Run
from ...engine.records import (
    ABSENT,
    CONTINUED,
    DONE,
    ENDED,
    FAILED,
    FIRED,
    OUTCOMES,
    TURNS,
    Id,
    Node,
    time_of,
)
from ...errors import UnreadableRecordError
from ...seams.values import decode_value
from ...wire.ids import MessageId
from ...wire.operations import Operation
from ...wire.rules import JsonValue
from .values import PLAIN, shown
from .views import dot_of, error_words, view_event, view_operation, view_record

FORMAT: Final = 1
SECONDS: Final = 2.0
"""Processor time in seconds, after which a notch reads only the variables of branches that ran in the turn.
"""
CAUSES: Final = 8
"""Maximum length of a shown chain of causes."""
FRAMES: Final = 50
"""Maximum number of shown frames of one branch: the ten outermost, and the innermost."""
NAMES: Final = 200
"""Maximum number of shown variables of one frame."""
_OUTER: Final = 10

_WORDS: Final = {
    "receive": "an answer",
    "send": "a delivery",
    "answer": "the answer to a press",
    "sleep": "its time",
    "verify": "the ledger",
}

_WORDED: Final = frozenset({"text", "content", "buttons", "form", "keyboard", "raw", "reworded"})
"""Fields of a sent message that depend on the code's wording."""

Frames = list[tuple[FrameType, int]]
Write = Callable[[object], str]


@final
@attrs.define(eq=False)
class _Strand:
    """The last recorded state of one branch.

    Attributes:
        operation: the operation in which the branch waits; None if the branch doesn't wait, or if the
            operation isn't known.
        texts: texts of the variables, by frame.
    """

    operation: Id | None = None
    frames: Frames = attrs.field(factory=lambda: Frames())
    texts: list[dict[str, str]] = attrs.field(factory=lambda: list[dict[str, str]]())


@final
@guarded
class NotchState:
    """A conversation's state at a notch, in the format of `docs/travel.schema.json`.

    Successive states share the objects of unchanged values.

    Attributes:
        parked: the waits of the branches.
        blocks: the open blocks.
        data: the chat's data that the code has read or changed, by key; None for a missing value.
        f: source, line and function of the frames, outermost first, by branch.
        v: texts of the variables, by branch and frame.
    """

    parked: list[JsonValue] = attrs.field(factory=lambda: list[JsonValue]())
    blocks: list[JsonValue] = attrs.field(factory=lambda: list[JsonValue]())
    data: dict[str, JsonValue] = attrs.field(factory=lambda: dict[str, JsonValue]())
    f: dict[str, list[JsonValue]] = attrs.field(factory=lambda: dict[str, list[JsonValue]]())
    v: dict[str, list[dict[str, str]]] = attrs.field(factory=lambda: dict[str, list[dict[str, str]]]())

    def view(self) -> JsonObject:
        return attrs.asdict(self, recurse=False)


def changes(before: NotchState, now: NotchState) -> JsonObject:
    """Return the values of a state that differ from `before`; None for a removed branch or variable."""
    changed: JsonObject = {}
    for name in ("parked", "blocks"):
        if getattr(now, name) != getattr(before, name):
            changed[name] = getattr(now, name)
    gone: JsonObject = {path: None for path in before.f if path not in now.f}
    lines: JsonObject = {path: one for path, one in now.f.items() if one != before.f.get(path)}
    if lines or gone:
        changed["f"] = {**lines, **gone}
    variables: JsonObject = {
        path: _changed(before.v.get(path, []), frames)
        for path, frames in now.v.items()
        if frames is not before.v.get(path)
    }
    if variables or gone:
        changed["v"] = {**variables, **gone}
    missing = object()
    if data := {key: one for key, one in now.data.items() if before.data.get(key, missing) != one}:
        changed["data"] = data
    return changed


def _changed(before: list[dict[str, str]], now: list[dict[str, str]]) -> list[JsonValue]:
    changed: list[JsonValue] = []
    for frame, known in zip_longest(now, before[: len(now)], fillvalue=dict[str, str]()):
        new: JsonObject = {name: text for name, text in frame.items() if known.get(name) != text}
        changed.append({**new, **{name: None for name in known if name not in frame}})
    return changed


@final
class Notches(Onlooker):
    """Records a notch at each turn of a journal.

    Args:
        seconds: see `SECONDS`.
        write: returns the text of a variable.
        sources_from: number for the first file in `sources`; the following files get the following numbers.
        knows: whether the code is the build that wrote the journal. If not, only words whose digest matches
            the journal are shown.

    Attributes:
        notches: the turns, each without the state at the turn's end.
        states: the state at each notch.
        sources: the author's files, in the order of their numbers.
    """

    def __init__(
        self,
        stored: Stored,
        *,
        seconds: float = SECONDS,
        write: Write = shown,
        sources_from: int = 0,
        knows: bool = True,
    ) -> None:
        self.notches: list[JsonObject] = []
        self.sources: list[str] = []
        self.states: list[NotchState] = []
        records = stored.records
        self._stored = stored
        self._places = [0, *(n for n, record in enumerate(records) if record[0] in TURNS)]
        self._until = time.thread_time() + seconds
        self._write = write
        self._knows = knows
        self.sources_from = sources_from
        self._ids: dict[str, int] = {}
        self._handed: dict[str, JsonObject] = {}
        self._labels: dict[tuple[object, str], str] = {}
        self._lines: dict[str, JsonValue] = {}
        self._out: list[JsonValue] = []
        self._seen: dict[str, _Strand] = {}
        self._first: list[FrameType] = []
        self._standing = NotchState()
        self._over = False

    # --- during the replay

    def begins(self, id: Id, kind: OperationKind) -> None:
        """Record the line that opens a block."""
        if kind is OperationKind.SCOPE and not self._over:
            self._lines[str(id)] = self._line_here()

    def sends(self, id: Id, operation: Operation[object]) -> None:
        """Record an operation that goes to the outbox in this turn."""
        if self._over:
            return
        view = {"id": str(id), **view_operation(operation, self._stored.row.chat_id)}
        if (line := self._line_here()) is not None:
            view["line"] = line
        self._handed[str(id)] = view
        self._out.append(view)

    def tidies(self, message_id: MessageId) -> None:
        """Record that a message loses its buttons in this turn."""
        if not self._over:
            self._out.append({"id": "", "kind": "tidy", "message_id": message_id})

    def looks(self, run: Run) -> None:
        """Record the notch of the turn that has just ended."""
        given = run.journal.given
        if self._over or given < len(self.notches):
            return
        # A variable's own code, such as `__repr__`, may run here and draw random numbers. Each draw uses an
        # id. So the branches' counts of ids are restored.
        branches = run.branches
        counts = [branch.count for branch in branches]
        while len(self.notches) < given:
            self._add(self._turn(len(self.notches)))
        notch = self._turn(given)
        self._standing = self._stands(notch, run)
        self._add(notch)
        for branch, count in zip(branches, counts, strict=True):
            branch.count = count

    # --- after the replay

    def close(self, *, stands: bool, failures: Sequence[Exception] = ()) -> None:
        """Record the conversation's end, and the state of the turn in which the code ended.

        Args:
            stands: whether the code still waits at the last notch.
            failures: errors with which the run ended.
        """
        if self._over:
            return
        self._over = True
        if stands:
            return
        looked = len(self.notches)
        self.fill()
        last = self.notches[-1]
        if last["k"] not in ("end", "continued"):
            # The code ended in this replay, and the journal has no record of an end.
            last = {
                "n": len(self.notches),
                "t": last["t"],
                "r": last["r"],
                "id": "",
                "k": "end",
                "dot": "end",
            }
            self._add(last)
        if failures:
            last["dot"] = "crash"
        seen = self._seen.setdefault("", _Strand())
        seen.frames = self._last_frames(failures)
        self._read(seen, {})
        frames, variables = {"": self._view_places(seen.frames)}, {"": seen.texts}
        over = NotchState(data=self._standing.data, f=frames, v=variables)
        # If an operator ended the conversation, the code last ran in the last turn. Otherwise the code last
        # ran in the turn before.
        ran = len(self.notches) - (1 if looked == len(self.notches) - 1 else 2)
        self.states[ran:] = [over] * (len(self.notches) - ran)

    def fill(self) -> None:
        """Add notches, without lines and variables, for the turns that the replay did not reach."""
        while len(self.notches) < len(self._places):
            self._add(self._turn(len(self.notches)))

    def _add(self, notch: JsonObject) -> None:
        self.notches.append(notch)
        self.states.append(self._standing)

    def marks(self, changed: Collection[str]) -> JsonObject:
        """Mark the sent messages in `changed` as reworded; return their current texts, by operation.

        Args:
            changed: operations whose words have another digest than the recorded words.
        """
        says: JsonObject = {id: sent.get("text") for id, sent in self._handed.items() if id in changed}
        for id in says:
            self._handed[id]["reworded"] = True
        if not self._knows:
            completed = {str(record[2]) for record in self._stored.records if record[0] in OUTCOMES}
            for id in self._handed.keys() - (completed - says.keys()):
                sent = self._handed[id]
                for name in _WORDED & sent.keys():
                    del sent[name]
                sent["unknown"] = True
        return says

    def view_failures(self, failures: Sequence[Exception]) -> list[JsonValue]:
        """Return the errors of a conversation with frames, variables and causes."""
        return [self._view_failure(error, 0, "") for error in failures]

    def _last_frames(self, failures: Sequence[Exception]) -> Frames:
        """Return the author's frames at the end: the error's traceback, or the frame of the function that
        returned."""
        if failures:
            return _of_traceback(failures[0].__traceback__)
        # A frame that stays in memory keeps its variables and its last line.
        seen = self._seen.get("")
        held = ([] if seen is None else [frame for frame, _ in seen.frames[:1]]) or self._first
        return [(frame, frame.f_lineno) for frame in held]

    @contextmanager
    def holding(self) -> Generator[None]:
        """Keep the author's first frame in memory, since a run may end before the first notch."""
        sys.setprofile(self._calls)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _calls(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & CO_COROUTINE and is_authors(code.co_filename):
            self._first = [frame]
            sys.setprofile(None)

    def line_of(self, text: str) -> JsonValue:
        """Convert ``file:line`` to a source number and a line number; None for "?"."""
        file, _, line = text.rpartition(":")
        return [self._source(file), int(line)] if file and line.isdigit() else None

    def _view_failure(self, error: BaseException, depth: int, because: str) -> JsonObject:
        frames = _of_traceback(error.__traceback__)
        causes: list[JsonValue] = []
        if depth < CAUSES:
            cause, context = error.__cause__, None if error.__suppress_context__ else error.__context__
            if cause is not None:
                causes.append(self._view_failure(cause, depth + 1, "cause"))
            elif context is not None:
                causes.append(self._view_failure(context, depth + 1, "context"))
        view: JsonObject = {
            "error": type(error).__name__,
            "text": error_words(error),
            "frames": self._view_places(frames),
            "v": [cast("JsonValue", self._texts(frame, {})) for frame, _ in frames],
            "causes": causes,
        }
        return {**view, "because": because} if because else view

    # --- one notch

    def _turn(self, given: int) -> JsonObject:
        """Return a notch with the contents of the turn's record, and the messages that the turn sent."""
        place = self._places[given]
        record = self._stored.records[place]
        notch: JsonObject = {"n": given, "t": time_of(record), "r": place, "id": "", "k": "begin"}
        came: JsonObject | None
        if not given:
            came = self._view_start(record)
            notch["dot"] = "begin"
        else:
            came = None if record[0] in (ENDED, CONTINUED) else view_record(record)
            notch |= self._of_record(record, came)
        if came is not None and "done" not in notch:
            self._name_press(came)
            notch["in"] = came
        out, self._out = self._out, []
        if out:
            notch["out"] = out
        return notch

    def _of_record(self, record: Record, came: JsonObject | None) -> JsonObject:
        tag = record[0]
        if tag in (ENDED, CONTINUED):
            failed = tag == ENDED and record[2] is not None
            return {"k": "end" if tag == ENDED else "continued", "dot": "crash" if failed else "end"}
        view: JsonObject = {"k": "interrupt", "dot": dot_of(record, came)}
        if tag == FIRED:
            view |= {"id": str(record[2]), "k": "fired", "line": self._lines.get(str(record[2]))}
        elif tag in OUTCOMES:
            id = str(record[2])
            view |= {"id": id, "k": str(record[3]).partition(" ")[0]}
            if id in self._handed and tag == DONE:
                view["done"] = [[id, self._message_of(id, record)]]
            elif id in self._handed and tag == FAILED:
                view["failed"] = [id]
        return view

    def _view_start(self, record: Record) -> JsonObject | None:
        try:
            return view_event(read_opening(record).event)
        except UnreadableRecordError:
            return None

    def _message_of(self, id: str, record: Record) -> JsonValue:
        node: Node = record[5]
        number = sent_number(node)
        if number is not None:
            rows = cast("list[list[JsonObject]]", self._handed[id].get("buttons") or [])
            for button in (one for row in rows for one in row):
                if isinstance(data := button.get("data"), str):
                    self._labels[number, data] = str(button.get("text"))
        return number

    def _name_press(self, came: JsonObject) -> None:
        """Add the label of the pressed button to `came`, if this conversation sent the button."""
        if came["what"] != "press" or not self._knows or not isinstance(event := came.get("event"), dict):
            return
        data = str(event["data"])
        for (message_id, value), label in self._labels.items():
            if message_id == came["message_id"] and f'"{value}"' in data:
                came["label"] = came["text"] = label

    def _stands(self, notch: JsonObject, run: Run) -> NotchState:
        """Return the state at the end of a turn."""
        before, resting = self._standing, sorted(run.resting, key=lambda op: op.branch.key)
        parked: list[JsonValue] = [
            {
                "branch": op.branch.path,
                "id": str(op.id),
                "kind": op.kind,
                "due": op.due,
                "words": self._words(str(op.id), op.kind, op.print),
            }
            for op in resting
        ]
        blocks: list[JsonValue] = [
            {
                "id": str(one.id),
                "due": one.due,
                "ended": one.cancel_called,
                "line": self._lines.get(str(one.id)),
            }
            for one in run.blocks
        ]
        ids = {op.branch.path: op.id for op in resting}
        late = time.thread_time() > self._until
        lines, texts = dict[str, list[JsonValue]](), dict[int, str]()
        self._seen = {path: self._seen.get(path) or _Strand() for path in run.tasks}
        for path, task in run.tasks.items():
            seen = self._seen[path]
            ran = path not in before.f or ids.get(path) is None or seen.operation != ids[path]
            if ran:
                seen.operation, seen.frames = ids.get(path), _own_frames(task)
            lines[path] = self._view_places(seen.frames) if ran else before.f[path]
            if ran or not late:
                self._read(seen, texts)
            else:
                notch["thin"] = True
        variables = {path: seen.texts for path, seen in self._seen.items()}
        return NotchState(parked, blocks, self._data_after(run.view), lines, variables)

    def _read(self, seen: _Strand, texts: dict[int, str]) -> None:
        found = [self._texts(frame, texts) for frame, _ in seen.frames]
        if found != seen.texts:
            seen.texts = found

    def _texts(self, frame: FrameType, texts: dict[int, str]) -> dict[str, str]:
        variables = islice(variables_of(frame).items(), NAMES)
        found = [(name, self._text(name, value, texts)) for name, value in variables]
        return {name: text for name, text in found if text is not None}

    def _text(self, name: str, value: object, texts: dict[int, str]) -> str | None:
        if name.startswith(("__", ".")):
            return None
        if type(value) in PLAIN:
            return self._write(value)
        # Cached: an object in several frames is written once.
        if (text := texts.get(id(value))) is None:
            text = texts[id(value)] = self._write(value)
        return text

    def _data_after(self, view: Mapping[str, object]) -> dict[str, JsonValue]:
        """Return the chat's data that the code has read or changed."""
        data = {
            key: None if node is ABSENT else self._kept(node)
            for key, node in view.items()
            if key[:1] not in (":", "#") and not key.startswith("triobot.")
        }
        return {**self._standing.data, **data}

    def _kept(self, node: object) -> str:
        try:
            return self._write(decode_value(cast("str", node)))
        except Exception as error:  # the value's class is the author's, and may have changed
            return f"<{type(error).__name__}>"

    def _words(self, id: str, kind: str, print: str) -> str:
        """Describe the outcome for which an operation waits."""
        first = kind.partition(" ")[0]
        if first == "step":
            return f"the step {print.partition(' ')[0]}".strip()
        if first == "charge":
            return "a delivery" if id in self._handed else "the payment's number"
        return _WORDS.get(first, first)

    # --- lines

    def _line_here(self) -> JsonValue:
        """Return the line of the author's code that is running."""
        frames = authors_frames(running_frames())
        return None if not frames else self._view_places(frames[-1:])[0][:2]  # type: ignore[index]

    def _view_places(self, frames: Iterable[tuple[FrameType, int]]) -> list[JsonValue]:
        return [
            [self._source(frame.f_code.co_filename), line, frame.f_code.co_qualname] for frame, line in frames
        ]

    def _source(self, file: str) -> int:
        if (id := self._ids.get(file)) is None:
            id = self._ids[file] = self.sources_from + len(self.sources)
            self.sources.append(file)
        return id


def variables_of(frame: FrameType) -> dict[str, object]:
    """Return the variables of a frame.

    For each room or chat, add the variable ``NAME.event``; for each chat, also ``NAME.sender``.
    """
    found: dict[str, object] = {}
    for name, value in frame.f_locals.items():
        found[name] = value
        if isinstance(value, Room):
            found[f"{name}.event"] = cast("Room[object]", value).event
        if isinstance(value, Chat):
            found[f"{name}.sender"] = cast("Chat[object]", value).sender
    return found


def sent_number(node: Node) -> int | None:
    """Return the message id in the recorded outcome of a send; None if the outcome has no id."""
    try:
        number = node["sent"][1] if "sent" in node else node["class"][1]["id"]
    except (LookupError, TypeError):
        return None
    return number if isinstance(number, int) else None


def _frames_of(task: trio.lowlevel.Task) -> Frames:
    return running_frames() if task is trio.lowlevel.current_task() else frames_of(task)


def _own_frames(task: trio.lowlevel.Task) -> Frames:
    """Return the author's frames of a task; in a deep recursion, only the outermost and innermost frames."""
    frames = authors_frames(_frames_of(task))
    return frames if len(frames) <= FRAMES else [*frames[:_OUTER], *frames[_OUTER - FRAMES :]]


def _of_traceback(found: TracebackType | None) -> Frames:
    """Return the author's frames of a traceback, outermost first."""
    frames: Frames = []
    while found is not None:
        if is_authors(found.tb_frame.f_code.co_filename):
            frames.append((found.tb_frame, found.tb_lineno))
        found = found.tb_next
    return frames if len(frames) <= FRAMES else [*frames[:_OUTER], *frames[_OUTER - FRAMES :]]
