"""What each fact, condition and outcome of the payment table means, in the words of the page."""

from __future__ import annotations

from typing import Final

from triobot.payments.facts import FactName
from triobot.payments.table import When
from triobot.seams.money import PaymentOutcome as Outcome

FACTS: Final[dict[FactName, str]] = {
    "send_begun": "the send of the button or invoice begins",
    "send_ok": "the platform accepted the button or invoice, and returned its id",
    "send_never_left": "the button or invoice was certainly not sent",
    "send_refused": "the platform refused the button or invoice",
    "send_unknown": "triobot got no answer to the send of the button or invoice",
    "invoice_adopted": "a callback had an unknown invoice id, which belongs to this payment",
    "callback": "the platform reported that the user may have paid: success, 1005, 1006, or an unknown code",
    "declined_retry": "the platform reported a decline after which the user may try again: 1000, 1004",
    "declined_final": "the platform reported a final decline: 1001, 1002, 1003",
    "verify_begun": "the send of a verify begins",
    "verify_ok": "a verify was answered `verified`, with the right amount",
    "verify_wrong": "a verify was answered `verified`, with another amount",
    "verify_error": "a verify was answered `error`",
    "verify_unknown": "a verify got no readable answer, or an answer with an unknown status",
    "verify_400": "a verify was answered with HTTP status 400",
    "verify_403": "a verify was answered with HTTP status 403",
    "inquire_seen": "an inquiry was answered `verified`, but the money may not be captured yet",
    "inquire_ok": "an inquiry was answered `verified`, and the money is certainly captured",
    "inquire_wrong": "the same as `inquire_ok`, but with another amount",
    "inquire_error": "an inquiry was answered `error`",
    "inquire_early": "an inquiry was answered `error`, but an earlier verify may still take effect",
    "inquire_unknown": "an inquiry got no readable answer",
    "inquire_400": "an inquiry was answered with HTTP status 400",
    "inquire_403": "an inquiry was answered with HTTP status 403",
    "captured_before": "the money was captured, probably before a backup was restored",
    "removed": "the button is gone from the user's screen",
    "remove_failed": "the button could not be removed",
    "taker_gone": "the conversation no longer waits for the payment",
    "delivered": "triobot passed the payment to its aside",
    "settled": "the aside ended normally",
    "handler_failed": "the aside failed, or was ended from outside",
    "no_handler": "the code has no aside for the item of the payment",
    "hint_age_30min": "a callback came half an hour ago, and the outcome of the payment is still uncertain",
    "unchecked_20min": "for twenty minutes, triobot got no certain answer about the payment",
    "unsettled_1day": "the aside got the payment a day ago, and has not settled it",
    "life_over": "the button was removed 75 minutes ago",
    "restart": "the program starts",
    "restored": "the store was restored from a backup",
    "restored_unnamed": "the same as `restored`, for an invoice whose number is unknown",
    "stood_still": "the program runs, but has checked no payment for twenty minutes",
    "clock_set": "the machine's clock was set. Forward: triobot moves all stored times of past events along. "
    "Back: stored due times would come too late, so triobot moves them to now",
    "parked": "the aside that has the payment can't continue",
    "operator_verify": "an operator requests a verify",
    "operator_redeliver": "an operator requests another delivery to the aside",
    "operator_settled": "an operator records that the goods were given",
    "operator_resolved": "an operator records that nothing more must be given or paid back",
    "forgotten": "an operator deletes the data of the chat: the item, the text and the payer are deleted",
}

WHEN: Final[dict[When, str]] = {
    "always": "",
    "invoice": "if the payment is an invoice",
    "claimed": "if a callback ever reported the payment as paid",
    "unwanted": "if the payment has no taker",
    "ended_or_captured": "if no conversation waits, or the payment is captured",
    "hinted_since": "at once if a callback came after the last verify began",
    "fifth_time": "if this is the fifth failure",
    "late_or_elsewhere": "if the user may have paid twice: the callback comes from another message, more "
    "than ten minutes after the capture, or after another callback and an uncertain verify",
    "perhaps_twice": "if two callbacks reported a payment and an earlier verify may have taken money already",
    "orphan": "if the id of the message with the button is unknown",
    "not_again": "unless the code is 1003 and a callback had reported the payment as paid: a second "
    "attempt to pay gets 1003",
    "orphan_found": "if no conversation waits, and this callback first names the button's message",
    "next": "if the next planned request is a verify",
}

OUTCOMES: Final[dict[Outcome, str]] = {
    "refused": "`RefusedError`",
    "unknown": "`DeliveryUnknownError` for an invoice. For a button, the conversation keeps waiting",
    "retry": "Nothing. triobot sends the user a hint, and the conversation keeps waiting",
    "declined": "`PaymentDeclinedError` after the codes 1001 and 1002. After other codes, triobot sends the "
    "user a hint once",
    "mismatch": "`AmountMismatchError`",
    "paid": "The call returns after the normal end of the aside",
    "handed_over": "`PaymentHandedOverError`: the aside or an operator handles the payment",
}
