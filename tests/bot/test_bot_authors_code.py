"""Authors' code that harms a whole bot: logging that fails, and errors that end the process."""

from __future__ import annotations

import ast
import gc
import logging
import logging.config
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Never

import httpx
import pytest
import trio

import triobot
from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE
from triobot import Bot, Chat, Settings, Texts
from triobot.base.authors import came_by_signal, contained, contained_in_task, leaves
from triobot.base.secrets import Secret
from triobot.cli.terminal import report
from triobot.conversations.revival.crash_counts import CRASHES
from triobot.engine import Run
from triobot.errors import BreakdownError, ConfigError, ExitError
from triobot.runtime import logs
from triobot.runtime.logs import NAMES, GuardedLogger, open_logs
from triobot.runtime.serve import run_together

HOUSE: Final = Path(triobot.__file__).parent


class Panic(BaseException):
    """No Exception."""


def shop(chats: Chats, store: str = "memory:") -> Bot:
    bot = make_bot(chats, store=store)

    @bot.conversation
    async def order(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        if name == "!":
            raise RuntimeError("a mistake of the author's")
        await chat.send(f"Hello {name}.")

    return bot


# --- logging


class Broken(logging.Handler, logging.Filter, logging.Formatter):
    """Fails in one of the ways in which an author's logging can fail."""

    def __init__(self, where: str, error: BaseException) -> None:
        logging.Handler.__init__(self)
        self.where, self.error = where, error
        if where == "formatter":
            self.formatter = self

    def emit(self, record: logging.LogRecord) -> None:
        if self.where in ("handler", "formatter"):
            self.format(record)

    def format(self, record: logging.LogRecord) -> str:
        raise self.error

    def filter(self, record: logging.LogRecord) -> bool:
        if self.where == "filter":
            raise self.error
        return True


@pytest.fixture
def told() -> Iterator[None]:
    logs._warned.clear()
    before, loggers = logging.getLogRecordFactory(), logging.Logger.manager.loggerDict.values()
    disabled = {logger: logger.disabled for logger in loggers if isinstance(logger, logging.Logger)}
    yield
    logging.setLogRecordFactory(before)
    for logger, was in disabled.items():
        logger.disabled = was
    logs._warned.clear()


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    "error", [ConnectionError("the hook is down"), SystemExit(0), Panic(), GeneratorExit()]
)
@pytest.mark.parametrize("where", ["handler", "filter", "formatter", "factory"])
async def test_logging_that_fails_fails_alone(
    where: str,
    error: BaseException,
    autojump_clock: object,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Others are served; the other handlers have each line; standard error says it once."""
    chats, root = Chats(), logging.getLogger()
    handler = Broken(where, error)
    async with shop(chats).running() as intake:
        if where == "factory":
            logging.setLogRecordFactory(partial(_raise, error))
        else:
            root.handlers.insert(0, handler)
        try:
            for chat in (1, 2, 3):
                await say(intake, chat, "hi")
                await chats.wait_for(chat, "Your name?")
            await say(intake, 1, "!")
            await say(intake, 2, "!")
            await say(intake, 3, "Sara")
            await chats.wait_for(3, "Your name?", "Hello Sara.")
            with trio.fail_after(60):
                while len(chats.texts[1]) < 2 or len(chats.texts[2]) < 2:
                    await trio.sleep(1)
        finally:
            with suppress(ValueError):
                root.handlers.remove(handler)
            logging.setLogRecordFactory(logging.LogRecord)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "log handler failed" in line]
    assert f"failed with {type(error).__name__} at {__file__}:" in line
    assert "the hook is down" not in line
    assert where == "factory" or caplog.text.count("failed: RuntimeError") == 2


@pytest.mark.usefixtures("told")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_trio_s_own_lines_fail_alone_too(autojump_clock: object) -> None:
    """A generator that is left half read fails in its cleanup, and so does the handler that is to tell it."""
    chats, handler = Chats(), Broken("handler", ConnectionError())
    bot = make_bot(chats)

    async def numbers() -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            raise SystemExit(0)

    @bot.conversation
    async def count(chat: Chat) -> None:
        async for number in numbers():
            await chat.send(f"{number}")
            break
        gc.collect()
        await chat.send("done")

    async with bot.running() as intake:
        logging.getLogger().addHandler(handler)
        try:
            for chat in (1, 2):
                await say(intake, chat, "hi")
                await chats.wait_for(chat, "1", "done")
            await trio.sleep(1)
        finally:
            logging.getLogger().removeHandler(handler)


def _raise(error: BaseException, *_: object, **__: object) -> Never:
    raise error


@pytest.mark.usefixtures("told")
def test_loggers_that_logging_config_disabled_speak_again() -> None:
    """Before the loggers were opened, by the bot's module, and behind that, by a resource."""
    config = {"version": 1, "incremental": False, "disable_existing_loggers": True}
    logger = logging.getLogger("triobot")
    logger.__class__ = logging.Logger
    logging.config.dictConfig(config)
    assert logger.disabled
    open_logs()
    logging.config.dictConfig(config)
    assert not any(logging.getLogger(name).disabled for name in NAMES)


@pytest.mark.usefixtures("told")
def test_a_line_says_where_it_was_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Not the logger's own file; and an author's class of loggers stays one."""

    class Own(logging.Logger):
        pass

    open_logs()
    logger = logging.getLogger("triobot")
    logger.warning("here")
    assert caplog.records[-1].filename == Path(__file__).name
    assert isinstance(logger, GuardedLogger)
    own = Own("triobot.own")
    own.__class__ = type("GuardedLogger", (GuardedLogger, Own), {})
    assert isinstance(own, Own)


def test_each_logger_of_ours_is_known() -> None:
    found = set[str]()
    for path in HOUSE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger" and node.args:
                match node.args[0]:
                    case ast.Constant(value=str() as name) if name.startswith("triobot"):
                        found.add(name)
    assert found == set(NAMES)


# --- what passes


def test_what_a_signal_brings_passes() -> None:
    """However it is handled: by Python itself, a function, a method, a partial."""

    class Handles:
        def __call__(self, number: int, frame: object) -> None:
            raise SystemExit(0)

        def method(self, number: int, frame: object) -> None:
            raise SystemExit(0)

    def plain(error: BaseException, number: int, frame: object) -> None:
        raise error

    handlers: list[Any] = [
        signal.default_int_handler,
        Handles(),
        Handles().method,
        partial(plain, Panic()),
        lambda number, frame: plain(KeyboardInterrupt(), number, frame),
    ]
    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in handlers:
            signal.signal(signal.SIGINT, handler)
            with pytest.raises(BaseException) as raised:
                signal.raise_signal(signal.SIGINT)
            assert came_by_signal(raised.value)
            group = BaseExceptionGroup("", [ValueError(), raised.value])
            assert came_by_signal(BaseExceptionGroup("", [group]))
            with pytest.RaisesGroup(ValueError, type(raised.value)):
                contained(group)
    finally:
        signal.signal(signal.SIGINT, before)


async def test_what_no_signal_brings_is_contained() -> None:
    """A KeyboardInterrupt that code raises, in this thread or in another."""
    with pytest.raises(KeyboardInterrupt) as raised:
        raise KeyboardInterrupt
    failure = contained(raised.value)
    assert isinstance(failure, ExitError)
    assert failure.kind == "KeyboardInterrupt"
    assert failure.__cause__ is raised.value
    with pytest.raises(KeyboardInterrupt) as raised:
        await trio.to_thread.run_sync(_raise, KeyboardInterrupt())
    assert isinstance(contained(raised.value), ExitError)
    error = ValueError()
    assert contained(error) is error


def test_in_another_thread_no_signal_brings_anything() -> None:
    """Though the main thread's handler is Python's own."""
    found = list[bool]()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = threading.Thread(target=lambda: found.append(came_by_signal(KeyboardInterrupt())))
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [False]


async def test_a_cancellation_from_around_passes_and_one_from_elsewhere_does_not() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        except trio.Cancelled as cancelled:
            with pytest.raises(trio.Cancelled):
                contained_in_task(cancelled)
            both = BaseExceptionGroup("", [cancelled, SystemExit(0)])
            assert isinstance(contained_in_task(both), ExceptionGroup)
            kept = cancelled
            raise
    failure = contained_in_task(kept)
    assert isinstance(failure, ExitError)
    assert failure.kind == "Cancelled"


# --- errors that end a bot


@pytest.mark.slow
@pytest.mark.parametrize("where", ["background", "resource", "closing"])
def test_a_process_that_fails_never_ends_well(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    """sys.exit(0) in a background task or a resource: exit code 1, and a last line that names its line."""
    bot = shop(Chats())

    @bot.resource
    @asynccontextmanager
    async def kitchen() -> AsyncGenerator[None]:
        if where == "resource":
            raise SystemExit(0)
        yield
        if where == "closing":
            raise SystemExit(0)

    @bot.background
    async def follow() -> None:
        if where == "background":
            raise SystemExit(0)
        bot.stop()

    with pytest.raises(ExitError) as raised:
        run_together([(bot, bot.settings())])
    assert report(raised.value, debug=False) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("triobot: ")
    assert f"stopped by SystemExit at {Path(__file__).name}:" in last


async def test_a_transport_that_exits_fails_its_operation_alone() -> None:
    chats = Chats()

    async def take(request: httpx.Request) -> httpx.Response:
        if b"Your" in await request.aread():
            raise SystemExit(0)
        return await chats.take(request)

    bot = Bot(settings=make_bot(chats).settings(), transport=httpx.MockTransport(take))

    @bot.conversation
    async def order(chat: Chat) -> None:
        if chat.id == 1:
            await chat.send("Your name?")
        await chat.send("Hello.")

    async with bot.running() as intake:
        await say(intake, 1, "hi")
        await say(intake, 2, "hi")
        await chats.wait_for(2, "Hello.")


@pytest.mark.slow
async def test_what_breaks_the_process_is_named_and_parked_the_third_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of ours in one conversation: the process ends, is never deaf, and the others are served."""
    chats, end = Chats(), Run._end

    def breaks(run: Run, failure: Exception | None, *more: Any) -> None:
        if failure is not None:
            raise AssertionError("a defect")
        end(run, failure, *more)

    monkeypatch.setattr(Run, "_end", breaks)
    url = f"sqlite:{tmp_path / 'bot.db'}"
    for death in range(1, CRASHES + 1):
        with pytest.RaisesGroup(BreakdownError, flatten_subgroups=True) as raised:
            async with shop(chats, url).running() as intake:
                if death == 1:
                    await say(intake, 7, "hi")
                    await chats.wait_for(7, "Your name?")
                    await say(intake, 7, "!")
                await trio.sleep(PATIENCE)
        words = str(next(leaves(raised.value)))
        assert ".order (reference 1) of chat 7 ended the process: AssertionError at " in words
    async with shop(chats, url).running() as intake:
        await say(intake, 8, "hi")
        await chats.wait_for(8, "Your name?")
        await say(intake, 7, "hello?")
        texts = Texts.english()
        await chats.wait_for(7, "Your name?", texts.apology, texts.parked)
        assert intake.work is not None
        await intake.work.dispatcher.commits.wait_for()
        (row,) = await intake.store.parked(after=0, limit=9)
        assert row.id == 1
    async with shop(chats, url).running() as intake:
        assert intake.store.opening().unclean == 0, "a stop with somebody parked is a clean one"


async def test_a_signal_is_nobody_s_crash(tmp_path: Path) -> None:
    chats, url = Chats(), f"sqlite:{tmp_path / 'bot.db'}"
    bot = make_bot(chats, store=url)

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.ask("Your name?")
        signal.raise_signal(signal.SIGINT)

    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True):
        async with bot.running() as intake:
            await say(intake, 7, "hi")
            await chats.wait_for(7, "Your name?")
            await say(intake, 7, "!")
            await trio.sleep_forever()
    async with shop(chats, url).running() as intake:
        assert intake.store.opening().unclean == 0


# --- served twice


async def test_a_serve_that_is_refused_changes_nothing_of_the_one_that_runs() -> None:
    bot, again = shop(Chats()), list[str]()

    async def once_more(serve: Callable[..., Any]) -> None:
        try:
            await serve()
        except ConfigError as error:
            again.append(str(error))

    async def running() -> None:
        async with bot.running():
            raise AssertionError

    async with trio.open_nursery() as nursery:
        await nursery.start(bot.serve)
        await once_more(bot.serve)
        await once_more(partial(bot.serve, settings=_elsewhere()))
        await once_more(running)
        bot.stop()
    assert again == ["this bot is running already"] * 3
    async with trio.open_nursery() as nursery:
        await nursery.start(bot.serve)
        bot.stop()


def _elsewhere() -> Settings:
    return Settings(token=Secret("another"), store="memory:", port=0, base_url="http://127.0.0.1:9")
