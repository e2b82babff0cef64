"""Native forms (interface section 2.11): fields of seven types."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, final

import attrs

from ..base.frozen import guarded
from ..errors import LocalProtocolError
from .rules import check_text, check_tuple, is_one_of, is_optional_text, is_text

Option: TypeAlias = tuple[str, str]
"""An option's value and visible label."""


def _options(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    seen: set[str] = set()
    for option in check_tuple("options", value):
        pair = check_tuple("options", option)
        if len(pair) != 2:
            raise LocalProtocolError("options", "must hold pairs (value, label)")
        check_text("options", pair[1])
        if (key := check_text("options", pair[0])) in seen:
            raise LocalProtocolError("options", "must not repeat a value")
        seen.add(key)
    if not seen:
        raise LocalProtocolError("options", "must hold at least one option")


@final
@guarded
class TextField:
    """One line of text; `value` is the initial text (gap 12)."""

    name: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())
    value: str | None = attrs.field(default=None, validator=is_optional_text)


@final
@guarded
class TextArea:
    """Several lines of text; `value` is the initial text (gap 12)."""

    name: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())
    value: str | None = attrs.field(default=None, validator=is_optional_text)


@final
@guarded
class Radio:
    """A choice of one option, with all options visible."""

    name: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())
    options: tuple[Option, ...] = attrs.field(validator=_options)


@final
@guarded
class Select:
    """A choice of one option from a drop-down list."""

    name: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())
    options: tuple[Option, ...] = attrs.field(validator=_options)


@final
@guarded
class Checkbox:
    """Yes or no; a ticked box returns ``true``."""

    name: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())


@final
@guarded
class Inbuilt:
    """The app's barcode or QR code reader."""

    name: str = attrs.field(validator=is_text())
    label: str = attrs.field(validator=is_text())
    reader: Literal["barcode", "qrcode"] = attrs.field(validator=is_one_of("barcode", "qrcode"))


@final
@guarded
class Submit:
    """The button that sends the form; has no name."""

    label: str = attrs.field(validator=is_text())


NamedField: TypeAlias = TextField | TextArea | Radio | Select | Checkbox | Inbuilt
FormField: TypeAlias = NamedField | Submit
FIELD_CLASSES: Final = (TextField, TextArea, Radio, Select, Checkbox, Inbuilt, Submit)


def _is_form(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    names: set[str] = set()
    submits = 0
    for field in check_tuple("form", value):
        if not isinstance(field, FIELD_CLASSES):
            raise LocalProtocolError("form", "holds something that is no field")
        if isinstance(field, Submit):
            submits += 1
        elif field.name in names:
            raise LocalProtocolError("form", f"two fields have the name {field.name!r}")
        else:
            names.add(field.name)
    if not names:
        raise LocalProtocolError("form", "has no field")
    if submits != 1:
        raise LocalProtocolError("form", "needs exactly one submit button")


@final
@guarded
class Form:
    """A form under a message: fields with unique names, and one submit button at any position."""

    fields: tuple[FormField, ...] = attrs.field(validator=_is_form)
