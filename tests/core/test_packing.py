"""Specs as short texts: nothing is lost, and defaults are left out."""

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from core.images.packing import packed, unpacked
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import Nanoseconds
from core.nouns.operation import ControlSpec
from core.nouns.workload import Extent, Kind, Program, RetryLimits, Topology, WorkloadSpec
from tests.builders import a_job, a_spec, of_types

SPECS = (
    a_spec(),
    a_spec(
        replace(of_types(a_job(2, 8), "H100", "A100"), topology=Topology(pack=Extent.RACK, zones=("a", "b"))),
        a_job(1, 0, name="reader"),
        kind=Kind.SERVICE,
        priority=0,
        regions=(RegionName("eu"),),
    ),
    WorkloadSpec(
        "größe",
        (
            replace(
                a_job(),
                emulation=None,
                program=Program('echo "ü\n"', "/d", {"A": "", "B": "\\"}, ("TOKEN",), "/c", Nanoseconds(1)),
            ),
        ),
        retry=RetryLimits(-1, 0),
        control=ControlSpec("c", 3, is_strict=True),
        data=(DatasetName("d"),),
        checkpoint_bytes=1 << 50,
        move_after=Nanoseconds(2**62),
    ),
)


@pytest.mark.parametrize("spec", SPECS)
def test_spec_is_what_was_packed(spec: WorkloadSpec) -> None:
    """To the last field; and equal specs give equal texts."""
    again = unpacked(packed(spec), WorkloadSpec)
    assert spec == again
    assert packed(spec) == packed(again)


class Part(Struct, frozen=True):
    """A part."""

    one: int = 1
    table: dict[str, int] = {}


class Whole(Struct, frozen=True):
    """A struct of parts."""

    name: str
    part: Part = Part()
    parts: tuple[Part, ...] = ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Whole("a"), '{"name":"a"}'),
        (Whole("a", Part(), ()), '{"name":"a"}'),
        (Whole("a", Part(2), (Part(), Part(1, {"x": 3}))), '{"name":"a","part":{"one":2},"parts":[{},{"table":{"x":3}}]}'),
    ],
)  # fmt: skip
def test_defaults_are_left_out(value: Any, text: str) -> None:
    """However they came to be there."""
    assert text == packed(value)
    assert value == unpacked(text, Whole)
