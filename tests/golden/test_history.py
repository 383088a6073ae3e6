"""The whole logs that each release left behind are still read, still fold to what they did, and a plane goes on from them."""

import json
from pathlib import Path

import pytest

from core.codec import decode_event
from core.events import (
    EVENTS,
    agents,
    control,
    copies,
    data,
    dispatch,
    functions,
    harvest,
    moves,
    pipelines,
    pools,
    prices,
    regions,
    sharing,
    starts,
    tenants,
)
from core.events.log import ClockAccepted
from core.events.queue import PrioritySet, RefusalsNoted, StandingChanged, WorkloadChanged, WorkloadsForgotten
from core.events.region import AttemptRanked, PreemptionSet, PromiseRevised
from core.images import empty_image
from core.nouns.ids import GLOBAL_LOG
from scenarios.scenario import HISTORIES, library, load_scenario
from scenarios.schema.history import HistoryError, keep_history, read_history
from tests.builders import EU_LOG
from tests.core.histories import QueueHistory, RegionHistory
from tests.golden.make_history import DIGESTS, SHAPES, SUFFIX, digests_of
from tests.golden.shapes import digest_in, shapes_of_this_build
from tests.scenarios.runs import run_quietly

KEPT = sorted(path.name for path in HISTORIES.iterdir())
NEVER_IN_A_HISTORY = {WorkloadsForgotten}
"""Written a day after a workload's end, and a history is less than an hour; `tests/golden/events/` has its samples."""
NEW = (
    WorkloadChanged,
    StandingChanged,
    PrioritySet,
    RefusalsNoted,
    ClockAccepted,
    AttemptRanked,
    PromiseRevised,
    PreemptionSet,
)
SINCE = {
    "0.1.0.logs": {
        *agents.EVENTS,
        *control.EVENTS,
        *pools.EVENTS,
        *prices.EVENTS,
        *tenants.EVENTS,
        *data.EVENTS,
        *copies.EVENTS,
        *regions.EVENTS,
        *moves.EVENTS,
        *starts.EVENTS,
        *sharing.EVENTS,
        *dispatch.EVENTS,
        *pipelines.EVENTS,
        *functions.EVENTS,
        *harvest.EVENTS,
        *NEW,
    }
}
"""By history, the events that were added after it. The next release keeps one that has them."""


def test_histories_are_kept_with_their_digests() -> None:
    """Every file has its line and its build's shapes, every line its file, and there is one at least."""
    assert KEPT
    assert sorted(json.loads(DIGESTS.read_text(encoding="utf-8"))) == KEPT
    assert sorted(json.loads(SHAPES.read_text(encoding="utf-8"))) == KEPT
    assert [] == [name for name in KEPT if not name.endswith(SUFFIX)]


@pytest.mark.parametrize("name", KEPT)
def test_history_folds_to_its_old_digests(name: str) -> None:
    """Every row decodes, the hashes chain as in the old build, and all that it knew of each log comes out to the byte. Newer sections
    and fields are beside that; they change no digest.
    """
    disks = read_history(HISTORIES / name)
    shapes = json.loads(SHAPES.read_text(encoding="utf-8"))[name]
    assert json.loads(DIGESTS.read_text(encoding="utf-8"))[name] == digests_of(disks, shapes)


def test_digest_in_shapes_of_this_build_is_the_whole_image() -> None:
    """What is compared leaves nothing out but what is newer."""
    shapes = shapes_of_this_build()
    for log, facts in ((GLOBAL_LOG, QueueHistory(1).draw(100)), (EU_LOG, RegionHistory(1).draw(100))):
        image = empty_image(log)
        for fact in facts:
            image.fold(fact)
        assert image.digest() == digest_in(shapes, log, image)
        fields = shapes["global" if log == GLOBAL_LOG else "region"]
        assert fields is not None
        section = next(iter(fields["fields"]))
        less = {**shapes, "global" if log == GLOBAL_LOG else "region": {"fields": {section: None}}}
        assert image.digest() != digest_in(less, log, image)


@pytest.mark.parametrize("name", KEPT)
def test_history_has_nearly_every_event(name: str) -> None:
    """All that could be written within an hour; a release that adds an event makes a history that has it."""
    written = {
        type(decode_event(row.event))
        for log, disk in read_history(HISTORIES / name).items()
        if (file := disk.file(log)) is not None
        for row in file.rows
    }
    assert set(EVENTS) - written <= NEVER_IN_A_HISTORY | SINCE.get(name, set())
    assert not written & SINCE.get(name, set()), "it has what is said to be newer"


@pytest.mark.parametrize("name", KEPT)
def test_history_that_has_changed_is_noticed(name: str, tmp_path: Path) -> None:
    """The hashes are worked out anew from the rows, and must come to what the build that wrote them had."""
    disks = read_history(HISTORIES / name)
    file = disks[GLOBAL_LOG].file(GLOBAL_LOG)
    assert file is not None
    row = file.rows[10]
    file.rows[10] = row._replace(event=row.event[:-1] + bytes([row.event[-1] ^ 1]))
    keep_history(tmp_path / name, disks)
    with pytest.raises(HistoryError, match="global has rotted, or hashes have changed"):
        read_history(tmp_path / name)


@pytest.mark.parametrize("name", KEPT)
def test_plane_goes_on_from_a_history(name: str) -> None:
    """A scenario of the library starts from it, and ends well: all that was under way has ended."""
    scenarios = [spec for spec in map(load_scenario, library()) if spec.history == name]
    assert scenarios
    for spec in scenarios:
        outcome = run_quietly(spec, 1)
        assert "" == outcome.first_problem()
        (load,) = spec.workload
        assert outcome.figures["submitted"] > load.workloads
        assert outcome.figures["submitted"] == sum(outcome.ended.values())
