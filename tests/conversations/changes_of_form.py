"""Changes of code in forms that authors are fond of: decorators, generators, catalogues, partials."""

from __future__ import annotations

from tests.exact.changes import Change, Files, swap

FORMS: list[Change] = []


def case(
    name: str, old: str | Files, new: str | Files, expect: str, answers: list[str], truth: str = ""
) -> None:
    old, new = ({"shop": one} if isinstance(one, str) else one for one in (old, new))
    FORMS.append(Change(name, old, new, expect, answers, truth))


def turn(text: str, one: str, other: str) -> str:
    """Exchange two texts."""
    return swap(text, (one, "\0"), (other, one), ("\0", other))


END = '    await chat.ask("ok?")\n'
MANY = "many = {}\ndef put(key, value):\n    many[key] = value\n"

# --- where a helper puts what is answered
PUTS = f"""{MANY}async def count(chat, key):
    put(key, await chat.ask("How many?"))
async def order(chat):
    await count(chat, "cake")
    await count(chat, "tea")
{END}"""
case("v01 a helper hands the key on, exchanged", PUTS, turn(PUTS, '"cake"', '"tea"'), "PPP", ["1", "2"])
case(
    "v02 ... a third behind",
    PUTS,
    swap(PUTS, (END, '    await count(chat, "pie")\n' + END)),
    "SSP",
    ["1", "2"],
)
SETS = PUTS.replace("    put(key, await", "    setattr(kept, key, await")
case("v03 a helper sets an attribute, exchanged", SETS, turn(SETS, '"cake"', '"tea"'), "PPP", ["1", "2"])
UPD = PUTS.replace("    put(key, await", "    many.update({key: await").replace('many?"))', 'many?")})')
case("v04 a helper updates a dict, exchanged", UPD, turn(UPD, '"cake"', '"tea"'), "PPP", ["1", "2"])
INC = f"""{MANY}async def inner(chat, key):
    many[key] = await chat.ask("How many?")
async def count(chat, key):
    await inner(chat, key)
async def order(chat):
    await count(chat, "cake")
    await count(chat, "tea")
{END}"""
case("v05 through two helpers, exchanged", INC, turn(INC, '"cake"', '"tea"'), "PPP", ["1", "2"])
TOOLS = """from texts import inner
async def count(chat, key):
    return await inner(chat, key)
"""
TEXTS = """many = {}
async def inner(chat, key):
    many[key] = await chat.ask("How many?")
"""
USES = f"""from tools import count
async def order(chat):
    await count(chat, "cake")
    await count(chat, "tea")
{END}"""
TWO_FILES: Files = {"shop": USES, "tools": TOOLS, "texts": TEXTS}
case(
    "v06 through two modules, exchanged",
    TWO_FILES,
    {**TWO_FILES, "shop": turn(USES, '"cake"', '"tea"')},
    "PPP",
    ["1", "2"],
)
case(
    "v07 through two modules, the inner one renamed",
    TWO_FILES,
    {**TWO_FILES, "tools": TOOLS.replace("inner", "within"), "texts": TEXTS.replace("inner", "within")},
    "SSS",
    ["1", "2"],
)
case(
    "v08 through two modules, formatted",
    TWO_FILES,
    {
        **TWO_FILES,
        "tools": TOOLS.replace("(chat, key)", "(\n        chat, key\n    )"),
        "texts": "# Texts.\n" + TEXTS,
    },
    "SSS",
    ["1", "2"],
)
case(
    "v09 the innermost keeps another key",
    TWO_FILES,
    {**TWO_FILES, "tools": TOOLS.replace("inner(chat, key)", 'inner(chat, key + "s")')},
    "PPP",
    ["1", "2"],
)
WORDS = f"""async def text_of(chat, question, hint=""):
    return await chat.ask(question)
async def order(chat):
    kept.name = await text_of(chat, "Name?", "none")
    kept.city = await text_of(chat, "City?", hint="none")
{END}"""
case("v10 a helper's other words", WORDS, swap(WORDS, ('"none"', '"nothing"')), "SSS", ["a", "b"])
case("v11 a helper's words reworded", WORDS, swap(WORDS, ("Name?", "Your name?")), "RRR", ["a", "b"])
case("v12 a helper's words exchanged", WORDS, turn(WORDS, "Name?", "City?"), "PPP", ["a", "b"])
SAYS = f"""async def text_of(chat, question):
    await chat.send(question)
    return await chat.receive()
async def order(chat):
    name = await text_of(chat, "Name?")
    city = await text_of(chat, "City?")
    kept.name = name
    kept.city = city
{END}"""
case("v13 a helper sends and receives, exchanged", SAYS, turn(SAYS, "Name?", "City?"), "PPP", ["a", "b"])
case(
    "v14 a helper sends and receives, reworded", SAYS, swap(SAYS, ("City?", "Which city?")), "SRR", ["a", "b"]
)
case(
    "v15 a helper sends and receives, swapped",
    SAYS,
    turn(SAYS, 'name = await text_of(chat, "Name?")', 'city = await text_of(chat, "City?")'),
    "PPP",
    ["a", "b"],
)

# --- stars, partials, lambdas, tables of functions
STAR = f"""{MANY}async def count(chat, *keys):
    for key in keys:
        put(key, await chat.ask("How many?"))
async def order(chat):
    await count(chat, "cake", "tea")
{END}"""
case("v16 star-args, exchanged", STAR, swap(STAR, ('"cake", "tea"', '"tea", "cake"')), "PPP", ["1", "2"])
case("v17 star-args, one more behind", STAR, swap(STAR, ('"tea")', '"tea", "pie")')), "SSP", ["1", "2"])
STARS = f"""{MANY}ASKED = ("cake", "tea")
async def count(chat, *keys):
    for key in keys:
        put(key, await chat.ask("How many?"))
async def order(chat):
    await count(chat, *ASKED)
{END}"""
case(
    "v18 a constant of star-args, exchanged",
    STARS,
    swap(STARS, ('"cake", "tea"', '"tea", "cake"')),
    "PPP",
    ["1", "2"],
)
KW = f"""{MANY}async def count(chat, **names):
    for key, what in names.items():
        put(key, await chat.ask("How many?"))
async def order(chat):
    await count(chat, cake=1, tea=2)
{END}"""
case("v19 keywords, exchanged", KW, swap(KW, ("cake=1, tea=2", "tea=2, cake=1")), "PPP", ["1", "2"])
PART = f"""from functools import partial
{MANY}async def count(chat, key):
    put(key, await chat.ask("How many?"))
cakes = partial(count, key="cake")
teas = partial(count, key="tea")
async def order(chat):
    await cakes(chat)
    await teas(chat)
{END}"""
case("v20 partials, exchanged", PART, turn(PART, '"cake"', '"tea"'), "PPP", ["1", "2"])
case(
    "v21 partials' calls swapped",
    PART,
    turn(PART, "await cakes(chat)", "await teas(chat)"),
    "PPP",
    ["1", "2"],
)
LOCAL = PART.replace('cakes = partial(count, key="cake")\nteas = partial(count, key="tea")\n', "").replace(
    "    await cakes",
    '    cakes = partial(count, key="cake")\n    teas = partial(count, key="tea")\n    await cakes',
)
case("v22 partials within, exchanged", LOCAL, turn(LOCAL, '"cake"', '"tea"'), "PPP", ["1", "2"])
LAMB = f"""{MANY}async def count(chat, key):
    put(key, await chat.ask("How many?"))
async def order(chat):
    for ask in (lambda c: count(c, "cake"), lambda c: count(c, "tea")):
        await ask(chat)
{END}"""
case("v23 lambdas in a loop, exchanged", LAMB, turn(LAMB, '"cake"', '"tea"'), "PPP", ["1", "2"])
TABLE = f"""{MANY}async def cakes(chat):
    put("cake", await chat.ask("How many?"))
async def teas(chat):
    put("tea", await chat.ask("How many?"))
PARTS = [cakes, teas]
async def order(chat):
    for part in PARTS:
        await part(chat)
{END}"""
case(
    "v24 a table of functions, exchanged",
    TABLE,
    swap(TABLE, ("[cakes, teas]", "[teas, cakes]")),
    "PPP",
    ["1", "2"],
)
case(
    "v25 a table of functions, their keys exchanged", TABLE, turn(TABLE, '"cake"', '"tea"'), "PPP", ["1", "2"]
)
case("v26 a table of functions, one behind", TABLE, swap(TABLE, ("teas]", "teas, cakes]")), "SSP", ["1", "2"])

# --- classes
CLS = f"""{MANY}class Count:
    def __init__(self, key):
        self.key = key
    async def run(self, chat):
        put(self.key, await chat.ask("How many?"))
async def order(chat):
    await Count("cake").run(chat)
    await Count("tea").run(chat)
{END}"""
case("v27 objects with keys, exchanged", CLS, turn(CLS, '"cake"', '"tea"'), "PPP", ["1", "2"])
INST = (
    CLS.replace('Count("cake").run', "cakes.run")
    .replace('Count("tea").run', "teas.run")
    .replace("async def order", 'cakes, teas = Count("cake"), Count("tea")\nasync def order')
)
case("v28 objects of the module, exchanged", INST, turn(INST, '"cake"', '"tea"'), "PPP", ["1", "2"])
SUB = f"""{MANY}class Count:
    key = "pie"
    async def run(self, chat):
        put(self.key, await chat.ask("How many?"))
class Cakes(Count):
    key = "cake"
class Teas(Count):
    key = "tea"
async def order(chat):
    for one in (Cakes, Teas):
        await one().run(chat)
{END}"""
case("v29 subclasses' keys, exchanged", SUB, turn(SUB, '"cake"', '"tea"'), "PPP", ["1", "2"])
case("v30 subclasses, the other way", SUB, swap(SUB, ("(Cakes, Teas)", "(Teas, Cakes)")), "PPP", ["1", "2"])
FLOW = f"""class Flow:
    def __init__(self, chat):
        self.chat = chat
    async def name(self):
        kept.name = await self.chat.ask("Next?")
    async def city(self):
        kept.city = await self.chat.ask("Next?")
    async def run(self):
        await self.name()
        await self.city()
async def order(chat):
    await Flow(chat).run()
{END}"""
case(
    "v31 a class's methods called the other way",
    FLOW,
    turn(FLOW, "await self.name()", "await self.city()"),
    "PPP",
    ["1", "2"],
)
case(
    "v32 a class's methods exchange their bodies",
    FLOW,
    turn(FLOW, "kept.name", "kept.city"),
    "PPP",
    ["1", "2"],
)
case(
    "v33 a class's methods in another order of text",
    FLOW,
    """class Flow:
    def __init__(self, chat):
        self.chat = chat
    async def city(self):
        kept.city = await self.chat.ask("Next?")
    async def name(self):
        kept.name = await self.chat.ask("Next?")
    async def run(self):
        await self.name()
        await self.city()
async def order(chat):
    await Flow(chat).run()
"""
    + END,
    "SSS",
    ["1", "2"],
)

# --- decorators
DECO = f"""{MANY}def keeps(key):
    def deco(fn):
        async def within(chat):
            put(key, await fn(chat))
        return within
    return deco
@keeps("cake")
async def one(chat):
    return await chat.ask("Next?")
@keeps("tea")
async def two(chat):
    return await chat.ask("Next?")
async def order(chat):
    await one(chat)
    await two(chat)
{END}"""
case("v34 decorators' keys, exchanged", DECO, turn(DECO, '"cake"', '"tea"'), "PPP", ["1", "2"])
WARN = DECO.replace("Next?", "Cakes?", 1).replace("Next?", "Teas?", 1)
case(
    "v35 decorators' keys exchanged, the words tell",
    WARN,
    turn(WARN, '"cake"', '"tea"'),
    "PPP",
    ["1", "2"],
    "SSS",
)

# --- walrus, match, conditions
WAL = f"""async def order(chat):
    if (name := await chat.ask("Next?")) and (city := await chat.ask("Next?")):
        kept.name = name
        kept.city = city
{END}"""
case(
    "v36 walrus, exchanged",
    WAL,
    swap(WAL, ("(name :=", "(X :="), ("(city :=", "(name :="), ("(X :=", "(city :=")),
    "PPP",
    ["1", "2"],
)
case(
    "v37 walrus taken out",
    WAL,
    f"""async def order(chat):
    name = await chat.ask("Next?")
    city = await chat.ask("Next?")
    if name and city:
        kept.name = name
        kept.city = city
{END}""",
    "PPP",
    ["1", "2"],
    "SSS",
)
MATCH = f"""async def order(chat):
    match [await chat.ask("Next?"), await chat.ask("Next?")]:
        case [name, city]:
            kept.name = name
            kept.city = city
{END}"""
case(
    "v38 a pattern's names, exchanged",
    MATCH,
    swap(MATCH, ("[name, city]", "[city, name]")),
    "PPP",
    ["1", "2"],
)
case(
    "v39 a pattern's names, the words tell",
    MATCH.replace("Next?", "Name?", 1),
    swap(MATCH.replace("Next?", "Name?", 1), ("[name, city]", "[city, name]")),
    "SSS",
    ["1", "2"],
)
COND = f"""import sys
if sys.version_info >= (3, 9):
    WHAT = ["cake", "tea"]
else:
    WHAT = []
{MANY}async def order(chat):
    for key in WHAT:
        put(key, await chat.ask("How many?"))
{END}"""
case("v40 a constant under a condition, exchanged", COND, turn(COND, '"cake"', '"tea"'), "PPP", ["1", "2"])
TRY = f"""try:
    from nowhere import WHAT
except ImportError:
    WHAT = ["cake", "tea"]
{MANY}async def order(chat):
    for key in WHAT:
        put(key, await chat.ask("How many?"))
{END}"""
case("v41 a conditional import's other way, exchanged", TRY, turn(TRY, '"cake"', '"tea"'), "PPP", ["1", "2"])
LATE = f"""from texts import WHAT
{MANY}async def order(chat):
    for key in WHAT:
        put(key, await chat.ask("How many?"))
{END}"""
LATES: Files = {"shop": LATE, "texts": 'WHAT = ["cake", "tea"]\n'}
case("v42 imported, exchanged", LATES, {**LATES, "texts": 'WHAT = ["tea", "cake"]\n'}, "PPP", ["1", "2"])
ALL: Files = {"shop": LATE.replace("import WHAT", "import *"), "texts": LATES["texts"]}
case("v43 all imported, exchanged", ALL, {**ALL, "texts": 'WHAT = ["tea", "cake"]\n'}, "PPP", ["1", "2"])
THROUGH: Files = {"shop": LATE, "texts": "from data import WHAT\n", "data": LATES["texts"]}
case(
    "v44 imported through another module, exchanged",
    THROUGH,
    {**THROUGH, "data": 'WHAT = ["tea", "cake"]\n'},
    "PPP",
    ["1", "2"],
)

# --- values that are worked out
HERE = f"""{MANY}async def order(chat):
    what = ["cake", "tea"]
    for key in what:
        put(key, await chat.ask("How many?"))
{END}"""
case("v45 a list of the function's own, exchanged", HERE, turn(HERE, '"cake"', '"tea"'), "PPP", ["1", "2"])
case(
    "v46 a list of the function's own, longer",
    HERE,
    swap(HERE, ('"tea"]', '"tea", "pie"]')),
    "SSP",
    ["1", "2"],
)
FUNC = f"""{MANY}def parts():
    return ["cake", "tea"]
async def order(chat):
    for key in parts():
        put(key, await chat.ask("How many?"))
{END}"""
case("v47 a function gives the list, exchanged", FUNC, turn(FUNC, '"cake"', '"tea"'), "PPP", ["1", "2"])
GENR = FUNC.replace('    return ["cake", "tea"]', '    yield "cake"\n    yield "tea"')
case("v48 a generator gives the keys, exchanged", GENR, turn(GENR, '"cake"', '"tea"'), "PPP", ["1", "2"])
SORT = f"""{MANY}WHAT = ["cake", "tea"]
async def order(chat):
    for key in sorted(WHAT, key=len):
        put(key, await chat.ask("How many?"))
{END}"""
case("v49 sorted otherwise", SORT, swap(SORT, (", key=len", "")), "PPP", ["1", "2"])
case(
    "v50 a slice",
    SORT.replace("sorted(WHAT, key=len)", "WHAT[:2]"),
    SORT.replace("sorted(WHAT, key=len)", "WHAT[::-1]"),
    "PPP",
    ["1", "2"],
)
POP = f"""{MANY}async def order(chat):
    left = ["tea", "cake"]
    while left:
        put(left.pop(), await chat.ask("How many?"))
{END}"""
case("v51 taken from a list, exchanged", POP, turn(POP, '"tea"', '"cake"'), "PPP", ["1", "2"])
KEYV = f"""{MANY}async def order(chat):
    key = "cake"
    put(key, await chat.ask("How many?"))
    key = "tea"
    put(key, await chat.ask("How many?"))
{END}"""
case("v52 a variable is the key, exchanged", KEYV, turn(KEYV, '"tea"', '"cake"'), "PPP", ["1", "2"])
NEXT = f"""{MANY}async def order(chat):
    keys = iter(("cake", "tea"))
    put(next(keys), await chat.ask("How many?"))
    put(next(keys), await chat.ask("How many?"))
{END}"""
case(
    "v53 an iterator gives the key, exchanged",
    NEXT,
    swap(NEXT, ('"cake", "tea"', '"tea", "cake"')),
    "PPP",
    ["1", "2"],
)
CONST = f"""{MANY}FIRST, SECOND = "cake", "tea"
async def order(chat):
    put(FIRST, await chat.ask("How many?"))
    put(SECOND, await chat.ask("How many?"))
{END}"""
case("v54 constants are the keys, exchanged", CONST, turn(CONST, '"tea"', '"cake"'), "PPP", ["1", "2"])
SUBS = (
    CONST.replace('FIRST, SECOND = "cake", "tea"', 'FIRST = "cake"\nSECOND = "tea"')
    .replace("put(FIRST, await", "many[FIRST] = (await")
    .replace("put(SECOND, await", "many[SECOND] = (await")
)
case(
    "v55 constants are the keys of a dict, exchanged", SUBS, turn(SUBS, '"tea"', '"cake"'), "PPP", ["1", "2"]
)
APP = f"""{MANY}async def order(chat):
    got = [await chat.ask("Next?") for _ in range(2)]
    put("cake", got[0])
    put("tea", got[1])
{END}"""
case("v56 a list's places, exchanged", APP, turn(APP, '"cake"', '"tea"'), "PPP", ["1", "2"])
DZIP = f"""{MANY}async def order(chat):
    got = [await chat.ask("Next?") for _ in range(2)]
    many.update(zip(("cake", "tea"), got))
{END}"""
case(
    "v57 zipped with keys, exchanged", DZIP, swap(DZIP, ('"cake", "tea"', '"tea", "cake"')), "PPP", ["1", "2"]
)
AGEN = f"""{MANY}async def answers(chat, keys):
    for key in keys:
        yield key, await chat.ask("How many?")
async def order(chat):
    async for key, value in answers(chat, ["cake", "tea"]):
        put(key, value)
{END}"""
case("v58 an async generator's keys, exchanged", AGEN, turn(AGEN, '"cake"', '"tea"'), "PPP", ["1", "2"])
case(
    "v59 an async generator's keys, one behind",
    AGEN,
    swap(AGEN, ('"tea"]', '"tea", "pie"]')),
    "SSP",
    ["1", "2"],
)
ACOMP = AGEN.replace("    async for key, value in", "    got = {key: value async for key, value in").replace(
    '"tea"]):\n        put(key, value)', '"tea"])}\n    many.update(got)'
)
case("v60 an async comprehension's keys, exchanged", ACOMP, turn(ACOMP, '"cake"', '"tea"'), "PPP", ["1", "2"])

# --- blocks, try and finally
BLOCKS = f"""from contextlib import asynccontextmanager
{MANY}@asynccontextmanager
async def asked(chat, key):
    put(key, await chat.ask("How many?"))
    yield
async def order(chat):
    async with asked(chat, "cake"):
        async with asked(chat, "tea"):
            await chat.send("both")
{END}"""
case("v61 nested blocks' keys, exchanged", BLOCKS, turn(BLOCKS, '"cake"', '"tea"'), "PPP", ["1", "2"])
ONEWITH = BLOCKS.replace(
    '    async with asked(chat, "cake"):\n        async with asked(chat, "tea"):\n    ',
    '    async with asked(chat, "cake"), asked(chat, "tea"):\n',
)
case("v62 keys of one line's blocks, exchanged", ONEWITH, turn(ONEWITH, '"cake"', '"tea"'), "PPP", ["1", "2"])
STACK = f"""from contextlib import AsyncExitStack
{BLOCKS.partition(chr(10))[2].partition("async def order")[0]}async def order(chat):
    async with AsyncExitStack() as stack:
        for key in ("cake", "tea"):
            await stack.enter_async_context(asked(chat, key))
{END}"""
STACK = "from contextlib import asynccontextmanager\n" + STACK
case(
    "v63 an exit stack's keys, exchanged",
    STACK,
    swap(STACK, ('"cake", "tea"', '"tea", "cake"')),
    "PPP",
    ["1", "2"],
)
FIN = f"""async def order(chat):
    try:
        kept.name = await chat.ask("Next?")
    finally:
        kept.city = await chat.ask("Next?")
{END}"""
case("v64 try and finally, exchanged", FIN, turn(FIN, "kept.name", "kept.city"), "PPP", ["1", "2"])
case(
    "v65 finally becomes else",
    FIN,
    swap(FIN, ("    finally:", "    except ValueError:\n        raise\n    else:")),
    "SSS",
    ["1", "2"],
)
EXC = f"""async def order(chat):
    try:
        kept.size = int(await chat.ask("Number?"))
    except ValueError:
        kept.name = await chat.ask("Next?")
    kept.city = await chat.ask("Next?")
{END}"""
case("v66 behind a failed try, exchanged", EXC, turn(EXC, "kept.name", "kept.city"), "SPP", ["x", "1"])

# --- words from data
OPT = f"""OPTIONS = {{"s": "Small", "l": "Large"}}
async def order(chat):
    kept.size = await chat.choose("Size?", OPTIONS)
{END}"""
case("v67 a constant's options exchange their words", OPT, turn(OPT, '"Small"', '"Large"'), "PP", ["s"])
case("v68 a constant's options reworded", OPT, swap(OPT, ('"Small"', '"Little"')), "RR", ["s"])
OPTS: Files = {
    "shop": "from texts import OPTIONS\n" + OPT.partition("\n")[2],
    "texts": OPT.partition("\n")[0] + "\n",
}
case(
    "v69 another module's options exchange their words",
    OPTS,
    {**OPTS, "texts": turn(OPTS["texts"], '"Small"', '"Large"')},
    "PP",
    ["s"],
)
PICK = f"""async def pick(chat, question, options):
    return await chat.choose(question, options)
async def order(chat):
    kept.size = await pick(chat, "Size?", {{"s": "Small", "l": "Large"}})
{END}"""
case("v70 a helper's options exchange their words", PICK, turn(PICK, '"Small"', '"Large"'), "PP", ["s"])
case("v71 a helper's options reworded", PICK, swap(PICK, ('"Small"', '"Little"')), "RR", ["s"])
FORMAT = f"""{MANY}async def order(chat):
    for key in ("cake", "tea"):
        put(key, await chat.ask("How many {{}}?".format(key)))
{END}"""
case(
    "v72 format() over a loop, exchanged",
    FORMAT,
    swap(FORMAT, ('"cake", "tea"', '"tea", "cake"')),
    "PPP",
    ["1", "2"],
)
PERC = f"""{MANY}async def order(chat):
    for key in ("cake", "tea"):
        put(key, await chat.ask("How many %s?" % key))
{END}"""
case(
    "v73 percent over a loop, exchanged",
    PERC,
    swap(PERC, ('"cake", "tea"', '"tea", "cake"')),
    "PPP",
    ["1", "2"],
)
CAT = f"""class Texts:
    def __init__(self, **texts):
        self.__dict__.update(texts)
T = Texts(name="Name?", city="City?")
async def order(chat):
    kept.name = await chat.ask(T.name)
    kept.city = await chat.ask(T.city)
{END}"""
case("v74 a catalogue object, exchanged", CAT, turn(CAT, '"Name?"', '"City?"'), "PPP", ["a", "b"])
case(
    "v75 a catalogue object, translated",
    CAT,
    swap(CAT, ('"Name?"', '"Nom?"'), ('"City?"', '"Ville?"')),
    "RRR",
    ["a", "b"],
)
LANG = f"""T = {{"en": {{"name": "Name?", "city": "City?"}}, "fr": {{"name": "Nom?", "city": "Ville?"}}}}
LANG = "en"
async def order(chat):
    kept.name = await chat.ask(T[LANG]["name"])
    kept.city = await chat.ask(T[LANG]["city"])
{END}"""
case("v76 a catalogue of languages, exchanged", LANG, turn(LANG, '"Name?"', '"City?"'), "PPP", ["a", "b"])
case(
    "v77 a catalogue of languages, another one",
    LANG,
    swap(LANG, ('LANG = "en"', 'LANG = "fr"')),
    "PPP",
    ["a", "b"],
    "RRR",
)

# --- a helper in two modules
TWICE: Files = {
    "shop": f"""from tools import text_of
async def order(chat):
    kept.name = await text_of(chat, "Name?")
{END}""",
    "tools": """async def text_of(chat, question):
    return await chat.ask(question)
async def ask_city(chat):
    return await chat.ask("City?")
""",
    "texts": """async def text_of(chat, question):
    return await chat.ask(question)
""",
}
case(
    "v78 the other module's helper of the same name",
    TWICE,
    {**TWICE, "shop": TWICE["shop"].replace("from tools", "from texts")},
    "SS",
    ["a"],
)
NAMED: Files = {
    "shop": f"""from tools import ask_name
async def order(chat):
    kept.name = await ask_name(chat)
{END}""",
    "tools": """async def ask_name(chat):
    return await chat.ask("Name?")
""",
    "texts": """async def ask_name(chat):
    return await chat.ask("Company?")
""",
}
case(
    "v79 another module's question under the same name",
    NAMED,
    {**NAMED, "shop": NAMED["shop"].replace("from tools", "from texts")},
    "PP",
    ["a"],
)
MOVED: Files = {
    **NAMED,
    "tools": "",
    "texts": NAMED["texts"] + NAMED["tools"].replace("ask_name", "ask_own"),
    "shop": NAMED["shop"]
    .replace("from tools import ask_name", "from texts import ask_own")
    .replace("ask_name", "ask_own"),
}
case("v80 a helper moved, where its old name is another's", NAMED, MOVED, "SS", ["a"])

# --- what a swapped pair looks like once it is reworded, too
BOTH = f"""async def order(chat):
    name = await chat.ask("Your name?")
    kept.name = name
    city = await chat.ask("Your city?")
    kept.city = city
{END}"""
case(
    "v81 exchanged and reworded at once",
    BOTH,
    swap(BOTH, ("Your name?", "X"), ("Your city?", "Now your name"), ("X", "Now your city")),
    "PPP",
    ["a", "b"],
)
case(
    "v82 a helper's words reworded, and a message behind",
    WORDS,
    swap(WORDS, ("City?", "Which city?"), ("ok?", "All right?")) + '    await chat.send("Thanks.")\n',
    "SRR",
    ["a", "b"],
)
