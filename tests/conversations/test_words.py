"""The runtime's own words, by what a chat keeps."""

from __future__ import annotations

from typing import Any

import pytest
from doubles import FakeStore
from town import CHAT, open_town

from triobot.conversations import data as data_module
from triobot.conversations.chat import Chat
from triobot.conversations.data import Data, Key
from triobot.conversations.filters import command
from triobot.conversations.routes import Router
from triobot.conversations.texts import Texts

LANGUAGE = Key("language", str, default="en")
data_module._declared.clear()
PERSIAN, ENGLISH = Texts.persian(), Texts.english()


def in_their_language(data: Data) -> Texts:
    return PERSIAN if data[LANGUAGE] == "fa" else ENGLISH


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "_declared", {"language"})


def bot() -> Router:
    router = Router()

    @router.conversation(command("go"))
    async def ask(chat: Chat) -> None:
        await chat.choose("?", {"a": "A"})
        await chat.choose("?", {"a": "B"})
        raise ValueError("x")

    @router.aside(command("fa"))
    async def persian(chat: Chat) -> None:
        chat.data[LANGUAGE] = "fa"

    return router


async def test_hints_apologies_and_expired_buttons_follow_the_chat() -> None:
    store = FakeStore()
    async with open_town(bot(), texts=in_their_language, store=store) as town:
        await town.says("/go")
        await town.says("hm")
        await town.says("/fa")
        first = town.button("A")
        await town.presses("A")
        await town.says("hm")
        assert town.sent()[1:] == [ENGLISH.want_choice, "?", PERSIAN.want_choice]
        await town.presses("B")
        assert town.sent()[-1] == PERSIAN.apology
        # Nothing goes on here any more: what the chat keeps is read for this.
        town.dispatcher._answered.clear()
        late = await town.presses_data(first[1], first[0])
        await town.rest()
        assert ("refused", late, PERSIAN.expired) in town.outbox.presses
        other = await town.presses_data(first[1], first[0], 6)
        await town.rest()
        assert ("refused", other, ENGLISH.expired) in town.outbox.presses
        assert store.kept[CHAT, "language"]


@pytest.mark.parametrize("wrong", [lambda data: data["x"], lambda data: "Sorry"])
async def test_a_choice_that_fails_speaks_english(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    """And is told to the operator."""
    async with open_town(bot(), texts=wrong) as town:
        await town.says("/go")
        await town.says("hm")
        assert town.sent()[-1] == ENGLISH.want_choice
    assert "texts=" in caplog.text
