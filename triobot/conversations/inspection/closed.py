"""Stand-ins for resources, because a dry run opens no resources."""

from __future__ import annotations

from typing import Any, NoReturn, final

from ...errors import LocalProtocolError
from ...seams.resources import Opened, Resource


@final
class Closed:
    """Stand-in for a closed resource, or for one of the resource's methods.

    Code may pass the stand-in to a step. Every other use raises LocalProtocolError.
    """

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

    def __repr__(self) -> str:
        return f"<{self._name}, closed>"

    __call__ = __bool__ = __iter__ = __len__ = __getitem__ = __contains__ = _refuse
    __enter__ = __exit__ = __aenter__ = __aexit__ = __await__ = _refuse


@final
class _AllClosed(dict["Resource[object]", object]):
    def __missing__(self, resource: Resource[object]) -> object:
        return Closed(resource.name)

    def __contains__(self, key: object) -> bool:
        return True


def closed_resources() -> Opened:
    """Return a mapping that contains a stand-in for every resource."""
    return _AllClosed()
