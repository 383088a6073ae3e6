"""The permissions of a plane's units: all that they need, and nothing that another role says."""

import ast
from pathlib import Path

import pytest

from bus.catalogue import ROUTES, pattern_of, subject_of
from bus.nats import NatsConnection
from bus.port import Address
from bus.server import NatsServer
from bus.server_users import ServerUser, put_user
from bus.simulated_endpoint import SimulatedBus
from core.codec import Parcel
from core.dispatch.context import Context
from core.messages.auditor import AcknowledgeViolations, ShowAudit
from core.messages.base import Answer, Message, Refused
from core.messages.logs import HeadTold
from core.messages.queue import CancelWorkload, ListWorkloads
from core.messages.units import ShowUnits, StatusWanted, UnitStatus
from core.messages.workers import BeatHeard, WorkerBeat
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkerName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.reasons import Reason
from mizzen.connect.unit_permissions import (
    FOLLOWERS_SAY,
    OPERATOR,
    OPERATORS_SAY,
    SAYS,
    permissions_of,
    permissions_of_operator,
    user_of,
)
from runtime.fleet_file import plan_of_this_machine
from runtime.wiring import ROLES, Unit, bus_name_of, units_of
from scenarios.scenario import load_scenario
from tests.bus.worlds import PATIENCE_SECONDS
from tests.scenarios.runs import TINY, run_quietly
from tests.sources import tree_of

HOUSE = Path(__file__).resolve().parents[2]
HERE = RegionName("here")
NO_REQUESTS = ("mizzen/control/", "mizzen/connect/unit_permissions.py")
"""Controllers answer, and are tested with a region in memory; the other file is the list that is compared."""


def named_in(paths: list[Path], *, as_argument: bool = False) -> set[type[Message]]:
    """Return the messages with a subject that some files make, or also hand on as types."""
    kinds = {kind.__name__: kind for kind in ROUTES}
    calls = [node for path in paths for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    named = [call.func for call in calls] + [one for call in calls for one in call.args if as_argument]
    names = {
        ast.unparse(one).rpartition(".")[2] for one in named if isinstance(one, ast.Name | ast.Attribute)
    }
    return {kinds[name] for name in names & kinds.keys()}


def lets(patterns: tuple[str, ...], subject: str) -> bool:
    """Return whether one of some patterns of the server's is for a subject, or for a narrower pattern."""
    return any(_is_for(pattern.split("."), subject.split(".")) for pattern in patterns)


def _is_for(pattern: list[str], subject: list[str]) -> bool:
    for place, token in enumerate(pattern):
        if token == ">":
            return len(subject) > place
        if place >= len(subject) or token not in ("*", subject[place]):
            return False
    return len(pattern) == len(subject)


@pytest.mark.parametrize("role", sorted(set(ROLES) - {"reader"}))
def test_role_may_say_what_its_component_makes(role: str) -> None:
    """All of that, and nothing else: a new message belongs into the list of its role, and an old one out of it."""
    place = HOUSE / "components" / role
    made = named_in(sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")])
    assert made == set(SAYS[role])


def test_operators_may_say_what_commands_make() -> None:
    """All of that, and the words with the auditor and with all units, whose statuses they hear and never say."""
    paths = [
        path
        for path in sorted((HOUSE / "mizzen").rglob("*.py"))
        if not path.relative_to(HOUSE).as_posix().startswith(NO_REQUESTS)
    ]
    paths += sorted((HOUSE / "core" / "calls").glob("*.py"))
    kinds = {kind for kind in named_in(paths, as_argument=True) if not ROUTES[kind].signed} - {UnitStatus}
    words = {ShowAudit, AcknowledgeViolations, ShowUnits, StatusWanted}
    assert kinds | words == set(OPERATORS_SAY)


@pytest.mark.parametrize("name", ["tiny", "drain_with_consent"])
def test_simulated_plane_keeps_to_its_permissions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No unit says, hears or answers anything that its user of a server could not."""
    said: set[tuple[str, str]] = set()
    heard: set[tuple[str, str]] = set()
    answering: set[str] = set()
    say, listen = SimulatedBus._say, SimulatedBus.listen

    def saying(bus: SimulatedBus, message: Message, reply_to: str, *rest: Context) -> tuple[str, bool]:
        if not isinstance(message, Answer):
            said.add((bus.name, subject_of(bus._network.fleet, message, bus.tenant)))
        elif reply_to:
            answering.add(bus.name)
        return say(bus, message, reply_to, *rest)

    async def listening(bus: SimulatedBus, address: Address, *rest: object) -> object:
        heard.add((bus.name, pattern_of(bus._network.fleet, address)))
        return await listen(bus, address, *rest)  # type: ignore[arg-type]  # handed on as they come

    monkeypatch.setattr(SimulatedBus, "_say", saying)
    monkeypatch.setattr(SimulatedBus, "listen", listening)
    spec = TINY if name == "tiny" else load_scenario(name)
    assert not run_quietly(spec, 1).problems
    may = {bus_name_of(unit): permissions_of(spec.plan, unit) for unit in units_of(spec.plan)}
    silent = {who for who in may if not who.startswith("reader.")} - {who for who, _ in said}
    assert set() == silent, "each unit but a reader asks for an image at least"
    assert [] == [
        (who, one) for who, one in sorted(said) if who in may and not lets(may[who].publish.allow, one)
    ]
    assert [] == [
        (who, one) for who, one in sorted(heard) if who in may and not lets(may[who].subscribe.allow, one)
    ]
    assert [] == [who for who in sorted(answering) if who in may and not may[who].allow_responses]


def test_roles_do_not_share_what_they_say() -> None:
    """No follower may tell facts or ask for a user's work; no role but the broker's commands workers."""
    plan = plan_of_this_machine()
    for unit in units_of(plan):
        says = permissions_of(plan, unit).publish.allow
        is_keeper = unit.role in ("job_queue", "placement_store")
        assert is_keeper == any(".facts_told" in subject for subject in says), unit
        assert not any(subject.endswith(".submit_workload") for subject in says), unit
        assert (unit.role == "region_broker") == any(subject.endswith(".start_tasks") for subject in says), (
            unit
        )
        assert not lets(says, f"_INBOX.{OPERATOR}.1.2"), unit
    assert not set(OPERATORS_SAY) & {kind for kinds in SAYS.values() for kind in kinds} - {
        *FOLLOWERS_SAY, *SAYS["task_control"],
    }  # fmt: skip


def test_units_of_one_region_reach_no_other() -> None:
    """Whatever a unit of a region says about a region is about its own."""
    plan = TINY.plan
    assert len(plan.regions) > 1
    for unit in units_of(plan):
        others = [region for region in plan.region_names() if region != unit.region]
        says = permissions_of(plan, unit).publish.allow
        if unit.region:
            assert [] == [one for one in says for other in others if f".{other}." in one], unit


@pytest.mark.processes
async def test_server_holds_units_to_their_permissions(tmp_path: Path) -> None:
    """A worker that speaks for the queue's users, for a keeper or for the broker is not heard; its beats are, and it may be answered."""
    plan = plan_of_this_machine()
    server = NatsServer({}, tmp_path)
    worker, broker = Unit("worker", HERE, "w0"), Unit("region_broker", HERE)
    queue, auditor = Unit("job_queue"), Unit("auditor")
    lines: dict[str, NatsConnection] = {}
    try:
        for unit in (worker, broker, queue, auditor):
            put_user(tmp_path, ServerUser(user_of(unit), "secret", permissions_of(plan, unit)))
        put_user(tmp_path, ServerUser(OPERATOR, "secret", permissions_of_operator(plan)))
        access = await server.start()
        for name in (*map(user_of, (worker, broker, queue, auditor)), OPERATOR):
            lines[name] = await NatsConnection.connect(
                f"nats://{name}:secret@{access.address}", plan.fleet, name
            )
        heard: dict[str, list[Message]] = {"queue": [], "log": [], "broker": [], "worker": []}

        async def hear(line: NatsConnection, address: Address) -> None:
            await line.endpoint(address.noun).listen(
                address, lambda parcel, _: heard[address.noun].append(parcel.message)
            )

        await hear(lines[user_of(broker)], Address("broker", (HERE,)))
        await hear(lines[user_of(worker)], Address("worker", (HERE, "w0")))
        await hear(lines[user_of(auditor)], Address("log", (GLOBAL_LOG,)))
        answering = lines[user_of(queue)].endpoint("queue")

        def refuse(parcel: Parcel, reply_to: str) -> None:
            heard["queue"].append(parcel.message)
            answering.say(Refused(Reason.INVALID, "no"), reply_to)

        await answering.listen(Address("queue"), refuse)
        bad, good = lines[user_of(worker)].endpoint("queue"), lines[user_of(broker)].endpoint("broker")
        w0 = WorkerName("w0")
        bad.say(CancelWorkload(WorkloadId("w-1")))
        bad.say(HeadTold(GLOBAL_LOG, "log", 9, 9, b""))
        bad.say(BeatHeard(HERE, w0, 1, (1, 1), 1))
        bad.say(WorkerBeat(HERE, w0, (), (1, 1), 1))
        good.say(BeatHeard(HERE, w0, 1, (1, 1), 1))
        answer = await lines[OPERATOR].endpoint("user").ask(ListWorkloads(), seconds(PATIENCE_SECONDS))
        assert isinstance(answer, Refused)
        for line in (*lines.values(), *lines.values()):  # through the server, and back out of it
            assert await line.echo(seconds(PATIENCE_SECONDS))
        assert {"queue": ["ListWorkloads"], "log": [], "broker": ["WorkerBeat"], "worker": ["BeatHeard"]} == {
            noun: [type(message).__name__ for message in messages] for noun, messages in heard.items()
        }
    finally:
        for line in lines.values():
            await line.close()
        await server.stop()
