"""Progress: a message that shows the newest state of something while it goes on.

A text on the way is nobody's operation: it may be said from inside a step, is never waited for, and is never
sent if another overtakes it. These edits run beside the conversation, one at a time. The last text is an
operation, like every edit; only where the block is cut it is owed, as a question's is.

What was said last is noted in the turn in which the block ends: a step that has ended isn't run again, so
that nothing else could tell it after a restart.
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
from ...wire.operations import EditMessage, SendMessage
from ...wire.results import Sent
from ..conversation import Conversation
from ..workload import holds
from .asking import tidy
from .buttons import Buttons, keyboard_of


@final
class Live:
    """A message whose text follows what goes on; made by `Chat.live`.

    Attributes:
        sent: the message.
    """

    def __init__(
        self, conversation: Conversation, sent: Sent, text: str, buttons: Buttons[Any] | None, own: Id
    ) -> None:
        self.sent = sent
        self._conversation = conversation
        self._own = own
        self._keyboard = keyboard_of(buttons) if buttons else None
        self._every = conversation.services.live_every
        self._due = trio.current_time() + self._every
        self._first = self._newest = self._tried = self._shown = text
        self._going: str | None = None
        self._editor: trio.CancelScope | None = None
        self._edited = trio.Event()
        self._closed = False
        if conversation.replaying:
            conversation.when_live(self._catch_up)

    def __repr__(self) -> str:
        return f"<Live message {self.sent.id}>"

    @property
    def text(self) -> str:
        """Return what the message shows, once the block has ended, also if what went on in it was cut.

        That is the last text; if the platform refused it, the last that it took. The same after a restart. A
        step that a crash cuts runs again, and this is then what that run showed last. Of a crash in the very
        moment in which the block ends, it may be what it said at first.

        Raises:
            LocalProtocolError: the block goes on. Your program's fault.

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
        """Show this text soon, unless another one follows before it is its turn. Never waits.

        May be called from anywhere in the program's own thread, also inside a step. After the block it does
        nothing. An edit that fails is counted, and the next one is tried all the same; only of the last text
        the block says so.

        Raises:
            LocalProtocolError: the text can't be sent. Your program's fault.
        """
        EditMessage(self.sent.chat_id, MessageId(0), text, self._keyboard)  # refuses what no message can show
        if self._closed:
            return
        self._newest = text
        if not self._conversation.replaying:
            self._catch_up()

    def _close(self) -> str:
        """Take no more texts, and return the last: the same on replay."""
        self._closed = True
        if not self._conversation.dead:
            self._newest = self._conversation.run.note(f"live {self._own}", lambda: self._newest)
        return self._newest

    def _leave(self) -> None:
        """Leave the message as its last text, without buttons, beside the conversation: the block was cut."""
        text = self._close()
        if self._keyboard is not None or text != (self._going or self._shown):
            self._owe(text)

    async def _end(self) -> None:
        """Show the last text, and no buttons.

        Raises: as `Chat.edit`; but a message to which the platform gave no id goes on showing its first text.
        """
        conversation, text = self._conversation, self._close()
        if self.sent.id is None:
            self._newest = self._first
            self._owe(self._first)
        elif text != self._first or self._keyboard is not None:
            last = EditMessage(self.sent.chat_id, self.sent.id, text)
            try:
                await conversation.perform(last, unless=self._is_shown)
            except Exception:
                if not conversation.dead:
                    self._newest = conversation.run.note(f"shown {self._own}", lambda: self._shown)
                    if self._keyboard is not None:
                        self._owe(self._newest)
                raise
            except BaseException:
                self._owe(text)
                raise

    def _owe(self, text: str) -> None:
        if self._editor is not None:
            self._editor.cancel()
        tidy(self._conversation, self.sent, text)

    async def _is_shown(self) -> bool:
        """Return whether the edits beside have shown the last text, once they are over."""
        if self._going == self._newest:
            await self._edited.wait()
        elif self._editor is not None:
            self._editor.cancel()
        await trio.lowlevel.checkpoint()
        return self._keyboard is None and self._newest == self._shown

    def _catch_up(self) -> None:
        """Show the newest text; after a restart once more, since nobody knows what the message shows."""
        if self._closed or self._editor is not None or self._conversation.work.cut:
            return
        if self.sent.id is None:
            self._conversation.work.count("live_failed")
            return
        if self._newest != self._tried:
            self._editor, self._edited = trio.CancelScope(), trio.Event()
            self._conversation.work.beside(self._keep_showing)

    async def _keep_showing(self) -> None:
        assert self._editor is not None
        try:
            with self._editor:
                while self._newest != self._tried and not self._closed:
                    await trio.sleep_until(self._due)
                    writer = self._conversation.writer
                    if writer is not None and writer.ahead is not None and not await holds(writer.ahead):
                        return  # what the text tells of has been taken back
                    self._due = trio.current_time() + self._every
                    await self._perform(self._newest)
        finally:
            self._editor = None
            self._edited.set()

    async def _perform(self, text: str) -> None:
        self._going = text
        try:
            outbox = self._conversation.services.outbox
            await outbox.perform(self._edit(text), urgency=Urgency.BESIDE)
            self._shown = text
        except (TriobotError, OSError):
            self._conversation.work.count("live_failed")
        finally:
            self._going = None
        # Also when it failed: the same text would fail again.
        self._tried = text

    def _edit(self, text: str) -> EditMessage:
        return EditMessage(self.sent.chat_id, self.sent.message_id, text, self._keyboard)


@asynccontextmanager
async def open_live(
    conversation: Conversation, text: str, buttons: Buttons[Any] | None
) -> AsyncGenerator[Live]:
    """Send a message that can be changed while the block runs."""
    keyboard = keyboard_of(buttons) if buttons else None
    own = conversation.check_task()
    sent = await conversation.perform(SendMessage(conversation.life.chat_id, text, inline_keyboard=keyboard))
    live = Live(conversation, sent, text, buttons, own)
    try:
        yield live
    except BaseException:
        live._leave()  # pyright: ignore[reportPrivateUsage]
        raise
    await live._end()  # pyright: ignore[reportPrivateUsage]
