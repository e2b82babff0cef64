"""An event that isn't stored yet, as filters see it: it has no number by which they would know it again."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Final, final

HAS_NO_NUMBER: Final = -1


@final
class NoMemory(MutableMapping[object, object]):
    """What filters that count remember: nothing, and they are told so."""

    def __getitem__(self, key: object) -> object:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __delitem__(self, key: object) -> None:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __iter__(self) -> Iterator[object]:
        raise TypeError("nothing is remembered of an event that isn't stored yet")

    def __len__(self) -> int:
        raise TypeError("nothing is remembered of an event that isn't stored yet")
