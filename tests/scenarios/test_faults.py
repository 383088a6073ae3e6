"""Every fault strikes, is survived, repeats from its seed, undoes itself, and says so where a world cannot cause it."""

import pytest

from bus.port import Bus
from scenarios.accounting.witness import Witness
from scenarios.fault import Fault, Stage
from scenarios.scenario import ScenarioError, ScenarioSpec, parse_scenario, scenario_written
from scenarios.schema.outcome import Outcome
from scenarios.schema.parts import parts_in
from scenarios.users import Users
from scenarios.worlds.interface import CannotCause, World
from scenarios.worlds.simulated.world import SimulatedWorld
from tests.scenarios.misfortunes import Struck, struck
from tests.scenarios.runs import run_quietly

FAULTS = parts_in("faults", Fault)
SMALL = """
name: small
survives: One sort of misfortune, on a handful of nodes.
fleet: {regions: 2, nodes: 4, workers: 4, nodes_per_rack: 2, data: {datasets: {clicks: {home: r0}}}}
workload: {steady: {workloads: 12, hours: 0.1, minutes_median: 1, minutes_max: 4, gpus_max: 16}}
faults: [FAULT]
controllers: [consents, {refuses: {called: two}}]
calm: {minutes: 240}
"""
SMALLER = {"submission_storm": "workloads: 5"}
"""Of those that would take long."""
WRITING = "role: job_queue, after_seconds: [0, 200]"
"""Whoever waits for a batch finds one there and then."""
FIELDS = {
    **SMALLER,
    "controller_dead": "down_seconds: 1",
    "data_plan": "share: 1",
    "dataset_set": "dataset: clicks",
    "failed_sync": WRITING,
    "lost_tail": WRITING,
    "recall_storm": "for_seconds: 1",
    "recall_unheeded": "after_seconds: 10, for_seconds: 20",
    "torn_write": WRITING,
}
NEED_USERS_ALONE = (
    "agents_set",
    "cancel_storm",
    "controller_dead",
    "controller_lies",
    "dashboards",
    "data_plan",
    "dataset_set",
    "day_bytes",
    "drain",
    "hold_storm",
    "maintenance_announced",
    "move_everything",
    "move_storm",
    "pool_need_set",
    "quota_set",
    "recall_storm",
    "requeue_storm",
    "submission_storm",
    "work_on_nodes",
)
WAIT_FOR_USERS = ("recall_unheeded",)
"""Those that ask the world for nothing before users' calls are in the way of users' tasks."""


TENANTS = {
    "quota_set": "tenants: {one: {entitled: {H100: {gpus: 16}}}, two: {entitled: {H100: {gpus: 8}}}}\n",
}
"""Whom it strikes are tenants, and the load is theirs."""


POOL = """
fleet: {shared: {round_seconds: 20}, regions: {r0: {nodes: 4, gpu_type: H100}, s0: {nodes: 3, gpu_type: V100, gpus_per_node: 1, pool: shared}}}
workload: {shared: {workloads: 12, hours: 0.1, minutes_median: 2, minutes_max: 4}}
"""
NEEDS = "data: {datasets: {clicks: {home: r0}}}, planner: true, pools: {needs: {training: {H100: 16}, service: {H100: 8}}, survive_nothing: [training, service]}}"
HARVESTED = """
fleet: {regions: 1, nodes: 4, functions: true, harvest: {after_seconds: 1}}
workload: {functions: {workloads: 1, hours: 0.1, calls: 200}}
"""
IN_THE_WAY = """
fleet: {regions: 1, nodes: 4, functions: true, harvest: {after_seconds: 1}}
workload:
  - functions: {workloads: 1, hours: 0.1, calls: 1200, gpu_share: 1, run_seconds: 10, run_seconds_max: 60}
  - steady: {workloads: 12, hours: 0.1, minutes_median: 0.3, minutes_max: 1, gpus_max: 16}
"""
FLEETS = {"round_crash": POOL, "recall_storm": HARVESTED, "recall_unheeded": IN_THE_WAY}
"""Those that strike what the small scenario does not have."""


def scenario_of(fault: str, fields: str = "") -> ScenarioSpec:
    """The small scenario with this fault alone."""
    text = SMALL.replace("FAULT", f"{fault}: {{{fields}}}")
    if fault in FLEETS:
        text = "".join(
            line for line in text.splitlines(keepends=True) if not line.startswith(("fleet", "workload"))
        )
        text += FLEETS[fault]
    if fault == "pool_need_set":
        text = text.replace("data: {datasets: {clicks: {home: r0}}}}", NEEDS)
    if fault in TENANTS:
        text = text.replace("gpus_max: 16}", "gpus_max: 16, tenants: {one: 1, two: 1}}") + TENANTS[fault]
    return parse_scenario(text, "small.yaml")


def struck_thrice(name: str) -> ScenarioSpec:
    """A small scenario with three of the fault."""
    return scenario_of(name, ", ".join(field for field in ("times: 3", FIELDS.get(name)) if field))


def survived(name: str, spec: ScenarioSpec, seed: int) -> Outcome:
    """What came of it: nothing is wrong, and the fault was there."""
    outcome = run_quietly(spec, seed)
    assert "" == outcome.first_problem()
    assert outcome.is_good
    assert {name: 3} == outcome.strikes
    assert {} == outcome.skipped
    return outcome


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_survived(name: str) -> None:
    """N3: Nothing is wrong in the end."""
    spec = struck_thrice(name)
    assert spec == parse_scenario(scenario_written(spec), "written.yaml")
    survived(name, spec, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_repeats(name: str) -> None:
    """N3: From the same seed the run is the same to the byte, and every seed's is its own."""
    spec = struck_thrice(name)
    first, again, *others = (survived(name, spec, seed).digest for seed in (1, 1, 2, 3))
    assert first == again
    assert 3 == len({first, *others})


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in SMALLER])
def test_fault_that_is_cut_short_is_undone(name: str) -> None:
    """At whatever moment misfortune ends: every process lives, nothing is cut, disturbed, full, slow or broken."""

    async def body(place: Struck) -> None:
        await place.load()
        for moment in (0.0, 0.3, 7.0):
            fault = place.begin(FAULTS[name]())
            await place.sleep(moment)
            await place.cancel(fault)
            # What is to come back needs a while for it: a keeper that died of its log is tried ever more rarely.
            await place.sleep(30)
            assert [] == await place.world.dead()
        assert [] == place.stage.problems
        network, disks = place.world.network, place.world.store
        assert network.is_up
        assert not network.is_cut("queue", "store.r0")
        assert not any(network.is_cut(one.bus_name, one.bus_name) for one in place.world.all)
        assert network.faults is network._between("queue", "store.r0")
        for log in disks.logs():
            assert 0 == await place.world.verify(log)
            assert not disks.disk(log).is_full
            assert disks.disk(log).sync_fails is None
            assert 0.0 == disks.slowness(log)
        for one in place.workers():
            nodes = place.nodes(one.unit)
            assert (1.0, 0) == (nodes.factor, nodes.broken_exit_code)
            assert not nodes.is_frozen
        assert all(one.clock_step == 0 and one.clock_skew == 0.0 for one in place.world.all)

    struck(body)


class Bare(World):
    """A world that has a plane, another's, and can do it no harm."""

    def __init__(self, place: Struck) -> None:
        self.other = place.world
        self.plan, self.units = place.world.plan, place.world.units

    async def start(self) -> None:
        """The other's."""
        await self.other.start()

    async def stop(self) -> None:
        """The other's."""
        await self.other.stop()

    def now(self) -> float:
        """The same time."""
        return self.other.now()

    async def sleep(self, seconds: float) -> None:
        """In the same time."""
        await self.other.sleep(seconds)

    def user(self, name: str) -> Bus:
        """On the same bus."""
        return self.other.user(name)

    async def account(self, outcome: Outcome) -> None:
        """The other's."""
        await self.other.account(outcome)

    async def dead(self) -> list[str]:
        """Nobody."""
        return []

    async def replay_problems(self, witness: Witness) -> list[str]:
        """The other's."""
        return await self.other.replay_problems(witness)

    async def is_quiet(self) -> bool:
        """The other's."""
        return await self.other.is_quiet()


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in NEED_USERS_ALONE + WAIT_FOR_USERS])
def test_fault_that_a_world_cannot_cause_says_so(name: str) -> None:
    """Whatever it asks of the world first."""

    async def body(place: Struck) -> None:
        bare = Bare(place)
        users, like = Users(bare, place.users.bus, "user"), place.stage
        stage = Stage(bare, users, like.dice, 10.0, like.fleet, like.controllers)
        with pytest.raises((CannotCause, ExceptionGroup)) as raised:
            await FAULTS[name]().strike(stage)
        error = raised.value
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        assert str(error).startswith("this world cannot ")

    struck(body)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("pause: {role: pilot}", "faults[0].pause: there is no role `pilot`"),
        ("disk_full: {role: worker}", "faults[0].disk_full: there is no role `worker`"),
        ("black_hole: {role: job_queue}", "faults[0].black_hole: there is no role `job_queue`"),
        (
            "controller_dead: {called: nobody}",
            "faults[0].controller_dead.called: there is no controller `nobody`",
        ),
        ("node_crash: {region: mars}", "faults[0].node_crash: there is no region `mars`"),
        ("node_crash: {member: w9}", "faults[0].node_crash: there is no process `w9`"),
        ("region_cut: {region: mars}", "faults[0].region_cut.region: there is no region `mars`"),
        ("zone_loss: {region: mars}", "faults[0].zone_loss.region: there is no region `mars`"),
        (
            "message_delay: {ones: [store.mars]}",
            "faults[0].message_delay.ones[0]: there is no endpoint `store.mars`",
        ),
        (
            "message_loss: {others: [queue, pilot.*]}",
            "faults[0].message_loss.others[1]: there is no endpoint `pilot.*`",
        ),
        (
            "partition: {ones: [quue]}",
            "faults[0].partition.ones[0]: there is no endpoint `quue` (did you mean `queue`?)",
        ),
        ("partition: {others: [queue]}", "faults[0].partition.others: it needs `ones` too"),
        (
            "submission_storm: {gpus_max: 64}",
            "faults[0].submission_storm.gpus_max: a workload of 64 GPUs fits no region",
        ),
        ("message_loss: {share: -0.1}", "faults[0].message_loss.share: it must be at least 0"),
        ("message_repeat: {share: 1.1}", "faults[0].message_repeat.share: it must be at most 1"),
        ("pause: {for_seconds: -1}", "faults[0].pause.for_seconds: it must be at least 0"),
        (
            "pause: {for_seconds: [5, 1]}",
            "faults[0].pause.for_seconds: it is from 5 to 1: the smaller one comes first",
        ),
        ("slow_process: {turn_seconds: 0}", "faults[0].slow_process.turn_seconds: it must be more than 0"),
        ("poison_messages: {messages: 0}", "faults[0].poison_messages.messages: it must be at least 1"),
    ],
)
def test_fault_that_makes_no_sense_is_refused(fault: str, error: str) -> None:
    """With its place in the file, and what there is instead."""
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(SMALL.replace("FAULT", fault), "small.yaml")
    place, _, text = str(raised.value).partition(": ")
    assert place.startswith("small.yaml:6:")
    assert text.startswith(error)


@pytest.mark.parametrize(
    "fault", ["partition: {ones: [agent.r0.*], others: [queue]}", "message_loss: {ones: [client.*]}"]
)
def test_names_on_the_bus_may_end_with_a_star(fault: str) -> None:
    """And users are there, too."""
    assert 1 == len(parse_scenario(SMALL.replace("FAULT", fault), "small.yaml").faults)


class Careless(SimulatedWorld):
    """A plane that does not notice what it must notice."""

    async def start_second(self, unit: object) -> str:
        """It comes up."""
        return ""

    async def start_old_build(self, unit: object) -> str:
        """It comes up."""
        return ""

    async def flip_byte(self, log: object, place: float) -> int:
        """It is not found, for there is nothing to find."""
        return 1

    async def mend_byte(self, log: object, sequence: int) -> None:
        """Nothing was done."""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("second_keeper", "came up beside the first"),
        ("old_build", "on a log of a newer build came up"),
        ("flipped_byte", "rotted, and `verify` finds it broken nowhere"),
    ],
)
def test_fault_that_is_not_noticed_is_a_problem(name: str, problem: str) -> None:
    """These three look for themselves whether the plane refuses."""

    async def body(place: Struck) -> None:
        await FAULTS[name]().strike(place.stage)
        (found,) = place.stage.problems
        assert problem in found
        await place.sleep(30)

    struck(body, world=Careless)
