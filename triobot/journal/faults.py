"""Errors as records: what a conversation catches live is what it will catch on replay.

An error's class, arguments and attributes are kept when they can be; its cause, traceback and notes are not.
What can't be kept becomes a `StepError`, **live as well**: an `except KeyError` that works today must work in
tomorrow's replay.
"""

from __future__ import annotations

import builtins
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias, TypeVar, cast

import trio

from .. import errors
from ..errors import StepError, TriobotError, UnreadableRecordError, UnrecordableError
from ..values import decode_value, encode_value
from .records import PLAIN, Failed, Value, recordable

E = TypeVar("E", bound=BaseException)

Raises: TypeAlias = Sequence[type[Exception]]

_LONG: Final = 100_000
"""Characters of a text that is looked at before it is recorded, and of an error's that was too long."""

_TRIO: Final[dict[str, type[Exception]]] = {
    cls.__name__: cls
    for cls in (
        trio.TooSlowError,
        trio.BusyResourceError,
        trio.ClosedResourceError,
        trio.BrokenResourceError,
        trio.EndOfChannel,
        trio.WouldBlock,
    )
}


def record_value(value: object) -> Value | Failed:
    """What an operation returned, or why that can't be recorded."""
    if type(value) in PLAIN and (not isinstance(value, str) or len(value) < _LONG):
        return Value.of(value)
    try:
        return Value(recordable(value))
    except UnrecordableError as error:
        return record_error(error)


def record_error(error: Exception, raises: Raises = ()) -> Failed:
    """What an operation raised.

    Args:
        raises: the author's own classes that come back as themselves.
    """
    try:
        return Failed(recordable(_dump(error, tuple(raises))))
    except UnrecordableError:
        return Failed(encode_value(_dump(_as_step_error(error), ())))


def recorded_error(failed: Failed, raises: Raises = ()) -> Exception:
    """The error as the conversation gets it; a fresh one each time.

    Raises:
        UnreadableRecordError: its class is not known here.
    """
    return _load(decode_value(failed.text), tuple(raises))


def _as_step_error(error: Exception) -> StepError:
    if type(error) is StepError and len(error.text) < _LONG:
        return error
    kind, text = (error.kind, error.text) if type(error) is StepError else (type(error).__name__, str(error))
    return StepError(kind, text[:_LONG].encode(errors="replace").decode())


def _dump(error: Exception, raises: tuple[type[Exception], ...]) -> list[object]:
    if type(error) is ExceptionGroup:
        members = [_dump(one, raises) for one in error.exceptions]
        return ["group", error.message, members]
    cls = type(error)
    if isinstance(error, TriobotError) and _named(errors, cls.__name__) is cls:
        return ["triobot", cls.__name__, error.args]
    if cls.__module__ == "builtins":
        return _dump_known("builtin", error)
    if _TRIO.get(cls.__name__) is cls:
        return _dump_known("trio", error)
    if raises and isinstance(error, raises):
        # Made without its __init__, whose parameters need not be its args.
        return ["author", _full_name(cls), error.args, _attributes(error)]
    return _dump(_as_step_error(error), ())


def _dump_known(where: str, error: Exception) -> list[object]:
    try:
        encode_value(error.args)
    except UnrecordableError:
        return _dump(_as_step_error(error), ())
    return [where, type(error).__name__, error.args]


def _attributes(error: Exception) -> dict[str, object]:
    return {name: value for name, value in vars(error).items() if name != "__notes__"}


def _load(node: object, raises: tuple[type[Exception], ...]) -> Exception:
    match cast("list[object]", node):
        case ["group", str() as message, members]:
            return ExceptionGroup(message, [_load(one, raises) for one in cast("list[object]", members)])
        case ["triobot", str() as name, args]:
            return _made(_named(errors, name), name, args)
        case ["builtin", str() as name, args]:
            return _made(_named(builtins, name), name, args)
        case ["trio", str() as name, args]:
            return _made(_TRIO.get(name), name, args)
        case ["author", str() as name, args, attributes]:
            cls = next((cls for cls in _with_children(raises) if _full_name(cls) == name), None)
            if cls is None:
                return StepError(name.rpartition(".")[2], "its class is no longer among raises=")
            error = cls.__new__(cls, *cast("tuple[object, ...]", args))
            vars(error).update(cast("dict[str, object]", attributes))
            return error
        case _:
            raise UnreadableRecordError("this is no recorded error")


def _made(cls: object, name: str, args: object) -> Exception:
    if not (isinstance(cls, type) and issubclass(cls, Exception)):
        raise UnreadableRecordError(f"this program knows no error {name!r}")
    return cls(*cast("tuple[object, ...]", args))


def _named(module: object, name: str) -> object:
    return getattr(module, name, None)


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _with_children(classes: Raises) -> list[type[Exception]]:
    found: list[type[Exception]] = []
    for cls in classes:
        found += [cls, *_with_children(cls.__subclasses__())]
    return found


def leaves(failure: BaseExceptionGroup[E]) -> Generator[E]:
    """The errors of a group, and of the groups in it."""
    for error in failure.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield error
