"""How commands answer: on standard output what was asked for, on standard error what is wrong, for people or as JSON.

Nobody is ever shown a trace. Whatever a person can cause raises a `CommandError`, whose one sentence says what to do next.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FAILED = 1
"""The exit code of a command that could not do what it was asked for, or found something wrong."""
MISUSED = 2
"""The exit code of a command that was asked for in a way it does not know."""
INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
PROBLEMS_SHOWN_MAX = 50
"""Lines that say what is wrong; JSON has them all."""


class CommandError(Exception):
    """A command cannot do what it was asked for; the text is one sentence that says what to do next."""

    def __init__(self, text: str, exit_code: int = FAILED, problems: Sequence[str] = ()) -> None:
        """Each of the problems has a line of its own, above the sentence."""
        super().__init__(text)
        self.exit_code = exit_code
        self.problems = problems


def command_name() -> str:
    """How whoever is here starts `mizzen`: what they typed, unless the shell finds it by its name."""
    typed = Path(sys.argv[0])
    if typed.name != "mizzen":
        return "mizzen"
    return "mizzen" if typed.is_absolute() and shutil.which("mizzen") == str(typed) else str(typed)


def tell_json(value: Any) -> None:  # Any: whatever JSON can hold
    """Answer with one JSON value."""
    print(json.dumps(value, indent=None if not sys.stdout.isatty() else 2))


def tell_json_line(value: Any) -> None:  # Any: whatever JSON can hold
    """Answer with one of many JSON values, each on a line of its own, at once."""
    print(json.dumps(value), flush=True)


def tell_lines(lines: Iterable[str]) -> None:
    """Answer with lines as they are."""
    for line in lines:
        print(line)


def tell_table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Answer with a table, as wide as it needs to be where nobody looks at it."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title or None)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table).maximum)
    console.print(table)


def tell_problem(text: str, *, is_json: bool, problems: Sequence[str] = ()) -> None:
    """Say on standard error what is wrong: all of it, and what comes of it."""
    sentence = " ".join(text.split())
    if is_json:
        told = {"error": sentence, "problems": list(problems)} if problems else {"error": sentence}
        print(json.dumps(told), file=sys.stderr)
        return
    more = len(problems) - PROBLEMS_SHOWN_MAX
    shown = [*problems[:PROBLEMS_SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]
    print(*shown, f"mizzen: {sentence}", sep="\n", file=sys.stderr)


def tell_note(text: str, *, is_json: bool) -> None:
    """Say on standard error what is not wrong, and not as it may seem."""
    print(json.dumps({"note": text}) if is_json else f"mizzen: note: {text}", file=sys.stderr)


@contextmanager
def explained(*expected: type[Exception]) -> Iterator[None]:
    """Turn exceptions whose text says what to do, and the operating system's, into a `CommandError`.

    Those that know of many `problems` have them told, each on a line of its own.
    """
    try:
        yield
    except expected as error:
        # Some know of problems that are no texts, and tell all of them in their own.
        problems = [text for text in getattr(error, "problems", ()) if isinstance(text, str)]
        raise CommandError(str(error), problems=problems) from error
    except OSError as error:
        raise CommandError(_text_of(error)) from error


def _text_of(error: OSError) -> str:
    """What the operating system refused, and of what."""
    said = (error.strerror or repr(error)).lower()
    return (
        f"{error.filename}: {said}; see that it is there and that you may use it" if error.filename else said
    )
