"""Which questions got their answer not long ago: enough to know the second click of a double click."""

from __future__ import annotations

from typing import Final, final

ANSWERED: Final = 10_000
"""So many are remembered; older buttons are answered as expired."""


@final
class Answered:
    """The questions that were answered, newest last."""

    def __init__(self) -> None:
        self._questions: dict[str, None] = {}

    def __contains__(self, question: str) -> bool:
        return question in self._questions

    def answered(self, question: str, *, again: bool) -> None:
        """A question got its answer; with `again`, it gave it back."""
        self._questions.pop(question, None)
        if not again:
            self._questions[question] = None
            if len(self._questions) > ANSWERED:
                del self._questions[next(iter(self._questions))]
