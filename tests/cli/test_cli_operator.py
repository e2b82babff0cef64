"""The operator's commands: with a bot that runs, and without one."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from cli_rig import Command, Ended

from tests.bot.rig import Chats, make_bot, say
from tests.postgres import Server
from triobot import Chat, Key, Room, SenderId, Settings
from triobot.base.alarm_kinds import AlarmKind
from triobot.base.secrets import Secret
from triobot.cli import status
from triobot.cli.consulting import ask_bot, gather, open_api
from triobot.errors import StoreCorruptError
from triobot.filters import signal
from triobot.operator.api import OperatorApi
from triobot.operator.routes import Answer
from triobot.operator.serving import serve_api
from triobot.runtime.work import Intake
from triobot.seams.journals import (
    AppendRecords,
    BeginConversation,
    ConversationId,
    EndConversation,
    ParkConversation,
)
from triobot.seams.money import RaiseAlarm
from triobot.store import Stamp, open_store
from triobot.store.lock import take_lock
from triobot.webhook.answers import Readiness
from triobot.wire.ids import ChatId

STORE = "sqlite:bot.db"
RECORD = '["D",7,3,"receive","",{"tuple":["Valiasr 7",41,6,null]},41]'


class Clock:
    def now(self) -> int:
        return 1_800_000_000_000


@pytest.fixture
def command(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A command of the operator of the bot that `rig` makes."""
    monkeypatch.setenv("TRIOBOT_TOKEN", "rig-token")
    monkeypatch.setenv("TRIOBOT_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("TRIOBOT_STORE", STORE)
    return triobot


async def keep_two() -> None:
    """A conversation that waits and one that crashed, as a bot leaves them."""
    async with open_store(STORE, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()) as store:
        for n, chat in ((1, 7), (2, 8)):
            await store.commit(
                BeginConversation(ConversationId(n), ChatId(chat), "pizza", "v1", Clock().now()),
                AppendRecords(ConversationId(n), 0, (RECORD,)),
            )
        await store.commit(EndConversation(ConversationId(2), Clock().now(), "E-5"))


def beside_a_bot(*commands: Callable[[], Ended], chat: int = 7) -> list[Ended]:
    """Run commands, one after the other, while a bot runs."""

    async def main() -> list[Ended]:
        chats = Chats()
        bot = make_bot(chats, store=STORE)

        @bot.conversation
        async def patient(chat: Chat) -> None:
            await chat.send("What?")
            await chat.ask("And?")

        async with bot.running() as intake:
            await say(intake, chat, "hi")
            await chats.wait_for(chat, "What?", "And?")
            return [await trio.to_thread.run_sync(one) for one in commands]

    return trio.run(main)


def test_the_status_of_a_bot_that_runs(command: Command) -> None:
    ended, for_programs = beside_a_bot(lambda: command("status"), lambda: command("status", "--json"))
    assert (ended.code, ended.err) == (0, "")
    assert "the bot works" in ended.out
    assert "1 in memory" in ended.out
    assert re.findall(r".*alarms.*", ended.out) == ["open alarms: none"]

    told = json.loads(for_programs.out)
    assert (told["live"], told["running"], told["outbox"]["held"]) == (1, True, False)


def test_the_status_says_why_a_bot_does_not_work(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page that strangers can ask for says only that it is so."""
    states = {"store": "ok", "outbox": "held"}
    monkeypatch.setattr(Intake, "readiness", lambda self: Readiness(False, states))

    ended, for_programs = beside_a_bot(lambda: command("status"), lambda: command("status", "--json"))

    assert "the bot DOES NOT WORK (outbox held)" in ended.out
    assert json.loads(for_programs.out)["states"] == states


def test_the_status_of_a_bot_that_does_not_run(command: Command) -> None:
    trio.run(keep_two)
    ended = command("status")
    assert (ended.code, ended.err) == (0, "")
    assert "no bot runs" in ended.out
    assert "conversations: 1, 0 parked" in ended.out


def test_the_status_says_that_a_store_may_lose_what_it_acknowledges(
    command: Command, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c synchronous_commit=off")
    url = postgres.url(query="schema=risky&accept-loss")

    async def make() -> None:
        async with open_store(url, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()):
            pass

    trio.run(make)
    ended = command("status", "--store", url)
    postgres.ask("DROP SCHEMA risky CASCADE")
    assert ended.code == 0
    assert "THE STORE MAY LOSE what it has acknowledged: synchronous_commit is off" in ended.out


def check(command: Command) -> tuple[int, str]:
    """Ask as a probe does; it prints one line."""
    ended = command("status", "--check")
    assert ended.err == ""
    return ended.code, ended.out.removesuffix("\n")


def test_a_probe_hears_that_a_bot_works(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no token."""
    monkeypatch.delenv("TRIOBOT_TOKEN")
    ended, for_programs = beside_a_bot(
        lambda: command("status", "--check"), lambda: command("status", "--check", "--json")
    )
    assert (ended.code, ended.out, ended.err) == (0, "the bot works\n", "")
    told = json.loads(for_programs.out)
    assert (for_programs.code, told["code"], told["said"], told["status"]["live"]) == (
        0,
        0,
        "the bot works",
        1,
    )


def test_a_probe_hears_that_a_bot_does_not_work(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    states = {"store": "ok", "outbox": "held"}
    monkeypatch.setattr(Intake, "readiness", lambda self: Readiness(False, states))

    (ended,) = beside_a_bot(lambda: command("status", "--check"))

    assert (ended.code, ended.out) == (5, "the bot DOES NOT WORK (outbox held)\n")


@pytest.mark.parametrize(("kind", "code"), [("outbox_held", 5), ("conversation_crashed", 0)])
def test_a_probe_hears_of_alarms_that_stop_work(command: Command, kind: AlarmKind, code: int) -> None:
    """One user's crash is none."""

    async def keep() -> None:
        async with open_store(STORE, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()) as store:
            await store.commit(RaiseAlarm(kind, "key", "text", Clock().now()))

    trio.run(keep)
    (ended,) = beside_a_bot(lambda: command("status", "--check"))
    assert ended.code == code
    assert (kind in ended.out) == bool(code)


def test_a_probe_hears_that_no_bot_runs(command: Command, tmp_path: Path) -> None:
    """It leaves the store alone, which a bot may be about to take."""
    assert check(command) == (3, f"no bot runs, and there is no store at {STORE.removeprefix('sqlite:')}")
    trio.run(keep_two)
    before = sorted(tmp_path.iterdir())
    lock = take_lock(tmp_path / "bot.db")
    try:
        assert check(command) == (3, "no bot runs")
    finally:
        lock.release()
    assert check(command) == (3, "no bot runs")
    assert sorted(tmp_path.iterdir()) == before


def test_a_probe_hears_that_a_store_is_none(command: Command, tmp_path: Path) -> None:
    (tmp_path / "bot.db").write_bytes(b"a picture of a cat, or so")
    assert check(command) == (4, "no bot runs, and bot.db is no store")
    (tmp_path / "bot.db").unlink()
    (tmp_path / "bot.db").mkdir()
    assert check(command)[0] == 4


def test_a_probe_does_not_wait_for_a_bot_that_stands_still(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "_PATIENCE", 0.05)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "bot.db.sock"))
        mute.listen()
        code, said = check(command)
    assert (code, said) == (4, "the bot gives no answer within 0 seconds")


@pytest.mark.parametrize("many", [False, True])
async def test_a_process_that_has_just_taken_the_store_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock, many: bool
) -> None:
    """For a moment it has the lock and no socket yet, or has taken the lease of a node that was frozen."""
    monkeypatch.chdir(tmp_path)
    settings, told = Settings(token=Secret("rig-token"), store=STORE), list[Answer]()
    stamp = Stamp(settings.base_url, "rig-token")

    async def look() -> None:
        if many:
            async with open_api(settings) as asks:
                told.extend(await gather(asks, {"ask": "status"}))
        else:
            told.extend(await gather(partial(ask_bot, settings), {"ask": "status"}))

    async with open_store(STORE, stamp=stamp, clock=Clock()) as store, trio.open_nursery() as serving:
        async with trio.open_nursery() as looking:
            looking.start_soon(look)
            while trio.lowlevel.current_statistics().seconds_to_next_deadline > 1:
                await trio.lowlevel.checkpoint()
            await serving.start(serve_api, OperatorApi(store, Clock()), tmp_path / "bot.db.sock")
            mock_clock.jump(1)
        serving.cancel_scope.cancel()
    assert [status["conversations"] for status in told] == [0]


def test_a_probe_hears_of_a_store_that_fails(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: OperatorApi) -> None:
        raise StoreCorruptError("the store is damaged")

    monkeypatch.setattr(OperatorApi, "status", fail)
    (ended,) = beside_a_bot(lambda: command("status", "--check"))
    assert (ended.code, ended.out) == (4, "the store is damaged\n")


def test_journals_are_listed_shown_and_exported(command: Command) -> None:
    trio.run(keep_two)

    listed = command("journal", "list").out.splitlines()
    assert len(listed) == 2
    assert "1  chat 7  conversation pizza  at work  records 1  last Done receive 3" in listed[0]
    assert "crashed" in listed[1] and "(E-5)" in listed[1]
    assert len(command("journal", "list", "--chat", "7").out.splitlines()) == 1

    shown = command("journal", "show", "1")
    assert shown.out.splitlines()[-1].split() == [
        "0",
        "1970-01-01",
        "00:00:00.007Z",
        "Done",
        "3",
        "receive",
        "None",
        "(event",
        "41)",
    ]
    exported = [json.loads(line) for line in command("journal", "export", "1").out.splitlines()]
    assert exported[1] == {"n": 0, "record": RECORD}
    redacted = command("journal", "export", "1", "--redact").out
    assert "Valiasr" not in redacted
    assert "receive" in redacted

    for wrong in ("show", "export"):
        ended = command("journal", wrong, "5")
        assert ended.code == 1
        assert "triobot: " in ended.err


async def keep_what_was_said() -> None:
    """A conversation whose last record is an answer, and one that crashed with what was said in its error."""
    answer = """["D",9,4,"receive","",{"tuple":["Valiasr 1",41,6,null]},41]"""
    ended = """["Z",9,["builtins.ValueError",["Valiasr 1"]]]"""
    async with open_store(STORE, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()) as store:
        for n, record in ((1, answer), (2, ended)):
            id = ConversationId(n)
            await store.commit(
                BeginConversation(id, ChatId(7), "pizza", "v1", Clock().now()),
                AppendRecords(id, 0, (record,)),
            )
        await store.commit(EndConversation(ConversationId(2), Clock().now(), "E-5"))


def test_the_list_of_journals_holds_nothing_that_was_said(command: Command) -> None:
    trio.run(keep_what_was_said)

    for of_chat in ((), ("--chat", "7")):
        listed = command("journal", "list", "--json", *of_chat).out
        assert "Valiasr" not in listed + command("journal", "list", *of_chat).out
        waits, crashed = (json.loads(line) for line in listed.splitlines())
        assert waits["last_record"] == {"what": "Done", "at": 9, "kind": "receive", "id": 4}
        assert crashed["last_record"] == {"what": "Ended", "at": 9}
    assert "Valiasr" in command("journal", "export", "2").out


@pytest.mark.slow
def test_what_has_just_begun_is_a_conversation_for_operators(command: Command, tmp_path: Path) -> None:
    """While its first send is under way, and when the bot is gone."""
    named = {name: f"from test_cli_operator import {name}" for name in ("starter", "stranger")}
    (tmp_path / "bots.py").write_text(
        "from triobot import Bot\n" + "\n".join(named.values()) + "\nbot, other = Bot(), Bot()\n"
        "bot.conversation(starter)\nother.conversation(stranger)\n"
    )
    looks = (
        lambda: command("journal", "list", "--chat", "7"),
        lambda: command("journal", "show", "1"),
        lambda: command("journal", "check", "bots:bot"),
        lambda: command("journal", "check", "bots:other"),
        lambda: command("replay", "7", "bots:bot"),
    )

    async def main() -> list[Ended]:
        chats = Chats(gate=trio.Event())
        bot = make_bot(chats, store=STORE, grace=0.01)
        bot.conversation(starter)
        async with bot.running() as intake:
            await say(intake, 7, "hi")
            await chats.entered.wait()
            return [await trio.to_thread.run_sync(look) for look in looks]

    for listed, shown, good, bad, replayed in (trio.run(main), [look() for look in looks]):
        assert "1  chat 7  conversation test_cli_operator.starter  at work  records 1" in listed.out
        assert re.search(r"Start +test_cli_operator\.starter +Message\(content='hi'\)", shown.out)
        assert (good.code, good.out) == (0, "1 conversations: 1 go on, 0 would be parked\n")
        assert bad.code == 1
        assert "1 would be parked" in bad.out
        assert (replayed.code, "What?" in replayed.out) == (0, False)


async def starter(chat: Chat) -> None:
    await chat.send("What?")


async def stranger(chat: Chat) -> None:
    await chat.send("Who?")


async def keep_parked() -> None:
    """Three conversations of a route that the bot doesn't have any more."""
    async with open_store(STORE, stamp=Stamp("http://127.0.0.1:9", "rig-token"), clock=Clock()) as store:
        for n, because in ((1, "no such route"), (2, "no such route"), (3, "it went on here")):
            id_ = ConversationId(n)
            await store.commit(
                BeginConversation(id_, ChatId(n), "pizza", "v1", Clock().now()),
                AppendRecords(id_, 0, (RECORD,)),
                ParkConversation(id_, Clock().now(), because),
            )


def test_parked_conversations_are_counted_and_ended(command: Command) -> None:
    """Only counted at first; without a bot, the next one ends them, and says so to their users."""
    trio.run(keep_parked)
    counted = command("journal", "end", "--route", "pizza")
    assert (counted.code, counted.err) == (0, "")
    assert counted.out.splitlines() == [
        "      2  pizza: no such route",
        "      1  pizza: it went on here",
        "3 conversations would be ended; say --yes to do it",
    ]
    assert "no such conversation" in command("journal", "retry", "--route", "pasta").out
    assert "which ones?" in command("journal", "end").err
    assert "isn't parked" in command("journal", "end", "4").err
    done = command("journal", "end", "--reason", "no such", "--say", "Please order again.", "--yes")
    assert "2 conversations are being ended" in done.out
    again = command("journal", "end", "--reason", "no such", "--say", "Please order again.", "--yes")
    assert "0 conversations are being ended (2 are parked)" in again.out

    async def main() -> Ended:
        chats = Chats()
        bot = make_bot(chats, store=STORE)
        bot.conversation(starter)
        async with bot.running():
            for chat in (1, 2):
                await chats.wait_for(chat, "Please order again.")
            ended = await trio.to_thread.run_sync(
                lambda: command("journal", "end", "3", "--say", "You, too.")
            )
            await chats.wait_for(3, "You, too.")
            return ended

    assert "1 conversations are being ended" in trio.run(main).out
    told = json.loads(command("status", "--json").out)
    assert (told["conversations"], told["parked"], told["inbox"]) == (0, 0, 0)


def test_a_chat_is_forgotten_while_its_conversation_runs(command: Command) -> None:
    ended, after = beside_a_bot(lambda: command("forget", "7", "--yes"), lambda: command("status", "--json"))
    assert (ended.code, ended.err) == (0, "")
    assert "forgotten of chat 7" in ended.out
    told = json.loads(after.out)
    assert (told["live"], told["inbox"]) == (0, 0)


def hang_up(question: str) -> str:
    """Ctrl-D."""
    raise EOFError


def test_a_chat_is_not_forgotten_by_accident(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    trio.run(keep_two)
    assert "say --yes" in command("forget", "7").err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    assert "nothing was done" in command("forget", "7").err
    monkeypatch.setattr("builtins.input", hang_up)
    assert "nothing was done" in command("forget", "7").err
    assert "up to 18 digits" in command("forget", "۷").err
    assert len(command("journal", "list").out.splitlines()) == 2
    monkeypatch.setattr("builtins.input", lambda _: "7")
    assert "1 conversations with 1 records" in command("forget", "7").out
    assert len(command("journal", "list").out.splitlines()) == 1


@pytest.mark.parametrize("runs", [True, False])
def test_where_nothing_is_kept_it_is_said_and_a_room_is_an_error(command: Command, runs: bool) -> None:
    async def main() -> None:
        bot = make_bot(Chats(), store=STORE)

        @bot.room(signal(Begin), name="shop.queue")
        async def queue(room: Room[Begin]) -> None:
            await room.sleep(1000)

        def forget() -> None:
            for what, words in ((("70",), "chat 70"), (("--person", "71"), "person 71")):
                told = command("forget", *what, "--yes")
                assert (told.code, told.err) == (0, "")
                assert told.out == f"nothing was kept of {words}; backups keep what they hold\n"
                assert json.loads(command("forget", *what, "--yes", "--json").out)["found"] is False
            for name, key in (("shop.quue", "7"), ("shop.queue", "8")):
                told = command("forget", "--room", name, key, "--yes")
                assert (told.code, told.out) == (1, "")
                assert f"nothing is kept of room {name} {key}, " in told.err
                assert "oldest name" in told.err
                as_json = command("forget", "--room", name, key, "--yes", "--json")
                assert as_json.code == 1
                assert json.loads(as_json.out)["found"] is False
            # All that there is of this one is what runs in it, and that ends before the rest is counted.
            told = command("forget", "--room", "shop.queue", "7", "--yes", "--json")
            assert (told.code, told.err) == (0, "")
            assert json.loads(told.out)["found"] is True

        async with bot.running():
            await bot.to(queue, 7).signal(Begin(1))
            while bot.statistics().store.conversations < 1:
                await trio.lowlevel.checkpoint()
            if runs:
                await trio.to_thread.run_sync(forget)
        if not runs:
            await trio.to_thread.run_sync(forget)

    trio.run(main)


@attrs.frozen
class Begin:
    n: int


VISITS = Key("operator_visits", int, default=0)


@pytest.mark.parametrize("runs", [True, False])
def test_a_person_and_a_room_are_forgotten_whether_or_not_the_bot_runs(command: Command, runs: bool) -> None:
    async def main() -> None:
        bot = make_bot(Chats(), store=STORE)

        @bot.room(signal(Begin), name="shop.queue")
        async def queue(room: Room[Begin]) -> None:
            await room.sleep(1000)

        async def forget() -> None:
            told = await trio.to_thread.run_sync(lambda: command("forget", "--person", "71", "--yes"))
            assert (told.err, told.code) == ("", 0)
            assert (
                "forgotten of person 71: 0 conversations with 0 records, 0 waiting events, 1 kept" in told.out
            )
            listed = await trio.to_thread.run_sync(lambda: command("journal", "list"))
            assert len(listed.out.splitlines()) == 2
            assert "  room shop.queue 7  room shop.queue  " in listed.out
            assert "  room shop.queue 8  room shop.queue  " in listed.out
            told = await trio.to_thread.run_sync(
                lambda: command("forget", "--room", "shop.queue", "7", "--yes")
            )
            assert (told.err, told.code) == ("", 0)
            assert "forgotten of room shop.queue 7: " in told.out
            assert "1 kept values" in told.out

        async with bot.running():
            for key in (7, 8):
                await bot.to(queue, key).signal(Begin(1))
                await bot.to(queue, key).set(VISITS, 3)
            for person in (71, 72):
                await bot.person(SenderId(person)).set(VISITS, 3)
            await bot.to(7).set(VISITS, 3)
            while bot.statistics().store.conversations < 2:
                await trio.lowlevel.checkpoint()
            if runs:
                await forget()
        if not runs:
            await forget()
        async with bot.running():
            assert await bot.person(SenderId(71)).get(VISITS) == await bot.to(queue, 7).get(VISITS) == 0
            assert await bot.person(SenderId(72)).get(VISITS) == await bot.to(queue, 8).get(VISITS) == 3
            assert await bot.to(7).get(VISITS) == 3
            assert bot.statistics().store.conversations == 1

    trio.run(main)


def test_what_is_to_be_forgotten_is_one_thing(command: Command) -> None:
    for given in ((), ("7", "--person", "71"), ("--room", "a", "b", "c"), ("--person", "7", "--room", "a")):
        assert "say one chat's number, or --person ID, or --room NAME KEY" in command("forget", *given).err


def test_a_store_is_backed_up_checked_and_restored(command: Command, tmp_path: Path) -> None:
    backed_up, again, checked = beside_a_bot(
        lambda: command("store", "backup", "live.copy"),
        lambda: command("store", "backup", "live.copy"),
        lambda: command("store", "check"),
    )
    assert (backed_up.code, backed_up.err) == (0, "")
    assert (tmp_path / "live.copy").exists()
    assert "is there already" in again.err
    assert "back it up" in checked.err
    assert command("store", "backup", "offline.copy").code == 0

    assert "is whole" in command("store", "check").out
    assert "is whole" in command("store", "check", "live.copy").out

    restored = command("store", "restore", "live.copy")
    assert "kept as" in restored.out
    assert "restored from a backup: 1 times" in command("status").out
    (started,) = beside_a_bot(lambda: command("status"), chat=8)
    assert "store_restored" in started.out and "0 events are handled" in started.out
    (again,) = beside_a_bot(lambda: command("status"), chat=9)
    assert "open alarms: 1\n" in again.out and "store_restored x1: " in again.out
    assert command("store", "restore", "bot.db.replaced-1").code == 1
    assert command("store", "backup").code == 2


@pytest.mark.parametrize("running", [True, False])
def test_a_backup_is_not_led_elsewhere(command: Command, tmp_path: Path, running: bool) -> None:
    """A link that somebody has put where the backup is to be leads it nowhere."""
    target, elsewhere = tmp_path / "monday.db", tmp_path / "elsewhere"
    target.symlink_to(elsewhere)
    if running:
        (ended,) = beside_a_bot(lambda: command("store", "backup", str(target)))
    else:
        trio.run(keep_two)
        ended = command("store", "backup", str(target))

    assert ended.code == 1
    assert "is there already" in ended.err
    assert not elsewhere.exists()


def test_a_damaged_store_is_told(command: Command, tmp_path: Path) -> None:
    trio.run(keep_two)
    content = bytearray((tmp_path / "bot.db").read_bytes())
    content[4096 * 4 :] = b"\xff" * (len(content) - 4096 * 4)
    (tmp_path / "bot.db").write_bytes(content)
    ended = command("store", "check")
    assert ended.code == 1
    assert "restore a backup" in ended.err or "damaged" in ended.err


def test_there_must_be_a_store(command: Command) -> None:
    for arguments in (("status",), ("journal", "list"), ("forget", "7", "--yes"), ("store", "check")):
        ended = command(*arguments)
        assert ended.code == 1
        assert "there is no store at" in ended.err
        assert "only a sqlite: store" in command(*arguments, "--store", "memory:").err
    assert not Path("bot.db").exists()


def test_a_file_that_is_no_store_is_left_alone_with_nothing_beside_it(
    command: Command, tmp_path: Path
) -> None:
    """Not even a lock: beside somebody else's file that may mean something to somebody else."""
    trio.run(keep_two)
    (tmp_path / "theirs").mkdir()
    theirs = tmp_path / "theirs" / "list"
    for content in (b"some words of another program", b""):
        theirs.write_bytes(content)
        for action in ("check", "restore"):
            ended = command("store", action, str(theirs))
            assert ended.code == 1
            assert "store" in ended.err
            assert [path.name for path in theirs.parent.iterdir()] == ["list"]
