"""Which questions got their answer a moment ago: enough to know the second click of a double click."""

from __future__ import annotations

from typing import Final, final

ANSWERED: Final = 10_000
"""So many are remembered; older buttons are answered as expired."""
DOUBLE_CLICK: Final = 3_000
"""A click that comes so many milliseconds after the one that answered was meant as the same."""


@final
class Answered:
    """The questions that were answered, newest last, each with the arrival of its answer."""

    def __init__(self) -> None:
        self._questions: dict[str, int] = {}

    def lately(self, question: str, at: int) -> bool:
        """Return whether what came `at` this wall time is a second click on an answered question."""
        answered = self._questions.get(question)
        return answered is not None and abs(at - answered) <= DOUBLE_CLICK

    def answered(self, question: str, at: int) -> None:
        """Remember that what came `at` this wall time answered a question; forget the oldest, if too many."""
        self._questions.pop(question, None)
        self._questions[question] = at
        if len(self._questions) > ANSWERED:
            del self._questions[next(iter(self._questions))]

    def reopened(self, question: str) -> None:
        """Forget that a question was answered: it has given its answer back."""
        self._questions.pop(question, None)
