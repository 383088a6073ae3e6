"""Structs to bytes and back: what is ours comes back equal, and everything else is a CodecError."""

import msgspec
import pytest

from core.codec import CodecError, Parcel, decode_event, decode_event_shared, decode_parcel, encode
from core.events import EVENTS
from core.events.log import ABOUT_CLOCKS, ClockAccepted
from core.events.region import GangStarted
from core.fact import Event
from core.messages import MESSAGES
from core.messages.base import Message
from core.nouns.ids import WorkloadId
from tests.core.reflection import example

FULL = pytest.mark.parametrize("is_full", [False, True], ids=["smallest", "full"])
STARTED = GangStarted(WorkloadId("w-1"), 1)


def tag(kind: type[msgspec.Struct]) -> str:
    """As written by hand."""
    return str(kind.__struct_config__.tag)


@FULL
@pytest.mark.parametrize("kind", MESSAGES, ids=tag)
def test_message_comes_back_equal(kind: type[Message], *, is_full: bool) -> None:
    """With its id and its sender, whatever its fields hold."""
    parcel = Parcel("m-1", "somebody", example(kind, is_full=is_full))
    assert parcel.message == decode_parcel(encode(parcel)).message
    assert type(parcel.message) is type(decode_parcel(encode(parcel)).message)
    assert ("m-1", "somebody") == (decode_parcel(encode(parcel)).id, decode_parcel(encode(parcel)).sender)


@FULL
@pytest.mark.parametrize("kind", EVENTS, ids=tag)
def test_event_comes_back_equal(kind: type[Event], *, is_full: bool) -> None:
    """And equal events give equal bytes, which is what a chained hash rests on."""
    event = example(kind, is_full=is_full)
    data = encode(event)
    assert event == decode_event(data)
    assert kind is type(decode_event(data))
    assert data == encode(decode_event(data))
    assert event == decode_event_shared(data)


SUBJECTS = (
    "workload",
    "pipeline",
    "worker",
    "region",
    "maintenance",
    "source",
    "domain",
    "requester",
    "tenant",
    "dataset",
)
"""What an event may be about; one that names none of them is about its log."""


@pytest.mark.parametrize("kind", EVENTS, ids=tag)
def test_event_is_found_by_its_subject(kind: type[Event]) -> None:
    """Its `about` is the value of the field that it names, so that the forgotten can still be found."""
    event = example(kind, is_full=True)
    wanted = getattr(event, kind.about_field) if kind.about_field else ""
    if kind is ClockAccepted:
        wanted = ABOUT_CLOCKS  # All of them are found together.
    assert wanted == event.about
    assert (kind.about_field != "") == any(name in kind.__struct_fields__ for name in SUBJECTS)


def test_tags_of_events_are_unique() -> None:
    """Two events of one tag could not be told apart, in any log."""
    tags = [tag(kind) for kind in EVENTS]
    assert sorted(set(tags)) == sorted(tags)


def test_events_and_messages_can_be_encoded_by_field_names() -> None:
    """New fields with defaults may be added at any place: nothing depends on the order of fields."""
    shuffled = {"epoch": 1, "workload": "w-1", "type": "gang-started"}
    assert STARTED == decode_event(msgspec.msgpack.encode(shuffled))


def test_field_that_this_build_does_not_know() -> None:
    """In an event it is skipped: a newer build added it, with a default."""
    newer = {"type": "gang-started", "workload": "w-1", "epoch": 1, "added": [1, 2]}
    assert STARTED == decode_event(msgspec.msgpack.encode(newer))


UNREADABLE = {
    "nothing": b"",
    "no MessagePack": b"\xc1",
    "cut off": encode(STARTED)[:-1],
    "more behind it": encode(STARTED) + b"\x00",
    "no map": msgspec.msgpack.encode([1, 2]),
    "no tag": msgspec.msgpack.encode({"workload": "w-1", "epoch": 1}),
    "unknown tag": msgspec.msgpack.encode({"type": "gang-vanished", "workload": "w-1", "epoch": 1}),
    "tag of a message": msgspec.msgpack.encode({"type": "show-audit"}),
    "field missing": msgspec.msgpack.encode({"type": "gang-started", "workload": "w-1"}),
    "wrong type": msgspec.msgpack.encode({"type": "gang-started", "workload": "w-1", "epoch": "1"}),
    "text that is not UTF-8": encode(STARTED).replace(b"w-1", b"\xff-1"),
    "arrays without end": b"\x82\xa4type\xacgang-started\xa4more" + b"\x91" * 100_000,
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_bytes_that_are_no_event(data: bytes) -> None:
    """Whatever is wrong with them, the reader hears of one error, which it can act on."""
    with pytest.raises(CodecError):
        decode_event(data)


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_bytes_that_are_no_message(data: bytes) -> None:
    """A stranger's bytes end in the dead-letter subject and not in the hearer's death."""
    with pytest.raises(CodecError):
        decode_parcel(data)
    if data != UNREADABLE["tag of a message"]:
        with pytest.raises(CodecError):
            decode_parcel(b"\x83\xa2id\xa1x\xa6sender\xa1y\xa7message" + data)


def test_parcel_of_an_event() -> None:
    """Events are announced inside messages, and are no messages themselves."""
    with pytest.raises(CodecError):
        decode_parcel(msgspec.msgpack.encode({"id": "x", "sender": "y", "message": STARTED}))
