"""Native forms from attrs classes: make a form from a class's fields, and a value from a submission.

An attribute's type decides the field's kind. `str` makes a line of text, `int` a line that must be a number,
`bool` a checkbox, and `Literal` or an `Enum` a list of options.
``Annotated[str, Field("Label", kind="textarea")]`` overrides the kind and the label. A field with a default
may be left empty.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    cast,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

from ...base.fields import ValueField, fields_of, has_fields
from ...base.frozen import guarded
from ...errors import ConfigError
from ...seams.values import known_fields
from ...wire.forms import (
    Checkbox,
    Form,
    Inbuilt,
    NamedField,
    Option,
    Radio,
    Select,
    Submit,
    TextArea,
    TextField,
)
from ..routes.typed import UNFIT, read_number
from ..running.lines import own_words
from ..texts import Texts

T = TypeVar("T")

FieldKind: TypeAlias = Literal["text", "textarea", "radio", "select", "checkbox", "barcode", "qrcode"]

_FIELDS: Final = "it has str, int, bool, Literal and Enum, and a default for what may be left empty"


@final
@guarded
class Field:
    """Custom appearance of a form's field. By default, the appearance follows from the field's type.

    Attributes:
        label: text beside the field; by default, the attribute's name, with spaces and a capital letter.
        kind: kind of the field; by default, the kind follows from the field's type.
        options: labels of the options, by their values; by default, the values themselves.
    """

    label: str | None = None
    kind: FieldKind | None = None
    options: Mapping[str, str] | None = None

    def __attrs_post_init__(self) -> None:
        if self.kind not in (None, *get_args(FieldKind)):
            raise ConfigError(f"Field(kind=) is one of {', '.join(get_args(FieldKind))}, not {self.kind!r}")


class Unreadable(Exception):
    """Error of a submission with unfit values. The error's text is for the user."""


@final
@guarded
class _Slot:
    """Form field for one attribute of the class."""

    name: str
    argument: str
    label: str
    kind: FieldKind
    number: bool
    options: tuple[Option, ...]
    values: Mapping[str, object]
    optional: bool


@final
class FormOf(Generic[T]):
    """Form of an attrs class or a dataclass."""

    def __init__(self, cls: type[T], texts: Texts, labels: Mapping[str, str] | None = None) -> None:
        self._build: Callable[..., T] = cls
        if not has_fields(cls):
            name = getattr(cls, "__qualname__", type(cls).__qualname__)
            raise ConfigError(
                f"fill() takes an attrs class, and {name} is none; decorate it with @attrs.frozen, or "
                "with @dataclass(frozen=True)"
            )
        self._texts = texts
        hints = get_type_hints(cls, include_extras=True)
        fields = [attribute for attribute in fields_of(cls) if attribute.init]
        check_labels(labels, [attribute.name for attribute in fields], cls.__qualname__)
        self._slots = [
            _slot(cls, attribute, hints[attribute.name], (labels or {}).get(attribute.name))
            for attribute in fields
        ]
        self._cls = cls
        # The submitted form may be older than the class's last change.
        self._known = known_fields(cls)

    def check(self, prefill: object) -> None:
        """Check the value that prefills the form.

        Raises:
            ConfigError: `prefill` is not an instance of the class.
        """
        if prefill is not None and not isinstance(prefill, self._cls):
            raise ConfigError(
                f"fill(prefill=) takes a {self._cls.__qualname__}, as it is filled in at first, "
                f"not a {type(prefill).__name__}"
            )

    def form(self, prefill: T | None = None, typed: Mapping[str, str] | None = None) -> Form:
        """Return the wire's form, with text fields filled from `typed` values, or else from `prefill`."""
        fields = [
            _field(slot, getattr(prefill, slot.name, None) if typed is None else typed.get(slot.name))
            for slot in self._slots
        ]
        return Form((*fields, Submit(self._texts.submit)))

    def fits(self, names: set[str]) -> bool:
        """Whether a submission with these field names may come from this form."""
        mine = {slot.name for slot in self._slots}
        return all(name in self._known and self._known[name] in {None, *mine} for name in names)

    def read(self, values: Mapping[str, str]) -> T:
        """Build an instance of the class from the submitted values.

        Raises:
            Unreadable: a value doesn't fit; the error's text tells the user why.
        """
        given: dict[str, object] = {}
        values = {now: text for name, text in values.items() if (now := self._known.get(name)) is not None}
        for slot in self._slots:
            text = values.get(slot.name, "").strip()
            if slot.kind == "checkbox":
                given[slot.argument] = text.casefold() in ("true", "1", "on", "yes")
            elif text:
                given[slot.argument] = self._value(slot, text)
            elif not slot.optional:
                raise Unreadable(self._texts.required.format(label=slot.label))
        try:
            return self._build(**given)
        except (*UNFIT, TypeError) as error:
            words = own_words(error, self._cls.__module__, "attr")
            raise Unreadable(words or self._texts.want_form) from None

    def _value(self, slot: _Slot, text: str) -> object:
        if slot.values and text not in slot.values:
            raise Unreadable(self._texts.not_an_option.format(label=slot.label))
        if not slot.number:
            return slot.values.get(text, text)
        try:
            return read_number(int, text)
        except ValueError:
            raise Unreadable(self._texts.not_a_number.format(label=slot.label)) from None


def _slot(cls: type, attribute: ValueField, hint: Any, label: str | None) -> _Slot:
    extra = Field()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        extra = next((item for item in rest if isinstance(item, Field)), extra)
    values: Mapping[str, object] = {}
    if get_origin(hint) is Literal:
        values = {str(value): value for value in get_args(hint)}
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        values = {member.name: member for member in hint}
    elif hint is str:
        values = {value: value for value in extra.options or ()}
    elif hint not in (int, bool):
        raise ConfigError(f"{cls.__name__}.{attribute.name}: a form has no field for {hint!r}; {_FIELDS}")
    kind: FieldKind = extra.kind or ("checkbox" if hint is bool else "select" if values else "text")
    if (kind in ("radio", "select")) != bool(values) or (kind == "checkbox") != (hint is bool):
        raise ConfigError(f"{cls.__name__}.{attribute.name}: a {kind} can't hold {hint!r}")
    labels = extra.options or {}
    return _Slot(
        attribute.name,
        attribute.argument,
        label or extra.label or attribute.name.replace("_", " ").strip().capitalize(),
        kind,
        hint is int,
        tuple((value, labels.get(value, value)) for value in values),
        values,
        not attribute.required,
    )


def _field(slot: _Slot, prefill: object) -> NamedField:
    shown = str(prefill) if isinstance(prefill, str | int) and str(prefill) else None
    match slot.kind:
        case "text":
            return TextField(slot.name, slot.label, shown)
        case "textarea":
            return TextArea(slot.name, slot.label, shown)
        case "radio":
            return Radio(slot.name, slot.label, slot.options)
        case "select":
            return Select(slot.name, slot.label, slot.options)
        case "checkbox":
            return Checkbox(slot.name, slot.label)
        case "barcode" | "qrcode":
            return Inbuilt(slot.name, slot.label, slot.kind)


def check_labels(labels: object, names: Sequence[str], whose: str) -> None:
    """Check that labels are for fields of the form.

    Raises:
        ConfigError: `labels` is not a mapping from names of fields.
    """
    if labels is None:
        return
    if not isinstance(labels, Mapping):
        raise ConfigError(f"fill(labels=) takes labels by the names of the fields of {whose}")
    for name in cast("Mapping[object, object]", labels):
        if name not in names:
            raise ConfigError(
                f"fill(labels=) names {name!r}, and {whose} has no such field; it has {', '.join(names)}"
            )
