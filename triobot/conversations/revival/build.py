"""Which code this program runs: what died with it is tried again only with other code."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path


@cache
def current_build() -> str:
    """Return a name that changes with every file of code that is loaded, be it the bot's or a library's."""
    digest = hashlib.blake2b(sys.version.encode(), digest_size=6)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for file in sorted(file for file in files if isinstance(file, str)):
        try:
            found = Path(file).stat()
        except OSError:
            continue
        digest.update(f"{file}:{found.st_size}:{found.st_mtime_ns}".encode("utf-8", "replace"))
    return f"build {digest.hexdigest()}"
