"""The fleet that policies are compared on, as the command line names it: GPUs by type, their nodes, and their prices.

V100=36                 36 GPUs
eu/H100=16x8@2.50       in the region eu 16 nodes of 8 GPUs, at 2.50 dollars of one GPU for an hour
"""

import re
from collections.abc import Sequence

from core.sharing.building import Pool
from core.sharing.speeds import SPREAD, SpeedTable, shape_text
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.policies.inputs import Input

HERE = "here"
"""The region of GPUs that name none."""
GPUS_MAX = 10_000_000
POOLS_MAX = 1_000
NAMED_MAX = 3
"""Jobs that a note names; the others it counts."""
_POOL = re.compile(
    r"(?:(?P<region>[\w.-]+)/)?(?P<type>[\w.-]+)=(?:(?P<nodes>[0-9]{1,8})x)?(?P<gpus>[0-9]{1,9})"
    r"(?:@(?P<price>[0-9]{1,6}(?:\.[0-9]{1,6})?))?"
)


def pools_of(text: str, known: Sequence[str] = ()) -> tuple[Pool, ...]:
    """Return the pools of `V100=36,eu/H100=16x8@2.50`. Types are those of `known`, if any, however they are written. Raises CommandError."""
    types = [name for name in known if not name.endswith(SPREAD)]
    names = {name.casefold(): name for name in types}
    pools = []
    for part in text.split(","):
        match = _POOL.fullmatch(part.strip())
        gpus = 0 if match is None else int(match["gpus"]) * int(match["nodes"] or 1)
        if match is None or not 0 < gpus <= GPUS_MAX:
            raise CommandError(
                f"--gpus: {part!r} is no number of GPUs of a type; write for example V100=36,eu/K80=24, or H100=16x8 for 16 nodes of 8",
                MISUSED,
            )
        price = None if match["price"] is None else float(match["price"])
        if price == 0:
            raise CommandError(
                f"--gpus: {part!r} has no price: more than 0 dollars, as in H100=64@2.50", MISUSED
            )
        gpu_type = names.get(match["type"].casefold(), match["type"])
        if known and gpu_type not in types:
            raise CommandError(
                f"--gpus: no speeds are known on {gpu_type}; they are on {', '.join(types)}", MISUSED
            )
        node_gpus = int(match["gpus"]) if match["nodes"] else 0
        pools.append(Pool(match["region"] or HERE, gpu_type, gpus, price, node_gpus))
    places = [(pool.region, pool.gpu_type) for pool in pools]
    twice = sorted({place for place in places if places.count(place) > 1})
    if twice or len(pools) > POOLS_MAX:
        why = f"{twice[0][0]}/{twice[0][1]} stands twice" if twice else f"{POOLS_MAX} pools are the most"
        raise CommandError(f"--gpus: {why}", MISUSED)
    return tuple(pools)


def prices_told(pools: Sequence[Pool]) -> tuple[str, ...]:
    """Return what there is to say of prices that are not known."""
    without = list(dict.fromkeys(pool.gpu_type for pool in pools if not pool.price_known))
    how = "say the dollars of one GPU for an hour in --gpus, as in H100=64@2.50"
    if not has_prices(pools):
        return (f"no prices are known: {how}",)
    if without:
        return (f"no price is known of {', '.join(without)}, which count nothing under COST$: {how}",)
    return ()


def has_prices(pools: Sequence[Pool]) -> bool:
    """Return whether the price of any pool is known."""
    return any(pool.price_known for pool in pools)


def has_placement(pools: Sequence[Pool], table: SpeedTable) -> bool:
    """Return whether it counts for some type of the fleet if a job is packed or spread."""
    known = frozenset(table.gpu_types)
    return any(pool.gpu_type + SPREAD in known for pool in pools)


def with_spread(given: Input, pools: Sequence[Pool]) -> Input:
    """Return the jobs with a speed spread of each that is wider than a node, where the table has one of others: that of packed ones."""
    types, alone = frozenset(given.table.gpu_types), dict(given.table.alone)
    guessed = []
    for pool in pools:
        spread = pool.gpu_type + SPREAD
        for shape in dict.fromkeys((job.model, job.gpus) for job in given.jobs):
            row = alone[shape]
            is_wide = 0 < pool.node_gpus < shape[1] and spread in types
            if is_wide and spread not in row and row.get(pool.gpu_type, 0.0) > 0:
                alone[shape] = {**row, spread: row[pool.gpu_type]}
                guessed.append(f"{shape_text(shape)} on {pool.gpu_type}")
    if not guessed:
        return given
    more = f" and {len(guessed) - NAMED_MAX} more" if len(guessed) > NAMED_MAX else ""
    note = f"wider than a node, with no speed where spread: {', '.join(guessed[:NAMED_MAX])}{more}: taken to be as fast as packed"
    return Input(given.jobs, SpeedTable(alone, given.table.together), (*given.notes, note), given.references)
