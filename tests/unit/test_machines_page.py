"""``docs/machines.md`` has the figures of the machine files, and which features have a time."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest
from places import DOCS

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.machine.model import OpTiming

pytestmark = pytest.mark.fast

TEXT = (DOCS / "machines.md").read_text(encoding="utf-8")
HEAD, *FEATURES = re.findall(r"^\| .*\|$", TEXT.partition("## Which features")[2], re.MULTILINE)
CLASSES = {
    "`shfl`": OpClass.SHUFFLE,
    "`vote`, `match`, `activemask`": OpClass.VOTE,
    "`mma`, `wmma`": OpClass.MMA,
    "`ldmatrix`, `stmatrix`": OpClass.MATRIX_MOVE,
    "`cp.async`": OpClass.ASYNC_COPY,
    "`wgmma`": OpClass.MMA_ASYNC,
    "mbarriers, `cp.async.bulk`": OpClass.ASYNC_BULK,
    "atomics": OpClass.ATOMIC_GLOBAL,
    "fences": OpClass.FENCE,
    "f64 add, multiply": OpClass.FP64_FMA,
    "textures, surfaces, clusters, `tcgen05`, `multimem`": OpClass.TEXTURE,
}
"""The features whose cells are "yes" or "-", with a class that is timed alike."""


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize("name", machine_names())
def test_figures_of_a_machine(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}`.*$", TEXT, re.MULTILINE)
    machine = load_machine(name)
    assert machine.occupancy is not None
    figures = (machine.occupancy.sms.value, machine.clock_mhz, machine.memory_latency_cycles)
    assert cells(row)[2:5] == [f"{figure:,}" for figure in figures]


@pytest.mark.parametrize("name", machine_names())
def test_features_of_a_machine(name: str) -> None:
    patterns = [re.findall(r"`([^`]+)`", cell) for cell in cells(HEAD)]
    (column,) = (
        place
        for place, names in enumerate(patterns)
        if any(fnmatch(name, pattern) for pattern in names)
    )
    machine = load_machine(name)
    shown = {cells(row)[0]: cells(row)[column] for row in FEATURES}
    assert CLASSES.keys() <= shown.keys()
    for feature, op_class in CLASSES.items():
        is_timed = isinstance(machine.timings[op_class], OpTiming)
        assert (shown[feature] == "yes") is is_timed, feature
    assert (shown["launches"] == "yes") is (machine.dispatch is not None)
