"""``python -m triobot`` is the command ``triobot``."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
