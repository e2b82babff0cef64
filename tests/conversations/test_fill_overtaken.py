"""An older form of the same class, sent in while the next one is on its way."""

from __future__ import annotations

import attrs
from town import TEXTS, open_town

from triobot.conversations.chat import Chat
from triobot.conversations.routes.router import Router
from triobot.wire.operations import SendMessage


@attrs.frozen
class Details:
    """A form."""

    name: str


async def test_an_old_form_does_not_answer_a_question_that_is_being_sent() -> None:
    """Both have the same fields: which one it was is known as soon as the new one's id is."""
    bot = Router()
    filled: list[Details] = []

    @bot.conversation
    async def twice(chat: Chat) -> None:
        for question in ("First?", "Second?"):
            filled.append(await chat.fill(Details, question))

    async with open_town(bot) as town:
        await town.says("hi")
        ((first, _),) = town.messages()
        script = town.outbox.hold(lambda op: isinstance(op, SendMessage))
        await town.submits({"name": "Sara"})
        await town.submits({"name": "Sara, again"}, on=first)
        script.release()
        await town.rest()
        assert [details.name for details in filled] == ["Sara"]
        town.outbox.forget(script)
        await town.submits({"name": "Ali"})
        assert [details.name for details in filled] == ["Sara", "Ali"]
        assert TEXTS.apology not in town.sent()
        assert town.store.rows == {}
