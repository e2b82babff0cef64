"""The simulation: it repeats itself, and it finds what is wrong."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from triobot import Bot, Chat
from triobot.cli import main
from triobot.filters import command, pressed
from triobot.testing import Outcome, Plan, run, simulate

EXAMPLES = Path(__file__).parents[2] / "examples"


def simulated(bot: Bot, plan: Plan) -> Outcome:
    return run(partial(simulate, bot, plan))


def talkative() -> Bot:
    bot = Bot()

    @bot.conversation
    async def talk(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        with chat.move_on_after(3600):
            size = await chat.choose(f"Hello, {name}.", {"s": "Small", "l": "Large"})
            await chat.answer("Thank you.")
            await chat.send(size)

    @bot.aside(command("help"))
    async def help_(chat: Chat) -> None:
        await chat.send("Say your name.")

    return bot


def test_a_seed_gives_the_same_run_and_another_one_another() -> None:
    plan = Plan(seed=3, chats=5, hours=6, crashes=2, faults=2)
    first, second = simulated(talkative(), plan), simulated(talkative(), plan)
    assert first == second
    assert first.broken == []
    assert min(first.acts, first.events, first.messages, first.faults) > 20
    assert simulated(talkative(), Plan(seed=4, chats=5, hours=6, crashes=2)).digest != first.digest


def test_a_conversation_that_fails_is_found() -> None:
    bot = Bot()

    @bot.conversation
    async def fragile(chat: Chat) -> None:
        if await chat.ask("How many?") == "2":
            raise ZeroDivisionError

    [found] = simulated(bot, Plan(chats=3, hours=6, crashes=0)).broken
    assert found.startswith("alarm conversation_crashed: conversation ")
    assert "ZeroDivisionError" in found


def test_events_that_nobody_handles_are_found() -> None:
    bot = Bot()

    @bot.conversation
    async def deaf(chat: Chat) -> None:
        await trio.sleep_forever()

    [found] = simulated(bot, Plan(chats=3, hours=6, crashes=0)).broken
    assert "events were accepted and never handled" in found


def test_a_press_that_nobody_answers_is_found() -> None:
    bot = talkative()

    @bot.aside(pressed(int))
    async def never(chat: Chat) -> None:
        """Only there so that this is not the same bot."""

    answers = "triobot.outbox.answers.Answers.answer_soon"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, lambda *_: None)
        found = simulated(bot, Plan(chats=3, hours=6, crashes=0)).broken
    assert any("presses in chat" in one and "were never answered" in one for one in found)


def test_the_command_says_what_happened_and_how_to_have_it_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(
        [
            "simulate",
            f"{EXAMPLES / 'echo.py'}:bot",
            "--chats",
            "2",
            "--hours",
            "2",
            "--crashes",
            "1",
            "--runs",
            "2",
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["seed 0", "seed 1"]

    (tmp_path / "fragile.py").write_text(
        "from triobot import Bot, Chat\n"
        "bot = Bot()\n"
        "@bot.conversation\n"
        "async def fragile(chat: Chat) -> None:\n"
        "    raise ValueError\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["simulate", f"{tmp_path / 'fragile.py'}:bot", "--chats", "2", "--hours", "2", "--crashes", "0"])
    said = capsys.readouterr().out
    assert ended.value.code == 1
    assert "BROKEN: alarm conversation_crashed" in said
    assert "again: triobot simulate" in said


@pytest.mark.parametrize(
    "wrong",
    [
        ("--chats", "0"),
        ("--chats", "-3"),
        ("--runs", "0"),
        ("--hours", "0"),
        ("--hours", "nan"),
        ("--hours", "inf"),
        ("--crashes", "-1"),
        ("--faults", "nan"),
        ("--faults", "-1"),
    ],
    ids="".join,
)
def test_a_simulation_of_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, str]
) -> None:
    """It would end well, or with a traceback."""
    with pytest.raises(SystemExit) as ended:
        main(["simulate", f"{tmp_path / 'nobody.py'}:bot", *wrong])
    assert ended.value.code == 2
    assert f"argument {wrong[0]}: must be a number" in capsys.readouterr().err
