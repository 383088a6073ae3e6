"""How long each benchmark takes, and a form of each of at most five minutes: `python -m bench --help` tells, `--short` plays that form.

Minutes are by the clock, on two cores without other load, and most are rounded up: a report tells what it took. A benchmark of more than five minutes has options of its own that make it
shorter: its short form has those, and the figures of a short form mean what they say, unlike those of `--quick`.
"""

from msgspec import Struct

SHORT_MINUTES_MAX = 5.0


class Duration(Struct, frozen=True):
    """How long one benchmark takes."""

    minutes: float
    """As it is played without options."""
    short: str = ""
    """Options of the short form; empty: the benchmark as it is takes no more than five minutes."""
    short_minutes: float = 0.0

    @property
    def is_short(self) -> bool:
        """Return whether the benchmark needs no shorter form."""
        return not self.short

    @property
    def text(self) -> str:
        """Return the duration in words."""
        whole = f"{self.minutes / 60:.0f} h" if self.minutes >= 120 else f"{self.minutes:g} min"
        return whole if self.is_short else f"{whole}; --short: {self.short_minutes:g} min ({self.short})"


DURATIONS: dict[str, Duration] = {
    "ablation": Duration(30, "--seeds 1 --hours 1.5", 4),
    "ack_latency": Duration(2),
    "agent": Duration(2),
    "agent_growth": Duration(1),
    "agents_scale": Duration(6, "--scale 0.4", 4),
    "allocation": Duration(500, "--seeds 1 --hours 8", 4),
    "backfill": Duration(4),
    "balance": Duration(8, "--seeds 1,2", 4),
    "beside_gangs": Duration(3),
    "boot": Duration(4),
    "budget": Duration(10, "--steps 4 --seconds 240", 4),
    "bus": Duration(1),
    "commit": Duration(3),
    "conflicts": Duration(6, "--agents 16 --scale 0.5", 3),
    "crash": Duration(60, "--seeds 12", 4),
    "data_moves": Duration(4),
    "data_ready": Duration(4),
    "decision": Duration(3),
    "defrag": Duration(3),
    "equal_optima": Duration(2),
    "estimate": Duration(8, "--jobs 4000", 4),
    "estimator": Duration(1),
    "evictions": Duration(15, "--calls 250000", 4),
    "fairness": Duration(10, "--days 2", 4),
    "functions_killed": Duration(5),
    "gpu_harvest": Duration(70, "--pods 48 --windows 3 --hours 1", 4),
    "harvest_replay": Duration(20, "--steps 3 --seconds 240", 4),
    "global_rate": Duration(2),
    "harvest_idle_cost": Duration(6, "--hours 1", 5),
    "log": Duration(4),
    "mailbox": Duration(8, "--seeds 1,2,3 --live-rounds 1", 5),
    "mailbox_cost": Duration(5),
    "maintenance": Duration(3),
    "mws": Duration(45, "--seeds 1 --steps 4 --variants mws", 5),
    "packing": Duration(20, "--rules default --seeds 42", 3),
    "packing_live": Duration(10, "--rules default --seeds 42", 3),
    "parsync": Duration(6, "--scale 0.2", 3),
    "parsync_live": Duration(6, "--scale 0.6", 4),
    "plane_loss": Duration(12, "--down-seconds 120", 4),
    "pipeline_cost": Duration(2),
    "pipeline_restart": Duration(6, "--seeds 1", 2),
    "pipelines": Duration(20, "--seeds 1 --variants off", 3),
    "pools": Duration(3),
    "policy_jct": Duration(3),
    "policy_load": Duration(30, "--policies max_min,fifo --loads 2.4,4", 2),
    "policy_solve": Duration(2),
    "policy_vectors": Duration(1),
    "profile": Duration(1),
    "rate_limit": Duration(2),
    "reclaim_live": Duration(3),
    "refused_look": Duration(1),
    "remembered": Duration(3),
    "replan": Duration(3),
    "round_cost": Duration(3),
    "rounds": Duration(1),
    "rounds_live": Duration(5),
    "rounds_share": Duration(1),
    "round_length": Duration(4),
    "scan": Duration(1),
    "short_tasks": Duration(1),
    "simulate": Duration(1),
    "simulate_faults": Duration(2),
    "slo": Duration(12, "--seeds 1", 4),
    "spike": Duration(2),
    "start": Duration(2),
    "start_latency": Duration(9, "--hours 8", 4),
    "strategy": Duration(1),
    "task_control": Duration(2),
    "two_worlds": Duration(12, "--days 0.3", 4),
    "urgent_start": Duration(5),
}
