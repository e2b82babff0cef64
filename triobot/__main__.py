"""``python -m triobot`` runs the command ``triobot``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Search the working directory last for libraries: a bot's folder may contain an attrs.py, for example.
    # `load_bot` puts a bot's folder first. Don't use `Path.cwd` here: pathlib's own imports would be searched
    # in the working directory.
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():  # noqa: PTH109
        sys.path.append(sys.path.pop(0))
    from .cli import main

    main()
