"""What the interface leaves open or says otherwise than the live platform, numbered, with what we do.

Docstrings and the emulator cite these numbers; a number never changes its meaning. What the interface says
is law; these are the places where it is silent, or where it and what public clients met on the wire differ.
"""

from __future__ import annotations

from typing import Final, final

import attrs


@final
@attrs.frozen
class Gap:
    """One open point.

    Attributes:
        number: what is cited; unique, and never given to another point.
        title: the point, in a few words.
        interface_says: the interface's words, or its silence, with the section.
        we_do: what triobot does.
    """

    number: int
    title: str
    interface_says: str
    we_do: str


GAPS: Final = (
    Gap(
        1,
        "encoding of requests",
        "Section 4: content type and encoding of the request body are not shown; some are 'encoded'.",
        "A form in UTF-8 (application/x-www-form-urlencoded), multipart for an upload; 'encoded' is JSON "
        "text in one field, booleans are true and false, unset fields are left out.",
    ),
    Gap(
        2,
        "encoding of events",
        "Section 6: an HTTP POST with the fields of section 2.2.",
        "Forms, JSON and multipart are read, by content type and then by looking; ids may be numbers or "
        "digits, data and from may be text or objects. The emulator posts forms, and JSON on request.",
    ),
    Gap(
        3,
        "types of events",
        "Section 2.2: eleven types in camel case.",
        "Types are matched in any case; leave, contact and location are typed events; any other type becomes "
        "an UnknownEvent, never an error.",
    ),
    Gap(
        4,
        "the person behind an event",
        "Not shown.",
        "The optional field from holds id, name and user; an unreadable one counts as absent.",
    ),
    Gap(
        5,
        "shape of data in events",
        "Section 2.2: not shown but for the two callbacks.",
        "Plain text for text, which is never decoded; JSON text for the rest: descriptors, contacts and "
        "locations as they are sent, and data, message_id and callback_id for presses and forms.",
    ),
    Gap(
        6,
        "callback_id",
        "Section 4.3: an integer.",
        "Opaque text, sent back exactly as it came: live ones are letters and digits.",
    ),
    Gap(
        7,
        "edit without data",
        "Section 4.3: data is required.",
        "Our own edits send data, unless an author asks for a change of the buttons only.",
    ),
    Gap(
        8,
        "answering a press without a word",
        "Section 4.3: text is required; whether it may be empty is not shown.",
        "The automatic answer sends an empty text; a refusal of it is counted and not repeated.",
    ),
    Gap(
        9,
        "once and selective of a reply keyboard",
        "Section 2.9: only the key keyboard.",
        "Both are sent when given; what they do is not documented.",
    ),
    Gap(
        10,
        "removing a reply keyboard",
        "Not shown.",
        'A keyboard without rows, {"keyboard": []}.',
    ),
    Gap(
        11,
        "removing inline buttons",
        "Section 2.10: an inline keyboard stays until its message is edited or deleted.",
        "An edit without inline_keyboard removes it; the emulator can be told to keep it.",
    ),
    Gap(
        12,
        "what stands in a form's field at first",
        "Section 2.11: value is for the type inbuilt.",
        "value is sent with text and textarea when given.",
    ),
    Gap(
        13,
        "expiry of an invoice",
        "Section 4.1: no such field.",
        "expire_time, in seconds from 300 to 604,800, sent when given; older clients call it expire_date.",
    ),
    Gap(
        14,
        "leaderBoard's field for the period",
        "The operation is not in the interface; clients send time or type.",
        "time.",
    ),
    Gap(
        15,
        "ref_id of a payment",
        "Section 2.4: base64 letters and digits; section 4.2: an integer.",
        "Text. Our own are 16 decimal digits that fit both, and fit a double.",
    ),
    Gap(
        16,
        "id of an invoice",
        "Section 2.3: its type is not shown; section 4.1: ref_id is an integer.",
        "Opaque text, sent back as it came.",
    ),
    Gap(
        17,
        "invoiceCallback's key",
        "Section 6: invoiceId; section 2.3 names id and invoice_id as well.",
        "All three are read, in the order invoiceId, invoice_id, id.",
    ),
    Gap(
        18,
        "chat_id of a group",
        "Section 2.1: the identifier followed by @; clients send @ first.",
        "Both are accepted and passed on unchanged.",
    ),
    Gap(
        19,
        "deleteMessage without message_id",
        "Section 4.3: message_id is text and optional.",
        "Always sent; the operation requires it. The emulator refuses a request without it.",
    ),
    Gap(
        20,
        "the type of an edit's data",
        "Section 4.3: editMessage has no type.",
        "The new content should be of the message's own type; whoever reads an edit must know that type.",
    ),
    Gap(
        21,
        "meaning of 403",
        "Sections 5 and 7: the token is not valid.",
        "ForbiddenError names both causes that were met: the token, or a chat this bot may not write to.",
    ),
    Gap(
        22,
        "answers of edit, delete, action and answer",
        "Section 4.3: the success body is not shown.",
        "Any 200 is success, whatever its body, unless it is JSON that names an error.",
    ),
    Gap(
        23,
        "body of a refusal",
        "Section 7: not shown.",
        "error and trace_id of a JSON object, else the text itself, shortened to one line; it may be empty.",
    ),
    Gap(
        24,
        "currency of an invoice",
        "Section 4.1: rials, no such field.",
        "currency is sent only when given: IRR or coin.",
    ),
    Gap(
        25,
        "where a url button opens",
        "Section 2.10: in the user's browser.",
        "open_in is sent when given.",
    ),
    Gap(
        26,
        "operations outside the interface",
        "None.",
        "Six that public clients know are typed operations in a module of their own; triobot uses none.",
    ),
    Gap(
        27,
        "authenticity of events",
        "Section 5: not shown.",
        "A secret path segment. Payment callbacks are hints, checked by inquiry and verify.",
    ),
    Gap(
        28,
        "repeated deliveries",
        "Section 6: not shown; there is no update id.",
        "A press or form is known by its callback id for seven days; payment callbacks are never dropped; "
        "anything else equal is a repeat only within a minute of a delivery that was not acknowledged.",
    ),
    Gap(
        29,
        "the response that an event wants",
        "Section 6: not shown.",
        "200 as soon as the event is durable, whatever its handling will come to.",
    ),
    Gap(
        30,
        "status codes other than 200, 400 and 403",
        "Section 7: not shown.",
        "RefusedError with the status; 2xx other than 200 and redirects are refusals, too.",
    ),
    Gap(
        31,
        "verifying twice",
        "Section 3: transitions are not shown.",
        "What was captured is never verified again; it is inquired.",
    ),
    Gap(
        32,
        "values of a submitted form",
        "Section 2.2: data carries the filled form values.",
        "A percent-encoded query string, perhaps behind a prefix up to '?', in its order and with repeated "
        "names; a JSON object is read, too.",
    ),
    Gap(
        33,
        "show_alert left out",
        "Section 4.3: required.",
        "Always sent; the emulator takes its absence for false, as live clients expect.",
    ),
    Gap(
        34,
        "amount beside the status error",
        "Section 4.1: amount and status are answered.",
        "amount may be missing then; verified without an integer amount is unreadable, hence unknown.",
    ),
    Gap(
        35,
        "limits of rate and size",
        "Section 8: not shown.",
        "None is assumed: pacing adapts to what the platform refuses.",
    ),
    Gap(
        36,
        "a send's answer 200 without an id, and any other 2xx",
        "Section 2.5: every successful send returns id. Section 7: other statuses are not shown.",
        "It was taken, and is not sent again; without an id the message can't be edited or deleted. A 2xx is "
        "read as a 200 is.",
    ),
    Gap(
        37,
        "whether a 403 means the token or the chat",
        "Section 7: 403 is the token's; it was seen for a chat that the bot may not write to.",
        "An upload of a few bytes concerns no chat: what it is answered tells of the token.",
    ),
)
