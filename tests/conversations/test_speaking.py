"""The runtime's own words follow what a chat keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest
from doubles import FakeStore
from town import TEXTS, open_town

from triobot.conversations.chat import Chat
from triobot.conversations.data import Data, Key
from triobot.conversations.routes.router import Router
from triobot.conversations.texts import Texts
from triobot.errors import ConfigError, StoreError

PERSIAN = Key("persian", bool, default=False)


def words(data: Data) -> Texts:
    return Texts.persian() if data[PERSIAN] else Texts.english()


def asking() -> Router:
    """Asks twice; the language is changed in between."""
    router = Router()

    @router.conversation
    async def ask(chat: Chat) -> None:
        await chat.ask("How many?", int)
        chat.data[PERSIAN] = True
        await chat.ask("How many more?", int)
        await chat.choose("Sure?", {"y": "Yes"})

    return router


async def test_hints_follow_what_the_chat_keeps() -> None:
    async with open_town(asking(), texts=words) as town:
        for said in ("hi", "x", "1", "x"):
            await town.says(said)
        assert town.sent() == [
            "How many?",
            TEXTS.want_number,
            "How many more?",
            Texts.persian().want_number,
        ]


async def test_a_button_that_is_long_over_is_answered_in_the_chats_language() -> None:
    """Nothing goes on there any more: what the chat keeps is read for it."""
    async with open_town(asking(), texts=words) as town:
        for said in ("hi", "1", "2"):
            await town.says(said)
        await town.presses("Yes")
        await town.presses_data("qabcdefgh.sy", on=town.messages()[-1][0])
        await town.rest()
        assert [said for what, _, said in town.outbox.presses if what == "refused"][-1:] == [
            Texts.persian().expired
        ]


async def test_a_choice_of_words_that_fails_costs_the_language_only(caplog: pytest.LogCaptureFixture) -> None:
    def broken(data: Data) -> Texts:
        raise KeyError("a name")

    async with open_town(asking(), texts=broken) as town:
        await town.says("hi")
        await town.says("x")
        assert town.sent() == ["How many?", TEXTS.want_number]
    assert "the bot's texts= failed with KeyError at" in caplog.text
    assert "a name" not in caplog.text


async def test_a_choice_that_gives_no_words_costs_the_language_only(caplog: pytest.LogCaptureFixture) -> None:
    """Such as a function that forgets its last `return`."""
    nothing: Any = lambda data: None  # noqa: E731
    async with open_town(asking(), texts=nothing) as town:
        await town.says("hi")
        await town.says("x")
        assert town.sent() == ["How many?", TEXTS.want_number]
    assert "the bot's texts= gave a NoneType, and no Texts: its words are English" in caplog.text


async def test_a_store_that_fails_costs_the_language_only(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeStore()

    async def fail(chat_id: object) -> object:
        raise StoreError("no")

    async with open_town(asking(), texts=words, store=store) as town:
        await town.says("hi")
        await town.says("1")
        monkeypatch.setattr(store, "data", fail)
        await town.leaves()
        await town.presses_data("qabcdefgh.sy", on=town.messages()[-1][0])
        await town.rest()
        assert [said for what, _, said in town.outbox.presses if what == "refused"] == [TEXTS.expired]


async def test_a_catalogue_translates_what_it_has() -> None:
    """The rest stays English."""
    german = {"Please answer with a number.": "Bitte eine Zahl.", "Pay": "Bezahlen"}
    texts = Texts.translated(lambda text: german.get(text, text))
    assert attrs.evolve(texts, want_number="Please answer with a number.", pay="Pay") == Texts.english()

    async with open_town(asking(), texts=texts) as town:
        for said in ("hi", "x"):
            await town.says(said)
        assert town.sent() == ["How many?", "Bitte eine Zahl."]


@pytest.mark.parametrize(
    ("translate", "what"),
    [
        (lambda text: text.replace("{label}", "{etikett}"), "of required can't be filled in: KeyError"),
        (lambda text: text.replace("{label}", "{label"), "of required can't be filled in: ValueError"),
        (lambda text: text.replace("{label}", "{}"), "of required can't be filled in: IndexError"),
        (lambda text: text.replace("{label}", "{label[x]}"), "of required can't be filled in: TypeError"),
        (lambda text: text.replace("{label}", "{command}"), "of required can't be filled in: KeyError"),
        (lambda text: f"{text} {{label}}", "of apology can't be filled in: KeyError"),
        (lambda text: text if text != "Pay" else "", "of pay is empty"),
        (lambda text: cast("Any", None), "of apology can't be filled in: AttributeError"),
    ],
)
def test_a_translation_that_would_fail_before_a_user_fails_at_once(
    translate: Callable[[str], str], what: str
) -> None:
    with pytest.raises(ConfigError, match=what):
        Texts.translated(translate)
