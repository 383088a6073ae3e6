"""What operators set of a region's pools in a scenario: through the bus, and insisting."""

from collections.abc import Callable

from msgspec.structs import replace

from core.images import RegionImage
from core.messages.base import Answer, Message, Refused
from core.messages.pools import PoolAnswered, PoolingPolicyAnswered, SetPool, SetPoolingPolicy
from core.nouns.ids import RegionName
from core.nouns.pool import SHARED_POOL, PoolSettings
from core.nouns.reasons import Reason
from runtime.wiring import RegionPlan
from scenarios.play.operators import LOOK_AGAIN_SECONDS, OPERATOR, TRIES_MAX, Operators
from scenarios.schema.harvest import HarvestSpec
from scenarios.schema.pools import PoolsSpec
from scenarios.users import Users


async def state_needs(users: Users, plan: RegionPlan, spec: PoolsSpec) -> list[str]:
    """State the policy and the needs of a fleet in one region. Return each refusal."""
    region, settings = plan.region, settings_in(plan, spec)
    if not settings:
        return []
    problems = await _insist(
        users,
        region,
        lambda revision: SetPoolingPolicy(region, spec.policy, revision, OPERATOR),
        PoolingPolicyAnswered,
    )
    for pool, one in settings.items():
        problems += await set_pool(users, region, pool, one)
    return problems


async def lend(users: Users, region: RegionName, spec: HarvestSpec) -> list[str]:
    """Have a pool of a region lend its free capacity to functions. Return each refusal."""
    image: RegionImage = await Operators(users).image(region, "pools")
    settings = replace(image.pools.of(spec.pool), harvest=spec.settings)
    return await set_pool(users, region, spec.pool, settings)


def settings_in(plan: RegionPlan, spec: PoolsSpec) -> dict[str, PoolSettings]:
    """Return what the pools of a region are set to at the start. Shared pools stay as they are: a policy divides them."""
    groups = [group for one in plan.inventories for group in one.groups if group.pool != SHARED_POOL]
    return spec.settings_in(plan.region, sorted({group.gpu_type for group in groups}))


async def set_pool(
    users: Users, region: RegionName, pool: str, settings: PoolSettings, *, may_be_invalid: bool = False
) -> list[str]:
    """Set a pool. Return why that was refused; empty: it was not, or only because such settings cannot be and that may be so."""
    return await _insist(
        users,
        region,
        lambda revision: SetPool(region, pool, settings, revision, OPERATOR),
        PoolAnswered,
        may_be_invalid=may_be_invalid,
    )


async def _insist(
    users: Users,
    region: RegionName,
    word: Callable[[int], Message],
    expected: type[Answer],
    *,
    may_be_invalid: bool = False,
) -> list[str]:
    operators, answer = Operators(users), None
    for _ in range(TRIES_MAX):
        image: RegionImage = await operators.image(region, "pools")
        message = word(image.pools.revision)
        answer = await users.insist(message)
        if isinstance(answer, expected):
            return []
        assert isinstance(answer, Refused), answer
        if may_be_invalid and answer.reason == Reason.INVALID:
            return []
        # Nodes that have not joined yet cannot be needed.
        if answer.reason not in (Reason.SUPERSEDED, Reason.UNKNOWN_PLACE, Reason.INVALID):
            break
        await users.world.sleep(LOOK_AGAIN_SECONDS)
    return [f"pools of {region} were not set: {answer}"]
