"""Writes a notch or a branch as a pytest file that uses the test kit.

The file repeats people's acts, the bot's messages, the passing of time, kills, payments and the results of
steps. All user-written text goes through `repr`, so that a text can't become code. Before the file is saved,
a separate process runs the test in an empty folder (`outside.run_test`).
"""

from __future__ import annotations

import ast
import keyword
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any, Final, cast, final

from ...base.frozen import guarded
from ...conversations.calls.signals import Call, Signal
from ...conversations.codec import CODEC
from ...conversations.data import declared_keys
from ...conversations.revival.stored import Stored, read_opening
from ...emulator.chats import (
    Change,
    Clicked,
    Edited,
    MembersChanged,
    MoneyMoved,
    PressAnswered,
    Shown,
    Submitted,
)
from ...emulator.world import World
from ...engine import Record
from ...engine.records import DONE, ENDED, FAILED, time_of
from ...errors import ConfigError, PaymentError
from ...seams.rooms import is_chat
from ...seams.values import encode_value, encoded
from ...wire.content import Contact, Content, Location, Media
from ...wire.events import Join, Leave, Message
from ...wire.ids import SenderId
from ...wire.markup import ReplyKeyboard
from .branches import LiveBranch
from .fence import Fence
from .outside import KEPT_FROM
from .past import Past, event_of
from .staging import PLENTY, ChatStage

_TICK: Final = 100
"""Longest delay of a message that counts as immediate, in milliseconds."""
_UNITS: Final = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1_000))
_DECLINED: Final = range(1001, 1004)
_TAKEN: Final = frozenset({"world", "drive", "bot", "autojump_clock", "test"})
_KINDS: Final = ("Audio", "Contact", "File", "Image", "Location", "Video", "Voice")
_INDENT: Final = " " * 8
_LARGEST: Final = 1_000_000
"""Largest file in a test, in bytes; journals don't contain files' contents."""


@final
@guarded
class Kill:
    """A kill, or a graceful restart, of the bot's process.

    Attributes:
        at: wall milliseconds.
        restart: whether the process was stopped gracefully.
    """

    at: int
    restart: bool = False


@final
@guarded
class _Line:
    """A line of the test.

    Attributes:
        seq: sort key: the number of a platform change, then the order of the lines for this change.
        does: whether the line is an act, which must come at its exact time.
    """

    seq: tuple[int, int]
    at: int
    code: str
    does: bool = False


def write_test(
    target: str,
    past: Past,
    *,
    branch: LiveBranch | None = None,
    beside: Sequence[Stored] = (),
    kills: Sequence[Kill] = (),
    group: bool | None = None,
) -> str:
    """Return a test of the conversation up to a notch, or of a branch from the notch.

    Args:
        target: the bot, as ``MODULE:BOT``.
        beside: journals of the chat's other conversations, for the results of their steps.
        kills: kills and restarts of the process.
        group: whether the chat is a group; None: the journal decides.

    Raises:
        ConfigError: a test can't express this conversation, such as a room's conversation, or one that a
            payment began.
    """
    return _Written(target, past, branch, beside, kills, group).text()


@final
class _Written:
    def __init__(
        self,
        target: str,
        past: Past,
        branch: LiveBranch | None,
        beside: Sequence[Stored],
        kills: Sequence[Kill],
        group: bool | None,
    ) -> None:
        if not is_chat(past.chat_id):
            raise ConfigError("only a chat's conversation can be kept as a test, and this is a room's")
        self._module, self._name = _module_of(target)
        self._past = past
        self._branch = branch
        self._beside = beside
        self._kills = kills
        self._imports: set[tuple[str, str]] = set()
        if branch is not None:
            self._world, self._stage = branch.exchange.world, branch.stage
        else:
            self._world = World(chance=random.Random(0))
            fence = Fence(past.chat_id, self._world, lambda: past.at)
            self._stage = ChatStage(self._world, past, fence, group=group)
            self._stage.play()
        self._names = self._name_people()
        self._began = time_of(past.whole.records[0])

    @property
    def _until(self) -> int:
        return self._past.at if self._branch is None else self._branch.now

    def text(self) -> str:
        lines = list(self._timed(sorted(self._lines(), key=lambda line: line.seq)))
        steps = list(self._steps())
        people = list(self._people())
        begins = list(self._beginning())
        body = [*people, *begins, *lines, *self._money(), *self._alarms()]
        head = list(self._head([*steps, *body]))
        return "\n".join([*head, *(f"{_INDENT}{line}" if line else "" for line in body), ""])

    # --- around the lines

    def _head(self, lines: Sequence[str]) -> Iterator[str]:
        kinds = [kind for kind in _KINDS if any(f"({kind}" in line for line in lines)]
        of_kit = ["drive", *(["recorded"] if any("recorded(" in line for line in lines) else [])]
        steps = list(self._steps())
        yield f'"""{KEPT_FROM}{self._past.stored.row.route}, up to one of its turns."""'
        yield ""
        if kinds:
            yield f"from triobot import {', '.join(kinds)}"
        if any("StepError(" in line for line in lines):
            yield "from triobot.errors import StepError"
        yield f"from triobot.testing import {', '.join(of_kit)}"
        yield ""
        imports = {*self._imports, (self._module, self._name)}
        for module in sorted({module for module, _ in imports}):
            yield f"from {module} import {', '.join(sorted(name for one, name in imports if one == module))}"
        yield ""
        if steps:
            yield "# What the steps returned, or raised, in their order."
            yield "STEPS = {"
            yield from steps
            yield "}"
            yield ""
        if self._pays():
            yield f"PLENTY = {PLENTY}"
            yield ""
        yield ""
        who = next(iter(self._names.values()), "nobody")
        yield f"async def test_{who}(autojump_clock: object) -> None:"
        given = ", steps=STEPS" if steps else ""
        yield f"    async with drive({self._name}{given}) as world:"

    def _name_people(self) -> dict[SenderId, str]:
        names: dict[SenderId, str] = {}
        for user in self._stage.people.values():
            name = _variable_of(user.name)
            while name in names.values() or name in ("group", "chat"):
                name += "_"
            names[user.id] = name
        return names

    def _people(self) -> Iterator[str]:
        chat = self._past.chat_id
        joined = self._joined()
        for sender, user in self._stage.people.items():
            given = [repr(user.name), "wallet=PLENTY"] if self._pays() else [repr(user.name)]
            given += [] if sender is None else [f"id={sender}"]
            given += [] if self._stage.group else [f"chat_id={chat}"]
            given += ["joined=True"] if user.id in joined and not self._stage.group else []
            yield f"{self._names[user.id]} = world.user({', '.join(given)})"
        if self._stage.group:
            members = [self._names[id] for id in self._names if id in joined]
            yield f"group = await world.group({', '.join([*members, f'id={chat}'])})"
            for name in self._names.values():
                yield f"{name} = {name}.at(group)"

    def _joined(self) -> set[SenderId]:
        """Return the people who were members of the chat before the journal began."""
        joined = {user.id for user in self._stage.people.values()}
        for sender, user in self._stage.people.items():
            events = (event_of(record) for record in self._past.stored.records)
            first = next((one for one in events if one is not None and _id_of(one) == sender), None)
            if isinstance(first, Join):
                joined.discard(user.id)
        return joined

    def _pays(self) -> bool:
        return any(isinstance(change.what, MoneyMoved) for change in self._changes())

    def _beginning(self) -> Iterator[str]:
        """Yield the setup before the first act: the chat's data, and the start by code or a signal."""
        keys = {key.name: key for key in declared_keys()}
        for name, text in self._kept_first().items():
            if (place := _place_of(keys.get(name))) is None:
                yield f"# the chat kept something under {name!r}, which can't be written down here"
                continue
            self._imports.add(place)
            chat, key = self._past.chat_id, place[1]
            yield f"await {self._name}.to({chat}).set({key}, {key}.load({text!r}))"
        event = cast("object", read_opening(self._past.whole.records[0]).event)
        match event:
            case Call() as call:
                yield self._started(call)
            case Signal() as signal:
                chat = self._past.chat_id
                yield f"await {self._name}.to({chat}).signal({self._expression(signal.value)})"
            case Join() | Leave() | Message():
                pass
            case _:
                raise ConfigError("what began this conversation can't be written down as a test")

    def _started(self, call: Call) -> str:
        module, _, name = call.name.rpartition(".")
        handler: object = getattr(sys.modules.get(module), name, None)
        if not callable(handler) or (call.value is not None and "Captured" in type(call.value).__name__):
            raise ConfigError(
                "this conversation was begun by code or by a payment: keep the one that did that as a test"
            )
        self._imports.add((module, name))
        args = "".join(f", {self._expression(arg)}" for arg in call.args)
        key = "" if call.key is None else f", key={call.key!r}"
        return f"await {self._name}.to({self._past.chat_id}).start({name}{args}{key})"

    def _kept_first(self) -> Mapping[str, str]:
        """Return the chat's values that the conversation read before it wrote the same key."""
        found: dict[str, str | None] = {}
        written: set[str] = set()
        for record in self._past.stored.records:
            if record[0] == "N" and record[3] not in written:
                found.setdefault(record[3], record[4] if len(record) > 4 else None)
            elif record[0] == "P":
                written.add(str(record[3]))
        return {name: text for name, text in found.items() if text is not None}

    def _money(self) -> Iterator[str]:
        """Yield an assertion for each wallet with a changed amount."""
        left = {user.id: PLENTY for user in self._stage.people.values()}
        for moved in (change.what for change in self._changes()):
            if isinstance(moved, MoneyMoved) and moved.currency == "IRR" and moved.what != "captured":
                left[moved.user_id] += -moved.amount if moved.what == "paid" else moved.amount
        for id, rials in left.items():
            if rials != PLENTY:
                yield f'assert (await {self._names[id]}.wallet())["IRR"] == PLENTY - {PLENTY - rials}'

    def _alarms(self) -> Iterator[str]:
        kinds = [alarm.kind for alarm in self._branch.alarms] if self._branch is not None else []
        kinds += ["declined_by_code" for _, _, code in self._stage.declined if code in _DECLINED]
        last = self._past.stored.records[-1]
        failed = last[0] == ENDED and last[2] is not None
        if failed and not isinstance(CODEC.error_of(last[2]), PaymentError):
            kinds.append("conversation_crashed")
        if kinds:
            yield "await world.waits(seconds=1)"
        yield from (f"world.takes_alarm({kind!r})" for kind in dict.fromkeys(kinds))

    # --- steps

    def _steps(self) -> Iterator[str]:
        """Yield the results of the steps by function name, without steps that the developer ran for real."""
        results: dict[str, list[str]] = {}
        ran = {done.name for done in (self._branch.steps if self._branch else ()) if done.how == "ran"}
        for name, outcome in self._done():
            if name not in ran:
                results.setdefault(name, []).append(self._expression(outcome))
        for name, outcomes in results.items():
            yield f"    {name!r}: [{', '.join(outcomes)}],"

    def _done(self) -> Iterator[tuple[str, object]]:
        found: list[tuple[int, Record]] = []
        for stored in (self._past.stored, *self._beside):
            for record in stored.records:
                at = time_of(record)
                if record[0] in (DONE, FAILED) and record[3] == "step" and self._began <= at <= self._past.at:
                    found.append((at, record))
        for _, record in sorted(found, key=lambda one: one[0]):
            yield str(record[4]).partition(" ")[0], _outcome_of(record)
        if self._branch is not None:
            yield from ((done.name, done.outcome) for done in self._branch.steps)

    def _expression(self, value: object) -> str:
        if isinstance(value, Exception):
            return self._error(value)
        if (recorded := encoded(value)) is None:
            return "None"
        with suppress(Exception):  # the text is no literal, or the author's `__repr__` failed
            if encode_value(ast.literal_eval(text := repr(value))) == recorded:
                return text
        return f"recorded({recorded!r})"

    def _error(self, error: Exception) -> str:
        kind = type(error)
        if kind.__module__ not in ("builtins", "triobot.errors"):
            self._imports.add((kind.__module__, kind.__qualname__))
        return f"{kind.__qualname__}({', '.join(map(repr, error.args))})"

    # --- acts and messages

    def _changes(self) -> Iterator[Change]:
        for change in self._world.changes(0):
            if change.what.chat_id == self._past.chat_id:
                yield change

    def _lines(self) -> Iterator[_Line]:
        for change in self._changes():
            for code, does in self._of_change(change):
                yield _Line((change.seq, 0), change.at, code, does)
        payer = next(iter(self._names.values()), "nobody")
        for seq, at, number in self._stage.declined:
            yield _Line((seq, 1), at, f"await {payer}.pays(code={number})", does=True)
        yield from self._of_diary()
        yield from self._of_kills()
        if self._branch is not None:
            yield _Line((sys.maxsize, 0), self._until, "")
        yield from self._faults()

    def _of_diary(self) -> Iterator[_Line]:
        for did in () if self._branch is None else self._branch.diary:
            if did.name == "pay" and did.given.get("code") and did.user_id is not None:
                pays = f"await {self._names[did.user_id]}.pays(code={did.given['code']})"
                yield _Line((did.after, 1), did.at, pays, does=True)
            elif did.name == "tell":
                value = self._expression(did.given["value"])
                code = f"await {self._name}.to({self._past.chat_id}).signal({value})"
                yield _Line((did.after, 1), did.at, code, does=True)

    def _of_kills(self) -> Iterator[_Line]:
        for kill in self._kills:
            if self._began <= kill.at <= self._past.at:
                before = [change.seq for change in self._changes() if change.at <= kill.at]
                what = "restarts" if kill.restart else "crashes"
                yield _Line((max(before, default=0), 2), kill.at, f"await world.{what}()", does=True)

    def _faults(self) -> Iterator[_Line]:
        """Yield a fault for each refused request, placed before the act that caused the request."""
        acts = [change for change in self._changes() if any(does for _, does in self._of_change(change))]
        for record in self._past.stored.records:
            if record[0] == FAILED and str(record[3]).startswith("send "):
                at, path = time_of(record), str(record[3]).removeprefix("send ")
                status = getattr(CODEC.error_of(record[5]), "status", None)
                before = [change.seq for change in acts if change.at <= at]
                how = f"status={status}" if isinstance(status, int) else 'drop="before"'
                code = f"world.faults.add(Fault(operation={path!r}, {how}, times=1))"
                self._imports.add(("triobot.testing", "Fault"))
                yield _Line((max(before, default=0), -1), at, code)

    def _of_change(self, change: Change) -> Iterator[tuple[str, bool]]:
        """Yield the test's code for a change of the platform, and whether this code is a person's act."""
        what = change.what
        match what:
            case Shown(entry=entry) if entry.author is not None:
                # The entry contains the key's value. If the label differs, the test sends the value as text.
                act = "presses" if entry.content in self._keys(change) else "says"
                yield f"await {self._names[entry.author]}.{act}({_said(entry.content)})", True
            case Shown(entry=entry) | Edited(entry=entry, anew=True) if entry.author is None:
                yield f"await {self._watcher}.sees({_expected_of(entry.content)})", False
            case Submitted(user_id=user_id, values=values):
                yield f"await {self._names[user_id]}.submits({dict(values)!r})", True
            case Clicked(user_id=user_id, label=label):
                yield f"await {self._names[user_id]}.presses({label!r})", True
            case PressAnswered(user_id=user_id, reply=reply) if reply.text:
                yield f"await {self._names[user_id]}.sees_answer({reply.text!r})", False
            case MembersChanged(user_id=user_id, joined=joined):
                yield f"await {self._names[user_id]}.{'joins' if joined else 'leaves'}()", True
            case MoneyMoved(user_id=user_id, what="paid", bill=bill):
                invoice = "invoice=True" if self._world.bills.payment(bill) is None else ""
                yield f"await {self._names[user_id]}.pays({invoice})", True
            case MoneyMoved(user_id=user_id, what="topped_up", currency=currency, amount=amount):
                unit = "irr" if currency == "IRR" else "coin"
                yield f"await {self._names[user_id]}.tops_up({unit}={amount})", True
            case _:
                pass

    def _keys(self, change: Change) -> Sequence[object]:
        """Return the labels on the keyboard that was shown at the time of `change`."""
        shown: ReplyKeyboard | None = None
        for one in self._changes():
            if one.seq >= change.seq:
                break
            if isinstance(one.what, Shown) and one.what.entry.reply_keyboard is not None:
                shown = one.what.entry.reply_keyboard
        return [] if shown is None else [key.label for row in shown.rows for key in row]

    @property
    def _watcher(self) -> str:
        return next(iter(self._names.values()), "nobody")

    def _timed(self, lines: Sequence[_Line]) -> Iterator[str]:
        """Yield the lines, with waits between the lines, so that each act comes at its exact time.

        A check for an immediate message comes after the next wait, since even such a message takes a little
        time.
        """
        clock, at_once = self._began, list[str]()
        for line in lines:
            passed = line.at - clock
            if 0 < passed <= _TICK and not line.does:
                at_once += [line.code] * bool(line.code)
                continue
            if passed > 0:
                yield f"await world.waits({_length(passed)})"
                clock = line.at
            yield from [*at_once, *([line.code] if line.code else [])]
            at_once.clear()
        yield from at_once


def _id_of(event: Any) -> SenderId | None:
    sender = getattr(event, "sender", None)
    return None if sender is None else sender.id


def _said(content: Content) -> str:
    """Return the expression for content that a person sends, for `Person.says`."""
    match content:
        case str():
            return repr(content)
        case Contact():
            return f"Contact({content.phone!r}, {content.name!r})"
        case Location():
            return f"Location({content.lat!r}, {content.long!r}, {content.desc!r})"
        case Media():
            name = content.filename or "file"
            data = f"bytes({min(content.filesize or 1, _LARGEST)})"
            return f"{type(content).__name__}.from_bytes({data}, {name!r}, {content.caption or ''!r})"


def _length(milliseconds: int) -> str:
    """Return a duration as the argument of `DrivenWorld.waits`, in the largest exact unit."""
    unit, size = next((one for one in _UNITS if milliseconds % one[1] == 0), _UNITS[-1])
    many = milliseconds / size
    return f"{unit}={int(many) if many == int(many) else many}"


def _outcome_of(record: Record) -> object:
    if record[0] == DONE:
        return CODEC.value_of(record[5])
    node = cast("list[Any]", record[5])
    kinds = _classes(str(node[1])) if node and node[0] == "raised" else ()
    return CODEC.error_of(node, kinds)


def _classes(name: str) -> tuple[type[Exception], ...]:
    """Return the author's error class of this full name, if its module is loaded."""
    module, _, cls = name.rpartition(".")
    found: object = getattr(sys.modules.get(module), cls, None)
    return (found,) if isinstance(found, type) and issubclass(found, Exception) else ()


def _place_of(key: object) -> tuple[str, str] | None:
    """Return the module that defines a key at its top level, and the key's name there."""
    for module_name, module in list(sys.modules.items()):
        for name, value in list(vars(module).items()) if key is not None else ():
            if value is key:
                return module_name, name
    return None


def _module_of(target: str) -> tuple[str, str]:
    """Return the module and the name to import for the target ``MODULE:BOT``."""
    place, _, name = target.rpartition(":")
    module = PurePath(place).stem if place.endswith(".py") else place
    known = module and all(part.isidentifier() for part in module.split("."))
    return (module if known else "bot"), (name if name.isidentifier() else "bot")


def _variable_of(name: str) -> str:
    lowered = name.casefold()
    # Names in other alphabets are valid identifiers, but not everybody can type such names.
    usable = lowered.isidentifier() and lowered.isascii() and not keyword.iskeyword(lowered)
    return lowered if usable and lowered not in _TAKEN else "person"


def _expected_of(content: Content) -> str:
    """Return the argument for `Person.sees` that expects this content."""
    match content:
        case str():
            return repr(content)
        case Contact() | Location():
            return type(content).__name__
        case Media(caption=caption):
            return repr(caption) if caption else type(content).__name__
