"""What goes wrong on demand: in answering operations, in posting events, and in taking connections.

Frozen descriptions, taken one after another from a `FaultPlan`. The first that fits is used; one with
`times` is used that often and then gone.

`Switches` are what this platform does, by choice, where the interface is silent or clients disagree with it.
Every default is what the evidence favours. A bot that is right under each setting is right on the platform.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, final

import attrs
import trio

from ..base.frozen import guarded
from ..wire.operations import OPERATIONS
from ..wire.undocumented import UNDOCUMENTED

HOUR: int = 3_600_000
DAY: int = 24 * HOUR

Word: TypeAlias = Literal["verified", "error"]

_PATHS: Final = frozenset(kind.path for kind in (*OPERATIONS, *UNDOCUMENTED))


def _must_be(words: str, fits: Callable[[Any], bool]) -> Callable[[object, Any, Any], None]:
    """Return an attrs validator; its error names the field and the rule."""

    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not fits(value):
            raise ValueError(f"{attribute.name} must be {words}")

    return validate


_is_count: Final = _must_be("a non-negative integer", lambda value: type(value) is int and value >= 0)
_is_flag: Final = _must_be("true or false", lambda value: type(value) is bool)
_is_seconds: Final = _must_be(
    "a non-negative number of seconds", lambda value: not isinstance(value, bool) and 0 <= value < math.inf
)
_is_times: Final = _must_be(
    "a positive integer, or nothing for always",
    lambda value: value is None or (type(value) is int and value >= 1),
)
_is_status: Final = _must_be(
    "from 300 to 599", lambda value: value is None or (type(value) is int and 300 <= value <= 599)
)


@final
@guarded(kw_only=True)
class Switches:
    """How the emulated platform behaves; all times in milliseconds.

    Attributes:
        second_verify: what verify says of money that was captured before.
        inquiry_sees_paid: inquiry says ``verified`` of paid money that isn't captured yet.
        pay_twice: a used ``ref_id`` may be paid again; off, it is answered with code 1003.
        paid_status: the word of a successful payCallback; no public client has recorded it.
        unknown_ref_status: the answer to verifying what was never offered: 400, or 200 with ``error``.
        unknown_chat_status: the answer to writing to a chat that isn't there, or to a person who left.
        verify_window: after this, paid money that was not captured goes back (interface section 3).
        invoice_life: how long an invoice without an expiry of its own can be paid.
        edit_drops_keyboard: an edit without an inline keyboard removes the one that was there.
        edit_needs_data: an edit without ``data`` is refused, as the interface says.
        empty_keyboard_removes: a reply keyboard without rows takes the present one away.
        typing_life: how long one sendAction shows.
        senders: events carry ``from``.
        form_callback_ids: form submissions carry a callback id.
        json_operations: operations may come as JSON objects, too.
        json_events: events are posted as JSON, not as forms.
        lower_case_callbacks: ``paycallback`` and ``invoicecallback``, not the interface's spelling.
        undocumented: the operations outside the interface exist.
        strict: what the platform may take, but the interface doesn't promise, is refused.
    """

    second_verify: Word = attrs.field(
        default="verified", validator=attrs.validators.in_(("verified", "error"))
    )
    inquiry_sees_paid: bool = attrs.field(default=False, validator=_is_flag)
    pay_twice: bool = attrs.field(default=False, validator=_is_flag)
    paid_status: str = attrs.field(default="success", validator=attrs.validators.instance_of(str))
    unknown_ref_status: Literal[200, 400] = attrs.field(
        default=400, validator=attrs.validators.in_((200, 400))
    )
    unknown_chat_status: Literal[400, 403] = attrs.field(
        default=403, validator=attrs.validators.in_((400, 403))
    )
    verify_window: int = attrs.field(default=HOUR, validator=_is_count)
    invoice_life: int = attrs.field(default=DAY, validator=_is_count)
    edit_drops_keyboard: bool = attrs.field(default=True, validator=_is_flag)
    edit_needs_data: bool = attrs.field(default=False, validator=_is_flag)
    empty_keyboard_removes: bool = attrs.field(default=True, validator=_is_flag)
    typing_life: int = attrs.field(default=6_000, validator=_is_count)
    senders: bool = attrs.field(default=True, validator=_is_flag)
    form_callback_ids: bool = attrs.field(default=True, validator=_is_flag)
    json_operations: bool = attrs.field(default=True, validator=_is_flag)
    json_events: bool = attrs.field(default=False, validator=_is_flag)
    lower_case_callbacks: bool = attrs.field(default=False, validator=_is_flag)
    undocumented: bool = attrs.field(default=True, validator=_is_flag)
    strict: bool = attrs.field(default=False, validator=_is_flag)


def _is_operation(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    # One that no operation has would wait for ever, and the test would pass.
    if value not in ("*", *_PATHS):
        raise ValueError(f"operation must be the path of one, such as sendMessage, or *; not {value!r}")


@final
@guarded(kw_only=True)
class Fault:
    """How an operation goes wrong.

    Attributes:
        operation: its path, such as ``sendMessage``, or ``*`` for any.
        latency: seconds before anything else.
        status: answer this instead, and do nothing.
        reason: the error body's words, with `status`.
        drop: ``before``: the connection ends and nothing was done; ``after``: it was done, and only the
            answer is lost. The client sees the same: a connection that breaks; over HTTP behind the head of
            a 502, which doesn't tell either.
        times: how often; None for always.
    """

    operation: str = attrs.field(default="*", validator=_is_operation)
    latency: float = attrs.field(default=0.0, validator=_is_seconds)
    status: int | None = attrs.field(default=None, validator=_is_status)
    reason: str = "try again"
    drop: Literal["before", "after"] | None = attrs.field(
        default=None, validator=attrs.validators.in_((None, "before", "after"))
    )
    times: int | None = attrs.field(default=None, validator=_is_times)

    def fits(self, name: str) -> bool:
        """Return whether it is meant for this operation."""
        return self.operation in ("*", name)


@final
@guarded(kw_only=True)
class EventFault:
    """How an event goes wrong on its way to the bot.

    Attributes:
        type: its type in the interface's spelling, such as ``payCallback``, or ``*`` for any.
        drop: it is never posted.
        delay: seconds before it is posted; everything behind it waits, too.
        duplicates: how many more times it is posted, right after.
        behind: it changes places with the next event; if none comes within a second, it goes alone.
        times: how often; None for always.
    """

    type: str = "*"
    drop: bool = False
    delay: float = attrs.field(default=0.0, validator=_is_seconds)
    duplicates: int = attrs.field(
        default=0,
        validator=[attrs.validators.instance_of(int), attrs.validators.ge(0), attrs.validators.le(100)],
    )
    behind: bool = False
    times: int | None = attrs.field(default=None, validator=_is_times)

    def fits(self, name: str) -> bool:
        """Return whether it is meant for this type of event."""
        return self.type in ("*", name)


AnyFault: TypeAlias = Fault | EventFault
FaultT = TypeVar("FaultT", Fault, EventFault)


def in_words(fault: AnyFault | None) -> str:
    """Describe for people what a planned fault does; None gives an empty text."""
    match fault:
        case None:
            return ""
        case Fault():
            parts = [f"{fault.latency:g} s late"] if fault.latency else []
            parts += [f"answered {fault.status}"] if fault.status is not None else []
            parts += ["not done, no answer"] if fault.drop == "before" else []
            parts += ["done, answer dropped"] if fault.drop == "after" else []
        case EventFault():
            parts = ["dropped"] if fault.drop else []
            parts += [f"{fault.delay:g} s late"] if fault.delay else []
            parts += [f"posted {1 + fault.duplicates} times"] if fault.duplicates else []
            parts += ["after the next one"] if fault.behind else []
    return ", ".join(parts)


# No person writes this many by hand; a script in a loop should fail.
MOST_FAULTS = 1_000


def kind_of(fault: AnyFault) -> str:
    """Return what sort of fault this is, in words: the same ones for any operation, and however late."""
    match fault:
        case Fault(status=int() as status):
            return f"answered {status}"
        case Fault(drop="before"):
            return "request lost"
        case Fault(drop="after"):
            return "answer lost"
        case Fault():
            return "answer late"
        case EventFault(drop=True):
            return "event lost"
        case EventFault(behind=True):
            return "event behind the next"
        case _:
            return "event repeated" if fault.duplicates else "event late"


@final
class FaultPlan:
    """The faults still to come.

    Attributes:
        used: how many were used up, by their kind.
    """

    def __init__(self) -> None:
        self._operations: list[Fault] = []
        self._events: list[EventFault] = []
        self.used: Counter[str] = Counter()

    def pending(self) -> Sequence[AnyFault]:
        """Return the faults still to come, those of operations first."""
        return (*self._operations, *self._events)

    def add(self, fault: AnyFault) -> None:
        """Plan a fault behind those there are.

        Raises:
            ValueError: there are too many.
        """
        if len(self.pending()) >= MOST_FAULTS:
            raise ValueError(f"there are {MOST_FAULTS} faults already")
        if isinstance(fault, Fault):
            self._operations.append(fault)
        else:
            self._events.append(fault)

    def clear(self) -> None:
        """Let everything go well."""
        self._operations.clear()
        self._events.clear()

    def for_operation(self, path: str) -> Fault | None:
        """Use up the first fault that fits this operation."""
        return self._counted(_use(self._operations, path))

    def for_event(self, kind: str) -> EventFault | None:
        """Use up the first fault that fits this type of event."""
        return self._counted(_use(self._events, kind))

    def _counted(self, fault: FaultT | None) -> FaultT | None:
        if fault is not None:
            self.used[kind_of(fault)] += 1
        return fault


def _use(faults: list[FaultT], name: str) -> FaultT | None:
    for index, fault in enumerate(faults):
        if fault.fits(name):
            if fault.times == 1:
                del faults[index]
            elif fault.times is not None:
                faults[index] = attrs.evolve(fault, times=fault.times - 1)
            return fault
    return None


@final
class Outage:
    """Asks the server to refuse connections for a while."""

    def __init__(self) -> None:
        self._begin = trio.Event()
        self._seconds = 0.0

    def begin(self, seconds: float) -> None:
        """Refuse connections for this long, from now on; open ones are closed."""
        self._seconds = seconds
        self._begin.set()

    async def wait_begin(self) -> None:
        """Wait until connections are to be refused."""
        await self._begin.wait()

    def take(self) -> float:
        """Return how long the outage lasts. It counts as begun, and another may be asked for."""
        self._begin = trio.Event()
        return self._seconds
