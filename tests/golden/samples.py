"""Golden samples: each version of each event as a log holds it, in a file of its own that nobody changes.

A file `events/<tag>.v<version>.txt` shows the event as JSON, for readers of diffs, and below it the bytes in hexadecimal,
which are what counts.
"""

from pathlib import Path

import msgspec

from core.codec import decode_event, encode
from core.events import EVENTS
from core.fact import Event
from tests.golden.history import HISTORY

FOLDER = Path(__file__).parent / "events"
HOW_TO_ADD = (
    "put one into HISTORY in tests/golden/history.py, with no field at its default, and run "
    "`python -m tests.golden.make`: it writes what is missing and never overwrites"
)
_DIGITS_PER_LINE = 96


def tag_of(kind: type[Event]) -> str:
    """An event's tag, as written by hand."""
    return str(kind.__struct_config__.tag)


def samples_of(tag: str) -> list[bytes]:
    """All versions, the oldest first."""
    found: list[bytes] = []
    while (path := _path(tag, len(found) + 1)).exists():
        _, _, digits = path.read_text().partition("\n\n")
        found.append(bytes.fromhex(digits))
    return found


def first_in_history(tag: str) -> Event | None:
    """What a new sample is made of."""
    return next((event for _, event in HISTORY if tag_of(type(event)) == tag), None)


def needs_a_sample(tag: str) -> bool:
    """Whether what this build writes has no sample: a new event, or one with a new field."""
    samples = samples_of(tag)
    return not samples or encode(decode_event(samples[-1])) != samples[-1]


def write_missing() -> list[Path]:
    """A sample for each event that needs one and occurs in the history. Returns what was written."""
    written = []
    for tag in map(tag_of, EVENTS):
        event = first_in_history(tag)
        if event is not None and needs_a_sample(tag):
            path = _path(tag, len(samples_of(tag)) + 1)
            data = encode(event).hex()
            lines = [data[at : at + _DIGITS_PER_LINE] for at in range(0, len(data), _DIGITS_PER_LINE)]
            text = msgspec.json.format(msgspec.json.encode(event), indent=2).decode()
            path.parent.mkdir(exist_ok=True)
            with path.open("x") as file:  # Never one that is there.
                file.write(text + "\n\n" + "\n".join(lines) + "\n")
            written.append(path)
    return written


def _path(tag: str, version: int) -> Path:
    return FOLDER / f"{tag}.v{version}.txt"
