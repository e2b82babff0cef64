"""Where the interface is silent, or clients disagree with it: what this platform does, by choice.

Every default is what the evidence favours. A bot that is right under each setting is right on the platform.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import attrs

HOUR: int = 3_600_000
DAY: int = 24 * HOUR

Word: TypeAlias = Literal["verified", "error"]


def _is_count(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"{attribute.name} must be a non-negative integer")


def _is_flag(instance: object, attribute: attrs.Attribute[bool], value: bool) -> None:
    if type(value) is not bool:
        raise ValueError(f"{attribute.name} must be true or false")


@final
@attrs.frozen(kw_only=True)
class Switches:
    """How the emulated platform behaves; all times in milliseconds.

    Attributes:
        second_verify: what verify says of money that was captured before.
        inquiry_sees_paid: inquiry says ``verified`` of paid money that isn't captured yet.
        pay_twice: a used ``ref_id`` may be paid again; off, it is answered with code 1003.
        paid_status: the word of a successful payCallback; no public client has recorded it.
        unknown_ref_status: the answer to verifying what was never offered: 400, or 200 with ``error``.
        unknown_chat_status: the answer to writing to a chat that isn't there, or to a person who left.
        verify_window: after this, paid money that was not captured goes back (interface section 3).
        invoice_life: how long an invoice without an expiry of its own can be paid.
        edit_drops_keyboard: an edit without an inline keyboard removes the one that was there.
        edit_needs_data: an edit without ``data`` is refused, as the interface says.
        empty_keyboard_removes: a reply keyboard without rows takes the present one away.
        typing_life: how long one sendAction shows.
        senders: events carry ``from``.
        form_callback_ids: form submissions carry a callback id.
        json_operations: operations may come as JSON objects, too.
        json_events: events are posted as JSON, not as forms.
        lower_case_callbacks: ``paycallback`` and ``invoicecallback``, not the interface's spelling.
        undocumented: the operations outside the interface exist.
    """

    second_verify: Word = attrs.field(
        default="verified", validator=attrs.validators.in_(("verified", "error"))
    )
    inquiry_sees_paid: bool = attrs.field(default=False, validator=_is_flag)
    pay_twice: bool = attrs.field(default=False, validator=_is_flag)
    paid_status: str = attrs.field(default="success", validator=attrs.validators.instance_of(str))
    unknown_ref_status: Literal[200, 400] = attrs.field(
        default=400, validator=attrs.validators.in_((200, 400))
    )
    unknown_chat_status: Literal[400, 403] = attrs.field(
        default=403, validator=attrs.validators.in_((400, 403))
    )
    verify_window: int = attrs.field(default=HOUR, validator=_is_count)
    invoice_life: int = attrs.field(default=DAY, validator=_is_count)
    edit_drops_keyboard: bool = attrs.field(default=True, validator=_is_flag)
    edit_needs_data: bool = attrs.field(default=False, validator=_is_flag)
    empty_keyboard_removes: bool = attrs.field(default=True, validator=_is_flag)
    typing_life: int = attrs.field(default=6_000, validator=_is_count)
    senders: bool = attrs.field(default=True, validator=_is_flag)
    form_callback_ids: bool = attrs.field(default=True, validator=_is_flag)
    json_operations: bool = attrs.field(default=True, validator=_is_flag)
    json_events: bool = attrs.field(default=False, validator=_is_flag)
    lower_case_callbacks: bool = attrs.field(default=False, validator=_is_flag)
    undocumented: bool = attrs.field(default=True, validator=_is_flag)
