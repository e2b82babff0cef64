"""Changes of code under open conversations, and what has to become of each person.

``expect`` says it for whoever has given no answer, one, two and so on: S same, R reworded, A asked again, P
parked. ``truth`` differs from it where somebody is parked who could have gone on: those are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

Files = Mapping[str, str]


@attrs.frozen
class Change:
    """A change of a bot's modules.

    Attributes:
        answers: of somebody who answers all.
        lines: what must be in the recorded line of the first who is parked, and in the present one.
        between: a build in the middle, with what is answered under it.
    """

    name: str
    old: Files
    new: Files
    expect: str
    answers: Sequence[str]
    truth: str = ""
    route: str = "shop.order"
    formerly: Mapping[str, str] = attrs.field(factory=dict)
    accepted: Sequence[tuple[str, str, str]] = ()
    lines: tuple[str, ...] = ()
    with_source: bool = True
    between: tuple[str, Sequence[str]] | None = None


CHANGES: list[Change] = []


def case(
    name: str, old: str | Files, new: str | Files, expect: str, answers: Sequence[str], **more: object
) -> None:
    CHANGES.append(Change(name, _files(old), _files(new), expect, answers, **more))  # type: ignore[arg-type]


def _files(text: str | Files) -> Files:
    return {"shop": text} if isinstance(text, str) else text


def swap(text: str, *pairs: tuple[str, str]) -> str:
    for one, other in pairs:
        assert one in text, one
        text = text.replace(one, other)
    return text


BASE = """class Draft:
    def __init__(self, name, size):
        self.name, self.size = name, size

async def save(draft):
    return len(draft.name)

async def order(chat):
    name = await chat.ask("Name?")
    size = await chat.choose("Size?", {"s": "Small", "l": "Large"})
    draft = Draft(name, size)
    number = await chat.step(save, draft)
    await chat.send(f"Order {number}.")
    when = await chat.ask("When?")
    await chat.ask("Note?")
    await chat.send(f"{name} {size} {when} {number}")
"""
WHO = ["Nora", "s", "tomorrow at nine", "ring twice"]  # stands: at Name, at Size, at When, at Note, done
WHEN = '    when = await chat.ask("When?")\n'
NOTE = '    await chat.ask("Note?")\n'

# --- the twenty of the author's review
case(
    "c01 variable renamed",
    BASE,
    swap(
        BASE,
        ("size = await", "big = await"),
        ("Draft(name, size)", "Draft(name, big)"),
        ("{name} {size}", "{name} {big}"),
    ),
    "SSSS",
    WHO[:3],
)
case(
    "c02 question before a choose",
    BASE,
    swap(BASE, ("    size = await", '    phone = await chat.ask("Phone?")\n    size = await')),
    "SPPP",
    WHO[:3],
    lines=("Size?", "Phone?"),
)
case(
    "c03 question after",
    BASE,
    swap(BASE, (NOTE, '    await chat.ask("Floor?")\n' + NOTE)),
    "SSSP",
    WHO[:3],
    lines=("Note?", "Floor?"),
)
case(
    "c04 answered question removed",
    BASE,
    swap(BASE, ('    name = await chat.ask("Name?")\n', '    name = "you"\n')),
    "PPPP",
    WHO[:3],
    lines=("Name?", "Size?"),
)
case(
    "c05 question removed",
    BASE,
    swap(BASE, (WHEN, '    when = "now"\n')),
    "SSPP",
    WHO[:3],
    lines=("When?", "Note?"),
)
case(
    "c06 ask and choose reordered",
    BASE,
    swap(
        BASE,
        ('    name = await chat.ask("Name?")\n', ""),
        ('"Large"})\n', '"Large"})\n    name = await chat.ask("Name?")\n'),
    ),
    "PPPP",
    WHO[:3],
)
case(
    "c07 route's function renamed, told",
    BASE,
    swap(BASE, ("async def order", "async def buy")),
    "SSSS",
    WHO[:3],
    formerly={"shop.order": "shop.buy"},
)
case(
    "c07b route's function renamed, not told",
    BASE,
    swap(BASE, ("async def order", "async def buy")),
    "PPPP",
    WHO[:3],
)
case(
    "c08 class gains a field",
    BASE,
    swap(BASE, ("def __init__(self, name, size)", 'def __init__(self, name, size, phone="")')),
    "SSSS",
    WHO[:3],
)
case("c09 step's function renamed", BASE, swap(BASE, ("save", "store")), "SSSS", WHO[:3])
case("c10 words", BASE, swap(BASE, ("Size?", "What size?"), ("Small", "Little")), "SRRR", WHO[:3])
case(
    "c11 two asks swapped",
    BASE,
    swap(BASE, (WHEN + NOTE, '    note = await chat.ask("Note?")\n    when = await chat.ask("When?")\n')),
    "SSPP",
    WHO[:3],
    lines=("When?", "Note?"),
)
case("c12 send removed", BASE, swap(BASE, ('    await chat.send(f"Order {number}.")\n', "")), "SSPP", WHO[:3])
case(
    "c13 send inserted before the wait",
    BASE,
    swap(BASE, (WHEN, '    await chat.send("Almost done.")\n' + WHEN)),
    "SSPP",
    WHO[:3],
    lines=("When?", "Almost"),
)
case("c14 option replaced", BASE, swap(BASE, ('"s": "Small"', '"m": "Medium"')), "SAPP", WHO[:3])
case(
    "c14b option replaced, the other one chosen",
    BASE,
    swap(BASE, ('"s": "Small"', '"m": "Medium"')),
    "SARR",
    ["Nora", "l", "now"],
)
case(
    "c15 new question patched",
    BASE,
    swap(
        BASE,
        (
            "    size = await",
            '    phone = ""\n    if chat.patched("phone"):\n        phone = await chat.ask("Phone?")\n'
            "    size = await",
        ),
    ),
    "SSSS",
    WHO[:3],
)
case(
    "c16 text becomes a number",
    BASE,
    swap(
        BASE,
        ('name = await chat.ask("Name?")', 'name = await chat.ask("Name?", int)'),
        ("Draft(name, size)", "Draft(str(name), size)"),
    ),
    "SSSS",
    ["12", "s", "now"],
)
case(
    "c16b ... which the answer is not",
    BASE,
    swap(
        BASE,
        ('name = await chat.ask("Name?")', 'name = await chat.ask("Name?", int)'),
        ("Draft(name, size)", "Draft(str(name), size)"),
    ),
    "SPPP",
    WHO[:3],
)
C17 = swap(
    BASE,
    (WHEN, '    phone = await chat.ask("Phone?")\n' + WHEN),
    ("{when} {number}", "{when} {number} phone={phone}"),
)
case("c17 ask before ask", BASE, C17, "SSPP", WHO[:3], lines=("When?", "Phone?"))
case("c18 nothing", BASE, BASE, "SSSS", WHO[:3])
case(
    "c20 c17 patched",
    BASE,
    swap(
        C17,
        (
            '    phone = await chat.ask("Phone?")\n',
            '    phone = ""\n    if chat.patched("phone"):\n        phone = await chat.ask("Phone?")\n',
        ),
    ),
    "SSSS",
    WHO[:3],
)

# --- steps
STEPS = """async def price(cake):
    return 250_000

async def stock(cake):
    return 7

async def order(chat):
    rials = await chat.step(price, "lemon")
    pieces = await chat.step(stock, "lemon")
    await chat.ask("Shall I order?")
    await chat.send(f"price {rials}, pieces {pieces}")
"""
P, Q = '    rials = await chat.step(price, "lemon")\n', '    pieces = await chat.step(stock, "lemon")\n'
case("d01 two steps swapped (case_06)", STEPS, swap(STEPS, (P + Q, Q + P)), "P", [], lines=("price", "stock"))
case(
    "d02 steps without arguments swapped",
    STEPS.replace(', "lemon"', "").replace("(cake)", "()"),
    swap(STEPS, (P + Q, Q + P)).replace(', "lemon"', "").replace("(cake)", "()"),
    "P",
    [],
)
case(
    "d03 a step replaced",
    STEPS,
    swap(STEPS, ("rials = await chat.step(price,", "rials = await chat.step(stock,")),
    "P",
    [],
)
case("d04 a step's argument changed", STEPS, swap(STEPS, ('price, "lemon"', 'price, "orange"')), "P", [])
case(
    "d12 a step's argument changed, accepted",
    STEPS,
    swap(STEPS, ('price, "lemon"', 'price, "orange"')),
    "S",
    [],
    accepted=[("order", "_.step(price, 'lemon')", "_.step(price, 'orange')")],
)
case(
    "d13 a step gains an argument",
    STEPS.replace('step(price, "lemon")', "step(price)").replace("price(cake)", "price(cake=1)"),
    STEPS.replace("price(cake)", "price(cake=1)"),
    "P",
    [],
    lines=("price", "lemon"),
)
case(
    "d05 two steps' functions swapped in place",
    STEPS,
    swap(STEPS, ("step(price,", "step(X,"), ("step(stock,", "step(price,"), ("step(X,", "step(stock,")),
    "P",
    [],
)
case("d06 a step's body changed", STEPS, swap(STEPS, ("250_000", "260_000")), "S", [])
case(
    "d07 a step's function renamed and its body kept",
    STEPS,
    swap(STEPS, ("price(", "cost("), ("step(price", "step(cost")),
    "S",
    [],
)
case(
    "d08 a step's function renamed and its body changed",
    STEPS,
    swap(STEPS, ("price(", "cost("), ("step(price", "step(cost"), ("250_000", "9")),
    "P",
    [],
    truth="S",
)
case(
    "d09 ... told",
    STEPS,
    swap(STEPS, ("price(", "cost("), ("step(price", "step(cost"), ("250_000", "9")),
    "S",
    [],
    formerly={"shop.price": "shop.cost"},
)
case(
    "d10 same function, arguments swapped",
    STEPS.replace("stock, ", "price, ").replace(
        'pieces = await chat.step(price, "lemon")', 'pieces = await chat.step(price, "orange")'
    ),
    swap(
        STEPS.replace("stock, ", "price, ").replace(
            'pieces = await chat.step(price, "lemon")', 'pieces = await chat.step(price, "lemon")'
        ),
        ('rials = await chat.step(price, "lemon")', 'rials = await chat.step(price, "orange")'),
    ),
    "P",
    [],
)
case(
    "d11 step moved into a module",
    {"shop": STEPS},
    {
        "shop": "from goods import price\n"
        + STEPS.replace("async def price(cake):\n    return 250_000\n", ""),
        "goods": "async def price(cake):\n    return 250_000\n",
    },
    "S",
    [],
)

# --- questions
TWO = """async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    await chat.ask("ok?")
    await chat.send(f"name {name} city {city}")
"""
N, C = '    name = await chat.ask("Name?")\n', '    city = await chat.ask("City?")\n'
case(
    "e01 two asks swapped with their variables",
    TWO,
    swap(TWO, (N + C, C + N)),
    "PPP",
    ["Sara", "Shiraz"],
    lines=("Name?", "City?"),
)
case(
    "e02 two asks' words swapped",
    TWO,
    swap(TWO, ("Name?", "X"), ("City?", "Name?"), ("X", "City?")),
    "PPP",
    ["Sara", "Shiraz"],
)
case(
    "e03 two asks' variables swapped: the words say what was answered",
    TWO,
    swap(TWO, ("    name =", "    X ="), ("    city =", "    name ="), ("    X =", "    city =")),
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "e04 all words translated",
    TWO,
    swap(TWO, ("Name?", "نام؟"), ("City?", "شهر؟"), ("ok?", "خوب؟")),
    "RRR",
    ["Sara", "Shiraz"],
)
case(
    "e05 words and variable changed together",
    TWO,
    swap(TWO, ('name = await chat.ask("Name?")', 'phone = await chat.ask("Phone?")'), ("{name}", "{phone}")),
    "PPP",
    ["Sara", "Shiraz"],
    lines=("Name?", "Phone?"),
)
case(
    "e06 ... accepted",
    TWO,
    swap(
        TWO, ('name = await chat.ask("Name?")', 'who = await chat.ask("Who are you?")'), ("{name}", "{who}")
    ),
    "RRR",
    ["Sara", "Shiraz"],
    accepted=[("order", "_.ask('Name?')", "_.ask('Who are you?')")],
)
case(
    "e07 inserted before, first question",
    TWO,
    swap(TWO, (N, '    mail = await chat.ask("E-mail?")\n' + N)),
    "PPP",
    ["Sara", "Shiraz"],
    lines=("Name?", "E-mail?"),
)
case(
    "e08 in blocks, swapped",
    """async def order(chat):
    with chat.move_on_after(100):
        await chat.ask("Name?")
    with chat.move_on_after(100):
        await chat.ask("City?")
    await chat.ask("ok?")
""",
    """async def order(chat):
    with chat.move_on_after(100):
        await chat.ask("City?")
    with chat.move_on_after(100):
        await chat.ask("Name?")
    await chat.ask("ok?")
""",
    "PPP",
    ["Sara", "Shiraz"],
    lines=("Name?", "City?"),
)
case(
    "e09 a draw inserted",
    """async def order(chat):
    x = chat.random().randrange(100)
    await chat.ask("guess?")
""",
    """async def order(chat):
    chat.random().random()
    x = chat.random().randrange(100)
    await chat.ask("guess?")
""",
    "PP",
    ["5"],
)
case(
    "e10 two draws swapped: nothing is recorded of them",
    """async def order(chat):
    dice = chat.random().randrange(100)
    card = chat.random().randrange(100)
    await chat.ask(f"guess? {dice} {card}")
""",
    """async def order(chat):
    card = chat.random().randrange(100)
    dice = chat.random().randrange(100)
    await chat.ask(f"guess? {dice} {card}")
""",
    "PP",
    ["5"],
)
ANY = """async def order(chat):
    answer = await chat.ask("Name?")
    chat.name = answer
    answer = await chat.ask("City?")
    chat.city = answer
    await chat.ask("ok?")
"""
case(
    "e11 one variable for all, inserted",
    ANY,
    swap(
        ANY,
        (
            '    answer = await chat.ask("City?")',
            '    answer = await chat.ask("Phone?")\n    chat.phone = answer\n'
            '    answer = await chat.ask("City?")',
        ),
    ),
    "SPP",
    ["Sara", "Shiraz"],
    lines=("City?", "Phone?"),
)
case(
    "e12 one variable for all, the last replaced",
    ANY,
    swap(ANY, ("City?", "Phone?"), ("chat.city", "chat.phone")),
    "SPP",
    ["Sara", "Shiraz"],
)
case(
    "e13 nested in a call: arguments swapped",
    """async def order(chat):
    chat.order = (await chat.ask("Name?"), await chat.ask("City?"))
    await chat.ask("ok?")
""",
    """async def order(chat):
    chat.order = (await chat.ask("City?"), await chat.ask("Name?"))
    await chat.ask("ok?")
""",
    "PPP",
    ["Sara", "Shiraz"],
)
case(
    "e14 equal questions, one taken out",
    """async def order(chat):
    await chat.ask("More?")
    await chat.ask("More?")
    await chat.ask("ok?")
""",
    """async def order(chat):
    await chat.ask("More?")
    await chat.ask("ok?")
""",
    "PPP",
    ["a", "b"],
    truth="SPP",
)
case(
    "e15 receive, with a question put before it",
    """async def order(chat):
    await chat.send("When?")
    when = await chat.receive()
    await chat.ask("ok?")
""",
    """async def order(chat):
    await chat.send("When?")
    phone = await chat.ask("Phone?")
    when = await chat.receive()
    await chat.ask("ok?")
""",
    "PP",
    ["nine"],
)
case(
    "e16 two receives swapped",
    """async def order(chat):
    await chat.send("Name and city, please.")
    name = await chat.receive()
    city = await chat.receive()
    await chat.ask(f"ok, {name} of {city}?")
""",
    """async def order(chat):
    await chat.send("Name and city, please.")
    city = await chat.receive()
    name = await chat.receive()
    await chat.ask(f"ok, {name} of {city}?")
""",
    "PPP",
    ["Sara", "Shiraz"],
)
case(
    "e17 a price in the words",
    """PRICE = 100
async def order(chat):
    yes = await chat.ask(f"It costs {PRICE}. Take it?")
    await chat.ask("ok?")
""",
    """PRICE = 120
async def order(chat):
    yes = await chat.ask(f"It costs {PRICE}. Take it?")
    await chat.ask("ok?")
""",
    "RR",
    ["yes"],
)
case(
    "e18 validator added",
    TWO,
    swap(TWO, ('"City?")', '"City?", lambda said: said.strip())')),
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "e19 validation loop put around",
    TWO,
    swap(
        TWO,
        (N, '    while True:\n        name = await chat.ask("Name?")\n        if name:\n            break\n'),
    ),
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "e20 put into an if that is true",
    TWO,
    swap(TWO, (C, '    if name:\n        city = await chat.ask("City?")\n')),
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "e21 branches swapped, condition too",
    """async def order(chat):
    new = await chat.ask("New here?")
    if new == "yes":
        name = await chat.ask("Name?")
    else:
        name = await chat.ask("Number?")
    await chat.ask("ok?")
""",
    """async def order(chat):
    new = await chat.ask("New here?")
    if new != "yes":
        name = await chat.ask("Number?")
    else:
        name = await chat.ask("Name?")
    await chat.ask("ok?")
""",
    "SSS",
    ["yes", "Sara"],
)
case(
    "e22 branches swapped, condition not",
    """async def order(chat):
    new = await chat.ask("New here?")
    if new == "yes":
        name = await chat.ask("Name?")
    else:
        name = await chat.ask("Number?")
    await chat.ask("ok?")
""",
    """async def order(chat):
    new = await chat.ask("New here?")
    if new == "yes":
        name = await chat.ask("Number?")
    else:
        name = await chat.ask("Name?")
    await chat.ask("ok?")
""",
    "SPP",
    ["yes", "Sara"],
)
case(
    "e23 two sends reworded",
    BASE,
    swap(
        BASE,
        ('f"Order {number}."', 'f"Your order is number {number}."'),
        ('f"{name} {size} {when} {number}"', 'f"{name}: {size}, {when} ({number})"'),
    ),
    "SSRR",
    WHO[:3],
)
case(
    "e24 the last line dropped: over where somebody waited",
    TWO,
    swap(TWO, ('    await chat.ask("ok?")\n', "")),
    "SSP",
    ["Sara", "Shiraz"],
)

case(
    "e28 a receive put in front, which takes over the other's variable",
    """async def order(chat):
    answer = await chat.receive()
    chat.name = answer
    await chat.ask("ok?")
""",
    """async def order(chat):
    answer = await chat.receive()
    chat.city = answer
    said = await chat.receive()
    chat.name = said
    await chat.ask("ok?")
""",
    "PP",
    ["Sara"],
)
BLOCKS = """async def order(chat):
    with chat.move_on_after(100):
        name = await chat.ask("Name?")
    with chat.move_on_after(100):
        city = await chat.ask("City?")
    await chat.ask("ok?")
"""
case("e25 how long blocks last", BLOCKS, BLOCKS.replace("100", "300"), "SSS", ["Sara", "Shiraz"])
case(
    "e26 one block put around both",
    BLOCKS,
    swap(BLOCKS, ("    with chat.move_on_after(100):\n        city", "        city")),
    "PPP",
    ["Sara", "Shiraz"],
    truth="SPP",
)
case(
    "e27 another kind of block",
    BLOCKS,
    BLOCKS.replace("move_on_after(100):\n        name", "fail_after(100):\n        name"),
    "PPP",
    ["Sara", "Shiraz"],
)

# --- loops and data
LOOP = """QUESTIONS = ["Name?", "City?", "Colour?"]
async def order(chat):
    answers = []
    for question in QUESTIONS:
        answers.append(await chat.ask(question))
    await chat.send(" ".join(answers))
"""
case("f01 loop, list reworded", LOOP, swap(LOOP, ("City?", "Which city?")), "SRR", ["Sara", "Shiraz"])
case(
    "f02 loop, inserted in front",
    LOOP,
    swap(LOOP, ('["Name?"', '["Phone?", "Name?"')),
    "PPP",
    ["Sara", "Shiraz"],
)
case(
    "f03 loop, swapped", LOOP, swap(LOOP, ('"Name?", "City?"', '"City?", "Name?"')), "PPP", ["Sara", "Shiraz"]
)
case(
    "f04 loop, inserted behind",
    LOOP,
    swap(LOOP, ('"Colour?"]', '"Colour?", "Note?"]')),
    "SSS",
    ["Sara", "Shiraz"],
)
case("f05 loop, one taken out", LOOP, swap(LOOP, ('"City?", ', "")), "SPP", ["Sara", "Shiraz"])
case(
    "f12 loop, translated, and one put in front at once",
    LOOP,
    swap(LOOP, ('["Name?", "City?", "Colour?"]', '["تلفن؟", "نام؟", "شهر؟", "رنگ؟"]')),
    "PPP",
    ["Sara", "Shiraz"],
)
case(
    "f13 loop, translated",
    LOOP,
    swap(LOOP, ('["Name?", "City?", "Colour?"]', '["نام؟", "شهر؟", "رنگ؟"]')),
    "RRR",
    ["Sara", "Shiraz"],
)
DATA = """QUESTIONS = ["Size?"]
async def order(chat):
    said = await chat.ask(QUESTIONS[0])
    chat.size = said
    await chat.ask("ok?")
"""
case(
    "f14 words in data and what is done with the answer, replaced",
    DATA,
    swap(DATA, ("Size?", "City?"), ("chat.size", "chat.city")),
    "PP",
    ["big"],
)
case(
    "f06 loop becomes a comprehension",
    LOOP,
    swap(
        LOOP,
        (
            """    answers = []
    for question in QUESTIONS:
        answers.append(await chat.ask(question))
""",
            "    answers = [await chat.ask(question) for question in QUESTIONS]\n",
        ),
    ),
    "PPP",
    ["Sara", "Shiraz"],
    truth="SSS",
)
COMP = swap(
    LOOP,
    (
        """    answers = []
    for question in QUESTIONS:
        answers.append(await chat.ask(question))
""",
        "    answers = [await chat.ask(question) for question in QUESTIONS]\n",
    ),
)
case(
    "f07 comprehension, list reworded", COMP, swap(COMP, ("City?", "Which city?")), "SRR", ["Sara", "Shiraz"]
)
case(
    "f08 constants' values swapped",
    """NAME, CITY = "Name?", "City?"
async def order(chat):
    name = await chat.ask(NAME)
    city = await chat.ask(CITY)
    await chat.ask("ok?")
""",
    """NAME, CITY = "City?", "Name?"
async def order(chat):
    name = await chat.ask(NAME)
    city = await chat.ask(CITY)
    await chat.ask("ok?")
""",
    "PPP",
    ["Sara", "Shiraz"],
)
case(
    "f09 a constant reworded",
    """NAME, CITY = "Name?", "City?"
async def order(chat):
    name = await chat.ask(NAME)
    city = await chat.ask(CITY)
    await chat.ask("ok?")
""",
    """NAME, CITY = "Your name?", "City?"
async def order(chat):
    name = await chat.ask(NAME)
    city = await chat.ask(CITY)
    await chat.ask("ok?")
""",
    "RRR",
    ["Sara", "Shiraz"],
)
case(
    "f10 words by key from another module (gettext)",
    {
        "shop": """from texts import _
async def order(chat):
    name = await chat.ask(_("name"))
    await chat.ask(_("city"))
""",
        "texts": """T = {"name": "Name?", "city": "City?"}
def _(key):
    return T[key]
""",
    },
    {
        "shop": """from texts import _
async def order(chat):
    name = await chat.ask(_("name"))
    await chat.ask(_("city"))
""",
        "texts": """T = {"name": "نام؟", "city": "شهر؟"}
def _(key):
    return T[key]
""",
    },
    "RR",
    ["Sara"],
)
case(
    "f11 steps in a loop, data swapped",
    """CAKES = ["lemon", "apple"]
async def price(cake):
    return len(cake)
async def order(chat):
    prices = {}
    for cake in CAKES:
        prices[cake] = await chat.step(price, cake)
    await chat.ask("ok?")
""",
    """CAKES = ["apple", "lemon"]
async def price(cake):
    return len(cake)
async def order(chat):
    prices = {}
    for cake in CAKES:
        prices[cake] = await chat.step(price, cake)
    await chat.ask("ok?")
""",
    "PP",
    ["x"],
)

# --- helpers, decorators, modules
HELP = """async def text_of(chat, question):
    said = await chat.ask(question)
    return said.strip()

async def order(chat):
    name = await text_of(chat, "Name?")
    city = await text_of(chat, "City?")
    await chat.ask("ok?")
    await chat.send(f"{name} {city}")
"""
HN, HC = '    name = await text_of(chat, "Name?")\n', '    city = await text_of(chat, "City?")\n'
case("g01 helper, swapped", HELP, swap(HELP, (HN + HC, HC + HN)), "PPP", ["Sara", "Shiraz"])
case(
    "g02 helper, inserted",
    HELP,
    swap(HELP, (HC, '    phone = await text_of(chat, "Phone?")\n' + HC)),
    "SPP",
    ["Sara", "Shiraz"],
)
case("g03 helper, reworded", HELP, swap(HELP, ('"City?"', '"Which city?"')), "SRR", ["Sara", "Shiraz"])
case("g04 helper renamed", HELP, swap(HELP, ("text_of", "ask_text")), "SSS", ["Sara", "Shiraz"])
case(
    "g05 helper changed inside",
    HELP,
    swap(HELP, ("said.strip()", "said.strip().lower()")),
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "g06 question moved into a helper",
    TWO,
    'async def name_of(chat):\n    return await chat.ask("Name?")\n\n'
    + swap(TWO, ('name = await chat.ask("Name?")', "name = await name_of(chat)")),
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "g07 ... and back",
    'async def name_of(chat):\n    return await chat.ask("Name?")\n\n'
    + swap(TWO, ('name = await chat.ask("Name?")', "name = await name_of(chat)")),
    TWO,
    "SSS",
    ["Sara", "Shiraz"],
)
DECO = """def logged(fn):
    async def within(chat):
        await fn(chat)
    return within

"""
case("g08 decorator put on", TWO, DECO + "@logged\n" + TWO, "SSS", ["Sara", "Shiraz"])
case("g09 decorator taken off", DECO + "@logged\n" + TWO, TWO, "SSS", ["Sara", "Shiraz"])
case(
    "g10 decorator, and a question inserted",
    DECO + "@logged\n" + TWO,
    DECO + "@logged\n" + swap(TWO, (N, '    mail = await chat.ask("E-mail?")\n' + N)),
    "PPP",
    ["Sara", "Shiraz"],
)
case(
    "g11 helper's callers: one becomes two",
    """async def it(chat):
    return await chat.ask("Item?")

async def order(chat):
    first = await it(chat)
    await chat.ask("ok?")
""",
    """async def it(chat):
    return await chat.ask("Item?")

async def order(chat):
    zero = await it(chat)
    first = await it(chat)
    await chat.ask("ok?")
""",
    "PP",
    ["a"],
)
case(
    "g12 helper moved into another module",
    HELP,
    {
        "shop": "from tools import text_of\n" + HELP.partition("\n\n")[2],
        "tools": HELP.partition("\n\n")[0] + "\n",
    },
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "g13 module renamed, told",
    TWO,
    {"bakery": TWO},
    "SSS",
    ["Sara", "Shiraz"],
    formerly={"shop.order": "bakery.order"},
)
case(
    "g14 lambda parser changed",
    swap(TWO, ('"City?")', '"City?", lambda said: said.strip())')),
    swap(TWO, ('"City?")', '"City?", lambda said: said.title())')),
    "SSS",
    ["Sara", "Shiraz"],
)
case(
    "g15 nested function",
    """async def order(chat):
    async def both(what):
        return await chat.ask(f"{what} name?"), await chat.ask(f"{what} city?")
    sender = await both("Sender's")
    receiver = await both("Receiver's")
    await chat.ask("ok?")
""",
    """async def order(chat):
    async def both(what):
        return await chat.ask(f"{what} name?"), await chat.ask(f"{what} city?")
    receiver = await both("Receiver's")
    sender = await both("Sender's")
    await chat.ask("ok?")
""",
    "PPPP",
    ["a", "b", "c"],
)
case(
    "g16 two methods of one name in two classes",
    """class A:
    async def go(self, chat):
        return await chat.ask("A?")
class B:
    async def go(self, chat):
        return await chat.ask("B?")
async def order(chat):
    a = await A().go(chat)
    b = await B().go(chat)
    await chat.ask("ok?")
""",
    """class A:
    async def go(self, chat):
        return await chat.ask("A?")
class B:
    async def go(self, chat):
        return await chat.ask("B?")
async def order(chat):
    b = await B().go(chat)
    a = await A().go(chat)
    await chat.ask("ok?")
""",
    "PPP",
    ["a", "b"],
)

# --- children
KIDS = """async def name(chat):
    chat.name = await chat.step(ask_name)
async def city(chat):
    chat.city = await chat.step(ask_city)
async def ask_name():
    return "Sara"
async def ask_city():
    return "Shiraz"
async def order(chat):
    await chat.together(name, city)
    await chat.ask("ok?")
"""
case("h01 children swapped", KIDS, swap(KIDS, ("together(name, city)", "together(city, name)")), "PP", ["x"])
case(
    "h02 children kept, a line before",
    KIDS,
    swap(KIDS, ("    await chat.together", "    print if 0 else None\n    await chat.together")),
    "SS",
    ["x"],
)

# --- format, versions, no source
case(
    "i01 formatted anew",
    BASE,
    swap(
        BASE,
        ('{"s": "Small", "l": "Large"}', '{\n        "s": "Small",\n        "l": "Large",\n    }'),
        (
            "    draft = Draft(name, size)\n",
            "    # the draft\n\n    draft = Draft(\n        name,\n        size,\n    )\n",
        ),
    ),
    "SSSS",
    WHO[:3],
)
case("i02 chat renamed", BASE, BASE.replace("chat", "c"), "SSSS", WHO[:3])
case(
    "i03 docstring and comments",
    BASE,
    swap(
        BASE, ("async def order(chat):\n", 'async def order(chat):\n    """Take an order."""\n    # first\n')
    ),
    "SSSS",
    WHO[:3],
)
case("i04 quotes", BASE, BASE.replace('"', "'"), "SSSS", WHO[:3])
case(
    "i05 no source, nothing changed",
    BASE,
    BASE,
    "SSSS",
    WHO[:3],
    with_source=False,
)
case(
    "i06 no source, words changed",
    BASE,
    swap(BASE, ("Size?", "What size?")),
    "SPPP",
    WHO[:3],
    truth="SRRR",
    with_source=False,
)
case(
    "i07 no source, asks swapped",
    BASE,
    swap(BASE, (WHEN + NOTE, '    note = await chat.ask("Note?")\n    when = await chat.ask("When?")\n')),
    "SSPP",
    WHO[:3],
    with_source=False,
)
case("i08 no source, ask before ask", BASE, C17, "SSPP", WHO[:3], with_source=False)
case(
    "i09 types written down",
    BASE,
    swap(
        BASE,
        ("async def order(chat):", "async def order(chat: object) -> None:"),
        ("    when = await", "    when: str = await"),
    ),
    "SSSS",
    WHO[:3],
)

# --- an answer that may have got another value on its way
USUAL = """async def save(first, second):
    pass

async def order(chat):
    a = await chat.ask("Text?")
    if not a:
        a = "none"
    b = await chat.ask("Text?")
    if b == "none":
        b = ""
    else:
        await chat.send("Thanks.")
    await chat.step(save, a, b)
    await chat.ask("Note?")
"""
case(
    "u01 uses exchanged behind a usual value",
    USUAL,
    swap(USUAL, ("save, a, b", "save, b, a")),
    "PPP",
    ["one", "two"],
)
case("u02 something new behind it", USUAL, USUAL + '    await chat.ask("More?")\n', "SSS", ["one", "two"])

# --- several builds in one journal
case(
    "j01 reworded twice, between a question added behind",
    TWO,
    swap(TWO, ("Name?", "Your name, please?"), ('"ok?")\n', '"fine?")\n    await chat.ask("more?")\n')),
    "RR",
    ["Sara", "Shiraz"],
    between=(
        swap(TWO, ("Name?", "Your name?"), ('"ok?")\n', '"ok?")\n    await chat.ask("more?")\n')),
        ["Tabriz"],
    ),
)
case(
    "j02 swapped after a deploy that fitted",
    TWO,
    swap(TWO, (C + '    await chat.ask("ok?")\n', '    await chat.ask("ok?")\n' + C)),
    "PP",
    ["Sara", "Shiraz"],
    between=(swap(TWO, ("Name?", "Your name?")), ["Tabriz"]),
)
