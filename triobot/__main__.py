"""``python -m triobot`` is the command ``triobot``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Search libraries in the working directory last: it may have an attrs.py. `load_bot` puts a bot's folder
    # first. Not `Path.cwd`: pathlib's own imports would be searched there.
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # noqa: PTH109
        sys.path.append(sys.path.pop(0))
    from .cli import main

    main()
