"""The thing that a message is about, as far as a message that makes its component fail is set apart from others of its type."""

from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import fields

from core.codec import encode
from core.messages.base import Message, Notice
from core.nouns.ids import WorkloadId

NAMES = ("workload", "worker", "unit")
"""Fields that name the thing, by precedence: of the message itself, or of a struct within it."""
VARYING = frozenset({"sequence", "revision", "order", "life", "planned", "solved_from", "starts_in", "key"})
"""Fields in which repeats of one message differ: what the sender had seen by then, and times."""
_DIGEST_BYTES = 8


def workload_of(message: Message) -> WorkloadId | None:
    """Return the workload that a message belongs to; None if it belongs to none."""
    named = _named(message, "workload")
    return WorkloadId(named) if named else None


def subject_of_failure(message: Message) -> str:
    """Return the name of the thing that a message is about, or a digest of the message if it names none.

    Repeats of one message have one subject, though each may carry another time, number or auction: the digest is of all fields
    but `VARYING`.
    """
    for name in NAMES:
        if named := _named(message, name):
            return f"{name} {named}"
    lasting = [getattr(message, field.name) for field in fields(message) if field.name not in VARYING]
    return f"digest {blake2b(encode(lasting), digest_size=_DIGEST_BYTES).hexdigest()}"


def may_be_at_fault(message: Message) -> bool:
    """Return whether a failure may be blamed on a message: not on a notice that belongs to no workload.

    Such a notice is the host's own, or the outcome of an effect for which the component waits, and without it would wait for ever.
    """
    return not isinstance(message, Notice) or workload_of(message) is not None


def _named(message: Message, name: str) -> str:
    """Return what this field of the message holds, or of a struct within the message; empty if there is no such field."""
    for within in (message, *(getattr(message, field.name) for field in fields(message))):
        found = getattr(within, name, None) if isinstance(within, Struct) else None
        if isinstance(found, str) and found:
            return found
    return ""
