"""A Trio-native runtime for messenger bots: one coroutine per chat.

This package exports the API for bot authors. `triobot.filters` has the filters for routes and waits;
`triobot.client` is the platform's HTTP client alone; `triobot.wire` has the platform's interface as value
classes.

Names are imported on first use. So `triobot --help`, or an import of one subpackage, doesn't import the rest.
"""

from __future__ import annotations

import typing as _typing

from .base.version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from .runtime.surface import *  # noqa: F403
else:

    def _load() -> dict[str, object]:
        import triobot.runtime.surface  # `from . import` would call `__getattr__`, and so `_load`, again

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
