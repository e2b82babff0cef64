"""Planned faults: in answers to operations, in the posting of events, and in accepting connections.

Faults are frozen descriptions in a `FaultPlan`. A request or event gets the first fault that fits. A fault
with `times` is removed after that number of uses.

`Switches` determine the emulated platform's behaviour where the interface is silent, or where public clients
contradict the interface. Each default is the behaviour with the best evidence. A bot that works under every
setting works on the real platform.
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
    """Return an attrs validator whose error names the field and the rule."""

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
    """Behaviour of the emulated platform; all times in milliseconds.

    Attributes:
        second_verify: answer to a verify of money that was captured before.
        inquiry_sees_paid: whether an inquiry answers ``verified`` for paid money that isn't captured yet.
        pay_twice: whether a used ``ref_id`` may be paid again; if not, the payment fails with code 1003.
        paid_status: status word of a successful payCallback; no public client has recorded the real word.
        unknown_ref_status: answer to a verify or an inquiry of an unknown bill: 400, or 200 with ``error``.
        unknown_chat_status: answer to sending to a chat that doesn't exist, or to a person who left.
        verify_window: time after which uncaptured money is refunded (interface section 3).
        invoice_life: how long an invoice without its own expiry can be paid.
        edit_drops_keyboard: whether an edit without an inline keyboard removes the message's keyboard.
        edit_needs_data: whether an edit without ``data`` is refused, as the interface says.
        empty_keyboard_removes: whether a reply keyboard without rows removes the current keyboard.
        typing_life: how long the typing indicator is shown after a sendAction.
        senders: whether events have ``from``.
        form_callback_ids: whether form submissions have a callback id.
        json_operations: whether operations may also be JSON objects.
        json_events: whether events are posted as JSON instead of forms.
        lower_case_callbacks: whether events are called ``paycallback`` and ``invoicecallback``, unlike the
            interface's spelling.
        undocumented: whether the operations outside the interface exist.
        strict: whether to refuse requests that the platform may accept, but that the interface doesn't
            promise to accept.
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
    # A fault for a misspelt operation would never be used, and a test would pass without the fault.
    if value not in ("*", *_PATHS):
        raise ValueError(f"operation must be the path of one, such as sendMessage, or *; not {value!r}")


@final
@guarded(kw_only=True)
class Fault:
    """A fault of an operation.

    Attributes:
        operation: path of the operation, such as ``sendMessage``, or ``*`` for any.
        latency: seconds to wait before the operation, and before the other effects of this fault.
        status: HTTP status of an error; the operation isn't performed. None: no error.
        reason: text of the error.
        drop: ``before``: the connection breaks before the operation; ``after``: the operation is performed,
            and only the answer is lost. In both cases the client sees a broken connection. Over HTTP, the
            connection breaks after the head of a 502 answer.
        times: number of uses; None for no limit.
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
        """Whether the fault applies to the operation with the path `name`."""
        return self.operation in ("*", name)


@final
@guarded(kw_only=True)
class EventFault:
    """A fault of an event on its way to the bot.

    Attributes:
        type: the event's type in the interface's spelling, such as ``payCallback``, or ``*`` for any.
        drop: whether the event is never posted.
        delay: seconds before the event is posted; later events wait too.
        duplicates: number of further postings, directly after the first.
        behind: whether the event is posted after the next event; if no other event comes within a second,
            this event is posted alone.
        times: number of uses; None for no limit.
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
        """Whether the fault applies to events of the type `name`."""
        return self.type in ("*", name)


AnyFault: TypeAlias = Fault | EventFault
FaultT = TypeVar("FaultT", Fault, EventFault)


def in_words(fault: AnyFault | None) -> str:
    """Return a short description of a fault, for people; an empty text for None."""
    match fault:
        case None:
            return ""
        case Fault():
            parts = [f"answered {fault.status}"] if fault.status is not None else []
            parts += ["request lost"] if fault.drop == "before" else []
            parts += ["answer lost"] if fault.drop == "after" else []
            parts += ["answer late"] if fault.latency else []
        case EventFault():
            parts = ["event lost"] if fault.drop else []
            parts += ["event late"] if fault.delay else []
            parts += ["event repeated"] if fault.duplicates else []
            parts += ["event behind the next"] if fault.behind else []
    return ", ".join(parts)


@final
class FaultPlan:
    """The planned faults that remain.

    Attributes:
        used: number of uses, by the description that `in_words` returns for the fault.
    """

    def __init__(self) -> None:
        self._faults: list[AnyFault] = []
        self.used: Counter[str] = Counter()

    def pending(self) -> Sequence[AnyFault]:
        """Return the remaining faults. The faults of operations come before the faults of events."""
        return tuple(sorted(self._faults, key=lambda fault: isinstance(fault, EventFault)))

    def add(self, fault: AnyFault) -> None:
        """Add a fault after the existing faults."""
        self._faults.append(fault)

    def clear(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def for_operation(self, path: str) -> Fault | None:
        """Use and return the first fault that fits this operation."""
        return self._use(Fault, path)

    def for_event(self, kind: str) -> EventFault | None:
        """Use and return the first fault that fits this type of event."""
        return self._use(EventFault, kind)

    def _use(self, kind: type[FaultT], name: str) -> FaultT | None:
        for index, fault in enumerate(self._faults):
            if isinstance(fault, kind) and fault.fits(name):
                if fault.times == 1:
                    del self._faults[index]
                elif fault.times is not None:
                    self._faults[index] = attrs.evolve(fault, times=fault.times - 1)
                self.used[in_words(fault)] += 1
                return fault
        return None


@final
class Outage:
    """A request to the server to refuse connections for a while."""

    def __init__(self) -> None:
        self._begin = trio.Event()
        self._seconds = 0.0

    def begin(self, seconds: float) -> None:
        """Request an outage that begins now and lasts `seconds`; open connections are closed."""
        self._seconds = seconds
        self._begin.set()

    async def wait_begin(self) -> None:
        """Wait until an outage is requested."""
        await self._begin.wait()

    def take(self) -> float:
        """Return the length of the requested outage in seconds, and clear the request."""
        self._begin = trio.Event()
        return self._seconds
