"""Hypothesis strategies for every value of the wire: ids, content, markup, events, operations, results.

All values are valid, and equal after encoding and decoding. Many values contain text that breaks parsers:
Persian, emoji, control characters, percent signs, plus signs, JSON inside text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from triobot.wire.content import (
    MEDIA,
    Audio,
    Blob,
    Contact,
    Content,
    Descriptor,
    File,
    Image,
    Location,
    Video,
    Voice,
)
from triobot.wire.events import (
    Event,
    InvoiceCallback,
    Join,
    Leave,
    Message,
    PayCallback,
    Press,
    Sender,
    Submission,
    UnknownEvent,
)
from triobot.wire.forms import (
    Checkbox,
    Form,
    FormField,
    Inbuilt,
    Option,
    Radio,
    Select,
    Submit,
    TextArea,
    TextField,
)
from triobot.wire.ids import (
    CallbackId,
    ChatId,
    GroupName,
    InvoiceId,
    MessageId,
    PhoneNumber,
    Recipient,
    RefId,
    SenderId,
)
from triobot.wire.markup import (
    CallbackButton,
    InlineButton,
    InlineKeyboard,
    Key,
    LinkButton,
    PayButton,
    ReplyKeyboard,
)
from triobot.wire.operations import (
    AnswerCallback,
    CreateInvoice,
    DeleteMessage,
    EditMessage,
    InquireInvoice,
    InquirePayment,
    Operation,
    SendAction,
    SendMessage,
    Upload,
    VerifyInvoice,
    VerifyPayment,
)
from triobot.wire.results import InvoiceCreated, PaymentState, Sent
from triobot.wire.rules import LARGEST_INTEGER, JsonValue
from triobot.wire.undocumented import (
    Answer,
    GetGameConfig,
    GetGameData,
    GetLeaderBoard,
    PutGameData,
    RequestWalletCharge,
    SendGameEvent,
)

# --- text and JSON

_LIKE_JSON = ["123", "null", "true", '{"a":1}', "[1]"]
_LIKE_FORM = ["a+b c%20&=?", "%", "+98"]
_AWKWARD = [*_LIKE_JSON, *_LIKE_FORM, "\n", "\x00", "سلام دنیا", "می\u200cشود", "👩\u200d🚀", "\ufeff"]
_characters = st.characters(codec="utf-8")


def texts(*, max_size: int = 20) -> st.SearchStrategy[str]:
    """Generate text that can be sent, empty or not."""
    return st.one_of(st.sampled_from(["", *_AWKWARD]), st.text(_characters, max_size=max_size))


def words(*, max_size: int = 20) -> st.SearchStrategy[str]:
    """Generate text that can be sent and is not empty."""
    return st.one_of(st.sampled_from(_AWKWARD), st.text(_characters, min_size=1, max_size=max_size))


def json_values() -> st.SearchStrategy[JsonValue]:
    """Generate values that JSON can carry, a few levels deep."""
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts()
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(texts(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    )


def amounts() -> st.SearchStrategy[int]:
    """Generate amounts of money."""
    return st.integers(1, LARGEST_INTEGER)


# --- ids


def chat_ids() -> st.SearchStrategy[ChatId]:
    """Generate chats' ids as events name them."""
    return st.integers(-(10**18) + 1, 10**18 - 1).map(ChatId)


def sender_ids() -> st.SearchStrategy[SenderId]:
    """Generate ids of people."""
    return st.integers(0, 10**18 - 1).map(SenderId)


def message_ids() -> st.SearchStrategy[MessageId]:
    """Generate ids of messages."""
    return st.integers(0, 10**18 - 1).map(MessageId)


def recipients() -> st.SearchStrategy[Recipient]:
    """Generate whatever a message may be addressed to."""
    name = st.from_regex(r"\A[A-Za-z0-9_.\-]{1,20}\Z")
    return st.one_of(
        chat_ids(),
        st.from_regex(r"\A\+[0-9]{4,15}\Z").map(PhoneNumber),
        name.map(lambda text: GroupName(f"@{text}")),
        name.map(lambda text: GroupName(f"{text}@")),
    )


def _opaque() -> st.SearchStrategy[str]:
    return st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=24)


def callback_ids() -> st.SearchStrategy[CallbackId]:
    """Generate ids of presses."""
    return _opaque().map(CallbackId)


def invoice_ids() -> st.SearchStrategy[InvoiceId]:
    """Generate ids of invoices."""
    return _opaque().map(InvoiceId)


def ref_ids() -> st.SearchStrategy[RefId]:
    """Generate ids of payment buttons."""
    return st.from_regex(r"\A[A-Za-z0-9+/=_\-]{1,24}\Z").map(RefId)


# --- content


def descriptors() -> st.SearchStrategy[Descriptor]:
    """Generate descriptors of uploaded files, with unknown keys among them."""
    known = st.fixed_dictionaries(
        {"path": words()},
        optional={
            "type": st.sampled_from(sorted(MEDIA)),
            "width": st.integers(0, 10_000),
            "height": st.integers(0, 10_000),
            "duration": st.floats(0, 10_000),
            "filesize": st.integers(0, 10**12),
            "filename": texts(),
            "screenshots": st.dictionaries(st.sampled_from(["64", "128", "256", "512"]), words()),
        },
    )
    unknown = st.dictionaries(words(), json_values(), max_size=3)

    def described(fields: dict[str, JsonValue], more: dict[str, JsonValue]) -> Descriptor:
        return Descriptor.from_object({**more, **fields})

    return st.builds(described, known, unknown)


def media() -> st.SearchStrategy[Image | Video | Audio | Voice | File]:
    """Generate files of every kind that the platform has."""
    return st.one_of(*(st.builds(kind, descriptors(), texts()) for kind in MEDIA.values()))


def contacts() -> st.SearchStrategy[Contact]:
    """Generate shared phone numbers."""
    return st.builds(Contact, st.from_regex(r"\A\+?[0-9]{3,15}\Z"), texts())


def locations() -> st.SearchStrategy[Location]:
    """Generate places."""
    return st.builds(
        Location,
        st.one_of(st.floats(-90, 90), st.integers(-90, 90)),
        st.one_of(st.floats(-180, 180), st.integers(-180, 180)),
        texts(),
    )


def contents() -> st.SearchStrategy[Content]:
    """Generate content of every kind; text is not empty."""
    return st.one_of(words(), media(), contacts(), locations())


# --- markup


def reply_keyboards() -> st.SearchStrategy[ReplyKeyboard]:
    """Generate reply keyboards, the one that removes the keyboard among them."""
    flag = st.none() | st.booleans()
    return st.builds(ReplyKeyboard, _rows(st.builds(Key, words(), words())), flag, flag)


def inline_buttons() -> st.SearchStrategy[InlineButton]:
    """Generate buttons of the three kinds."""
    address = st.sampled_from(
        ["https://example.org/", "http://[::1]:80/?q=1&r=2", "mailto:a@example.org", "tel:+98"]
    )
    places = st.sampled_from(["browser", "inline_browser", "webview", "webview_full", "webview_with_header"])
    return st.one_of(
        st.builds(CallbackButton, words(), words()),
        st.builds(LinkButton, words(), address, st.none() | places),
        st.builds(
            PayButton, words(), amounts(), ref_ids(), st.sampled_from(["IRR", "coin"]), st.none() | words()
        ),
    )


def inline_keyboards() -> st.SearchStrategy[InlineKeyboard]:
    """Generate inline keyboards, empty or not."""
    return st.builds(InlineKeyboard, _rows(inline_buttons()))


def _rows(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[tuple[Any, ...], ...]]:
    return st.lists(st.lists(items, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple)


def forms() -> st.SearchStrategy[Form]:
    """Generate forms with fields of every type, the submit button anywhere."""
    options: st.SearchStrategy[tuple[Option, ...]] = st.lists(
        st.tuples(words(), words()), min_size=1, max_size=3, unique_by=lambda option: option[0]
    ).map(tuple)

    def named(name: str) -> st.SearchStrategy[FormField]:
        own = st.just(name)
        return st.one_of(
            st.builds(TextField, own, words(), st.none() | words()),
            st.builds(TextArea, own, words(), st.none() | words()),
            st.builds(Radio, own, words(), options),
            st.builds(Select, own, words(), options),
            st.builds(Checkbox, own, words()),
            st.builds(Inbuilt, own, words(), st.sampled_from(["barcode", "qrcode"])),
        )

    @st.composite
    def whole(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Form:
        names = draw(st.lists(words(), min_size=1, max_size=4, unique=True))
        fields: list[FormField] = [draw(named(name)) for name in names]
        fields.insert(draw(st.integers(0, len(fields))), Submit(draw(words())))
        return Form(tuple(fields))

    return whole()


# --- events


def senders() -> st.SearchStrategy[Sender]:
    """Generate the people behind events."""
    return st.builds(Sender, sender_ids(), texts(), texts())


def events() -> st.SearchStrategy[Event]:
    """Generate events of every type, unknown ones among them."""
    who = st.none() | senders()
    unknown = st.sampled_from(["poke", "editedText", "رویداد", "a b", "+", "type"])
    values = st.lists(st.tuples(texts(), texts()), max_size=4).map(tuple)
    code = st.none() | st.sampled_from(range(1000, 1007)) | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    return st.one_of(
        st.builds(Join, chat_ids(), who),
        st.builds(Leave, chat_ids(), who),
        st.builds(Message[Any], chat_ids(), st.one_of(contents(), texts()), who),
        st.builds(Press[str], chat_ids(), texts(), message_ids(), callback_ids(), who),
        st.builds(Submission, chat_ids(), values, message_ids(), st.none() | callback_ids(), who),
        st.builds(InvoiceCallback, chat_ids(), invoice_ids(), who),
        st.builds(
            PayCallback,
            chat_ids(),
            ref_ids(),
            st.none() | message_ids(),
            texts(),
            code,
            st.none() | texts(),
            who,
        ),
        st.builds(UnknownEvent, chat_ids(), unknown, texts(), st.just(""), who),
    )


# --- operations and results


def form_operations() -> st.SearchStrategy[Operation[Any]]:
    """Generate every operation that travels as a form, those outside the interface among them."""
    reply = st.none() | reply_keyboards()
    keyboard = st.none() | inline_keyboards()
    form = st.none() | forms()
    return st.one_of(
        st.builds(SendMessage, recipients(), contents(), reply, keyboard, form),
        st.builds(EditMessage, recipients(), message_ids(), contents(), keyboard),
        st.builds(EditMessage, recipients(), message_ids(), st.none(), inline_keyboards()),
        st.builds(DeleteMessage, recipients(), message_ids()),
        st.builds(SendAction, recipients()),
        st.builds(AnswerCallback, recipients(), callback_ids(), texts(), st.booleans()),
        st.builds(
            CreateInvoice,
            chat_ids(),
            amounts(),
            words(),
            st.sampled_from([None, "IRR", "coin"]),
            st.none() | st.integers(300, 604_800),
        ),
        st.builds(VerifyInvoice, chat_ids(), invoice_ids()),
        st.builds(InquireInvoice, chat_ids(), invoice_ids()),
        st.builds(VerifyPayment, chat_ids(), ref_ids()),
        st.builds(InquirePayment, chat_ids(), ref_ids()),
        st.builds(RequestWalletCharge, chat_ids(), words()),
        st.builds(GetGameData, chat_ids(), words()),
        st.builds(PutGameData, chat_ids(), words(), texts(), st.booleans()),
        st.builds(GetGameConfig, chat_ids(), words()),
        st.builds(SendGameEvent, chat_ids(), words(), texts()),
        st.builds(GetLeaderBoard, chat_ids(), st.sampled_from(["all", "month", "week", "day"])),
    )


def uploads() -> st.SearchStrategy[Upload]:
    """Generate uploads from memory."""
    return st.builds(
        Upload,
        st.sampled_from(sorted(MEDIA)),
        st.builds(Blob, st.binary(max_size=40), words()),
        st.none() | reply_keyboards(),
        st.none() | inline_keyboards(),
    )


def payment_states() -> st.SearchStrategy[PaymentState]:
    """Generate what verify and inquiry may say."""
    captured = st.integers(0, LARGEST_INTEGER)
    return st.builds(PaymentState, st.just(True), captured) | st.builds(
        PaymentState, st.just(False), st.none() | captured
    )


def results(operation: Operation[Any]) -> st.SearchStrategy[Any]:
    """Generate results that an operation may have."""
    match operation:
        case SendMessage():
            return st.builds(Sent, st.just(operation.chat_id), message_ids())
        case EditMessage() | DeleteMessage() | SendAction() | AnswerCallback():
            return st.none()
        case Upload():
            return descriptors()
        case CreateInvoice():
            return st.builds(InvoiceCreated, invoice_ids())
        case VerifyInvoice() | InquireInvoice() | VerifyPayment() | InquirePayment():
            return payment_states()
        case _:
            return st.builds(Answer, json_values().filter(_names_no_error))


def _names_no_error(value: JsonValue) -> bool:
    return not (isinstance(value, dict) and value.get("error"))


def exchanges() -> st.SearchStrategy[tuple[Operation[Any], Any]]:
    """Generate operations, each with a result that it may have."""
    return st.one_of(form_operations(), uploads()).flatmap(
        lambda operation: st.tuples(st.just(operation), results(operation))
    )
