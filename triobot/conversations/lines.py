"""The author's line: where in the bot's own code something happened."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Final

_OURS: Final = str(Path(__file__).parent.parent)


def calling_line() -> str:
    """``file:line`` of the nearest caller outside triobot."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack() reads every source file
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def failing_line(traceback: TracebackType | None) -> str:
    """``file:line`` of the innermost frame outside triobot and the libraries under it, or ``?``."""
    found = "?"
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if not filename.startswith(_OURS) and "site-packages" not in filename:
            found = f"{filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
