"""Journals that were written by earlier versions of this format are read, and run, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from triobot.conversations.codec import CODEC
from triobot.conversations.revival.stored import read_journal, read_opening
from triobot.engine import Record, Run, decode_record, encode_record
from triobot.engine import records as tags
from triobot.engine.records import check_journal, time_of
from triobot.errors import UnreadableRecordError
from triobot.seams.journals import ConversationId, ConversationRow, Effect, Journal
from triobot.seams.values import decode_value
from triobot.wire.events import Join, Message, Sender
from triobot.wire.ids import ChatId, MessageId, SenderId
from triobot.wire.results import Sent

from .replaying import replay

JOURNALS = Path(__file__).parents[1] / "corpus" / "journals"


class ShopError(Exception):
    """An author's own, which `raises=` names."""

    __module__ = "shop"


def journal(name: str) -> list[Record]:
    return [decode_record(line) for line in (JOURNALS / name).read_text(encoding="ascii").splitlines()]


def test_a_journal_of_format_1() -> None:
    """One of each record."""
    records = journal("format1.jsonl")
    check_journal(records)
    known = {value for name, value in vars(tags).items() if name.isupper() and type(value) is str}
    assert {record[0] for record in records} == known
    start, *_ = records
    assert start[2:] == ["shop.order", start[3], "c0ffee", 1]
    assert read_opening(start) is not None
    by_tag = {record[0]: record for record in records}
    assert CODEC.value_of(by_tag["D"][5]) == (
        Message(ChatId(5), "hello", None),
        41,
        1700000002999,
        ("hello",),
    )
    assert repr(CODEC.error_of(by_tag["E"][5])) == "KeyError('k')"
    raised = CODEC.error_of(by_tag["R"][6], (ShopError,))
    assert (type(raised), raised.args, vars(raised)) == (ShopError, ("sold out",), {"left": 0})
    assert repr(CODEC.error_of(by_tag["Z"][2])) == "ExceptionGroup('', [ValueError('v')])"
    assert [[decode_value(text) for text in record[4:]] for record in records if record[0] == "N"] == [
        ["fa"],
        [],
    ]
    assert [time_of(record) for record in records if isinstance(record[1], list)] == [1699992808000]


def test_what_was_sent_and_said_by_places() -> None:
    """The short forms of what nearly every turn records."""
    _, first, answer, second = journal("format1-short.jsonl")
    assert [CODEC.value_of(record[5]) for record in (first, second)] == [Sent(CHAT, MessageId(9)), Sent(CHAT)]
    assert CODEC.value_of(answer[5]) == (Message(CHAT, "hello", SARA), 41, 1700000001999, ("hello",))


def test_what_a_conversation_was_started_with() -> None:
    """An event as itself, as what a filter took it, and one that could not be written down."""
    *records, lost = journal("format1-starts.jsonl")
    plain, taken = map(read_opening, records)
    assert (plain.event, plain.at, plain.interrupted) == (Join(ChatId(5), SARA), 7, None)
    assert (taken.value, taken.args, taken.interrupted) == ("fa", (3, "b"), "shop.order")
    with pytest.raises(UnreadableRecordError):
        read_opening(lost)


CHAT = ChatId(5)
SARA = Sender(SenderId(7), "Sara", "sara")


def test_what_is_beside_a_journal() -> None:
    """Rows by operation, of effects without an outcome: the intent, or the result that came."""
    intent, result = (JOURNALS / "format1-beside.jsonl").read_text(encoding="ascii").splitlines()
    start = encode_record(journal("format1.jsonl")[0])
    effects = {"1": Effect(intended_at=1, intent=intent), "2/1.1": Effect(resulted_at=2, result=result)}
    read = read_journal(Journal(ROW, 0, (start,), effects))
    assert read[1:] == [
        ["Q", 1700000000100, 1, "send sendMessage", "a1b2"],
        [
            "R",
            1700000000200,
            "2/1.1",
            "charge",
            "",
            "D",
            {"class": ["triobot.Sent", {"chat_id": 5, "id": 9}]},
        ],
    ]


ROW = ConversationRow(
    id=ConversationId(1), chat_id=ChatId(5), route="shop.order", kind="conversation", version="1",
    sender_id=None, started_at=1, updated_at=1,
)  # fmt: skip


async def shop(run: Run) -> object:
    """The code that wrote `format1-run.jsonl`."""
    name = await run.wait("receive")
    run.write("name", name)
    numbers = [run.random().randrange(1000), await run.step(_works, 1)]
    with run.scope(60) as limit:
        async with run.open_nursery() as nursery:
            nursery.start_soon(run.wait)
            await run.sleep(30)
            numbers.append(await run.step(_works, 2))
            await run.wait()
    if run.patched("polite"):
        await run.step(_works, 3)
    with run.scope(takes=lambda word: word):
        await run.sleep(1000)
    return [name, run.read("name"), numbers, limit.expired, run.drain(), await run.wait()]


async def _works(number: int) -> int:
    await trio.lowlevel.checkpoint()
    return number


async def test_a_journal_is_run_by_the_code_that_wrote_it(autojump_clock: object) -> None:
    """As far as it goes, and as far as each of its turns goes."""
    records = journal("format1-run.jsonl")
    whole = await replay(records, shop)
    assert (whole.diverged, whole.beyond, whole.rested) == (None, (), True)
    (branch,) = whole.snapshot.branches
    assert branch.operation is not None
    assert (branch.operation.id, branch.operation.kind) == (12, "wait")
    for length in range(1, len(records)):
        shorter = await replay(records[:length], shop)
        assert shorter.diverged is None, length
        assert shorter.snapshot.live, length


@pytest.mark.parametrize("path", sorted(JOURNALS.glob("*.jsonl")), ids=lambda path: path.name)
def test_what_is_read_is_written_in_the_same_way(path: Path) -> None:
    """While the format is the newest; when it no longer is, this file's part of the test goes."""
    for line in path.read_text(encoding="ascii").splitlines():
        assert encode_record(decode_record(line)) == line


def test_another_format_is_refused_with_both_numbers() -> None:
    """Never guessed at; nor is what came before this format."""
    start = journal("format1.jsonl")[0]
    with pytest.raises(UnreadableRecordError, match=r"format \[2\]; this program reads \[1\]"):
        check_journal([[*start[:5], 2]])
    with pytest.raises(UnreadableRecordError, match="begins with its start"):
        check_journal([[1, [1, {"class": ["journal.Start", {"time": 1, "fn": "pizza"}]}]]])
