"""Who has an event, seen from people: double clicks, old buttons, other people's, late forms, leaves."""

from __future__ import annotations

import attrs
import trio
from town import ALI, SARA, TEXTS, open_town
from trio.testing import MockClock

from triobot.conversations.chat import Chat
from triobot.conversations.routes.filters import command, leave
from triobot.conversations.routes.router import Router


@attrs.frozen
class Details:
    floor: str


def pages(router: Router) -> None:
    """Three questions with the same buttons."""

    @router.conversation(command("go"))
    async def ask(chat: Chat) -> None:
        for page in range(3):
            answer = await chat.choose(f"Page {page}?", {"yes": "Yes", "no": "No"}, by=ALI.id)
            await chat.send(f"{page} {answer}")


async def test_the_second_click_answers_no_other_question() -> None:
    """And is answered without a word."""
    router = Router()
    pages(router)
    async with open_town(router) as town:
        await town.says("/go")
        second = await town.presses("Yes", times=2)
        assert town.sent() == ["Page 0?", "0 yes", "Page 1?"]
        assert ("refused", second, "") in town.outbox.presses


async def test_an_old_button_answers_nothing(autojump_clock: MockClock) -> None:
    """It has expired, and says so at once, unless the click is a second one on the button that answered."""
    router = Router()
    pages(router)
    async with open_town(router) as town:
        await town.says("/go")
        old, data = town.button("No")
        _, yes = town.button("Yes")
        await town.presses("Yes")
        await town.presses("Yes")
        second = await town.presses_data(yes, old)
        other = await town.presses_data(data, old)
        await town.rest()
        await trio.sleep(12)
        late = await town.presses_data(data, old)
        await town.rest()
        assert town.sent()[-1] == "Page 2?"
        assert ("refused", second, "") in town.outbox.presses
        assert ("refused", other, TEXTS.expired) in town.outbox.presses
        assert ("refused", late, TEXTS.expired) in town.outbox.presses


async def test_somebody_elses_press_is_dropped_without_a_word() -> None:
    """The question stays open for whom it asked."""
    router = Router()
    pages(router)
    async with open_town(router) as town:
        await town.joins(sender=SARA)
        await town.says("/go")
        press = await town.presses("Yes", sender=SARA)
        assert ("refused", press, "") in town.outbox.presses
        assert town.sent() == ["Page 0?"]
        await town.presses("Yes")
        assert town.sent()[1] == "0 yes"


async def test_a_late_form_has_expired(autojump_clock: MockClock) -> None:
    """Whether or not a conversation lives; it is no answer to the next form."""
    router = Router()

    @router.conversation(command("go"))
    async def ask(chat: Chat) -> None:
        for _ in range(2):
            details = await chat.fill(Details, "Where?")
            await chat.send(f"floor {details.floor}")

    async with open_town(router) as town:
        await town.says("/go")
        first = town.messages()[0][0]
        await town.submits({"floor": "1"})
        await town.submits({"floor": "2"}, on=first)
        assert town.sent()[:2] == ["Where?", "floor 1"]
        await town.submits({"floor": "3"})
        assert town.sent()[-1] == "floor 3"
        await trio.sleep(12)
        await town.submits({"floor": "4"}, on=first)
        assert town.sent()[-1] == TEXTS.expired


async def test_a_leave_in_mid_question_ends_it_and_starts_only_asides() -> None:
    """Nothing is sent to whoever has left, not even to take the buttons away."""
    router, seen = Router(), list[object]()
    pages(router)

    @router.conversation
    async def anything(chat: Chat) -> None:
        seen.append("started")

    @router.aside(leave())
    async def goodbye(chat: Chat) -> None:
        seen.append("goodbye")

    async with open_town(router) as town:
        await town.says("/go")
        await town.leaves()
        assert seen == ["goodbye"]
        assert town.sent() == ["Page 0?"]
        assert town.edits() == []
        assert not town.left_over()
