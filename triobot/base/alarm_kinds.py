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
        "A conversation ended with an error of its own code.",
        "That user's order; nobody else's.",
        "The log names the line of the bot's code: mend the code there.",
        once=True,
    ),
    "conversation_parked": About(
        "A conversation can't go on with this code; it keeps its place.",
        "That user waits. Goods that are paid for meanwhile are given, unless this conversation gives them.",
        "Deploy code that can go on with it, or restart if the text says so; `triobot journal retry` tries "
        "it again at once. Or end it: `triobot journal end NUMBER --say TEXT`, or all with `--route NAME`.",
        ends="When no conversation of its route is parked any more.",
    ),
    "filter_failed": About(
        "A filter of the bot's own code raised an error on an event.",
        "The filter took nothing: another route may have got the event, or none.",
        "The log names the line of the bot's code: mend the code there.",
        once=True,
    ),
    "job_failed": About(
        "A run of a job ended with an error of its own code.",
        "What this run was to do; it isn't tried again. The next due time comes as ever.",
        "Read the line in the log that names the place, and mend it. `triobot jobs run NAME` runs it again.",
        once=True,
    ),
    "jobs_missed": About(
        'A job with missed="all" missed more due times than it makes up for.',
        "The oldest of them are left out.",
        "See why no bot ran for so long, or why the former run took so long; the text says how many.",
        once=True,
    ),
    "signal_unreadable": About(
        "A signal, or what code asks for, can't be read by this code; it waits in the inbox.",
        "The conversation that waits for it waits on. Nothing is lost: code that can read it gets it.",
        "Deploy code that has the class, the field or the route that the log names.",
        ends="When a start has found none any more, five minutes later.",
    ),
    "crash_loop": About(
        "The program died several times in a row soon after its start; the text says whose code was at work.",
        "Everybody waits while it starts. A conversation that was at work at three deaths is parked; an "
        "event is put away if its filters were at work.",
        "Look at the end of the log before each start; `triobot journal list` shows who was parked.",
        once=True,
    ),
    "replay_diverged": About(
        "While developing: a conversation's code does something else when its journal is run again.",
        "After a restart it would be parked, or go on with other variables.",
        "Let what may differ go through the chat, see the docs' page the-one-rule; the text names the line.",
        once=True,
    ),
    "token_refused": About(
        "The platform refuses the token everywhere.",
        "Nothing is sent or verified until it is accepted; paid money goes back to users after an hour.",
        "Put the right token into TRIOBOT_TOKEN and start again.",
        ends="When the platform takes a request again; after a start it is asked.",
        stops=True,
    ),
    "outbox_held": About(
        "Sending is held back: the platform refused one chat with 403, which may be the person or the token.",
        "Nothing yet: what is to be sent waits.",
        "If it lasts, look whether the token is still valid; sending goes on by itself.",
        ends="When the platform takes a request again; after a start it is asked.",
        stops=True,
    ),
    "answer_unreadable": About(
        "The platform took a request, and its answer has a shape that its interface doesn't have, or broke "
        "off; the text says which.",
        "A message counts as taken and is not sent again, but can't be edited or deleted. A payment is asked "
        "about again; an invoice's number is lost; an uploaded file can't be sent.",
        "Compare the shape with the platform's interface, and report it: this version can't read it. If "
        "answers break off, look at the network and at the proxies in it.",
        ends="An hour after the last such answer to the same operation.",
    ),
    "store_unwritable": About(
        "The store can't be written.",
        "Events are refused, and nothing about money can be kept, until it can.",
        "Look at the log, and at the disk, `df -h`, or at the database's server.",
        ends="When it can be written again.",
        stops=True,
    ),
    "inbox_half_full": About(
        "Events wait faster than they are handled; half of the room is used.",
        "When it is full, events are refused.",
        "Look for a slow resource or a flood: `triobot status`.",
        ends="When less than a quarter of the room is used.",
    ),
    "backlog": About(
        "Something has waited longer than TRIOBOT_BACKLOG_SECONDS: to be sent, or to be handed to its chat.",
        "Users hear late; nothing is lost.",
        "`triobot status` shows the queue and the pace: look at the platform, and at this machine's load.",
        ends="When nothing has waited for so long any more.",
    ),
    "chat_refused": About(
        "A chat has as many events waiting as one chat may: further ones are answered 503.",
        "What that user says until its conversation has caught up. Others aren't touched.",
        "A flood, or a conversation that waits long in a step: `triobot status` counts the refused ones.",
        ends="An hour after the last refusal.",
    ),
    "request_unreadable": About(
        "A request with the webhook's secret has a body, or an event of a known type, that nobody can read.",
        "The event in it, if it is one. It is answered 200, and kept for a look: of seven days the first "
        "hundred and the newest thousand.",
        "`triobot status` counts them; compare one with the platform's interface, and report it.",
        ends="An hour after the last such request.",
    ),
    "alarm_untold": About(
        "Alarms don't reach a place that is set for them: the address or the chat.",
        "People don't hear there what goes wrong. Open alarms are told once the place takes them again.",
        "Look at TRIOBOT_ALARM_URL or TRIOBOT_ALARM_CHAT, and at what is behind it.",
        ends="When it takes an alarm again.",
    ),
    "store_restored": About(
        "The bot runs on a backup that was restored.",
        "What was done since the backup was made is not known: it may be done, or granted, again.",
        "`triobot payments alarms` names each payment that was captured before; look at what your other "
        "systems know.",
        once=True,
    ),
    "amount_mismatch": About(
        "The platform captured another amount than was asked for.",
        "The user's money: it is captured, nothing was granted, and no interface gives it back.",
        "Pay the user back by hand, then `triobot payments resolve REF`.",
    ),
    "foreign_payment": About(
        "A callback names a payment that this store doesn't know.",
        "A forgery, another bot with the same token, or an invoice whose number was lost.",
        "If it is yours: `triobot payments adopt REF CHAT AMOUNT`.",
    ),
    "payment_unverified": About(
        "A payment could not be verified.",
        "What is not verified within an hour of being paid goes back to the user.",
        "`triobot payments verify REF`.",
    ),
    "callback_before_send": About(
        "A callback names a payment that has not been shown to anybody.",
        "Probably nothing: a forged callback, or a send that arrived although the platform said no.",
        "`triobot payments show REF`; if callbacks are forged, change the webhook's secret.",
    ),
    "id_unknown": About(
        "The answer that tells an invoice's number was lost.",
        "If the user pays it before it expires, its callback is matched by chat and amount.",
        "`triobot payments show REF`; find the number in the portal, then "
        "`triobot payments adopt NUMBER CHAT AMOUNT`.",
    ),
    "adopted": About(
        "A callback's unknown invoice was taken for the one whose number was lost.",
        "Nothing: the platform named the same amount and chat.",
        "Nothing to do; compare with the portal if you like: `triobot payments show REF`.",
    ),
    "declined_by_code": About(
        "The platform declined a payment with code 1001, 1002 or 1003: the request was wrong, not the user.",
        "Sales: every such payment fails.",
        "`triobot payments show REF`, and report it with the code in the log.",
    ),
    "paid_maybe_unverified": About(
        "The platform said half an hour ago that something was paid, and it could not be verified since.",
        "The sale: unverified money goes back to the user an hour after it was paid.",
        "`triobot payments verify REF`; is the platform reachable?",
    ),
    "sweep_blind": About(
        "Nothing certain was heard about open payments for twenty minutes.",
        "Payments whose callback was lost: they go back to their users an hour after they were paid.",
        "`triobot payments list --state open`; is the platform reachable?",
    ),
    "button_still_live": About(
        "A payment button could not be removed from the user's screen.",
        "The user may still pay; it is watched, and what is paid is given by the aside for the item.",
        "Delete the message if you can; then `triobot payments resolve REF`, or if it is settled "
        "`triobot payments acknowledge --key REF`.",
    ),
    "lapsed_after_hint": About(
        "The platform said that a payment was paid; it was never verified, and can't be any more.",
        "The sale: if it was paid, the platform has given the money back.",
        "`triobot payments show REF`; talk to the user if they ask.",
    ),
    "verify_refused": About(
        "The platform doesn't know a payment that a callback says was paid.",
        "Probably nothing: a forged callback. If it was paid, the money goes back an hour after that.",
        "`triobot payments verify REF`.",
    ),
    "token_or_chat_refused": About(
        "The platform refuses to say whether a payment was made: status 403.",
        "Money goes back to users an hour after they paid.",
        "Check TRIOBOT_TOKEN; then `triobot payments verify REF`.",
    ),
    "captured_without_taker": About(
        "Money was captured, and no code gives what it is for: there is no aside for what was bought any "
        "more, or none that can read what that is.",
        "The user's money, until they get the goods or the money back from you.",
        "Give the goods and `triobot payments settle REF`, or pay back and `triobot payments resolve REF`; "
        "an `@bot.aside(paid(Item))` gets it with `triobot payments redeliver REF`.",
    ),
    "captured_but_parked": About(
        "Money was captured, and the aside that gives the goods can't go on.",
        "The user's money; the goods wait until the aside's code can go on.",
        "Deploy code that can go on with it; or end the aside with `triobot journal end`, and another "
        "begins; or give the goods and `triobot payments settle REF`.",
    ),
    "handler_keeps_failing": About(
        "The aside for its item has failed five times with a payment.",
        "The user's money: captured, and nothing granted.",
        "Mend the code, then `triobot payments redeliver REF`.",
    ),
    "captured_not_fulfilled": About(
        "The aside that gives what was paid for has run for a day, and not ended.",
        "The user's money: perhaps they never got the goods.",
        "Find out whether the user has the goods, then `triobot payments settle REF`.",
    ),
    "goods_misplaced": About(
        "The aside for a payment has ended and gave nothing; one alarm a route. Or, while one develops, what "
        "it gave is given once more behind `charge`.",
        "Goods behind `charge`: who writes /cancel or pays late never gets them, and others get them twice.",
        "Give what was bought in the aside alone, by a step, a change of what the chat keeps, or a signal. "
        "If a text is all that was bought, keep in the aside that it was sent.",
        once=True,
    ),
    "maybe_paid_again": About(
        "The platform said once more that a captured payment was paid.",
        "Mostly nothing: a second payment is not verified, and goes back within the hour. If a verify's "
        "answer was lost before, both may have been taken.",
        "Look for both in the platform's statement; if both were taken, pay one back by hand. Then `triobot "
        "payments acknowledge --key REF`.",
    ),
    "paid_will_lapse": About(
        "A user paid for something that no code takes any more; the money goes back to the user.",
        "The sale, an hour after it was paid.",
        "To take it after all: `triobot payments verify REF`.",
    ),
    "callback_after_end": About(
        "A callback came for a payment that had been given up.",
        "The sale: it is verified again if anybody takes it.",
        "`triobot payments show REF`.",
    ),
    "granted_before_maybe": About(
        "A payment was captured before a backup was restored, and nobody knows any more whether its goods "
        "were given. No aside gets the payment by itself; one that had it gives nothing in its next steps.",
        "That user's goods: given already, as most are, or not yet.",
        "Compare with what was delivered, then `triobot payments settle REF`, or "
        "`triobot payments redeliver REF` to have them given.",
    ),
    "impossible_transition": About(
        "Something happened to a payment that can't happen to it; nothing was changed.",
        "Unknown: this is a mistake in triobot, or a platform that breaks its own rules.",
        "`triobot payments show REF`, and report it.",
    ),
    "unwatched": About(
        "The bot was down, or stood still, while payments were open.",
        "What was paid more than an hour before it came back was given back by the platform.",
        "`triobot payments list --state open --state check` lists them; tell those users.",
    ),
    "clock_jumped": About(
        "The time of day of this machine was set, or the machine stood still.",
        "No money: open payments are asked about anew. Timeouts last as long as they were to; what waits for"
        " a time of day, and payment buttons, go by the new one.",
        "Let a time service keep the clock: `timedatectl` shows whether one does.",
        once=True,
    ),
    "clock_differs": About(
        "The clock of a machine differs from the database server's by more than two seconds.",
        "Nothing of what triobot does: it goes by the server's time of day. Code of the bot's own that reads "
        "the machine's clock, and what checks certificates, may go wrong.",
        "Let a time service keep both clocks: `timedatectl` shows whether one does.",
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
