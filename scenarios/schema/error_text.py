"""What is wrong with a value of a scenario file, in the words of whoever writes one: YAML's, and no programmer's."""

import re
from typing import Any

KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
    "date": "a date",
    "datetime": "a date",
}
"""What msgspec calls a kind of value, and what it is called here."""
BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
RANGE = "a number, or two of them"
NAME = "it has only letters, digits, `-` and `_`, and at most 128 of them"
_KIND = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_BOUND = re.compile(r"Expected `\w+` (>=|<=|>|<) (\S+)")
_LENGTH = re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)")


def in_words(said: str, given: Any) -> str:  # Any: as YAML gives it
    """What msgspec said of a value, and what was given where it said so."""
    if match := _KIND.fullmatch(said):
        return _kind_in_words(match[1].split(" | "), match[2], given)
    if match := _BOUND.fullmatch(said):
        return f"it must be {BOUNDS[match[1]]} {number_in_words(float(match[2]))}"
    if match := _LENGTH.fullmatch(said):
        kind, sign, length = match[1], match[2], int(match[3])
        if kind == "array" and length == 2:
            return f"it must be {RANGE}"
        if sign == ">=" and length == 1:
            return "it must not be empty"
        return f"it must have {BOUNDS[sign]} {length} {'characters' if kind == 'str' else 'parts'}"
    if said.startswith("Expected `str` matching regex"):
        return NAME
    return "it is too large" if said == "Number out of range" else said


def number_in_words(number: float) -> str:
    """A number as people write it: whole where it is whole."""
    return f"{int(number):,}" if number.is_integer() else repr(number)


def _kind_in_words(wanted: list[str], got: str, given: Any) -> str:  # Any: as YAML gives it
    kinds = [kind for kind in wanted if kind != "null"] or wanted
    is_range = kinds == ["float", "array"]
    must = RANGE if is_range else " or ".join(KINDS.get(kind, kind) for kind in kinds)
    found = KINDS.get(got, got)
    if got == "float":
        found = "a number with a fraction"
    said = f"it must be {must}, not {found}"
    if kinds == ["str"] and got != "null":
        return f"{said}; in quotes it is a text" if got not in ("object", "array") else said
    if got == "str" and _is_number(given) and not {"int", "float"}.isdisjoint(kinds):
        return f"{said}: YAML wants a point and a sign in a number such as 1.0e+6"
    return said


def _is_number(given: Any) -> bool:  # Any: as YAML gives it
    try:
        float(given)
    except (TypeError, ValueError):
        return False
    return True
