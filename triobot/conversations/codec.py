"""Values in records: what `triobot.values` takes, and the errors of `triobot.errors`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast, final

from .. import errors
from ..engine import Codec
from ..engine.records import Node
from ..errors import TriobotError
from ..journals import LARGEST_RECORD
from ..values import encode_value, node_of_value, value_of_node


@final
class ChatCodec(Codec):
    """The codec of conversations."""

    def dump(self, value: object) -> Node:
        """Return the node of a value; see `Codec.dump`."""
        return node_of_value(value)

    def load(self, node: Node) -> object:
        """Return a fresh value of what `dump` made; see `Codec.load`."""
        return value_of_node(node)


_ERRORS: Final = {
    name: cast("type[Exception]", cls)
    for name, cls in vars(errors).items()
    if isinstance(cls, type) and issubclass(cls, TriobotError)
}

_ROOM: Final = LARGEST_RECORD - 64 * 1024
"""What is left for a value, beside whatever else is in its record."""

CODEC: Final = ChatCodec(_ERRORS, largest=_ROOM)


def recordable(value: object) -> str:
    """Return a value's text, which a record can hold, too.

    Raises:
        UnrecordableError: it is of a type that can't be written down, or takes too much room.
    """
    text = encode_value(value)
    if len(text) > _ROOM:
        CODEC.node_of(value)  # refuses it
    return text


def leaves(failure: BaseException) -> Iterator[Exception]:
    """Yield an error, or those of a group and of the groups in it."""
    if isinstance(failure, BaseExceptionGroup):
        for error in cast("BaseExceptionGroup[BaseException]", failure).exceptions:
            yield from leaves(error)
    elif isinstance(failure, Exception):
        yield failure
