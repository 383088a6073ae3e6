"""What images are made of: sections, each a plain fold of its own.

A section's folds are methods listed by event type. Folding one section never reads another, an index or a note, so a
follower may fold only the sections that it needs and gets the same ones as the keeper.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import ClassVar, Self

import msgspec
from msgspec import Struct

from core.codec import UNREADABLE, CodecError, encode
from core.fact import Event, Fact


class Section(Struct):
    """One part of an image."""

    FOLDS: ClassVar[dict[type[Event], str]] = {}
    """The method that folds each event; other events do not concern the section."""


class Image:
    """All or some sections of one log's fold. Each sort of image annotates its sections; those not folded are not there."""

    SECTIONS: ClassVar[dict[str, type[Section]]] = {}

    def __init_subclass__(cls) -> None:
        cls.SECTIONS = cls.__annotations__

    def __init__(self, sections: dict[str, Section]) -> None:
        self.sections = sections
        for name, section in sections.items():
            setattr(self, name, section)
        self._folds: dict[type, list[Callable[[Fact], None]]] = {}
        for section in sections.values():
            for event, method in section.FOLDS.items():
                self._folds.setdefault(event, []).append(getattr(section, method))

    @classmethod
    def empty(cls, names: tuple[str, ...] = ()) -> Self:
        """Before the first fact."""
        return cls({name: cls.SECTIONS[name]() for name in names or cls.SECTIONS})

    @classmethod
    def decode(cls, data: bytes, names: tuple[str, ...] = ()) -> Self:
        """From `encode`. Raises CodecError."""
        try:
            encoded = msgspec.msgpack.decode(data, type=dict[str, msgspec.Raw])
        except UNREADABLE as error:
            raise CodecError(f"{cls.__name__}: {error}") from error
        return cls.of_encoded(encoded, names)

    @classmethod
    def of_encoded(cls, encoded: Mapping[str, bytes | msgspec.Raw], names: tuple[str, ...] = ()) -> Self:
        """From these sections, each encoded by itself. Raises CodecError."""
        try:
            return cls(
                {
                    name: msgspec.msgpack.decode(encoded[name], type=cls.SECTIONS[name])
                    for name in names or cls.SECTIONS
                }
            )
        except (*UNREADABLE, KeyError) as error:
            raise CodecError(f"{cls.__name__}: {error}") from error

    def encode(self, names: tuple[str, ...] = ()) -> bytes:
        """These sections, or all."""
        return encode({name: self.sections[name] for name in names or self.sections})

    def fold(self, fact: Fact) -> None:
        """Change by one fact, in place."""
        for fold in self._folds.get(type(fact.event), ()):
            fold(fact)

    def digest(self) -> str:
        """Equal for equal folds, on every machine."""
        return blake2b(self.encode(), digest_size=16).hexdigest()
