"""The test kit, used as a bot's author would."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from quart_trio import QuartTrio

from triobot import Bot, Chat, Image, Settings, provide
from triobot.errors import ConfigError, TriobotError
from triobot.filters import signal
from triobot.testing import Fault, NotSeenError, drive, run
from triobot.testing.virtual import virtual_time
from triobot.wire.content import Blob

pytest_plugins = ["pytester"]

TINY = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)


@attrs.frozen
class Shipped:
    """An order has left."""

    order: int


def greeting() -> Bot:
    bot = Bot()

    @bot.conversation
    async def hello(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        with chat.move_on_after(24 * 3600) as limit:
            size = await chat.choose(f"Hello, {name}.", {"s": "Small", "l": "Large"})
            await chat.send(f"{size} it is.")
            picture = await chat.ask("Your face?", Image)
            await chat.send(picture)
        if limit.cancelled_caught:
            await chat.send("Too slow.")

    return bot


@pytest.mark.parametrize("steps", [0, 1, 3, 10, 30])
@pytest.mark.parametrize("first", ["crashes", "restarts"])
async def test_two_tasks_may_crash_it_at_once(autojump_clock: object, first: str, steps: int) -> None:
    """One process runs at a time, whether the second kill finds it dying, starting or up."""
    async with drive(greeting()) as world:
        person = world.user("Sara")
        await person.joins()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(getattr(world, first))
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(world.crashes)

        await person.says("Sara")
        await person.sees("Hello, Sara.")


@pytest.mark.parametrize("pause", [0, 0.1, 1, 5, 59])
async def test_an_equal_word_after_a_crash_is_heard(autojump_clock: object, pause: float) -> None:
    """The platform got its 200 for the first: there is nothing to repeat, however soon the process died."""
    bot = Bot()

    @bot.conversation
    async def agreeing(chat: Chat) -> None:
        for question in "One?", "Two?", "Three?":
            assert await chat.ask(question) == "yes"
        await chat.send("Thank you.")

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        for number, question in enumerate(("One?", "Two?", "Three?"), start=2):
            await ali.sees(question)
            await ali.says("yes")
            with trio.fail_after(1):
                while world.answered[200] < number:
                    await trio.lowlevel.checkpoint()
            await world.waits(seconds=pause)
            await world.crashes()
        await ali.sees("Thank you.")


@pytest.mark.parametrize("stop", ["crashes", "restarts"])
async def test_an_apology_outlives_the_process(autojump_clock: object, stop: str) -> None:
    """What became of a conversation is owed from its end on, and is said once."""
    bot = Bot()

    @bot.conversation
    async def failing(chat: Chat) -> None:
        await chat.ask("Ready?")
        raise KeyError

    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Ready?")
        world.refuses(seconds=30)
        await ali.says("yes")
        await world.waits(seconds=5)
        world.takes_alarm("conversation_crashed")
        if stop == "crashes":
            await world.crashes()
        else:
            await world.restarts()
        await ali.sees("Something went wrong here. Please start again.", within=120)
        await world.waits(hours=1)
        assert (await world.transcript()).count("Something went wrong here.") == 1
        world.alarms.clear()


async def test_people_talk_to_a_bot_in_virtual_time(autojump_clock: object) -> None:
    async with drive(greeting()) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees("Your name?")
        await ali.says("Ali")
        await ali.sees("Hello, Ali.")
        await ali.sees_buttons("Small", "Large")
        await ali.presses("Small")
        await ali.sees("s it is.")
        await ali.sees_buttons()
        await ali.sees("Your face?")
        await ali.says(Image(Blob(TINY, "me.png")))
        await ali.sees(Image)


async def test_a_day_passes_at_once(autojump_clock: object) -> None:
    before = trio.current_time()
    async with drive(greeting()) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.says("Ali")
        await ali.sees("Hello, Ali.")
        await world.waits(hours=23)
        await ali.sees_nothing(within=1)
        await world.waits(hours=2)
        await ali.sees("Too slow.")
    assert 24 * 3600 < trio.current_time() - before < 26 * 3600


async def test_what_is_not_seen_shows_the_chat(autojump_clock: object) -> None:
    with pytest.raises(NotSeenError, match=r"'Nothing' did not come(.|\n)*Your name\?"):
        async with drive(greeting()) as world:
            ali = world.user("Ali")
            await ali.joins()
            await ali.sees("Nothing")


async def test_other_buttons_than_expected_are_named(autojump_clock: object) -> None:
    with pytest.raises(NotSeenError, match=r"were not shown, but \['Small', 'Large'\]"):
        async with drive(greeting()) as world:
            ali = world.user("Ali")
            await ali.joins()
            await ali.says("Ali")
            await ali.sees("Hello, Ali.")
            await ali.sees_buttons("Large", "Small")


async def test_a_conversation_that_fails_fails_the_test(autojump_clock: object) -> None:
    bot = Bot()

    @bot.conversation
    async def broken(chat: Chat) -> None:
        raise RuntimeError

    with pytest.raises(AssertionError, match=r"conversation_crashed: conversation .*broken failed"):
        async with drive(bot) as world:
            ali = world.user("Ali")
            await ali.joins()
            await ali.sees()
    async with drive(bot) as world:
        ali = world.user("Ali")
        await ali.joins()
        await ali.sees()
        assert "RuntimeError" in world.takes_alarm("conversation_crashed").text
        with pytest.raises(AssertionError, match="no alarm token_refused"):
            world.takes_alarm("token_refused")


async def test_faults_and_outages_are_the_platform_s(autojump_clock: object) -> None:
    async with drive(greeting()) as world:
        ali = world.user("Ali")
        world.faults.add(Fault(operation="sendMessage", status=500, times=1))
        world.faults.add(Fault(operation="sendMessage", drop="after", times=1))
        await ali.joins()
        await ali.sees("Your name?")
        await ali.sees("Your name?")  # its answer was lost, so it was said again
        world.refuses(seconds=20)
        await world.waits(seconds=1)
        await ali.says("Ali")
        await ali.sees_nothing(within=10)
        await ali.sees("Hello, Ali.", within=120)  # the bot tries again, more and more rarely


async def test_an_event_that_was_accepted_survives_a_crash(autojump_clock: object) -> None:
    async with drive(greeting()) as world:
        ali = world.user("Ali")
        world.refuses(seconds=30)
        await world.waits(seconds=1)
        await ali.joins()
        await world.waits(seconds=1)
        await world.crashes()
        await ali.sees("Your name?", within=120)  # the bot tries again, more and more rarely
        await world.restarts()


@pytest.mark.parametrize("turns", range(0, 200, 20))
async def test_an_event_that_meets_the_end_of_a_stop_is_posted_again(
    autojump_clock: object, turns: int
) -> None:
    async with drive(greeting(), replay_check="here") as world:
        world.faults.add(Fault(operation="sendMessage", latency=3))
        people = [world.user(f"Ali {number}") for number in range(20)]
        async with trio.open_nursery() as nursery:
            for ali in people:
                nursery.start_soon(ali.joins)
            for _ in range(turns):
                await trio.lowlevel.checkpoint()
            await world.restarts()
        for ali in people:
            await ali.sees("Your name?", within=120)


async def test_a_real_clock_is_refused() -> None:
    with pytest.raises(ConfigError, match="autojump_clock"):
        async with drive(greeting()):
            raise AssertionError


def test_a_test_without_pytest_trio_runs_in_virtual_time() -> None:
    async def scene() -> float:
        async with drive(greeting()) as world:
            ali = world.user("Ali")
            await ali.joins()
            await ali.sees("Your name?")
            await world.waits(days=30)
        return trio.current_time()

    assert run(scene) >= 30 * 86_400


async def test_a_site_that_mounts_the_bot_lives_in_the_same_time(autojump_clock: object) -> None:
    bot, app = Bot(), QuartTrio(__name__)
    bot.mount(app, prefix="/bot")

    @bot.resource
    @asynccontextmanager
    async def shop() -> AsyncGenerator[str]:
        raise AssertionError
        yield ""

    @bot.aside(signal(Shipped))
    async def parcel(chat: Chat[Shipped]) -> None:
        await chat.send(f"Order {chat.event.order} of {chat.use(shop)} is on its way.")
        await chat.sleep(3 * 86_400)
        await chat.send("Has it arrived?")

    async def shipped(chat_id: int, order: int) -> str:
        await bot.to(chat_id).signal(Shipped(order), key=f"shipped-{order}")
        return bot.use(shop)

    app.add_url_rule("/<int:chat_id>/orders/<int:order>/shipped", view_func=shipped, methods=["POST"])
    async with drive(bot, provide(shop, "a shop"), app=app) as world:
        ali = world.user("Ali")
        await ali.joins()
        for _ in range(2):
            answer = await app.test_client().post(f"/{ali.chat_id}/orders/7/shipped")
            assert await answer.get_data() == b"a shop"
        await ali.sees("Order 7 of a shop is on its way.")
        await ali.sees_nothing(within=60)
        await world.waits(days=3)
        await ali.sees("Has it arrived?")


async def test_a_group_that_was_not_awaited_is_named(autojump_clock: object) -> None:
    async with drive(greeting()) as world:
        ali = world.user("Ali")
        with pytest.raises(TriobotError, match=r"group = await world.group"):
            ali.at(world.group(ali))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_report_of_a_failed_test_shows_its_chats(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By name, so that it is the same whether triobot is installed here or not.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makepyfile(
        """
        from triobot import Bot, Chat
        from triobot.testing import drive

        bot = Bot()

        @bot.conversation
        async def hello(chat: Chat) -> None:
            await chat.send("Salaam")

        async def test_it(autojump_clock) -> None:
            async with drive(bot) as world:
                ali = world.user("Ali")
                await ali.joins()
                await ali.sees("Salaam")
                assert 1 == 2
        """
    )
    result = pytester.runpytest_subprocess("-p", "pytest_trio.plugin", "-p", "triobot_pytest")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*chats of the driven bot*", "--- Ali, chat *", "bot #* Salaam"])
    result.stdout.fnmatch_lines(["*assert 1 == 2*"])


@pytest.mark.slow
def test_a_failed_test_shows_the_bot_s_own_error_and_pdb_opens_there(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the lines of the bot and of the test alone; a test that fails without the bot's error as ever."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeini("[pytest]\ntrio_mode = true\n")
    pytester.makepyfile(
        """
        from triobot import Bot, Chat
        from triobot.testing import drive

        bot = Bot()

        async def price(size):
            return {"small": 1}[size]

        @bot.conversation
        async def order(chat: Chat) -> None:
            await chat.step(price, await chat.ask("Size?"))

        async def test_it(autojump_clock) -> None:
            async with drive(bot) as world:
                ali = world.user("Ali")
                await ali.joins()
                await ali.says("large")
                await ali.sees("1")

        async def test_that(autojump_clock) -> None:
            async with drive(bot) as world:
                ali = world.user("Ali")
                await ali.joins()
                await ali.says("large")
                await ali.sees()
                await ali.sees()

        async def test_other() -> None:
            assert 1 == 2
        """
    )
    plugins = ("-p", "pytest_trio.plugin", "-p", "triobot_pytest")
    result = pytester.runpytest_subprocess(*plugins)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            '>       return {"small": 1}[[]size]',
            "E       KeyError: 'large'",
            "*The above exception was the direct cause of the following exception:",
            '>       await chat.step(price, await chat.ask("Size?"))',
            "*The above exception was the direct cause of the following exception:",
            '>           await ali.sees("1")',
            "E           *NotSeenError: the message '1' did not come *",
            "*KeyError: 'large'",
            "E  *AssertionError: the bot raised alarms that the test did not take *",
            "*assert 1 == 2",
        ]
    )
    assert "triobot/engine" not in result.stdout.str()
    debugged = pytester.run(
        sys.executable, "-m", "pytest", *plugins, "--pdb", "-k", "test_it", stdin=b"p size\nq\n"
    )
    debugged.stdout.fnmatch_lines(["*return {*size]*", "*'large'*"])


async def test_time_goes_on_after_a_thread_beside_another_driven_bot(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Each holds time while a thread works; the second one must not put back what the first one had set."""
    with virtual_time(), virtual_time():
        for _ in range(3):
            await trio.to_thread.run_sync(int)
            await trio.testing.wait_all_tasks_blocked()
            assert autojump_clock.autojump_threshold == 0


async def test_time_goes_on_when_the_bot_that_held_it_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    at_work, over = threading.Event(), threading.Event()

    async def work() -> None:
        await trio.to_thread.run_sync(lambda: (at_work.set(), over.wait(20)))

    async with trio.open_nursery() as nursery:
        with virtual_time():
            with virtual_time():
                nursery.start_soon(work)
                await trio.to_thread.run_sync(at_work.wait, 20)
            assert autojump_clock.autojump_threshold > 0, "a thread works still"
            over.set()
    await trio.testing.wait_all_tasks_blocked()
    assert autojump_clock.autojump_threshold == 0


async def test_a_bots_own_settings_decide_what_its_store_and_its_code_do(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `Settings` the defaults hold: no variable is read."""
    monkeypatch.setenv("TRIOBOT_RETENTION_DAYS", "2")
    for settings, heard in ((None, [0]), (Settings(retention_days=2, max_amount=5), [0, 1])):
        bot, orders = Bot(settings=settings), list[int]()

        @bot.aside(signal(Shipped))
        async def shipped(chat: Chat[Shipped], orders: list[int] = orders) -> None:
            orders.append(chat.event.order)

        async with drive(bot, replay_check=False) as world:
            ali = world.user("Ali")
            for order in (0, 1):
                await bot.to(ali.chat_id).signal(Shipped(order), key="one")
                await world.waits(days=3)
            assert bot.settings().max_amount == (5 if settings else None)
        assert orders == heard


@pytest.mark.slow
def test_a_mistake_of_python_3_12_fails_no_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first versions take the store's ``?1`` for a name, and warn of it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import sys, warnings

        sys.version_info = (3, 12, 3)

        def test_a_store():
            warnings.warn("Binding 1 ('?1') is a named parameter, but you supplied...", DeprecationWarning)
        """
    )
    result = pytester.runpytest_subprocess("-p", "triobot_pytest", "-W", "error")
    result.assert_outcomes(passed=1)
