"""Every exception that triobot raises on purpose::

    TriobotError
      ProtocolError
        LocalProtocolError       the program built a request that the interface forbids
        RemoteProtocolError      the other side sent bytes that can't be parsed
      RefusedError               the platform refused the request
        BadRequestError            400: an invalid parameter
        ForbiddenError             403: an invalid token, or a forbidden chat
      TransportError
        NotDeliveredError        the request did not reach the platform: safe to repeat
        DeliveryUnknownError     the request may have taken effect
      ConversationError
        ConversationEndedError   the handle's conversation has ended
        ForeignTaskError         a chat operation from a task outside the conversation
        NonDurableCancelError    a plain Trio cancel scope cancelled a chat operation
        StepError                a step failed with an error that can't be recorded as itself
        ExitError                the code raised a BaseException that is no Exception, such as SystemExit
        NondeterminismError      the code's operations differ from the recorded operations
      RecordError
        UnrecordableError        no record can store the value
        UnreadableRecordError    this program can't read a record
      PaymentError
        PaymentDeclinedError     the platform confirmed that the payment failed
        PaymentExpiredError      no payment arrived before the button or invoice expired
        AmountMismatchError      the user paid another amount
        PaymentHandedOverError   the user paid; an aside or an operator gives the goods
      StoreError
        StoreLockedError         another process has the store open
        StoreVersionError        another version of triobot made the store
        StoreCorruptError        the file is damaged
        StaleRowError            the payment has changed since it was read
        StoreFullError           a write did not reach the disk, and nothing of it is stored
          StoreAwayError         the database is unreachable for a while, and nothing of the write is stored
        LeaseLostError           another process has the lease now
        JournalConflictError     the stored journal differs from the state that its writer expects
      BreakdownError             a part of the process has failed, and the process ends
      ConfigError                a setting or a declaration is wrong
        NotFoundError            an operator named an object that doesn't exist
        ConflictError            the current state forbids an operator's request

If the same side is always at fault, the class's docstring names this side. Some docstrings also state whether
repeating helps. All exceptions are picklable. No exception's arguments contain the token, a phone number or a
message's text; `str` and `repr` show no raw bytes.
"""

from __future__ import annotations

from typing import final

import trio


class TriobotError(Exception):
    """Base class of every error that triobot raises on purpose."""


class ProtocolError(TriobotError):
    """Bytes or values break the platform's interface."""


@final
class LocalProtocolError(ProtocolError):
    """The program built a request that the interface forbids. Your program's fault; repeating never helps.

    Attributes:
        field: field that breaks the rule.
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
    """The other side sent bytes that can't be parsed. The sender's fault.

    Attributes:
        field: unreadable field, such as ``data.message_id``; ``body`` for the whole body.
        rule: expected format, in words, without the value.
        raw: received bytes; never part of `str`, `repr` or a pickle.
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
    """The platform refused a request (interface section 7).

    Attributes:
        operation: the operation's path, such as ``sendMessage``.
        status: HTTP status.
        reason: the platform's error text, shortened; may be empty.
        trace_id: the platform's reference for its support, or None.
        retry_after: seconds to wait before the next request, as the platform asked, or None.
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
    """Status 400: the platform found a parameter invalid. Repeating the same request never helps."""


@final
class ForbiddenError(RefusedError):
    """Status 403: the token is invalid, **or** the bot may not write to the chat.
    Both cases have the same status.
    """

    def _advice(self) -> str:
        return "; either the token is not valid, or the bot may not write to this chat"


class TransportError(TriobotError):
    """The request got no readable answer.

    Attributes:
        operation: the operation's path, such as ``sendMessage``.
        what: description of the failure, in words.
    """

    def __init__(self, operation: str, what: str) -> None:
        super().__init__(operation, what)
        self.operation = operation
        self.what = what

    def __str__(self) -> str:
        return f"{self.operation}: {self.what}"


@final
class NotDeliveredError(TransportError):
    """The request did not reach the platform. Safe to repeat."""


@final
class DeliveryUnknownError(TransportError):
    """The request may have taken effect: the connection broke during the request, or the answer was lost."""


class ConversationError(TriobotError):
    """Base class of errors in the author's use of a chat."""


@final
class ConversationEndedError(ConversationError):
    """The conversation of this handle has ended. Your program's fault."""


@final
class ForeignTaskError(ConversationError):
    """A chat operation came from a task outside the conversation. Your program's fault."""


@final
class NonDurableCancelError(ConversationError):
    """A plain Trio cancel scope cancelled a chat operation. Your program's fault.

    A restarted process could not repeat such a cancellation. Use `Chat.move_on_after`, `fail_after` or
    `cancel_scope` instead.

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
    """A conversation's code runs operations that differ from those in its journal. Your program's fault.

    The conversation's code never gets this error. The conversation is parked with its data until the code
    changes.

    Attributes:
        id: the operation's number in its conversation.
        what: the recorded operation, and the code's operation.
    """

    def __init__(self, id: str, what: str) -> None:
        super().__init__(id, what)
        self.id = id
        self.what = what

    def __str__(self) -> str:
        return f"operation {self.id}: {self.what}"


@final
class StepError(ConversationError):
    """A step failed with an error whose class isn't among the step's `raises`.

    Attributes:
        kind: type name of the original error.
        text: text of the original error.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


@final
class ExitError(ConversationError):
    """An author's code raised a BaseException that is no Exception, such as SystemExit. Only this code ends,
    not the process.

    The raised exception is the `__cause__`.

    Attributes:
        kind: type name of the raised exception.
        text: text of the raised exception.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


class RecordError(TriobotError):
    """A value can't be converted to or from a record."""


@final
class UnrecordableError(RecordError):
    """No record can store this value. Your program's fault; nothing was stored.

    Attributes:
        kind: type that can't be recorded.
        path: position inside the value, such as ``value.items[2]``; a dictionary entry is named by its index.
        rule: the rule that the value breaks, in words, without the value.
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
    """This program can't read a record: the record's class is unknown, or another version wrote it.

    Attributes:
        what: the missing class or format, without the record's content.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class PaymentError(TriobotError):
    """A payment ended without verified money for the conversation."""


@final
class PaymentDeclinedError(PaymentError):
    """The payment failed. The platform reported the failure, and verify and inquiry confirmed the failure
    (interface section 6).

    Attributes:
        code: the payCallback code; None for an invoice.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return "the payment was declined" + (f" with code {self.code}" if self.code is not None else "")


@final
class PaymentExpiredError(PaymentError, trio.TooSlowError):
    """No payment arrived before the button or invoice expired.

    A subclass of `trio.TooSlowError`, so that code can catch all deadlines' errors together.
    """

    def __str__(self) -> str:
        return "nobody paid in time"


@final
class AmountMismatchError(PaymentError):
    """The captured amount differs from the amount that the charge asked for; no goods were given.

    Attributes:
        asked: amount of the charge.
        captured: amount that the platform reports as captured.
    """

    def __init__(self, asked: int, captured: int) -> None:
        super().__init__(asked, captured)
        self.asked = asked
        self.captured = captured

    def __str__(self) -> str:
        return f"asked for {self.asked}, the platform captured {self.captured}"


@final
class PaymentHandedOverError(PaymentError):
    """The payment is made, but the goods are given elsewhere: the payment's failed aside will run again, or
    an operator handles the payment.

    Give no goods in the code that catches this error.
    """

    def __str__(self) -> str:
        return "it is paid, and is given later, or by an operator; give nothing here"


class StoreError(TriobotError):
    """The store did not do the requested operation. Everything that the store acknowledged before is safe.

    Attributes:
        remedy: the operator's next action, in words for an alarm.
    """

    remedy: str = "look at the disk"


@final
class StoreLockedError(StoreError):
    """Another process has this store open."""


@final
class StoreVersionError(StoreError):
    """Another version of triobot made the store, and this version can't read it."""


@final
class StoreCorruptError(StoreError):
    """The store's file is damaged or is not a store, or its disk failed during a commit."""


class StoreFullError(StoreError):
    """A write did not reach the disk, and no part of the write is stored. Repeat after the cause is gone."""

    def __init__(self, text: str, *, remedy: str | None = None) -> None:
        super().__init__(text)
        if remedy is not None:
            self.remedy = remedy


@final
class StoreAwayError(StoreFullError):
    """The store's database is unreachable for a while; nothing of this call is stored. Repeat the call."""

    remedy = "look at the database's server, and at the network between"


@final
class BreakdownError(TriobotError):
    """A part of the process failed, and the process ends. The runtime's fault. The error names chat, route
    and line.
    """


class ConfigError(TriobotError):
    """A setting or a declaration is wrong. Your program's or the operator's fault; nothing was started."""


@final
class NotFoundError(ConfigError):
    """An operator named a conversation, payment or job that doesn't exist. Nothing was done."""


@final
class ConflictError(ConfigError):
    """The current state forbids an operator's request; nothing was done, unless the text says otherwise."""
