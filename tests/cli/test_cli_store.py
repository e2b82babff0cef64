"""``triobot store``: the same bot under a new token, when its operator says so; and in another store."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
import trio
from cli_rig import Command

from triobot.clock import SystemClock
from triobot.journals import AppendRecords, BeginConversation, ConversationId, ParkConversation
from triobot.seams import Arrival, InboxRow, KeepRaw, Quota
from triobot.settings import read_environment
from triobot.store import Stamp, open_store
from triobot.wire.ids import ChatId

PUBLIC = ("--public-url", "https://bot.example.com")


def test_a_store_follows_its_bot_to_a_new_token_when_told(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before, the same store with the same secret afterwards."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-old-token")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-new-token")

    refused = triobot("webhook-url", "hello:bot", *PUBLIC)
    rebound = triobot("store", "rebind", "hello:bot")
    after = triobot("webhook-url", "hello:bot", *PUBLIC)

    assert (refused.code, rebound.code, after.code) == (1, 0, 0)
    assert "triobot store rebind" in refused.err
    assert after.out == before.out
    assert "token" not in rebound.out.replace("this token", "")


def test_a_backup_from_before_the_token_was_replaced_comes_back(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a store's place when it is said that the bot is the same; on another machine without a token."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-old-token")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)
    assert triobot("store", "backup", "night.db").code == 0
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-new-token")
    assert triobot("store", "rebind", "hello:bot").code == 0

    refused = triobot("store", "restore", "night.db")
    restored = triobot("store", "restore", "night.db", "--rebind")
    after = triobot("webhook-url", "hello:bot", *PUBLIC)

    assert (refused.code, restored.code, after.out) == (1, 0, before.out)
    assert "`triobot store restore FILE --rebind`" in refused.err

    monkeypatch.setenv("TRIOBOT_STORE", "sqlite:elsewhere.db")
    monkeypatch.delenv("TRIOBOT_TOKEN")
    assert triobot("store", "restore", "night.db").code == 0
    monkeypatch.setenv("TRIOBOT_TOKEN", "the-new-token")
    other = triobot("webhook-url", "hello:bot", *PUBLIC)
    assert (other.code, "`triobot store rebind`" in other.err) == (1, True)
    assert triobot("store", "rebind", "hello:bot").code == 0
    assert triobot("webhook-url", "hello:bot", *PUBLIC).out == before.out


def test_a_backup_without_a_name_is_not_the_store(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a script whose variable is empty: no backup was found whole."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    triobot("webhook-url", "hello:bot", *PUBLIC)

    assert triobot("store", "check").code == 0
    assert triobot("store", "check", "").code == 1


@pytest.mark.parametrize(
    ("store", "says"),
    [("memory:", "only a sqlite: store"), ("sqlite:absent.db", "there is no store at absent.db")],
)
def test_there_must_be_something_to_rebind(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch, store: str, says: str
) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")

    ended = triobot("store", "rebind", "hello:bot", "--store", store)

    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert not (hello.parent / "absent.db").exists()


# --- copy


def test_a_store_is_moved_and_its_bot_goes_there(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its secret; the command says what was copied, and nothing runs on the old one any more."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)
    there = "sqlite:busy.db?shards=3"

    copied = triobot("store", "copy", "sqlite:triobot.db", there)
    refused = triobot("run", "hello:bot", "--port", "0")
    monkeypatch.setenv("TRIOBOT_STORE", there)
    told = triobot("status")
    fewer = [
        triobot(*command.split(), "--store", f"sqlite:busy.db?shards={shards}")
        for command in ("status", "journal list", "forget 1 --yes", "payments totals")
        for shards in (1, 2)
    ]
    after = triobot("webhook-url", "hello:bot", *PUBLIC)

    assert {(one.code, one.out) for one in fewer} == {(1, "")}
    assert all("has more than" in one.err for one in fewer)
    assert told.out.startswith("no bot runs; none has run on this store\n")
    assert (copied.code, copied.err) == (0, "")
    lines = copied.out.splitlines()
    assert lines[0].split() == ["rows", "of", "to", "copy", "copied"]
    assert [line.split()[0] for line in lines[1:3]] == ["conversations", "journal"]
    assert lines[-2:] == [
        f"copied sqlite:triobot.db to {there}",
        f"no bot runs on sqlite:triobot.db any more: set TRIOBOT_STORE to {there}",
    ]
    assert refused.code == 1
    assert f"was copied to sqlite:{hello.parent}/busy.db?shards=3, and its conversations" in refused.err
    assert refused.err.count("\n") == 1
    assert (after.code, after.out) == (0, before.out)


def test_what_a_chat_said_is_forgotten_in_all_shards(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that can't be read is kept in whichever shard it came to."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    monkeypatch.setenv("TRIOBOT_STORE", there := "sqlite:busy.db?shards=3")
    assert triobot("webhook-url", "hello:bot", *PUBLIC).code == 0
    stamp = Stamp(read_environment(os.environ).base_url, "a-token-of-tests")

    async def keep_and_count(*, keep: bool) -> int:
        kept = 0
        for shard in range(3):
            address = f"{there}&shard={shard}"
            async with open_store(address, stamp=stamp, clock=SystemClock(), visit=True) as store:
                if keep:
                    await store.commit(KeepRaw(1, "not readable", "text/plain", b"chat_id=7071&data=secret"))
                kept += len(await store.raw(limit=9))
        return kept

    assert trio.run(partial(keep_and_count, keep=True)) == 3
    told = triobot("forget", "7071", "--yes")
    assert (told.code, "3 other rows" in told.out) == (0, True), told
    assert trio.run(partial(keep_and_count, keep=False)) == 0
    assert "nothing was kept of chat 7071" in triobot("forget", "7071", "--yes").out


def test_a_copy_that_was_made_is_not_made_again(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    triobot("webhook-url", "hello:bot", *PUBLIC)
    assert triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db").code == 0

    again = triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db")
    elsewhere = triobot("store", "copy", "sqlite:triobot.db", "sqlite:third.db")

    assert again.code == 0
    assert again.out.splitlines()[0] == "sqlite:triobot.db was copied to sqlite:other.db before"
    assert elsewhere.code == 1
    assert "was copied to" in elsewhere.err
    assert "copy that one" in elsewhere.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sqlite:triobot.db", "sqlite:other.db", "--store", "sqlite:x.db"), "leave --store out"),
        (("sqlite:absent.db", "sqlite:other.db"), "there is no store at"),
        (("sqlite:triobot.db", "sqlite:triobot.db"), "the same store"),
        (("sqlite:triobot.db", "other.db"), "sqlite:PATH or postgresql://HOST/DATABASE"),
    ],
)
def test_what_can_not_be_copied_is_refused_in_one_line(
    triobot: Command,
    hello: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    before = triobot("webhook-url", "hello:bot", *PUBLIC)

    ended = triobot("store", "copy", *arguments)

    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err
    assert ended.err.count("\n") == 1
    assert not (hello.parent / "other.db").exists()
    assert triobot("webhook-url", "hello:bot", *PUBLIC).out == before.out


def test_a_copy_needs_the_bots_token(triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    triobot("webhook-url", "hello:bot", *PUBLIC)
    monkeypatch.delenv("TRIOBOT_TOKEN")
    without = triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db")
    monkeypatch.setenv("TRIOBOT_TOKEN", "another-token-of-tests")
    other = triobot("store", "copy", "sqlite:triobot.db", "sqlite:other.db")
    assert (without.code, other.code) == (1, 1)
    assert "TRIOBOT_TOKEN" in without.err
    assert "another token" in other.err


@pytest.mark.slow
def test_a_conversation_is_found_by_its_number_in_whichever_shard_it_is(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are kept, so after a copy they don't tell the shard any more."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")
    settings = read_environment(os.environ)
    stamp, clock = Stamp(settings.base_url, "a-token-of-tests"), SystemClock()

    async def begin_some() -> None:
        async with open_store("sqlite:triobot.db", stamp=stamp, clock=clock) as store:
            for number in range(1, 9):
                event = Arrival(ChatId(number), None, clock.now(), "text/plain", b"hi")
                row = await store.accept(event, quota=Quota())
                assert isinstance(row, InboxRow)
                lease, id_ = store.lease(row.chat_id), ConversationId(row.seq)
                assert lease is not None
                begin = BeginConversation(lease, id_, ChatId(number), "hello", "v1", clock.now())
                park = ParkConversation(lease, id_, clock.now(), "no such route")
                await store.commit(begin, AppendRecords(lease, id_, 0, ('["S", 1]',)), park)

    trio.run(begin_some)
    there = "sqlite:busy.db?shards=3"
    assert triobot("store", "copy", "sqlite:triobot.db", there).code == 0
    monkeypatch.setenv("TRIOBOT_STORE", there)

    shown = [triobot("journal", "show", str(number)) for number in range(1, 10)]
    ended = [triobot("journal", "end", str(number)) for number in range(1, 10)]

    assert [one.code for one in shown] == [0] * 8 + [1]
    assert "there is no conversation 9" in shown[-1].err
    assert [one.code for one in ended] == [0] * 8 + [1]
