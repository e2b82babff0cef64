"""Changes of the way that a value takes: aliases, closures, f-strings, conditions, steps, options, forms."""

from __future__ import annotations

import attrs

from tests.exact.changes import Change, Files, swap

WAYS: list[Change] = []


def case(
    name: str, old: str | Files, new: str | Files, expect: str, answers: str = "abc", truth: str = ""
) -> None:
    old, new = ({"shop": one} if isinstance(one, str) else one for one in (old, new))
    WAYS.append(Change(name, old, new, expect, [*answers], truth))


case(
    "y01 step function imported from another module",
    {
        "shop": """from goods import price
async def order(chat):
    x = await chat.step(price)
    await chat.ask("End?")
""",
        "goods": """async def price():
    return 1
""",
        "ships": """async def price():
    return 2
""",
    },
    {
        "shop": """from ships import price
async def order(chat):
    x = await chat.step(price)
    await chat.ask("End?")
""",
        "goods": """async def price():
    return 1
""",
        "ships": """async def price():
    return 2
""",
    },
    "P",
    "a",
)
OLD = """from functools import partial
async def price(what):
    return what
one = partial(price, "a")
two = partial(price, "b")
async def order(chat):
    kept.a = await chat.step(one)
    kept.b = await chat.step(two)
    await chat.ask("End?")
"""
case(
    "y02 partial steps, definitions exchanged",
    OLD,
    swap(
        OLD,
        (
            """one = partial(price, "a")
two = partial(price, "b")""",
            """one = partial(price, "b")
two = partial(price, "a")""",
        ),
    ),
    "P",
    "a",
)
OLD = """class Shop:
    def __init__(self, n):
        self.n = n
    async def price(self):
        return self.n
one, two = Shop("a"), Shop("b")
async def order(chat):
    kept.a = await chat.step(one.price)
    kept.b = await chat.step(two.price)
    await chat.ask("End?")
"""
case(
    "y03 bound methods, objects exchanged",
    OLD,
    swap(OLD, ('one, two = Shop("a"), Shop("b")', 'one, two = Shop("b"), Shop("a")')),
    "P",
    "a",
)
OLD = """APPLES, PEARS = 1, 2
async def look(x):
    return x
async def order(chat):
    kept.a = await chat.step(lambda: look(APPLES))
    await chat.ask("End?")
"""
case(
    "y04 lambda step, name in it replaced",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = await chat.step(lambda: look(APPLES))",
            "    kept.a = await chat.step(lambda: look(PEARS))",
        ),
    ),
    "P",
    "a",
)
OLD = """async def look(x):
    return x
async def order(chat):
    kept.a = await chat.step(lambda: look(1))
    await chat.ask("End?")
"""
case(
    "y05 lambda step, constant in it replaced",
    OLD,
    swap(
        OLD,
        ("    kept.a = await chat.step(lambda: look(1))", "    kept.a = await chat.step(lambda: look(2))"),
    ),
    "P",
    "a",
)
OLD = """class D:
    def __init__(self, n):
        self.n = n
async def look(x):
    return x.n
async def order(chat):
    a = D(1)
    b = D(2)
    kept.a = await chat.step(look, a)
    kept.b = await chat.step(look, b)
    await chat.ask("End?")
"""
case(
    "y06 step's keyword-ish: argument object swapped",
    OLD,
    swap(
        OLD,
        (
            """    a = D(1)
    b = D(2)""",
            """    a = D(2)
    b = D(1)""",
        ),
    ),
    "P",
    "a",
)
OLD = """async def one():
    return 1
async def two():
    return 2
T = {"a": one, "b": two}
async def order(chat):
    for k in ("a", "b"):
        setattr(kept, k, await chat.step(T[k]))
    await chat.ask("End?")
"""
case("y07 step table", OLD, swap(OLD, ('T = {"a": one, "b": two}', 'T = {"a": two, "b": one}')), "P", "a")
OLD = """async def order(chat):
    def make(n):
        async def look():
            return n
        return look
    kept.a = await chat.step(make(1))
    kept.b = await chat.step(make(2))
    await chat.ask("End?")
"""
case(
    "y08 step of equal nested functions",
    OLD,
    swap(
        OLD,
        (
            """    kept.a = await chat.step(make(1))
    kept.b = await chat.step(make(2))""",
            """    kept.a = await chat.step(make(2))
    kept.b = await chat.step(make(1))""",
        ),
    ),
    "P",
    "a",
)
OLD = """async def look(x):
    return x
async def order(chat):
    cart = [1, 2]
    kept.a = await chat.step(look, cart)
    await chat.ask("End?")
"""
case("y09 step's shared local data", OLD, swap(OLD, ("    cart = [1, 2]", "    cart = [2, 1]")), "S", "a")
OLD = """async def look(x):
    return x
async def order(chat):
    if (n := await chat.step(look, 1)) > 0:
        kept.a = n
    await chat.ask("End?")
"""
case(
    "y10 step with walrus",
    OLD,
    swap(
        OLD,
        (
            "    if (n := await chat.step(look, 1)) > 0:",
            """    n = await chat.step(look, 1)
    if n > 0:""",
        ),
    ),
    "S",
    "a",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
OTHER = {"a": "b", "b": "a"}
g = get
async def order(chat):
    await g(chat, "a")
    await g(chat, "b")
"""
case(
    "y11 a helper by an alias, its key exchanged within",
    OLD,
    swap(
        OLD,
        (
            '    setattr(kept, key, await chat.ask("Say?"))',
            '    setattr(kept, OTHER[key], await chat.ask("Say?"))',
        ),
    ),
    "PP",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
OTHER = {"a": "b", "b": "a"}
T = {"g": get}
async def order(chat):
    await T["g"](chat, "a")
    await T["g"](chat, "b")
"""
case(
    "y12 by a table",
    OLD,
    swap(
        OLD,
        (
            '    setattr(kept, key, await chat.ask("Say?"))',
            '    setattr(kept, OTHER[key], await chat.ask("Say?"))',
        ),
    ),
    "PP",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
OTHER = {"a": "b", "b": "a"}
from functools import partial
g = partial(get)
async def order(chat):
    await g(chat, "a")
    await g(chat, "b")
"""
case(
    "y13 by import as",
    OLD,
    swap(
        OLD,
        (
            '    setattr(kept, key, await chat.ask("Say?"))',
            '    setattr(kept, OTHER[key], await chat.ask("Say?"))',
        ),
    ),
    "PP",
)
OLD = """async def more(chat, n):
    setattr(kept, f"k{n}", await chat.ask("Say?"))
    if n:
        await T["more"](chat, n - 1)
T = {"more": more}
async def order(chat):
    await more(chat, 2)
"""
case(
    "y14 recursion by a table, key turned",
    OLD,
    swap(
        OLD,
        (
            '    setattr(kept, f"k{n}", await chat.ask("Say?"))',
            '    setattr(kept, f"k{2 - n}", await chat.ask("Say?"))',
        ),
    ),
    "PPP",
)
case(
    "y15 helper of a module, by alias",
    {
        "shop": """import tools
g = tools.get
async def order(chat):
    await g(chat, "a")
    await g(chat, "b")
""",
        "tools": """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
OTHER = {"a": "b", "b": "a"}
""",
    },
    {
        "shop": """import tools
g = tools.get
async def order(chat):
    await g(chat, "a")
    await g(chat, "b")
""",
        "tools": """async def get(chat, key):
    setattr(kept, OTHER[key], await chat.ask("Say?"))
OTHER = {"a": "b", "b": "a"}
""",
    },
    "PP",
)
case(
    "y16 helper imported as",
    {
        "shop": """from tools import get as g
async def order(chat):
    await g(chat, "a")
    await g(chat, "b")
""",
        "tools": """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
OTHER = {"a": "b", "b": "a"}
""",
    },
    {
        "shop": """from tools import get as g
async def order(chat):
    await g(chat, "a")
    await g(chat, "b")
""",
        "tools": """async def get(chat, key):
    setattr(kept, OTHER[key], await chat.ask("Say?"))
OTHER = {"a": "b", "b": "a"}
""",
    },
    "PP",
)
OLD = """async def get(chat):
    return await chat.ask("Say?")
g = get
async def order(chat):
    kept.a = await g(chat)
    kept.b = await g(chat)
"""
case(
    "y17 alias twice, exchanged and wrapped at once",
    OLD,
    swap(
        OLD,
        (
            """async def order(chat):
    kept.a = await g(chat)
    kept.b = await g(chat)""",
            """async def w(chat):
    return await g(chat)
async def order(chat):
    kept.b = await w(chat)
    kept.a = await w(chat)""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    await chat.send(f"{await chat.ask('A?')} {await chat.ask('B?')}")
"""
case(
    "y18 asks in an f-string, swapped",
    OLD,
    swap(
        OLD,
        (
            "    await chat.send(f\"{await chat.ask('A?')} {await chat.ask('B?')}\")",
            "    await chat.send(f\"{await chat.ask('B?')} {await chat.ask('A?')}\")",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    kept.a = f"{await chat.ask('Say?')} {await chat.ask('Say?')}"
"""
case(
    "y19 equal asks in an f-string, more around",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = f\"{await chat.ask('Say?')} {await chat.ask('Say?')}\"",
            "    kept.a = f\"{await chat.ask('Say?')}, {await chat.ask('Say?')}\"",
        ),
    ),
    "PP",
    "ab",
    truth="SS",
)
OLD = """async def order(chat):
    kept.a = f'''
    {await chat.ask('A?')}
    {await chat.ask('B?')}
    '''
"""
case(
    "y20 triple-quoted f-string over lines",
    OLD,
    swap(
        OLD,
        (
            """    {await chat.ask('A?')}
    {await chat.ask('B?')}""",
            """    {await chat.ask('B?')}
    {await chat.ask('A?')}""",
        ),
    ),
    "PP",
)
case(
    "y21 triple-quoted f-string, another line in front",
    OLD,
    swap(
        OLD,
        (
            "async def order(chat):",
            """async def order(chat):
    x = 1""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    kept.a = f"{await chat.ask('A?')} {await chat.ask('B?')}"
"""
case(
    "y22 an f-string's ask taken out",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = f\"{await chat.ask('A?')} {await chat.ask('B?')}\"",
            """    a = await chat.ask('A?')
    kept.a = f"{a} {await chat.ask('B?')}\"""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    x, y = "tea", "cake"
    kept.a = await chat.ask(f"1 {x}, 2 {y}")
    await chat.ask("End?")
"""
case(
    "y23 an f-string's two values exchanged in the words",
    OLD,
    swap(
        OLD, ('    kept.a = await chat.ask(f"1 {x}, 2 {y}")', '    kept.a = await chat.ask(f"1 {y}, 2 {x}")')
    ),
    "PP",
)
OLD = """async def two(x, y):
    kept.a, kept.b = x, y
async def order(chat):
    await two(await chat.ask("Say?"), await chat.ask("Say?"))
"""
case(
    "y24 asks as arguments, swapped",
    OLD,
    swap(
        OLD,
        (
            '    await two(await chat.ask("Say?"), await chat.ask("Say?"))',
            '    await two(y=await chat.ask("Say?"), x=await chat.ask("Say?"))',
        ),
    ),
    "PP",
)
case(
    "y25 asks as arguments, the function's parameters exchanged",
    OLD,
    swap(OLD, ("async def two(x, y):", "async def two(y, x):")),
    "SS",
)
OLD = """def two(x, y):
    kept.a, kept.b = x, y
async def order(chat):
    two(await chat.ask("Say?"), await chat.ask("Say?"))
"""
case("y26 of a plain function", OLD, swap(OLD, ("def two(x, y):", "def two(y, x):")), "SS")
OLD = """def two(x, y):
    kept.a, kept.b = x, y
async def order(chat):
    x = await chat.ask("Say?")
    y = await chat.ask("Say?")
    two(x, y)
"""
case(
    "y27 a plain function's body exchanged",
    OLD,
    swap(OLD, ("    kept.a, kept.b = x, y", "    kept.b, kept.a = x, y")),
    "SS",
)
OLD = """import dataclasses
@dataclasses.dataclass
class Two:
    a: str
    b: str
async def order(chat):
    kept.two = Two(await chat.ask("Say?"), await chat.ask("Say?"))
"""
case(
    "y28 positional into a dataclass, fields exchanged",
    OLD,
    swap(
        OLD,
        (
            """    a: str
    b: str""",
            """    b: str
    a: str""",
        ),
    ),
    "PP",
)
OLD = """import dataclasses
@dataclasses.dataclass
class Two:
    a: str
    b: str
async def order(chat):
    x = await chat.ask("Say?")
    y = await chat.ask("Say?")
    kept.two = Two(x, y)
"""
case(
    "y29 through variables",
    OLD,
    swap(
        OLD,
        (
            """    a: str
    b: str""",
            """    b: str
    a: str""",
        ),
    ),
    "PP",
)
OLD = """class Two:
    def __init__(self, x, y):
        self.a, self.b = x, y
async def order(chat):
    x = await chat.ask("Say?")
    y = await chat.ask("Say?")
    t = Two(x, y)
    kept.a = t.a
"""
case(
    "y30 a class's __init__ exchanges",
    OLD,
    swap(OLD, ("        self.a, self.b = x, y", "        self.b, self.a = x, y")),
    "SS",
)
OLD = """class Two:
    def put(self, x, y):
        self.a, self.b = x, y
async def order(chat):
    t = Two()
    x = await chat.ask("Say?")
    y = await chat.ask("Say?")
    t.put(x, y)
    kept.a = t.a
"""
case(
    "y31 a class's method exchanges",
    OLD,
    swap(OLD, ("        self.a, self.b = x, y", "        self.b, self.a = x, y")),
    "SS",
)
OLD = """class Two:
    def __init__(self, x, y):
        self.x, self.y = x, y
    @property
    def a(self):
        return self.x
    @property
    def b(self):
        return self.y
async def order(chat):
    x = await chat.ask("Say?")
    y = await chat.ask("Say?")
    t = Two(x, y)
    kept.a = t.a
"""
case(
    "y32 properties exchange",
    OLD,
    swap(
        OLD,
        (
            """        return self.x
    @property
    def b(self):
        return self.y""",
            """        return self.y
    @property
    def b(self):
        return self.x""",
        ),
    ),
    "SS",
)
OLD = """A, B = "a", "b"
async def order(chat):
    setattr(kept, A, await chat.ask("Say?"))
    setattr(kept, B, await chat.ask("Say?"))
"""
case("y33 slots by setattr names constant", OLD, swap(OLD, ('A, B = "a", "b"', 'A, B = "b", "a"')), "PP")
OLD = """async def order(chat):
    x, *kept.rest = [await chat.ask("Say?") for _ in range(3)]
"""
case(
    "y34 star-unpacking",
    OLD,
    swap(
        OLD,
        (
            '    x, *kept.rest = [await chat.ask("Say?") for _ in range(3)]',
            '    *kept.rest, x = [await chat.ask("Say?") for _ in range(3)]',
        ),
    ),
    "PPP",
)
OLD = """async def order(chat):
    l = [await chat.ask("Say?"), await chat.ask("Say?")]
    kept.a = l[0]
"""
case("y35 list read by place", OLD, swap(OLD, ("    kept.a = l[0]", "    kept.a = l[1]")), "PP")
OLD = """async def order(chat):
    kept.d = {"a": await chat.ask("Say?"), "b": await chat.ask("Say?")}
"""
case(
    "y36 dict display, keys exchanged",
    OLD,
    swap(
        OLD,
        (
            '    kept.d = {"a": await chat.ask("Say?"), "b": await chat.ask("Say?")}',
            '    kept.d = {"b": await chat.ask("Say?"), "a": await chat.ask("Say?")}',
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    kept.a, kept.b = [await chat.ask("Say?") for k in range(2)]
"""
case(
    "y37 slice turned",
    OLD,
    swap(
        OLD,
        (
            '    kept.a, kept.b = [await chat.ask("Say?") for k in range(2)]',
            '    kept.a, kept.b = [await chat.ask("Say?") for k in range(2)][::-1]',
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    l = [await chat.ask("Say?"), await chat.ask("Say?"), await chat.ask("End?")]
    kept.a = l[0]
"""
case(
    "y38 del in between",
    OLD,
    swap(
        OLD,
        (
            '    l = [await chat.ask("Say?"), await chat.ask("Say?"), await chat.ask("End?")]',
            """    l = [await chat.ask("Say?"), await chat.ask("Say?"), await chat.ask("End?")]
    del l[0]""",
        ),
    ),
    "PPP",
)
OLD = """async def order(chat):
    x = await chat.ask("Say?")
    z = 1
    y = await chat.ask("Say?")
"""
case(
    "y39 del of a variable, unrelated",
    OLD,
    swap(
        OLD,
        (
            "    z = 1",
            """    z = 1
    del z""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    n = 0
    n += len(await chat.ask("Say?"))
    n += len(await chat.ask("Say?"))
    kept.n = n
"""
case(
    "y40 augmented, minus for plus, same words",
    OLD,
    swap(
        OLD,
        (
            """    n += len(await chat.ask("Say?"))
    n += len(await chat.ask("Say?"))""",
            """    n += len(await chat.ask("Say?"))
    n -= len(await chat.ask("Say?"))""",
        ),
    ),
    "PP",
    "ab",
)
OLD = """async def order(chat):
    n = 0
    n += len(await chat.ask("How many?"))
    kept.n = n
    await chat.ask("End?")
"""
case(
    "y41 augmented, words tell",
    OLD,
    swap(OLD, ('    n += len(await chat.ask("How many?"))', '    n -= len(await chat.ask("How many?"))')),
    "SS",
)
OLD = """async def order(chat):
    d = {}
    d[await chat.ask("Key?")] = await chat.ask("Value?")
"""
case(
    "y42 subscript store: key and value asked",
    OLD,
    swap(
        OLD,
        (
            '    d[await chat.ask("Key?")] = await chat.ask("Value?")',
            """    v = await chat.ask("Value?")
    d[await chat.ask("Key?")] = v""",
        ),
    ),
    "SS",
)
case(
    "y43 order turned",
    OLD,
    swap(
        OLD,
        (
            '    d[await chat.ask("Key?")] = await chat.ask("Value?")',
            """    k = await chat.ask("Key?")
    d[k] = await chat.ask("Value?")""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    (a, b), c = (await chat.ask("Say?"), await chat.ask("Say?")), await chat.ask("C?")
    kept.a = a
"""
case(
    "y44 nested unpacking exchanged",
    OLD,
    swap(
        OLD,
        (
            '    (a, b), c = (await chat.ask("Say?"), await chat.ask("Say?")), await chat.ask("C?")',
            '    (b, a), c = (await chat.ask("Say?"), await chat.ask("Say?")), await chat.ask("C?")',
        ),
    ),
    "PPP",
)
OLD = """async def order(chat):
    m = len("x") == 1
    x = (await chat.ask("Say?")) if m else (await chat.ask("Say?"))
    kept.a = x
    await chat.ask("End?")
"""
case(
    "y45 conditional expression turned",
    OLD,
    swap(
        OLD,
        (
            '    x = (await chat.ask("Say?")) if m else (await chat.ask("Say?"))',
            '    x = (await chat.ask("Say?")) if not m else (await chat.ask("Say?"))',
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    kept.a = await chat.ask("Say?") < await chat.ask("Say?")
"""
case(
    "y46 chained comparison, same words turned",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.ask("Say?") < await chat.ask("Say?")',
            '    kept.a = await chat.ask("Say?") > await chat.ask("Say?")',
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    kept.a = await chat.ask("A?") < await chat.ask("B?")
"""
case(
    "y47 chained comparison, sign alone, words tell",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.ask("A?") < await chat.ask("B?")',
            '    kept.a = await chat.ask("A?") <= await chat.ask("B?")',
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    n = 0
    while n < 2:
        n += 1
        kept.a = await chat.ask("More?")
    else:
        kept.b = await chat.ask("End?")
"""
case(
    "y48 while/else",
    OLD,
    swap(
        OLD,
        (
            """    else:
        kept.b = await chat.ask("End?")""",
            '    kept.b = await chat.ask("End?")',
        ),
    ),
    "SSS",
)
OLD = """async def order(chat):
    n = 0
    while n < 1:
        n += 1
        x = await chat.ask("Say?")
        kept.a = x
    else:
        y = await chat.ask("Say?")
        kept.b = y
"""
case(
    "y49 while/else, same words, break",
    OLD,
    swap(
        OLD,
        (
            """        kept.a = x
    else:
        y = await chat.ask("Say?")
        kept.b = y""",
            """        kept.b = x
    else:
        y = await chat.ask("Say?")
        kept.a = y""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    match (await chat.ask("Say?"), await chat.ask("Say?")):
        case (x, y):
            kept.a, kept.b = x, y
"""
case(
    "y50 match on a tuple of answers", OLD, swap(OLD, ("        case (x, y):", "        case (y, x):")), "PP"
)
OLD = """async def order(chat):
    match (await chat.ask("A?"), await chat.ask("B?")):
        case (x, y):
            kept.a, kept.b = x, y
"""
case(
    "y51 match on a tuple, words tell", OLD, swap(OLD, ("        case (x, y):", "        case (y, x):")), "SS"
)
OLD = """async def order(chat):
    match await chat.ask("A?"):
        case x if await chat.ask("Say?") == "b":
            kept.a = x
        case _ if await chat.ask("Say?") == "c":
            kept.b = 1
"""
case(
    "y52 a guard that asks, swapped",
    OLD,
    swap(
        OLD,
        (
            """        case x if await chat.ask("Say?") == "b":
            kept.a = x
        case _ if await chat.ask("Say?") == "c":""",
            """        case x if await chat.ask("Say?") == "c":
            kept.a = x
        case _ if await chat.ask("Say?") == "b":""",
        ),
    ),
    "SP",
)
OLD = """async def order(chat):
    try:
        x = await chat.ask("Say?")
        raise ValueError
    except ValueError:
        y = await chat.ask("Say?")
    kept.a, kept.b = x, y
"""
case("y53 except asks", OLD, swap(OLD, ("    kept.a, kept.b = x, y", "    kept.b, kept.a = x, y")), "PP")
OLD = """async def order(chat):
    try:
        a = await chat.ask("A?")
    finally:
        b = await chat.ask("B?")
    kept.a = a
"""
case(
    "y54 try/finally, finally asks, words tell, exchanged",
    OLD,
    swap(
        OLD,
        (
            """        a = await chat.ask("A?")
    finally:
        b = await chat.ask("B?")""",
            """        b = await chat.ask("B?")
    finally:
        a = await chat.ask("A?")""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    a = await chat.ask("A?")
    b = await chat.ask("B?")
    kept.a = a, b
"""
case(
    "y55 try put around",
    OLD,
    swap(
        OLD,
        (
            """    a = await chat.ask("A?")
    b = await chat.ask("B?")""",
            """    try:
        a = await chat.ask("A?")
        b = await chat.ask("B?")
    except KeyError:
        return""",
        ),
    ),
    "SS",
)
case(
    "y56 contextlib.suppress put around",
    OLD,
    swap(
        OLD,
        (
            """    a = await chat.ask("A?")
    b = await chat.ask("B?")""",
            """    import contextlib
    with contextlib.suppress(KeyError):
        a = await chat.ask("A?")
        b = await chat.ask("B?")""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    assert await chat.ask("A?")
    assert await chat.ask("B?")
"""
case(
    "y57 assert asks",
    OLD,
    swap(
        OLD,
        (
            """    assert await chat.ask("A?")
    assert await chat.ask("B?")""",
            """    assert await chat.ask("B?")
    assert await chat.ask("A?")""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    def f(x=await chat.ask("A?"), y=await chat.ask("B?")):
        return x
    kept.a = f()
"""
case(
    "y58 a default of a nested function asks, swapped",
    OLD,
    swap(
        OLD,
        (
            '    def f(x=await chat.ask("A?"), y=await chat.ask("B?")):',
            '    def f(y=await chat.ask("B?"), x=await chat.ask("A?")):',
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    n = 0
    while await chat.ask("Say?") != "c":
        n += 1
    kept.n = n
"""
case(
    "y59 while condition asks",
    OLD,
    swap(OLD, ('    while await chat.ask("Say?") != "c":', '    while await chat.ask("Say?") == "c":')),
    "PPP",
)
OLD = """def make(q, key):
    async def get(chat):
        setattr(kept, key, await chat.ask(q))
    return get
one, two = make("Say?", "a"), make("Say?", "b")
async def order(chat):
    await one(chat)
    await two(chat)
"""
case(
    "y60 closures' keys exchanged",
    OLD,
    swap(
        OLD,
        (
            'one, two = make("Say?", "a"), make("Say?", "b")',
            'one, two = make("Say?", "b"), make("Say?", "a")',
        ),
    ),
    "PP",
)
OLD = """def make(key):
    async def get(chat):
        setattr(kept, key, await chat.ask("Say?"))
    return get
async def order(chat):
    one, two = make("a"), make("b")
    await one(chat)
    await two(chat)
"""
case(
    "y61 closures made within, exchanged",
    OLD,
    swap(OLD, ('    one, two = make("a"), make("b")', '    one, two = make("b"), make("a")')),
    "PP",
)
OLD = """def make(key):
    async def get(chat):
        setattr(kept, key, await chat.ask("Say?"))
    return get
async def order(chat):
    gets = {k: make(k) for k in ("a", "b")}
    for g in gets.values():
        await g(chat)
"""
case(
    "y62 closures in a dict comprehension",
    OLD,
    swap(OLD, ('    gets = {k: make(k) for k in ("a", "b")}', '    gets = {k: make(k) for k in ("b", "a")}')),
    "PP",
)
OLD = """def make(key):
    async def get(chat):
        setattr(kept, key, await chat.ask("Say?"))
    return get
O = {"a": "b", "b": "a"}
async def order(chat):
    await make("a")(chat)
    await make("b")(chat)
"""
case(
    "y63 the maker exchanges",
    OLD,
    swap(
        OLD,
        (
            '        setattr(kept, key, await chat.ask("Say?"))',
            '        setattr(kept, O[key], await chat.ask("Say?"))',
        ),
    ),
    "PP",
)
case(
    "y64 the maker exchanges outside of the inner function",
    OLD,
    swap(
        OLD,
        (
            "def make(key):",
            """def make(key):
    key = O[key]""",
        ),
    ),
    "PP",
)
OLD = """K = ""
async def get(chat):
    setattr(kept, K, await chat.ask("Say?"))
async def order(chat):
    global K
    K = "a"
    await get(chat)
    K = "b"
    await get(chat)
"""
case(
    "y65 a global set in between",
    OLD,
    swap(
        OLD,
        (
            """    K = "a"
    await get(chat)
    K = "b\"""",
            """    K = "b"
    await get(chat)
    K = "a\"""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    k = "a"
    async def get():
        setattr(kept, k, await chat.ask("Say?"))
    await get()
    k = "b"
    await get()
"""
case(
    "y66 a nonlocal set in between",
    OLD,
    swap(
        OLD,
        (
            """    k = "a"
    async def get():
        setattr(kept, k, await chat.ask("Say?"))
    await get()
    k = "b\"""",
            """    k = "b"
    async def get():
        setattr(kept, k, await chat.ask("Say?"))
    await get()
    k = "a\"""",
        ),
    ),
    "PP",
)
OLD = """class C:
    k = ""
async def get(chat):
    setattr(kept, C.k, await chat.ask("Say?"))
async def order(chat):
    C.k = "a"
    await get(chat)
    C.k = "b"
    await get(chat)
"""
case(
    "y67 a class attribute set in between",
    OLD,
    swap(
        OLD,
        (
            """    C.k = "a"
    await get(chat)
    C.k = "b\"""",
            """    C.k = "b"
    await get(chat)
    C.k = "a\"""",
        ),
    ),
    "PP",
)
OLD = """class S:
    k = ""
async def get(chat, s):
    setattr(kept, s.k, await chat.ask("Say?"))
async def order(chat):
    s = S()
    s.k = "a"
    await get(chat, s)
    s.k = "b"
    await get(chat, s)
"""
case(
    "y68 an object's attribute set in between",
    OLD,
    swap(
        OLD,
        (
            """    s.k = "a"
    await get(chat, s)
    s.k = "b\"""",
            """    s.k = "b"
    await get(chat, s)
    s.k = "a\"""",
        ),
    ),
    "PP",
)
OLD = """async def get(chat):
    x = await chat.ask("Say?")
    if kept.a is None:
        kept.a = x
    else:
        kept.b = x
async def order(chat):
    kept.a = None
    await get(chat)
    await get(chat)
"""
case(
    "y69 a key chosen by what was there",
    OLD,
    swap(OLD, ("    if kept.a is None:", "    if kept.a is not None:")),
    "PP",
)
OLD = """async def get(chat, key="a"):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    await get(chat)
    await get(chat, "b")
"""
case(
    "y70 default argument of a helper exchanged",
    OLD,
    swap(OLD, ('async def get(chat, key="a"):', 'async def get(chat, key="c"):')),
    "PP",
)
OLD = """async def get(chat, *, key="a"):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    await get(chat)
    await get(chat, key="b")
"""
case(
    "y71 keyword-only default exchanged",
    OLD,
    swap(OLD, ('async def get(chat, *, key="a"):', 'async def get(chat, *, key="c"):')),
    "PP",
)
OLD = """async def get(chat, *, k="a", j="b"):
    x, y = await chat.ask("Say?"), 1
    setattr(kept, k, x)
    setattr(kept, j, y)
async def order(chat):
    await get(chat)
    await get(chat, k="x")
"""
case(
    "y72 keyword-only parameters exchange their defaults",
    OLD,
    swap(OLD, ('async def get(chat, *, k="a", j="b"):', 'async def get(chat, *, k="b", j="a"):')),
    "PP",
)
OLD = """O = {"a": "b", "b": "a"}
async def get(key, chat):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    await get("a", chat)
    await get("b", chat)
"""
case(
    "y73 chat is the second argument",
    OLD,
    swap(
        OLD,
        (
            "async def get(key, chat):",
            """async def get(key, chat):
    key = O[key]""",
        ),
    ),
    "PP",
)
OLD = """async def get(one, two, chat):
    setattr(kept, one, await chat.ask("Say?"))
async def order(chat):
    await get("a", "b", chat)
    await get("c", "d", chat)
"""
case(
    "y74 two strings before chat, exchanged within",
    OLD,
    swap(
        OLD,
        ('    setattr(kept, one, await chat.ask("Say?"))', '    setattr(kept, two, await chat.ask("Say?"))'),
    ),
    "PP",
)
OLD = """class A:
    key = "a"
    @classmethod
    async def get(cls, chat):
        setattr(kept, cls.key, await chat.ask("Say?"))
class B(A):
    key = "b"
async def order(chat):
    await A.get(chat)
    await B.get(chat)
"""
case(
    "y75 classmethods' keys exchanged",
    OLD,
    swap(
        OLD,
        (
            """    key = "a"
    @classmethod
    async def get(cls, chat):
        setattr(kept, cls.key, await chat.ask("Say?"))
class B(A):
    key = "b\"""",
            """    key = "b"
    @classmethod
    async def get(cls, chat):
        setattr(kept, cls.key, await chat.ask("Say?"))
class B(A):
    key = "a\"""",
        ),
    ),
    "PP",
)
OLD = """class A:
    async def get(self, chat):
        return await chat.ask("Say?")
class B(A):
    async def get(self, chat):
        self.a = await super().get(chat)
        self.b = await super().get(chat)
        kept.a = self.a
async def order(chat):
    await B().get(chat)
"""
case("y76 super's, exchanged", OLD, swap(OLD, ("        kept.a = self.a", "        kept.a = self.b")), "PP")
OLD = """def key(x):
    return {1: "a", 2: "b"}[x]
async def get(chat, x):
    setattr(kept, key(x), await chat.ask("Say?"))
async def order(chat):
    await get(chat, 1)
    await get(chat, 2)
"""
case(
    "y77 a function gives the key, exchanged",
    OLD,
    swap(OLD, ('    return {1: "a", 2: "b"}[x]', '    return {1: "b", 2: "a"}[x]')),
    "PP",
)
OLD = """async def key(x):
    return {1: "a", 2: "b"}[x]
async def get(chat, x):
    k = await key(x)
    setattr(kept, k, await chat.ask("Say?"))
async def order(chat):
    await get(chat, 1)
    await get(chat, 2)
"""
case(
    "y78 an async function gives the key, exchanged",
    OLD,
    swap(OLD, ('    return {1: "a", 2: "b"}[x]', '    return {1: "b", 2: "a"}[x]')),
    "PP",
)
OLD = """async def put(x, y):
    kept.a, kept.b = x, y
async def order(chat):
    x = await chat.ask("Say?")
    y = await chat.ask("Say?")
    await put(x, y)
"""
case(
    "y79 an async function takes the values, body exchanged",
    OLD,
    swap(OLD, ("    kept.a, kept.b = x, y", "    kept.b, kept.a = x, y")),
    "SS",
)
OLD = """async def asks(chat):
    yield await chat.ask("Say?")
    yield await chat.ask("Say?")
async def order(chat):
    g = asks(chat)
    kept.a = await anext(g)
    kept.b = await anext(g)
"""
case(
    "y80 anext of an async generator, exchanged",
    OLD,
    swap(
        OLD,
        (
            """    kept.a = await anext(g)
    kept.b = await anext(g)""",
            """    kept.b = await anext(g)
    kept.a = await anext(g)""",
        ),
    ),
    "PP",
)
OLD = """async def asks(chat):
    yield await chat.ask("Say?")
    yield await chat.ask("Say?")
async def order(chat):
    kept.a = [x async for x in asks(chat) if x != "a"]
"""
case(
    "y81 async generator filtered otherwise",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = [x async for x in asks(chat) if x != "a"]',
            '    kept.a = [x async for x in asks(chat) if x != "b"]',
        ),
    ),
    "PP",
    "ab",
)
OLD = """class Asks:
    def __init__(self, chat, keys):
        self.chat, self.keys = chat, list(keys)
    def __aiter__(self):
        return self
    async def __anext__(self):
        if not self.keys:
            raise StopAsyncIteration
        k = self.keys.pop(0)
        return k, await self.chat.ask("Say?")
async def order(chat):
    async for k, v in Asks(chat, ("a", "b")):
        setattr(kept, k, v)
"""
case(
    "y82 own async iterator, other end",
    OLD,
    swap(OLD, ("        k = self.keys.pop(0)", "        k = self.keys.pop()")),
    "PP",
)
OLD = """class Q:
    def __init__(self, chat, key):
        self.chat, self.key = chat, key
    def __await__(self):
        x = yield from self.chat.ask("Say?").__await__()
        setattr(kept, self.key, x)
        return x
async def order(chat):
    await Q(chat, "a")
    await Q(chat, "b")
"""
case(
    "y83 own awaitable, keys exchanged",
    OLD,
    swap(
        OLD,
        (
            """    await Q(chat, "a")
    await Q(chat, "b")""",
            """    await Q(chat, "b")
    await Q(chat, "a")""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    ask = chat.ask
    a = await ask("A?")
    b = await ask("B?")
"""
case(
    "y84 bound method in a variable",
    OLD,
    swap(
        OLD,
        (
            """    ask = chat.ask
    a = await ask("A?")
    b = await ask("B?")""",
            """    a = await chat.ask("A?")
    b = await chat.ask("B?")""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    from functools import partial
    qa = partial(chat.ask, "A?")
    qb = partial(chat.ask, "B?")
    kept.a = await qa()
    kept.b = await qb()
"""
case(
    "y85 partial of ask, swapped",
    OLD,
    swap(
        OLD,
        (
            """    qa = partial(chat.ask, "A?")
    qb = partial(chat.ask, "B?")""",
            """    qa = partial(chat.ask, "B?")
    qb = partial(chat.ask, "A?")""",
        ),
    ),
    "PP",
)
OLD = """from contextlib import asynccontextmanager
@asynccontextmanager
async def asked(chat, key):
    x = await chat.ask("Say?")
    yield key, x
async def order(chat):
    async with asked(chat, "a") as (k, v):
        setattr(kept, k, v)
    async with asked(chat, "b") as (k, v):
        setattr(kept, k, v)
"""
case(
    "y86 a context manager that asks, keys exchanged",
    OLD,
    swap(
        OLD,
        (
            """    async with asked(chat, "a") as (k, v):
        setattr(kept, k, v)
    async with asked(chat, "b") as (k, v):""",
            """    async with asked(chat, "b") as (k, v):
        setattr(kept, k, v)
    async with asked(chat, "a") as (k, v):""",
        ),
    ),
    "PP",
)
OLD = """from contextlib import asynccontextmanager
@asynccontextmanager
async def asked(chat, key):
    x = await chat.ask("Say?")
    yield key, x
async def order(chat):
    async with asked(chat, 1) as x, asked(chat, 2) as y:
        kept.a, kept.b = x, y
"""
case(
    "y87 names exchanged in one line",
    OLD,
    swap(
        OLD,
        (
            "    async with asked(chat, 1) as x, asked(chat, 2) as y:",
            "    async with asked(chat, 1) as y, asked(chat, 2) as x:",
        ),
    ),
    "PP",
)
OLD = """async def child(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    async with chat.open_nursery() as n:
        n.start_soon(child, chat, "a")
        n.start_soon(child, chat, "b")
"""
case(
    "y88 children's keys exchanged",
    OLD,
    swap(
        OLD,
        (
            """        n.start_soon(child, chat, "a")
        n.start_soon(child, chat, "b")""",
            """        n.start_soon(child, chat, "b")
        n.start_soon(child, chat, "a")""",
        ),
    ),
    "P",
    "a",
)
OLD = """async def child(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
O = {"a": "b", "b": "a"}
async def order(chat):
    async with chat.open_nursery() as n:
        n.start_soon(child, chat, "a")
        n.start_soon(child, chat, "b")
"""
case(
    "y89 a child's key exchanged within",
    OLD,
    swap(
        OLD,
        (
            '    setattr(kept, key, await chat.ask("Say?"))',
            '    setattr(kept, O[key], await chat.ask("Say?"))',
        ),
    ),
    "P",
    "a",
)
OLD = """F = True
if F:
    async def get(chat):
        kept.a = await chat.ask("Say?")
else:
    async def get(chat):
        kept.b = await chat.ask("Say?")
async def order(chat):
    await get(chat)
    await get(chat)
"""
case("y90 function defined under a condition, turned", OLD, swap(OLD, ("if F:", "if not F:")), "PP")
OLD = """async def get(chat):
    kept.a = await chat.ask("Say?")
async def order(chat):
    await get(chat)
    await chat.ask("End?")
"""
case(
    "y91 two definitions of one name, the later wins",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.ask("Say?")',
            """    kept.a = await chat.ask("Say?")
async def get(chat):
    kept.b = await chat.ask("Say?")""",
        ),
    ),
    "PP",
)
OLD = """def first(f):
    async def run(chat):
        kept.a = await chat.ask("Say?")
        await f(chat)
    return run
def second(f):
    async def run(chat):
        kept.b = await chat.ask("Say?")
        await f(chat)
    return run
@first
@second
async def real(chat):
    await chat.ask("End?")
async def order(chat):
    await real(chat)
"""
case(
    "y92 decorators that ask exchanged",
    OLD,
    swap(
        OLD,
        (
            """@first
@second""",
            """@second
@first""",
        ),
    ),
    "PPP",
)
case(
    "y93 helper moved to another module, alias kept",
    {
        "shop": """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    await get(chat, "a")
    await get(chat, "b")
"""
    },
    {
        "shop": """from tools import get
async def order(chat):
    await get(chat, "a")
    await get(chat, "b")
""",
        "tools": """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
""",
    },
    "SS",
)
case(
    "y94 helper renamed and moved",
    {
        "shop": """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    await get(chat, "a")
    await get(chat, "b")
"""
    },
    {
        "shop": """import tools
async def order(chat):
    await tools.take(chat, "a")
    await tools.take(chat, "b")
""",
        "tools": """async def take(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
""",
    },
    "PP",
    truth="SS",
)
OLD = """async def order(chat):
    x = await chat.ask("Name?")
    kept.a = x
    await chat.ask("End?")
"""
case(
    "y95 words once, another variable and another place",
    OLD,
    swap(
        OLD,
        (
            """    x = await chat.ask("Name?")
    kept.a = x""",
            """    who = await chat.ask("Name?")
    kept.person = who""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    kept.a = await chat.ask("Name?", otherwise=None)
    await chat.ask("End?")
"""
case(
    "y96 long call broken over lines",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.ask("Name?", otherwise=None)',
            """    kept.a = await chat.ask(
        "Na"
        "me?",
        otherwise=None,
    )""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    kept.a = await chat.ask("🍎?")
    kept.b = await chat.ask("🍐?")
"""
case(
    "y97 emoji words exchanged",
    OLD,
    swap(
        OLD,
        (
            """    kept.a = await chat.ask("🍎?")
    kept.b = await chat.ask("🍐?")""",
            """    kept.a = await chat.ask("🍐?")
    kept.b = await chat.ask("🍎?")""",
        ),
    ),
    "PP",
)
OLD = """TEA, CAKE = "Tea", "Cake"
async def order(chat):
    kept.a = await chat.choose("Which?", {"a": TEA, "b": CAKE})
    await chat.ask("End?")
"""
case(
    "y98 options' names exchanged",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.choose("Which?", {"a": TEA, "b": CAKE})',
            '    kept.a = await chat.choose("Which?", {"a": CAKE, "b": TEA})',
        ),
    ),
    "PP",
)
OLD = """TEA = "Tea"
CAKE = "Cake"
async def order(chat):
    kept.a = await chat.choose("Which?", {"a": TEA, "b": CAKE})
    await chat.ask("End?")
"""
case(
    "y99 options' constants exchanged",
    OLD,
    swap(
        OLD,
        (
            """TEA = "Tea"
CAKE = "Cake\"""",
            """TEA = "Cake"
CAKE = "Tea\"""",
        ),
    ),
    "PP",
)
OLD = """T = {"t": "Tea", "c": "Cake"}
async def order(chat):
    kept.a = await chat.choose("Which?", {"a": T["t"], "b": T["c"]})
    await chat.ask("End?")
"""
case(
    "y100 options from a catalogue, keys exchanged",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.choose("Which?", {"a": T["t"], "b": T["c"]})',
            '    kept.a = await chat.choose("Which?", {"a": T["c"], "b": T["t"]})',
        ),
    ),
    "PP",
)
OLD = """LABELS = {"a": "Tea", "b": "Cake"}
async def order(chat):
    kept.a = await chat.choose("Which?", {k: LABELS[k] for k in ("a", "b")})
    await chat.ask("End?")
"""
case(
    "y101 options of a comprehension, values exchanged",
    OLD,
    swap(OLD, ('LABELS = {"a": "Tea", "b": "Cake"}', 'LABELS = {"b": "Tea", "a": "Cake"}')),
    "PP",
)
OLD = """async def order(chat):
    o = {"a": "Tea"}
    o.update(b="Cake")
    kept.a = await chat.choose("Which?", o)
    await chat.ask("End?")
"""
case(
    "y102 options updated in place",
    OLD,
    swap(
        OLD,
        (
            """    o = {"a": "Tea"}
    o.update(b="Cake")""",
            """    o = {"a": "Cake"}
    o.update(b="Tea")""",
        ),
    ),
    "PP",
)
OLD = """TEA, CAKE = "Tea", "Cake"
async def order(chat):
    kept.a = await chat.choose("Which?", {"a": f"* {TEA}", "b": f"* {CAKE}"})
    await chat.ask("End?")
"""
case(
    "y103 options with an f-string around, exchanged",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.choose("Which?", {"a": f"* {TEA}", "b": f"* {CAKE}"})',
            '    kept.a = await chat.choose("Which?", {"a": f"* {CAKE}", "b": f"* {TEA}"})',
        ),
    ),
    "PP",
)
OLD = """from enum import Enum
class E(Enum):
    a = "Tea"
    b = "Cake"
async def order(chat):
    kept.a = await chat.choose("Which?", {e.name: e.value for e in E})
    await chat.ask("End?")
"""
case(
    "y104 options from an enum exchanged",
    OLD,
    swap(
        OLD,
        (
            """    a = "Tea"
    b = "Cake\"""",
            """    a = "Cake"
    b = "Tea\"""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    kept.a = await chat.choose("Which?", {"a": "{}!".format("Tea"), "b": "{}!".format("Cake")})
    await chat.ask("End?")
"""
case(
    "y105 options' labels by format, exchanged",
    OLD,
    swap(
        OLD,
        (
            '    kept.a = await chat.choose("Which?", {"a": "{}!".format("Tea"), "b": "{}!".format("Cake")})',
            '    kept.a = await chat.choose("Which?", {"a": "{}!".format("Cake"), "b": "{}!".format("Tea")})',
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    o = {}
    o.setdefault("a", "Tea")
    o.setdefault("b", "Cake")
    kept.a = await chat.choose("Which?", o)
    await chat.ask("End?")
"""
case(
    "y106 options by setdefault",
    OLD,
    swap(
        OLD,
        (
            """    o.setdefault("a", "Tea")
    o.setdefault("b", "Cake")""",
            """    o.setdefault("a", "Cake")
    o.setdefault("b", "Tea")""",
        ),
    ),
    "PP",
)
OLD = """TEA = "Tea"
CAKE = "Cake"
async def order(chat):
    kept.a = await chat.choose("Which?", {"a": TEA, "b": CAKE})
    await chat.ask("End?")
"""
case(
    "y107 options translated",
    OLD,
    swap(
        OLD,
        (
            """TEA = "Tea"
CAKE = "Cake\"""",
            """TEA = "Tee"
CAKE = "Kuchen\"""",
        ),
    ),
    "RR",
)
case(
    "y108 an option's label was the other's in other case",
    OLD,
    swap(
        OLD,
        (
            """TEA = "Tea"
CAKE = "Cake\"""",
            """TEA = "tea"
CAKE = "cake\"""",
        ),
    ),
    "RR",
)
case(
    "y109 options' words exchanged and reworded",
    OLD,
    swap(
        OLD,
        (
            """TEA = "Tea"
CAKE = "Cake\"""",
            """TEA = "Some cake"
CAKE = "Some tea\"""",
        ),
    ),
    "RR",
)
OLD = """async def order(chat):
    ks = ["a", "b"]
    while ks:
        k = ks.pop()
        setattr(kept, k, await chat.ask("Say?"))
"""
case("y110 while and pop, other end", OLD, swap(OLD, ("        k = ks.pop()", "        k = ks.pop(0)")), "PP")
OLD = """async def order(chat):
    for k in "name city".split():
        setattr(kept, k, await chat.ask(f"Your {k}?"))
"""
case(
    "y111 words split, exchanged",
    OLD,
    swap(OLD, ('    for k in "name city".split():', '    for k in "city name".split():')),
    "PP",
)
OLD = """async def order(chat):
    for k in "ab":
        setattr(kept, k, await chat.ask(f"Give {k}?"))
"""
case("y112 string gone over, turned", OLD, swap(OLD, ('    for k in "ab":', '    for k in "ba":')), "PP")
OLD = """async def order(chat):
    for n, k in enumerate(("a", "b")):
        setattr(kept, k, await chat.ask("Say?"))
"""
case(
    "y113 a loop's variable kept under another name",
    OLD,
    swap(
        OLD,
        (
            '        setattr(kept, k, await chat.ask("Say?"))',
            '        setattr(kept, f"q{n}", await chat.ask("Say?"))',
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    for k in ("a", "b", "c"):
        setattr(kept, k, await chat.ask("Say?"))
"""
case(
    "y114 continue put in",
    OLD,
    swap(
        OLD,
        (
            '    for k in ("a", "b", "c"):',
            """    for k in ("a", "b", "c"):
        if k == "a":
            continue""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    for k in ("a", "b", "c"):
        x = await chat.ask("Say?")
        setattr(kept, k, x)
"""
case(
    "y115 break put in behind",
    OLD,
    swap(
        OLD,
        (
            "        setattr(kept, k, x)",
            """        setattr(kept, k, x)
        if x == "stop":
            break""",
        ),
    ),
    "PPP",
    truth="SSS",
)
OLD = """async def order(chat):
    n = 0
    for _ in range(2):
        n += 1
        setattr(kept, f"k{n}", await chat.ask("Say?"))
"""
case("y116 a counter that begins elsewhere", OLD, swap(OLD, ("    n = 0", "    n = 1")), "PP")
OLD = """async def order(chat):
    n = 5
    for _ in range(2):
        n += 1
        setattr(kept, f"k{n}", await chat.ask("Say?"))
"""
case("y117 a counter counts the other way", OLD, swap(OLD, ("        n += 1", "        n -= 1")), "PP")
OLD = """async def order(chat):
    n = 0
    for _ in range(2):
        n += 1
        setattr(kept, f"k{n}", await chat.ask("Say?"))
"""
case(
    "y118 counted behind in place of before",
    OLD,
    swap(
        OLD,
        (
            """        n += 1
        setattr(kept, f"k{n}", await chat.ask("Say?"))""",
            """        setattr(kept, f"k{n}", await chat.ask("Say?"))
        n += 1""",
        ),
    ),
    "PP",
)
OLD = """async def order(chat):
    r = []
    for _ in range(2):
        r.append(await chat.ask("Say?"))
    for k, v in zip(("a", "b"), r):
        setattr(kept, k, v)
"""
case(
    "y119 list filled, then zipped otherwise",
    OLD,
    swap(OLD, ('    for k, v in zip(("a", "b"), r):', '    for k, v in zip(("b", "a"), r):')),
    "PP",
)
OLD = """async def order(chat):
    r = []
    for _ in range(2):
        r.append(await chat.ask("Say?"))
    kept.a, kept.b = r
"""
case(
    "y120 inserted at the front in place of the end",
    OLD,
    swap(OLD, ('        r.append(await chat.ask("Say?"))', '        r.insert(0, await chat.ask("Say?"))')),
    "PP",
)
OLD = """async def order(chat):
    from collections import deque
    r = deque()
    for _ in range(2):
        r.append(await chat.ask("Say?"))
    kept.a = r.popleft()
"""
case("y121 deque turned", OLD, swap(OLD, ("    kept.a = r.popleft()", "    kept.a = r.pop()")), "PP")
OLD = """async def order(chat):
    r = [await chat.ask("Say?") for _ in range(2)]
    kept.a = min(r)
"""
case("y122 min for max", OLD, swap(OLD, ("    kept.a = min(r)", "    kept.a = max(r)")), "PP", "ab")
OLD = """async def order(chat):
    if len("x") == 1:
        kept.x = chat.random().random()
    kept.y = chat.random().random()
    await chat.ask("End?")
"""
case(
    "y123 a draw under a condition that turned",
    OLD,
    swap(OLD, ('    if len("x") == 1:', '    if len("x") != 1:')),
    "P",
    "a",
)
OLD = """async def order(chat):
    t = chat.now()
    await chat.ask("A?")
    await chat.ask("End?")
"""
case(
    "y124 now moved behind",
    OLD,
    swap(
        OLD,
        (
            """    t = chat.now()
    await chat.ask("A?")""",
            """    await chat.ask("A?")
    t = chat.now()""",
        ),
    ),
    "SS",
)
OLD = """from triobot import Field
from typing import Annotated
import attrs
@attrs.frozen
class Who:
    name: Annotated[str, Field("First")]
    city: Annotated[str, Field("Second")] = ""
async def order(chat):
    kept.who = await chat.fill(Who, "Who?")
    await chat.ask("End?")
"""
case(
    "y125 a form's labels exchanged",
    OLD,
    swap(
        OLD,
        (
            """    name: Annotated[str, Field("First")]
    city: Annotated[str, Field("Second")] = "\"""",
            """    name: Annotated[str, Field("Second")]
    city: Annotated[str, Field("First")] = "\"""",
        ),
    ),
    "PP",
)
OLD = """from triobot import Field
from typing import Annotated
import attrs
@attrs.frozen
class Who:
    name: Annotated[str, Field("First")]
    city: Annotated[str, Field("Second")] = ""
async def order(chat):
    kept.who = await chat.fill(Who, "Who?", labels={"name": "First", "city": "Second"})
    await chat.ask("End?")
"""
case(
    "y126 a form's labels by argument exchanged",
    OLD,
    swap(
        OLD,
        (
            '    kept.who = await chat.fill(Who, "Who?", labels={"name": "First", "city": "Second"})',
            '    kept.who = await chat.fill(Who, "Who?", labels={"name": "Second", "city": "First"})',
        ),
    ),
    "PP",
)
OLD = """from triobot import Field
from typing import Annotated
import attrs
@attrs.frozen
class Who:
    name: Annotated[str, Field("First")]
    city: Annotated[str, Field("Second")] = ""
async def order(chat):
    kept.who = await chat.fill(Who, "Who?")
    await chat.ask("End?")
"""
case(
    "y127 a form's labels reworded",
    OLD,
    swap(
        OLD,
        (
            """    name: Annotated[str, Field("First")]
    city: Annotated[str, Field("Second")] = "\"""",
            """    name: Annotated[str, Field("Given name")]
    city: Annotated[str, Field("Town")] = "\"""",
        ),
    ),
    "RR",
)
OLD = """from triobot import Field
from typing import Annotated
import attrs
@attrs.frozen
class Who:
    name: Annotated[str, Field("First")]
    city: Annotated[str, Field("Second")] = ""
@attrs.frozen
class Whom:
    name: str
async def order(chat):
    kept.who = await chat.fill(Who, "Who?")
    await chat.ask("End?")
"""
case(
    "y128 another form in its place",
    OLD,
    swap(
        OLD, ('    kept.who = await chat.fill(Who, "Who?")', '    kept.who = await chat.fill(Whom, "Who?")')
    ),
    "PP",
)
OLD = """async def order(chat):
    for k in ("a", "b", "c"):
        setattr(kept, k, await chat.ask("Say?"))
"""
case(
    "y129 an if put around in a loop",
    OLD,
    swap(
        OLD,
        (
            '        setattr(kept, k, await chat.ask("Say?"))',
            """        if k != "a":
            setattr(kept, k, await chat.ask("Say?"))""",
        ),
    ),
    "PP",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    for k in ("a", "b", "c"):
        await get(chat, k)
"""
case(
    "y130 a helper in a loop returns early",
    OLD,
    swap(
        OLD,
        (
            "async def get(chat, key):",
            """async def get(chat, key):
    if key == 'a':
        return""",
        ),
    ),
    "PP",
)
case(
    "y131 a helper in a loop asks under a condition",
    OLD,
    swap(
        OLD,
        (
            '    setattr(kept, key, await chat.ask("Say?"))',
            """    if key != 'a':
        setattr(kept, key, await chat.ask("Say?"))""",
        ),
    ),
    "PP",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    for k in ("a", "b", "c"):
        try:
            await get(chat, k)
        except ValueError:
            pass
"""
case(
    "y132 a helper that raises, in a loop",
    OLD,
    swap(
        OLD,
        (
            "async def get(chat, key):",
            """async def get(chat, key):
    if key == 'a':
        raise ValueError""",
        ),
    ),
    "PP",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    for k in ("a", "b", "c"):
        await get(chat, k)
"""
case(
    "y133 a decorator on a helper in a loop skips",
    OLD,
    """def skips(f):
    async def run(chat, key):
        if key != "a":
            await f(chat, key)
    return run
@skips
async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    for k in ("a", "b", "c"):
        await get(chat, k)
""",
    "PP",
)
case(
    "y134 filter() put around what is gone over",
    OLD,
    swap(OLD, ('    for k in ("a", "b", "c"):', '    for k in filter(lambda k: k != "a", ("a", "b", "c")):')),
    "PP",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
def wanted(k):
    return True
async def order(chat):
    for k in filter(wanted, ("a", "b", "c")):
        await get(chat, k)
"""
case(
    "y135 takewhile with a function, its body changed",
    OLD,
    swap(OLD, ("    return True", '    return k != "a"')),
    "PP",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    for k in ("a", "b", "c"):
        await get(chat, k)
"""
case(
    "y136 an assertion in a helper",
    OLD,
    swap(
        OLD,
        (
            "async def get(chat, key):",
            """async def get(chat, key):
    assert key""",
        ),
    ),
    "SS",
)
case(
    "y137 a log line in a helper",
    OLD,
    swap(
        OLD,
        (
            "async def get(chat, key):",
            """async def get(chat, key):
    print(key)""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    for n in range(2):
        x = await chat.ask("Name?")
        y = await chat.ask("City?")
"""
case(
    "y138 an if around in a loop, words tell",
    OLD,
    swap(
        OLD,
        (
            '        y = await chat.ask("City?")',
            """        if x:
            y = await chat.ask("City?")""",
        ),
    ),
    "PPP",
    truth="SSS",
)
OLD = """async def get(chat):
    kept.a = await chat.ask("Say?")
g = get
async def order(chat):
    await g(chat)
    await chat.ask("End?")
"""
case(
    "y139 a helper called once is handed on as a value, words tell",
    OLD,
    swap(OLD, ('    kept.a = await chat.ask("Say?")', '    kept.b = await chat.ask("Say?")')),
    "PP",
    "ab",
    truth="SS",
)
OLD = """async def order(chat):
    for k in ("a", "b", "c"):
        setattr(kept, k, await chat.ask("Say?"))
    await chat.ask("End?")
"""
case(
    "y140 a loop's variable renamed",
    OLD,
    swap(
        OLD,
        (
            """    for k in ("a", "b", "c"):
        setattr(kept, k, await chat.ask("Say?"))""",
            """    for key in ("a", "b", "c"):
        setattr(kept, key, await chat.ask("Say?"))""",
        ),
    ),
    "SSSS",
)
case(
    "y141 a log line in a loop",
    OLD,
    swap(
        OLD,
        (
            '    for k in ("a", "b", "c"):',
            """    for k in ("a", "b", "c"):
        print(k)""",
        ),
    ),
    "SSS",
)
case(
    "y142 a comment and a blank line in a loop",
    OLD,
    swap(
        OLD,
        (
            '    for k in ("a", "b", "c"):',
            """    for k in ("a", "b", "c"):
        # one after the other
    """,
        ),
    ),
    "SSS",
)
OLD = """KS = ("a", "b", "c")
async def order(chat):
    for k in ("a", "b", "c"):
        setattr(kept, k, await chat.ask("Say?"))
    await chat.ask("End?")
"""
case(
    "y143 the loop's list becomes a constant",
    OLD,
    swap(OLD, ('    for k in ("a", "b", "c"):', "    for k in KS:")),
    "SSS",
)
OLD = """async def order(chat):
    for k in ("a", "b", "c"):
        setattr(kept, k, await chat.ask("Say?"))
    await chat.ask("End?")
"""
case(
    "y144 the value goes through a variable",
    OLD,
    swap(
        OLD,
        (
            '        setattr(kept, k, await chat.ask("Say?"))',
            """        value = await chat.ask("Say?")
        setattr(kept, k, value)""",
        ),
    ),
    "PPP",
    truth="SSS",
)
OLD = """NAME = "Name?"
async def order(chat):
    a = await chat.ask("Name?")
    b = await chat.ask("City?")
    kept.a = a, b
"""
case(
    "y145 words become a constant",
    OLD,
    swap(OLD, ('    a = await chat.ask("Name?")', "    a = await chat.ask(NAME)")),
    "PP",
    truth="SS",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    await get(chat, "a")
    await get(chat, "b")
"""
case(
    "y146 a helper gains a default argument",
    OLD,
    swap(OLD, ("async def get(chat, key):", "async def get(chat, key, loud=False):")),
    "SS",
)
case(
    "y147 a helper's argument renamed",
    OLD,
    swap(
        OLD,
        (
            """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))""",
            """async def get(chat, what):
    setattr(kept, what, await chat.ask("Say?"))""",
        ),
    ),
    "SS",
)
case(
    "y148 a helper's types",
    OLD,
    swap(OLD, ("async def get(chat, key):", "async def get(chat: object, key: str) -> None:")),
    "SS",
)
case(
    "y149 a helper's docstring",
    OLD,
    swap(OLD, ("async def get(chat, key):", 'async def get(chat, key):\n    """Ask."""')),
    "SS",
)
case(
    "y150 a call by keyword",
    OLD,
    swap(
        OLD,
        (
            """    await get(chat, "a")
    await get(chat, "b")""",
            """    await get(chat, key="a")
    await get(chat, key="b")""",
        ),
    ),
    "PP",
    "ab",
    truth="SS",
)
OLD = """async def order(chat):
    a = await chat.ask("Name?")
    b = await chat.ask("City?")
    kept.a = a, b
"""
case(
    "y151 a parser is put on",
    OLD,
    swap(OLD, ('    a = await chat.ask("Name?")', '    a = await chat.ask("Name?", str.strip)')),
    "SS",
)
OLD = """def clean(x):
    return x.strip().title()
async def order(chat):
    a = await chat.ask("Name?")
    kept.a = a.strip().title()
    await chat.ask("End?")
"""
case(
    "y152 a plain function takes what was written in place",
    OLD,
    swap(OLD, ("    kept.a = a.strip().title()", "    kept.a = clean(a)")),
    "SS",
)
OLD = """async def order(chat):
    n = 0
    while True:
        x = await chat.ask(f"Number {n}?")
        n += 1
"""
case("y153 while True counts otherwise", OLD, swap(OLD, ("    while True:", "    while 1:")), "SSS")
OLD = """async def order(chat):
    a = await chat.ask("Name?")
    b = await chat.ask("City?")
    kept.a = a, b
"""
case(
    "y154 a message behind where people wait",
    OLD,
    swap(
        OLD,
        (
            '    b = await chat.ask("City?")',
            """    b = await chat.ask("City?")
    await chat.send("Thanks.")""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    a = await chat.ask("Name?")
    b = await chat.ask("City?")
"""
case(
    "y155 a module-level import and a constant",
    OLD,
    """import json
LIMIT = 5
async def order(chat):
    a = await chat.ask("Name?")
    b = await chat.ask("City?")
""",
    "SS",
)
OLD = """async def get(chat, key):
    setattr(kept, key, await chat.ask("Say?"))
async def order(chat):
    await get(chat, "a")
    await get(chat, "b")
"""
case(
    "y156 another route's helper is added",
    OLD,
    swap(
        OLD,
        (
            '    setattr(kept, key, await chat.ask("Say?"))',
            """    setattr(kept, key, await chat.ask("Say?"))
async def other(chat):
    return await chat.ask("Else?")""",
        ),
    ),
    "SS",
)
OLD = """async def order(chat):
    a = await chat.ask("Name?")
    await chat.ask("End?")
    kept.a = a
"""
case(
    "y157 another function says the same words",
    OLD,
    """async def other(chat):
    return await chat.ask("Name?")
async def order(chat):
    a = await chat.ask("Name?")
    await chat.ask("End?")
    kept.a = a
""",
    "SS",
)
OLD = """def clean(x):
    return x.strip()
async def order(chat):
    for k in ("a", "b"):
        setattr(kept, k, clean(await chat.ask("Say?")))
"""
case(
    "y158 a plain function's body within a loop's value",
    OLD,
    swap(OLD, ("    return x.strip()", "    return x.strip().lower()")),
    "SS",
)
OLD = """async def order(chat):
    for k in ("a", "b", "c"):
        setattr(kept, k, await chat.ask("Say?"))
    await chat.ask("End?")
"""
case(
    "y159 types in a loop",
    OLD,
    swap(
        OLD,
        (
            "async def order(chat):",
            """async def order(chat):
    k: str""",
        ),
    ),
    "SSS",
)
OLD = """async def order(chat):
    a = await chat.ask("Name?")
    b = await chat.choose("Which?", {"a": "Tea", "b": "Cake"})
    await chat.ask("End?")
"""
case(
    "y160 asks with options written down",
    OLD,
    swap(
        OLD,
        (
            '    b = await chat.choose("Which?", {"a": "Tea", "b": "Cake"})',
            """    options = {"a": "Tea", "b": "Cake"}
    b = await chat.choose("Which?", options)""",
        ),
    ),
    "SSS",
)
OLD = """async def look(n):
    return n
async def order(chat):
    x = await chat.step(look, 1)
    await chat.ask("End?")
"""
case(
    "y161 a step's function gains a docstring",
    OLD,
    swap(OLD, ("async def look(n):", 'async def look(n):\n    """Look."""')),
    "S",
    "a",
)
OLD = """async def look(n):
    return n
async def order(chat):
    d = {"n": 1}
    x = await chat.step(look, d)
    await chat.ask("End?")
"""
case(
    "y162 a step's draft, a message behind",
    OLD,
    swap(
        OLD,
        (
            '    await chat.ask("End?")',
            """    await chat.ask("End?")
    await chat.send(f"{x}")""",
        ),
    ),
    "S",
    "a",
)
OLD = """async def look(n):
    return n
async def order(chat):
    d = {"n": await chat.ask("Many?")}
    x = await chat.step(look, d)
    kept.x = x
    await chat.ask("End?")
"""
case(
    "y163 a step's draft, its use changed",
    OLD,
    swap(OLD, ("    kept.x = x", "    kept.y = x, 1")),
    "SS",
    "ab",
)
case(
    "y164 a question's own words reworded before a step with a draft",
    OLD,
    swap(OLD, ('    d = {"n": await chat.ask("Many?")}', '    d = {"n": await chat.ask("How many?")}')),
    "RR",
    "ab",
)
OLD = """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city
"""
case(
    "y165 an if behind",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = name, city",
            """    kept.a = name, city
    if name == city:
        await chat.send("!")""",
        ),
    ),
    "SS",
)
case(
    "y166 a use in between",
    OLD,
    swap(
        OLD,
        (
            '    name = await chat.ask("Name?")',
            """    name = await chat.ask("Name?")
    kept.n = len(name)""",
        ),
    ),
    "SS",
)
case("y167 a use taken out", OLD, swap(OLD, ("    kept.a = name, city", "")), "SS")
case(
    "y168 values into a dict",
    OLD,
    swap(OLD, ("    kept.a = name, city", '    kept.a = {"name": name, "city": city}')),
    "SS",
)
case(
    "y169 values into a class",
    OLD,
    swap(
        OLD,
        (
            """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city""",
            """class Who:
    def __init__(self, name, city):
        self.name, self.city = name, city
async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = Who(name, city)""",
        ),
    ),
    "SS",
)
case(
    "y170 a loop that asks comes behind",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = name, city",
            """    kept.a = name, city
    for k in "ab":
        await chat.ask("Else?")""",
        ),
    ),
    "SS",
)
case(
    "y171 a step behind",
    OLD,
    swap(
        OLD,
        (
            """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city""",
            """async def save(name):
    return 1
async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city
    await chat.step(save, name)""",
        ),
    ),
    "SS",
)
case(
    "y172 a return behind",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = name, city",
            """    kept.a = name, city
    return""",
        ),
    ),
    "SS",
)
case(
    "y173 both words translated",
    OLD,
    swap(
        OLD,
        (
            """    name = await chat.ask("Name?")
    city = await chat.ask("City?")""",
            """    name = await chat.ask("Wie heißt du?")
    city = await chat.ask("Wo wohnst du?")""",
        ),
    ),
    "RR",
)
case(
    "y174 an emoji put in front",
    OLD,
    swap(OLD, ('    city = await chat.ask("City?")', '    city = await chat.ask("🏙 City?")')),
    "SR",
)
case(
    "y175 a helper that neither asks nor sends is called between",
    OLD,
    swap(
        OLD,
        (
            """async def order(chat):
    name = await chat.ask("Name?")""",
            """def note(name):
    kept.n = name
async def order(chat):
    name = await chat.ask("Name?")
    note(name)""",
        ),
    ),
    "SS",
)
case(
    "y176 all in a helper",
    OLD,
    swap(
        OLD,
        (
            """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city""",
            """async def both(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city
async def order(chat):
    await both(chat)""",
        ),
    ),
    "SS",
)
case(
    "y177 the answer is stripped",
    OLD,
    swap(OLD, ('    name = await chat.ask("Name?")', '    name = (await chat.ask("Name?")).strip()')),
    "SS",
)
case(
    "y178 the chat kept in a class",
    OLD,
    swap(
        OLD,
        (
            """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city""",
            """class Flow:
    def __init__(self, chat):
        self.chat = chat
    async def run(self):
        name = await self.chat.ask("Name?")
        city = await self.chat.ask("City?")
        kept.a = name, city
async def order(chat):
    await Flow(chat).run()""",
        ),
    ),
    "SS",
)
case(
    "y179 a scope with a deadline behind",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = name, city",
            """    kept.a = name, city
    with chat.move_on_after(60):
        await chat.ask("Else?")""",
        ),
    ),
    "SS",
)
case(
    "y180 both unpacked at once",
    OLD,
    swap(
        OLD,
        (
            """    name = await chat.ask("Name?")
    city = await chat.ask("City?")""",
            '    name, city = await chat.ask("Name?"), await chat.ask("City?")',
        ),
    ),
    "SS",
)
case(
    "y181 a global constant used behind",
    OLD,
    swap(
        OLD,
        (
            """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city""",
            """LIMIT = 5
async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    kept.a = name, city, LIMIT""",
        ),
    ),
    "SS",
)
case(
    "y182 del of an answer",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = name, city",
            """    kept.a = name, city
    del name""",
        ),
    ),
    "SS",
)
case(
    "y183 a match behind",
    OLD,
    swap(
        OLD,
        (
            "    kept.a = name, city",
            """    kept.a = name, city
    match name:
        case "x":
            return""",
        ),
    ),
    "SS",
)

BOTH = """async def order(chat):
    many = await chat.ask("How many?")
    kept.a = int(many)
    await chat.ask("End?")
"""
NEW = swap(BOTH, ("How many?", "How many cakes?"), ("kept.a", "kept.cakes"))
case("z01 words and use changed at once", BOTH, NEW, "PP", "1b")
SAID = [("order", *(f"_.ask('{words}')" for words in ("How many?", "How many cakes?")))]
WAYS.append(attrs.evolve(WAYS[-1], name="z02 ... accepted", expect="RR", accepted=SAID))
PRICE = """async def price(what):
    return what
"""
GOODS = f"""from functools import partial
{PRICE}one = partial(price, "a")
two = partial(price, "b")
"""
OLD = """from goods import one, two
async def order(chat):
    kept.a = await chat.step(one)
    kept.b = await chat.step(two)
    await chat.ask("End?")
"""
case(
    "z03 partial steps of another module, definitions exchanged",
    {"shop": OLD, "goods": GOODS},
    {"shop": OLD, "goods": swap(GOODS, ('"a")', '"c")'), ('"b")', '"a")'), ('"c")', '"b")'))},
    "P",
    "a",
)
case(
    "z04 partial steps, their function's body changed",
    {"shop": OLD, "goods": GOODS},
    {"shop": OLD, "goods": swap(GOODS, ("    return what", "    return what * 2"))},
    "S",
    "a",
)
OLD = """from goods import price
async def order(chat):
    x = await chat.step(price, 1)
    await chat.ask("End?")
"""
case(
    "z05 a step's function moved to another module, its import follows",
    {"shop": OLD, "goods": PRICE, "ships": ""},
    {"shop": swap(OLD, ("from goods", "from ships")), "goods": "", "ships": PRICE},
    "S",
    "a",
)
