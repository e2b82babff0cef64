"""The variables that are shown with an exception of an author's."""

from __future__ import annotations

from triobot.cli.tracebacks import authors_words


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Long:
    def __repr__(self) -> str:
        return "x" * 1_000_000


def fails(size: int) -> None:
    broken, long = Broken(), Long()
    raise ValueError(f"{size} is too large", (broken, long) is None)


def test_a_variable_without_a_repr_hides_no_other() -> None:
    """Of an exception, of its cause, and of what is in a group; a long one is cut."""
    try:
        try:
            fails(7)
        except ValueError as error:
            group = ExceptionGroup("several", [error])
            raise group from error
    except ExceptionGroup as error:
        words = authors_words(error, variables=True)
    assert words.count("broken = <Broken: its repr raised RuntimeError>") == 2
    assert words.count("size = 7") == 2
    assert words.count("long = " + "x" * 10_000 + "...\n") == 2


def test_without_variables_none_is_looked_at() -> None:
    try:
        fails(7)
    except ValueError as error:
        assert "broken =" not in authors_words(error)
