"""Facts as people read them, a line each, and as JSON has them."""

from typing import Any

import msgspec

from core.codec import encode
from core.fact import Event, Fact
from mizzen.views.phrases.text import instant_text

_REST_DEFAULTS_SHOWN = frozenset({"epoch", "rank", "term", "is_merged"})
"""Fields that are told though they are what they would be if nobody had said anything."""
_TOLD_WHOLE = frozenset({"moves", "acks"})
"""Fields within which a zero says something: a task, a node."""


def builtins_of(fact: Fact) -> dict[str, Any]:  # Any: whatever JSON can hold
    """A fact as JSON has it: its place in the log, and the event with every field."""
    event = fact.event
    assert isinstance(event, Event), event
    fields = msgspec.to_builtins(event, str_keys=True)
    return {
        "log": fact.log,
        "sequence": fact.sequence,
        "at": fact.at,
        "time": instant_text(fact.at),
        "actor": fact.actor,
        "cause": fact.cause,
        "type": fields.pop("type"),
        "about": event.about,
        "event": fields,
    }


def line_of(fact: Fact) -> str:
    """Sequence, time, actor, type, what it is about, and the rest."""
    event = fact.event
    assert isinstance(event, Event), event
    start = f"{fact.sequence:>7}  {instant_text(fact.at)}  {fact.actor or '-':<18}  {tag_of(event):<20}"
    return f"{start}  {event.about or '-':<8}  {rest_of(event)}".rstrip()


def tag_of(event: Event) -> str:
    """Its type, as written by hand."""
    return str(event.__struct_config__.tag)


def rest_of(event: Event) -> str:
    """Its fields but for what it is about and for those that say nothing, as `name=value`."""
    parts = []
    for field in msgspec.structs.fields(event):
        value = getattr(event, field.name)
        if field.name == event.about_field:
            continue
        if _says_nothing(value) and field.name not in _REST_DEFAULTS_SHOWN:
            continue
        is_whole = field.name in _TOLD_WHOLE
        parts.append(f"{field.name}={_value_text(value, is_whole=is_whole)}")
    return " ".join(parts)


def _says_nothing(value: object) -> bool:
    return value in ("", 0, (), None, {}) and not isinstance(value, bool)


def _value_text(value: object, *, is_whole: bool = False) -> str:
    if isinstance(value, str):
        return value if value and " " not in value else repr(str(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if is_whole:
        return msgspec.json.encode(value).decode()
    return msgspec.json.encode(_lean(msgspec.msgpack.decode(encode(value), strict=False))).decode()


def _lean(value: Any) -> Any:  # Any: whatever MessagePack can hold
    """Without what says nothing, which is most of a specification."""
    if isinstance(value, dict):
        return {str(name): _lean(one) for name, one in value.items() if one not in ("", 0, [], None, {})}
    return [_lean(one) for one in value] if isinstance(value, list) else value
