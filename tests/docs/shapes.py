"""What `docs/any-language.md` shows of the wire, written from the code: events in each format, and bots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from triobot.emulator.blobs import Measured, UploadedFiles
from triobot.wire.content import MEDIA, Contact, Location, MediaKind
from triobot.wire.encode import encode_event_data
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
)
from triobot.wire.ids import CallbackId, ChatId, InvoiceId, MessageId, RefId, SenderId
from triobot.wire.platform_side import encode_event

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "any-language.md"
BOTS: Final = ROOT / "examples" / "other-languages"

_PART: Final = re.compile(r"(?s)(<!-- written: ([\w.-]+) -->\n).*?(<!-- end -->\n)")
_LANGUAGES: Final = {".mjs": "js", ".php": "php", ".go": "go"}

_CHAT: Final = ChatId(13601)
_SARA: Final = Sender(SenderId(1001), "Sara", "user1001")
_MESSAGE: Final = MessageId(7)
_CALLBACK: Final = CallbackId("N7YcI5rAlX2sEFmh")
_REF: Final = RefId("1234567890123456")
_FILES: Final = UploadedFiles("http://127.0.0.1:8081")


def _media(kind: MediaKind, filename: str, *, duration: int = 0, caption: str = "") -> Event:
    descriptor = _FILES.add(
        "Wk3v", kind, filename, 48_213, measured=Measured((640, 480), {}), duration=duration
    )
    return Message(_CHAT, MEDIA[kind](descriptor, caption), _SARA)


EVENTS: Final[dict[str, Event]] = {
    "somebody joins": Join(_CHAT, _SARA),
    "somebody leaves": Leave(_CHAT, _SARA),
    "a text, or the value of a key that was tapped": Message(_CHAT, "سلام", _SARA),
    "a place": Message(_CHAT, Location("35.6892", "51.3890", "home"), _SARA),
    "a contact": Message(_CHAT, Contact("+989101001001", "Sara"), _SARA),
    "a picture, with a caption": _media("image", "pizza.jpg", caption="Look!"),
    "a film": _media("video", "oven.mp4", duration=12),
    "music": _media("audio", "song.mp3", duration=180),
    "a recorded voice": _media("voice", "voice.ogg", duration=3),
    "any other file": _media("file", "menu.pdf"),
    "a press of an inline button": Press(_CHAT, "pressed", _MESSAGE, _CALLBACK, _SARA),
    "a form": Submission(_CHAT, (("city", "Tehran & more"), ("gift", "true")), _MESSAGE, _CALLBACK, _SARA),
    "a payment in place": PayCallback(_CHAT, _REF, _MESSAGE, "success", None, None, _SARA),
    "a payment that failed": PayCallback(_CHAT, _REF, _MESSAGE, "error", 1004, None, _SARA),
    "a payment for which the wallet holds too little": PayCallback(
        _CHAT, _REF, _MESSAGE, "error", 1000, "http://127.0.0.1:8081/charge/1001", _SARA
    ),
    "an invoice that was paid, or failed": InvoiceCallback(_CHAT, InvoiceId("50001"), _SARA),
}
"""What may happen, with an event of that kind."""

_ENVELOPED: Final = ("a text, or the value of a key that was tapped", "a press of an inline button")


def events() -> str:
    """Return the ``type`` and the ``data`` of every event."""
    lines: list[str] = []
    for what, event in EVENTS.items():
        kind, data = encode_event_data(event)
        lines += [f"# {what}", f"type  {kind}", f"data  {data}".rstrip(), ""]
    return "\n".join(["```text", *lines[:-1], "```"]) + "\n"


def bodies() -> str:
    """Return whole bodies, in both formats."""
    lines: list[str] = []
    for what in _ENVELOPED:
        for as_json in (False, True):
            body = encode_event(EVENTS[what], as_json=as_json)
            lines += [f"Content-Type: {body.content_type}", "", body.data.decode(), ""]
    return "\n".join(["```text", *lines[:-1], "```"]) + "\n"


def _written(name: str) -> str:
    if name == "events":
        return events()
    if name == "bodies":
        return bodies()
    file = BOTS / name
    return f"```{_LANGUAGES[file.suffix]}\n{file.read_text(encoding='utf-8')}```\n"


def page() -> str:
    """Return the page with each part as it is written now."""

    def put(found: re.Match[str]) -> str:
        return f"{found[1]}{_written(found[2])}{found[3]}"

    return _PART.sub(put, PAGE.read_text(encoding="utf-8"))
