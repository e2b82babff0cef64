"""Changes of where a value goes, which words alone don't tell: loops, constants, helpers, equal questions."""

from __future__ import annotations

from tests.exact.changes import Change, Files, swap

VALUES: list[Change] = []


def case(
    name: str, old: str | Files, new: str | Files, expect: str, answers: list[str], truth: str = ""
) -> None:
    old, new = ({"shop": one} if isinstance(one, str) else one for one in (old, new))
    VALUES.append(Change(name, old, new, expect, answers, truth))


NEXT_S = """async def order(chat):
    answer = await chat.ask("Next?")
    kept.name = answer
    answer = await chat.ask("Next?")
    kept.city = answer
    await chat.ask("ok?")
"""
case(
    "s01 same words same var, uses swapped",
    NEXT_S,
    swap(NEXT_S, ("kept.name", "X"), ("kept.city", "kept.name"), ("X", "kept.city")),
    "PPP",
    ["a", "b"],
)
COMP_S = """async def order(chat):
    many = {k: await chat.ask("How many?") for k in ("cake", "tea")}
    await chat.send(str(many))
"""
case("s02 comprehension key order", COMP_S, swap(COMP_S, ('"cake", "tea"', '"tea", "cake"')), "PP", ["1"])
FL_S = """async def order(chat):
    many = {}
    for what in ("Sender", "Receiver"):
        many[what] = await chat.ask(f"{what} name?")
    await chat.send(str(many))
"""
case(
    "s03 f-string loop swapped",
    FL_S,
    swap(FL_S, ('"Sender", "Receiver"', '"Receiver", "Sender"')),
    "PP",
    ["1"],
)
case(
    "s03b f-string loop translated",
    FL_S,
    swap(FL_S, ('"Sender", "Receiver"', '"Absender", "Adressat"'), ("name?", "Name?")),
    "RR",
    ["1"],
)
FN_S = """async def order(chat):
    many = {}
    for n in (1, 2):
        many[n] = await chat.ask(f"Number {n}?")
    await chat.send(str(many))
"""
case("s04 f-string loop of ints swapped", FN_S, swap(FN_S, ("1, 2", "2, 1")), "PP", ["1"])
CST_S = """WHAT = ["Sender", "Receiver"]
async def order(chat):
    many = {}
    for what in WHAT:
        many[what] = await chat.ask(f"{what} name?")
    await chat.send(str(many))
"""
case(
    "s05 f-string constant list swapped",
    CST_S,
    swap(CST_S, ('"Sender", "Receiver"', '"Receiver", "Sender"')),
    "PP",
    ["1"],
)
CST2_S = """WHAT = ["cake", "tea"]
async def order(chat):
    many = {}
    for what in WHAT:
        many[what] = await chat.ask("How many?")
    await chat.send(str(many))
"""
case(
    "s06 same words, constant list swapped",
    CST2_S,
    swap(CST2_S, ('"cake", "tea"', '"tea", "cake"')),
    "PP",
    ["1"],
)
HK_S = """async def count(chat, key):
    many[key] = await chat.ask("How many?")
many = {}
async def order(chat):
    for key in ("cake", "tea"):
        await count(chat, key)
    await chat.send(str(many))
"""
case(
    "s07 helper gets key from loop, swapped",
    HK_S,
    swap(HK_S, ('"cake", "tea"', '"tea", "cake"')),
    "PP",
    ["1"],
)
case(
    "s07b helper gets key, loop goes on",
    HK_S,
    swap(HK_S, ('"cake", "tea"', '"cake", "tea", "ice"')),
    "SS",
    ["1"],
)
HK2_S = """async def count(chat, key):
    many[key] = await chat.ask("How many?")
many = {}
async def order(chat):
    await count(chat, "cake")
    await chat.send(str(many))
"""
case("s08 helper's literal arg replaced, same words", HK2_S, swap(HK2_S, ('"cake"', '"tea"')), "P", [])
IT_S = """async def it(chat):
    return await chat.receive()
async def order(chat):
    name = await it(chat)
    kept.name = name
    await chat.ask("ok?")
"""
case(
    "s09 wordless through a wrapper to another variable",
    IT_S,
    swap(
        IT_S,
        ("async def order", "async def fresh(chat):\n    return await it(chat)\nasync def order"),
        ("name = await it(chat)\n    kept.name = name", "city = await fresh(chat)\n    kept.city = city"),
    ),
    "PP",
    ["a"],
)
case(
    "s09b wordless through a wrapper",
    IT_S,
    swap(
        IT_S,
        ("async def order", "async def fresh(chat):\n    return await it(chat)\nasync def order"),
        ("await it(chat)\n    kept", "await fresh(chat)\n    kept"),
    ),
    "PP",
    ["a"],
    "SS",
)
PR_S = """async def pair(chat, one, two):
    many[one] = await chat.ask("Next?")
    many[two] = await chat.ask("Next?")
many = {}
async def order(chat):
    await pair(chat, one="a", two="b")
    await chat.send(str(many))
"""
case(
    "s10 parameters exchanged",
    PR_S,
    swap(
        PR_S,
        ("one, two", "two, one"),
        ("many[one] =", "many[X] ="),
        ("many[two] =", "many[one] ="),
        ("many[X]", "many[two]"),
    ),
    "PP",
    ["1"],
)
FF_S = """\x0c
async def order(chat):
    name = await chat.ask("Next?")
    kept.name = name
    city = await chat.ask("Next?"); kept.city = city
"""
case(
    "s11 form feed",
    FF_S + "\nX=1\n",
    swap(FF_S, ('city = await chat.ask("Next?")', 'phone = await chat.ask("Phone?"); city = 1')) + "\nX=1\n",
    "SP",
    ["1"],
)
FF2_S = """\x0c
async def order(chat):
    name = await chat.ask("Name?")
    kept.name = name
    kept.city, kept.size = await chat.ask("City?"), await chat.ask("Size?")
"""
case(
    "s12 form feed, last line swapped",
    FF2_S,
    swap(
        FF2_S,
        (
            'await chat.ask("City?"), await chat.ask("Size?")',
            'await chat.ask("Size?"), await chat.ask("City?")',
        ),
    ),
    "SPP",
    ["1", "2"],
)
MT_S = """async def order(chat):
    kind = await chat.ask("Kind?")
    match kind:
        case "cake":
            kept.size = await chat.ask("How many cakes?")
        case _:
            kept.size = await chat.ask("How many teas?")
    await chat.ask("ok?")
"""
case(
    "s13 match patterns exchanged",
    MT_S,
    swap(
        MT_S, ('"How many cakes?"', "X"), ('"How many teas?"', '"How many cakes?"'), ("X", '"How many teas?"')
    ),
    "SPP",
    ["cake", "1"],
)
case(
    "s13b match case in front",
    MT_S,
    swap(
        MT_S,
        (
            '        case "cake"',
            '        case "pie":\n            kept.size = await chat.ask("Pies?")\n        case "cake"',
        ),
    ),
    "SSS",
    ["cake", "1"],
)
FIN_S = """async def order(chat):
    try:
        name = await chat.ask("Name?")
    finally:
        note = await chat.ask("Note?")
    await chat.send(f"{name} {note}")
"""
case(
    "s14 finally: swapped",
    FIN_S,
    swap(
        FIN_S,
        ('name = await chat.ask("Name?")', "X"),
        ('note = await chat.ask("Note?")', 'name = await chat.ask("Name?")'),
        ("X", 'note = await chat.ask("Note?")'),
    ),
    "PP",
    ["a"],
)
case(
    "s14b finally taken off",
    FIN_S,
    """async def order(chat):
    name = await chat.ask("Name?")
    note = await chat.ask("Note?")
    await chat.send(f"{name} {note}")
""",
    "SS",
    ["a"],
)
NEST_S = """async def order(chat):
    async def name():
        return await chat.ask("Name?")
    async def city():
        return await chat.ask("City?")
    a = await name()
    b = await city()
    await chat.send(f"{a} {b}")
"""
case(
    "s15 nested functions exchanged calls",
    NEST_S,
    swap(NEST_S, ("a = await name()\n    b = await city()", "b = await city()\n    a = await name()")),
    "PP",
    ["a"],
)
case(
    "s15b nested function lifted out",
    NEST_S,
    """async def name(chat):
    return await chat.ask("Name?")
async def city(chat):
    return await chat.ask("City?")
async def order(chat):
    a = await name(chat)
    b = await city(chat)
    await chat.send(f"{a} {b}")
""",
    "SS",
    ["a"],
)
case(
    "s15c nested functions swap bodies",
    NEST_S,
    swap(NEST_S, ("Name?", "X"), ("City?", "Name?"), ("X", "City?")),
    "PP",
    ["a"],
)
LAM_S = """ASKS = [lambda chat: chat.ask("Name?"), lambda chat: chat.ask("City?")]
async def order(chat):
    a = await ASKS[0](chat)
    b = await ASKS[1](chat)
    await chat.send(f"{a} {b}")
"""
case(
    "s16 lambdas swapped", LAM_S, swap(LAM_S, ("Name?", "X"), ("City?", "Name?"), ("X", "City?")), "PP", ["a"]
)
case("s16b lambdas reworded", LAM_S, swap(LAM_S, ("Name?", "Your name?")), "RR", ["a"])
LAM2_S = """ASKS = [lambda chat: chat.receive(), lambda chat: chat.receive()]
async def order(chat):
    await chat.send("Name and city")
    a = await ASKS[0](chat)
    b = await ASKS[1](chat)
    await chat.send(f"{a} {b}")
"""
case(
    "s16d lambdas' vars swapped",
    LAM2_S,
    swap(
        LAM2_S,
        ("a = await ASKS[0]", "c = await ASKS[0]"),
        ("b = await ASKS[1]", "a = await ASKS[1]"),
        ("c = await", "b = await"),
    ),
    "PP",
    ["a"],
)
CLS_S = """class Q:
    name = "Name?"
    city = "City?"
async def order(chat):
    a = await chat.ask(Q.name)
    b = await chat.ask(Q.city)
    await chat.send(f"{a} {b}")
"""
case(
    "s17 class attributes exchanged",
    CLS_S,
    swap(CLS_S, ("Name?", "X"), ("City?", "Name?"), ("X", "City?")),
    "PP",
    ["a"],
)
case("s17b class attribute reworded", CLS_S, swap(CLS_S, ("Name?", "Your name?")), "RR", ["a"])
case(
    "s17c class attributes reordered",
    CLS_S,
    swap(CLS_S, ('    name = "Name?"\n    city = "City?"\n', '    city = "City?"\n    name = "Name?"\n')),
    "SS",
    ["a"],
)
WAL_S = """async def order(chat):
    items = []
    while (item := await chat.ask("Item?")) != "no":
        items.append(item)
    await chat.send(str(items))
"""
case(
    "s18 walrus to plain loop",
    WAL_S,
    """async def order(chat):
    items = []
    while True:
        item = await chat.ask("Item?")
        if item == "no":
            break
        items.append(item)
    await chat.send(str(items))
""",
    "PPP",
    ["a", "b"],
    "SSS",
)
AUG_S = """async def order(chat):
    total = 0
    cost = 0
    total += await chat.ask("How many?", int)
    cost += await chat.ask("How many?", int)
    await chat.send(f"{total} {cost}")
"""
case(
    "s19 augmented swapped",
    AUG_S,
    swap(AUG_S, ("total +=", "X +="), ("cost +=", "total +="), ("X +=", "cost +=")),
    "PP",
    ["1"],
)
TUP_S = """async def order(chat):
    a, b = await chat.ask("Next?"), await chat.ask("Next?")
    await chat.send(f"{a} {b}")
"""
case("s20 tuple targets exchanged", TUP_S, swap(TUP_S, ("a, b =", "b, a =")), "PP", ["1"])
GEN_S = """async def answers(chat):
    yield await chat.ask("Name?")
    yield await chat.ask("City?")
async def order(chat):
    found = []
    async for one in answers(chat):
        found.append(one)
    await chat.send(str(found))
"""
case(
    "s21 async generator swapped",
    GEN_S,
    swap(GEN_S, ("Name?", "X"), ("City?", "Name?"), ("X", "City?")),
    "PP",
    ["1"],
)
case("s21b async generator reworded", GEN_S, swap(GEN_S, ("Name?", "Your name?")), "RR", ["1"])
case(
    "s21c async comprehension instead",
    GEN_S,
    swap(
        GEN_S,
        (
            "    found = []\n    async for one in answers(chat):\n        found.append(one)\n",
            "    found = [one async for one in answers(chat)]\n",
        ),
    ),
    "PP",
    ["1"],
    "SS",
)

TWO_T = """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    await chat.send(f"{name} {city}")
"""
TWOR_T = swap(
    TWO_T,
    (
        '    name = await chat.ask("Name?")\n    city = await chat.ask("City?")\n',
        '    city = await chat.ask("City?")\n    name = await chat.ask("Name?")\n',
    ),
)
# helper module renamed
T_T = """async def text_of(chat, question):
    said = await chat.ask(question)
    return said.strip()
"""
S_T = """from tools import text_of
async def order(chat):
    name = await text_of(chat, "Name?")
    city = await text_of(chat, "City?")
    await chat.send(f"{name} {city}")
"""
case(
    "t01 helper module renamed",
    {"shop": S_T, "tools": T_T},
    {"shop": S_T.replace("tools", "utils"), "utils": T_T},
    "SS",
    ["a"],
)
case(
    "t02 helper module renamed, calls swapped",
    {"shop": S_T, "tools": T_T},
    {
        "shop": swap(
            S_T,
            ("from tools", "from utils"),
            (
                'name = await text_of(chat, "Name?")\n    city = await text_of(chat, "City?")',
                'city = await text_of(chat, "City?")\n    name = await text_of(chat, "Name?")',
            ),
        ),
        "utils": T_T,
    },
    "PP",
    ["a"],
)
case(
    "t03 import as",
    {"shop": S_T, "tools": T_T},
    {"shop": "import tools\n" + S_T.partition("\n")[2].replace("text_of(", "tools.text_of("), "tools": T_T},
    "SS",
    ["a"],
)
case(
    "t04 helper becomes method",
    {
        "shop": """async def it(chat):
    return await chat.ask("Item?")
async def order(chat):
    a = await it(chat)
    await chat.ask("ok?")
"""
    },
    {
        "shop": """class Q:
    async def it(self, chat):
        return await chat.ask("Item?")
async def order(chat):
    a = await Q().it(chat)
    await chat.ask("ok?")
"""
    },
    "SS",
    ["a"],
)
# decorators with args
D_T = """def retried(n):
    def deco(fn):
        async def within(chat):
            for _ in range(n):
                await fn(chat)
        return within
    return deco
@retried(1)
"""
case(
    "t05 decorator argument", D_T + TWO_T, D_T.replace("retried(1)", "retried(2)") + TWO_T, "PP", ["a"], "SS"
)
case("t06 decorator and swapped", D_T + TWO_T, D_T + TWOR_T, "PP", ["a"])
D2_T = """import functools
def first(fn):
    @functools.wraps(fn)
    async def within(chat):
        kept.size = await chat.ask("Lang?")
        await fn(chat)
    return within
@first
"""
case("t07 decorator with a question put on", TWO_T, D2_T + TWO_T, "PP", ["a"])
case("t08 decorator with a question taken off", D2_T + TWO_T, TWO_T, "PP", ["a"])
case(
    "t09 decorator's question moved behind",
    D2_T + TWO_T,
    swap(
        D2_T,
        (
            '        kept.size = await chat.ask("Lang?")\n        await fn(chat)\n',
            '        await fn(chat)\n        kept.size = await chat.ask("Lang?")\n',
        ),
    )
    + TWO_T,
    "PPP",
    ["a", "b"],
)
# recursion
R_T = """async def tree(chat, depth):
    name = await chat.ask("Name?")
    if depth:
        await tree(chat, depth - 1)
async def order(chat):
    await tree(chat, 3)
"""
case("t10 recursion reworded", R_T, swap(R_T, ("Name?", "Your name?")), "RRR", ["a", "b"])
case(
    "t11 recursion becomes loop",
    R_T,
    """async def order(chat):
    for depth in range(4):
        name = await chat.ask("Name?")
""",
    "PPP",
    ["a", "b"],
    "SSS",
)
# class-based conversation
C_T = """class Order:
    def __init__(self, chat):
        self.chat = chat
    async def run(self):
        self.name = await self.chat.ask("Name?")
        self.city = await self.chat.ask("City?")
        await self.chat.send(f"{self.name} {self.city}")
async def order(chat):
    await Order(chat).run()
"""
case(
    "t12 self targets swapped",
    C_T,
    swap(
        C_T,
        ("self.name = await", "self.X = await"),
        ("self.city = await", "self.name = await"),
        ("self.X = await", "self.city = await"),
    ),
    "SS",
    ["a"],
)
case(
    "t13 self same words swapped",
    C_T.replace('"City?"', '"Next?"').replace('"Name?"', '"Next?"'),
    swap(
        C_T.replace('"City?"', '"Next?"').replace('"Name?"', '"Next?"'),
        ("self.name = await", "self.X = await"),
        ("self.city = await", "self.name = await"),
        ("self.X = await", "self.city = await"),
    ),
    "PP",
    ["a"],
)
case(
    "t14 method inserted",
    C_T,
    swap(C_T, ("        self.city =", '        self.tel = await self.chat.ask("Tel?")\n        self.city =')),
    "SP",
    ["a"],
)
# async with custom manager
NESTED = """    async with asked(chat, "Name?") as name:
        async with asked(chat, "City?") as city:
            await"""
ON_ONE_LINE = """    async with asked(chat, "Name?") as name, asked(chat, "City?") as city:
        await"""
M_T = """from contextlib import asynccontextmanager
@asynccontextmanager
async def asked(chat, what):
    yield await chat.ask(what)
async def order(chat):
    async with asked(chat, "Name?") as name:
        async with asked(chat, "City?") as city:
            await chat.ask("ok?")
"""
case(
    "t15 context managers swapped",
    M_T,
    swap(M_T, ('"Name?") as name', "X"), ('"City?") as city', '"Name?") as name'), ("X", '"City?") as city')),
    "PPP",
    ["a", "b"],
)
case(
    "t16 context managers merged",
    M_T,
    swap(
        M_T,
        (
            NESTED,
            ON_ONE_LINE,
        ),
    ),
    "PPP",
    ["a", "b"],
    "SSS",
)
M2_T = swap(
    M_T,
    (
        NESTED,
        ON_ONE_LINE,
    ),
)
case(
    "t17 two on a line swapped",
    M2_T,
    swap(
        M2_T,
        (
            'asked(chat, "Name?") as name, asked(chat, "City?") as city',
            'asked(chat, "City?") as city, asked(chat, "Name?") as name',
        ),
    ),
    "PPP",
    ["a", "b"],
)
case(
    "t18 two on a line, variables swapped",
    M2_T.replace("Name?", "Next?").replace("City?", "Next?"),
    M2_T.replace("Name?", "Next?")
    .replace("City?", "Next?")
    .replace("as name", "as X")
    .replace("as city", "as name")
    .replace("as X", "as city"),
    "PPP",
    ["a", "b"],
)
# conditional expression
CE_T = """async def order(chat):
    new = await chat.ask("New?")
    name = await chat.ask("Name?") if new == "y" else await chat.ask("Number?")
    await chat.ask("ok?")
"""
case("t19 condition turned", CE_T, swap(CE_T, ('== "y"', '!= "y"')), "SPP", ["y", "1"])
case(
    "t20 conditional expression becomes if",
    CE_T,
    """async def order(chat):
    new = await chat.ask("New?")
    if new == "y":
        name = await chat.ask("Name?")
    else:
        name = await chat.ask("Number?")
    await chat.ask("ok?")
""",
    "SSS",
    ["y", "1"],
)
# dict/gather in one expression
BO_T = """async def order(chat):
    ok = await chat.ask("Sure?") == "y" and await chat.ask("Really?") == "y"
    await chat.ask("ok?")
"""
case(
    "t21 and: swapped",
    BO_T,
    swap(BO_T, ('"Sure?"', "X"), ('"Really?"', '"Sure?"'), ("X", '"Really?"')),
    "PPP",
    ["y", "y"],
)
case(
    "t23 keywords exchanged",
    """def f(a, b): kept.a = a; kept.b = b
async def order(chat):
    f(a=await chat.ask("Next?"), b=await chat.ask("Next?"))
    await chat.ask("ok?")
""",
    """def f(a, b): kept.a = a; kept.b = b
async def order(chat):
    f(b=await chat.ask("Next?"), a=await chat.ask("Next?"))
    await chat.ask("ok?")
""",
    "PPP",
    ["1", "2"],
)
case(
    "t24 nonlocal results",
    """async def order(chat):
    name = city = None
    async def one():
        nonlocal name
        name = await chat.ask("Next?")
    async def two():
        nonlocal city
        city = await chat.ask("Next?")
    await one()
    await two()
    await chat.send(f"{name} {city}")
""",
    """async def order(chat):
    name = city = None
    async def one():
        nonlocal city
        city = await chat.ask("Next?")
    async def two():
        nonlocal name
        name = await chat.ask("Next?")
    await one()
    await two()
    await chat.send(f"{name} {city}")
""",
    "PP",
    ["1"],
)
case(
    "t25 helper returns tuple, unpacked otherwise",
    """async def both(chat):
    a = await chat.ask("Next?")
    b = await chat.ask("Next?")
    return a, b
async def order(chat):
    name, city = await both(chat)
    await chat.send(f"{name} {city}")
""",
    """async def both(chat):
    a = await chat.ask("Next?")
    b = await chat.ask("Next?")
    return a, b
async def order(chat):
    city, name = await both(chat)
    await chat.send(f"{name} {city}")
""",
    "PP",
    ["1"],
)
case(
    "t26 helper's return exchanged",
    """async def both(chat):
    a = await chat.ask("Next?")
    b = await chat.ask("Next?")
    return a, b
async def order(chat):
    name, city = await both(chat)
    await chat.send(f"{name} {city}")
""",
    """async def both(chat):
    a = await chat.ask("Next?")
    b = await chat.ask("Next?")
    return b, a
async def order(chat):
    name, city = await both(chat)
    await chat.send(f"{name} {city}")
""",
    "PP",
    ["1"],
)
case(
    "t27 helper result to another variable",
    """async def it(chat):
    return await chat.ask("Item?")
async def order(chat):
    name = await it(chat)
    kept.name = name
    await chat.ask("ok?")
""",
    """async def it(chat):
    return await chat.ask("Item?")
async def order(chat):
    city = await it(chat)
    kept.city = city
    await chat.ask("ok?")
""",
    "PP",
    ["1"],
)
case(
    "t28 two helpers of same body, exchanged names",
    """async def first(chat):
    return await chat.ask("Item?")
async def second(chat):
    return await chat.ask("Item?")
async def order(chat):
    a = await first(chat)
    b = await second(chat)
    await chat.ask("ok?")
""",
    """async def first(chat):
    return await chat.ask("Item?")
async def second(chat):
    return await chat.ask("Item?")
async def order(chat):
    b = await second(chat)
    a = await first(chat)
    await chat.ask("ok?")
""",
    "PPP",
    ["1", "2"],
)
case(
    "t29 data keyed questions: keys exchanged same text",
    """FIELDS = {"name": "Next?", "city": "Next?"}
async def order(chat):
    got = {}
    for key, question in FIELDS.items():
        got[key] = await chat.ask(question)
    await chat.send(str(got))
""",
    """FIELDS = {"city": "Next?", "name": "Next?"}
async def order(chat):
    got = {}
    for key, question in FIELDS.items():
        got[key] = await chat.ask(question)
    await chat.send(str(got))
""",
    "PP",
    ["1"],
)
case(
    "t30 enumerate, start changed",
    """async def order(chat):
    got = {}
    for n, what in enumerate(("a", "b")):
        got[n] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    """async def order(chat):
    got = {}
    for n, what in enumerate(("b", "a")):
        got[n] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    "PP",
    ["1"],
)
case(
    "t31 reversed",
    """async def order(chat):
    got = {}
    for what in ("a", "b"):
        got[what] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    """async def order(chat):
    got = {}
    for what in reversed(("a", "b")):
        got[what] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    "PP",
    ["1"],
)
case(
    "t32 zip swapped",
    """async def order(chat):
    got = {}
    for key, q in zip(["a", "b"], ["Next?", "Next?"]):
        got[key] = await chat.ask(q)
    await chat.send(str(got))
""",
    """async def order(chat):
    got = {}
    for key, q in zip(["b", "a"], ["Next?", "Next?"]):
        got[key] = await chat.ask(q)
    await chat.send(str(got))
""",
    "PP",
    ["1"],
)
case(
    "t33 index variable",
    """KEYS = ["a", "b"]
async def order(chat):
    got, i = {}, 0
    while i < 2:
        got[KEYS[i]] = await chat.ask("Next?")
        i += 1
    await chat.send(str(got))
""",
    """KEYS = ["b", "a"]
async def order(chat):
    got, i = {}, 0
    while i < 2:
        got[KEYS[i]] = await chat.ask("Next?")
        i += 1
    await chat.send(str(got))
""",
    "PP",
    ["1"],
)

T_U = """T = {"name": "Name?", "city": "City?"}
def _(key):
    return T[key]
"""
S_U = """from texts import _
async def order(chat):
    name = await chat.ask(_("name"))
    city = await chat.ask(_("city"))
    await chat.send(f"{name} {city}")
"""
case(
    "u01 catalogue exchanged",
    {"shop": S_U, "texts": T_U},
    {"shop": S_U, "texts": swap(T_U, ("Name?", "X"), ("City?", "Name?"), ("X", "City?"))},
    "PP",
    ["a"],
)
case(
    "u02 catalogue translated",
    {"shop": S_U, "texts": T_U},
    {"shop": S_U, "texts": swap(T_U, ("Name?", "نام؟"), ("City?", "شهر؟"))},
    "RR",
    ["a"],
)
H_U = """T = {"name": "Name?", "city": "City?"}
async def get(chat, key):
    return await chat.ask(T[key])
async def order(chat):
    name = await get(chat, "name")
    city = await get(chat, "city")
    await chat.send(f"{name} {city}")
"""
case(
    "u03 helper by key, catalogue exchanged",
    H_U,
    swap(H_U, ("Name?", "X"), ("City?", "Name?"), ("X", "City?")),
    "PP",
    ["a"],
)
case("u04 helper by key, translated", H_U, swap(H_U, ("Name?", "نام؟"), ("City?", "شهر؟")), "RR", ["a"])
F_U = """T = {"name": "Name", "city": "City"}
async def order(chat):
    name = await chat.ask(f"{T['name']}, please?")
    city = await chat.ask(f"{T['city']}, please?")
    await chat.send(f"{name} {city}")
"""
case(
    "u05 template from data exchanged",
    F_U,
    swap(F_U, ('"Name"', '"X"'), ('"City"', '"Name"'), ('"X"', '"City"')),
    "PP",
    ["a"],
)
case(
    "u06 template from data translated",
    F_U,
    swap(F_U, ('"Name"', '"Nom"'), ('"City"', '"Ville"')),
    "RR",
    ["a"],
)
V_U = """async def count(chat, key):
    many[key] = await chat.ask("How many?")
    return 1
many = {}
CAKE, TEA = "cake", "tea"
async def order(chat):
    ok = await count(chat, CAKE)
    await chat.send(str(many))
"""
case("u07 constant arg replaced", V_U, swap(V_U, ("(chat, CAKE)", "(chat, TEA)")), "P", [])
case(
    "u07b another key, as a number",
    V_U.replace("(chat, CAKE)", "(chat, 60)"),
    swap(V_U, ("(chat, CAKE)", "(chat, 90)")),
    "P",
    [],
)
R_U = """async def text_of(chat, question, retry):
    return await chat.ask(question)
async def order(chat):
    a = await text_of(chat, "Name?", retry="Nope")
    await chat.send(f"{a}")
"""
case("u08 retry word changed", R_U, swap(R_U, ("Nope", "Again")), "S", [])
L_U = """async def text_of(chat, question):
    return (await chat.ask(question)).strip()
QUESTIONS = ["Name?", "City?", "Colour?"]
async def order(chat):
    answers = []
    for question in QUESTIONS:
        answers.append(await text_of(chat, question))
    await chat.send(" ".join(answers))
"""
case("u09 helper in loop: one taken out", L_U, swap(L_U, ('"City?", ', "")), "SPP", ["a", "b"])
case("u10 helper in loop: reworded", L_U, swap(L_U, ("City?", "Which city?")), "SRR", ["a", "b"])
case(
    "u11 helper in loop: swapped", L_U, swap(L_U, ('"Name?", "City?"', '"City?", "Name?"')), "PPP", ["a", "b"]
)
case(
    "u12 loop over pairs, reworded",
    """F = [("name", "Name?"), ("city", "City?")]
async def order(chat):
    got = {}
    for key, q in F:
        got[key] = await chat.ask(q)
    await chat.send(str(got))
""",
    """F = [("name", "Name?"), ("city", "Which city?")]
async def order(chat):
    got = {}
    for key, q in F:
        got[key] = await chat.ask(q)
    await chat.send(str(got))
""",
    "SR",
    ["a"],
)
case(
    "u13 loop over pairs, order",
    """F = [("name", "Name?"), ("city", "City?")]
async def order(chat):
    got = {}
    for key, q in F:
        got[key] = await chat.ask(q)
    await chat.send(str(got))
""",
    """F = [("city", "City?"), ("name", "Name?")]
async def order(chat):
    got = {}
    for key, q in F:
        got[key] = await chat.ask(q)
    await chat.send(str(got))
""",
    "PP",
    ["a"],
)
case(
    "u14 constant list inlined",
    """WHAT = ("a", "b")
async def order(chat):
    got = {}
    for key in WHAT:
        got[key] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    """async def order(chat):
    got = {}
    for key in ("a", "b"):
        got[key] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    "SS",
    ["a"],
)
case(
    "u15 range grows",
    """async def order(chat):
    got = {}
    for n in range(2):
        got[n] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    """async def order(chat):
    got = {}
    for n in range(3):
        got[n] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    "SS",
    ["a"],
)
case(
    "u16 range starts elsewhere",
    """async def order(chat):
    got = {}
    for n in range(0, 2):
        got[n] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    """async def order(chat):
    got = {}
    for n in range(1, 3):
        got[n] = await chat.ask("Next?")
    await chat.send(str(got))
""",
    "PP",
    ["a"],
)
case(
    "u17 same words in if branches, exchanged",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    if kind == "cake":
        cakes = await chat.ask("How many?")
        kept.size = cakes
    else:
        teas = await chat.ask("How many?")
        kept.city = teas
    await chat.ask("ok?")
""",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    if kind != "cake":
        cakes = await chat.ask("How many?")
        kept.size = cakes
    else:
        teas = await chat.ask("How many?")
        kept.city = teas
    await chat.ask("ok?")
""",
    "SPP",
    ["cake", "1"],
)
case(
    "u18 same words, one var, in if, condition turned",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    if kind == "cake":
        many = await chat.ask("How many?")
        kept.size = many
    else:
        many = await chat.ask("How many?")
        kept.city = many
    await chat.ask("ok?")
""",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    if kind != "cake":
        many = await chat.ask("How many?")
        kept.size = many
    else:
        many = await chat.ask("How many?")
        kept.city = many
    await chat.ask("ok?")
""",
    "SPP",
    ["cake", "1"],
)
case(
    "u19 same words, one var, branches' inside exchanged",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    if kind == "cake":
        many = await chat.ask("How many?")
        kept.size = many
    else:
        many = await chat.ask("How many?")
        kept.city = many
    await chat.ask("ok?")
""",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    if kind == "cake":
        many = await chat.ask("How many?")
        kept.city = many
    else:
        many = await chat.ask("How many?")
        kept.size = many
    await chat.ask("ok?")
""",
    "SPP",
    ["cake", "1"],
)
case(
    "u20 match same words, patterns exchanged",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    match kind:
        case "cake":
            kept.size = await chat.ask("How many?")
        case _:
            kept.city = await chat.ask("How many?")
    await chat.ask("ok?")
""",
    """async def order(chat):
    kind = await chat.ask("Kind?")
    match kind:
        case "tea":
            kept.size = await chat.ask("How many?")
        case _:
            kept.city = await chat.ask("How many?")
    await chat.ask("ok?")
""",
    "SPP",
    ["cake", "1"],
)
case(
    "u21 while with index, grows",
    """KEYS = ["a", "b"]
async def order(chat):
    got, i = {}, 0
    while i < len(KEYS):
        got[KEYS[i]] = await chat.ask("Next?")
        i += 1
    await chat.send(str(got))
""",
    """KEYS = ["a", "b", "c"]
async def order(chat):
    got, i = {}, 0
    while i < len(KEYS):
        got[KEYS[i]] = await chat.ask("Next?")
        i += 1
    await chat.send(str(got))
""",
    "SS",
    ["1"],
)
case(
    "u22 constant from another module",
    {
        "shop": """from data import WHAT
async def order(chat):
    got = {}
    for key in WHAT:
        got[key] = await chat.ask("Next?")
    await chat.send(str(got))
""",
        "data": 'WHAT = ["a", "b"]\n',
    },
    {
        "shop": """from data import WHAT
async def order(chat):
    got = {}
    for key in WHAT:
        got[key] = await chat.ask("Next?")
    await chat.send(str(got))
""",
        "data": 'WHAT = ["b", "a"]\n',
    },
    "PP",
    ["1"],
)
case(
    "u23 step in loop with constant, grows",
    """async def price(what):
    return 1
WHAT = ["a", "b"]
async def order(chat):
    got = {}
    for key in WHAT:
        got[key] = await chat.step(price, key)
    await chat.ask(str(got))
""",
    """async def price(what):
    return 1
WHAT = ["a", "b", "c"]
async def order(chat):
    got = {}
    for key in WHAT:
        got[key] = await chat.step(price, key)
    await chat.ask("x"+str(got))
""",
    "P",
    [],
)
case(
    "u24 enum loop reordered",
    """import enum
class Kind(enum.Enum):
    CAKE = "cake"
    TEA = "tea"
async def order(chat):
    got = {}
    for kind in Kind:
        got[kind.value] = await chat.ask("How many?")
    await chat.send(str(got))
""",
    """import enum
class Kind(enum.Enum):
    TEA = "tea"
    CAKE = "cake"
async def order(chat):
    got = {}
    for kind in Kind:
        got[kind.value] = await chat.ask("How many?")
    await chat.send(str(got))
""",
    "PP",
    ["1"],
)
