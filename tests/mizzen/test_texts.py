"""How figures, times, places and tables look."""

import pytest
from msgspec.structs import replace

from core.nouns.instant import MILLISECOND, SECOND, seconds
from core.nouns.operation import ControlSpec
from core.nouns.placement import runs_of
from core.nouns.quantities import Amount
from core.nouns.workload import EndCause, Kind
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.text import (
    amount_text,
    blame_text,
    cause_text,
    columns_text,
    control_text,
    gpus_text,
    instant_text,
    like_text,
    nodes_text,
    time_text,
)
from mizzen.views.plane_reads import workload_of
from tests.builders import a_spec, amount


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0:00"), (0, "0:00"), (59.9, "0:59"), (60, "1:00"), (3_599, "59:59"), (3_723, "1:02:03"), (86_400, "1-00:00:00"),
     (2 * 86_400 + 3_723, "2-01:02:03")],
)  # fmt: skip
def test_span(seconds: float, text: str) -> None:
    """As squeue writes it; what clocks that differ make of it is never less than nothing."""
    assert text == time_text(round(seconds * SECOND))


def test_instant() -> None:
    """In UTC, to the millisecond, rounded down."""
    assert "2026-01-01T00:00:01.234Z" == instant_text(1_767_225_601 * SECOND + 234 * MILLISECOND + 999_999)


def test_amounts() -> None:
    """What there is of it; or of those resources that something else needs, none of them too."""
    assert "1.5 GPUs, 2 CPUs, 64 GiB" == amount_text(amount(1.5, 2, 64))
    assert "nothing" == amount_text(Amount())
    assert ("0.5", "16") == (gpus_text(500), gpus_text(16_000))
    assert "0 GPUs, 3 GiB" == like_text(amount(0, 7, 3), amount(1, 0, 1))


def test_blame() -> None:
    """Whose doing an end was, for whoever owns the work; what is no cause of an end is nobody's."""
    assert {
        "completed": "", "task_failed": "yours", "timeout": "yours", "cancelled": "yours", "changed": "yours",
        "preempted": "planned", "requeued": "planned", "drained": "planned", "maintenance": "planned", "moved": "planned",
        "round_over": "planned",
        "start_failed": "unplanned", "node_lost": "unplanned", "abandoned": "unplanned", "node_failed": "unplanned",
    } == {cause: blame_text(cause) for cause in EndCause}  # fmt: skip
    assert ("", "") == (blame_text(""), blame_text("conflicts_exhausted"))
    assert {"moved": "yours", "drained": "planned"} == {
        cause: blame_text(cause, "user:ada") for cause in (EndCause.MOVED, EndCause.DRAINED)
    }
    assert ("planned", "planned") == (blame_text("moved", "rebalancer"), blame_text("moved", ""))
    assert "moved (yours: ada@desk asked for it)" == cause_text("moved", "user:ada@desk")
    assert "moved (planned: rebalancer asked for it)" == cause_text("moved", "rebalancer")
    assert ("moved (planned)", "drained (planned)") == (
        cause_text("moved"),
        cause_text("drained", "user:ada"),
    )
    assert ["drained (planned)", "completed"] == [cause_text(EndCause.DRAINED), cause_text("completed")]


@pytest.mark.parametrize(
    ("kind", "control", "text"),
    [
        (Kind.TRAINING, ControlSpec("trainer"), "controller trainer decides"),
        (Kind.SERVICE, ControlSpec(), "no controller, at most a tenth of a job's tasks down at once"),
        (
            Kind.SERVICE,
            ControlSpec("replicas", 2, is_strict=True, isolation=seconds(45)),
            (
                "controller replicas decides, at most 2 of a job's tasks down at once, "
                "stops by itself after 0:45 without contact"
            ),
        ),
    ],
)
def test_control(kind: Kind, control: ControlSpec, text: str) -> None:
    """Who decides, how many at once, and whether it may outlive its region's sight."""
    assert text == control_text(replace(a_spec(kind=kind), control=control))


def test_nodes() -> None:
    """As Slurm writes a list of hosts."""
    texts = [nodes_text("eu", runs_of(nodes)) for nodes in ([], [7], [3, 2, 1], [9, 0, 1, 1, 5])]
    assert ["eu", "eu-7", "eu-[1-3]", "eu-[0-1,5,9]"] == texts


def test_table() -> None:
    """Columns as wide as they must be, figures to the right, lines cut where they are too long, nothing behind the last."""
    rows = [("a", 1, ""), ("long", 1_000, "and more")]
    assert ["NAME  COUNT  REST", "a         1", "long   1000  and more"] == columns_text(
        ("NAME", "COUNT", "REST"), rows, None, ("COUNT",)
    )
    assert ["NAME  COUN…", "a         1", "long   100…"] == columns_text(
        ("NAME", "COUNT", "REST"), rows, 11, ("COUNT",)
    )


def test_ids() -> None:
    """With or without their letter; anything else is none."""
    assert ["w-7", "w-7"] == [workload_of("w-7"), workload_of("7")]
    for text in ("", "w-", "w-x", "w7", "w-7.1", "٣"):
        with pytest.raises(CommandError, match="is no workload"):
            workload_of(text)
