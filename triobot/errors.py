"""Every exception that triobot raises on purpose::

    TriobotError
      ProtocolError
        LocalProtocolError       we were about to send what the interface forbids
        RemoteProtocolError      they sent what nobody can read
      RefusedError               the platform said no
        BadRequestError            400: a parameter
        ForbiddenError             403: the token, or this chat
      TransportError
        NotDeliveredError        the request never left: safe to repeat
        DeliveryUnknownError     it may have arrived: nobody knows
      ConversationError
        ConversationEndedError   the conversation this handle belongs to is over
        ForeignTaskError         a chat operation from a task the conversation doesn't know
        NonDurableCancelError    a cancel scope that isn't the chat's cancelled a chat operation
        StepError                a step failed with an error that can't be recorded as itself
        ExitError                the code raised what is no Exception, such as SystemExit
        NondeterminismError      the code does something else than its journal says
      RecordError
        UnrecordableError        no record can hold this value
        UnreadableRecordError    this program can't read a record
      PaymentError
        PaymentDeclinedError     not paid, and the platform agreed that it wasn't
        PaymentExpiredError      nobody paid while the button or invoice lived
        AmountMismatchError      paid, but another amount
        PaymentHandedOverError   paid, and given later, or by an operator
      StoreError
        StoreLockedError         another process has it open
        StoreVersionError        made by another version of triobot
        StoreCorruptError        the file is damaged
        StaleRowError            a payment has moved since it was read
        StoreFullError           a write did not reach the disk, and nothing of it is stored
          StoreAwayError         the database is away for a while, and nothing of it is stored
        LeaseLostError           another process has this chat now
        JournalConflictError     a conversation isn't where its writer believes
      BreakdownError             the process ends, since a part of it has failed
      ConfigError                a setting or a declaration is wrong
        NotFoundError              what an operator named isn't there
        ConflictError              what an operator asked for can't be done as things stand

Each says whose fault it is and whether repeating helps. All are picklable; none carries the token, a
phone number or a message's text in its arguments, and raw bytes stay out of `str` and `repr`.
"""

from __future__ import annotations

from typing import final

import trio


class TriobotError(Exception):
    """The root: catch it to catch whatever triobot raises on purpose."""


class ProtocolError(TriobotError):
    """Bytes or values that break the platform's interface."""


@final
class LocalProtocolError(ProtocolError):
    """We built what the interface forbids. Your program's fault; repeating never helps.

    Attributes:
        field: the field that broke the rule.
        rule: the rule, in words, without the value.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"


@final
class RemoteProtocolError(ProtocolError):
    """They sent what nobody can read. The sender's fault.

    Attributes:
        field: what could not be read, such as ``data.message_id``, or ``body`` for the whole.
        rule: what was expected, in words, without the value.
        raw: the bytes as they came; never part of `str`, `repr` or a pickle.
    """

    def __init__(self, field: str, rule: str, *, raw: bytes = b"") -> None:
        super().__init__(field, rule)
        self.field = field
        self.rule = rule
        self.raw = raw

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}"

    def __reduce__(self) -> tuple[type[RemoteProtocolError], tuple[str, str]]:
        return (RemoteProtocolError, (self.field, self.rule))


class RefusedError(TriobotError):
    """The platform answered, and said no (interface section 7).

    Attributes:
        operation: the operation's path, such as ``sendMessage``.
        status: the HTTP status.
        reason: the platform's own words, shortened; may be empty.
        trace_id: the platform's reference for its support, if it gave one.
        retry_after: seconds for which the platform asked not to be asked again, if it did.
    """

    def __init__(
        self,
        operation: str,
        status: int,
        reason: str = "",
        trace_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(operation, status, reason, trace_id, retry_after)
        self.operation = operation
        self.status = status
        self.reason = reason
        self.trace_id = trace_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        said = f": {self.reason}" if self.reason else ""
        trace = f" (trace_id {self.trace_id})" if self.trace_id else ""
        return f"{self.operation} was refused with status {self.status}{said}{trace}{self._advice()}"

    def _advice(self) -> str:
        return ""


@final
class BadRequestError(RefusedError):
    """400: the platform found a parameter invalid. Repeating the same request never helps."""


@final
class ForbiddenError(RefusedError):
    """403: the token is not valid, **or** this bot may not write to this chat. The status is the same."""

    def _advice(self) -> str:
        return "; either the token is not valid, or the bot may not write to this chat"


class TransportError(TriobotError):
    """No answer that could be read.

    Attributes:
        operation: the operation's path, such as ``sendMessage``.
    """

    def __init__(self, operation: str, what: str) -> None:
        super().__init__(operation, what)
        self.operation = operation
        self.what = what

    def __str__(self) -> str:
        return f"{self.operation}: {self.what}"


@final
class NotDeliveredError(TransportError):
    """The request never left this machine, or never reached the platform. Safe to repeat."""


@final
class DeliveryUnknownError(TransportError):
    """The request may have taken effect: it was being written, or its answer was lost."""


class ConversationError(TriobotError):
    """Something went wrong between an author's code and its chat."""


@final
class ConversationEndedError(ConversationError):
    """The conversation that this handle belongs to is over. Your program's fault."""


@final
class ForeignTaskError(ConversationError):
    """A chat operation came from a task that the conversation doesn't know. Your program's fault."""


@final
class NonDurableCancelError(ConversationError):
    """A cancel scope that isn't the chat's cancelled a chat operation. Your program's fault.

    A restart would not know of it. Use `Chat.move_on_after`, `fail_after` or `cancel_scope` instead.

    Attributes:
        id: the operation's number in its conversation.
    """

    def __init__(self, id: str) -> None:
        super().__init__(id)
        self.id = id

    def __str__(self) -> str:
        return (
            f"operation {self.id} was cancelled by a scope that isn't the chat's, of which a restart would "
            "know nothing; use chat.move_on_after, chat.fail_after or chat.cancel_scope"
        )


@final
class NondeterminismError(ConversationError):
    """A conversation's code does something else than what its journal says. Your program's fault.

    It is never raised in the conversation: that is parked, with all that it has, until its code changes.

    Attributes:
        id: the operation's number in its conversation.
        what: what was recorded, and what the code does.
    """

    def __init__(self, id: str, what: str) -> None:
        super().__init__(id, what)
        self.id = id
        self.what = what

    def __str__(self) -> str:
        return f"operation {self.id}: {self.what}"


@final
class StepError(ConversationError):
    """A step failed with an error that can't be recorded as itself.

    Attributes:
        kind: the original error's type name.
        text: its text.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


@final
class ExitError(ConversationError):
    """An author's code raised what is no Exception, such as SystemExit; it ends that code, not the process.

    Attributes:
        kind: the type's name of what it raised, which is the cause.
        text: its text.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


class RecordError(TriobotError):
    """A value and its record don't fit one another."""


@final
class UnrecordableError(RecordError):
    """No record can hold this value. Your program's fault; nothing was stored.

    Attributes:
        kind: the type that can't be recorded.
        path: where it is inside the value, such as ``value.items[2]``; dictionary entries by their place.
        rule: what would do, in words, without the value.
    """

    def __init__(self, kind: str, path: str, rule: str) -> None:
        super().__init__(kind, path, rule)
        self.kind = kind
        self.path = path
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.path} is a {self.kind}, which can't be recorded: {self.rule}"


@final
class UnreadableRecordError(RecordError):
    """A record that this program can't read: a class that it doesn't know, or another version's words.

    Attributes:
        what: what is missing, without the record's content.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class PaymentError(TriobotError):
    """A payment did not end with verified money in the conversation's hands."""


@final
class PaymentDeclinedError(PaymentError):
    """Not paid: the platform said so, and verify and inquiry agreed (interface section 6).

    Attributes:
        code: the payCallback code, or None for an invoice.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return "the payment was declined" + (f" with code {self.code}" if self.code is not None else "")


@final
class PaymentExpiredError(PaymentError, trio.TooSlowError):
    """Nobody paid while the button or invoice lived; also a `trio.TooSlowError`, as of every deadline."""

    def __str__(self) -> str:
        return "nobody paid in time"


@final
class AmountMismatchError(PaymentError):
    """The platform captured another amount than was asked for; nothing was granted.

    Attributes:
        asked: the amount of the charge.
        captured: what the platform said it took.
    """

    def __init__(self, asked: int, captured: int) -> None:
        super().__init__(asked, captured)
        self.asked = asked
        self.captured = captured

    def __str__(self) -> str:
        return f"asked for {self.asked}, the platform captured {self.captured}"


@final
class PaymentHandedOverError(PaymentError):
    """It is paid, and the aside for it has failed, and gets it again; or an operator has it: give nothing."""

    def __str__(self) -> str:
        return "it is paid, and is given later, or by an operator; give nothing here"


class StoreError(TriobotError):
    """The store did not do what was asked; what it acknowledged before is safe.

    Attributes:
        remedy: what its operator can do, in words for an alarm.
    """

    remedy: str = "look at the disk"


@final
class StoreLockedError(StoreError):
    """Another process has this store open."""


@final
class StoreVersionError(StoreError):
    """The store was made by a version of triobot that this one can't read."""


@final
class StoreCorruptError(StoreError):
    """The store's file is damaged or is not a store, or its disk failed while a commit was being made."""


class StoreFullError(StoreError):
    """A write did not reach the disk, and nothing of it is stored. Repeat once the cause is gone."""

    def __init__(self, text: str, *, remedy: str | None = None) -> None:
        super().__init__(text)
        if remedy is not None:
            self.remedy = remedy


@final
class StoreAwayError(StoreFullError):
    """The store's database is away for a while, and nothing of this call is stored. Repeat it."""

    remedy = "look at the database's server, and at the network between"


@final
class BreakdownError(TriobotError):
    """The process ends, since a part of it has failed. The runtime's fault; names chat, route and line."""


class ConfigError(TriobotError):
    """A setting or a declaration is wrong. Your program's or the operator's fault; nothing was started."""


@final
class NotFoundError(ConfigError):
    """What an operator named isn't there: a conversation, a payment, a job. Nothing was done."""


@final
class ConflictError(ConfigError):
    """What an operator asked for can't be done as things stand; nothing was done, unless it says so."""
