"""``python -m triobot`` is the command ``triobot``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Like the command's script, search no library in the working directory, which may have an attrs.py.
    # Not `Path.cwd`: pathlib's own imports would be searched there.
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # noqa: PTH109
        del sys.path[0]
    from .cli import main

    main()
