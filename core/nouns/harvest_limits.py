"""Ceilings and spans of harvested capacity."""

from core.nouns.instant import Nanoseconds, seconds

HARVEST_AT_ONCE_MAX = 512
"""Nodes that one proposal or release is about: a fact with a part for each stays within `FACT_BYTES_MAX`."""
HARVESTED_OF_SERVER_MAX = 2_048
"""Harvested nodes that one function server is told of, free and lent, in one message within `MESSAGE_BYTES_MAX`."""
HARVEST_TOGETHER: Nanoseconds = seconds(0.1)
"""How long the harvester gathers changes of a zone before it proposes."""
HARVEST_SAY_AGAIN: Nanoseconds = seconds(1)
"""Between proposals, releases and sizes that are not confirmed yet."""
SIZES_INTERVAL: Nanoseconds = seconds(5)
"""Between sizes that are told to a function server without a change."""
SIZES_A_SECOND = 100
"""Of all servers without a change together: with more servers, each is told its sizes less often."""
SERVER_TRIES_MAX = 10
"""Sizes told to a function server without an answer before nothing more is offered on its nodes."""
SERVER_TRIED_AGAIN: Nanoseconds = seconds(30)
"""Between sizes told to a silent server after those tries."""
ODDS_INTERVAL: Nanoseconds = seconds(10)
"""Between what the routers of a region are told of recalls."""
