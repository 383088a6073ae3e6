"""The rules that keep one workload to one attempt, each of which can be switched off. A rule that could be
switched off unnoticed would be either superfluous or not modelled, so the tests switch off every one. The
comment at each says what is done instead when it is off.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """All on by default: the design."""

    # -- The queue.

    # Off: past the deadline the queue takes the award back and may award again.
    silence_never_frees_an_award: bool = True
    # Off: ExecuteAward is said before WorkloadAwarded is durable, and a crash forgets the epoch. What breaks is
    # that an epoch names two awards; still none of them runs twice, because a store grants only where the
    # award that it has read names its own region. Without that comparison two would run.
    record_before_telling: bool = True
    # Off: a cancel ends an awarded workload at once.
    queue_ends_only_on_region_word: bool = True
    # Off: the queue says each thing about an award once, and the bus may lose it.
    resaid_until_shown: bool = True

    # -- The store, on claims.

    # Off: StartTasks is said before ClaimGranted is durable, and a crash forgets the grant.
    grant_recorded_before_start: bool = True
    # Off: a claim under another claim id is another grant.
    grant_once_per_epoch: bool = True
    # Off: the store does not ask what the global log shows.
    award_must_stand: bool = True
    # Off: the store judges a claim on whatever it has read so far. Nothing runs twice for it: an award not
    # yet read is refused. But it is refused wrongly, and an agent will decline what the region could have run.
    read_up_to_the_award_first: bool = True
    # Off: a claim after AwardDeclined is granted.
    declined_epoch_stays_declined: bool = True

    # -- The store, on what it remembers.

    # Off: an ended or declined epoch is forgotten at any time, by age.
    forget_only_when_superseded: bool = True
    # Off: after a restart the store decides on an old image of the global log.
    restart_reads_on_to_the_head: bool = True

    # -- The store and the worker, on ends.

    # Off: the order to stop ends the attempt and frees its capacity.
    capacity_frees_only_when_empty: bool = True
    # Off: a beat "nothing runs here" ends an attempt, though the worker has not heard the stop.
    empty_answers_the_stop: bool = True
    # Off: the store ends a silent worker's attempt before the worker must have stopped itself.
    silence_ends_only_after_isolation: bool = True
    # Off: a late StartTasks starts its attempt again.
    worker_refuses_older: bool = True
    # Off: a worker's restart forgets the highest sequence it has heard.
    worker_keeps_highest_on_disk: bool = True
    # Off: back after a cut, the worker hears StartTasks before it has learnt the log's head.
    cut_worker_joins_first: bool = True
    # Off: the worker reports an end once, and the bus may lose it.
    end_reported_until_recorded: bool = True

    # -- Promises.

    # Off: a claim over a victim is granted at once.
    grant_waits_for_the_victim: bool = True
    # Off: what the victim leaves is free for anybody; the promise is looked at later.
    promise_reserves: bool = True
    # Off: a victim once promised is told to stop, whatever became of the promise.
    withdrawn_promise_spares: bool = True


@dataclass(frozen=True)
class Bounds:
    """How much of the world is modelled. Each multiplies the states, so the tests combine them with care."""

    # At most 3.
    epochs: int = 2
    # A region: 1 or 2.
    agents: int = 2
    # Others, all of lower priority, hold region A's capacity at the start and may take it whenever it is
    # free.
    has_victim: bool = False
    # A worker may be cut off for long, and its attempt be ended by silence (`strict: true`).
    has_cuts: bool = False
