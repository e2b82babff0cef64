"""The verbs that a docstring of a function may begin with, as in "Return the length".

A list, since no rule tells a verb from a noun. A verb that is missing is added; a word that is mostly a noun
in front of a docstring ("Text of", "Share of") is not.
"""

from __future__ import annotations

from typing import Final

VERBS: Final = frozenset(
    """
    abandon abort accept acknowledge acquire act adapt add adjust adopt advance allow announce answer
    append apply arm arrange ask assemble assert assign attach await back be bear begin bind block bound
    bring build call cancel capture carry catch change charge check choose claim classify clean clear
    click close collect combine commit compare compute condemn configure connect consume continue
    convert copy correct count create cut deal decide declare decode defer delay delete deliver demand
    deny deposit derive describe detach detect die digest discard dispatch divide do download drain draw
    drop edit embed empty encode end enforce ensure enter erase escape evict examine exchange exclude
    execute exit expand expect expire export extend extract fail feed fetch fill filter find finish fire
    fit flush follow forbid forget format forward frame free freeze gather generate get give go grant group
    grow guard hand handle hash have hide hint hold hurry identify ignore import include increase increment
    inform insert inspect install interrupt invoke issue iterate join judge keep kill know label land
    leave lend let lift limit link list listen live load lock log look lose lower make map mark match
    measure merge migrate move name narrow negotiate note notify obey observe offer omit open order own
    pack pad park parse pass patch pause pay peek perform pick place plan play poll pop post prefer
    prepare press print proceed produce promise promote prove provide publish pull pump push put
    quarantine queue quote raise rank reach read rebind rebuild receive recognise reconnect record
    redact redeliver reduce refresh refund refuse register reject release reload remember remove rename
    render repeat replace replay reply report request reschedule resend reserve reset resolve restart
    restore resume retire retry return reuse reveal revive rewrite ring roll rotate route run save say
    scan schedule search see seed select send separate serve set settle shield shift shorten show
    shuffle shut signal simulate skip sleep snapshot sort spawn split spread stamp stand start step stop
    store stream strip submit subscribe subtract summarise supply suppress suspend sweep switch take
    talk tap tell terminate test throw tick track translate treat trim truncate try turn type undo
    unpack unpark unregister unwrap update upgrade upload use validate verify visit wait wake walk warn watch
    weigh withdraw wrap write yield
    """.split()  # noqa: SIM905
)
