"""What Slurm's options become in a job file.

Slurm gives resources to nodes and starts tasks on them; here each task asks for its own share. So what is asked for by the node
is divided among the tasks that Slurm would start there, and what does not divide is told, never rounded.
"""

import re
from collections.abc import Mapping

from core.nouns.fleet import ANY_TYPE
from core.nouns.instant import SECOND
from mizzen.jobs.slurm_options import Option
from mizzen.jobs.values import Unreadable, slurm_bytes_of, slurm_span_of, whole_of
from runtime.yaml_tree import Place, Problem, Text, Tree, shown

SIGNAL_SECONDS = 60
"""How long before the end Slurm sends a signal, unless it is told."""

_SIGNAL = re.compile(r"(?:B:)?(?:SIG)?(?:USR1|10)(?:@(?P<seconds>[0-9]{1,5}))?")
_GRES = re.compile(r"gpu(?::(?P<type>[A-Za-z][A-Za-z0-9._-]*))?(?::(?P<count>[0-9]{1,6}))?(?:\(.*\))?")
_GPUS = re.compile(r"(?:(?P<type>[A-Za-z0-9._-]+):)?(?P<count>[0-9]{1,6})")
_GPU_FORMS = {
    "gres": (_GRES, "gpu:H100:8"),
    "gpus-per-node": (_GPUS, "H100:8"),
    "gpus": (_GPUS, "H100:8"),
    "gpus-per-task": (_GPUS, "H100:8"),
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = {"account": "tenant", "chdir": "directory", "cpus-per-task": "resources.cpus", "job-name": "name"}

Found = list[tuple[str, Tree]]
"""Fields by path."""


class SlurmFields:
    """The fields that some options ask for."""

    def __init__(
        self, options: Mapping[str, Option], environment: Mapping[str, str], top: Place, *, has_gpus: bool
    ) -> None:
        """A script that names its GPUs in a line of ours `has_gpus`, and Slurm's are not looked at."""
        self.options = options
        self.environment = environment
        self.top = top
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.found: Found = []
        self.tasks, self.tasks_per_node = self._tasks()
        self._plain()
        self._time()
        self._export()
        gpus = None if has_gpus else self._gpus()
        if not has_gpus and gpus is None:
            self._cpu_slots()
        self._memory(gpus)

    # Tasks.

    def _tasks(self) -> tuple[int, int | None]:
        """How many, and how many of them on one node; None when that is not said."""
        nodes, tasks, per_node = (self._count(name) for name in ("nodes", "ntasks", "ntasks-per-node"))
        said = self.options.get("ntasks") or self.options.get("ntasks-per-node") or self.options.get("nodes")
        wanted = tasks or (nodes or 1) * (per_node or 1)
        if said is not None:
            self._find("tasks", said, str(wanted))
        if tasks is None:
            return wanted, per_node or 1
        if nodes is not None and per_node is not None and tasks != nodes * per_node:
            self._problem("ntasks", f"{nodes} nodes with {per_node} tasks each have not {tasks}")
        elif nodes is not None and per_node is None and tasks % nodes:
            self._problem("ntasks", f"{tasks} tasks do not divide among {nodes} nodes")
        if per_node is not None or nodes is not None:
            return tasks, per_node or max(1, tasks // (nodes or 1))
        return tasks, 1 if tasks == 1 else None

    # GPUs.

    def _gpus(self) -> int | None:
        """Those of one task, if they are asked for; what cannot be given is told, and has a stand-in."""
        found = [
            asked for name, form in _GPU_FORMS.items() if (asked := self._gpus_by(name, *form)) is not None
        ]
        if not found:
            return None
        option, _, count = found[0]
        for other, _, its_count in found[1:]:
            if its_count != count and 0 not in (its_count, count):
                self._problem(other.name, f"it is {its_count} GPUs a task, and --{option.name} is {count}")
        kind = next((kind for _, kind, _ in found if kind), "")
        self._find("resources.gpus", option, f"{kind or ANY_TYPE}:{count or 1}")
        if not kind and count:
            self.notes.append(f"{option.place}: --{option.name} names no type, so GPUs of any will do")
        return count

    def _gpus_by(self, name: str, form: re.Pattern[str], example: str) -> tuple[Option, str, int] | None:
        """The type and the count that a task has by one option; a count of none is one that was told."""
        option = self.options.get(name)
        if option is None:
            return None
        match = form.fullmatch(option.value)
        if match is None:
            self._problem(name, f"{shown(option.value)} is not of the form {example}")
            return option, "", 0
        return option, match["type"] or "", self._share(option, int(match["count"] or 1))

    def _share(self, option: Option, count: int) -> int:
        """What one task has of so many, asked for by the task, by the node or in all; none if that was told."""
        if option.name == "gpus-per-task":
            return count
        among = self.tasks if option.name == "gpus" else self.tasks_per_node
        if among is None:
            self._problem(
                option.name, "how many tasks share a node is not said; say --nodes or --gpus-per-task"
            )
            return 0
        if count % among:
            self._problem(option.name, f"{count} GPUs do not divide among {among} tasks")
            return 0
        return count // among

    def _cpu_slots(self) -> None:
        """Without a word of GPUs it is work for CPUs: as many slots of type `cpu` as it has CPUs."""
        option = self.options.get("cpus-per-task")
        count = self._count("cpus-per-task") or 1
        self.found = [(path, tree) for path, tree in self.found if path != "resources.cpus"]
        self._find("resources.gpus", option, f"cpu:{count}")
        self.notes.append(f"{self.top.source}: it asks for no GPU, so each task gets cpu:{count}")

    # Everything else.

    def _plain(self) -> None:
        for name, path in _PLAIN.items():
            option = self.options.get(name)
            if option is not None:
                self._find(path, option, option.value)

    def _memory(self, gpus: int | None) -> None:
        """Of one task, by whichever of three options; Slurm knows them as alternatives."""
        shares = {"mem": None, "mem-per-cpu": self._count("cpus-per-task") or 1, "mem-per-gpu": gpus}
        for name, times in shares.items():
            option = self.options.get(name)
            if option is None:
                continue
            try:
                size = slurm_bytes_of(option.value)
            except Unreadable as error:
                self._problem(name, str(error))
                continue
            if size == 0:
                self._problem(name, "all that a node has cannot be asked for; say how much")
            elif name == "mem" and self.tasks_per_node is None:
                self._problem(name, "how many tasks share a node is not said; say --nodes or --mem-per-cpu")
            elif name == "mem-per-gpu" and times is None:
                self._problem(name, "how many GPUs a task has is not said")
            else:
                share = size // (self.tasks_per_node or 1) if times is None else size * times
                self._find("resources.memory", option, str(share))

    def _time(self) -> None:
        option = self.options.get("time")
        if option is not None:
            try:
                self._find("max_duration", option, f"{slurm_span_of(option.value) // SECOND}s")
            except Unreadable as error:
                self._problem("time", str(error))
        option = self.options.get("signal")
        if option is not None:
            match = _SIGNAL.fullmatch(option.value)
            if match is None:
                self._problem(
                    "signal", f"{shown(option.value)}: only USR1 can be sent early, as in B:USR1@300"
                )
            else:
                self._find("early_warning", option, f"{match['seconds'] or SIGNAL_SECONDS}s")

    def _export(self) -> None:
        """Variables by name; the whole environment of a shell is not part of a workload."""
        option = self.options.get("export")
        for word in option.value.split(",") if option is not None else ():
            assert option is not None
            name, sign, value = word.partition("=")
            if word == "ALL":
                self.notes.append(
                    f"{option.place}: --export=ALL: of your shell's variables only those that are named are sent"
                )
            elif word in {"NONE", "NIL"}:
                continue
            elif not _VARIABLE.fullmatch(name):
                self._problem("export", f"{shown(name)} cannot be the name of a variable")
            elif sign or name in self.environment:
                self._find(f"env.{name}", option, value if sign else self.environment[name])
            else:
                self._problem("export", f"{name} is not set in this shell; say {name}=VALUE")

    def _count(self, name: str) -> int | None:
        """A number that an option gives; `2-2` is 2."""
        option = self.options.get(name)
        if option is None:
            return None
        try:
            return _count_of(option.value)
        except Unreadable as error:
            self._problem(name, str(error))
            return None

    def _find(self, path: str, option: Option | None, text: str) -> None:
        self.found.append((path, Text(self.top if option is None else option.place, text)))

    def _problem(self, name: str, text: str) -> None:
        problem = Problem(self.options[name].place, f"--{name}", text)
        if problem not in self.problems:
            self.problems.append(problem)


def _count_of(text: str) -> int:
    """A count of one at least. Raises Unreadable."""
    least, sign, most = text.partition("-")
    if least and sign and least != most:
        raise Unreadable(f"{shown(text)}: a range is not supported yet; say one number")
    count = whole_of(least if least and sign else text)
    if count < 1:
        raise Unreadable(f"{count} is less than one")
    return count
