"""Native forms: from a class to the fields that are shown, and back to a value of it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import attrs
import pytest
from doubles import FakeOutbox
from town import CHAT, TEXTS, open_town

from triobot.conversations.chat import Chat
from triobot.conversations.questions.forms import Field, FormOf, Unreadable
from triobot.conversations.routes.router import Router
from triobot.errors import ConfigError
from triobot.seams.values import formerly, recorded
from triobot.wire.forms import Checkbox, Form, Inbuilt, Radio, Select, Submit, TextArea, TextField


class Size(Enum):
    """A list to choose from."""

    SMALL = 1
    LARGE = 2


def _positive(instance: object, attribute: object, value: int) -> None:
    if value < 1:
        raise ValueError("At least one, please.")


@attrs.frozen
class Order:
    """Every kind of field."""

    name: str
    count: int = attrs.field(validator=_positive)
    gift: bool
    size: Size
    crust: Literal["thin", "thick"]
    note: Annotated[str, Field("Anything else?", kind="textarea")] = ""
    pay: Annotated[str, Field("Payment", kind="radio", options={"c": "Cash", "a": "App"})] = "c"
    code: Annotated[str, Field(kind="qrcode")] = ""
    box: Annotated[str, Field(kind="barcode")] = ""
    _secret: str = attrs.field(default="none")
    total: int = attrs.field(default=0, init=False)


FILLED = {"name": "Ali", "count": "۲", "gift": "true", "size": "LARGE", "crust": "thin", "pay": "a"}


async def test_a_form_shows_each_kind_of_field_and_comes_back_as_a_value() -> None:
    """Defaults stay where nothing was filled in."""
    bot = Router()
    got: list[Order] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.fill(Order, "Your order", labels={"name": "Who?"}))

    async with open_town(bot) as town:
        await town.says("hi")
        assert town.newest().content == "Your order"
        assert town.newest().form == Form(
            (
                TextField("name", "Who?"),
                TextField("count", "Count"),
                Checkbox("gift", "Gift"),
                Select("size", "Size", (("SMALL", "SMALL"), ("LARGE", "LARGE"))),
                Select("crust", "Crust", (("thin", "thin"), ("thick", "thick"))),
                TextArea("note", "Anything else?"),
                Radio("pay", "Payment", (("c", "Cash"), ("a", "App"))),
                Inbuilt("code", "Code", "qrcode"),
                Inbuilt("box", "Box", "barcode"),
                TextField("_secret", "Secret"),
                Submit(TEXTS.submit),
            )
        )
        await town.submits(FILLED)
        assert town.left_over() == {}
    assert got == [Order("Ali", 2, True, Size.LARGE, "thin", pay="a")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "  "}, TEXTS.required.format(label="Name")),
        ({"count": "many"}, TEXTS.not_a_number.format(label="Count")),
        ({"count": "1_0"}, TEXTS.not_a_number.format(label="Count")),
        ({"count": "0"}, "At least one, please."),
        ({"size": "HUGE"}, TEXTS.not_an_option.format(label="Size")),
        ({"crust": "none"}, TEXTS.not_an_option.format(label="Crust")),
        ({"pay": "x"}, TEXTS.not_an_option.format(label="Payment")),
    ],
)
async def test_what_is_wrong_is_told_above_another_form(wrong: dict[str, str], said: str) -> None:
    """The validators of the class, too; and what was typed needn't be typed once more."""
    bot = Router()
    got: list[Order] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.fill(Order))

    async with open_town(bot) as town:
        await town.says("hi")
        await town.submits(FILLED | wrong)
        assert town.sent() == [TEXTS.want_form, said]
        again = town.newest().form
        assert again is not None
        typed = {field.name: field.value for field in again.fields if isinstance(field, TextField | TextArea)}
        assert typed == {name: (FILLED | wrong).get(name) or None for name in typed}
        await town.submits(FILLED)
    assert len(got) == 1


async def test_an_old_form_answers_nothing() -> None:
    """Neither the one that was refused, nor another question's; a double click is no new word."""
    bot = Router()
    got: list[str] = []

    @attrs.frozen
    class Name:
        name: str

    @bot.conversation
    async def ask(chat: Chat) -> None:
        for _ in range(2):
            got.append((await chat.fill(Name)).name)

    async with open_town(bot) as town:
        await town.says("hi")
        refused = town.messages()[-1][0]
        await town.submits({"name": " "})
        shown = town.messages()[-1][0]
        await town.submits({"name": "again"}, on=refused)
        assert got == []
        await town.submits({"name": "Ali"}, on=shown)
        assert got == ["Ali"]
        await town.submits({"name": "Ali"}, on=shown)  # a double click
        await town.submits({"name": "Sara"}, on=refused)
        assert got == ["Ali"]
        assert TEXTS.expired not in town.sent()
        await town.submits({"name": "Nobody"}, on=1)
        assert town.sent()[-1] == TEXTS.expired
        assert got == ["Ali"]
        await town.submits({"name": "Sara"})
    assert got == ["Ali", "Sara"]


async def test_a_form_can_be_filled_before_its_id_is_known() -> None:
    """The answer overtakes the platform's."""
    bot = Router()
    got: list[Order] = []

    @bot.conversation
    async def order(chat: Chat) -> None:
        got.append(await chat.fill(Order))

    outbox = FakeOutbox()
    held = outbox.hold()
    async with open_town(bot, outbox=outbox) as town:
        await town.says("hi")
        await town.submits({"other": "form"}, on=1001)
        await town.submits(FILLED, on=1001)
        assert got == []
        held.release()
        await town.says("late")
    assert len(got) == 1


async def test_prefilled_values_stand_in_the_text_fields() -> None:
    """Nothing else can hold them."""
    bot = Router()

    @bot.conversation
    async def order(chat: Chat) -> None:
        await chat.fill(Order, prefill=Order("Ali", 2, True, Size.SMALL, "thin", note="soon"))

    async with open_town(bot) as town:
        await town.says("hi")
        form = town.newest().form
        assert form is not None
        assert TextField("name", "Name", "Ali") in form.fields
        assert TextField("count", "Count", "2") in form.fields
        assert TextArea("note", "Anything else?", "soon") in form.fields
        await town.says("what?")
        assert town.sent() == [TEXTS.want_form, TEXTS.want_form]
        assert town.operations(CHAT)[-1].form is None


def test_the_reason_of_an_attrs_validator_is_words() -> None:
    """Its error holds more than its words."""

    @attrs.frozen
    class Age:
        age: int = attrs.field(validator=attrs.validators.in_((1, 2)))

    with pytest.raises(Unreadable, match=r"^'age' must be in \(1, 2\) \(got 3\)$"):
        FormOf(Age, TEXTS).read({"age": "3"})


def test_a_private_attribute_is_built_by_its_argument() -> None:
    """As its class wants it."""
    value = FormOf(Order, TEXTS).read(FILLED | {"_secret": "x"})
    assert value._secret == "x"


@attrs.frozen
class Tupled:
    """No field for this."""

    names: tuple[str, ...]


@attrs.frozen
class Mismatched:
    """A checkbox can't hold text."""

    name: Annotated[str, Field(kind="checkbox")]


@pytest.mark.parametrize("cls", [Tupled, Mismatched, int])
def test_a_class_that_makes_no_form_is_refused(cls: type) -> None:
    """With its name and attribute."""
    with pytest.raises(ConfigError):
        FormOf(cls, TEXTS)


def test_a_field_of_no_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="textarea"):
        Field("Day", kind="date")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_form_that_was_shown_before_its_class_changed() -> None:
    """What was typed into a field that has another name now is that field's."""

    @recorded(gone=("floor",))
    @attrs.frozen
    class Place:
        street: str = attrs.field(default="", metadata=formerly("road"))
        number: int = attrs.field(init=False, default=0)

    shape = FormOf(Place, TEXTS)

    assert shape.fits({"road", "floor"})
    assert shape.fits({"street"})
    assert not shape.fits({"number"})
    assert not shape.fits({"other"})
    assert shape.read({"road": "Valiasr", "floor": "7"}) == Place("Valiasr")
    assert shape.read({"street": "Valiasr"}) == Place("Valiasr")
