"""A queue's log with a million workloads in its snapshot, and processes that open that log: the load of `remembered`.

The workloads are folded from their facts, so that every section of the image is as in life. The facts themselves are not in the
log, because a start from a snapshot reads none of them: the log has the row under the snapshot, and a tail.
"""

import asyncio
import gc
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from bus.nats import NatsConnection
from components.auditor.component import OF_THE_QUEUE, Auditor
from core.codec import encode
from core.component import Images
from core.events.log import LogOpened
from core.events.queue import (
    AttemptClosed,
    RegionAdded,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadSubmitted,
)
from core.events.tenants import EntitlementSet, TenantSet
from core.fact import Event, Fact, Head
from core.images import GlobalImage, decode_image
from core.images.versions import VERSIONS
from core.messages.logs import FetchImage
from core.nouns.ids import GLOBAL_LOG, DatasetName, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import SETTINGS, SNAPSHOT_FACTS
from core.nouns.quantities import MILLI, Amount
from core.nouns.tenant import Entitlement, TenantSettings
from core.nouns.workload import EndCause, JobSpec, Kind, Phase, Program, RetryLimits, WorkloadSpec
from runtime.clock import wall_now
from runtime.gc_tuning import settle_down
from runtime.logs import set_up_logs
from runtime.loop import run as run_loop
from runtime.process import Ground, run_unit
from runtime.wiring import BUILD, OpenUnit, Plan, RegionPlan, Unit
from store import sqlite_file
from store.images import ImageFiles
from store.port import Row, Snapshot
from store.sqlite import SqliteStore

FLEET = "bench"
REGIONS = tuple(RegionName(f"r{number}") for number in range(10))
TENANTS, USERS, DATASETS = 200, 2_000, 5_000
TYPES = ("H100", "A100", "V100")
RUNNING = 2_000
"""Workloads that run, of those that have not ended."""
GPUS, GPU_WEIGHTS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (8, 8)), (40, 15, 15, 20, 8, 2)
"""Tasks, and GPUs of each."""
STEMS = (
    "llama-7b-pretrain",
    "bert-large-finetune",
    "vit-sweep",
    "diffusion-ablation",
    "eval-nightly",
    "rlhf-ppo",
)
GB = 1e9
AUDITORS = "auditor.image"
PATIENCE = seconds(120)
SPAN = 24 * 3_600 * SECOND
"""In which all of them were submitted."""


class History:
    """The facts of so many workloads in the last day, of which so many wait."""

    def __init__(self, workloads: int, pending: int) -> None:
        self.workloads, self.pending = workloads, pending
        self.image = GlobalImage.empty()
        self.sequence = 0
        self.at = wall_now() - SPAN - 3_600 * SECOND
        self._dice = random.Random(1)

    def fold(self) -> Row:
        """Fold all but the tail; returns the row of the last."""
        gc.disable()  # Nothing here is a cycle.
        event: Event = LogOpened("bench", 1, FLEET, BUILD, SETTINGS)
        self._fold(event)
        for event in self._settings():
            self._fold(event)
        for number in range(1, self.workloads + 1):
            self.at += SPAN // self.workloads
            for event in self._life(number):
                self._fold(event)
        return Row(self.sequence, self.at, "", "bench", event.about, encode(event))

    def _fold(self, event: Event) -> None:
        self.sequence += 1
        self.image.fold(Fact(GLOBAL_LOG, self.sequence, Instant(self.at), "", "bench", event))

    def _settings(self) -> Iterator[Event]:
        yield from (RegionAdded(region) for region in REGIONS)
        for number in range(TENANTS):
            tenant = TenantName(f"tenant-{number}")
            yield TenantSet(tenant, 1, TenantSettings(level=3))
            for revision, kind in enumerate(TYPES, 2):
                yield EntitlementSet(tenant, revision, kind, Entitlement(gpus=1_000))

    def submission(self, number: int) -> WorkloadSubmitted:
        """One workload, under the key that a client drew."""
        dice = self._dice
        user = f"user-{dice.randrange(USERS)}@login-{number % 8}"
        return WorkloadSubmitted(
            WorkloadId(f"w-{number}"), number, self._spec(number), user, f"{dice.getrandbits(128):032x}"
        )

    def _life(self, number: int) -> Iterator[Event]:
        dice, submitted = self._dice, self.submission(number)
        workload, spec = submitted.workload, submitted.spec
        yield submitted
        is_live = number > self.workloads - self.pending - RUNNING
        if is_live and number > self.workloads - self.pending:
            return
        if not is_live and dice.random() < 0.05:
            yield WorkloadCancelled(workload)
            return
        region, job = dice.choice(REGIONS), spec.jobs[0]
        charge = {job.gpu_type: job.tasks * job.need.gpu_milli}
        yield WorkloadAwarded(workload, 1, region, 0, (), tenant=spec.tenant, level=3, charge=charge)
        yield WorkloadBound(workload, 1, region, self.sequence)
        if not is_live:
            cause, phase = EndCause.COMPLETED, Phase.COMPLETED
            if dice.random() < 0.1:
                cause, phase = EndCause.TASK_FAILED, Phase.FAILED
            step = dice.randrange(100_000)
            yield AttemptClosed(workload, 1, cause, phase, region, self.sequence, 1, step)

    def _spec(self, number: int) -> WorkloadSpec:
        dice = self._dice
        tasks, gpus = dice.choices(GPUS, GPU_WEIGHTS)[0]
        tenant = min(int(dice.paretovariate(0.7)), TENANTS) - 1
        name = f"{dice.choice(STEMS)}-{number}"
        program = Program(
            f"torchrun --nproc-per-node {gpus} train.py --config configs/{name}.yaml --lr {dice.random():.6f} --seed {number}",
            f"/home/user-{number % USERS}/projects/{name}",
            {"NCCL_DEBUG": "WARN", "WANDB_PROJECT": name, "OMP_NUM_THREADS": "8"},
            ("HF_TOKEN",),
            f"/checkpoints/tenant-{tenant}/{name}",
            has_slurm_env=False,
        )
        need = Amount(gpus * MILLI, gpus * 12_000, gpus * (128 << 30))
        return WorkloadSpec(
            name,
            (JobSpec("main", tasks, need, dice.choice(TYPES), program=program),),
            TenantName(f"tenant-{tenant}"),
            kind=Kind.TRAINING,
            retry=RetryLimits(task_failed=2),
            max_duration=Nanoseconds(dice.randrange(1, 48) * 3_600 * SECOND),
            data=(DatasetName(f"dataset-{dice.randrange(DATASETS)}"),),
            checkpoint_bytes=gpus * (10 << 30),
        )


async def prepare(directory: Path, workloads: int, pending: int) -> dict[str, float]:
    """Write the log, its snapshot, and the auditor's part of the image; returns what they weigh."""
    history = History(workloads, pending)
    row = history.fold()
    head = Head(GLOBAL_LOG, "bench", 1, row.sequence, b"bench remembered")
    _stand_on(directory, row, head)
    image = history.image.encode()
    ImageFiles(directory, GLOBAL_LOG).keep(Snapshot(head, image, VERSIONS.made_of), head)
    (directory / AUDITORS).write_bytes(history.image.encode(OF_THE_QUEUE))
    await _write_tail(directory, history)
    return {"snapshot_gb": len(image) / GB, "snapshot_bytes_a_workload": len(image) / workloads}


def _stand_on(directory: Path, row: Row, head: Head) -> None:
    """Make a log whose newest row is this one."""
    path = sqlite_file.path_of(directory, GLOBAL_LOG)
    with closing(sqlite_file.connect_to_write(GLOBAL_LOG, path, "bench")) as connection:
        connection.execute(sqlite_file.insert(1), (*row, head.hash))
        connection.execute("UPDATE meta SET term = 1")


async def _write_tail(directory: Path, history: History) -> None:
    """Append as many submissions as there may be facts between two snapshots, less one."""
    log = await SqliteStore(directory).open(GLOBAL_LOG, "bench")
    first = history.sequence + 1
    events = [history.submission(history.workloads + number) for number in range(1, SNAPSHOT_FACTS)]
    rows = [
        Row(first + at, history.at, "", "bench", event.about, encode(event))
        for at, event in enumerate(events)
    ]
    await log.append(rows, 1)
    await log.close()


# In a process of its own.


def open_here(role: str, url: str, directory: Path) -> None:
    """Open a unit, print the memory of this process, and live until the process is ended."""
    set_up_logs(os.environ, "error")
    if role == "auditor":
        _audit_here(directory)
    else:
        run_loop(_open(role, url, directory))


async def _open(role: str, url: str, directory: Path) -> None:
    connection = await NatsConnection.connect(url, FLEET, role, timeout=seconds(30))
    unit = Unit("reader", member=GLOBAL_LOG) if role == "reader" else Unit(role)
    plan = Plan(FLEET, tuple(RegionPlan(region, ()) for region in REGIONS))
    lives: list[OpenUnit] = []

    def opened(life: OpenUnit) -> None:
        settle_down()
        lives.append(life)

    ground = Ground(connection.endpoint, SqliteStore(directory))
    running = asyncio.get_running_loop().create_task(run_unit(plan, unit, ground, opened))
    while not lives or (lives[0].host is not None and not lives[0].host.is_open):
        await asyncio.sleep(0.01)
        if running.done():
            running.result()
    if role == "reader":
        # A reader loads the image at the first request, and keeps the pages that were sent.
        bus = connection.endpoint("asker")
        await bus.ask(FetchImage(GLOBAL_LOG, OF_THE_QUEUE), PATIENCE)
    _say_weight()
    await running


def _audit_here(directory: Path) -> None:
    """Build the auditor's state from the sections that a reader would send."""
    auditor = Auditor(REGIONS)
    image = decode_image(GLOBAL_LOG, (directory / AUDITORS).read_bytes(), OF_THE_QUEUE)
    settle_down()
    state = auditor.initial(Images(wall_now(), None, {GLOBAL_LOG: (image, 1)}))
    _say_weight()
    sys.stdin.read()
    del state


def _say_weight() -> None:
    told = {"cpu": time.process_time()}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("VmRSS", "VmHWM"):
            told[name] = int(rest.split()[0]) * 1024 / GB
    print(json.dumps(told), flush=True)


class Opened(Struct, frozen=True):
    """A process that opened the log."""

    seconds: float
    """From the start of the process until the log was open."""
    cpu_seconds: float
    resident_gb: float
    peak_gb: float


async def opened(role: str, url: str, directory: Path) -> Opened:
    """Start a process, wait until the log is open there, and end the process."""
    begun = time.perf_counter()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; from pathlib import Path; from bench.support.remembered import open_here; "
        "open_here(sys.argv[1], sys.argv[2], Path(sys.argv[3]))",
        role,
        url,
        str(directory),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        line = await child.stdout.readline()
        spent = time.perf_counter() - begun
        told = json.loads(line)
        return Opened(spent, told["cpu"], told["VmRSS"], told["VmHWM"])
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
