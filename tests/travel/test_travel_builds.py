"""The past is the past: what a pass shows of old builds is what the platform was sent then."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qs

import attrs
import pytest
import trio
from test_travel_twins import ENVIRON

from tests.clocks import run_in_virtual_time
from tests.loopback import PATIENCE
from triobot import Bot
from triobot.cli.consulting import api_of, gather
from triobot.cli.exported import code_of_journal, read_exported
from triobot.conversations.revival import code as code_module
from triobot.emulator.traffic import RecordedCall, Traffic
from triobot.emulator.views import JsonObject
from triobot.store.memory import open_memory
from triobot.studio.travel.parting import worded
from triobot.studio.travel.same_answers import open_same_answers
from triobot.studio.travel.twins import Twins
from triobot.testing import drive
from triobot.testing.process import DrivenProcess

pytestmark = [pytest.mark.processes, pytest.mark.virtual_time(False)]

BOT: Final = """\
from triobot import Bot, Chat
from words import size
from parts.more import more

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    total = 0
    while True:
        many = await chat.ask(f"How many, {name}?")
        total += len(many) * 100
        shown = await chat.send(f"So far {total}.")
        chosen = await chat.choose(size(total), {"l": "Large", "s": "Small"})
        await chat.edit(shown, f"So far {total}, {chosen}.")
        await more(chat, total)
        await chat.send(f"Thanks, {name}.")
"""
WORDS: Final = """\
def size(total: int) -> str:
    return "Which size?"
"""
MORE: Final = """\
from triobot import Chat


async def more(chat: Chat, total: int) -> None:
    kind = await chat.ask("What else?")
    await chat.send(f"Also {kind}.")
"""
SAID: Final = ("Your name", "How many, ", "So far", "Thanks, ", "What else", "Also ")


def build(n: int) -> dict[str, str]:
    """The modules as they are deployed for the n-th time: other words, and other lines."""
    files = {
        "shop.py": "# a line\n" * n + BOT,
        "words.py": WORDS + "# more\n" * n,
        "parts/more.py": "# more\n" * n + MORE,
    }
    for words in SAID if n else ():
        files = {name: text.replace(words, f"({n}) {words}") for name, text in files.items()}
    return files


@attrs.define
class Platform:
    """What an independent recorder saw at the platform: texts by chat, in their order."""

    sent: dict[tuple[int, int], list[str]] = attrs.field(factory=dict)

    def note(self, call: RecordedCall) -> None:
        fields = {name: one[0] for name, one in parse_qs(call.body.decode()).items()}
        if call.status == 200 and "data" in fields and call.name in ("sendMessage", "editMessage"):
            message = int(fields.get("message_id") or json.loads(call.answer)["id"])
            said = self.sent.setdefault((int(fields["chat_id"]), message), [])
            if said[-1:] != [fields["data"]]:  # else a question is over, and its buttons go
                said.append(fields["data"])


@attrs.define
class Stored:
    """What a store has in the end, as an operator is told it."""

    rows: list[JsonObject]
    journals: dict[int, list[JsonObject]]
    known: list[JsonObject]

    async def journal(self, conversation: int) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return self.journals[conversation]

    async def code(self) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return self.known

    async def conversations(self, chat_id: int) -> Sequence[JsonObject]:
        await trio.lowlevel.checkpoint()
        return self.rows

    async def waiting(self) -> Sequence[JsonObject]:
        return await self.conversations(0)

    async def end(self, conversation: int) -> None:
        raise AssertionError

    def marks(self, since: int) -> Sequence[JsonObject]:
        return []


def load(folder: Path, files: dict[str, str]) -> Bot:
    """Import the bot as it is now, as a process that is started anew does."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    importlib.invalidate_caches()
    for name in ("shop", "words", "parts", "parts.more"):
        sys.modules.pop(name, None)
    return cast("Bot", importlib.import_module("shop").bot)


async def _live(folder: Path, chats: int, seed: int, *, dies: bool) -> Stored:
    """Let people order while the bot is deployed three more times, each time in other words.

    Args:
        dies: it is killed for that, in the middle of some turns.
    """
    rng = random.Random(seed)
    async with drive(load(folder, build(0)), replay_check=False) as world:
        process, people, said = world._process, [], dict[str, int]()
        for n in range(4):
            if n:
                await (process.kill() if dies else process.stop())
                process._bot = load(folder, build(n))
                await process.start()
            for k in range(chats // 4 + (n == 0) * (chats % 4)):
                person = world.user(f"User {n} {k}")
                people.append(person)
                said[person.name] = 0
                await person.joins()
            for person in people:
                for _ in range(rng.randint(0, 3)):
                    turn = said[person.name]
                    said[person.name] += 1
                    if turn and (turn - 1) % 3 == 1:
                        await person.presses("Large")
                    else:
                        await person.says("x" * rng.randint(1, 9))
                    await trio.sleep(0 if dies and rng.random() < 0.3 else 1)
        await process.stop()
        stored = await _read(process)
        await process.start()
    return stored


async def _read(process: DrivenProcess) -> Stored:
    """Read what the store of a bot that is down has."""
    async with open_memory(clock=process.clock, rows=process._rows) as store:
        ask = api_of(store, process.clock).answer
        rows = await gather(ask, {"ask": "journals.list", "limit": 1_000})
        numbers = [cast("int", row["conversation"]) for row in rows]
        told = {n: await gather(ask, {"ask": "journals.show", "conversation": n}) for n in numbers}
        return Stored(
            cast("Any", rows), cast("Any", told), cast("Any", await gather(ask, {"ask": "journals.code"}))
        )


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the bot's modules, which are all of the author's there are."""
    folder = tmp_path / "shop"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def own() -> Iterator[tuple[str, str]]:
        for name in ("shop", "words", "parts", "parts.more"):
            if name in sys.modules:  # what is imported late is not there yet
                yield name, str(sys.modules[name].__file__)

    monkeypatch.setattr(code_module, "loaded_modules", own)
    yield folder
    for name in ("shop", "words", "parts", "parts.more"):
        sys.modules.pop(name, None)


@asynccontextmanager
async def looking(folder: Path, stored: Stored) -> AsyncGenerator[Twins]:
    command = [sys.executable, "-m", "triobot.studio.commands.twin", "dev"]
    twins = Twins(command, ENVIRON, f"{folder / 'shop.py'}:bot", stored, lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(twins.pool.run, trio.lowlevel.checkpoint)
        await trio.testing.wait_all_tasks_blocked()
        yield twins
        nursery.cancel_scope.cancel()


async def head_of(twins: Twins, row: JsonObject) -> dict[str, Any]:
    """A pass's head, once it is there."""
    id = cast("JsonObject", await twins.open(cast("int", row["chat_id"]), cast("int", row["conversation"])))[
        "id"
    ]
    with trio.fail_after(PATIENCE):
        while "format" not in (head := twins.passed(str(id))):
            await trio.sleep(0.005)
    return dict(head)


async def notches_of(twins: Twins, head: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < head["notches"]:
        told: Any = await twins.notches(head["id"], len(found), head["notches"])
        assert told["notches"][0]["whole"]
        found += told["notches"]
    return found


def shown(chat: int, notches: Sequence[dict[str, Any]]) -> Iterator[dict[tuple[int, int], list[str]]]:
    """What the chat shows at each notch: texts by message, the edited ones behind the first."""
    out: dict[str, dict[str, Any]] = {}
    texts: dict[tuple[int, int], list[str]] = {}
    for notch in notches:
        for id, message in notch.get("done", ()):
            message = message if message is not None else out[id].get("message_id")
            texts.setdefault((chat, message), []).append(out[id]["text"])
        out |= {one["id"]: one for one in notch.get("out", ())}
        yield {key: list(one) for key, one in texts.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("chats", "dies"), [(50, False), (20, True)])
def test_each_notch_shows_what_the_platform_was_sent(
    shop: Path, monkeypatch: pytest.MonkeyPatch, chats: int, dies: bool
) -> None:
    platform, end = Platform(), Traffic.end

    def ends(self: Traffic, call: RecordedCall, *rest: Any, **named: Any) -> None:
        end(self, call, *rest, **named)
        platform.note(call)

    monkeypatch.setattr(Traffic, "end", ends)
    stored = run_in_virtual_time(partial(_live, shop, chats, 7, dies=dies))
    monkeypatch.undo()
    builds = trio.run(_compare, shop, stored, platform)
    assert (len(stored.rows), builds) == (chats, 4)


async def _compare(folder: Path, stored: Stored, platform: Platform) -> int:
    """Compare all, and return the most builds that ran one of these journals."""
    builds = 0
    async with looking(folder, stored) as twins:
        for row in stored.rows:
            head = await head_of(twins, row)
            notches = await notches_of(twins, head)
            chat = cast("int", row["chat_id"])
            at_notch = list(shown(chat, notches))
            for texts in at_notch:
                for key, said in texts.items():
                    assert said == platform.sent[key][: len(said)]
            assert at_notch[-1] == {key: said for key, said in platform.sent.items() if key[0] == chat}
            assert head["divergence"] is None
            builds = max(builds, len(head["builds"]))
            await twins.close(head["id"])
    return builds


async def _two(folder: Path) -> Stored:
    """One person, who answers once under each of two builds."""
    async with drive(load(folder, build(0)), replay_check=False) as world:
        process, sara = world._process, world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.sees("How many, Sara?")
        await trio.sleep(1)
        await process.stop()
        process._bot = load(folder, build(1))
        await process.start()
        await sara.says("two")
        await trio.sleep(1)
        await process.stop()
        stored = await _read(process)
        await process.start()
    return stored


OLD: Final = ["Your name?", "How many, Sara?"]
NEW: Final = ["(1) So far 300.", "Which size?"]


LATE: Final = """\
from triobot import Bot, Chat

bot = Bot()


@bot.conversation
async def order(chat: Chat) -> None:
    await chat.ask("Your name?")
    from words import size

    await chat.ask(size(1))
    from parts.more import more

    await more(chat, 1)
    await chat.ask("And now?")
"""


async def _late(folder: Path) -> Stored:
    """One person; what the bot imports inside its function changes at each of two deploys."""
    async with drive(load(folder, build(0) | {"shop.py": LATE}), replay_check=False) as world:
        process, sara = world._process, world.user("Sara")
        await sara.joins()
        for n, text in ((0, "Sara"), (1, "Large"), (2, "Milk")):
            if n:
                await process.stop()
                files = build(n) | {"shop.py": LATE}
                process._bot = load(folder, files)
                await process.start()
            await sara.says(text)
            await trio.sleep(1)
        await process.stop()
        stored = await _read(process)
        await process.start()
    return stored


@pytest.mark.slow
def test_what_is_imported_late_is_that_of_its_build(shop: Path) -> None:
    stored = run_in_virtual_time(partial(_late, shop))
    load(shop, build(3) | {"shop.py": LATE})

    async def look() -> None:
        async with looking(shop, stored) as twins:
            head = await head_of(twins, stored.rows[0])
            notches = await notches_of(twins, head)
            words = ["Your name?", "Which size?", "(1) What else?", "(2) Also Milk.", "And now?"]
            assert [one["text"] for one in said(notches)] == words
            sources = [source["id"] for source in head["sources"] if "more" in source["path"]]
            texts = [await twins.source(head["id"], id) for id in sources]
            assert [text.count("# more") for text in texts] == [1, 2, 3]

    trio.run(look)


def said(notches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for notch in notches for one in notch.get("out", ()) if one["kind"] == "send"]


@pytest.mark.slow
def test_each_stretch_has_the_lines_and_values_of_its_build(shop: Path) -> None:
    stored = run_in_virtual_time(partial(_two, shop))
    load(shop, build(2))

    async def look() -> None:
        async with looking(shop, stored) as twins:
            head = await head_of(twins, stored.rows[0])
            notches = await notches_of(twins, head)
            assert [one["text"] for one in said(notches)] == [*OLD, *NEW]
            first, second = head["builds"]
            assert (first["first"], second["first"], second["known"]) == (0, 4, True)
            # What today's code would say stands beside it, by operation.
            assert head["now"]["divergence"] is None
            assert list(head["now"]["says"].values()) == [
                "(2) Your name?",
                "(2) How many, Sara?",
                "(2) So far 300.",
            ]
            lines = await sources_of(twins, head)
            for notch, shown in zip((1, 5), ('ask("Your name?")', 'send(f"(1) So far'), strict=True):
                source, line, function = notches[notch - 1]["f"][""][-1]
                assert (shown in lines[source][line - 1], function) == (True, "order")
            for notch, source in ((0, 0), (4, notches[4]["f"][""][0][0])):
                told: Any = await twins.path(head["id"], notch, notch + 1)
                assert {one[0] for one in told["paths"][0]} == {source}

    trio.run(look)


async def sources_of(twins: Twins, head: dict[str, Any]) -> dict[int, list[str]]:
    return {one["id"]: (await twins.source(head["id"], one["id"])).splitlines() for one in head["sources"]}


@pytest.mark.slow
def test_a_branch_goes_on_behind_the_words_that_were_sent(shop: Path) -> None:
    stored = run_in_virtual_time(partial(_two, shop))
    load(shop, build(2))

    async def look() -> None:
        async with looking(shop, stored) as twins:
            head = await head_of(twins, stored.rows[0])
            branch: Any = await twins.branch(head["id"], 4, group=False)
            bots = [one["content"]["text"] for one in branch["chat"] if one.get("from_bot")]
            # Up to the notch as it was; what the branch itself sends is the present code's.
            assert bots == [*OLD, "(2) So far 300.", "Which size?"]

    trio.run(look)


@pytest.mark.slow
def test_words_are_told_where_they_are_known(shop: Path) -> None:
    """Of a journal that is older than all sources, by the digest of what was sent."""
    stored = run_in_virtual_time(partial(_two, shop))
    stored.known = []

    async def look() -> None:
        async with looking(shop, stored) as twins:
            head = await head_of(twins, stored.rows[0])
            sent = said(await notches_of(twins, head))
            assert head["builds"] == [{"first": 0, "since": None, "known": False}]
            # Today's code is the second build.
            assert [one.get("text") for one in sent] == [None, None, *NEW]
            assert [one.get("unknown") for one in sent] == [True, True, None, None]
            assert list(head["now"]["says"].values()) == ["(1) Your name?", "(1) How many, Sara?"]

    trio.run(look)


@pytest.mark.slow
def test_the_past_is_shown_while_the_code_of_now_can_not_be_loaded(shop: Path) -> None:
    stored = run_in_virtual_time(partial(_two, shop))
    (shop / "shop.py").write_text("def broken(:\n")

    async def look() -> None:
        async with looking(shop, stored) as twins:
            head = await head_of(twins, stored.rows[0])
            assert "SyntaxError" in head["broken"]
            assert [one["known"] for one in head["builds"]] == [True, True]
            assert [one["text"] for one in said(await notches_of(twins, head))] == [*OLD, *NEW]
            # A branch goes on under that build, too.
            branch: Any = await twins.branch(head["id"], 4, group=False)
            assert [one["content"]["text"] for one in branch["chat"] if one.get("from_bot")] == [*OLD, *NEW]
            load(shop, build(2))
            twins.pool.changed()
            assert (await head_of(twins, stored.rows[0]))["broken"] == ""

    trio.run(look)


@pytest.mark.slow
def test_a_build_that_can_not_be_loaded_any_more_is_not_known(shop: Path) -> None:
    stored = run_in_virtual_time(partial(_two, shop))
    for line in stored.known:
        if line.get("name") == "words":
            line["text"] = f"import a_library_that_is_gone\n{line['text']}"

    async def look() -> None:
        async with looking(shop, stored) as twins:
            head = await head_of(twins, stored.rows[0])
            assert [one["known"] for one in head["builds"]] == [False, True]
            assert [one.get("text") for one in said(await notches_of(twins, head))] == [None, None, *NEW]

    trio.run(look)


@pytest.mark.slow
def test_an_export_has_the_sources_that_ran_and_their_lines(shop: Path) -> None:
    stored = run_in_virtual_time(partial(_two, shop))
    (lines,) = stored.journals.values()
    exported = [*lines, *code_of_journal(lines, stored.known)]
    assert [one["name"] for one in exported if "source" in one].count("shop") == 2
    assert sum("sources" in one for one in exported) == 2
    kept = {one["source"] for one in exported if "source" in one}
    sites = [cast("Sequence[object]", one["site"]) for one in exported if "site" in one]
    assert sites
    assert all(digest in kept for _, _, digest, *_ in sites)


OTHER: Final = "what is open is another question than the one that was answered"
SAID_ANEW: Final = 'shop.py:10 "Your name?" is now "Who are you?"'
HOW_MANY: Final = 'many = await chat.ask(f"How many, {name}?")'
CHANGES: Final[list[tuple[str, str, tuple[int, str] | None]]] = [
    ("    total = 0\n", "    # what is due\n    total = 0\n", None),
    ('"Your name?"', '"Who are you?"', None),
    (
        "    total = 0\n",
        '    city = await chat.ask("Which city?")\n    total = 0\n',
        (2, 'city = await chat.ask("Which city?")'),
    ),
    ("    total = 0\n", "    total = 0\n    await chat.sleep(1)\n", (2, "await chat.sleep(1)")),
]


async def _one(folder: Path) -> Stored:
    """One person, who has said a name."""
    async with drive(load(folder, build(0)), replay_check=False) as world:
        process, sara = world._process, world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.sees("How many, Sara?")
        await process.stop()
        stored = await _read(process)
        await process.start()
    return stored


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed_line", "stopped"),
    [
        ('name = await chat.ask("Who is it that we have the pleasure to serve?")', None),
        ('name = (await chat.ask("Who are you?")).upper()', OTHER),
        ('name = await chat.ask("Who are you?")\n    name = name.upper()', OTHER),
        ('city = await chat.ask("Which city?")\n    name = await chat.ask("Your name?")', OTHER),
        ('city = await chat.ask("Your city?")\n    name = "Sara"', OTHER),
    ],
)
def test_an_answer_is_for_its_question_in_whatever_words(
    shop: Path, changed_line: str, stopped: str | None
) -> None:
    """Its line tells; a question of another variable is another one, however alike the words are.

    If its words and what is done with the answer change at once, the developer looks first.
    """
    told = run_in_virtual_time(partial(_one, shop))
    (lines,) = told.journals.values()
    new = build(0)["shop.py"].replace('name = await chat.ask("Your name?")', changed_line)

    async def give() -> None:
        bot = load(shop, {"shop.py": new})
        async with open_same_answers(bot, read_exported(lines), code=told.known) as same:
            assert same.stopped == stopped

    run_in_virtual_time(give)


@pytest.mark.slow
def test_where_new_code_parts_is_told_by_its_lines(shop: Path) -> None:
    """What would be parked is found before the bot takes the code, and the pass shows it."""

    stored = run_in_virtual_time(partial(_one, shop))

    async def look() -> None:
        async with looking(shop, stored) as twins:
            for old, new, expected in CHANGES:
                load(shop, {"shop.py": build(0)["shop.py"].replace(old, new)})
                twins.pool.changed()
                fits, texts, parts = await twins.compare(await twins.journals_now())
                head = await head_of(twins, stored.rows[0])
                if expected is None:
                    assert (fits, parts) == (1, [])
                    assert texts == ([SAID_ANEW] if "Who" in new else [])
                    assert head["now"]["divergence"] is None
                    continue
                notch, now = expected
                (told,) = parts
                assert (fits, told["notch"]) == (0, notch)
                assert (told["was"]["code"], told["now"]["code"]) == (HOW_MANY, now)
                assert worded(told).startswith(
                    f"at notch {notch}: was `{HOW_MANY}` in line 13, is `{now}` in line"
                )
                assert HOW_MANY in head["now"]["divergence"]["what"]

    trio.run(look)
