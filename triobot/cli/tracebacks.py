"""Tracebacks of the author's code, without the frames of triobot and of libraries."""

from __future__ import annotations

import traceback
from typing import Final, cast

from ..base.authors import contained, kind_of
from ..conversations.running.lines import is_authors

# Maximum number of characters of a shown variable.
_LONGEST: Final = 10_000


def authors_words(error: BaseException, *, variables: bool = False) -> str:
    """Format an exception like Python, with only the author's frames and a count of the other frames.

    *Sensitive*: the text, and even more the frames' variables, may contain users' texts.

    Args:
        variables: whether to show each frame's variables.
    """
    shown = traceback.TracebackException.from_exception(error)
    if variables:
        _add_variables(shown, error)
    left_out = _left_out(shown)
    words = "".join(shown.format()).rstrip("\n")
    return f"{words}\n(frames of triobot and of libraries left out: {left_out})" if left_out else words


def _add_variables(shown: traceback.TracebackException, error: BaseException) -> None:
    """Add the variables of the author's frames. The traceback module would fail if a ``__repr__`` fails."""
    for summary, (frame, _) in zip(shown.stack, traceback.walk_tb(error.__traceback__), strict=False):
        if is_authors(summary.filename):
            summary.locals = {name: _words_of(value) for name, value in frame.f_locals.items()}
    inner: list[tuple[traceback.TracebackException | None, BaseException | None]] = [
        (shown.__cause__, error.__cause__),
        (shown.__context__, error.__context__),
    ]
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        inner += zip(shown.exceptions or (), group.exceptions, strict=False)
    for part, of in inner:
        if part is not None and of is not None:
            _add_variables(part, of)


def _words_of(value: object) -> str:
    try:
        words = repr(value)
    except BaseException as error:
        return f"<{type(value).__name__}: its repr raised {kind_of(contained(error))}>"
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."


def _left_out(shown: traceback.TracebackException) -> int:
    """Remove all frames but the author's, also from the causes; return the number of removed frames."""
    own = [frame for frame in shown.stack if is_authors(frame.filename)]
    left_out = 0
    if own or is_authors(getattr(shown, "filename", None) or "<>"):  # a SyntaxError names the author's file
        left_out, shown.stack = len(shown.stack) - len(own), traceback.StackSummary.from_list(own)
    causes = [shown.__cause__, None if shown.__suppress_context__ else shown.__context__]
    return left_out + sum(_left_out(cause) for cause in (*causes, *(shown.exceptions or ())) if cause)
