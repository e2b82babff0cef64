"""The names under which the wire's own values are recorded: they stay when a module moves."""

from __future__ import annotations

from ...values import register
from ...wire import content, events, results


def register_wire_values() -> None:
    """Let records hold events, content and results."""
    for cls in (
        content.Image,
        content.Video,
        content.Audio,
        content.Voice,
        content.File,
        content.Contact,
        content.Location,
        content.Descriptor,
        content.LocalFile,
        content.Blob,
        events.Sender,
        events.Message,
        events.Press,
        events.Submission,
        events.Join,
        events.Leave,
        events.InvoiceCallback,
        events.PayCallback,
        events.UnknownEvent,
        results.Sent,
        results.InvoiceCreated,
        results.PaymentState,
    ):
        register(cls, name=f"triobot.{cls.__name__}")
