"""Lists of nodes and pods in the form of the Alibaba GPU trace of 2023 ("openb"), and the published results beside them.

Nodes are `sn,cpu_milli,memory_mib,gpu,model`, pods `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and, where they are known,
`gpu_spec` (models that will do, joined by `|`; empty: any), `creation_time` and `deletion_time` (seconds). A file may be
compressed by gzip. None of it is part of this repository.

source    Weng et al., "Beware of Fragmentation", USENIX ATC 2023; github.com/alibaba/clusterdata, cluster-trace-gpu-v2023
"""

import csv
import gzip
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from core.nouns.fleet import ANY_TYPE
from core.nouns.instant import seconds
from core.nouns.mix import TypicalShape
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Emulation, JobSpec

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "alibaba-openb-2023"
"""Where the trace is looked for, if nobody names files."""
NODES_FILE = "openb_node_list_gpu_node.csv"
PREFIX = "openb_pod_list_"
PUBLISHED_FILE = "published/alloc_by_arrival.csv.gz"
ARRIVED_PERMILLE_MAX = 1_300
"""Pods are offered until their GPUs would come to more than this of all, as published."""
_EMULATION = Emulation(seconds(3_600))
"""What a pod would do; nothing is run."""


class ListedNode(Struct, frozen=True):
    """One line of a list of nodes."""

    total: Amount
    model: str


class Pod(Struct, frozen=True):
    """One line of a list of pods."""

    name: str
    need: Amount
    models: tuple[str, ...] = ()
    """On which it may run; empty: on any."""
    created: int = 0
    deleted: int = 0
    """Seconds; 0 where the list does not tell."""


class BadList(ValueError):
    """A file is not in this form."""


def nodes_in(path: Path) -> tuple[ListedNode, ...]:
    """By name. Raises BadList."""
    found = sorted(
        _lines(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")), key=lambda line: line["sn"]
    )
    return tuple(
        ListedNode(
            Amount(int(line["gpu"]) * MILLI, int(line["cpu_milli"]), int(line["memory_mib"]) << 20),
            line["model"],
        )
        for line in found
    )


@lru_cache(maxsize=2)
def pods_in(path: Path) -> tuple[Pod, ...]:
    """By name. Raises BadList."""
    found = _lines(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"))
    return tuple(sorted(map(_pod, found), key=lambda pod: pod.name))


def _pod(line: dict[str, str]) -> Pod:
    gpus = int(line["num_gpu"])
    gpu_milli = int(line["gpu_milli"]) if gpus == 1 else gpus * MILLI
    need = Amount(gpu_milli, int(line["cpu_milli"]), int(line["memory_mib"]) << 20)
    models = tuple(sorted(filter(None, (line.get("gpu_spec") or "").split("|"))))
    return Pod(
        line["name"], need, models, int(line.get("creation_time") or 0), int(line.get("deletion_time") or 0)
    )


def _lines(path: Path, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ())[: len(columns)] != tuple(columns):
                raise BadList(f"{path}: its columns are not {', '.join(columns)}")
            yield from reader
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise BadList(f"{path}: it cannot be read ({error})") from error


def name_of(path: Path) -> str:
    """Of a list of pods: `default`, `cpu250` and so on."""
    return path.name.removesuffix(".gz").removesuffix(".csv").removeprefix(PREFIX)


def lists_in(folder: Path) -> list[Path]:
    """All lists of pods that are there."""
    return sorted(folder.glob(f"{PREFIX}*.csv*"))


def published_in(folder: Path) -> dict[tuple[str, str], list[float]]:
    """By list and policy (`bestfit`, `fgd`), percent allocated when 100 % have arrived, by seed; empty where it is not told."""
    found: dict[tuple[str, str], list[float]] = {}
    for (name, policy), curves in published_curves_in(folder).items():
        found[name, policy] = [curve[100] for curve in curves]
    return found


@lru_cache(maxsize=1)
def published_curves_in(folder: Path) -> dict[tuple[str, str], list[dict[int, float]]]:
    """The same by percent arrived."""
    path = folder / PUBLISHED_FILE
    found: dict[tuple[str, str], list[dict[int, float]]] = {}
    if path.is_file():
        for line in _lines(path, ("workload", "sc_policy")):
            policy = line["sc_policy"].partition("-")[2].lower()
            curve = {int(name): float(value) for name, value in line.items() if name.isdigit() and value}
            found.setdefault((line["workload"].removeprefix(PREFIX), policy), []).append(curve)
    return found


def job_of(pod: Pod, tasks: int = 1) -> JobSpec:
    """A job of like pods."""
    gpu_type, *others = pod.models or (ANY_TYPE,)
    return JobSpec("main", tasks, pod.need, gpu_type, _EMULATION, or_types=tuple(others))


def offered(pods: Sequence[Pod], gpu_milli: int, seed: int) -> list[Pod]:
    """In the order in which they arrive: all of them, shuffled, and then drawn with replacement.

    gpu_milli   of all nodes
    """
    dice = random.Random(seed)
    found = sorted(pods, key=lambda pod: pod.name)
    dice.shuffle(found)
    left = gpu_milli * ARRIVED_PERMILLE_MAX // 1000 - sum(pod.need.gpu_milli for pod in found)
    while (left := left - (another := dice.choice(pods)).need.gpu_milli) >= 0:
        found.append(another)
    return found


def shape_of(pod: Pod) -> TypicalShape:
    """What tells its sort apart: all but its memory."""
    gpus, part = divmod(pod.need.gpu_milli, MILLI)
    return TypicalShape(gpus, part, pod.need.cpu_milli, 0, pod.models)


class Counted:
    """Pods counted by shape: what a mix is made of."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self.counts: dict[TypicalShape, tuple[int, int]] = {}
        """How many, and the bytes of all of them together."""
        self.pods = 0
        for pod in pods:
            self.count(pod)

    def count(self, pod: Pod) -> None:
        """One more."""
        shape = shape_of(pod)
        pods, memory = self.counts.get(shape, (0, 0))
        self.counts[shape] = pods + 1, memory + pod.need.memory_bytes
        self.pods += 1
