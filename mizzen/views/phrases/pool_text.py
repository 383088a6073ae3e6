"""Settings and needs of pools, the policy by which nodes follow them, and the reasons of plans, within a sentence."""

from core.nouns.harvest import HarvestSettings
from core.nouns.instant import SECOND
from core.nouns.pool import PERMILLE, PoolSettings, Survives, percent_text
from core.nouns.pooling import MoveReason, PoolingPolicy
from core.rules.placement.rule_sets import rule_set_name

WHY = {
    MoveReason.NEED: "as needs or settings changed",
    MoveReason.HARDWARE: "as nodes joined, came back, were lost or were closed",
    MoveReason.WORK: "as work was refused for room while nodes of other pools were idle",
    MoveReason.TIME: "as the plan before was half an hour old",
}
"""Why a planner looked for a plan, behind the plan's number."""


def settings_text(settings: PoolSettings) -> str:
    """Return the settings of a pool as the end of a sentence, its subject being the pool."""
    nodes = f"{nodes_count(settings.reserve, 'empty ')} in each zone" if settings.reserve else ""
    limit = f"{percent_text(settings.limit)} of the GPUs" if settings.limit < PERMILLE else ""
    parts = [
        f"is searched by {rule_set_name(settings.rules)}",
        f"keeps {nodes}" if nodes else "",
        f"takes work up to {limit}" if limit else "",
        needs_text(settings) if settings.needs else "",
        f"costs {price_text(settings.price)} a GPU-hour" if settings.price else "",
        harvest_text(settings.harvest) if settings.harvest is not None else "",
    ]
    return ", ".join(filter(None, parts))


def harvest_text(harvest: HarvestSettings) -> str:
    """Return how a pool is harvested as the end of a sentence: `is harvested with a grace of 30s, less 8 GPUs in each zone`."""
    if not harvest.is_on:
        return "is not harvested"
    kept = f", less {harvest.keep} GPU{'s' if harvest.keep > 1 else ''} in each zone" if harvest.keep else ""
    reserve = " with its reserve" if harvest.takes_reserve else ""
    price = f", at {price_text(harvest.price)} a GPU-hour" if harvest.price else ""
    after, grace = (f"{span / SECOND:g}s" for span in (harvest.after, harvest.grace))
    return f"is harvested{reserve} after {after} with a grace of {grace}{kept}{price}"


def price_text(millionths: int) -> str:
    """Return a price as people write it: `0.5`, `2`."""
    return f"{millionths / 1_000_000:.6f}".rstrip("0").rstrip(".")


def needs_text(settings: PoolSettings) -> str:
    """Return the needs of a pool as the end of a sentence: `needs 400 H100, also after the loss of any power domain`."""
    if not settings.needs:
        return "needs nothing"
    survives = settings.survives is Survives.POWER_DOMAIN
    loss = (
        "also after the loss of any power domain" if survives else "but not after the loss of a power domain"
    )
    return f"needs {listed([f'{gpus} {node_type}' for node_type, gpus in settings.needs])}, {loss}"


def policy_text(policy: PoolingPolicy) -> str:
    """Return a policy as a sentence about the plans of a region."""
    return f"plans are applied {applied_by(policy)}, and each moves {percent_text(policy.at_once)} of all nodes at most"


def applied_by(policy: PoolingPolicy) -> str:
    """Return how plans are applied: `automatically`, or `by hand`."""
    return "automatically" if policy.is_automatic else "by hand"


def staying_text(staying: int) -> str:
    """Return that so many nodes of a plan that was applied have not moved, nor wait to."""
    are = "stays where it is" if staying == 1 else "stay where they are"
    return f"{nodes_count(staying)} {are}: lost, closed for another reason, or not vacant in time"


def nodes_count(count: int, kind: str = "") -> str:
    """Return a count of nodes: `no node`, `1 node`, `4 empty nodes`."""
    return f"{count or 'no'} {kind}node{'s' if count > 1 else ''}"


def listed(parts: list[str]) -> str:
    """Return parts as a list within a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
