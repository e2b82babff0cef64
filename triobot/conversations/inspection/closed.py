"""Stand-ins for resources, where none is open: they can be handed on, and nothing else."""

from __future__ import annotations

from typing import Any, NoReturn, final

from ...errors import LocalProtocolError
from ...resources import Opened, Resource


@final
class Closed:
    """Stands for a resource that isn't opened: its methods may be handed to a step, and nothing else."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Closed(f"{self._name}.{name}")

    def _refuse(self, *_: object) -> NoReturn:
        raise LocalProtocolError(
            self._name, "is a resource, which is not open when a journal is only looked at; use it in a step"
        )

    __call__ = __bool__ = __iter__ = __len__ = __getitem__ = __contains__ = _refuse
    __enter__ = __exit__ = __aenter__ = __aexit__ = __await__ = _refuse


class _AllClosed(dict["Resource[object]", object]):
    def __missing__(self, resource: Resource[object]) -> object:
        return Closed(resource.name)

    def __contains__(self, key: object) -> bool:
        return True


def closed_resources() -> Opened:
    """Every resource, and none of them open."""
    return _AllClosed()
