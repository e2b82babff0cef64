"""Changes of where a value goes, of what a loop goes over in place, and of options that are computed."""

from __future__ import annotations

from tests.exact.changes import Change, swap

USES: list[Change] = []

_OVER: str = 'for k in KS:\n        setattr(kept, k, await chat.ask("Say?"))\n'
_TWICE: str = 'for n in range(2):\n        x = await chat.ask("Say?")\n'


def case(name: str, old: str, new: str, expect: str, *, head: str = "", now: str | None = None) -> None:
    before, after = (
        f"{module}async def order(chat):\n    {body}"
        for module, body in ((head, old), (head if now is None else now, new))
    )
    USES.append(Change(name, {"shop": before}, {"shop": after}, expect, ["a", "b"]))


ARMS = f"{_TWICE}        if n == 0:\n            kept.a = x\n        else:\n            kept.b = x\n"
case("u01 the test around a use", ARMS, swap(ARMS, ("n == 0", "n == 1")), "PP")
case(
    "u02 a test beside the use",
    ARMS,
    ARMS.replace("if n", 'if n == 7: await chat.send("!")\n        if n'),
    "SS",
)
MATCH = f"{_TWICE}        match n:\n            case 0: kept.a = x\n            case _: kept.b = x\n"
case("u03 the case around a use", MATCH, swap(MATCH, ("case 0", "case 1")), "PP")
CALLS = "await get(chat, 1)\n    await get(chat, 2)\n"
GET = """async def get(chat, n):
    x = await chat.ask("Say?")
    if n == 1:
        kept.a = x
        return
    kept.b = x
"""
case("u04 an early return", CALLS, CALLS, "PP", head=GET, now=swap(GET, ("n == 1", "n == 2")))
LIST = f'KS = ["a", "b"]\n    {_OVER}'
for _number, (_what, _line) in enumerate(
    [
        ("reversed", "KS.reverse()"),
        ("a value in front", 'KS.insert(0, "z")'),
        ("two values exchanged", "KS[0], KS[1] = KS[1], KS[0]"),
        ("a value deleted", "del KS[0]"),
        ("handed to a function", "turned(KS)"),
    ],
    5,
):
    case(
        f"u{_number:02} a list in place: {_what}",
        LIST,
        swap(LIST, ("    for", f"    {_line}\n    for")),
        "PP",
    )
case("u10 a module's list in place", _OVER, f"KS.reverse()\n    {_OVER}", "PP", head='KS = ["a", "b"]\n')
INTO = 'r = []\n    for n in range(2):\n        r.append(await chat.ask("Say?"))\n    kept.a, kept.b = r\n'
case("u11 a list is filled, and read otherwise", INTO, swap(INTO, ("kept.a, kept.b", "kept.b, kept.a")), "PP")
case(
    "u12 a list is filled, and turned", INTO, swap(INTO, ("    kept.a", "    r.reverse()\n    kept.a")), "PP"
)
DICT = """d = {}
    for k in ("a", "b"):
        d[k] = await chat.ask("Say?")
    kept.a, kept.b = d["a"], d["b"]
"""
case("u13 a dict is filled, and read otherwise", DICT, swap(DICT, ('d["a"], d["b"]', 'd["b"], d["a"]')), "PP")
FIELDS = 'import dataclasses\n@dataclasses.dataclass\nclass Q:\n    a: str = "Say?"\n    b: str = "Say?"\n'
EACH = "for f in dataclasses.fields(Q):\n        setattr(kept, f.name, await chat.ask(f.default))\n"
CROSSED = swap(FIELDS, ("    a:", "    c:"), ("    b:", "    a:"), ("    c:", "    b:"))
case("u14 fields exchanged", EACH, EACH, "PP", head=FIELDS, now=CROSSED)

CHOICE = 'kept.a = await chat.choose("Which?", OPTIONS)\n    await chat.ask("End?")\n'
for _number, (_how, _options) in enumerate(
    [
        ("zipped", 'dict(zip(("a", "w"), ("Cake", "Tea")))'),
        ("by keywords", 'dict(a="Cake", w="Tea")'),
        ("merged", '{**{"a": "Cake"}, **{"w": "Tea"}}'),
    ],
    15,
):
    OLD = CHOICE.replace("OPTIONS", _options)
    NEW = swap(OLD, ("Cake", "-"), ("Tea", "Cake"), ("-", "Tea"))
    case(f"u{_number} options {_how}, two exchange their words", OLD, NEW, "PP")
MADE = 'def options():\n    return {"a": "Cake", "w": "Tea"}\n'
OLD = CHOICE.replace("OPTIONS", "options()")
NEW = swap(MADE, ("Cake", "-"), ("Tea", "Cake"), ("-", "Tea"))
case("u18 options of a function, two exchange their words", OLD, OLD, "PP", head=MADE, now=NEW)
case("u19 options of a function, another question", OLD, swap(OLD, ("Which", "Which one")), "RR", head=MADE)
case("u20 options of a function, reworded", OLD, OLD, "RR", head=MADE, now=swap(MADE, ("Cake", "A cake")))
OWN = 'o = {"a": "Cake"}\n    o["w"] = "Tea"\n    ' + CHOICE.replace("OPTIONS", "o")
case("u21 options of a variable", OWN, swap(OWN, ("Cake", "-"), ("Tea", "Cake"), ("-", "Tea")), "PP")
LOCAL = 'o = {"a": "Cake", "w": "Tea"}\n    ' + CHOICE.replace("OPTIONS", "o")
MOVED = swap(LOCAL, ('"a": "Cake", "w": "Tea"', '"w": "Tea", "a": "Cake"'), ("Which", "Which one"))
case("u22 options of a variable in another order", LOCAL, MOVED, "RR")
ZIPPED = CHOICE.replace("OPTIONS", 'dict(zip(("a", "w"), ("Cake", "Tea")))')
case("u23 options zipped, reworded", ZIPPED, swap(ZIPPED, ("Cake", "A cake"), ("Tea", "Some tea")), "RR")

END = 'await chat.ask("End?")\n'
for _number, (_what, _old, _new, _expect) in enumerate(
    [
        (
            "a use",
            'x = await chat.ask("Say?")\n    kept.a = [x for _ in range(2)]',
            'x = await chat.ask("Say?")\n    kept.a = [x, x]',
            "SS",
        ),
        (
            "options",
            'o = {n: str(n) for n in range(1)}\n    kept.a = await chat.choose("Say?", o)',
            'o = {0: "0"}\n    kept.a = await chat.choose("Say?", o)',
            "SS",
        ),
        (
            "a question",
            'kept.a = [await chat.ask("Say?") for _ in range(1)]',
            'kept.a = [await chat.ask("Say?")]',
            "PP",
        ),
        (
            "two questions",
            'kept.a, kept.b = [await chat.ask("Say?") for _ in range(2)]',
            'kept.b = await chat.ask("Say?")',
            "PP",
        ),
        (
            "two questions in a helper",
            "kept.a, kept.b = [await get(chat) for _ in range(2)]",
            "kept.b = await get(chat)",
            "PP",
        ),
    ],
    24,
):
    HEAD = 'async def get(chat):\n    return await chat.ask("Say?")\n' if "get" in _old else ""
    case(f"u{_number} {_what} in a range", f"{_old}\n    {END}", f"{_new}\n    {END}", _expect, head=HEAD)
    case(
        f"u{_number} {_what} in a range, now", f"{_new}\n    {END}", f"{_old}\n    {END}", _expect, head=HEAD
    )
