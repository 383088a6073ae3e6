"""`mizzen pools`: what pools there are, what is set of them and what they need, and the plans by which nodes follow needs."""

import shutil
import sys
from collections.abc import Iterable
from typing import Annotated

from cyclopts import App, Parameter

from mizzen.terminal.harvest_options import UNSAID, HarvestOptions
from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, MISUSED, CommandError, tell_json, tell_lines, tell_problem

pools = App(name="pools", version_flags=[], default_parameter=Parameter(show_default=False))

Pool = Annotated[str, Parameter(name="POOL", help="The pool, as `mizzen pools` shows it.")]
OneRegion = Annotated[str, Parameter(help="The region; need not be said if there is only one.")]
AnyRegion = Annotated[str, Parameter(help="Only of this region.")]


@pools.default
def list_pools(*, region: AnyRegion = "", json: Json = False) -> int:
    """List pools by region and zone: nodes, GPUs in all and in use, empty nodes, and settings; then needs, where pools have some."""
    import msgspec

    from mizzen.views.fleet import pool_table
    from mizzen.views.plane_reads import on_plane

    rows, silent = on_plane(lambda bus, _: pool_table.rows_of_plane(bus, region))
    if json:
        tell_json(msgspec.to_builtins(rows))
    else:
        tell_lines(pool_table.table_of(rows, _width()))
    return _tell_silent(silent, is_json=json)


@pools.command(name="set")
def set_(
    pool: Pool,
    *,
    rules: Annotated[
        str, Parameter(help="A rule set, as in plain, or rules by comma, as in best_fit:8,islands:2.")
    ] = "",
    reserve: Annotated[
        str, Parameter(help="Nodes that stay empty in each zone, but for work that a failure ended.")
    ] = "",
    limit: Annotated[
        str, Parameter(help="Share of each zone's GPUs that may be in use, as in 95%; 100% for no limit.")
    ] = "",
    harvest: HarvestOptions = UNSAID,
    region: OneRegion = "",
    json: Json = False,
) -> None:
    """Set by which rules a pool is searched, what of it stays free, and what functions may use; what is not said stays as it is."""
    import msgspec

    from mizzen.actions.settings.pools import set_pool, wish_of
    from mizzen.views.fleet.pool_table import set_text
    from mizzen.views.plane_reads import on_plane

    wish = wish_of(rules.strip(), reserve.strip(), limit.strip(), harvest)
    done = on_plane(lambda bus, _: set_pool(bus, pool, wish, region))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(set_text(done.region, done.pool, done.settings))


@pools.command(name="need")
def need(
    pool: Annotated[str, Parameter(name="POOL", help="The pool; it need not have a node yet.")],
    /,
    *needs: Annotated[
        str,
        Parameter(
            name="TYPE=GPUS",
            help="GPUs in all zones together, as in H100=400; 0 takes a type out, and none in place of all takes out every type.",
        ),
    ],
    survives: Annotated[
        str, Parameter(help="power_domain: also after the loss of any one power domain; or none.")
    ] = "",
    by_hand: Annotated[
        bool,
        Parameter(name="--by-hand", negative=(), help="Plans of the region are applied by hand from now on."),
    ] = False,
    region: OneRegion = "",
    json: Json = False,
) -> None:
    """State how many GPUs a pool needs; types that are not named stay. A plan moves nodes from other pools to it."""
    import msgspec

    from mizzen.actions.settings.pools import need_lines, need_of, set_pool
    from mizzen.views.plane_reads import on_plane

    wish = need_of([word.strip() for word in needs], survives.strip())
    done = on_plane(lambda bus, _: set_pool(bus, pool, wish, region, by_hand=by_hand))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        tell_lines(need_lines(done, is_by_hand=by_hand))


@pools.command(name="policy")
def policy(
    *,
    automatic: Annotated[
        str, Parameter(help="on or off: off, and plans are applied by `mizzen pools apply` alone.")
    ] = "",
    at_once: Annotated[
        str, Parameter(help="Share of the region's nodes that one plan may move, as in 10%.")
    ] = "",
    region: Annotated[str, Parameter(help="The region; where nothing is set, only of this region.")] = "",
    json: Json = False,
) -> int:
    """Show how nodes follow needs, or set it for one region; what is not named stays."""
    import msgspec

    from mizzen.actions.settings.pooling import policies_of, policy_table, policy_wish_of, set_policy
    from mizzen.views.plane_reads import on_plane

    wish = policy_wish_of(automatic.strip(), at_once.strip())
    if wish is None:
        found, silent = on_plane(lambda bus, _: policies_of(bus, region))
    else:
        wished = wish
        found, silent = [on_plane(lambda bus, _: set_policy(bus, wished, region))], []
    if json:
        tell_json(msgspec.to_builtins(found))
    else:
        tell_lines(policy_table(found, _width()))
    return _tell_silent(silent, is_json=json)


@pools.command(name="plan")
def plan(*, region: AnyRegion = "", json: Json = False) -> int:
    """Show the newest plan of each region: which nodes move, why, how far that is, and what the loss of a power domain would leave."""
    from mizzen.views.fleet.pool_plans import builtins_of, plan_lines, plans_of_plane
    from mizzen.views.plane_reads import on_plane
    from runtime.clock import wall_now

    found, silent = on_plane(lambda bus, _: plans_of_plane(bus, region))
    if json:
        tell_json([builtins_of(one) for one in found])
    else:
        now = wall_now()
        for place, one in enumerate(found):
            tell_lines([*([""] if place else []), *plan_lines(one, now, _width())])
    return _tell_silent(silent, is_json=json)


@pools.command(name="apply")
def apply(
    *,
    plan: Annotated[
        int | None, Parameter(help="The number of the plan that was looked at; the newest if not named.")
    ] = None,
    region: OneRegion = "",
    json: Json = False,
) -> None:
    """Apply the newest plan: empty nodes move at once, and the others once they are vacant."""
    import msgspec

    from mizzen.actions.settings.pooling import applied_text, apply_plan
    from mizzen.views.plane_reads import on_plane

    if plan is not None and plan < 1:
        raise CommandError("--plan: plans are numbered from 1", MISUSED)
    done = on_plane(lambda bus, _: apply_plan(bus, plan, region))
    if json:
        tell_json(msgspec.to_builtins(done))
    else:
        print(applied_text(done))


def _tell_silent(silent: Iterable[tuple[str, str]], *, is_json: bool) -> int:
    """Tell the regions without an answer, and return the exit code."""
    code = 0
    for name, why in silent:
        tell_problem(f"region {name} is missing: {why}", is_json=is_json)
        code = FAILED
    return code


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
