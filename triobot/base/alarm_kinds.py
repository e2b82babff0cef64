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
        key: separates alarms of one kind: each (kind, key) is one alarm.
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
        act: the operator's action; commands as they are typed, with ``REF`` for the payment's number.
        ends: when the alarm ends by itself, if it reports a state of the bot; else empty.
        once: whether the alarm reports a past event without duration. With neither `ends` nor `once`, the
            alarm is about a payment and ends with it.
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
        "The order of that user, and of no other.",
        "Fix the bot's code at the line that the log names.",
        once=True,
    ),
    "conversation_parked": About(
        "A conversation can't continue with this code; triobot keeps it.",
        "That user waits. Goods paid for meanwhile are given, unless this conversation gives them.",
        "Deploy code that fits, or restart if the text says so; `triobot journal retry` retries it at once. "
        "Or end it: `triobot journal end NUMBER --say TEXT`, or all with `--route NAME`.",
        ends="When no conversation of the route is parked any more.",
    ),
    "filter_failed": About(
        "A filter of the bot's own code raised an error on an event.",
        "The filter matched nothing: another route may have got the event, or none.",
        "Fix the bot's code at the line that the log names.",
        once=True,
    ),
    "job_failed": About(
        "A job's own code raised an error, which ended the run.",
        "The work of this run, which isn't retried. The next due time stays the same.",
        "Fix the code at the line that the log names. `triobot jobs run NAME` runs the job again.",
        once=True,
    ),
    "jobs_missed": About(
        'A job with missed="all" missed more due times than it makes up for.',
        "The oldest due times are skipped.",
        "Find out why no bot ran for so long, or why the previous run took so long; the text has the number.",
        once=True,
    ),
    "signal_unreadable": About(
        "This code can't read a signal or a start request, which waits in the inbox.",
        "The conversation that waits for it keeps waiting. Nothing is lost: code that can read it gets it.",
        "Deploy code with the class, the field or the route that the log names.",
        ends="Five minutes after a start that found no such signal.",
    ),
    "crash_loop": About(
        "The program died several times in a row soon after its start; the alarm names the code that ran.",
        "All users wait during a start. A conversation whose code was running at three deaths is parked; an "
        "event whose filters were running is put away.",
        "Read the last log lines before each start; `triobot journal list` shows the parked conversations.",
        once=True,
    ),
    "replay_diverged": About(
        "In development: a conversation's code behaves differently when its journal is replayed.",
        "After a restart the conversation would be parked, or continue with other variables.",
        "Get varying values through the chat, see the docs' page the-one-rule; the text names the line.",
        once=True,
    ),
    "token_refused": About(
        "The platform refuses the token everywhere.",
        "Nothing is sent or verified until it is accepted; paid money goes back to users after an hour.",
        "Put the right token into TRIOBOT_TOKEN and start again.",
        ends="When the platform accepts a request again; each start tests it.",
        stops=True,
    ),
    "outbox_held": About(
        "All sends wait: the platform refused one chat with 403, because of the user or the token.",
        "Nothing yet: messages wait.",
        "If it lasts, check whether the token is still valid; sending resumes by itself.",
        ends="When the platform accepts a request again; each start tests it.",
        stops=True,
    ),
    "answer_unreadable": About(
        "The platform accepted a request, and its answer broke off, or has a shape unknown to the "
        "interface; the text says which.",
        "A message counts as sent and is not sent again, but can't be edited or deleted. A payment is asked "
        "about again; an invoice's number is lost; an uploaded file can't be sent.",
        "Compare the shape with the platform's interface, and report it: this version can't read it. If "
        "answers break off, check the network and its proxies.",
        ends="An hour after the last such answer to the same operation.",
    ),
    "store_unwritable": About(
        "The store can't be written.",
        "Until it can, events are refused, and no payment can change its state.",
        "Check the log, and the disk with `df -h`, or the database's server.",
        ends="When the store can be written again.",
        stops=True,
    ),
    "inbox_half_full": About(
        "Events arrive faster than they are handled; the inbox is half full.",
        "When the inbox is full, events are refused.",
        "Look for a slow resource or a flood: `triobot status`.",
        ends="When less than a quarter of the inbox is used.",
    ),
    "backlog": About(
        "A message to send, or an event for a chat, has waited longer than TRIOBOT_BACKLOG_SECONDS.",
        "Users get answers late; nothing is lost.",
        "`triobot status` shows the queue and the rate: check the platform, and this machine's load.",
        ends="When nothing waits for so long any more.",
    ),
    "chat_refused": About(
        "A chat has reached its limit of waiting events: further events get 503.",
        "That user's messages until the conversation has caught up. Other users aren't affected.",
        "Look for a flood, or a conversation in a long step: `triobot status` counts the refused events.",
        ends="An hour after the last refusal.",
    ),
    "request_unreadable": About(
        "A request with the webhook's secret has an unreadable body, or an unreadable event of a known type.",
        "The event in the request, if there is one. The request got 200, and is kept for inspection: the "
        "first hundred and the newest thousand of seven days.",
        "`triobot status` counts these requests; compare one with the platform's interface, and report it.",
        ends="An hour after the last such request.",
    ),
    "alarm_untold": About(
        "Alarms can't be delivered to the address or the chat that is set for them.",
        "People there don't learn of faults. Open alarms are sent once deliveries succeed again.",
        "Check TRIOBOT_ALARM_URL or TRIOBOT_ALARM_CHAT, and the program behind it.",
        ends="When an alarm is delivered again.",
    ),
    "store_restored": About(
        "The bot runs on a backup that was restored.",
        "Work done since the backup is unknown: it may be done, or granted, again.",
        "`triobot payments alarms` names each payment that was captured before; compare with your other "
        "systems.",
        once=True,
    ),
    "amount_mismatch": About(
        "The platform captured an amount other than the requested one.",
        "The user's money: it is captured, nothing was granted, and no interface returns it.",
        "Pay the user back by hand, then `triobot payments resolve REF`.",
    ),
    "foreign_payment": About(
        "A callback names a payment that this store doesn't have.",
        "A forgery, another bot with the same token, or an invoice whose number was lost.",
        "If the payment is yours: `triobot payments adopt REF CHAT AMOUNT`.",
    ),
    "payment_unverified": About(
        "A payment could not be verified.",
        "A payment not verified within an hour goes back to the user.",
        "`triobot payments verify REF`.",
    ),
    "callback_before_send": About(
        "A callback names a payment that was never shown to a user.",
        "Probably nothing: a forged callback, or a send that arrived although it was answered as failed.",
        "`triobot payments show REF`; if callbacks are forged, change the webhook's secret.",
    ),
    "id_unknown": About(
        "The answer with an invoice's number was lost.",
        "If the user pays before the invoice expires, its callback is matched by chat and amount.",
        "`triobot payments show REF`; find the number in the portal, then `triobot payments adopt NUMBER "
        "CHAT AMOUNT`.",
    ),
    "adopted": About(
        "A callback's unknown invoice was matched with the invoice whose number was lost.",
        "Nothing: the platform named the same amount and chat.",
        "Nothing to do; compare with the portal if you like: `triobot payments show REF`.",
    ),
    "declined_by_code": About(
        "The platform declined a payment with code 1001, 1002 or 1003: the request was wrong, not the user.",
        "Sales: every such payment fails.",
        "`triobot payments show REF`, and report it with the code in the log.",
    ),
    "paid_maybe_unverified": About(
        "Half an hour ago the platform reported a payment as paid, and it could not be verified since.",
        "The sale: unverified money goes back to the user an hour after it was paid.",
        "`triobot payments verify REF`; is the platform reachable?",
    ),
    "sweep_blind": About(
        "For twenty minutes the platform gave no certain answer about open payments.",
        "Payments whose callback was lost: they go back to their users an hour after they were paid.",
        "`triobot payments list --state open`; is the platform reachable?",
    ),
    "button_still_live": About(
        "A payment button could not be removed from the user's screen.",
        "The user may still pay; triobot watches the payment, and if it is paid, the aside gives the goods.",
        "Delete the message if you can; then `triobot payments resolve REF`, or if it is settled `triobot "
        "payments acknowledge --key REF`.",
    ),
    "lapsed_after_hint": About(
        "The platform reported a payment as paid; it was never verified, and can't be any more.",
        "The sale: if it was paid, the platform has returned the money.",
        "`triobot payments show REF`; talk to the user if they ask.",
    ),
    "verify_refused": About(
        "The platform doesn't know a payment that a callback reported as paid.",
        "Probably nothing: a forged callback. If it was paid, the money goes back an hour after that.",
        "`triobot payments verify REF`.",
    ),
    "token_or_chat_refused": About(
        "The platform refuses to answer whether a payment was made: status 403.",
        "Money goes back to users an hour after they paid.",
        "Check TRIOBOT_TOKEN; then `triobot payments verify REF`.",
    ),
    "captured_without_taker": About(
        "Money was captured, and no code gives the goods: the bot has no aside for the item any more, or "
        "none that can read it.",
        "The user's money, until they get the goods or the money back from you.",
        "Give the goods and `triobot payments settle REF`, or pay back and `triobot payments resolve REF`; "
        "an `@bot.aside(paid(Item))` gets the payment with `triobot payments redeliver REF`.",
    ),
    "captured_but_parked": About(
        "Money was captured, and the aside that gives the goods can't continue.",
        "The user's money; the goods wait until the aside's code can continue.",
        "Deploy code that fits; or end the aside with `triobot journal end`, and another one starts; or "
        "give the goods and `triobot payments settle REF`.",
    ),
    "handler_keeps_failing": About(
        "The aside for the item has failed five times with a payment.",
        "The user's money: captured, and nothing granted.",
        "Fix the code, then `triobot payments redeliver REF`.",
    ),
    "captured_not_fulfilled": About(
        "The aside that gives the paid goods has run for a day without an end.",
        "The user's money: perhaps they never got the goods.",
        "Find out whether the user has the goods, then `triobot payments settle REF`.",
    ),
    "goods_misplaced": About(
        "The aside for a payment has ended and gave nothing; one alarm a route. Or, in development: the "
        "code behind `charge` gives the aside's goods a second time.",
        "Goods behind `charge`: users who write /cancel or pay late never get them; others get them twice.",
        "Give the goods only in the aside, by a step, a change of the chat's data, or a signal. If the "
        "goods are only a text, record in the aside that the text was sent.",
        once=True,
    ),
    "maybe_paid_again": About(
        "The platform reported once more that a captured payment was paid.",
        "Mostly nothing: a second payment is not verified, and goes back within the hour. If a verify's "
        "answer was lost before, both may have been captured.",
        "Look for both in the platform's statement; if both were captured, pay one back by hand. Then "
        "`triobot payments acknowledge --key REF`.",
    ),
    "paid_will_lapse": About(
        "A user paid, and no code takes the payment any more; the money goes back to the user.",
        "The sale, an hour after it was paid.",
        "To capture it after all: `triobot payments verify REF`.",
    ),
    "callback_after_end": About(
        "A callback came for a payment that had been given up.",
        "The sale: the payment is verified again if any code takes it.",
        "`triobot payments show REF`.",
    ),
    "granted_before_maybe": About(
        "A payment was captured before a backup was restored, and it is unknown whether its goods were "
        "given. No aside gets the payment by itself; an aside that had it gives nothing in its next steps.",
        "That user's goods: given already, as most are, or not yet.",
        "Compare with your deliveries, then `triobot payments settle REF`, or `triobot payments redeliver "
        "REF` to give the goods.",
    ),
    "impossible_transition": About(
        "A fact came for a payment whose state doesn't allow that fact; nothing was changed.",
        "Unknown: this is a mistake in triobot, or a platform that breaks its own rules.",
        "`triobot payments show REF`, and report it.",
    ),
    "unwatched": About(
        "The bot was down, or hung, while payments were open.",
        "The platform has returned payments made more than an hour before the bot came back.",
        "`triobot payments list --state open --state check` lists them; tell those users.",
    ),
    "clock_jumped": About(
        "This machine's time of day was set, or the machine stood still.",
        "No money: open payments are asked about again. Timeouts keep their length; waits for a time of "
        "day, and payment buttons, follow the new time.",
        "Let a time service set the clock: `timedatectl` shows whether one does.",
        once=True,
    ),
    "clock_differs": About(
        "A machine's clock differs from the database server's by more than two seconds.",
        "Nothing of triobot's: it uses the server's time of day. Your own code that reads the machine's "
        "clock, and checks of certificates, may fail.",
        "Let a time service set both clocks: `timedatectl` shows whether one does.",
        ends="Five minutes after the clock is right.",
    ),
}

STATES: Final[frozenset[AlarmKind]] = frozenset(kind for kind, about in ABOUT.items() if about.ends)
"""Kinds that report a state, and end by themselves when that state is over."""
EVENTS: Final[frozenset[AlarmKind]] = frozenset(kind for kind, about in ABOUT.items() if about.once)
"""Kinds that report an event, and are sent again only if the event happens again."""
PAYMENTS: Final[tuple[AlarmKind, ...]] = tuple(
    kind for kind, about in ABOUT.items() if not about.ends and not about.once
)
"""Kinds about payments."""
STOPPING: Final[frozenset[AlarmKind]] = frozenset(kind for kind, about in ABOUT.items() if about.stops)
"""Kinds that are open only while the bot can't do its work."""


def text_of(kind: AlarmKind, ref: str) -> str:
    """Return the text of an alarm about one payment: event, risk, and the command to type."""
    about = ABOUT[kind]
    return f"{about.happened} {about.risk} {about.act}".replace("REF", ref)
