"""What chats and conversations ask of the dispatcher that they live in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ..seams import PutData, Write
from ..wire.ids import ChatId
from ..wire.operations import Operation

if TYPE_CHECKING:
    from .conversation import Conversation
    from .data.keeping import Keeping
    from .doors.elsewhere import Elsewhere
    from .inbox.consumption import Consumption, Writer
    from .life import ChatLife
    from .questions.tidying import Answered, Tidying
    from .revival.care import Care


class House(Protocol):
    """What a chat's life asks of the dispatcher."""

    @property
    def elsewhere(self) -> Elsewhere:
        """Return what signals to chats, and starts and stops their routes for code."""
        ...

    @property
    def keeping(self) -> Keeping:
        """Return what reads and writes what chats keep."""
        ...

    @property
    def commits(self) -> Consumption:
        """Return what writes units, as one, soon."""
        ...

    @property
    def care(self) -> Care:
        """Return what counts whose code is at work when the program is killed."""
        ...

    @property
    def tidying(self) -> Tidying:
        """Return what tidies up messages."""
        ...

    def life(self, chat_id: ChatId) -> ChatLife | None:
        """Return what of a chat is in memory."""
        ...

    def start(self, conversation: Conversation) -> None:
        """Run a conversation as a task."""
        ...

    def consumed(self, seqs: Sequence[int], data: Sequence[PutData] = ()) -> None:
        """Consume these inbox rows, which have been dealt with, and write what was kept meanwhile."""
        ...

    def write(self, writes: Sequence[Write], writer: Writer | None = None) -> int:
        """Make this durable, as one, soon; returns what `wait_written` takes.

        Args:
            writer: told if the store refuses it; nothing that it writes behind that is stored.
        """
        ...

    def before_writing(self, look: Callable[[], None]) -> None:
        """Call this once, just before something is written, soon: it may have more to write."""
        ...

    def when_written(self, tell: Callable[[], None]) -> None:
        """Call this once what has been written by the end of the present step is durable."""
        ...

    async def wait_written(self, until: int | None = None) -> None:
        """Wait until everything that was to be written is durable, or this and all before it."""
        ...

    def wake_at(self, conversation: Conversation, when: int | None) -> None:
        """Tick a conversation once the wall clock shows this."""
        ...

    def all_came(self, conversation: Conversation, before: int) -> bool:
        """Return whether all events accepted before this have been routed; if not, tick it once they have."""
        ...

    def retry(self, chat_id: ChatId) -> None:
        """Bring a chat back from the store once more, as soon as nobody is at work in it."""
        ...

    def start_task(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run this as a task that ends at once by itself."""
        ...

    @property
    def units(self) -> int:
        """Return how many units were written so far, durable or not."""
        ...

    def take_back(self, life: ChatLife, units: int) -> None:
        """Bring a chat back from the store: what it took when there were so many units isn't there."""
        ...

    def get_stuck(self, conversation: Conversation, because: str) -> None:
        """Park a conversation whose code doesn't fit its journal."""
        ...

    def beside(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run this as a task of nobody's; it must not raise."""
        ...

    def tidy(self, chat_id: ChatId, operation: Operation[object], *, still: Callable[[], bool] = ...) -> None:
        """Do this beside the conversations, if it is `still` wanted; nobody waits for its result."""
        ...

    def let_go(self, conversation: Conversation) -> None:
        """Wait no more for a conversation whose coroutine doesn't end."""
        ...

    @property
    def stopping(self) -> bool:
        """Return whether no more events are given out."""
        ...

    @property
    def cut(self) -> bool:
        """Return whether the program stops: conversations are cancelled, and none of them has ended."""
        ...

    def working(self, more: int) -> None:
        """Count this many more branches as at work, or fewer."""
        ...

    def count(self, what: str) -> None:
        """Count what happened, by word."""
        ...

    @property
    def answers(self) -> Answered:
        """Return which questions got their answer a moment ago."""
        ...

    def room(self, life: ChatLife) -> None:
        """Read on for a chat that was behind, and has room again."""
        ...

    def over(self, life: ChatLife) -> None:
        """Drop a chat from memory, in which nothing goes on any more."""
        ...
