"""Messages that nobody meant to say: of a real type, each field filled with something of its type that could stand there.

What is forged is either spoiled before it is said or asks for something and changes nothing: a forged word of one part of
the plane to another would be believed, as it must be, for the bus lets nobody else say it.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import inspect

from core.messages import MESSAGES
from core.messages.auditor import ShowAudit
from core.messages.base import Answer, Message
from core.messages.control import ShowControllers
from core.messages.functions import ShowFunctions
from core.messages.logs import AskHead, FetchImage, ReadAbout, ReadLog
from core.messages.output import ReadOutput
from core.messages.queue import ExplainWorkload, ListWorkloads, ShowWorkload
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from runtime.wiring import Unit, bus_name_of, log_kept_by

Some = TypeVar("Some", bound=Message)

SAID: tuple[type[Message], ...] = tuple(kind for kind in MESSAGES if not issubclass(kind, Answer))
"""All types that have an address of their own."""
QUESTIONS: tuple[type[Message], ...] = (
    ShowWorkload,
    ListWorkloads,
    ExplainWorkload,
    ShowAudit,
    AskHead,
    ReadLog,
    ReadAbout,
    FetchImage,
    ReadOutput,
    ShowControllers,
    ShowFunctions,
)
"""Those that anybody may ask, and that change nothing."""
NUMBERS = (-1, 0, 1, 2, 7, 1000, 1 << 31, (1 << 63) - 1)
NOBODY = WorkloadId("w-999999999")
LENGTH_MAX = 3
"""Of sequences."""

Names = Mapping[str, Sequence[str]]
"""By field, what may stand there."""


def names_of(units: Sequence[Unit], workloads: Sequence[WorkloadId]) -> Names:
    """Those that there are in a plane, and a workload that there is not."""
    return {
        "region": [unit.region for unit in units if unit.region],
        "worker": [unit.member for unit in units if unit.role == "worker"],
        "agent": [unit.member for unit in units if unit.role == "allocation_agent"],
        "log": [log_kept_by(unit) or GLOBAL_LOG for unit in units],
        "workload": [*workloads, NOBODY],
        "process": [bus_name_of(unit) for unit in units],
        "tenant": ["apps", "others"],
        "controller": ["control", "nobody"],
        "server": [unit.member for unit in units if unit.role == "worker"],
        "router": ["r0", "r1"],
        "caller": ["caller"],
    }


def forged(kind: type[Some], dice: random.Random, names: Names) -> Some:
    """A message of this type."""
    message = _value(inspect.type_info(kind), "", dice, names)
    assert isinstance(message, kind), message
    return message


def _value(kind: inspect.Type, field: str, dice: random.Random, names: Names) -> Any:  # Any: of whatever type
    """Something of a type, for a field of this name."""

    def drawn(item: inspect.Type) -> list[Any]:
        return [_value(item, field, dice, names) for _ in range(dice.randint(0, LENGTH_MAX))]

    match kind:
        case inspect.StructType(cls=cls, fields=fields):
            return cls(**{one.name: _value(one.type, one.name, dice, names) for one in fields})
        case inspect.StrType():
            return dice.choice(names.get(field) or ("", "x", "granted", "w-1", "\N{SNOWMAN}", "y" * 300))
        case inspect.IntType():
            return dice.choice(NUMBERS)
        case inspect.FloatType():
            return dice.choice((-1.0, 0.0, 1.5, 1e300))
        case inspect.BoolType():
            return dice.random() < 0.5
        case inspect.BytesType():
            return dice.randbytes(dice.randint(0, 40))
        case inspect.EnumType(cls=cls):
            return dice.choice(list(cls))
        case inspect.VarTupleType(item_type=item):
            return tuple(drawn(item))
        case inspect.ListType(item_type=item):
            return drawn(item)
        case inspect.TupleType(item_types=items):
            return tuple(_value(item, field, dice, names) for item in items)
        case inspect.DictType(key_type=key, value_type=item):
            return {_value(key, field, dice, names): value for value in drawn(item)}
        case inspect.UnionType(types=types):
            return _value(dice.choice(types), field, dice, names)
        case inspect.NoneType():
            return None
    raise AssertionError(f"a message has a field `{field}` of {kind}")
