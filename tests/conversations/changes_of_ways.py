"""Changes of the way that a value takes: aliases, closures, conditions, steps, options, forms.

``changes_of_ways.txt`` shows each as a comparison does: ``= name``; what is expected, the answers, and the
truth where that differs; then the lines of its modules, of ``shop`` first or behind ``@ module``. ``-`` marks
a line of the old code, ``+`` one of the new code, a space one of both. A module is there where it has a line.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from tests.exact.changes import Change

_ROWS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").removeprefix("= ").split("\n= ")


def _read(row: str) -> Change:
    name, told, *lines = row.rstrip("\n").split("\n")
    expect, answers, *truth = told.split()
    code: dict[str, dict[str, str]] = {"-": {}, "+": {}}
    module = "shop"
    for line in lines:
        if line.startswith("@ "):
            module = line[2:]
            continue
        mark, text = line[:1].strip(), line[1:]
        for side in mark or "-+":
            code[side][module] = code[side].get(module, "") + f"{text}\n"
    return Change(name, code["-"], code["+"], expect, [*answers], *truth)


WAYS: list[Change] = [_read(row) for row in _ROWS]
_BOTH = next(one for one in WAYS if one.name.startswith("z01"))
_SAID = [("order", *(f"_.ask('{words}')" for words in ("How many?", "How many cakes?")))]
WAYS.append(attrs.evolve(_BOTH, name="z02 ... accepted", expect="RR", accepted=_SAID))
