"""Every ceiling: of queues, loops, retries and waits. Each says where its figure comes from.

Unless a line says otherwise a figure is our choice, made for fleets of DESIGN's size (100,000 nodes a region, 100,000
pending workloads), and can be changed without breaking a log.
"""

from core.nouns.instant import Nanoseconds, seconds

# Facts and messages.
FACT_BYTES_MAX = 256 * 1024
"""A fact's event, encoded. Checked at the decision, so that what is larger becomes several facts with one cause."""
MESSAGE_BYTES_MAX = 768 * 1024
"""A message, encoded: three quarters of NATS' default of 1 MiB, because the client counts neither headers nor subject."""
MESSAGE_BYTES_SPARE = 4 * 1024
"""Of these, what is left for a message's id, its sender and its headers where what it says is cut to fit."""
NUMBER_MAX = 2**63 - 1
"""What a log and a message hold of a number, less than nothing as well: a larger one cannot be encoded."""
NUMBER_BYTES_MAX = 5
"""A node's or a task's number, encoded."""
TOUCHED_MAX = 65_536
"""The most facts of which a store remembers the nodes until the packed rows are sent; a larger batch is sent without rows."""
TOLD_BYTES_MAX = 256 * 1024
"""Facts told in one announcement; a larger batch is told in parts."""

# Hosts.
INBOX_MAX = 65_536
"""Messages waiting at one host. Beyond it no sender is blocked: the newest of the least urgent class, of the sender that has most there,
is lost and counted, as on any bus."""
TURN_ENVELOPES_MAX = 512
"""Envelopes that a host decides before it lets the batch go, reads the bus and looks at what is due."""
TURN_SPAN: Nanoseconds = seconds(0.002)
"""The same in time: a message on the bus is not seen before. A decision that takes longer begins a turn."""
TURN_SPAN_MAX: Nanoseconds = seconds(0.02)
"""The same while what is next has as short a target as any message that may arrive, `system` aside: to read the bus then hardly helps
anybody, and a burst that is told in small batches has an eighth less of its rate."""
DURABLE_WAIT: Nanoseconds = seconds(0.002)
"""So long a keeper waits for its log before a decision that takes longer than a turn: two or three commits. A list of 500 starts takes
longer, and would be in the way of what was decided before."""
DURABLE_WAIT_EVERY = 20
"""From the begin of such a wait to the next one so many times its length: a keeper is idle for a twentieth of its time at most."""
TURN_YIELDS = 8
"""Rounds of the event loop between two turns while messages wait."""
SYSTEM_RATE_MAX = 2_000
"""Messages of the class `system` in a second that come before all others, at one host; what is beyond is `interactive`. A host decides
some 10,000 messages in a second, so a flood of them leaves four fifths of it to others."""
DISPATCH_INTERVAL: Nanoseconds = seconds(5)
"""In which the queue tells all hosts what operators set of dispatch."""
WOKEN_IN_A_ROW_MAX = 10_000
"""Times that a host may be due at one instant; more means that `due` does not see what `decide` changed."""

# Messages on which a component fails.
FAILURES_MAX = 2
"""Failures in a row on one sort of message about one thing, after which its like is put aside."""
ASIDE_SPAN: Nanoseconds = seconds(3600)
"""For so long; then one message is tried, and with it at most one failure an hour."""
SUSPICION_SPAN: Nanoseconds = Nanoseconds(2 * ASIDE_SPAN)
"""For so long a failure is remembered: two that are further apart are not two in a row."""
SUSPECTS_MAX = 1_000
"""Sorts of messages that one unit suspects; the oldest makes room."""

# Processes.
RESTART_DELAY_MIN: Nanoseconds = seconds(0.1)
"""Between the death of a unit and its next start; doubled at each death that follows soon."""
RESTART_DELAY_MAX: Nanoseconds = seconds(10)
"""The longest such wait. A unit that lived longer than this starts from the shortest again."""
PROCESS_STOP_SPAN: Nanoseconds = seconds(8)
"""From SIGTERM to SIGKILL. A process lets go of its log and of the bus in a few hundredths of a second."""
PROCESS_LOG_BYTES_MAX = 16 * 1024 * 1024
"""What a process has written before its file is put aside for a new one."""
PROCESS_LOGS_KEPT = 3
"""Files of one process that are kept beside the newest: 64 MiB in all, and as much of the NATS server."""
BEAT_INTERVAL: Nanoseconds = seconds(1)
"""Between two answers of a process's event loop to its supervisor."""
UNANSWERED_MAX: Nanoseconds = seconds(30)
"""A process whose event loop has not answered for so long is ended and started again (a setting of `mizzen up`). The longest that a
loop is held up in order is some seconds: a full check, or an image of 100,000 nodes."""
STARTING_SPAN_MAX: Nanoseconds = seconds(600)
"""The same before its unit has begun: a keeper folds its whole log first, if it has no snapshot."""
ABORT_SPAN: Nanoseconds = seconds(3)
"""From SIGABRT, on which the process writes its stacks, to SIGKILL."""

# Clocks.
CLOCK_APART_MAX: Nanoseconds = seconds(3600)
"""By so much the time of a log and the clock of its keeper's machine may come apart before the keeper waits for an operator."""
CLOCK_LOOK: Nanoseconds = seconds(10)
"""Between two comparisons of both."""

# Following a log.
HEAD_INTERVAL: Nanoseconds = seconds(2)
"""A keeper's longest silence: it then says its head."""
HEAD_SILENCE_MAX: Nanoseconds = seconds(5)
"""A log without a message from its keeper for so long is silent: its region is not solicited."""
READ_TIMEOUT: Nanoseconds = seconds(2)
KEEPER_ASKED_MAX = 3
"""Times that a keeper asks whether there is another before it gives up for now: two questions may be lost."""
READ_FACTS_MAX = 2_000
"""Facts in one answered read."""
READ_BYTES_MAX = 512 * 1024
LOG_PAGES_KEPT_MAX = 16
"""Answered reads that a reader keeps for others that ask the same: 8 MB at most."""
FOLLOW_BUFFER_MAX = 10_000
"""Announcements buffered while a follower catches up; beyond it the oldest are dropped and read again."""
FOLLOW_BUFFER_BYTES_MAX = 32 * 1024 * 1024
"""The same in bytes: 10,000 of the largest announcements would be 5 GB."""
FOLLOW_LAG_MIN = 10_000
"""Facts that a follower has heard of and not folded from which it says that it lags: five pages of the log."""
FOLLOW_LAG_INTERVAL: Nanoseconds = seconds(10)
"""Between two lines in which one follower says that it lags."""
FOLLOW_RETRY: Nanoseconds = seconds(1)
IMAGE_PAGE_BYTES = 512 * 1024

# Snapshots.
SNAPSHOT_FACTS = 10_000
"""Facts between snapshots: start-up folds at most about this many."""
SNAPSHOT_INTERVAL: Nanoseconds = seconds(10)
"""Between looks whether one is due."""
IMAGE_SHARED_SPAN: Nanoseconds = seconds(5)
"""So long after an image was encoded its encoding serves every request for a first page, so one is made at most so often. A follower
reads what was recorded since: at 1,000 facts a second three pages of the log."""
IMAGE_KEPT_SPAN: Nanoseconds = seconds(15)
"""From the last request for a page of an encoding until the encoding is dropped: several lost pages, each asked for again after
`READ_TIMEOUT` and `FOLLOW_RETRY`."""
IMAGES_ENCODED_MAX = 4
"""Encodings that a reader keeps, each of them read within `IMAGE_KEPT_SPAN`; while there are so many, no other is made and the newest
serves all. Of 100,000 nodes with 1.3 attempts each has some 30 MB."""
PACKED_AT_ONCE = 1 << 20
"""Bytes of a section that are compressed before other requests have their turn: some 3 ms."""
KEEP: Nanoseconds = seconds(90 * 86_400)
"""How long facts stay in a log's own file (a setting, `MIZZEN_KEEP`); then they move to its archive."""
ARCHIVE_INTERVAL: Nanoseconds = seconds(60)
"""Between looks whether facts are old enough: a whole archive file of them comes together in an hour at 28 facts a second."""
ARCHIVE_PAUSE: Nanoseconds = seconds(1)
"""After each archive file, before the next one is written, so that the reader beside it has half of the time."""

# Auctions and awards.
AUCTIONS_MAX = 64
"""The most workloads from the head of the queue with auctions open at once."""
QUOTA_ALTERNATIVES_MAX = 16
"""Combinations of GPU types on which a workload is held against its tenant's quota: of two jobs that name four types each, all."""
AUCTION_SPAN: Nanoseconds = seconds(1)
"""A cycle of auctions ends when all regions have answered, or so long after it began; later for regions whose answers came late."""
AUCTION_SPAN_MAX: Nanoseconds = seconds(8)
"""A cycle waits at most so long for a region whose earlier answers came late: twice as long as these took. So long the answer to a request
for a move is awaited, too, for which nobody else waits."""
SILENT_CYCLES_MAX = 64
"""Cycles in which a region answered nothing that are remembered for its late answers: those of a minute at least."""
OPEN_BIDS_RETRY: Nanoseconds = seconds(2)
"""A region that abstained because its room was offered to others is asked again so much later, if nothing told sooner
that the offer came to nothing."""
LAGGING_VIEW_RETRY: Nanoseconds = seconds(0.02)
"""The delay until a region is asked again after a refusal on a view that is older than the fact that would lift the refusal. Views
lag by some milliseconds."""
FREED_REMEMBERED_MAX = 256
"""Facts that freed room, remembered for each region: an abstention on an older view does not hold."""
NOTED_INTERVAL: Nanoseconds = seconds(10)
"""Between looks at the reasons for which all regions refuse a shape: a reason that two looks in a row find is recorded (chosen: most
refusals pass sooner, and a person who asks why a job waits does not ask within the first seconds)."""
NOTED_STEP: Nanoseconds = seconds(1)
"""Between parts of one look at many shapes; at most one fact about refusals is written in this time."""
NOTED_AT_ONCE_MAX = 64
"""Shapes in one part of a look: some 3 ms of the queue's time."""
NOTED_LOOKED_AT_MAX = 2_048
"""Shapes in one look, from the head of the order: more than the 1,700 of a fleet in which nearly every job is of its own shape."""
NOTED_SHAPES_MAX = 2 * NOTED_LOOKED_AT_MAX
"""Requests of which refusals are remembered: each some 150 bytes a region. Twice those looked at, so that none of these has to leave
for a shape at a level that no workload of the shape has any more."""
NOTED_BEFORE_MAX = 3
"""Earlier reasons remembered of one request in one region."""
NOTED_BYTES_MAX = 64 * 1024
"""Encoded refusals in one fact beyond which no further shape is added: a quarter of the largest fact, because the last shape and the
digests of shapes that are gone come on top."""
OPEN_BID_SPAN: Nanoseconds = seconds(3)
"""How long an agent counts an unanswered bid as taken: three times as long as its cycle may last, and so much for a cycle of the usual
length."""
AWARD_SAY_AGAIN: Nanoseconds = seconds(2)
AWARD_SPAN: Nanoseconds = seconds(20)
"""After it the queue asks for its award back, until the region's log shows a promise, a grant or a decline; so long an agent counts a bid as
taken that won."""
CLAIM_TRIES_MAX = 10
"""Conflicts after which an agent gives an award back (Protean: up to 10, rarely needed)."""
CLAIM_SPAN: Nanoseconds = seconds(10)
"""From an agent's first claim for an award: a conflict after it is the last. Half of the time after which the queue asks for the
award back, so that another agent or region can still be asked."""
CONFLICT_NODES_MAX = 64
"""Nodes that are named when an award is given back after conflicts."""
DISPUTES_MAX = 3
"""Claims refused on one node within `DISPUTE_SPAN`, though its agents had seen all that changed there, that close it (chosen: a
third of the tries that one award has, so that the rest of them go elsewhere)."""
DISPUTE_SPAN: Nanoseconds = seconds(60)
DISPUTE_HOLD: Nanoseconds = seconds(300)
"""For so long it stays closed: as long as between checks of nodes in quarantine."""
DISPUTED_KEPT_MAX = 1_000
"""Nodes of which such refusals are remembered."""
CLASSES_MAX = 256
"""Classes of requests that an agent keeps worked out, for each pool (Protean: an LRU)."""
CLASSES_FRESH = 16
"""Classes that an agent brings up to date at each of its beats: those asked for last."""
CLASS_BYTES_MAX = 256 << 20
"""Memory that they may take together; one of 100,000 nodes takes 630 KB."""
STRIPE_SPAN: Nanoseconds = seconds(10)
"""For which an agent that folds every fact looks at the same partitions and pods first."""
PARTITIONS_MAX = 4_096
"""Partitions of a region (operators set how many): a large region has some six thousand racks."""
SYNC_EVERY_MAX: Nanoseconds = seconds(60)
"""The longest time in which an agent takes every partition in once."""
CLAIM_TRIES_CEILING = 100
"""The most tries of a claim that operators may set."""
HANDED_BACK_SPAN: Nanoseconds = seconds(1)
"""For which requests of a shape that an agent with partitions handed back go to a full agent at once."""
SHAPES_HANDED_BACK_MAX = 1_024
"""Such shapes that a broker remembers."""
WAITING_MAX = 1_024
"""Requests that an agent keeps while it takes rows in, or adopts an image."""
VIEW_ROWS_MAX = 1_000
"""Nodes that a claim's view names as other than the log shows them."""
CLASS_AGE_MAX = 100_000
"""Searches after which an unused class of requests is dropped."""
BEST_MAX = 4096
"""Nodes among which one is drawn at most (Protean's N0): spec/protean-parsync.md §6.4."""
BEST_SHARE = 20
"""And of all candidates at most the best 20th part of them: the same."""
CONFLICT_WINDOW = 64
"""Outcomes of claims by which an agent judges how often others come first (chosen: a burst is seen within some of them)."""
CONFLICTS_MANY = 4
"""Conflicts among them by which it draws among more nodes (chosen: 6 %; one stray conflict changes nothing)."""
CLAIM_SAY_AGAIN: Nanoseconds = seconds(1)
PROMISE_SPAN: Nanoseconds = seconds(120)
"""How long a claim over victims may wait for them to stop."""
PREEMPTION_ASK_SPAN: Nanoseconds = seconds(60)
"""From a promise until victims with a controller are stopped unasked (a setting): half of what the promise stands, so that their
grace and words that are said again have room in the rest."""
PREEMPTION_ASK_SPAN_MAX: Nanoseconds = seconds(75)
PREEMPTION_RETRY: Nanoseconds = seconds(60)
"""After a refusal because too much work would be destroyed: by then there may be a checkpoint, or a minute less in the hour."""
RESTART_SECONDS_MIN = 30
"""The least cost of a start when victims are compared, however soon the gang was up: a tenth of the fleet's p90 (278 s, MAST
§5.5). Chosen, so that preempting an attempt that has just saved a checkpoint is not free."""
RESTARTS_DEARER_MAX = 16
"""The most starts that double the eviction cost, each of them; later starts do not."""
CLAIM_DESTROYS_MIN = 360_000
"""GPU-seconds that one claim may destroy however small the region (a setting): a hundred GPU-hours."""
CLAIM_DESTROYS_SECONDS = 180
"""And for each GPU of the region: of 20,000 a thousand GPU-hours, a twentieth of an hour of all of them."""
HOUR_DESTROYS_MIN = 1_800_000
HOUR_DESTROYS_SECONDS = 360
"""The same of all claims of an hour together: a tenth of it. All four are chosen, not measured."""

# Prices.
DEMAND_SHAPES_MAX = 512
"""Shapes of tasks that are counted: four times what the public trace with the most has (127); the least counted makes room."""
DEMAND_COUNTED_MAX = 100_000
"""Tasks that are counted before every count is halved, so that what was asked for long ago fades (chosen: ten public traces)."""
NODE_CLASSES_MAX = 24
"""Sorts of nodes that prices are solved for: the public trace has 15. Machines that say how many bytes they have are each of a
sort of their own, and with two hundred of them the programme took a minute (60 shapes, on a machine with much else to do)."""
PRICES_LEVELS_MAX = 8
"""Levels of demand for which prices were solved: three are."""
PRICES_LOOK: Nanoseconds = seconds(30)
"""Between looks whether a region's prices are old, and so between two times that they are solved; each reads all of its nodes."""
PRICES_SPAN: Nanoseconds = seconds(60)
"""For solving them once, and for starting the solver's process. It takes a second, and some for the most classes and shapes that there are."""
PRICES_RETRY: Nanoseconds = seconds(60)
"""Before they are solved again after that failed; doubled with each failure in a row."""
PRICES_RETRY_MAX: Nanoseconds = seconds(3600)
POOLS_SETTLE: Nanoseconds = seconds(5)
"""From a change of a region's nodes or needs until pools are planned: what comes with it is part of it."""
POOLS_LOOK: Nanoseconds = seconds(15)
"""Between two looks at a region's pools that a change makes due; each reads all of its nodes. A failed node is replaced within a minute."""
POOLS_EVERY: Nanoseconds = seconds(1800)
"""Between two plans of a region's pools at most, whatever changed (MAST §2: every 30 minutes)."""
POOLS_PATIENCE: Nanoseconds = seconds(600)
"""For which work of a pool must be refused for room before idle nodes of other pools follow it."""
POOLS_SPAN: Nanoseconds = seconds(120)
"""For planning a region's pools once, with the start of the solver's process. 100,000 nodes in 80 power domains take some seconds."""
POOLS_RETRY: Nanoseconds = seconds(30)
POOLS_RETRY_MAX: Nanoseconds = seconds(1800)
POOLS_SAID_MAX = 5
"""Times that a plan is said to a store which does not record it: it may be older than the nodes, and is made anew."""
POOLED_AT_ONCE_MAX = 50_000
"""Nodes that one plan moves: named one by one they fit in a message."""
POOL_NEEDS_MAX = 64
"""Node types of which one pool needs some."""
POOLS_MAX = 256
"""Pools of a region that settings were made for."""
SHARES_LOOK: Nanoseconds = seconds(1)
"""After a change, until shares are solved: others that come meanwhile are part of it."""
SHARES_SPAN: Nanoseconds = seconds(30)
"""For solving them once. Ten thousand jobs that all differ take four seconds on eight GPU types."""
SHARES_AHEAD: Nanoseconds = seconds(20)
"""Before a round begins, in which shares are solved that change with time."""
SHARES_RETRY: Nanoseconds = seconds(15)
"""Before they are solved again after that failed; doubled with each failure in a row."""
SHARES_RETRY_MAX: Nanoseconds = seconds(600)
SHARES_SAID_MAX = 30
"""Times that the queue is told of shares which it does not record."""
PRICES_SAID_MAX = 30
"""Times that a store is told of prices which it does not record: a minute. What was solved for it is old by then."""

# Attempts.
COMMAND_SAY_AGAIN: Nanoseconds = seconds(2)
START_SPAN: Nanoseconds = seconds(60)
"""From the grant until all ranks are up; then all stop, cause `start_failed`."""
GRACE: Nanoseconds = seconds(30)
"""From SIGTERM to SIGKILL, unless the workload asks for less."""

# Starts that are promised.
RESERVATIONS_MAX = 8
"""The most workloads with a promised start at a time, over all regions: the first that are blocked (chosen: more would keep more
capacity idle for longer work, and workloads further back wait for these first anyway)."""
PROMISED_PART = 4
"""Of a region's nodes of one type this part at most is kept for several promised starts; for one alone there may be more."""
RESERVE_AFTER: Nanoseconds = seconds(30)
"""For so long a workload is refused everywhere before a start is looked for: most find room sooner, and need no promise."""
PROSPECT_LOOK: Nanoseconds = seconds(5)
"""Between looks for workloads to which a start could be promised."""
PROSPECT_RETRY: Nanoseconds = seconds(60)
"""Before a workload is looked at again to which no region could promise anything."""
STOP_SLACK: Nanoseconds = seconds(10)
"""After its time is over a store itself orders an attempt to stop, if no broker has. A broker that starts anew counts from then."""
END_SLACK: Nanoseconds = seconds(30)
"""From the end of an attempt's longest duration and its grace until its capacity is surely free: `STOP_SLACK`, and words that are
said again after `COMMAND_SAY_AGAIN` when they are lost."""
CLOCKS_APART: Nanoseconds = seconds(5)
"""By so much an agent's clock and its store's may differ before what one works out is refused by the other (chosen: machines that
keep time by the network are milliseconds apart)."""
START_ALLOWANCE: Nanoseconds = seconds(15)
"""From when its nodes are surely free until a workload that was promised them holds them: refusals that pass, an auction, an award
and a claim, each of which may have to be said again. The promised start lies so much later."""
MOVE_DEADLINE: Nanoseconds = seconds(120)
"""How long a workload that moves to another region may take to agree, before it is stopped unasked."""
MOVE_ANSWER_HOLDS: Nanoseconds = seconds(5)
"""How long a region that refused a move is not asked again for it: requests in that time get the region's refusal."""
MOVES_MAX = 8
"""Workloads that are on their way at a time: each keeps room in two regions."""
CHECKPOINT_BYTES_MAX = 1 << 50
"""Of a workload: it would be on its way for twelve days."""
SPAN_MAX: Nanoseconds = seconds(100 * 366 * 86_400)
"""That a user may ask for: instants in nanoseconds have room for it."""
SHIP_BYTES_PER_SECOND = 1 << 30
"""Of a checkpoint on its way between regions: a share of such a link, of a tenth of what a region has within (MAST §2). Chosen."""
START_PATIENCE: Nanoseconds = seconds(60)
"""For so long after a promised start its nodes are still kept."""
RESERVE_SPAN: Nanoseconds = seconds(20)
"""For so long a region is told to reserve a start before it is given up."""
UNRESERVED_KEPT_MAX = 64
"""Reservations that are over of which a region's image says why: eight times as many as there are at one time."""

# Tasks.
PREPARED_SPAN: Nanoseconds = seconds(180)
"""How long a prepared task waits for the word to start before it ends by itself: three times `START_SPAN`, after which the broker
stopped the attempt, so that the word can never come."""
RUNNER_BEAT: Nanoseconds = seconds(5)
"""Between a runner's signs of life, and between a worker's looks at tasks that say nothing."""
CHECKPOINT_EVERY_MIN: Nanoseconds = seconds(0.01)
"""Between checkpoints of an emulated task, each of which is reported and becomes a fact (chosen: no test or scenario needs less than
20 ms, and a worker's spool takes a tenth of a millisecond for each)."""
EXIT_CODE_MAX = 255
"""What a process can exit with."""
RETRIES_MAX = 1_000_000
"""Attempts that a user may allow after failures: an attempt a second for eleven days."""
CHECKPOINT_LOOK: Nanoseconds = seconds(0.25)
"""Between looks for a new checkpoint: what a loss of the node may make the next attempt do again."""
OUTPUT_SEGMENT_BYTES = 4 * 1024 * 1024
"""What one file holds of a task's output."""
OUTPUT_SEGMENTS_MAX = 8
"""Files of one task's output; the oldest is dropped for the next. With the above: 32 MiB, some 300,000 lines."""
OUTPUTS_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""What a worker keeps of the output of ended tasks; the oldest is dropped first."""
OUTPUTS_SPAN: Nanoseconds = seconds(7 * 24 * 3600)
"""How long a worker keeps such output: a week, so that a user may come back from a holiday."""
OUTPUTS_INTERVAL: Nanoseconds = seconds(60)
"""Between looks at both."""
SECRETS_BYTES_MAX = 64 * 1024
"""Of one task, together. They travel through a pipe, and a program's whole environment is seldom more."""

# Presence and health.
PRESENCE_INTERVAL: Nanoseconds = seconds(5)
PRESENCE_SILENCE_MAX: Nanoseconds = seconds(26)
"""An agent or worker silent for so long is gone: five beats, so that a bus which loses one message in ten takes a healthy
worker for a lost one about once in ten thousand beats. A worker without an acknowledged beat for so long, counted from the sending
of the beat, obeys no command until a beat is acknowledged: it stops obeying before it is taken for lost."""

HEALTH_LOOK: Nanoseconds = seconds(30)
"""Between a machine's looks at its devices, during which its worker receives no messages. Tasks that fail there tell sooner."""
AGENTS_MAX = 1_024
"""Agents of one region of which a broker remembers that they were heard."""
STRANGERS_MAX = 1_024
"""Workers without nodes in the region of which a broker remembers reports: workers that are to join, or were refused."""
STRANGER_SPAN: Nanoseconds = seconds(600)
"""Since the last report of such a worker, after which the broker forgets the worker."""
SUSPECT_SILENCE: Nanoseconds = seconds(16)
"""A worker silent for so long is suspected: three beats and a little. Nothing new is placed there; what runs goes on."""
DOMAIN_PATIENCE: Nanoseconds = seconds(6)
"""How long a loss waits for the other workers of its power domain or zone that have missed beats too, to be told as one."""
FLAPS_MAX = 2
"""Losses of one worker within `FLAP_SPAN` after which its returns are damped."""
FLAP_SPAN: Nanoseconds = seconds(3600)
FLAP_HOLD: Nanoseconds = seconds(60)
"""For so long a worker that flaps must beat before it is taken back; doubled with each further loss within the span."""
FLAP_HOLD_MAX: Nanoseconds = seconds(1800)
BLACK_HOLE_FAILURES = 3
"""Rounds of failures on one node, soon after a start and within `BLACK_HOLE_SPAN`, that quarantine it. One workload alone, and
what failed together, make one round."""
BLACK_HOLE_SPAN: Nanoseconds = seconds(3600)
BLACK_HOLE_SOON: Nanoseconds = seconds(120)
"""What fails later than this after its start says nothing about its node."""
BLACK_HOLE_KEPT_MAX = 8
"""Rounds of failures remembered of one node."""
FLAPS_KEPT_MAX = 16
"""Losses remembered of one worker: more than make its hold the longest."""
REGION_PATIENCE: Nanoseconds = seconds(600)
"""How long no worker is taken for lost in a region where all are silent: the network may have failed, and not the workers."""
REGION_WORKERS_MIN = 3
"""Of fewer workers, that all are silent is no sign that something else is wrong."""
DOMAIN_LOSS_WORKERS_MAX = 1_000
"""Workers in one loss, so that it fits a fact however long their names are."""
CLOSED_AT_ONCE_MAX = 20_000
"""Nodes in one word about suspicion, unless one worker has more."""
RUNS_AT_ONCE_MAX = 20_000
"""Runs of nodes in one fact that closes or opens them: as many scattered nodes as `CLOSED_AT_ONCE_MAX`; more are several facts."""
QUARANTINE_CHECK: Nanoseconds = seconds(300)
"""Between checks of nodes that a passed check lets out of the quarantine."""
QUARANTINE_SHARE = 20
"""One in so many of a region's nodes, and at least one, may be in quarantine for failures at a time: when more seem to be at
fault, it is rather what was submitted."""

# Task control.
CONTROL_SAY_AGAIN: Nanoseconds = seconds(2)
"""Between requests to a controller that has not answered."""
CONTROL_ASK_AGAIN: Nanoseconds = seconds(10)
"""Between requests to a controller that has answered and still holds operations."""
CONTROL_SILENCE_MAX: Nanoseconds = seconds(30)
"""A controller that has answered nothing for so long, though it was asked, is unreachable."""
CONTROL_ASKED_MAX = 4_096
"""Operations in one request: some 240 KiB and their reasons. Those with the nearest deadlines come first, and the rest
follows once these have been begun."""
CONTROLLED_TASKS_MAX = 30_000
"""Of a service that has a controller: twice the largest job of Twine. Which of them are unhealthy and which are acknowledged is
always told in full, in 300 KB at most: less than half a message, so that the other half is there for what is asked."""
OPERATIONS_AT_ONCE_MAX = 2_048
"""Operations, or tasks, in one fact: some 110 KiB when each carries an answer."""
REASON_LENGTH_MAX = 1_024
"""The longest text of a reason: the text is part of a fact and of each request to a controller, and is shown to people."""
SCOPE_NAMES_MAX = 4_096
"""The most nodes or racks that one drain or maintenance names; a larger scope is named by its domain or zone."""
MAINTENANCE_AHEAD_MAX: Nanoseconds = seconds(366 * 24 * 3600)
"""How far ahead a window may be planned."""
DEFRAGMENTATION_SPAN: Nanoseconds = seconds(1800)
"""How long a defragmentation keeps nodes cordoned that are to become free, unless the operator names another span: work that has
no agreement to move by then stays, and the nodes take work again. Chosen, not measured: a few checkpoint intervals.
"""
DEFRAGMENTATION_SPAN_MAX: Nanoseconds = seconds(24 * 3600)
POOL_DRAIN_SPAN: Nanoseconds = seconds(1800)
"""How long nodes in use are closed for a move to another pool: what has not agreed to leave by then stays, and the next plan chooses again."""
POOLED_TOGETHER: Nanoseconds = seconds(5)
"""From when a node is vacant until it moves to its pool, with all others of its drain that are vacant by then."""
ACK_LEASE: Nanoseconds = seconds(120)
"""An acknowledgement that was not followed within it is void, and asked for again: much may have changed."""
STUCK_SPAN: Nanoseconds = seconds(900)
"""An operation not over so long after its begin needs an operator's look: three times a slow update (Twine fig. 14: 240 s)."""
FAILURE_DEADLINE: Nanoseconds = seconds(30)
"""How long the replacement of a failed task waits for its controller's word."""
RESTART_HOLD: Nanoseconds = seconds(1)
"""Before a task that failed by itself is started again; doubled with each failure in a row."""
RESTART_HOLD_MAX: Nanoseconds = seconds(300)
CONTROL_RETENTION: Nanoseconds = seconds(3600)
"""How long the word that an operation is over waits for its controller once the attempt has ended."""
CONTROLLERS_KEPT_MAX = 4_096
"""Controllers of a region of which the newest answer is remembered; jobs come and go, and with them the names of controllers."""
CONTROLLER_SPAN: Nanoseconds = seconds(30)
"""How long a controller may think about one request, in its own process; what takes longer is silence."""
DOCKETS_MAX = 10_000
"""Attempts that a controller's process remembers; of the one heard longest ago it only forgets what it said last."""
MOVE_PATIENCE: Nanoseconds = seconds(60)
"""How long a task that was to move, or that stopped to return to a node that is drained meanwhile, waits for a place elsewhere
before it starts again where it was.
"""
PLACE_AGAIN: Nanoseconds = seconds(5)
"""Between tries to find a node for a task that has none."""
TASKS_LOOK: Nanoseconds = seconds(0.05)
"""Between looks at one attempt with independent tasks: changes meanwhile are recorded together. A thousand tasks that change at
once are a few messages and looks, not a thousand."""
TASKS_AT_ONCE_MAX = 512
"""Tasks looked at in one turn, and named in one record, revision or search: some 10 KiB."""
DESTRUCTION_MIN = 60
"""Stops a minute that every requester may have in a region, however small."""
DESTRUCTION_SHARE = 20
"""One in so many of a region's nodes is the budget of stops a minute: all of it in twenty minutes at the fastest."""
MAINTENANCE_LEAD_MAX: Nanoseconds = seconds(7 * 24 * 3600)
MAINTENANCE_SPAN_MAX: Nanoseconds = seconds(30 * 24 * 3600)

# Retention.
RETENTION: Nanoseconds = seconds(24 * 3600)
"""An ended workload leaves the image so long after its end, or earlier if more are remembered than `REMEMBERED_MAX` (a setting)."""
FORGET_INTERVAL: Nanoseconds = seconds(60)
FORGET_AGAIN: Nanoseconds = seconds(0.1)
"""Between sweeps while more is due than one sweep forgets: ten thousand workloads a second, in a twentieth of the queue's time."""
BLOCKED_INTERVAL: Nanoseconds = seconds(600)
"""After which an ended workload that a region still remembers is looked at again."""
FORGOTTEN_AT_ONCE_MAX = 1_000
PENDING_MAX = 200_000
"""Pending workloads of all tenants beyond which submissions are refused, unless operators set another number (`mizzen quota
ranking`): twice the 100,000 of DESIGN §12, and about 1 GB of the queue's memory."""
TENANT_PENDING_MAX = 100_000
"""The same of one tenant (`mizzen quota set`): half of `PENDING_MAX`, so that one tenant's endless loop leaves half to the others."""
REMEMBERED_MAX = 1_000_000
"""Ended workloads that are remembered, a day at most, unless operators set another number: a day of 11 ends a second, and about 2 GB
of the queue's memory (`python -m bench remembered`)."""
CEILING_MAX = 100_000_000
"""The largest such number that an operator may set: far more than one machine's memory holds."""

# Pipelines.
STAGES_MAX = 256
"""Of one pipeline: its facts and answers stay small, and more stages are the work of a workflow engine."""
PIPELINE_BYTES_MAX = 64 * 1024
"""Of names of stages, names in `after` and checkpoint directories of one pipeline together: a claim carries those of all forerunners beside
its workload."""
PIPELINE_LOOK: Nanoseconds = seconds(60)
"""Between two looks at a pipeline with a deadline in which nothing happens: run times and waits are learnt meanwhile."""
PIPELINES_LOOKED_AT_ONCE_MAX = 4
"""In one decision: half a millisecond for each with 8 stages; some 20 ms for each with 256."""

PIPELINES_LISTED_MAX = 32
"""Told in one answer: each is forecast anew, in some 0.5 ms of the queue's time for eight stages."""

# History and estimates.
FAMILY_RUNS_MAX = 16
"""Runs that are remembered of one family: a median of them is within a tenth or two of the family's, and work changes."""
FAMILY_DATASETS_MAX = 16
"""That are remembered of one family, those that most of its runs read."""
FAMILIES_OF_TENANT_MAX = 64
"""Families of one tenant; the one of which nothing has ended for longest makes room."""
HISTORY_TENANTS_MAX = 1_000
"""The most tenants with remembered runs (DESIGN §12): 64,000 families, 10 MB of an image, were all of them full."""
RUN_TIMES_COUNTED_MAX = 4_096
"""Run times in one spread before every count is halved (chosen: what ran a month ago fades in a fleet that is busy)."""
ERRORS_KEPT_MAX = 256
"""Predictions of one sort of which it is remembered how far they were off."""
RUN_TIME_DEFAULT: Nanoseconds = seconds(1200)
"""Predicted while nothing has ended yet: the median of the published fleet (spec/mast-twine.md §4)."""
BAND_RATIOS_MAX = 512
"""Starts of one group of estimates by which the next are set right, and their bands drawn (chosen on a public trace, as is what
follows); each is 3 bytes of the image, and there are 8 groups."""
BAND_SAMPLE_INTERVAL: Nanoseconds = seconds(60)
"""Between submissions that are sampled for that: what is submitted together errs together."""
STARTS_JUDGED_MAX = 500
"""Starts of which it is remembered whether they were inside their band."""
FLOWS_MAX = 64
"""GPU types, or sets of them that work asks for, of which it is known how fast they come free."""

# Data.
DATA_BYTES_MAX = 1 << 60
"""Bytes of a dataset, of a region's storage, and a second of a link: an exbibyte."""
EXTRA_PERMILLE_MAX = 64_000
"""Of copies beyond one of each dataset: 64 of each."""
READINGS_MAX = 50_000
"""Rows of the section `readings`: sets of datasets, by GPU types and level band. The one that changed longest ago makes room, of those whose work has
ended: there may be as many more as there is work that has not."""
USE_HALF_LIFE: Nanoseconds = seconds(30 * 24 * 3600)
"""Of the GPU-seconds that work with data held: sets of datasets are read again within weeks, and plans that have forgotten a set move its datasets
apart. With a day 4.6 % of drawn work waited for data, with a week or 30 days 0.4 % (`python -m bench data_ready`).
"""
WANT_HALF_LIFE: Nanoseconds = seconds(3600)
"""Of the GPU-seconds that work with data wanted, whether it had them or waited: new demand counts for a tenth after ten minutes."""
WAITING_READS_INTERVAL: Nanoseconds = seconds(60)
"""Between facts of what waits that reads data."""
WAITING_READS_MAX = 1_000
"""Rows of one such fact, those with the most GPUs."""
READS_LOOKED_AT_MAX = 1_024
"""Groups of pending workloads that read data, by level and shape, that are looked at for what waits for data: measured, 10 microseconds for
each region of each."""
GROUPS_LOOKED_AT_MAX = 16_384
"""Groups of all pending workloads among which they are found, in rank order."""
LINK_COPIES_MAX = 4
"""Copies over one link at a time, each with an equal part of its rate. The last is for copies that work waits for."""
COPY_TRIES_MAX = 3
"""Times that a copy is tried in a row before it is left for `COPY_RETRY`."""
COPY_TRY_AGAIN: Nanoseconds = seconds(10)
"""Before a copy that failed is tried a second time, and twice as long before the third."""
COPY_RETRY: Nanoseconds = seconds(3600)
"""After which a copy that failed `COPY_TRIES_MAX` times is tried again; doubled with each further failure."""
COPY_RETRY_MAX: Nanoseconds = seconds(24 * 3600)
COPY_FAILURES_KEPT_MAX = 10_000
COPY_REPORT_INTERVAL: Nanoseconds = seconds(10)
"""Between reports of how far a copy is."""
COMMAND_SILENCE_MAX: Nanoseconds = seconds(1800)
"""A command that copies is ended when it has changed and said nothing for so long (chosen: rsync lists millions of files in silence)."""
PARTIAL_KEPT: Nanoseconds = seconds(24 * 3600)
"""What was begun of a copy is deleted when no life of the data service has asked for the order in this span after its start."""
DATA_LOCK_SPAN: Nanoseconds = seconds(10)
"""For which a data directory that another process serves is waited for: a process that was killed lets go at once."""
CHILD_END_SPAN: Nanoseconds = seconds(10)
"""For which a killed child process is waited for: one that hangs in the kernel is left."""
DROP_RETRY: Nanoseconds = seconds(60)
"""Between tries to delete a dataset whose directory cannot be written."""
COPIES_AT_ONCE_MAX = 64
"""Orders in one decision."""
COPY_LOOK: Nanoseconds = seconds(10)
"""Between looks for copies that pending work may need; a change of data is looked at within `COPY_LOOK_SOON`."""
COPY_LOOK_SOON: Nanoseconds = seconds(0.2)
DATA_LOOK: Nanoseconds = seconds(300)
"""Between two plans for data, at least."""
DATA_LOOK_MAX: Nanoseconds = seconds(24 * 3600)
"""Between two plans for data, at most."""
DATA_SETTLE: Nanoseconds = seconds(60)
"""From a start, or a change, until data is planned: by then what waits was told, and nodes have joined."""
DATA_MOVED_PERMILLE = 50
"""Change of demand, supply or waits, in thousandths, from which data is planned anew."""
DATA_BASIS_PARTS = 64
"""In which demand is compared: rows of `readings` in each, by a checksum."""
DATA_SPAN: Nanoseconds = seconds(600)
"""For solving it once. A million datasets take three minutes on one core."""
DATA_RETRY: Nanoseconds = seconds(60)
DATA_RETRY_MAX: Nanoseconds = seconds(3600)
DATA_SAID_MAX = 30
PLAN_ACTIONS_MAX = 5_000
"""Actions of a plan; when they are carried out, what is left is planned anew."""
PLAN_BYTES_MAX = 640 * 1024
"""Of all actions of a plan, as they are said to the queue."""
PLAN_PART_BYTES_MAX = 192 * 1024
"""Of one fact of a plan."""

# Answers to people.
LISTED_MAX = 500
"""Workloads in one answered list: some 5 ms of the queue's time."""
LISTED_BYTES_MAX = 512 * 1024
SHARES_INTERVAL: Nanoseconds = seconds(60)
"""Between looks at what is due to each tenant (chosen: a hundredth of what work of an hour or two lasts)."""
DUES_TOLD_MAX = 1_000
"""Tenants in one fact about what is due to them: with the longest names 0.16 MB."""
LAG_SLACK: Nanoseconds = seconds(3_600)
"""While the tenant with the largest lag lacks capacity, tenants with a lag smaller by more than this may not borrow in the region
that is drained for it. Chosen in a small model of weeks of shifting demand: with two hours the shares were further off."""
LAG_PATIENCE: Nanoseconds = seconds(4 * 3_600)
"""So long at most a tenant holds others back without getting anything: chosen, as most work ends in that time and leaves room."""
GATHER_PERCENT_MAX = 100
"""Of all GPUs, for one workload."""
GATHER_PATIENCE: Nanoseconds = seconds(4 * 3_600)
"""So long at most room is gathered for one workload; then for the next."""
LAGGING_LOOKED_AT = 8
"""Of a tenant's work over quota at each level, to see whether room is missing for it."""
DATASETS_MAX = 100_000
"""Of which it is known where they are, each some 60 bytes of the queue's image."""
TENANTS_MAX = 2_000
"""Tenants that operators made: ten times the 200 that the benchmark of the queue has."""
ENTITLEMENTS_MAX = 64
"""GPU types of which one tenant is entitled to some."""
ENTITLED_GPUS_MAX = 10_000_000
"""Whole GPUs of one type: more than all regions of DESIGN's size have."""
TENANT_RUN_MIN_MAX: Nanoseconds = seconds(7 * 86_400)
"""How long a tenant's work may run at least before it may be a victim: a week, in which every gang checkpoints."""
BUDGET_GPU_HOURS_MAX = 100_000_000_000
"""Of one tenant in one period: all of such a fleet's GPUs for a year."""
CREDIT_MAX = 10**18
"""Of a weight, or of the nanoseconds that waiting counts for at most: thirty years of them."""
LAG_WEIGHT_MAX = 1_000_000
"""The largest weight of an hour of lag, in hours of waiting."""
BUDGET_PERIOD_MIN: Nanoseconds = seconds(3_600)
BUDGET_PERIOD_MAX: Nanoseconds = seconds(366 * 86_400)
STARTS_LISTED_MAX = 200
"""Of which starts are told in one answer: some 10 ms of the queue's time, and as much again where 100,000 wait."""
STARTS_WALKED_MAX = 10_000
"""Workloads of the order that are walked past for one answer about starts: some 15 ms of the queue's time."""
AHEAD_SHOWN_MAX = 10
"""The most workloads named in an answer on those ahead in the queue."""
TENANTS_SHOWN_MAX = 20
"""The most tenants named in the answer to a request that names an unknown tenant."""
HOLDERS_SHOWN_MAX = 5
"""The most workloads named in an answer on the holders of a region's capacity."""

JOIN_PROBLEMS_MAX = 50
"""The most problems reported when a worker may not join: as many as people read, and far fewer than a message holds."""

# Auditing.
AUDIT_INTERVAL: Nanoseconds = seconds(300)
"""Between full checks; each fact is checked as it is folded all the same."""
VIOLATIONS_KEPT_MAX = 1_000
VIOLATIONS_TOLD_MAX = 100
"""Violations in one message: with the longest texts some 100 KB."""

# The status of units.
STATUS_INTERVAL: Nanoseconds = seconds(10)
"""Between two statuses that a unit tells unasked."""
WORKER_STATUS_FACTOR = 6
"""How many times as long it is between a worker's: 100,000 of them are 1,700 messages a second for the auditor."""
STATUS_MISSED_MAX = 3
"""A unit is shown as silent when so many of its statuses have not come: two may be lost."""
UNITS_KEPT_MAX = 100_000
"""Units of which the auditor keeps the newest status, some 2 KB each. The statuses of further ones are counted (`units_not_kept`)."""
UNIT_FORGOTTEN_AFTER: Nanoseconds = seconds(24 * 3600)
"""A unit that the plan does not name, as an agent that was added by hand, is forgotten so long after its newest status."""
UNITS_SHOWN_MAX = 500
"""Units in one answer: some 300 KB."""

# Input.
NAME_LENGTH_MAX = 128
KEY_LENGTH_MAX = 256
"""Of the key under which something is submitted once."""
SENDER_LENGTH_MAX = 256
"""The greatest length of a sender's name and ids under a tenant's credentials, and of a submitter's: all become part of facts."""
TASKS_MAX = 100_000
NAMED_ZONES_MAX = 100
DATASETS_READ_MAX = 64
"""By one workload: some are kept of each of its family's newest runs."""
GPU_TYPES_MAX = 16
BESIDE_MAX = 100
"""Models of which an emulated job says how fast it is beside them."""
ROUND_DEADLINE_MAX: Nanoseconds = seconds(60)
"""From the order on in which a job that is not picked for a round is stopped unasked (Gavel: 60 s after the round's end)."""
ROUND_DEADLINE_PART = 6
"""It is no more than this part of a round, which is then over for who comes next."""
ROUND_JOINS_MAX = 2_000
"""Jobs that join in the fact that begins a round, of those that neither leave nor share a GPU; more of them join in facts behind it."""
MODELS_BESIDE_MAX = 64
"""Models beside which a job of a shared pool says how fast it is."""
WEIGHT_MAX = 1_000_000_000
"""Thousandths of the weight of a job in a shared pool: a million times the usual one."""
RULES_LENGTH_MAX = 1024
"""Characters that say by which rules a pool is searched: all rules at once are a third of it."""
TYPICAL_SHAPES_MAX = 256
"""In a mix: the widest of the public lists has 127, and each shape costs a fact some 60 bytes and a decision a microsecond."""
PROGRAM_GPU_MILLI_MIN = 50
"""The least of a task that is a process: a node of 8 devices then runs 160 at most. Each costs its worker 1 to 8 ms to start, in
which the worker receives no messages, and 8 MB for the task's runner."""
PROGRAM_CPU_MILLI_MIN = 100
"""The same where it takes no device."""
TOGETHER_MAX = 64
"""Tasks that are searched on one node as one task: those of a gang that must lie on one."""
ISOLATION_MIN: Nanoseconds = seconds(10)
"""A strict task waits at least so long for a sign of its region before it stops by itself: two beats may be late or lost."""
ISOLATION_MAX: Nanoseconds = seconds(24 * 3600)
"""And at most so long: nothing takes its place before."""
NEED_MAX = 1 << 53
"""Of one resource, by one task: what a JSON number holds exactly, and far from what an array's 64 bits cannot."""
WORKLOAD_MILLI_MAX = 1 << 43
"""GPU or CPU milli of all tasks of a workload: eight billion devices. The sum over a million such workloads fits into 64 bits."""
WORKLOAD_BYTES_MAX = 1 << 62
"""Memory of all tasks of a workload, so that the sum is a number that a message can hold."""
NODE_GPU_MILLI_MAX = 1_000_000
"""GPU milli of one node: 1,000 devices. An agent's columns have 32 bits, in which `priced_value` multiplies devices by millionths."""
NODE_CPU_MILLI_MAX = 1_000_000_000
"""CPU milli of one node: a million cores, which a column of 32 bits holds."""
NODE_BYTES_MAX = 1 << 46
"""Memory of one node: 64 TiB, of which 64 bits hold the sum over 100,000 nodes."""
NODE_NUMBERS_MAX = 1 << 24
"""Above every number of a node or a rack: images and views are arrays as long as the highest."""
WORKER_NODES_MAX = 50_000
"""Nodes that one worker serves: its loss and its return name each of them in one fact, whatever their numbers."""

assert PREEMPTION_ASK_SPAN <= PREEMPTION_ASK_SPAN_MAX
assert PREEMPTION_ASK_SPAN_MAX + GRACE + STOP_SLACK < PROMISE_SPAN
assert HEAD_SILENCE_MAX > 2 * HEAD_INTERVAL
assert PRESENCE_SILENCE_MAX > 5 * PRESENCE_INTERVAL
assert OPEN_BID_SPAN > AUCTION_SPAN
assert DISPUTE_HOLD > DISPUTE_SPAN
assert TYPICAL_SHAPES_MAX <= DEMAND_SHAPES_MAX
assert ISOLATION_MIN >= 2 * PRESENCE_INTERVAL
assert END_SLACK >= STOP_SLACK + 5 * COMMAND_SAY_AGAIN
# Of regions that answer in time. A start that was promised where answers are late may itself be late.
assert START_ALLOWANCE > OPEN_BIDS_RETRY + AUCTION_SPAN + AWARD_SAY_AGAIN + 2 * CLAIM_SAY_AGAIN
assert PREPARED_SPAN > 2 * START_SPAN
assert AWARD_SPAN > AWARD_SAY_AGAIN
assert AWARD_SPAN > CLAIM_SPAN
assert FACT_BYTES_MAX < MESSAGE_BYTES_MAX
assert 2 * NUMBER_BYTES_MAX * CONTROLLED_TASKS_MAX < MESSAGE_BYTES_MAX // 2
assert (
    2 * NUMBER_BYTES_MAX * RUNS_AT_ONCE_MAX + RUNS_AT_ONCE_MAX + 4 * REASON_LENGTH_MAX < FACT_BYTES_MAX - 1024
)
assert NUMBER_BYTES_MAX * WORKER_NODES_MAX + 4 * NAME_LENGTH_MAX < FACT_BYTES_MAX - 1024
assert NOTED_BYTES_MAX + 24 * NOTED_SHAPES_MAX < FACT_BYTES_MAX - NOTED_BYTES_MAX
assert READ_BYTES_MAX < MESSAGE_BYTES_MAX
assert IMAGE_PAGE_BYTES < MESSAGE_BYTES_MAX
assert IMAGE_KEPT_SPAN > 2 * (READ_TIMEOUT + FOLLOW_RETRY)
assert IMAGE_KEPT_SPAN > IMAGE_SHARED_SPAN
assert LISTED_BYTES_MAX < MESSAGE_BYTES_MAX

SETTINGS: dict[str, int] = {
    "auctions_max": AUCTIONS_MAX,
    "auction_span": AUCTION_SPAN,
    "auction_span_max": AUCTION_SPAN_MAX,
    "award_span": AWARD_SPAN,
    "ack_lease": ACK_LEASE,
    "claim_destroys_min": CLAIM_DESTROYS_MIN,
    "claim_destroys_seconds": CLAIM_DESTROYS_SECONDS,
    "claim_span": CLAIM_SPAN,
    "claim_tries_max": CLAIM_TRIES_MAX,
    "destruction_min": DESTRUCTION_MIN,
    "destruction_share": DESTRUCTION_SHARE,
    "grace": GRACE,
    "hour_destroys_min": HOUR_DESTROYS_MIN,
    "hour_destroys_seconds": HOUR_DESTROYS_SECONDS,
    "move_patience": MOVE_PATIENCE,
    "open_bid_span": OPEN_BID_SPAN,
    "preemption_ask_span": PREEMPTION_ASK_SPAN,
    "presence_silence_max": PRESENCE_SILENCE_MAX,
    "promise_span": PROMISE_SPAN,
    "promised_part": PROMISED_PART,
    "reservations_max": RESERVATIONS_MAX,
    "reserve_after": RESERVE_AFTER,
    "retention": RETENTION,
    "start_allowance": START_ALLOWANCE,
    "start_patience": START_PATIENCE,
    "start_span": START_SPAN,
}
"""Those that sway decisions: every term of a log begins by recording them."""
