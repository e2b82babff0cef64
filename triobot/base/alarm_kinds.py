"""Alarms and the closed list of their kinds, each with a description for code and documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias, final

from .frozen import guarded

AlarmKind: TypeAlias = Literal[
    "conversation_crashed",
    "conversation_parked",
    "filter_failed",
    "job_failed",
    "jobs_missed",
    "signal_unreadable",
    "crash_loop",
    "replay_diverged",
    "token_refused",
    "outbox_held",
    "answer_unreadable",
    "store_unwritable",
    "inbox_half_full",
    "backlog",
    "chat_refused",
    "request_unreadable",
    "alarm_untold",
    "store_restored",
    "amount_mismatch",
    "foreign_payment",
    "payment_unverified",
    "callback_before_send",
    "id_unknown",
    "adopted",
    "declined_by_code",
    "paid_maybe_unverified",
    "sweep_blind",
    "button_still_live",
    "lapsed_after_hint",
    "verify_refused",
    "token_or_chat_refused",
    "captured_without_taker",
    "captured_but_parked",
    "handler_keeps_failing",
    "captured_not_fulfilled",
    "goods_misplaced",
    "maybe_paid_again",
    "paid_will_lapse",
    "callback_after_end",
    "granted_before_maybe",
    "impossible_transition",
    "unwatched",
    "clock_jumped",
    "clock_differs",
]


@final
@guarded
class Alarm:
    """A condition or event that an operator should know of. Contains no content, token or phone number.

    Attributes:
        kind: kind from the closed list.
        key: distinguishes alarms of one kind; each pair of kind and key is one alarm.
        text: what is at risk, until when, and what to do.
    """

    kind: AlarmKind
    key: str
    text: str


RaiseAlarm: TypeAlias = Callable[[Alarm], None]
OnAlarm: TypeAlias = Callable[[Alarm], Awaitable[None]]


@final
@guarded
class About:
    """Description of an alarm kind.

    Attributes:
        happened: the event or state that raises the alarm.
        risk: what is at risk, and until when.
        act: what the operator should do; commands are written as they are typed, with ``REF`` for the
            payment's number.
        ends: when the alarm ends by itself, if the alarm reports a state of the bot; else empty.
        once: whether the alarm reports a past event without duration. If `ends` is empty and `once` is False,
            the alarm is about a payment, and a later change of the payment ends the alarm.
        stops: whether the bot can't do its work while the alarm is open.
    """

    happened: str
    risk: str
    act: str
    ends: str = ""
    once: bool = False
    stops: bool = False


ABOUT: Final[dict[AlarmKind, About]] = {
    "conversation_crashed": About(
        "A conversation's own code raised an error, which ended the conversation.",
        "The order of that user. Other users aren't affected.",
        "Fix the bot's code at the line that the log names.",
        once=True,
    ),
    "conversation_parked": About(
        "The bot's code can't continue a conversation. triobot keeps the conversation.",
        "The user waits. Paid goods are still given, unless this conversation gives them.",
        "Deploy code that fits, or restart the bot if the text says so. `triobot journal retry` tries again "
        "at once. To end it: `triobot journal end NUMBER --say TEXT`, or all with `--route NAME`.",
        ends="When no conversation of the route is parked any more.",
    ),
    "filter_failed": About(
        "A filter in the bot's own code raised an error for an event.",
        "The filter did not match the event. The event may have gone to another route, or to none.",
        "Fix the bot's code at the line that the log names.",
        once=True,
    ),
    "job_failed": About(
        "A job's own code raised an error, which ended this run of the job.",
        "The work of this run: triobot does not retry it. The next due time stays the same.",
        "Fix the code at the line that the log names. `triobot jobs run NAME` runs the job again.",
        once=True,
    ),
    "jobs_missed": About(
        'A job with missed="all" missed more than 1,000 due times.',
        "The work of the oldest due times: they are skipped.",
        "Find out why no bot ran, or why the last run took so long. The alarm's text counts the due times.",
        once=True,
    ),
    "signal_unreadable": About(
        "The bot's code can't read a signal or a start request. The signal or request waits in the inbox.",
        "A conversation may wait for the signal. Nothing is lost: code that can read the signal gets it.",
        "Deploy code with the class, the field or the route that the log names.",
        ends="Five minutes after a start of the bot, if the start found no such signal.",
    ),
    "crash_loop": About(
        "The process died several times in a row soon after its start. The alarm names the code that ran.",
        "All users wait while the bot starts. A conversation whose code ran at three of these deaths is "
        "parked. An event whose filters ran at three deaths is not handled, but kept for inspection.",
        "Read the last log lines before each start. `triobot journal list` shows the parked conversations.",
        once=True,
    ),
    "replay_diverged": About(
        "In development: a replay of a conversation's journal did something else than the conversation.",
        "After a restart the conversation would be parked, or would continue with other variables.",
        "Get varying values through the chat: see the docs' page the-one-rule. The alarm names the line.",
        once=True,
    ),
    "token_refused": About(
        "The platform refuses the token for every request.",
        "Nothing is sent or verified. An hour after a payment, the money goes back to the user.",
        "Put the right token into TRIOBOT_TOKEN and start the bot again.",
        ends="When the platform accepts a request again; each start of the bot tests this.",
        stops=True,
    ),
    "outbox_held": About(
        "The platform refused one chat with 403, because of the user or the token. All sends wait.",
        "Nothing yet: messages wait.",
        "If the alarm lasts, check whether the token is still valid. Sending resumes by itself.",
        ends="When the platform accepts a request again; each start of the bot tests this.",
        stops=True,
    ),
    "answer_unreadable": About(
        "The platform accepted a request, but triobot can't read the answer. The alarm's text says whether "
        "the answer broke off or has an unknown shape.",
        "A message counts as sent and is not sent again, but can't be edited or deleted. triobot asks about "
        "a payment again. An invoice's number is lost. An uploaded file can't be sent.",
        "If the shape is unknown, compare it with the platform's interface, and report it: this version of "
        "triobot can't read it. If answers break off, check the network and its proxies.",
        ends="An hour after the last such answer to the same operation.",
    ),
    "store_unwritable": About(
        "triobot can't write to the store.",
        "Until triobot can write again, it refuses events, and no payment can change its state.",
        "Check the log. Check the disk with `df -h`, or the database's server.",
        ends="When triobot can write to the store again.",
        stops=True,
    ),
    "inbox_half_full": About(
        "Events arrive faster than the bot handles them: the inbox is half full.",
        "When the inbox is full, the bot refuses events.",
        "Look for a slow resource or a flood with `triobot status`.",
        ends="When less than a quarter of the inbox is used.",
    ),
    "backlog": About(
        "A message to send, or an event for a chat, has waited longer than TRIOBOT_BACKLOG_SECONDS.",
        "Users get answers late. Nothing is lost.",
        "`triobot status` shows the queue and the rate. Check the platform, and the load of this machine.",
        ends="When no message or event waits for so long any more.",
    ),
    "chat_refused": About(
        "A chat has reached its limit of waiting events. Further events get 503.",
        "New messages of that user, until the conversation catches up. Other users aren't affected.",
        "Look for a flood, or for a conversation in a long step. `triobot status` counts the refused events.",
        ends="An hour after the last refused event.",
    ),
    "request_unreadable": About(
        "A request with the webhook's secret can't be read, or has an unreadable event of a known type.",
        "The event in the request, if there is one. The bot answered 200. It keeps such requests for "
        "inspection for seven days: the first hundred and the newest thousand.",
        "`triobot status` counts these requests. Compare one with the platform's interface, and report it.",
        ends="An hour after the last such request.",
    ),
    "alarm_untold": About(
        "triobot can't deliver alarms to the configured address or chat.",
        "Nobody there learns of faults. When deliveries succeed again, open alarms are sent.",
        "Check TRIOBOT_ALARM_URL or TRIOBOT_ALARM_CHAT, and the program behind it.",
        ends="When triobot can deliver an alarm again.",
    ),
    "store_restored": About(
        "The bot runs on a restored backup.",
        "Work done after the backup is unknown to the store. The bot may repeat this work, and give "
        "goods again.",
        "`triobot alarms` names each payment that may have been captured after the backup. Compare these "
        "payments with your other systems.",
        once=True,
    ),
    "amount_mismatch": About(
        "The platform captured a different amount than the bot had requested.",
        "The user's money: the platform has captured it, no goods were given, and no interface returns it.",
        "Pay the user back by hand. Then type `triobot payments resolve REF`.",
    ),
    "foreign_payment": About(
        "A callback names a payment that this store doesn't have.",
        "This may be a forgery, a payment to another bot with this token, or an invoice with a lost number.",
        "If the payment is yours, type `triobot payments adopt REF CHAT AMOUNT`.",
    ),
    "payment_unverified": About(
        "triobot could not verify a payment.",
        "If the payment isn't verified within an hour, the money goes back to the user.",
        "Type `triobot payments verify REF`.",
    ),
    "callback_before_send": About(
        "A callback names a payment that was never shown to a user.",
        "Probably nothing: the callback is forged, or a send that seemed to fail has arrived.",
        "Type `triobot payments show REF`. If callbacks are forged, change the webhook's secret.",
    ),
    "id_unknown": About(
        "The platform's answer with an invoice's number was lost.",
        "If the user pays before the invoice expires, triobot matches the callback by chat and amount.",
        "Type `triobot payments show REF`. Find the number in the portal, then type `triobot payments adopt "
        "NUMBER CHAT AMOUNT`.",
    ),
    "adopted": About(
        "A callback named an unknown invoice. triobot matched it with the invoice whose number was lost.",
        "Nothing: the platform named the same amount and chat.",
        "You need do nothing. To compare with the portal, type `triobot payments show REF`.",
    ),
    "declined_by_code": About(
        "The platform declined a payment with code 1001, 1002 or 1003: the request was wrong, not the user.",
        "Sales: every such payment fails.",
        "Type `triobot payments show REF`, and report the payment with the code in the log.",
    ),
    "paid_maybe_unverified": About(
        "Half an hour ago the platform reported a payment as paid. Since then, triobot could not verify it.",
        "The sale: an hour after the payment, unverified money goes back to the user.",
        "Type `triobot payments verify REF`. Check whether the platform can be reached.",
    ),
    "sweep_blind": About(
        "For twenty minutes the platform has given no certain answer about open payments.",
        "Payments whose callback was lost: an hour after the payment, the money goes back to the user.",
        "Type `triobot payments list --state open`. Check whether the platform can be reached.",
    ),
    "button_still_live": About(
        "triobot could not remove a payment button from the user's screen.",
        "The user may still pay. triobot watches the payment; if the user pays, the aside gives the goods.",
        "Delete the message if you can, and type `triobot payments resolve REF`. If the payment is settled, "
        "type `triobot alarms acknowledge --key REF` instead.",
    ),
    "lapsed_after_hint": About(
        "The platform reported a payment as paid. triobot never verified it, and can't verify it any more.",
        "The sale: if the user paid, the platform has returned the money.",
        "Type `triobot payments show REF`. Talk to the user if they ask.",
    ),
    "verify_refused": About(
        "A callback reported a payment as paid, but the platform doesn't know this payment.",
        "Probably nothing: the callback is forged. If the user did pay, the money goes back after an hour.",
        "Type `triobot payments verify REF`.",
    ),
    "token_or_chat_refused": About(
        "The platform does not answer whether a payment was made: it refuses the request with status 403.",
        "The sale: an hour after the payment, unverified money goes back to the user.",
        "Check TRIOBOT_TOKEN. Then type `triobot payments verify REF`.",
    ),
    "captured_without_taker": About(
        "Money was captured, but no code gives the goods: the bot has no aside for the item any more, or no "
        "aside that can read it.",
        "The user's money, until you give the user the goods or the money back.",
        "Give the goods and type `triobot payments settle REF`, or pay back and type `triobot payments "
        "resolve REF`. Or deploy an `@bot.aside(paid(Item))` and type `triobot payments redeliver REF`.",
    ),
    "captured_but_parked": About(
        "Money was captured, but the aside that gives the goods can't continue.",
        "The user's money. The goods wait until the code can continue the aside.",
        "Deploy code that fits. Or end the aside with `triobot journal end`; then another aside starts for "
        "this payment. Or give the goods and type `triobot payments settle REF`.",
    ),
    "handler_keeps_failing": About(
        "The aside for the item has failed five times for one payment.",
        "The user's money: the platform has captured it, and no goods were given.",
        "Fix the code. Then type `triobot payments redeliver REF`.",
    ),
    "captured_not_fulfilled": About(
        "The aside that gives the paid goods has run for a day and has not ended.",
        "The user's money: perhaps the user never got the goods.",
        "Find out whether the user has the goods. If so, type `triobot payments settle REF`.",
    ),
    "goods_misplaced": About(
        "The aside for a payment ended without giving goods. There is one such alarm for each route. In "
        "development, the alarm also comes if the code after `charge` gives the aside's goods again.",
        "Users who write /cancel or pay late never get goods that the code after `charge` gives. If the "
        "aside gives the goods too, other users get them twice.",
        "Give the goods only in the aside: by a step, a change of the chat's data, or a signal. If the "
        "goods are only a text, record in the aside that the text was sent.",
        once=True,
    ),
    "maybe_paid_again": About(
        "The platform reported once more that a captured payment was paid.",
        "Mostly nothing: triobot does not verify a second payment, and its money goes back within the hour. "
        "If the answer to an earlier verify was lost, both payments may have been captured.",
        "Look for both payments in the platform's statement. If both were captured, pay one back by hand. "
        "Then type `triobot alarms acknowledge --key REF`.",
    ),
    "paid_will_lapse": About(
        "A user paid, but no code takes the payment any more. The money goes back to the user.",
        "The sale, an hour after the payment.",
        "To capture the payment after all, type `triobot payments verify REF`.",
    ),
    "callback_after_end": About(
        "A callback came for a payment that triobot had given up.",
        'The sale. With `late="deliver"`, triobot verifies the payment, unless an operator has resolved it.',
        "Type `triobot payments show REF`.",
    ),
    "granted_before_maybe": About(
        "A payment was captured before a backup was restored. Perhaps its goods were given. triobot "
        "passes this payment to no aside until an operator requests it. An aside that already had the "
        "payment gives nothing more.",
        "That user's goods: probably the user already has them, but perhaps not.",
        "Compare with your deliveries. If the user has the goods, type `triobot payments settle REF`. To "
        "give the goods, type `triobot payments redeliver REF`.",
    ),
    "impossible_transition": About(
        "A fact came for a payment whose state doesn't allow this fact. triobot changed nothing.",
        "Unknown: triobot has a defect, or the platform breaks its own rules.",
        "Type `triobot payments show REF`, and report the output.",
    ),
    "unwatched": About(
        "The bot was down, or hung, while payments were open.",
        "The platform has returned the money of payments made over an hour before the bot came back.",
        "`triobot payments list --state open --state check` lists these payments. Tell their users.",
    ),
    "clock_jumped": About(
        "The clock of this machine was set, or the machine stood still.",
        "No money: triobot asks about open payments again. Timeouts keep their length. Waits for a time of "
        "day, and payment buttons, follow the new time.",
        "Let a time service set the clock. `timedatectl` shows whether a service does so.",
        once=True,
    ),
    "clock_differs": About(
        "A machine's clock differs from the clock of the database's server by more than two seconds.",
        "Nothing in triobot: it uses the time of the server. Your own code that reads the machine's clock "
        "may fail, and so may checks of certificates.",
        "Let a time service set both clocks. `timedatectl` shows whether a service does so.",
        ends="Five minutes after the clock is right.",
    ),
}

STATES: Final[frozenset[AlarmKind]] = frozenset(kind for kind, about in ABOUT.items() if about.ends)
"""Kinds that report a state, and end by themselves when that state is over."""
EVENTS: Final[frozenset[AlarmKind]] = frozenset(kind for kind, about in ABOUT.items() if about.once)
"""Kinds that report an event, and are sent again only if the event happens again."""
STOPPING: Final[frozenset[AlarmKind]] = frozenset(kind for kind, about in ABOUT.items() if about.stops)
"""Kinds that are open only while the bot can't do its work."""


def text_of(kind: AlarmKind, ref: str) -> str:
    """Return the text of an alarm about one payment: event, risk, and the command to type."""
    about = ABOUT[kind]
    return f"{about.happened} {about.risk} {about.act}".replace("REF", ref)
