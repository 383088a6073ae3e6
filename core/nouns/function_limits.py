"""Limits of functions and their calls (docs/functions.md)."""

from core.nouns.instant import Nanoseconds, seconds

CALLS_AT_ONCE_MAX = 256
"""In one message."""
CALL_BATCH_BYTES = 64 * 1024
"""Of arguments in one message with several calls: one with a larger argument travels alone."""
CALL_BYTES_MAX = 512 * 1024
"""Of one call's arguments, and of its value: larger ones go by file."""
CALLS_OUT_MAX = 4_096
"""Of one caller at one router, without an answer."""
CALLS_TAKEN_MAX = 2 * CALLS_OUT_MAX
"""By one router of one caller: servers tell a caller of an end before they tell the router, and the caller says another call at once."""
CALLS_KNOWN_MAX = 4 * CALLS_TAKEN_MAX
"""By one router of one caller, those included that have ended and of which the caller has not said that it has the answer."""
CALLERS_MAX = 10_000
"""Of one router; half of them at most of one tenant."""
CALLS_HELD_MAX = 50_000
"""By one router, of all callers; half of them at most of one tenant, so that no tenant closes the router to others."""
CALLS_HELD_BYTES_MAX = 256 * 1024 * 1024
"""Of their arguments; half of that at most of one tenant, and a quarter of one caller."""
RANGES_TOLD_MAX = 64
"""Ranges of answered calls that go with a message."""
CALL_AGAIN: Nanoseconds = seconds(2)
"""After which a caller says a call again that has no answer; then twice as long, up to `CALL_AGAIN_MAX`."""
CALL_AGAIN_MAX: Nanoseconds = seconds(16)
CALLER_SILENCE_MAX: Nanoseconds = seconds(120)
"""After which a router forgets a caller, and its calls that wait."""
ROUTER_INTERVAL: Nanoseconds = seconds(2)
ROUTER_SILENCE_MAX: Nanoseconds = seconds(7)
"""After which callers take a router for gone: three times it was not heard."""
ASK_CALLS_SPAN: Nanoseconds = seconds(3)
"""How long a caller waits for servers that know a call of a router that is gone; nobody can tell what became of it then."""
WARM_TOLD_MAX = 256
"""Functions that a router names as warm."""
NO_SERVER_AGAIN: Nanoseconds = seconds(2)
"""After which calls are said again to a router of whose servers none could run them."""
NO_SERVER_SPAN: Nanoseconds = seconds(30)
"""How long a caller looks for a region that could run a function which has had no answer yet."""
SERVER_REPORT: Nanoseconds = seconds(1)
SERVER_STALE: Nanoseconds = seconds(3)
"""A server that was not heard for so long gets nothing."""
ODDS_STALE: Nanoseconds = seconds(60)
"""A router that has heard nothing of a region's harvester for so long sends nothing to harvested capacity."""
SERVER_GONE: Nanoseconds = seconds(10)
"""One that was not heard for so long is taken for gone: what it had is run elsewhere, or lost if it may be begun once only."""
RUN_AGAIN: Nanoseconds = seconds(1)
"""After which a router sends a run again that has not come."""
CALL_WINDOW: Nanoseconds = seconds(0.05)
"""Work that an executor is given at once: calls of microseconds would else wait for each round trip."""
CALL_WINDOW_MAX = 256
"""Calls that an executor is given at once."""
ANSWERS_KEPT_SPAN: Nanoseconds = seconds(60)
ANSWERS_KEPT_MAX = 10_000
"""By a server, for calls that are said again."""
ANSWERS_KEPT_BYTES_MAX = 64 * 1024 * 1024
KEEP_ALIVE_MIN: Nanoseconds = seconds(30)
KEEP_ALIVE_MAX: Nanoseconds = seconds(600)
"""Of an idle executor: also while nothing is known of its function, as in the paper's experiments."""
CODE_AGAIN: Nanoseconds = seconds(1)
CODE_SPAN: Nanoseconds = seconds(15)
"""How long a server waits for pickled code, before the calls that need it have failed."""
CODE_BYTES_MAX = 512 * 1024
CALL_TRIES_MAX = 3
"""How often a server begins a call whose executor was taken from it, and a router one whose harvested capacity was."""
SERVING_GRACE_MIN: Nanoseconds = seconds(2)
"""Least grace of a task that holds capacity: twice the time after which executors that stay are killed (runtime/functions/hold.py)."""
FUNCTIONS_COUNTED: Nanoseconds = seconds(60)
"""Between two facts about the calls of a region."""
FUNCTIONS_COUNTED_MAX = 256
"""Functions in one of them, those with most calls; the others are counted in the next."""
COUNT_AGAIN: Nanoseconds = seconds(5)
"""After which a router tells the store again."""
FUNCTIONS_REMEMBERED_MAX = 1_000
"""Of a region, in its image."""
