"""Log lines: how they look and where they go.

One JSON object a line for machines, something to read for a person at a terminal; always to standard error, because
standard output is for answers.
"""

import logging
import sys
from collections.abc import Mapping

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LEVEL_VARIABLE = "MIZZEN_LOG"
LEVELS = ("debug", "info", "warning", "error")


class UnknownLevel(Exception):
    """`MIZZEN_LOG` holds something else than a level; the text names those that there are."""

    def __init__(self, level: str) -> None:
        super().__init__(f"{LEVEL_VARIABLE} is {level!r}; set it to one of {', '.join(LEVELS)}")


def set_up_logs(environment: Mapping[str, str], default: str, *, is_json: bool | None = None) -> None:
    """From here on log lines of at least the wanted level are written to standard error. Raises UnknownLevel.

    `default` is the level where the environment names none. `is_json`: None means unless this is a terminal.
    """
    level = environment.get(LEVEL_VARIABLE, "") or default
    if level not in LEVELS:
        raise UnknownLevel(level)
    if is_json is None:
        is_json = not sys.stderr.isatty()
    threshold = logging.getLevelNamesMapping()[level.upper()]
    written: list[Processor] = (
        [_event_first, structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(default=str)]
        if is_json
        else [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *written,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def _event_first(_logger: WrappedLogger, _method: str, fields: EventDict) -> EventDict:
    """When, how grave and what, and then the fields: lines are read by people too."""
    first = {name: fields.pop(name) for name in ("timestamp", "level", "event") if name in fields}
    return {**first, **fields}
