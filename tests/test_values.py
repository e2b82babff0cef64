"""Values encoded as text: decoding gives equal values of the same types, and other values are refused."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import json
import os
import subprocess
import sys
import uuid
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, Flag, StrEnum, auto
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import examples
from tests.strategies import events
from triobot.conversations.codec import register_wire_values
from triobot.errors import ConfigError, UnreadableRecordError, UnrecordableError
from triobot.seams.values import (
    decode_value,
    encode_value,
    expect,
    forget_met,
    formerly,
    node_of_value,
    recorded,
    register,
)

T = TypeVar("T")


class Size(Enum):
    SMALL = 1
    LARGE = "large"


class Colour(StrEnum):
    RED = "red"


class Rights(Flag):
    READ = auto()
    WRITE = auto()


@attrs.frozen
class Order:
    size: Size
    count: int = 1
    _secret: str = ""
    twice: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "twice", self.count * 2)


@attrs.frozen
class Doubled:
    """Its converter doesn't give back what it is given back."""

    value: int = attrs.field(converter=lambda value: value * 2)


@attrs.frozen
class Box(Generic[T]):
    content: T


@dataclass(frozen=True)
class Visit:
    """A dataclass is as good as an attrs class."""

    day: dt.date
    people: int = 1
    notes: list[str] = field(default_factory=list)
    weekday: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weekday", self.day.weekday())


@dataclass(frozen=True, slots=True, kw_only=True)
class Slotted:
    count: int


@dataclass
class Changeable:
    count: int


@attrs.define
class Mutable:
    count: int


def types_of(value: object) -> object:
    """The types of a value, all the way down."""
    match value:
        case list() | tuple():
            return type(value), [types_of(item) for item in value]
        case dict():
            return dict, [(types_of(key), types_of(item)) for key, item in value.items()]
        case set() | frozenset():
            return type(value), sorted(str(types_of(item)) for item in value)
        case Enum():
            return type(value)
        case Visit() | Slotted():
            return type(value), [types_of(getattr(value, one.name)) for one in dataclasses.fields(value)]
        case _ if attrs.has(type(value)):
            return type(value), [types_of(getattr(value, one.name)) for one in attrs.fields(type(value))]
        case _:
            return type(value)


zones = st.sampled_from(
    [dt.UTC, dt.timezone(dt.timedelta(hours=3, minutes=30)), zoneinfo.ZoneInfo("Asia/Tehran")]
)
keys = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**52, max_value=2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=10)
    | st.binary(max_size=10)
    | st.dates()
    | st.times()
    | st.datetimes(timezones=zones)
    | st.timedeltas()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids()
    | st.sampled_from([Size.SMALL, Size.LARGE, Colour.RED, Rights.READ | Rights.WRITE, Path("a/b")])
    | st.builds(Order, st.sampled_from(Size), st.integers(0, 9), st.text(max_size=3))
    | st.builds(Doubled, st.integers())
    | st.builds(Slotted, count=st.integers())
)
values = st.recursive(
    keys | events(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.sets(keys, max_size=3)
        | st.frozensets(keys, max_size=3)
        | st.builds(Box[object], inner)
        | st.builds(Visit, st.dates(), st.integers(), st.lists(st.text(max_size=3), max_size=2))
    ),
    max_leaves=6,
)


@pytest.fixture(autouse=True, scope="module")
def wire_values() -> None:
    register_wire_values()


@settings(max_examples=examples(200), deadline=None)
@given(values)
def test_what_comes_back_is_what_went_in(value: object) -> None:
    text = encode_value(value)

    read = decode_value(text)

    assert read == value
    assert types_of(read) == types_of(value)
    assert encode_value(read) == text
    assert text.isascii() and "\0" not in text


@pytest.mark.slow
@given(values)
def test_a_node_is_what_the_text_says(value: object) -> None:
    """Whichever way it was made: what was recorded by the one is read by the other."""
    assert json.dumps(node_of_value(value)) == json.dumps(json.loads(encode_value(value))[1])


def test_each_reading_is_fresh() -> None:
    text = encode_value([[1]])
    first = decode_value(text)
    assert isinstance(first, list)
    first[0].append(2)

    assert decode_value(text) == [[1]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Box(({"a": object()},)), r"value\.content\[0\]\[0\] is a object"),
        (Mutable(1), "must be frozen"),
        (Changeable(1), r"must be frozen: @attrs\.frozen or @dataclass\(frozen=True\)"),
        ([float("nan")], r"value\[0\] is a float.*finite"),
        (Decimal("NaN"), "finite"),
        (dt.datetime(2026, 1, 1), "aware"),  # noqa: DTZ001
        (lambda: None, "function"),
        (Order, "builtins|type"),
        (ValueError("x"), "ValueError"),
        (type("Text", (str,), {})("x"), "Text"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_once(value: object, said: str) -> None:
    """With the type and the path inside the value, and without what it holds."""
    with pytest.raises(UnrecordableError, match=said):
        encode_value(value)


def test_a_value_without_end_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(UnrecordableError, match="deep"):
        encode_value(endless)


def test_the_text_is_in_the_record_and_nowhere_in_an_error() -> None:
    with pytest.raises(UnrecordableError) as caught:
        encode_value({"call me at +98912": object()})
    assert "+98912" not in repr(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[1]",
        "[2,null]",
        '{"v":1}',
        '[1,{"nobody":1}]',
        '[1,{"class":["nowhere.Order",{}]}]',
        '[1,{"class":["os.system",{"command":"true"}]}]',
        '[1,{"class":[["a"],{}]}]',
        '[1,{"class":["triobot.Sent",["chat_id","id"]]}]',
        '[1,{"class":["triobot.Sent",null]}]',
        '[1,{"int":"x"}]',
        '[1,{"decimal":"x"}]',
        '[1,{"bytes":"?"}]',
        '[1,{"set":[[]]}]',
        '[1,{"a":1,"b":2}]',
        '[1,{"datetime":["2026-01-01T00:00:00",0,"Nowhere/At all"]}]',
        "[1," + "[" * 50_000 + "]" * 50_000 + "]",
    ],
)
def test_what_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(UnreadableRecordError):
        decode_value(text)


def test_a_class_that_changed_takes_old_records() -> None:
    """A gained field gets its default, one that is gone is left out, and a new name reads old records."""
    record = json.dumps([1, {"class": ["old.shop.Parcel", {"number": 7, "colour": "red"}]}])

    @recorded(gone=("colour",))
    @attrs.frozen
    class Parcel:
        number: int
        days: int = 3

    register(Parcel, name="shop.Parcel", aliases=["old.shop.Parcel"])

    assert decode_value(record) == Parcel(7)
    assert "shop.Parcel" in encode_value(Parcel(7)).replace("old.", "")

    @attrs.frozen
    class Strict:
        number: int
        days: int

    register(Strict, name="old.Strict")
    with pytest.raises(UnreadableRecordError, match="default"):
        decode_value(json.dumps([1, {"class": ["old.Strict", {"number": 7}]}]))


def changed(fields: dict[str, Any], **stored: object) -> Callable[..., Any]:
    """Read what is stored of a class that has these fields now; each call makes a class of its own."""

    def read(**more: Any) -> object:
        cls = attrs.make_class("Changed", dict(fields), frozen=True)
        recorded(name=(name := f"changed.{next(NUMBERS)}"), **more)(cls)
        return decode_value(json.dumps([1, {"class": [name, stored]}]))

    return read


NUMBERS = itertools.count()


def test_a_lost_field_is_never_lost_in_silence() -> None:
    """Not when others are gained, either; it says which, and what to do, and not what it held."""
    for fields in ({"number": attrs.field()}, {"number": attrs.field(), "days": attrs.field(default=3)}):
        with pytest.raises(UnreadableRecordError) as caught:
            changed(fields, number=7, colour="secret")()
        said = str(caught.value)
        assert "has no field 'colour'" in said
        assert "formerly('colour')" in said
        assert "gone=('colour',)" in said
        assert "secret" not in said


def test_a_field_that_was_renamed() -> None:
    """It has what it had, whatever the class gained or lost besides; a converter doesn't see it again."""
    street: Any = attrs.field(metadata=formerly("road", "way"), converter=lambda text: f"<{text}>")
    for old in ("road", "way", "street"):
        read = changed({"number": attrs.field(), "street": street}, number=7, **{old: "Valiasr"})
        assert attrs.asdict(read()) == {"number": 7, "street": "Valiasr"}
    more = {"street": street, "days": attrs.field(default=3)}
    made = changed(more, road="Valiasr", colour="red")(gone=("colour",))
    assert attrs.asdict(made) == {"street": "Valiasr", "days": 3}
    with pytest.raises(UnreadableRecordError, match="two fields"):
        changed({"street": street}, road="a", way="b")()


def test_a_field_that_no_argument_sets_stays_when_others_are_gained() -> None:
    fields = {
        "number": attrs.field(),
        "at": attrs.field(init=False, default=0),
        "days": attrs.field(default=3),
    }
    made = changed(fields, number=7, at=41)()
    assert attrs.asdict(made) == {"number": 7, "at": 41, "days": 3}


def test_a_base_says_what_is_gone_for_its_children() -> None:
    @recorded(gone=("colour",))
    @attrs.frozen
    class Base:
        number: int

    @attrs.frozen
    class Child(Base):
        days: int

    register(Child, name="gone.Child")
    record = json.dumps([1, {"class": ["gone.Child", {"number": 7, "days": 2, "colour": "red"}]}])

    assert decode_value(record) == Child(7, 2)


def test_what_makes_no_sense_is_refused_where_it_is_declared() -> None:
    @attrs.frozen
    class Parcel:
        number: int

    mistakes: list[Callable[[], object]] = [
        lambda: recorded(gone=("number",))(Parcel),
        lambda: recorded(gone=("SMALL",))(Size),
        lambda: recorded(gone="number")(Parcel),
        lambda: recorded(formerly="old.Parcel")(Parcel),
        lambda: recorded(formerly=(7,))(Parcel),  # type: ignore[arg-type]
        lambda: formerly(),
        lambda: formerly(""),
    ]
    for mistake in mistakes:
        with pytest.raises(ConfigError):
            mistake()


def test_two_classes_cannot_have_one_name() -> None:
    register(Size, aliases=["a.name"])
    with pytest.raises(ConfigError, match=r"a\.name"):
        register(Colour, name="a.name")
    with pytest.raises(ConfigError, match="neither"):
        register(int)


def test_a_class_that_is_defined_once_more_takes_the_place_of_the_first() -> None:
    def defined() -> type:
        @attrs.frozen
        class Local:
            number: int

        return Local

    first, second = defined(), defined()
    text = encode_value(first(1))
    encode_value(second(1))

    assert decode_value(text) == second(1)


FRESH = """
import attrs
from enum import Enum
from typing import Annotated
from triobot.errors import UnreadableRecordError
from triobot.seams.values import decode_value, encode_value, expect
class Size(Enum):
    SMALL = 1
@attrs.frozen
class Inner:
    sizes: "tuple[Size, ...]"
@attrs.frozen
class Outer:
    inner: Inner | None
@attrs.frozen
class Other:
    pass
import sys
if len(sys.argv) == 1:
    print(encode_value(Outer(Inner((Size.SMALL,)))))
else:
    text = sys.argv[1]
    if sys.argv[2] == "named":
        main = sys.modules.pop("__main__")  # there is nowhere to look
        try:
            decode_value(text)
        except UnreadableRecordError:
            pass
        else:
            raise SystemExit("it was known before anybody named it")
        sys.modules["__main__"] = main
        expect(Annotated[Outer, "a mark"] | Other)
    assert repr(decode_value(text)) == "Outer(inner=Inner(sizes=(<Size.SMALL: 1>,)))"
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["named", "defined"])
def test_another_process_reads_what_it_expects(tmp_path: Path, how: str) -> None:
    """A class is found through what names it, or where it is defined, also under ``__main__``."""
    script = tmp_path / "fresh.py"
    script.write_text(FRESH)

    def run(*arguments: str) -> str:
        command = [sys.executable, str(script), *arguments]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        return done.stdout.strip()

    text = run()
    assert "fresh.Outer" in text
    run(text, how)


def test_a_new_process_forgets_what_it_has_only_met() -> None:
    """What is defined at the top of a module is found again; what a function defines is not."""

    @attrs.frozen
    class Local:
        number: int

    top, local = encode_value(Order(Size.SMALL, 3)), encode_value(Local(3))
    assert decode_value(local) == Local(3)
    forget_met()

    assert decode_value(top) == Order(Size.SMALL, 3)
    with pytest.raises(UnreadableRecordError, match="at the top of a module"):
        decode_value(local)


def test_a_record_names_classes_only() -> None:
    """Nothing is imported, and no other thing of a module is taken for a class."""
    for name in ("os.path.Nothing", "os.environ", "json", "colorsys.Foo", "attrs.Factory"):
        with pytest.raises(UnreadableRecordError):
            decode_value(f'[1,{{"class":["{name}",{{}}]}}]')


def test_a_type_that_is_no_class_is_no_harm() -> None:
    expect(Annotated[int, "x"] | None)
    expect("a forward reference")
    with pytest.raises(UnreadableRecordError):
        decode_value('[1,{"class":["nowhere.At",{}]}]')


def test_a_recorded_value_stays_readable() -> None:
    """Format 1, as it is on disks: never change what this reads."""
    register(Order, name="corpus.Order")
    register(Size, name="corpus.Size")
    text = (
        '[1,{"dict":[["a",5,{"uuid":"00000000000000000000000000000001"}],[{"tuple":[true,null,1.5]},'
        '{"class":["corpus.Order",{"size":{"enum":["corpus.Size","LARGE"]},"count":2,"_secret":"","twice":4}]},'
        '{"datetime":["2026-01-01T00:00:00+00:00",0,null]}]]}]'
    )
    value = {
        "a": (True, None, 1.5),
        5: Order(Size.LARGE, 2),
        uuid.UUID(int=1): dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    }

    assert decode_value(text) == value
    assert encode_value(value) == text


def test_of_a_class_that_is_defined_once_more_the_newer_one_is_meant() -> None:
    """Also where both are known only by what is declared to hold them, as after a reload."""

    def define() -> type:
        @attrs.frozen
        class Again:
            number: int

        return Again

    older, newer = define(), define()
    expect(dict[str, older])
    expect(dict[str, newer])
    text = encode_value({"a": newer(1)})
    forget_met()
    assert decode_value(text) == {"a": newer(1)}
