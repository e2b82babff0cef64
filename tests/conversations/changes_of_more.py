"""Changes around what only the runtime has: forms, charges, widgets, live messages, hooks, children."""

from __future__ import annotations

from tests.exact.changes import Change, Files, swap

MORE: list[Change] = []


def case(
    name: str, old: str | Files, new: str | Files, expect: str, answers: list[str], truth: str = ""
) -> None:
    old, new = ({"shop": one} if isinstance(one, str) else one for one in (old, new))
    MORE.append(Change(name, old, new, expect, answers, truth))


FORM = """import attrs

@attrs.frozen
class Who:
    name: str

async def order(chat):
    who = await chat.fill(Who, "Who are you?")
    city = await chat.ask("City?")
    await chat.send(f"{who.name} {city}")
"""
FILL, CITY = '    who = await chat.fill(Who, "Who are you?")\n', '    city = await chat.ask("City?")\n'
case("k01 a form reworded", FORM, swap(FORM, ("Who are you?", "Your name, please")), "RR", ["Sara"])
case(
    "k02 an ask before a form",
    FORM,
    swap(FORM, (FILL, CITY.replace("C", "B").replace("c", "b") + FILL)),
    "PP",
    ["Sara"],
)
case(
    "k03 an ask behind a form",
    FORM,
    swap(FORM, (CITY, '    age = await chat.ask("Age?")\n' + CITY)),
    "SP",
    ["Sara"],
)
case("k04 a form becomes an ask", FORM, swap(FORM, ("fill(Who, ", "ask(")), "PP", ["Sara"])
case(
    "k05 a form gains a field",
    FORM,
    swap(FORM, ("name: str\n", 'name: str\n    note: str = ""\n')),
    "RR",
    ["Sara"],
)
case("k06 a form and an ask swapped", FORM, swap(FORM, (FILL + CITY, CITY + FILL)), "PP", ["Sara"])
case(
    "k07 a form in a helper",
    FORM,
    "import attrs\n"
    + swap(
        FORM,
        ("import attrs\n", ""),
        (
            "async def order",
            'async def who_of(chat):\n    return await chat.fill(Who, "Who are you?")\n\nasync def order',
        ),
        ('await chat.fill(Who, "Who are you?")\n    city', "await who_of(chat)\n    city"),
    ),
    "SS",
    ["Sara"],
)

PAID = """async def give(chat):
    pass

async def order(chat):
    size = await chat.ask("Size?")
    await chat.charge(50_000, "Cake", item=1)
    when = await chat.ask("When?")
    await chat.send(f"{size} {when}")
"""
CHARGE = '    await chat.charge(50_000, "Cake", item=1)\n'
PAYS = ["big", "pays"]
case("l01 a charge reworded", PAID, swap(PAID, ("Cake", "A cake")), "SSS", PAYS)
case(
    "l02 an ask before a charge",
    PAID,
    swap(PAID, (CHARGE, '    name = await chat.ask("Name?")\n' + CHARGE)),
    "SPP",
    PAYS,
)
case("l03 a charge removed", PAID, swap(PAID, (CHARGE, "")), "SPP", PAYS)
case(
    "l04 a question replaced by a charge",
    PAID,
    swap(PAID, ('    size = await chat.ask("Size?")\n', CHARGE.replace("Cake", "Box"))),
    "PPP",
    PAYS,
)
case("l05 a charge behind", PAID, PAID + CHARGE.replace("Cake", "Tip"), "SSS", PAYS)
case("l06 another price", PAID, swap(PAID, ("50_000", "60_000")), "SSS", PAYS)
case("l07 another item", PAID, swap(PAID, ("item=1", "item=2")), "SSS", PAYS)
TWICE = swap(PAID, (CHARGE, CHARGE + CHARGE.replace("Cake", "Tea")))
case(
    "l08 two charges swapped",
    TWICE,
    swap(TWICE, (CHARGE, ""), ('"Tea", item=1)\n', '"Tea", item=1)\n' + CHARGE)),
    "SPPP",
    [*PAYS, "pays"],
)

WIDGET = """from triobot import widgets

async def order(chat):
    name = await chat.ask("Name?")
    sure = await widgets.confirm(chat, "Sure?")
    many = await widgets.rating(chat, "How good?")
    await chat.send(f"{name} {sure} {many}")
"""
SURE, MANY = (
    '    sure = await widgets.confirm(chat, "Sure?")\n',
    '    many = await widgets.rating(chat, "How good?")\n',
)
case("m01 a widget reworded", WIDGET, swap(WIDGET, ("Sure?", "Are you sure?")), "SR", ["Sara"])
case("m02 two widgets swapped", WIDGET, swap(WIDGET, (SURE + MANY, MANY + SURE)), "SP", ["Sara"])
case(
    "m03 an ask before a widget",
    WIDGET,
    swap(WIDGET, (SURE, '    city = await chat.ask("City?")\n' + SURE)),
    "SP",
    ["Sara"],
)
case("m04 a widget removed", WIDGET, swap(WIDGET, (SURE, "    sure = True\n")), "SP", ["Sara"])
case(
    "m05 a widget behind",
    WIDGET,
    swap(WIDGET, (MANY, '    await widgets.confirm(chat, "Really?")\n' + MANY)),
    "SS",
    ["Sara"],
)
case(
    "m06 a widget becomes another",
    WIDGET,
    swap(WIDGET, ('confirm(chat, "Sure?")', 'rating(chat, "Sure?")')),
    "SP",
    ["Sara"],
)

HELD = """async def draw():
    return 7

async def around(room, call):
    number = await room.step(draw)
    await call()

async def order(chat):
    name = await chat.ask("Name?")
    city = await chat.ask("City?")
    await chat.send(f"{name} {city}")
"""
PLAIN = HELD.replace("await room.step(draw)", "7")
BARE = HELD.replace("async def around", "async def aside")
case("n01 a hook formatted", HELD, swap(HELD, ("    number", "    # first\n    number")), "SS", ["Sara"])
case(
    "n02 another function in a hook",
    HELD,
    swap(HELD, ("def draw", "def pick"), ("step(draw)", "step(pick)"), ("return 7", "return 8")),
    "PP",
    ["Sara"],
)
case("n03 a step put into a hook", PLAIN, HELD, "PP", ["Sara"])
case("n04 a hook without operations put on", BARE, PLAIN, "SS", ["Sara"])
case("n05 ... and taken off", PLAIN, BARE, "SS", ["Sara"])
case(
    "n06 an ask inserted within a hook",
    HELD,
    swap(HELD, ("    city", '    age = await chat.ask("Age?")\n    city')),
    "SP",
    ["Sara"],
)
case("n07 a hook's step taken out", HELD, PLAIN, "PP", ["Sara"])

TOOLS = """async def text_of(chat, question):
    said = await chat.ask(question)
    return said.strip()

async def name_of(chat):
    return await text_of(chat, "Name?")
"""
SHOP = """from tools import name_of, text_of

async def order(chat):
    name = await name_of(chat)
    city = await text_of(chat, "City?")
    await chat.send(f"{name} {city}")
"""
TWO_FILES: Files = {"shop": SHOP, "tools": TOOLS}


def both(tools: str = TOOLS, shop: str = SHOP) -> Files:
    return {"shop": shop, "tools": tools}


NAME, CITY_OF = "    name = await name_of(chat)\n", '    city = await text_of(chat, "City?")\n'
case("o01 reworded in another module", TWO_FILES, both(swap(TOOLS, ("Name?", "Your name?"))), "RR", ["Sara"])
case(
    "o02 helpers of another module swapped",
    TWO_FILES,
    both(shop=swap(SHOP, (NAME + CITY_OF, CITY_OF + NAME))),
    "PP",
    ["Sara"],
)
case(
    "o03 inserted in another module",
    TWO_FILES,
    both(swap(TOOLS, ("    said =", '    await chat.ask("Ready?")\n    said ='))),
    "PP",
    ["Sara"],
)
case(
    "o04 a helper renamed in another module",
    TWO_FILES,
    both(TOOLS.replace("name_of", "who_is"), SHOP.replace("name_of", "who_is")),
    "SS",
    ["Sara"],
)
case(
    "o05 a helper moved out of another module",
    TWO_FILES,
    {"shop": TOOLS + SHOP.partition("\n")[2]},
    "SS",
    ["Sara"],
)
case(
    "o06 another module formatted",
    TWO_FILES,
    both(swap(TOOLS, ("    said", "\n    # asked\n    said"))),
    "SS",
    ["Sara"],
)

LIVE = """async def order(chat):
    async with chat.live("Baking") as live:
        name = await chat.ask("Name?")
    city = await chat.ask("City?")
    await chat.send(f"{name} {city}")
"""
ASK = '        name = await chat.ask("Name?")\n'
case(
    "p01 an ask put into a live block",
    LIVE,
    swap(LIVE, (ASK, '        age = await chat.ask("Age?")\n' + ASK)),
    "PP",
    ["Sara"],
)
case(
    "p02 a live block taken off",
    LIVE,
    swap(LIVE, ('    async with chat.live("Baking") as live:\n' + ASK, ASK[4:])),
    "PP",
    ["Sara"],
)
case("p03 a live block's inside reworded", LIVE, swap(LIVE, ("Name?", "Your name?")), "RR", ["Sara"])

CHILDREN = """async def name_of(chat):
    kept.name = await chat.ask("Name?")

async def wait(chat):
    await chat.sleep(1_000_000)

async def order(chat):
    async with chat.open_nursery() as nursery:
        nursery.start_soon(name_of, chat)
        nursery.start_soon(wait, chat)
"""
CHILD, WAIT = "        nursery.start_soon(name_of, chat)\n", "        nursery.start_soon(wait, chat)\n"
case("q01 a child's question reworded", CHILDREN, swap(CHILDREN, ("Name?", "Your name?")), "RR", ["Sara"])
case("q02 children swapped", CHILDREN, swap(CHILDREN, (CHILD + WAIT, WAIT + CHILD)), "PP", ["Sara"])
case(
    "q03 a child behind the others",
    CHILDREN,
    swap(
        CHILDREN,
        (WAIT, WAIT + WAIT.replace("wait", "rest")),
        ("async def order", "async def rest(chat):\n    await chat.sleep(5_000_000)\n\nasync def order"),
    ),
    "SS",
    ["Sara"],
)
case(
    "q04 an ask in front in a child",
    CHILDREN,
    swap(CHILDREN, ("    kept.name", '    kept.city = await chat.ask("City?")\n    kept.name')),
    "PP",
    ["Sara"],
)

# What a reader sees beside the call: whose method it is, what a loop goes over, which key has a label.
SHOPS = """class Shop:
    async def get(self, chat):
        return await chat.ask("How many?")

one, two = Shop(), Shop()

async def order(chat):
    cakes = await one.get(chat)
    teas = await two.get(chat)
    await chat.send(f"{cakes} {teas}")
"""
case(
    "r01 the same method of two objects, exchanged",
    SHOPS,
    swap(SHOPS, ("await one", "await ?"), ("await two", "await one"), ("await ?", "await two")),
    "PP",
    ["1"],
)
KEPT = """async def order(chat):
    many = {"cake": await chat.ask("How many?"), "tea": await chat.ask("How many?")}
    await chat.send(str(many))
"""
case(
    "r02 the same question under two keys, exchanged",
    KEPT,
    swap(KEPT, ('"cake"', "?"), ('"tea"', '"cake"'), ("?:", '"tea":')),
    "PP",
    ["1"],
)
LOOP = """async def order(chat):
    many = {}
    for what in ("cake", "tea"):
        many[what] = await chat.ask("How many?")
    await chat.send(str(many))
"""
case("r03 a loop goes the other way", LOOP, swap(LOOP, ('"cake", "tea"', '"tea", "cake"')), "PP", ["1"])
case("r04 a loop goes on", LOOP, swap(LOOP, ('"cake", "tea"', '"cake", "tea", "ice"')), "SS", ["1"])
STARTS = """async def many_of(chat, what):
    kept.size = await chat.ask("How many?")

async def order(chat):
    async with chat.open_nursery() as nursery:
        for what in ("cake", "tea"):
            nursery.start_soon(many_of, chat, what)
"""
case(
    "r05 a loop starts children the other way",
    STARTS,
    swap(STARTS, ('"cake", "tea"', '"tea", "cake"')),
    "P",
    [],
)
WHICH = """async def order(chat):
    which = await chat.choose("Which?", {"a": "Cake", "b": "Tea"})
    when = await chat.ask("When?")
    await chat.send(f"{which} {when}")
"""
case(
    "r06 two options exchange their words",
    WHICH,
    swap(WHICH, ('"a": "Cake", "b": "Tea"', '"a": "Tea", "b": "Cake"')),
    "PP",
    ["a"],
)
case("r07 two options reworded", WHICH, swap(WHICH, ("Cake", "A cake"), ("Tea", "Some tea")), "RR", ["a"])
EITHER = swap(WHICH, ('"Tea"})', '"Tea"}, also=text())'))
case("r08 what was written is no answer any more", EITHER, WHICH, "SP", ["beans"])
case("r09 nobody may write any more, and a button was pressed", EITHER, WHICH, "SS", ["a"])
case("r10 people may write, too", WHICH, EITHER, "SS", ["a"])
