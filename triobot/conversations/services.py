"""The services that conversations use."""

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
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

import attrs

from ..base.alarm_kinds import RaiseAlarm
from ..base.clock import Timepiece
from ..base.frozen import guarded
from ..engine import Record
from ..seams.broadcasts import Announcement, BroadcastStatus
from ..seams.outbox import Outbox
from ..seams.resources import Opened, Resource
from ..seams.writes import Write
from ..wire.ids import ChatId, RefId
from .data import Speech
from .notices import Gift, Notify
from .revival.code import Code

if TYPE_CHECKING:
    from ..payments.cashier import Cashier
    from ..store import Store

OnFailure: TypeAlias = Callable[[Exception, str, ChatId, str], None]
"""Gets an error of an author's code, the route's or filter's name, the chat, and the conversation's number.

The function must be quick and must not raise.
"""

HearRecords: TypeAlias = "Callable[[Record | None], None]"
"""Called with each record, and with None when the conversation has come to rest."""

Also: TypeAlias = Callable[[], Awaitable[Sequence[Write]]]
"""Returns further writes for a transaction that is about to be committed."""


def tell_nobody(error: Exception, name: str, chat_id: ChatId, reference: str) -> None:
    """Do nothing: the default of `Services.on_failure`."""


class Announcing(Protocol):
    """Sends broadcasts; see `Broadcast`, which checks the arguments."""

    async def start(
        self,
        key: str,
        announcement: Announcement,
        audience: AsyncGenerator[ChatId],
        also: Also | None = None,
    ) -> bool:
        """Store the audience, and start the broadcast. Return False if the key was used before.

        Args:
            also: returns further writes for the transaction that starts the broadcast.
        """
        ...

    async def status(self, key: str) -> BroadcastStatus: ...

    async def stop(self, key: str, also: Also | None = None) -> bool:
        """Stop a broadcast. Return False if there was nothing to stop.

        Args:
            also: returns further writes for the transaction.
        """
        ...

    def gone(self, key: str) -> AsyncIterator[ChatId]:
        """Iterate over the receivers that have left or blocked the bot."""
        ...


@final
@guarded
class StepCall:
    """A call of a step's function.

    Attributes:
        print: fingerprint of the function and its arguments, as recorded.
        raises: classes of errors that the step raises unchanged.
        conversation: number of the calling conversation.
    """

    fn: Callable[..., Any] = attrs.field(repr=False)
    args: tuple[object, ...] = attrs.field(repr=False)
    print: str
    raises: tuple[type[Exception], ...]
    conversation: int


Instead: TypeAlias = Callable[[StepCall], Awaitable[Any]]
"""Runs in place of a step's function, and returns the step's result."""


@final
@guarded
class Tracer:
    """The functions that make spans of the conversations' work; see `triobot.runtime.tracing`.

    Attributes:
        brought: records the event that a conversation's next turn takes.
        drive: awaits a conversation's coroutine.
        stepping: wraps the body of a step in a span with the step's name.
    """

    brought: Callable[[Any, int], None]
    drive: Callable[[Any, Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]
    stepping: Callable[[str, Callable[[], Awaitable[Any]]], Callable[[], Coroutine[Any, Any, Any]]]


@final
@guarded
class Services:
    """The services that conversations use.

    Attributes:
        texts: the runtime's own texts, or a function that chooses them; `Kept.texts` has the texts for one
            chat.
        charge_hosts: hosts that a link to top up a wallet may lead to.
        payments: the ledger; None if the bot can't ask for money.
        announcing: sends broadcasts; None if the bot sends no broadcasts.
        max_amount: largest amount that may be charged.
        live_every: seconds between two edits of a live message.
        memory: state of filters, such as rate limits.
        notice: called with each notice for the developer; None in production.
        given: the actions of each payment's aside, until the payment's charge returns; for notices only.
        replays: begins to check whether a restart would revive a conversation. `replays` is called with the
            chat's actor, the conversation and its records so far, and returns the function that gets each
            further record. None in production.
        tracing: makes spans; None if no spans are made.
        tracebacks: whether an author's error is logged with its traceback, texts included.
        keep_ended: whether the journals of conversations that end normally are kept for a while.
        on_failure: called with each error that an author's code leaves unhandled.
        instead: runs in place of each step's function; None to run the functions themselves.
        code: the author's code that runs here; None if the code isn't recorded.
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
    replays: Callable[[Any, Any, Sequence[Record]], HearRecords] | None = None
    tracebacks: bool = False
    keep_ended: bool = False
    on_failure: OnFailure = tell_nobody
    instead: Instead | None = None
    code: Code | None = None
