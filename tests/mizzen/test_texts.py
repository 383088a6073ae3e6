"""How figures, times, places and tables look."""

import pytest

from core.nouns.instant import MILLISECOND, SECOND
from core.nouns.placement import runs_of
from core.nouns.quantities import Amount
from mizzen.answers import CommandError
from mizzen.views.reading import workload_of
from mizzen.views.texts import (
    amount_text,
    columns_text,
    gpus_text,
    instant_text,
    like_text,
    nodes_text,
    time_text,
)
from tests.builders import amount


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
