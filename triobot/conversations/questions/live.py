"""Progress messages: a message that shows the newest state of an ongoing action.

Intermediate texts are not operations, so a step may show them. Nothing waits for the edit of an intermediate
text, and a newer text replaces a text that isn't sent yet. These edits run beside the conversation, one at a
time. But the edit to the last text is an operation, like every other edit. If the block is cancelled or
fails, the last text is stored as owed, and shown later (`cleanup`).

The last text is recorded in the turn that ends the block. A replay doesn't run an ended step again, so only
the record can restore the text after a restart.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, final

import trio

from ...engine.records import Id
from ...errors import LocalProtocolError, TriobotError
from ...seams.outbox import Urgency
from ...wire.ids import MessageId
from ...wire.markup import InlineKeyboard
from ...wire.operations import EditMessage, SendMessage
from ...wire.results import Sent
from ..operations import Operations
from ..workload import holds
from .asking import tidy
from .buttons import Buttons, keyboard_of


@final
class Live:
    """Message with a text that changes while the block runs; made by `Chat.live`.

    Attributes:
        sent: the sent message.
    """

    def __init__(
        self, operations: Operations, sent: Sent, text: str, keyboard: InlineKeyboard | None, own: Id
    ) -> None:
        self.sent = sent
        self._operations = operations
        self._own = own
        self._keyboard = keyboard
        self._every = operations.services.live_every
        self._due = trio.current_time() + self._every
        self._newest = self._tried = self._shown = text
        self._going: str | None = None
        self._editor: trio.CancelScope | None = None
        self._edited = trio.Event()
        self._closed = False
        if (replay := operations.conversation.replay) and operations.conversation.replaying:
            replay.when_over = [*replay.when_over, self._catch_up]

    def __repr__(self) -> str:
        return f"<Live message {self.sent.id}>"

    @property
    def text(self) -> str:
        """The text that the message shows after the block, even if the block was cancelled.

        The result is the last text passed to `show`; if the platform refused that text, the last accepted
        text. A replay returns the same text. If a crash interrupts a step, the step runs again, and the text
        is the last text that the repeated step has shown. After a crash at the very end of the block, `text`
        may be the message's first text.

        Raises:
            LocalProtocolError: the block has not ended. An error of your program.

        Examples:
            >>> async def answer(chat: Chat) -> None:
            ...     async with chat.live("…") as live:
            ...         with chat.move_on_when(text("stop")):
            ...             await chat.step(stream, live.show)
            ...     chat.data[LAST] = live.text
        """
        if not self._closed:
            raise LocalProtocolError("text", "is known once the block of chat.live() has ended")
        return self._newest

    def show(self, text: str) -> None:
        """Show `text` soon, unless a newer text replaces it before the edit is sent. Never waits.

        May be called by any code in Trio's thread, also inside a step. After the block, a call has no effect.
        A failed edit is counted, and the next text is tried anyway. The block raises an error only for the
        last text.

        Raises:
            LocalProtocolError: the text can't be sent. An error of your program.
        """
        EditMessage(self.sent.chat_id, MessageId(0), text, self._keyboard)  # raises if `text` can't be shown
        if self._closed:
            return
        self._newest = text
        if not self._operations.conversation.replaying:
            self._catch_up()

    def _close(self) -> str:
        """Close the message for further texts; return the last text, which a replay reads from the record."""
        self._closed = True
        if not self._operations.conversation.dead:
            self._newest = self._operations.run.note(f"live {self._own}", lambda: self._newest)
        return self._newest

    def _leave(self) -> None:
        """After a cancelled or failed block, remove the buttons and show the last text, in another task."""
        text = self._close()
        if self._keyboard is not None or text != (self._going or self._shown):
            self._owe(text)

    async def _end(self) -> None:
        """Show the last text, without buttons.

        Raises: the errors of `Chat.edit`. A message without an id from the platform can't be edited, and
        keeps its first text.
        """
        operations, text = self._operations, self._close()
        if self.sent.id is None:
            self._newest = self._shown
            self._owe(self._newest)
        else:
            last = EditMessage(self.sent.chat_id, self.sent.id, text)
            try:
                await operations.perform(last, unless=self._is_shown)
            except Exception:
                if not operations.conversation.dead:
                    self._newest = operations.run.note(f"shown {self._own}", lambda: self._shown)
                    if self._keyboard is not None:
                        self._owe(self._newest)
                raise
            except BaseException:
                self._owe(text)
                raise

    def _owe(self, text: str) -> None:
        if self._editor is not None:
            self._editor.cancel()
        tidy(self._operations, self.sent, text)

    async def _is_shown(self) -> bool:
        """Return whether the message shows the last text, and has no buttons to remove.

        An ongoing edit to the last text is awaited; an edit to an older text is cancelled.
        """
        if self._going == self._newest:
            await self._edited.wait()
        elif self._editor is not None:
            self._editor.cancel()
        await trio.lowlevel.checkpoint()
        return self._keyboard is None and self._newest == self._shown

    def _catch_up(self) -> None:
        """Start a task that shows the newest text. After a restart, the task may repeat an earlier edit."""
        if self._closed or self._editor is not None or self._operations.shared.work.cut:
            return
        if self.sent.id is None:
            self._operations.shared.work.count("live_failed")
            return
        if self._newest != self._tried:
            self._editor, self._edited = trio.CancelScope(), trio.Event()
            self._operations.shared.work.beside(self._keep_showing)

    async def _keep_showing(self) -> None:
        assert self._editor is not None
        try:
            with self._editor:
                while self._newest != self._tried and not self._closed:
                    await trio.sleep_until(self._due)
                    ahead = self._operations.ahead
                    if ahead is not None and not await holds(ahead):
                        return  # the store refused the event that caused the text
                    self._due = trio.current_time() + self._every
                    await self._perform(self._newest)
        finally:
            self._editor = None
            self._edited.set()

    async def _perform(self, text: str) -> None:
        self._going = text
        try:
            outbox = self._operations.services.outbox
            edit = EditMessage(self.sent.chat_id, self.sent.message_id, text, self._keyboard)
            await outbox.perform(edit, urgency=Urgency.BESIDE)
            self._shown = text
        except (TriobotError, OSError):
            self._operations.shared.work.count("live_failed")
        finally:
            self._going = None
        # Set even after a failure: a second try with the same text would fail, too.
        self._tried = text


@asynccontextmanager
async def open_live(operations: Operations, text: str, buttons: Buttons[Any] | None) -> AsyncGenerator[Live]:
    """Send a message that the block may edit with `Live.show`."""
    keyboard = keyboard_of(buttons) if buttons else None
    own = operations.check_task()
    sent = await operations.perform(SendMessage(operations.chat_id, text, inline_keyboard=keyboard))
    live = Live(operations, sent, text, keyboard, own)
    try:
        yield live
    except BaseException:
        live._leave()  # pyright: ignore[reportPrivateUsage]
        raise
    await live._end()  # pyright: ignore[reportPrivateUsage]
