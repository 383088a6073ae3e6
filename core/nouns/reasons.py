"""Why not: the closed list of reason codes, each with one sentence for people."""

from enum import StrEnum


class Reason(StrEnum):
    """A refusal's code. `SENTENCES` holds what it means and what to do."""

    # Bad input.
    INVALID = "invalid"
    UNKNOWN_WORKLOAD = "unknown_workload"
    UNKNOWN_REGION = "unknown_region"
    UNKNOWN_TENANT = "unknown_tenant"
    UNKNOWN_PIPELINE = "unknown_pipeline"
    BELOW_HELD = "below_held"
    BELOW_STORED = "below_stored"
    UNKNOWN_DATASET = "unknown_dataset"
    NO_DATA_SERVICE = "no_data_service"
    ABOVE_LEVEL = "above_level"
    NEVER_FITS = "never_fits"
    INFEASIBLE = "infeasible"
    TOO_LARGE = "too_large"
    TOO_MANY = "too_many"
    SUPERSEDED = "superseded"
    ALREADY_ENDED = "already_ended"
    UNKNOWN_TASK = "unknown_task"
    NOT_YOURS = "not_yours"
    OPERATORS_ONLY = "operators_only"
    # A region's answer to a request for bids, and the reason of a pending workload.
    NO_CAPACITY = "no_capacity"
    NO_SUCH_HARDWARE = "no_such_hardware"
    NO_HOST = "no_host"
    NO_DATA = "no_data"
    DATA_NOT_FRESH = "data_not_fresh"
    OPEN_BIDS = "open_bids"
    NO_ANSWER = "no_answer"
    HELD = "held"
    UNHANDLED = "unhandled"
    WAITING_TURN = "waiting_turn"
    WAITS_FOR_ROUND = "waits_for_round"
    WAITS_FOR_STAGE = "waits_for_stage"
    WAITS_FOR_WINDOW = "waits_for_window"
    NOT_RANKED = "not_ranked"
    OVER_QUOTA = "over_quota"
    BORROWED_ALL = "borrowed_all"
    AHEAD_OF_DUE = "ahead_of_due"
    ROOM_GATHERED = "room_gathered"
    QUOTA_KEPT = "quota_kept"
    QUOTA_DRAINS = "quota_drains"
    BUDGET_SPENT = "budget_spent"
    REGION_UNREACHABLE = "region_unreachable"
    REGION_EXCLUDED = "region_excluded"
    STAGES_ELSEWHERE = "stages_elsewhere"
    REGION_ABANDONED = "region_abandoned"
    REGION_ANSWERS = "region_answers"
    MOVING = "moving"
    MOVES_ALREADY = "moves_already"
    ALREADY_THERE = "already_there"
    MOVES_FULL = "moves_full"
    MOVE_DOES_NOT_PAY = "move_does_not_pay"
    # A store's answer to a claim.
    AWARD_NOT_STANDING = "award_not_standing"
    CONFLICT = "conflict"
    CONFLICTS_EXHAUSTED = "conflicts_exhausted"
    UNKNOWN_NODE = "unknown_node"
    BAD_CLAIM = "bad_claim"
    TASK_TOO_LARGE = "task_too_large"
    NODE_TOO_SMALL = "node_too_small"
    WRONG_GPU_TYPE = "wrong_gpu_type"
    TYPES_MIXED = "types_mixed"
    GPU_MEMORY_SHORT = "gpu_memory_short"
    WRONG_POOL = "wrong_pool"
    WRONG_ZONE = "wrong_zone"
    NODE_CLOSED = "node_closed"
    TENANTS_APART = "tenants_apart"
    TOPOLOGY_BROKEN = "topology_broken"
    CROWDED = "crowded"
    VICTIM_NOT_LOWER = "victim_not_lower"
    DESTROYS_TOO_MUCH = "destroys_too_much"
    WITHDRAWN = "withdrawn"
    PROMISE_BROKEN = "promise_broken"
    RESERVED = "reserved"
    OVER_LIMIT = "over_limit"
    START_RESERVED = "start_reserved"
    # A store's answers to operators, and to requests for operations on tasks.
    UNKNOWN_PLACE = "unknown_place"
    UNKNOWN_MAINTENANCE = "unknown_maintenance"
    WINDOW_PAST = "window_past"
    NOT_DRAINED = "not_drained"
    NOT_RUNNING = "not_running"
    OVER_BUDGET = "over_budget"
    NOT_ALLOWED = "not_allowed"
    # What is wrong with placement rules.
    UNKNOWN_RULE = "unknown_rule"
    BAD_RULE_SET = "bad_rule_set"
    RULE_FAILED = "rule_failed"
    # Calls of functions.
    ROUTER_FULL = "router_full"
    OTHER_ROUTER = "other_router"
    NO_FUNCTION_SERVER = "no_function_server"

    # A keeper's own state.
    LOG_FULL = "log_full"
    CLOCK_UNCERTAIN = "clock_uncertain"


SENTENCES: dict[Reason, str] = {
    Reason.INVALID: "The request is not well formed; every problem is listed.",
    Reason.UNKNOWN_WORKLOAD: "No workload of this id is known; it may have ended long ago.",
    Reason.UNKNOWN_REGION: "No region of this name belongs to the fleet.",
    Reason.UNKNOWN_TENANT: "No operator has created a tenant of this name.",
    Reason.UNKNOWN_PIPELINE: "No pipeline of this id is known; it may have ended long ago.",
    Reason.BELOW_HELD: "The tenant holds more than that now; force it, or wait until it holds less.",
    Reason.BELOW_STORED: "More bytes than that are there now.",
    Reason.UNKNOWN_DATASET: "No operator has said where a dataset of this name is.",
    Reason.NO_DATA_SERVICE: "The region has no data service: give it `data` in the fleet file, and start the plane again.",
    Reason.ABOVE_LEVEL: "The priority is above its tenant's level.",
    Reason.NEVER_FITS: "The fleet could not hold the workload even if nothing else ran.",
    Reason.INFEASIBLE: "The pipeline would miss its deadline even if nothing else ran; give it a later one, or accept that it is late.",
    Reason.TOO_LARGE: "The request is larger than a message may be.",
    Reason.TOO_MANY: "As many workloads are pending as may be; submit again when some have started or were cancelled, or ask an operator for more.",
    Reason.SUPERSEDED: "A newer request for the same thing was already received.",
    Reason.ALREADY_ENDED: "The workload has ended, and an end is final.",
    Reason.UNKNOWN_TASK: "This worker has no output of such a task: the task never ran here, or its output was deleted to free space.",
    Reason.NOT_YOURS: "It belongs to another tenant; a tenant's credentials are for its own work alone.",
    Reason.OPERATORS_ONLY: "Only the plane's operators may ask for this, and these are a tenant's credentials.",
    Reason.NO_CAPACITY: "Not enough capacity is free, and preempting work of lower priority would not free enough.",
    Reason.NO_SUCH_HARDWARE: "There is no hardware of this type that could hold it.",
    Reason.NO_HOST: "The job with which it was to share a GPU has ended, is to stop, or has a partner already; or that node lacks the CPUs or the memory for a second job.",
    Reason.NO_DATA: "A dataset that the workload reads is missing there; once it is there, a bid is requested automatically.",
    Reason.OPEN_BIDS: "The region's free capacity is offered to other workloads; the region is asked again at once.",
    Reason.NO_ANSWER: "The region was asked for a bid, and did not answer before the auction was over.",
    Reason.HELD: "The workload is held; release it to let it run.",
    Reason.UNHANDLED: "A component failed twice on one of its messages, so it is held; `mizzen plane` names the component, and `mizzen release` lets it try again.",
    Reason.WAITING_TURN: "Workloads ahead of it are being placed.",
    Reason.WAITS_FOR_ROUND: "Other jobs of its shared pool have the GPUs in this round.",
    Reason.WAITS_FOR_STAGE: "Stages of its pipeline that come before it have not completed.",
    Reason.WAITS_FOR_WINDOW: "It may begin at a time of day that is yet to come.",
    Reason.NOT_RANKED: "The workload was submitted or changed after the newest pass; the next pass ranks it.",
    Reason.OVER_QUOTA: "Over quota; no capacity that other tenants leave unused may be lent to it now.",
    Reason.AHEAD_OF_DUE: "Over quota; a tenant that is further behind its fair share waits for capacity.",
    Reason.ROOM_GATHERED: "Over quota; the region is being drained for another workload that has waited long.",
    Reason.BORROWED_ALL: "Over quota, and over the amount that its tenant may borrow.",
    Reason.QUOTA_KEPT: "The rest of its tenant's quota is held for a workload of that tenant that is ahead of it and has waited long.",
    Reason.QUOTA_DRAINS: "The rest of its tenant's quota is held for it until enough is free, as running work of that tenant ends.",
    Reason.BUDGET_SPENT: "Its tenant has used its GPU-hours of this period; the workload waits for the next period, or for a larger budget.",
    Reason.REGION_UNREACHABLE: "The region does not answer; nothing moves there before it does.",
    Reason.STAGES_ELSEWHERE: "All stages of its pipeline run in one region: where the first was placed, or one that could hold all of them.",
    Reason.REGION_EXCLUDED: "The workload names the regions in which it may run, and this is none of them.",
    Reason.DATA_NOT_FRESH: "The region has a copy of its data, and the workload needs the newest data; it runs where that data is at home.",
    Reason.REGION_ABANDONED: "An operator abandoned the region; nothing is placed there before it is readmitted (`mizzen region`).",
    Reason.REGION_ANSWERS: "The region answers, or may in a moment, so it can be emptied without work running twice; drain it, or insist with --force.",
    Reason.MOVING: "The workload moves to another region; it goes on as soon as its checkpoint is there.",
    Reason.MOVES_ALREADY: "The workload already moves to another region; cancel that first by moving it to the region where it runs.",
    Reason.ALREADY_THERE: "The workload runs in this region.",
    Reason.MOVES_FULL: "The most moves between regions are already under way; ask again when one of them is over.",
    Reason.MOVE_DOES_NOT_PAY: "The workload would have ended before it ran again; insist with --force.",
    Reason.AWARD_NOT_STANDING: "The queue's log does not show this award as active.",
    Reason.CONFLICT: "Another claim took the capacity first; the current rows are in the answer.",
    Reason.CONFLICTS_EXHAUSTED: "Other claims took the capacity each time it was tried.",
    Reason.UNKNOWN_NODE: "The claim names a node that the region does not have.",
    Reason.BAD_CLAIM: "The claim does not place exactly the tasks that its jobs have.",
    Reason.TASK_TOO_LARGE: "One task needs more than the node has, even when it is empty.",
    Reason.WRONG_GPU_TYPE: "The node's GPUs are of no type that the job asks for.",
    Reason.TYPES_MIXED: "The claim puts tasks of one job on nodes of several types; they train together.",
    Reason.NODE_TOO_SMALL: "The claim takes more of a node than that has, even when it is empty.",
    Reason.GPU_MEMORY_SHORT: "The node's GPUs have less memory than the job asks for, or it is not known how much.",
    Reason.WRONG_POOL: "The node belongs to a pool that does not take work of this kind.",
    Reason.WRONG_ZONE: "The node lies in none of the zones in which the job may run.",
    Reason.NODE_CLOSED: "The node is lost, or closed to new tasks.",
    Reason.TENANTS_APART: "Another tenant is on the node, and one of the two shares its nodes with no other tenant.",
    Reason.TOPOLOGY_BROKEN: "The claim's nodes do not satisfy the job's topology.",
    Reason.CROWDED: "Tasks that are to be spread lie together, and a rack, pod or zone without any has capacity for one of them.",
    Reason.VICTIM_NOT_LOWER: "A victim must be of lower priority, alive, and not interactive.",
    Reason.DESTROYS_TOO_MUCH: "Preemption would lose more work than one claim, or all claims of an hour, may; it may be possible after a checkpoint of the work that runs there.",
    Reason.WITHDRAWN: "The queue withdrew its award.",
    Reason.PROMISE_BROKEN: "The capacity promised to it did not come free in time.",
    Reason.RESERVED: "The free capacity there is kept for work that recovers from a failure: the pool has a reserve of empty nodes.",
    Reason.OVER_LIMIT: "More of the pool would be in use than its limit allows.",
    Reason.START_RESERVED: "The free capacity there is reserved for the start of another workload; only backfill that surely ends before that start, or work of a higher level, may use it.",
    Reason.UNKNOWN_PLACE: "The region has no node, rack, power domain, zone or pool of this name.",
    Reason.UNKNOWN_MAINTENANCE: "No maintenance of this name is planned or open; it may be over.",
    Reason.WINDOW_PAST: "The window lies in the past; name one that is still to come.",
    Reason.NOT_DRAINED: "None of these nodes is drained.",
    Reason.NOT_RUNNING: "Nothing of it runs in this region now, so there is nothing to touch.",
    Reason.OVER_BUDGET: "More would be stopped in a minute than the region allows; ask again when the minute is over.",
    Reason.NOT_ALLOWED: "This cannot be done to work of this kind.",
    Reason.UNKNOWN_RULE: "There is no placement rule of this name.",
    Reason.BAD_RULE_SET: "These placement rules cannot be used together; every problem is listed.",
    Reason.RULE_FAILED: "A placement rule failed on this request; nothing was placed, and other requests are not affected.",
    Reason.ROUTER_FULL: "The router of functions holds as many calls as it may; they are said again in a second.",
    Reason.OTHER_ROUTER: "The call may be begun once only, and was for an earlier life of the router.",
    Reason.NO_FUNCTION_SERVER: "No function server of the region has capacity for it; `mizzen functions serve` gives functions some.",
    Reason.LOG_FULL: "The log's disk is full; nothing new is accepted until it has free space.",
    Reason.CLOCK_UNCERTAIN: "The clock of the log's machine is far from the log's time; nothing new is accepted until an operator has looked (`mizzen plane`).",
}

PASSING = frozenset({Reason.LOG_FULL, Reason.CLOCK_UNCERTAIN})
"""Refusals of a keeper for reasons of its own: the same request is accepted later."""

assert set(SENTENCES) == set(Reason)

LASTING = frozenset(
    {
        Reason.NO_CAPACITY,
        Reason.DESTROYS_TOO_MUCH,
        Reason.RESERVED,
        Reason.OVER_LIMIT,
        Reason.START_RESERVED,
        Reason.NO_SUCH_HARDWARE,
        Reason.NO_DATA,
        Reason.DATA_NOT_FRESH,
        Reason.RULE_FAILED,
        Reason.REGION_ABANDONED,
    }
)
"""Reasons of a region that name a shortage or a never: they hold until capacity, nodes, data or settings change, and are recorded.

All others pass by themselves within seconds (`open_bids`, `no_answer`), are no word of the region (`region_unreachable`), or are the
queue's own (quota, turn, hold), which its image shows at any time."""


def sentence(reason: Reason) -> str:
    """What a reason means, for people."""
    return SENTENCES[reason]
