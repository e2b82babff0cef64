"""What conversations use of the world around them."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, final

import attrs

from ..base.alarm_kinds import RaiseAlarm
from ..base.clock import Timepiece
from ..base.frozen import guarded
from ..engine import Record
from ..seams.broadcasts import BroadcastStatus
from ..seams.journals import Lease
from ..seams.outbox import Outbox
from ..seams.resources import Opened, Resource
from ..seams.writes import Write
from ..wire.content import Content
from ..wire.ids import ChatId, RefId
from ..wire.markup import InlineKeyboard
from .data import Speech
from .notices import Gift, Notify
from .revival.changed import Code

if TYPE_CHECKING:
    from ..payments.cashier import Cashier
    from ..store import Store

OnFailure: TypeAlias = Callable[[Exception, str, ChatId, str], None]
"""Told of an error of an author's code: it, the route or filter, the chat, the conversation's number.

It must be quick and must not raise.
"""

HearRecords: TypeAlias = "Callable[[Record | None], None]"
"""Told each record, and None when the conversation has come to rest."""

T = TypeVar("T")
OnDoubt: TypeAlias = Literal["count", "resend"]
"""What becomes of a broadcast's receiver when nobody knows whether the message arrived."""
Also: TypeAlias = Callable[[], Awaitable[Sequence[Write]]]
"""Returns writes for a transaction that is about to be."""


def tell_nobody(error: Exception, name: str, chat_id: ChatId, reference: str) -> None:
    """Tell nobody."""


class Announcing(Protocol):
    """What says something to everybody; see `Broadcast`, which has checked what is given."""

    async def start(
        self,
        key: str,
        content: Content,
        keyboard: InlineKeyboard | None,
        on_unknown: OnDoubt,
        audience: AsyncGenerator[ChatId],
        also: Also | None = None,
    ) -> bool:
        """Capture an audience and begin to tell it; False if this key was started before.

        Args:
            also: writes for the transaction by which it begins.
        """
        ...

    async def status(self, key: str) -> BroadcastStatus:
        """Read how far it is."""
        ...

    async def stop(self, key: str, also: Also | None = None) -> bool:
        """Tell nobody more; False if there was nothing to stop. `also`: writes for the transaction."""
        ...

    def gone(self, key: str) -> AsyncIterator[ChatId]:
        """Iterate over those who have left."""
        ...


@final
@guarded
class StepCall:
    """A step that is to run.

    Attributes:
        print: what its record says of the function and its arguments.
        raises: the errors that come back as themselves.
        conversation: the number of the one that calls.
    """

    fn: Callable[..., Any] = attrs.field(repr=False)
    args: tuple[object, ...] = attrs.field(repr=False)
    print: str
    raises: tuple[type[Exception], ...]
    conversation: int


Instead: TypeAlias = Callable[[StepCall], Awaitable[Any]]
"""Does what is done in place of a step's function."""


class Tracer(Protocol):
    """What makes spans of what conversations do; see `triobot.runtime.tracing`."""

    def brought(self, conversation: Any, event: int, /) -> None:
        """Note which event a conversation's next turn takes."""
        ...

    def drive(self, conversation: Any, inner: Coroutine[Any, Any, T], /) -> Coroutine[Any, Any, T]:
        """Await what a conversation does."""
        ...

    def stepping(
        self, name: str, body: Callable[[], Awaitable[T]], /
    ) -> Callable[[], Coroutine[Any, Any, T]]:
        """Return a step's body that is a span."""
        ...


@final
@guarded
class Services:
    """What conversations use of the world around them.

    Attributes:
        texts: the runtime's own words; `Kept.texts` are those for one chat.
        charge_hosts: where links to top up a wallet may lead.
        payments: the ledger; None where no money can be asked for.
        announcing: says something to everybody; None where nothing is said.
        max_amount: above this nothing is charged.
        live_every: seconds between two edits of a live message.
        memory: what filters remember.
        notice: told of what hurts later; None in production.
        given: what an aside gave for a payment and where, until its charge returns; kept for notices only.
        replays: begins to look whether a restart would bring a conversation back, by its records so far, of
            which it hears from then on; None in production.
        tracing: makes spans of what they do; None: nobody asks for any.
        tracebacks: log the traceback of an author's error, its text included.
        keep_ended: the journals of conversations that end well are kept for a while.
        on_failure: told of each error that an author's code leaves unhandled.
        instead: what runs in place of each step's function; None where they run themselves.
        code: what runs here; None where nothing is recorded.
    """

    outbox: Outbox
    store: Store
    clock: Timepiece
    texts: Speech
    raise_alarm: RaiseAlarm
    charge_hosts: Sequence[str] = ()
    payments: Cashier | None = None
    announcing: Announcing | None = None
    max_amount: int | None = None
    resources: Opened = attrs.field(factory=dict[Resource[object], object])
    live_every: float = 1.0
    memory: MutableMapping[object, object] = attrs.field(
        factory=lambda: dict[object, object](), eq=False, repr=False
    )
    notice: Notify | None = None
    given: MutableMapping[RefId, Mapping[str, Gift]] = attrs.field(
        factory=dict[RefId, Mapping[str, Gift]], eq=False, repr=False
    )
    tracing: Tracer | None = None
    replays: Callable[[Any, Lease, Sequence[Record]], HearRecords] | None = None
    tracebacks: bool = False
    keep_ended: bool = False
    on_failure: OnFailure = tell_nobody
    instead: Instead | None = None
    code: Code | None = None
