"""A Trio-native runtime for messenger bots: one coroutine per chat.

This is the author's whole surface. `triobot.filters` says which events a route takes; `triobot.client` is the
platform's client alone; `triobot.wire` is its interface as values.

The names are loaded when one of them is used first: who asks the command for its help, or wants a part alone,
doesn't wait for all the rest.
"""

from __future__ import annotations

import typing as _typing

from .base.version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from .runtime.surface import *  # noqa: F403
else:

    def _load() -> dict[str, object]:
        import triobot.runtime.surface  # `from .` would ask for the attribute first, and so come here

        surface = {name: value for name, value in vars(triobot.runtime.surface).items() if name[0] != "_"}
        del surface["annotations"]
        globals().update(surface)
        return surface

    def __getattr__(name: str) -> object:
        from importlib import import_module, util

        if name == "__all__":
            return sorted(_load())
        if not name.startswith("__"):
            if util.find_spec(f"{__name__}.{name}") is not None:
                return import_module(f"{__name__}.{name}")
            if name in (names := _load()):
                return names[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(_load())
