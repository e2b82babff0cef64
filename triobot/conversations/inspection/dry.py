"""A world in which nothing happens: what a conversation is given when its journal is only looked at.

Its journal is its own, and everything else is a stand-in: nothing is sent, no step runs, nothing is written,
the ledger isn't asked, no event comes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, cast, final

import trio

from ...clock import StoppedClock, Timepiece
from ...engine import Host, Record
from ...engine.records import Id
from ...errors import LocalProtocolError, NondeterminismError
from ...money import Payments
from ...resources import Opened
from ...seams import (
    Acceptance,
    InboxRow,
    OnUnknown,
    PutData,
    Redelivered,
    Store,
    Urgency,
    Write,
)
from ...wire.events import Event, Press
from ...wire.ids import ChatId, Recipient
from ...wire.operations import Operation
from ..doors.elsewhere import Elsewhere
from ..questions.tidying import Answered
from ..routes.declarations import Table
from ..running.failures import Speech
from ..services import Services

if TYPE_CHECKING:
    from ..data.keeping import Keeping
    from ..questions.tidying import Tidying
    from ..revival.care import Care

R = TypeVar("R")


@final
class DryHost(Host):
    """The host of a run that ends where its journal does.

    Attributes:
        at_end: the journal has been replayed.
    """

    def __init__(
        self,
        now: int,
        stuck: Callable[[NondeterminismError, trio.lowlevel.Task | None], None],
        reworded: Callable[[Id, str], None],
        swallowed: Callable[[], None],
        jumped: int,
    ) -> None:
        self.at_end: Final = trio.Event()
        self._now = now
        self._stuck = stuck
        self._reworded = reworded
        self._swallowed = swallowed
        self._jumped = jumped

    def now(self) -> int:
        return self._now

    def jumped(self) -> int:
        return self._jumped

    def append(self, record: Record, rows: Sequence[int] = (), write: object = None) -> None:
        raise AssertionError("a dry run records nothing")

    async def commit(self) -> None:
        await trio.lowlevel.checkpoint()

    def rests(self, wake: int | None) -> None:
        self.at_end.set()

    def reworded(self, id: Id, kind: str) -> None:
        self._reworded(id, kind)

    def stuck(self, error: NondeterminismError, task: trio.lowlevel.Task | None) -> None:
        self._stuck(error, task)

    def swallowed(self, id: Id) -> None:
        self._swallowed()


@final
class _Outbox:
    """Sends nothing."""

    async def perform(
        self,
        operation: Operation[R],
        *,
        urgency: Urgency = Urgency.REPLY,
        on_unknown: OnUnknown = OnUnknown.RESEND,
        doubted: Callable[[], None] | None = None,
        noted: trio.Event | None = None,
    ) -> R:
        await _untouched("outbox")

    def typing(self, chat: Recipient) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def press_taken(self, press: Press[object]) -> None:
        """Do nothing: the press was answered when it came."""

    def press_due(self, press: Press[object]) -> None:
        """Do nothing: the press was answered then."""

    async def answer(self, press: Press[object], text: str, *, alert: bool) -> bool:
        await _untouched("outbox")

    def refuse_press(self, press: Press[object], text: str) -> None:
        """Do nothing: the press was answered then."""

    def drop(self, chat: Recipient) -> None:
        """Do nothing: nothing is queued."""


async def _untouched(what: str) -> NoReturn:
    """Refuse what only the body of an effect uses, and none of those runs."""
    await trio.lowlevel.checkpoint()
    raise LocalProtocolError(what, "is not there when a journal is only looked at")


class _Nothing:
    """A part of the world that nobody may touch: the ledger, the store, the count of crashes."""

    async def accept(self, *_: object, **__: object) -> Acceptance:
        """`continue_as` has handed over, once."""
        await trio.lowlevel.checkpoint()
        return Redelivered()


class _Careless:
    """Nobody counts what runs dry."""

    def looking(self, seq: int) -> AbstractContextManager[None]:
        """Return a context that notes nothing."""
        return nullcontext()


class _Chats:
    """The dispatcher of nobody's chats."""

    behind = False

    def offer(self, row: InboxRow, event: Event) -> None:
        """Do nothing: no event comes."""

    def life(self, chat_id: ChatId) -> None:
        """Return None: no chat is in memory here."""

    def consumed(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None:
        """Do nothing: no row was taken."""

    def handed_over(self, seq: int) -> None:
        """Do nothing: no row was handed over."""


class _Tidy:
    """Everything shows what it is to show."""

    def owe(self, *_: object) -> Sequence[Write]:
        return ()

    def owe_words(self, *_: object) -> Sequence[Write]:
        return ()

    def touch(self, *_: object) -> None:
        """Do nothing: no message changes."""


@final
class DryHouse:
    """The house of a chat that is only looked at; `triobot.conversations.house.House`."""

    stopping = False
    cut = False

    def __init__(self, services: Services, table: Table) -> None:
        self.elsewhere: Final = Elsewhere(services, table, _Chats())
        self.care: Final = cast("Care", _Careless())
        self.keeping: Final = cast("Keeping", _Nothing())
        self.tidying: Final = cast("Tidying", _Tidy())
        self.answers: Final = Answered()

    async def wait_written(self, until: int | None = None) -> None:
        await trio.lowlevel.checkpoint()

    def all_came(self, conversation: object, before: int) -> bool:
        return True

    def life(self, chat_id: ChatId) -> None: ...
    def start(self, conversation: object) -> None: ...
    def consumed(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None: ...
    def write(self, writes: Sequence[Write], writer: object = None) -> int:
        return 0

    def wake_at(self, conversation: object, when: int | None) -> None: ...
    def before_writing(self, look: Callable[[], None]) -> None: ...
    def when_written(self, tell: Callable[[], None]) -> None: ...
    def let_go(self, conversation: object) -> None: ...
    def retry(self, chat_id: ChatId) -> None: ...
    def start_task(self, work: Callable[[], Awaitable[None]]) -> None: ...
    def get_stuck(self, conversation: object, because: str) -> None: ...
    def beside(self, work: Callable[[], Awaitable[None]]) -> None: ...
    def tidy(
        self, chat_id: ChatId, operation: Operation[object], *, still: Callable[[], bool] = lambda: True
    ) -> None: ...
    def working(self, more: int) -> None: ...
    def count(self, what: str) -> None: ...
    def room(self, life: object) -> None: ...
    def over(self, life: object) -> None: ...


def dry_services(texts: Speech, resources: Opened, now: int, charge_hosts: Sequence[str]) -> Services:
    """Build services that do nothing; what words depend on is as it is live."""
    nothing = _Nothing()
    return Services(
        outbox=_Outbox(),
        store=cast("Store", nothing),
        clock=Timepiece(StoppedClock(now)),
        texts=texts,
        raise_alarm=lambda alarm: None,
        payments=cast("Payments", nothing),
        resources=resources,
        charge_hosts=charge_hosts,
    )
