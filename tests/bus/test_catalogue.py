"""The catalogue has a subject for every message, and none that reaches whom it should not."""

import re
from typing import Any

import msgspec
import pytest

from bus.catalogue import ROUTES, dead_letters_of, inbox_of, pattern_of, subject_of
from bus.errors import BadSubject
from bus.port import Address
from core.messages import MESSAGES
from core.messages.base import Answer, Message, Notice
from core.messages.logs import HeadTold
from core.nouns.ids import GLOBAL_LOG, RegionName, region_log

ROUTED = [kind for kind in MESSAGES if not issubclass(kind, Answer)]
VALID = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+(/[a-z0-9_-]+)*")
"""A signature follows the verb."""


def example(kind: type[Message], name: str = "eu") -> Message:
    """A message whose scope fields all hold one name; whatever else it has is of no matter here."""
    blank: dict[str, Any] = dict.fromkeys(kind.__struct_fields__, name)  # Any: never looked at
    message: Message = kind(**blank)
    return message


def tag(kind: type[Message]) -> str:
    """As written by hand."""
    return str(kind.__struct_config__.tag)


def test_every_message_has_a_route() -> None:
    """Everything but answers, which go to whoever asked; and nothing else has one."""
    assert sorted(map(tag, ROUTED)) == sorted(map(tag, ROUTES))
    assert [] == [tag(kind) for kind in MESSAGES if issubclass(kind, Notice)], "notices never cross the bus"


def test_scopes_are_fields() -> None:
    """A route names fields that its message has, and they are text."""
    missing = [
        (tag(kind), field)
        for kind, route in ROUTES.items()
        for field in (*route.scope, *route.signed)
        if field not in kind.__struct_fields__
    ]
    assert [] == missing
    for kind, route in ROUTES.items():
        types = {field.name: field.type for field in msgspec.structs.fields(kind)}
        for field in (*route.scope, *route.signed):
            assert str is getattr(types[field], "__supertype__", types[field]), (tag(kind), field)


def test_tags_are_unique_and_written_by_hand() -> None:
    """Two messages of one tag could not be told apart."""
    tags = [tag(kind) for kind in MESSAGES]
    assert sorted(set(tags)) == sorted(tags)
    assert [] == [one for one in tags if not re.fullmatch(r"[a-z]+(-[a-z]+)*", one)]


def test_subjects_are_valid_and_lie_in_their_address() -> None:
    """`<fleet>.<noun>.<scope…>.<verb>`, lower case; the pattern of its address is the subject but for the verb."""
    seen = set()
    for kind, route in ROUTES.items():
        subject = subject_of("fleet", example(kind))
        assert VALID.fullmatch(subject), subject
        pattern = pattern_of("fleet", Address(route.noun, ("eu",) * len(route.scope)))
        assert pattern == subject.rpartition(".")[0] + ".*"
        seen.add(subject)
    assert len(ROUTES) == len(seen), "each verb is one message"


def test_log_name_is_two_tokens() -> None:
    """So that the logs of all regions can be told from the global one, and granted by a wildcard."""
    head = HeadTold(log=region_log(RegionName("eu")), log_id="x", term=1, sequence=1, hash=b"")
    assert "fleet.log.region.eu.head_told" == subject_of("fleet", head)
    assert "fleet.log.region.eu.*" == pattern_of("fleet", Address("log", ("region.eu",)))
    assert "fleet.log.global.*" == pattern_of("fleet", Address("log", (GLOBAL_LOG,)))


@pytest.mark.parametrize(
    "name", ["", " ", "*", ">", "a b", "a\r\nPUB x 1", "é", "a..b", ".a", "a" * 129, "a\n", "$SYS"]
)
def test_bad_name_is_refused(name: str) -> None:
    """A blank, a wildcard or an empty token would be heard by others, or by nobody."""
    for kind, route in ROUTES.items():
        if route.scope:
            with pytest.raises(BadSubject):
                subject_of("fleet", example(kind, name))
    with pytest.raises(BadSubject):
        pattern_of("fleet", Address("agent", ("eu", name)))


def test_own_subjects_cannot_be_spelled_by_messages() -> None:
    """Dead letters and inboxes lie beside all addresses."""
    assert not {"dead"} & {route.noun for route in ROUTES.values()}
    assert "fleet.dead.letter" == dead_letters_of("fleet")
    assert inbox_of("x").startswith("_INBOX."), "what NATS permissions speak of"
