"""Tests of bots run in virtual time beside what else runs async tests: pytest-asyncio, Hypothesis."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from triobot import Bot
from triobot.errors import ConfigError
from triobot.testing import drive

pytest_plugins = ["pytester"]

BOT = """
from triobot import Bot, Chat

bot = Bot()

@bot.conversation
async def order(chat: Chat) -> None:
    name = await chat.ask("Your name?")
    await chat.sleep(3600)
    await chat.send(f"Hello {name}.")
"""

# What pytest-asyncio does in its automatic mode, as far as it concerns others.
ASYNCIO = """
import asyncio, inspect, pytest

class Coroutine(pytest.Function):
    def setup(self):
        self.fixturenames.append("_runner")
        super().setup()

    def runtest(self):
        given = getattr(self.obj, "hypothesis", None)
        target, name = (self, "obj") if given is None else (given, "inner_test")
        test = getattr(target, name)
        setattr(target, name, lambda **named: asyncio.run(test(**named)))
        super().runtest()

@pytest.fixture
def _runner():
    yield

@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector, name, obj):
    made = yield
    return [converted(one) for one in made] if isinstance(made, list) else made

def converted(item):
    given = getattr(item.obj, "hypothesis", None)
    if not inspect.iscoroutinefunction(item.obj if given is None else given.inner_test):
        return item
    if item.get_closest_marker("asyncio") is None:
        item.add_marker("asyncio")
    one = Coroutine.from_parent(
        item.parent, name=item.name, callspec=getattr(item, "callspec", None), callobj=item.obj,
        fixtureinfo=item._fixtureinfo, keywords=item.keywords, originalname=item.originalname,
    )
    one.own_markers = item.own_markers
    return one
"""


@pytest.fixture
def beside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{pytester.path}")
    pytester.mkpydir("pytest_asyncio").joinpath("plugin.py").write_text(ASYNCIO)
    pytester.makepyfile(pizza=BOT)
    pytester.makeini("[pytest]\nmarkers = asyncio: another's\n")
    return pytester


def test_a_bot_s_test_is_not_asyncio_s_unless_it_says_so(beside: pytest.Pytester) -> None:
    beside.makepyfile(
        test_bots="""
        import asyncio, pytest, trio
        from hypothesis import given, settings, strategies as st
        from pizza import bot
        from triobot.testing import drive

        @pytest.fixture
        def name():
            return "Sara"

        async def order(name):
            began = trio.current_time()
            async with drive(bot) as world:
                sara = world.user("Sara")
                await sara.joins()
                await sara.says(name)
                await world.waits(hours=1)
                await sara.sees(f"Hello {name}.")
            assert trio.current_time() - began >= 3600

        async def test_alone():
            await order("Sara")

        @pytest.mark.parametrize("last", ["Ahmadi", "Karimi"])
        async def test_with_arguments(name, last, tmp_path):
            assert tmp_path.is_dir()
            await order(f"{name} {last}")

        class TestBots:
            async def test_in_a_class(self, name):
                await order(name)

        @settings(max_examples=3, deadline=None)
        @given(st.text("abc", min_size=1))
        async def test_given(name):
            await order(name)

        @pytest.mark.asyncio
        async def test_that_is_asyncio_s():
            await asyncio.sleep(0)

        @pytest.mark.asyncio
        class TestOthers:
            async def test_in_a_class(self):
                await asyncio.sleep(0)

        async def test_that_is_skipped():
            pytest.skip()
        """,
        test_others="""
        import asyncio

        async def test_it():
            await asyncio.sleep(0)
        """,
    )
    plugins = ("-p", "_hypothesis_pytestplugin", "-p", "triobot_pytest", "-p", "pytest_asyncio.plugin")
    beside.runpytest_subprocess(*plugins).assert_outcomes(passed=8, skipped=1)


def test_a_bot_s_test_is_known_by_whatever_way_it_comes_to_the_kit(beside: pytest.Pytester) -> None:
    drives = "async with {}(bot) as world:\n        await world.user('Sara').joins()\n"
    beside.mkpydir("shared").joinpath("ways.py").write_text(
        "from pizza import bot\nfrom triobot.testing import drive\n\n"
        f"async def joins():\n    {drives.format('drive')}"
        "\nclass Town:\n    @staticmethod\n    async def joins():\n        await joins()\n"
        "\nasync def joins_too():\n    await Town.joins()\n"
    )
    beside.makeconftest(
        "import pytest\n\n"
        "@pytest.fixture\ndef driven():\n    from triobot.testing import drive\n    return drive\n\n"
        "@pytest.fixture\ndef town(driven):\n    return driven\n"
    )
    head = "from pizza import bot\n{}\nasync def test_it({}):\n    "
    beside.makepyfile(
        test_alias=head.format("import triobot.testing as t", "") + drives.format("t.drive"),
        test_whole=head.format("import triobot.testing", "") + drives.format("triobot.testing.drive"),
        test_inner=head.format("", "") + "import triobot.testing as t\n    " + drives.format("t.drive"),
        test_helper=head.format("from shared.ways import joins_too", "") + "await joins_too()\n",
        test_class=head.format("from shared.ways import Town", "") + "await Town.joins()\n",
        test_module=head.format("from shared import ways", "") + "await ways.Town.joins()\n",
        test_fixture=head.format("", "town") + drives.format("town"),
        test_others="import asyncio\nfrom shared import ways\nfrom pizza import bot\n\n"
        "async def test_it(tmp_path):\n    await asyncio.sleep(0)\n",
    )
    plugins = ("-p", "triobot_pytest", "-p", "pytest_asyncio.plugin")
    beside.runpytest_subprocess(*plugins).assert_outcomes(passed=8)


def test_a_bot_that_asyncio_runs_is_said_to_need_trio() -> None:
    """So it is in each async fixture and each marked test of pytest-asyncio's."""

    async def fixture() -> None:
        async with drive(Bot()):
            pass

    with pytest.raises(ConfigError, match=r"needs Trio.*pytest-asyncio.*enter drive\(\)"):
        asyncio.run(fixture())


def test_a_bot_s_test_has_async_fixtures_of_anyio_s(beside: pytest.Pytester) -> None:
    """A fixture waits in a run of anyio's, whose thread can't have a second; drive() isn't for a fixture."""
    beside.makeini("[pytest]\nanyio_mode = auto\n")
    beside.makepyfile(
        """
        import pytest, trio
        from pizza import bot
        from triobot.testing import drive

        @pytest.fixture
        async def name():
            yield "Sara"

        @pytest.fixture
        async def world():
            async with drive(bot) as world:
                yield world

        async def test_an_order(name):
            async with drive(bot) as world:
                sara = world.user("Sara")
                await sara.joins()
                await sara.says(name)
                await world.waits(hours=1)
                await sara.sees("Hello Sara.")

        async def test_that_is_driven_by_a_fixture(world):
            pass
        """
    )
    result = beside.runpytest_subprocess("-p", "anyio.pytest_plugin", "-p", "triobot_pytest")
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["*drive() needs Trio and virtual time*have a test itself enter drive()*"])


def test_each_example_runs_in_virtual_time(beside: pytest.Pytester) -> None:
    """The report shows the chats of the example that failed, and of no other."""
    beside.makepyfile(
        """
        import pytest, trio
        from hypothesis import given, settings, strategies as st
        from pizza import bot
        from triobot.testing import drive

        @pytest.mark.parametrize("last", ["a", "b"])
        @settings(max_examples=20, deadline=None, database=None, derandomize=True)
        @given(first=st.text("xyz", min_size=1, max_size=5))
        async def test_any_name(last, first):
            assert trio.current_time() < 3600
            async with drive(bot) as world:
                sara = world.user("Sara")
                await sara.joins()
                await sara.says(first + last)
                await world.waits(hours=1)
                await sara.sees(f"Hello {first}{last}.")
                assert last == "a" or "z" not in first
        """
    )
    result = beside.runpytest_subprocess("-p", "_hypothesis_pytestplugin", "-p", "triobot_pytest")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*first='z'*", "*chats of the driven bot*"])
    assert result.stdout.str().count("--- Sara, chat ") == 1
