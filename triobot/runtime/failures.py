"""Pass unhandled exceptions of a bot's own code to the author's hook.

The log and the alarm name the failed line, but contain no text of a message. The hook gets the exception
itself.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias, final

import attrs
import trio

from ..base.authors import contained_in_task, kind_of
from ..base.frozen import guarded
from ..conversations.calls.refs import RoomRef
from ..conversations.running.lines import failing_line, leave_ours_out
from ..conversations.services import OnFailure
from ..wire.ids import ChatId

log: Final = logging.getLogger("triobot")

HOOK_SECONDS: Final = 5.0
_WAITING: Final = 64


@final
@guarded
class Failure:
    """An exception that a conversation or a filter of the bot raised and didn't handle. *Sensitive.*

    Attributes:
        error: the exception, or an exception group if several tasks of a conversation failed at once. The
            traceback omits triobot's own frames. The exception's text and variables may contain users'
            messages.
        route: name of the route, or of the filter.
        place: reference to the chat or room of the failure; a `ChatRef` for a chat.
        reference: the conversation's name in the log, the alarm and `triobot journal`; empty for a filter.
    """

    error: Exception = attrs.field(repr=False)
    route: str
    place: RoomRef
    reference: str


OnError: TypeAlias = Callable[[Failure], Awaitable[None]]
"""Type of a `Bot.on_error` hook."""


@final
class Failures:
    """Accepts failures without waiting. Calls the author's hook for one failure after the other.

    If more than 64 failures are waiting, further failures are only logged.

    Args:
        hook: the author's hook.
        place: returns a reference to a chat or another place, for the hook.
        at_once: called with each failure before the hook, without waiting; must not raise.
        tracebacks: log the traceback of the hook's own error, including the error's text.
    """

    def __init__(
        self,
        hook: OnError | None,
        place: Callable[[ChatId], RoomRef],
        at_once: OnFailure,
        *,
        tracebacks: bool = False,
    ) -> None:
        self._hook = hook
        self._at_once = at_once
        self._place = place
        self._tracebacks = tracebacks
        self._send, self._receive = trio.open_memory_channel[tuple[Exception, str, ChatId, str]](_WAITING)
        self._began = trio.Event()

    def take(self, error: Exception, name: str, chat_id: ChatId, reference: str) -> None:
        """Queue a failure; never waits, never raises."""
        self._at_once(error, name, chat_id, reference)
        if self._hook is None:
            return
        try:
            self._send.send_nowait((error, name, chat_id, reference))
        except trio.WouldBlock:
            log.warning("on_error is behind: it is not told of a failure of %s", name)

    def begin(self) -> None:
        """Start calling the hook: the bot runs now, so the hook can write to chats."""
        self._began.set()

    async def keep_telling(self) -> None:
        """Call the hook for each failure, until `close` was called and the queue is empty."""
        await self._began.wait()
        async for error, name, chat_id, reference in self._receive:
            await self._call(Failure(error, name, self._place(chat_id), reference))

    def close(self) -> None:
        """Accept no more failures."""
        self._send.close()

    async def _call(self, failure: Failure) -> None:
        assert self._hook is not None
        try:
            leave_ours_out(failure.error)
            with trio.move_on_after(HOOK_SECONDS) as limit:
                await self._hook(failure)
        except BaseException as raised:
            # Log the error's text only if configured: the text may quote the failure.
            error = contained_in_task(raised)
            line = failing_line(error.__traceback__)
            shown = error if self._tracebacks else None
            log.error("on_error failed: %s at %s", kind_of(error), line, exc_info=shown)  # noqa: TRY400
        else:
            if limit.cancelled_caught:
                log.error("on_error was cut after %.0f s, on a failure of %s", HOOK_SECONDS, failure.route)


@asynccontextmanager
async def open_failures(
    hook: OnError | None, place: Callable[[ChatId], RoomRef], at_once: OnFailure, *, tracebacks: bool = False
) -> AsyncGenerator[Failures]:
    """Queue failures while the block runs. `Failures.begin` starts the calls of the hook. After the block,
    the hook is called for the remaining failures, for up to five seconds.
    """
    failures = Failures(hook, place, at_once, tracebacks=tracebacks)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(failures.keep_telling)
        yield failures
        failures.close()
        failures.begin()
        nursery.cancel_scope.deadline = trio.current_time() + HOOK_SECONDS
