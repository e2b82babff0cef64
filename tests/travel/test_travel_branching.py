"""Branches in a twin's process, each in a thread: as a page opens them, acts in them, and keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from quart_trio import QuartTrio
from test_travel_twins import journal, twins_of

from triobot.emulator.acts import Acting
from triobot.emulator.exchange import Exchange
from triobot.emulator.server import make_exchange
from triobot.studio.errors import TravelError
from triobot.studio.travel.branches import MOST
from triobot.studio.travel.routes import past_blueprint
from triobot.studio.travel.same_answers import replacement_of
from triobot.wire.ids import ChatId

pytestmark = [pytest.mark.processes, pytest.mark.virtual_time(False)]

SHOP = """\
from triobot import Bot, Chat

bot = Bot()


async def price(size: str) -> int:
    raise AssertionError("no step runs by itself")


@bot.conversation
async def talk(chat: Chat) -> None:
    with chat.move_on_after(600):
        size = await chat.ask("More?")
        await chat.send(f"{await chat.step(price, size)} for {size}")
        await chat.ask("Well?")
        return
    await chat.send("Too slow.")
"""


def said(look: dict[str, Any]) -> list[str]:
    return [line["content"]["text"] for line in look["chat"] if line["kind"] == "message" and line["new"]]


@pytest.mark.slow
async def test_a_branch_is_opened_acted_in_and_kept(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(0)) as rig:
        rig.write(SHOP)
        id = await rig.opened()
        look = await rig.twins.branch(id, 0, group=False)
        assert (look["chat_id"], look["ended"], look["answers"]) == (5, False, None)
        assert said(look) == ["More?"]
        own = look["id"]

        look = await rig.twins.in_branch(own, "act", {"name": "say", "values": {"text": "two"}})
        [asked] = look["asked"]
        assert (asked["name"], asked["args"]) == ("price", ["'two'"])
        with pytest.raises(TravelError, match="0 waits for nothing") as caught:
            await rig.twins.in_branch(own, "step", {"returns": 5, "step": 0})
        assert caught.value.refused
        look = await rig.twins.in_branch(own, "step", {"returns": 5})
        assert said(look) == ["More?", "two", "5 for two", "Well?"]
        look = await rig.twins.in_branch(own, "wait", {"seconds": 601})
        assert said(look)[-1] == "Too slow."
        assert look["now"] - look["at"] > 600_000
        assert look["ended"]

        kept: Any = await rig.twins.keep(own, None, group=None)
        assert kept["passed"], kept["output"]
        assert "'price': [5]" in kept["text"]
        kept = await rig.twins.keep(id, 0, group=False)
        assert kept["passed"], kept["output"]

        await rig.twins.close_branch(own)
        with pytest.raises(TravelError) as caught:
            await rig.twins.in_branch(own, "look", {})
        assert caught.value.gone


@pytest.mark.parametrize(
    ("what", "given", "words"),
    [
        ("act", {"name": "fly"}, "there is no act 'fly'; there are join, "),
        ("act", {"name": "../say"}, "there is no act '../say'"),
        ("act", {}, "there is no act ''"),
        ("act", {"name": "say", "values": 3}, "values: must be an object"),
        ("wait", {"seconds": "x"}, "seconds: must be a number from 0 to"),
        ("wait", {"seconds": -1}, "seconds: must be a number from 0 to"),
        ("wait", {}, "seconds: must be a number from 0 to"),
    ],
)
async def test_what_no_branch_can_do_is_said_in_words(
    what: str, given: dict[str, Any], words: str, tmp_path: Path
) -> None:
    async with twins_of(tmp_path, journal(0)) as rig:
        rig.write(SHOP)
        look = await rig.twins.branch(await rig.opened(), 0, group=False)
        with pytest.raises(TravelError, match=re.escape(words)) as caught:
            await rig.twins.in_branch(look["id"], what, given)
        assert caught.value.refused


async def test_time_stands_still_between_two_acts(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(0)) as rig:
        rig.write(SHOP)
        id = await rig.opened()
        one = await rig.twins.branch(id, 0, group=False)
        await trio.sleep(0.3)
        other = await rig.twins.in_branch(one["id"], "look", {})
        assert other["now"] == one["now"]


async def test_three_at_most_are_open(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(1)) as rig:
        id = await rig.opened()
        opened = [await rig.twins.branch(id, 0, group=None) for _ in range(MOST)]
        with pytest.raises(TravelError, match="3 branches are open") as caught:
            await rig.twins.branch(id, 0, group=None)
        assert caught.value.refused
        await rig.twins.close_branch(opened[0]["id"])
        # One that can't be opened takes no place.
        with pytest.raises(TravelError, match="the notches 0 to"):
            await rig.twins.branch(id, 99, group=None)
        await rig.twins.branch(id, 1, group=None)


async def test_new_code_is_given_the_same_answers(tmp_path: Path) -> None:
    async with twins_of(tmp_path, journal(2)) as rig:
        await rig.opened()
        rig.write(SHOP)
        rig.twins.pool.changed()
        look = await rig.twins.same_answers(5, 1, group=False, numbers=500)
        assert look["answers"] == {
            "left": 2,
            "stopped": "what is open is another question than the one that was answered",
        }
        own = look["id"]
        look = await rig.twins.in_branch(own, "answers", {"way": "insist"})
        assert look["answers"] == {"left": 1, "stopped": "the step price waits for you"}
        await rig.twins.in_branch(own, "step", {"returns": 3})
        look = await rig.twins.in_branch(own, "answers", {"way": "insist"})
        assert look["answers"] == {"left": 0, "stopped": None}
        assert said(look)[-2:] == ["Well?", "00001"]
        instead = replacement_of(await rig.twins.replacement(own))
        assert (instead.conversation, instead.journal) == (1, None)  # all was said
        assert instead.chat is not None
        texts = [entry.content for entry in instead.chat.entries.values()]
        assert texts == ["More?", "00000", "3 for 00000", "Well?", "00001"]
        assert min(instead.chat.entries) == 501
        # Whether it may take its place is the parent's to say.
        assert look["can_take"] is False
        rig.twins.may_take = lambda row: row["conversation"] == 1
        look = await rig.twins.in_branch(own, "look", {})
        assert look["can_take"] is True
        assert rig.twins.origin(own) == journal(2)
        with pytest.raises(TravelError, match="no such conversation"):
            await rig.twins.same_answers(6, 1, group=False, numbers=0)
        other = await rig.twins.branch(await rig.opened(), 0, group=False)
        with pytest.raises(TravelError, match="opened at a notch"):
            await rig.twins.replacement(other["id"])
        with pytest.raises(TravelError, match="opened at a notch"):
            rig.twins.origin(other["id"])


# --- over HTTP


class FakeTravels:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def passed(self, id: str) -> dict[str, int]:
        return {"chat_id": -7}

    async def branch(self, id: str, notch: int, *, group: bool | None, asks: Sequence[str]) -> dict[str, str]:
        assert not asks
        return self._note("branch", id, notch, group)

    async def same_answers(
        self,
        chat_id: int,
        conversation: int,
        *,
        group: bool | None,
        numbers: int,
        asks: Sequence[str],
        said: Sequence[Any],
    ) -> dict[str, str]:
        assert not asks
        return self._note("same answers", chat_id, conversation, group, numbers, *said)

    async def in_branch(self, id: str, what: str, given: dict[str, Any]) -> dict[str, str]:
        if what == "wait" and given["seconds"] < 0:
            raise TravelError("time doesn't go back", refused=True)
        return self._note("in branch", id, what, given)

    async def close_branch(self, id: str) -> None:
        self._note("close", id)

    async def keep(self, id: str, notch: int | None, *, group: bool | None) -> dict[str, bool]:
        self._note("keep", id, notch, group)
        return {"passed": True}

    def _note(self, *asked: Any) -> dict[str, str]:
        self.asked.append(asked)
        return {"id": "b1"}


class FakeReload:
    way: str | None = None

    def view(self) -> list[dict[str, str | None]]:
        return [{"way": self.way}]

    async def choose(self, chat_id: int, conversation: int, way: str) -> None:
        if (chat_id, conversation) != (-7, 3):
            raise TravelError("this conversation doesn't hold the reload")
        self.way = way

    async def take(self, branch: str) -> None:
        if branch != "b1":
            raise TravelError("money was asked for in it", refused=True)
        self.way = "take"


@asynccontextmanager
async def routes(tmp_path: Path) -> AsyncGenerator[tuple[Any, FakeTravels, Exchange]]:
    async def post(body: object) -> int:
        return 200

    exchange = make_exchange(tmp_path, post, base_url="http://127.0.0.1:9")
    travels = FakeTravels()
    app = QuartTrio(__name__)
    app.register_blueprint(past_blueprint(exchange, cast("Any", travels), cast("Any", FakeReload())))
    yield app.test_client(), travels, exchange


async def test_each_request_is_one_question(tmp_path: Path) -> None:
    async with routes(tmp_path) as (client, travels, exchange):
        world, sara = exchange.world, exchange.world.add_user("Sara")
        world.add_group("us", ChatId(-7))
        Acting(world, sara, 1, ChatId(-7)).join()
        Acting(world, sara, 2, ChatId(-7)).say("Large")

        async def ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
            answer = await client.open(f"/control/travel/{path}", method=method, json=body)
            return answer.status_code, json.loads(await answer.get_data())

        cases: Sequence[tuple[str, str, dict[str, Any] | None, int, tuple[Any, ...]]] = [
            ("POST", "pass/p1/branch", {"notch": 4}, 201, ("branch", "p1", 4, True)),
            ("POST", "-7/3/answers", {}, 201, ("same answers", -7, 3, True, 1, [2, sara.id, "Large"])),
            ("POST", "pass/p1/test", {"notch": 4}, 200, ("keep", "p1", 4, True)),
            ("GET", "branch/b1", None, 200, ("in branch", "b1", "look", {})),
            ("POST", "branch/b1/act", {"name": "say"}, 200, ("in branch", "b1", "act", {"name": "say"})),
            ("POST", "branch/b1/wait", {"seconds": 5}, 200, ("in branch", "b1", "wait", {"seconds": 5})),
            ("POST", "branch/b1/step", {"runs": True}, 200, ("in branch", "b1", "step", {"runs": True})),
            ("POST", "branch/b1/test", {}, 200, ("keep", "b1", None, None)),
            ("DELETE", "branch/b1", None, 200, ("close", "b1")),
        ]
        for method, path, body, status, asked in cases:
            found, _ = await ask(method, path, body)
            assert (found, travels.asked.pop()) == (status, asked)
        assert await ask("POST", "branch/b1/wait", {"seconds": -1}) == (
            409,
            {"error": "time doesn't go back"},
        )
        assert (await ask("POST", "pass/p1/branch", {"notch": "x"}))[0] == 400


async def test_a_reload_that_is_held_is_decided_on(tmp_path: Path) -> None:
    async with routes(tmp_path) as (client, _, _):

        async def ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
            answer = await client.open(f"/control/travel/{path}", method=method, json=body)
            return answer.status_code, json.loads(await answer.get_data())

        assert await ask("GET", "held") == (200, {"held": [{"way": None}]})
        assert await ask("POST", "-7/3/held", {"way": "wait"}) == (200, {"held": [{"way": "wait"}]})
        for path, body, status in (
            ("-7/4/held", {"way": "wait"}, 404),
            ("-7/3/held", {}, 400),
            ("-7/3/held", {"way": "end", "now": True}, 400),
            ("-7/x/held", {"way": "end"}, 400),
        ):
            assert (await ask("POST", path, body))[0] == status
        assert await ask("POST", "branch/b2/take", {}) == (409, {"error": "money was asked for in it"})
        assert await ask("POST", "branch/b1/take", {}) == (200, {"held": [{"way": "take"}]})
