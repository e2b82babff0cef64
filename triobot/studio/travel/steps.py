"""Steps in a branch: results come from the journal, else from the developer, who may also run the step.

A step may call an outside service, so no step runs by itself. A step gets its recorded result if the journal
after the notch has the same function with the same arguments. Otherwise the branch stops, and the developer
decides. The developer also decides after a recorded error, since the error's cause may be fixed by now. The
same applies to functions that the developer has named.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Literal, TypeAlias, cast, final

import attrs
import trio

from ...base.frozen import guarded
from ...conversations.codec import CODEC
from ...conversations.inspection.closed import Closed
from ...conversations.services import StepCall
from ...engine import Record
from ...engine.records import DONE, FAILED, OUTCOMES
from ...errors import ConfigError, LocalProtocolError, StepError, UnrecordableError
from ...exact.verdicts import differs
from ...seams.resources import Resource
from ...testing.stubs import closed_name, name_of
from .outside import real_time

How: TypeAlias = Literal["recorded", "returned", "raised", "ran"]
"""Source of an outcome: ``recorded`` in the journal; ``returned`` or ``raised`` by the developer's choice;
or ``ran`` for real.
"""
_STEP: Final = "step"
_SHOWN: Final = 200


@final
@attrs.define(eq=False)
class AskedStep:
    """A step that waits for the developer.

    Attributes:
        number: number of the step in the branch, from 1.
        name: name of the step's function.
        args: the step's arguments, as `repr` shows them.
        conversation: number of the conversation that waits for the step.
        recorded: the recorded error, if there is one.
        how, outcome: the developer's decision, once `answered` is set.
    """

    number: int
    name: str
    args: tuple[str, ...] = attrs.field(repr=False)
    conversation: int
    call: StepCall = attrs.field(repr=False)
    recorded: Exception | None = attrs.field(default=None, repr=False)
    answered: trio.Event = attrs.field(factory=trio.Event, repr=False)
    how: How = "ran"
    outcome: object = attrs.field(default=None, repr=False)


@final
@guarded
class DoneStep:
    """A step that was done in the branch.

    Attributes:
        outcome: the returned value, or the raised error.
    """

    name: str
    how: How
    outcome: object = attrs.field(repr=False)


@final
class Steps:
    """Stand-in for the step functions in a branch.

    Args:
        records: records after the notch, with the recorded results.
        resources: resources for steps that the developer runs.
        asks: functions whose recorded results aren't used.

    Attributes:
        asked: steps that wait for the developer, by number.
        done: steps that are done.
    """

    def __init__(
        self, records: Sequence[Record], resources: Sequence[Resource[object]], asks: Collection[str] = ()
    ) -> None:
        self._asks = asks
        self._records = [record for record in records if record[0] in OUTCOMES and record[3] == _STEP]
        self._used: list[Record] = []
        self._resources = resources
        self._count = 0
        self.asked: dict[int, AskedStep] = {}
        self.done: list[DoneStep] = []

    async def __call__(self, call: StepCall) -> object:
        """Return the step's recorded result, or wait for the developer's decision."""
        name = name_of(call)
        record, error = self._recorded(call), None
        if record is not None and record[0] == FAILED:
            error = CODEC.error_of(record[5], call.raises)
        elif record is not None and record[0] == DONE and name not in self._asks:
            await trio.lowlevel.checkpoint()
            outcome = CODEC.value_of(record[5])
            self.done.append(DoneStep(name, "recorded", outcome))
            return outcome
        self._count += 1
        asked = AskedStep(
            self._count, name, tuple(repr(arg)[:_SHOWN] for arg in call.args), call.conversation, call, error
        )
        self.asked[asked.number] = asked
        try:
            await asked.answered.wait()
        finally:
            del self.asked[asked.number]
        value = await self._run(call) if asked.how == "ran" else asked.outcome
        self.done.append(DoneStep(name, asked.how, value))
        if asked.how == "raised":
            raise cast("Exception", value)
        return value

    def _recorded(self, call: StepCall) -> Record | None:
        """Return the first unused record of this step, or the last record if all records are used."""
        same = [record for record in self._records if _is_same(record[4], call)]
        left = [record for record in same if not any(record is used for used in self._used)]
        record = left[0] if left else same[-1] if same else None
        if record is not None:
            self._used.append(record)
        return record

    # --- the developer's decisions

    def returns(self, number: int | None, value: object) -> None:
        """Make the waiting step `number` return `value`; with None, the first waiting step.

        Raises:
            LocalProtocolError: no such step waits, or the value can't be recorded.
        """
        try:
            CODEC.node_of(value)
        except UnrecordableError as error:
            raise LocalProtocolError("value", f"can't be recorded: {error}") from None
        self._answer(self._asked(number), "returned", value)

    def raises(self, number: int | None, kind: str, text: str = "") -> None:
        """Make the waiting step `number` raise an error of class `kind`; with None, the first waiting step.

        Args:
            kind: name of an error class that the step declares, or of a builtin class. An error of another
                class is raised as StepError.
            text: the error's message.

        Raises:
            LocalProtocolError: no such step waits.
        """
        asked = self._asked(number)
        own = next((cls for cls in asked.call.raises if cls.__name__ == kind), None)
        found: object = own or getattr(builtins, kind, None)
        if own is not None or (isinstance(found, type) and issubclass(found, Exception)):
            self._answer(asked, "raised", cast("type[Exception]", found)(text))
        else:
            self._answer(asked, "raised", StepError(kind, text))

    def runs(self, number: int | None) -> None:
        """Run the code of the waiting step `number`, in real time; with None, of the first waiting step.

        The step's resources are open while the code runs.

        Raises:
            LocalProtocolError: no such step waits.
        """
        self._answer(self._asked(number), "ran")

    async def _run(self, call: StepCall) -> object:
        opened: dict[str, object] = {}

        async def real(value: object) -> Any:
            return await self._opened(value, stack, opened) if isinstance(value, Closed) else value

        with real_time():
            async with AsyncExitStack() as stack:
                fn = await real(call.fn)
                return await fn(*[await real(arg) for arg in call.args])

    async def _opened(self, closed: Closed, stack: AsyncExitStack, opened: dict[str, object]) -> object:
        """Open a placeholder's resource; return the resource, or the attribute that the placeholder names."""
        path = closed_name(closed)
        fits = [one for one in self._resources if f"{path}.".startswith(f"{one.name}.")]
        if not fits:
            raise ConfigError(f"the resource {path} isn't declared on the bot")
        resource = max(fits, key=lambda one: len(one.name))
        if resource.name not in opened:
            opened[resource.name] = await stack.enter_async_context(resource.open())
        value = opened[resource.name]
        for part in path.removeprefix(resource.name).split(".")[1:]:
            value = getattr(value, part)
        return value

    def _asked(self, number: int | None) -> AskedStep:
        number = next(iter(self.asked), 0) if number is None else number
        asked = self.asked.get(number)
        if asked is None or asked.answered.is_set():
            raise LocalProtocolError("step", f"{number} waits for nothing; those that do: {list(self.asked)}")
        return asked

    def _answer(self, asked: AskedStep, how: How, outcome: object = None) -> None:
        asked.how, asked.outcome = how, outcome
        asked.answered.set()


def _is_same(recorded: str, call: StepCall) -> bool:
    if differs(recorded, call.print):
        return False
    # A placeholder's name begins with the resource, not with the class. So only the names after the last dot
    # are compared.
    return recorded.partition(" ")[0].rpartition(".")[2] == name_of(call).rpartition(".")[2]
