"""Which images a snapshot may hold, and how one that the build before kept becomes this build's.

A version is one shape of the images: a digest of the schema of all their structs, down to the nouns in them. A change of a
struct without a new version fails tests/golden/test_images.py, which says what to do:

1. Add the new shape to `shapes` of `VERSIONS`: the version is their number.
2. Replace `step` by one from the version before: a function beside `VERSIONS` that returns the sections that differ.
3. Run `python -m tests.golden.images`, which keeps snapshots of the new version for the builds to come.

A step must give what a fold of all facts gives, for a replay of the log must reach its keeper's digest. A new field with a
default, which no fact of an older build would have changed, needs nothing but its name in `new_fields`. What older facts
would have changed is computed from the older sections. If it does not follow from those, the step returns None, and the log
is folded from its first fact, archive files included: once, but for as long as that takes.

Only the step from the version before is kept. A snapshot of an older version, or an unknown one, is left aside.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from core.codec import UNREADABLE, CodecError, encode
from core.images import Image, decode_image, image_type
from core.images.harvest import Harvest
from core.nouns.ids import GLOBAL_LOG, LogName

UNSAID = ""
"""What builds before version 1 said of their snapshots. They may be of version 1 or older, which their content tells."""


class OldSections:
    """The sections of an image of the version before, as plain tables."""

    def __init__(self, data: bytes) -> None:
        self._encoded = msgspec.msgpack.decode(data, type=dict[str, msgspec.Raw])

    def read(self, name: str) -> Any:  # Any: what MessagePack holds
        """A section, decoded for this call. Raises KeyError when the image has none of this name."""
        return msgspec.msgpack.decode(self._encoded[name])

    def encoded(self, name: str) -> msgspec.Raw:
        """A section as it is. Raises KeyError."""
        return self._encoded[name]


class Step(Struct, frozen=True):
    """From the version before to this one."""

    change: Callable[[LogName, OldSections], dict[str, Any] | None]
    """Return the sections of a log's image that differ, or are new, as plain tables; None if only the facts can tell them."""
    new_fields: frozenset[str] = frozenset()
    """Names of fields, as encoded, that the version before did not have."""


class Versions(Struct, frozen=True):
    """The versions that there were, and the step to the newest."""

    shapes: tuple[str, ...]
    """Of each version from 1 on, the digest of its schema."""
    step: Step | None = None

    @property
    def made_of(self) -> str:
        """What this build says of its snapshots."""
        return self._name(len(self.shapes))

    def image_of(self, log: LogName, data: bytes, made_of: str) -> Image | None:
        """The image in a snapshot; None if this build cannot go on from it as if it had folded every fact."""
        newest = len(self.shapes)
        numbers = {self._name(number): number for number in range(1, newest + 1)}
        number = numbers.get(made_of, 1 if made_of == UNSAID else 0)
        try:
            if number == newest:
                image = decode_image(log, data)
                return image if made_of != UNSAID or image.encode() == data else None
            if number == newest - 1 and self.step is not None:
                return self._stepped(self.step, log, data, is_said=made_of != UNSAID)
        except (CodecError, LookupError, TypeError, AttributeError, *UNREADABLE):
            return (
                None  # A step reads plain tables: of a shape that it does not know anything may be missing.
            )
        return None

    def _name(self, number: int) -> str:
        return f"{number}-{self.shapes[number - 1]}"

    def _stepped(self, step: Step, log: LogName, data: bytes, *, is_said: bool) -> Image | None:
        old = OldSections(data)
        changed = step.change(log, old)
        if changed is None:
            return None
        sections = image_type(log).SECTIONS
        stepped = encode({name: changed[name] if name in changed else old.encoded(name) for name in sections})
        image = decode_image(log, stepped)
        if not is_said:
            said, made = msgspec.msgpack.decode(stepped), msgspec.msgpack.decode(image.encode())
            if not _is_all(said, made, step.new_fields):
                return None
        return image


def _is_all(said: Any, made: Any, new_fields: frozenset[str]) -> bool:  # Any: what MessagePack holds
    """Whether plain tables say all that was made of them, but for new fields. A build that said no version may be older than
    the version before: then it lacks fields that would get their defaults here, whatever its facts were.
    """
    if isinstance(said, dict) and isinstance(made, dict):
        return not said.keys() - made.keys() and all(
            _is_all(said[key], value, new_fields) if key in said else key in new_fields
            for key, value in made.items()
        )
    if isinstance(said, list) and isinstance(made, list):
        return len(said) == len(made) and all(
            _is_all(one, other, new_fields) for one, other in zip(said, made, strict=True)
        )
    return bool(said == made)


def _version_10(log: LogName, _: OldSections) -> dict[str, Any] | None:
    """A region knows what is harvested, which no older fact tells. Pools and tenants have settings for it, which are the defaults."""
    return {} if log == GLOBAL_LOG else {"harvest": msgspec.to_builtins(Harvest())}


VERSIONS = Versions(
    shapes=(
        "e8c730068ba3cf37",
        "bc4a2e51df756905",
        "ceac077c834e803e",
        "78ddbff62ff5221e",
        "2fac062ca5d293c0",
        "8d08a2cffc4190ff",
        "23b43b9efe8f8d22",
        "083e616bc00de9fe",
        "ebb00c9891f69e99",
        "4d597375170f240c",
    ),
    step=Step(
        _version_10,
        frozenset(
            {"harvest", "price", "harvested", "harvested_span", "retried", "lost_span", "idle", "keeps_bytes"}
        ),
    ),
)
"""Those of this build."""
