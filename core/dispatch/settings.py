"""The check of what operators set of dispatch."""

from core.dispatch.policies import POLICIES
from core.nouns.dispatch import QUANTUM_MAX, RATE_MAX, WITHIN_MIN, DispatchSettings, Target, UrgencyClass
from core.nouns.instant import MILLISECOND, SECOND
from core.nouns.limits import SPAN_MAX

NAME_SHOWN_MAX = 40
"""Characters shown of a name that is none."""


def problems_of_settings(settings: DispatchSettings) -> list[str]:
    """Return every problem of the settings, each a sentence with its field."""
    found = []
    if settings.policy not in POLICIES:
        found.append(
            f"policy: there is no {settings.policy[:NAME_SHOWN_MAX]!r}; there are {', '.join(POLICIES)}"
        )
    for sort, target in settings.targets.items():
        if sort not in set(UrgencyClass):
            found.append(f"class: there is no {sort[:NAME_SHOWN_MAX]!r}; there are {', '.join(UrgencyClass)}")
        else:
            found += _problems_of(sort, target)
    if not 0 <= settings.quantum <= QUANTUM_MAX:
        found.append(f"quantum: it is from 0 to {QUANTUM_MAX // SECOND} s")
    if not 1 <= settings.rate <= RATE_MAX:
        found.append(f"rate: it is from 1 to {RATE_MAX} requests of a tenant in a second")
    return found


def _problems_of(sort: str, target: Target) -> list[str]:
    if target.within < WITHIN_MIN:
        return [f"{sort}: a target is {WITHIN_MIN // MILLISECOND} ms at least"]
    if target.max_wait < target.within:
        return [f"{sort}: the longest wait cannot be shorter than the target"]
    if target.max_wait > SPAN_MAX:
        return [f"{sort}: the longest wait is {SPAN_MAX // SECOND} s at most"]
    return []
