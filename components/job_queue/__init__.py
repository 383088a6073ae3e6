"""The job queue: the keeper of the log `global`, which decides which workload starts next, and in which region.

The loop (component.py `_woken`), each step a decision that the host makes durable before the next:

1. requests/              users submit, change and cancel workloads; operators set tenants, quotas and the ranking
2. ordering.py            every pending workload has its place: level, nominal before borrowing, then credit (core/ranking/)
3. auction/cycle.py       `begin_cycle` sends the requests for at most 64 workloads from the head of the order to every region that
                          could hold them (auction/selection.py)
4. auction/bids.py        each region answers every request with a bid or an abstention; a refusal holds for all workloads of the
                          shape until enough capacity is freed (state/auctions.py, state/refusal_expiry.py); one that lasts is
                          recorded, so that users can be told of it (auction/noting.py)
5. auction/cycle.py       `close_cycle` awards in rank order, when all have answered or after a second
                          (quota/classification.py `award_of`)
6. awards_due.py          `settle` (awards.py) tells the region, until the region's log shows a promise, grant or decline
7. region_facts.py        facts of regions' logs are folded: gangs that started, attempts that ended, capacity that is free again;
                          what a change may allow sets `open_at`, and step 3 follows

Equals the simple version: after every fact, scan all pending workloads in order, and award the first one that some region can hold.

state/                what the queue remembers beside its image: auctions, refusals, quota ledger, deadlines
ordering.py           the order and the ledger, updated by facts
quota/                nominal, borrowing and blocked work; fair shares; the drained region
reservations.py       starts promised to the first blocked workloads
moves.py              gangs that move to another region by one plan
pipelines/            stages in turn, start deadlines, infeasible deadlines
rounds.py             which job of a shared pool runs where, round after round
measuring.py          speeds of shared work, as its checkpoints show them
auction/              scheduling cycles, and facts of lasting refusals
awards.py, regions.py the life of an award; regions that fall silent, are abandoned and come back
start_estimates.py    the estimated start of a waiting workload
requests/             requests and queries of users and operators
component.py          what the host runs: deciders, folds and deadlines
"""
