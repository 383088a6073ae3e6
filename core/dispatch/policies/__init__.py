"""The policies of dispatch, by name: one file each. A new one is one file and one line here."""

from collections.abc import Callable

from core.dispatch.policies.edf import EarliestDeadlineFirst
from core.dispatch.policies.fifo import FirstInFirstOut
from core.dispatch.policies.llf import LeastLaxityFirst
from core.dispatch.policies.rr import RoundRobin
from core.dispatch.policies.sjf import ShortestJobFirst
from core.dispatch.policies.token import Token
from core.dispatch.policy import Policy
from core.nouns.dispatch import DispatchSettings

POLICIES: dict[str, Callable[[DispatchSettings], Policy]] = {
    "llf": LeastLaxityFirst,
    "edf": EarliestDeadlineFirst,
    "sjf": ShortestJobFirst,
    "token": Token,
    "rr": RoundRobin,
    "fifo": FirstInFirstOut,
}
