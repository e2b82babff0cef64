"""A bot's status as metrics, in Prometheus's text format (0.0.4). Pure.

`METRICS` lists all metrics. No metric has counters of its own: each number is read from the answer to
``status`` when the metrics are requested. The label ``bot`` is the bot's name. All other labels have values
from a fixed set in the program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast, final

from ..base.alarm_kinds import ABOUT
from ..base.frozen import guarded
from ..seams.writes import Latencies
from .routes import Answer

METRICS_PATH: Final = "/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample: TypeAlias = tuple[Mapping[str, str], float]
"""A number, and its labels other than ``bot``."""

# Some counters exist only after their first event. A metric must show 0 before the first event.
_HAPPENED: Final = (
    *("started", "revived", "evicted", "crashed", "parked", "possible_repeat", "expired", "gone"),
    *("filter_failed", "fell_behind", "unreadable"),
)


@final
@guarded
class Metric:
    """A metric's name, and a function that reads its samples.

    Attributes:
        read: returns the samples from a status.
    """

    name: str
    help: str
    read: Callable[[Answer], Iterable[Sample]]

    @property
    def kind(self) -> Literal["counter", "gauge", "histogram"]:
        """Type of the metric. By Prometheus's convention, only a counter's name ends in ``_total``."""
        if self.read is _latencies:
            return "histogram"
        return "counter" if self.name.endswith("_total") else "gauge"


def _found(answer: Answer, path: str) -> Any:
    """Return the value at `path`, such as ``outbox.retries``, in the status; None without such a value."""
    found: object = answer
    for name in path.split("."):
        found = cast("Answer", found or {}).get(name)
    return found


def _one(path: str) -> Callable[[Answer], Iterable[Sample]]:
    """Return a function that makes a sample of the number at `path`.

    If the number is None or absent, there is no sample.
    """

    def read(answer: Answer) -> Iterable[Sample]:
        value = _found(answer, path)
        return [] if value is None else [({}, float(value))]

    return read


def _by(label: str, path: str, names: Sequence[str] = ()) -> Callable[[Answer], Iterable[Sample]]:
    """Return a function that makes a sample of each entry at `path`. The value of `label` is the entry's
    name.

    Args:
        names: names of entries for which a sample is made in any case; the value is 0 if the entry is absent.
    """

    def read(answer: Answer) -> Iterable[Sample]:
        counts: dict[str, float] = {**dict.fromkeys(names, 0), **(_found(answer, path) or {})}
        return [({label: word}, float(count)) for word, count in counts.items()]

    return read


def _words(label: str, **paths: str) -> Callable[[Answer], Iterable[Sample]]:
    """Return a function that makes a sample of each number in `paths`.

    Args:
        paths: path of each number, by the value of `label`.
    """

    def read(answer: Answer) -> Iterable[Sample]:
        values = {word: _found(answer, path) for word, path in paths.items()}
        return [({label: word}, float(value)) for word, value in values.items() if value is not None]

    return read


def _since(group: str, name: str) -> Callable[[Answer], Iterable[Sample]]:
    """Return a function that makes a sample from the time `name` in the group `group` of the status.

    The sample is the number of seconds since the time `name`, or 0 if the time is None.
    """

    def read(answer: Answer) -> Iterable[Sample]:
        part: Any = _found(answer, group) if group else answer
        if not part or name not in part:
            return []
        at, now = part[name], cast("int", answer["at"])
        return [({}, 0.0 if at is None else max(0, now - at) / 1000)]

    return read


def _started(answer: Answer) -> Iterable[Sample]:
    at = _found(answer, "opened_at")
    return [] if at is None else [({}, at / 1000)]


def _latencies(answer: Answer) -> Iterable[Sample]:
    for kind, found in cast("Mapping[str, Latencies]", answer.get("store_latencies") or {}).items():
        count = 0
        for bound, more in zip((*found.bounds, math.inf), found.counts, strict=True):
            count += more
            yield {"": "_bucket", "kind": kind, "le": "+Inf" if bound == math.inf else f"{bound:g}"}, count
        yield {"": "_sum", "kind": kind}, found.seconds
        yield {"": "_count", "kind": kind}, count


METRICS: Final = (
    Metric("triobot_working", "1 if the bot does its work.", _one("working")),
    Metric("triobot_start_time_seconds", "Unix time at which this run of the bot began.", _started),
    Metric("triobot_unclean_stops", "Unclean stops since the last clean stop.", _one("unclean")),
    Metric(
        "triobot_events_total",
        "Events that arrived, by outcome: accepted, repeated, refused or unreadable.",
        _by("outcome", "arrived"),
    ),
    Metric(
        "triobot_requests_refused_total",
        "Requests that the listener refused before reading an event, by reason.",
        _by("reason", "traffic"),
    ),
    Metric("triobot_inbox_events", "Accepted events that are not handled yet.", _one("inbox")),
    Metric("triobot_inbox_bytes", "Bytes of events that are not handled yet.", _one("inbox_bytes")),
    Metric(
        "triobot_inbox_oldest_seconds",
        "Age of the oldest event that is not handled yet. It includes the time of the bot's own code.",
        _since("", "oldest_event_at"),
    ),
    Metric(
        "triobot_event_lag_seconds",
        "Age of the oldest event that triobot has not passed to its chat yet.",
        _one("event_lag"),
    ),
    Metric(
        "triobot_conversations",
        "Conversations that have not ended, by state: all, in memory, parked.",
        _words("state", all="conversations", in_memory="live", parked="parked"),
    ),
    Metric(
        "triobot_conversation_events_total",
        "Starts, crashes and other events of conversations, by kind.",
        _by("what", "counts", _HAPPENED),
    ),
    Metric(
        "triobot_sends_total",
        "Operations that ended, by outcome: done or failed.",
        _words("outcome", done="outbox.done", failed="outbox.failed"),
    ),
    Metric(
        "triobot_answers_total",
        "Answers to button presses that were sent or failed.",
        _words("outcome", done="outbox.answers_sent", failed="outbox.answers_failed"),
    ),
    Metric("triobot_send_retries_total", "Repeated attempts of sends.", _one("outbox.retries")),
    Metric(
        "triobot_possible_repeats_total",
        "Operations sent again after an unknown outcome, so the user may have got them twice.",
        _one("outbox.possible_repeats"),
    ),
    Metric(
        "triobot_outbox_operations",
        "Operations that wait, or are being sent.",
        _words("state", queued="outbox.queued", in_flight="outbox.in_flight"),
    ),
    Metric("triobot_outbox_held", "1 while the bot holds back all sends.", _one("outbox.held")),
    Metric("triobot_outbox_rate", "Allowed requests per second, if limited.", _one("outbox.rate")),
    Metric("triobot_send_lag_seconds", "Age of the oldest operation that is not sent yet.", _one("send_age")),
    Metric(
        "triobot_unknown_effects",
        "Effects whose outcome is unknown, including effects in flight.",
        _one("unknown_effects"),
    ),
    Metric("triobot_payments", "Payments, by state.", _by("state", "payments")),
    Metric(
        "triobot_payment_facts_total",
        "Facts that the ledger got about payments, by name.",
        _by("fact", "payment_facts"),
    ),
    Metric(
        "triobot_payments_unverified",
        "Payments that were reported as paid, but are not verified yet.",
        _one("money.unverified"),
    ),
    Metric(
        "triobot_payment_oldest_unverified_seconds",
        "Age of the oldest payment reported as paid, but not verified. After an hour the money goes back.",
        _since("money", "oldest_unverified_at"),
    ),
    Metric(
        "triobot_payments_unsettled",
        "Captured payments whose goods are not given yet.",
        _one("money.unsettled"),
    ),
    Metric(
        "triobot_payment_oldest_unsettled_seconds",
        "Age of the oldest captured payment whose goods are not given yet.",
        _since("money", "oldest_unsettled_at"),
    ),
    Metric(
        "triobot_store_seconds",
        "Time that the store takes for a batch of transactions, including fsync. The kind is write or read.",
        _latencies,
    ),
    Metric("triobot_alarms", "Open alarms, by kind.", _by("kind", "open_alarm_kinds", tuple(ABOUT))),
)
"""All metrics, in the order of the output."""


def exposition(bots: Mapping[str, Answer]) -> str:
    """Return the metrics in Prometheus's text format.

    Args:
        bots: answer to ``status`` of each running bot, by the bot's name.
    """
    return "".join(_lines(bots))


def _lines(bots: Mapping[str, Answer]) -> Iterator[str]:
    for metric in METRICS:
        yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
        for bot, answer in bots.items():
            for labels, value in metric.read(answer):
                shown = {"bot": bot, **{name: text for name, text in labels.items() if name}}
                inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in shown.items())
                yield f"{metric.name}{labels.get('', '')}{{{inside}}} {_number(value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
