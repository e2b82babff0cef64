"""Questions with buttons: a single question, or a board that asks several questions in one message.

A single question has a token of its own, so that buttons of an older question can't answer it. The questions
of a board share one token: a tap counts for the button that the user saw, even if the board shows another
question by then.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, Self, TypeVar, cast, final

from ...engine.core import refuse
from ...errors import LocalProtocolError
from ...wire.events import Event, Message, Press
from ...wire.operations import EditMessage, SendMessage
from ...wire.results import Sent
from ..operations import Operations
from ..revival.stored import digest_of_keys
from ..routes.filters import Filter, Setting, check_filter
from ..routes.routing import BOARD, QUESTION, Otherwise, OtherwisePolicy, Wait, token_of
from ..running.failures import give_up
from .asking import (
    answered,
    begin_wait,
    check_by,
    check_question,
    check_sent,
    end_wait,
    is_by,
    new_token,
    policy,
    reopen_wait,
    tidy,
)
from .buttons import Buttons, keyboard_of, keys_of

K = TypeVar("K", bound=Hashable)

TAPS: Final = 32
"""Number of taps that may wait while the conversation handles the first tap; further taps are dropped."""


@final
class Board:
    """Message with a question and buttons that change while the block runs; see `Chat.board`."""

    def __init__(
        self,
        operations: Operations,
        into: Sent | None,
        by: int | None,
        otherwise: OtherwisePolicy | None,
        also: Filter[object] | None = None,
        *,
        taps: int = TAPS,
    ) -> None:
        check_by(by)
        self._operations, self._also, self._by, self._taps = operations, also, by, taps
        self._token = new_token(operations.run, BOARD if taps > 1 else QUESTION)
        if also is not None:
            check_filter(also, "choose(also=)")
        if into is not None:
            check_sent(into, "into")
            if into.chat_id != operations.chat_id:
                raise LocalProtocolError("into", "must be a message of this chat")
        self._sent, self._text = into, ""
        self._said = policy(otherwise, operations.conversation.texts.want_choice)
        self._keys: dict[object, Hashable] = {}
        self._wait: Wait | None = None

    def __enter__(self) -> Self:
        wait = Wait(self._look, self._said, True, self._token, self._look_also, most=self._taps)
        self._wait = begin_wait(self._operations, wait)
        return self

    def __exit__(self, *_: object) -> None:
        wait, self._wait = self._wait, None
        try:
            if self._text and self._sent is not None:
                tidy(self._operations, self._sent, self._text)
        finally:
            if wait is not None:
                end_wait(self._operations, wait)

    async def choose(self, question: str, options: Mapping[K, str] | Buttons[K]) -> K:
        """Show the question with its buttons, and return the key of the next tapped button.

        The tapped button may belong to a keyboard that the board showed earlier.

        Raises: the errors of `Chat.choose`.
        """
        check_question(question)
        if self._wait is None:
            raise LocalProtocolError("board", "is closed: choose() is for the inside of its block")
        buttons = options if isinstance(options, Buttons) else Buttons(options)
        if not (keys := keys_of(buttons, self._token)):
            raise LocalProtocolError("options", "a choice needs at least one option")
        operations, sent, wait = self._operations, self._sent, self._wait
        self._keys |= keys
        wait.keys = wait.shown = digest_of_keys(str(data).partition(".")[2] for data in keys)
        keyboard = keyboard_of(buttons, self._token)
        # Set `_text` before the edit: if the edit fails, the board's end must remove an earlier question's
        # buttons.
        self._text = question
        asks = SendMessage(operations.chat_id, question, inline_keyboard=keyboard)
        # A message without an id from the platform can't be edited: send the question as a new message.
        if sent is None or sent.id is None:
            self._sent = None
            self._sent = await operations.perform(asks)
        else:
            operations.touch(sent.id)
            await operations.perform(EditMessage(sent.chat_id, sent.id, question, keyboard))
        while not (answer := cast("tuple[K, ...]", await answered(operations, wait))):
            if self._sent is not None:
                tidy(operations, self._sent, question)
            reopen_wait(operations, wait)
            self._sent = await operations.perform(asks)
            wait.shown = wait.keys
        if (replay := operations.conversation.replay) is not None and (changed := replay.changed) is not None:
            took = changed.took
            pressed = took.value if isinstance(took, Press) and token_of(took) == self._token else None
            if self._also is None if pressed is None else pressed not in self._keys:
                give_up(operations.run, changed.part_at_option(answer[0]))
                await refuse(operations.run)
        return answer[0]

    def _look(self, event: Event, setting: Setting) -> object | None:
        """Return ``(key,)`` for a press of a button, () for an answer to an old build's buttons, or None."""
        if not is_by(event, self._by):
            return None
        if isinstance(event, Press) and event.value in self._keys:
            return (self._keys[event.value],)
        if (wait := self._wait) is None or wait.shown == wait.keys:
            return None
        if isinstance(event, Press):
            return () if token_of(event) == self._token else None
        stays = self._said is Otherwise.KEEP or self._look_also(event, setting) is not None
        return () if isinstance(event, Message) and not stays else None

    def _look_also(self, event: Event, setting: Setting) -> object | None:
        also = self._also
        value = also.look(event, setting) if also is not None and is_by(event, self._by) else None
        return None if value is None else (value,)
