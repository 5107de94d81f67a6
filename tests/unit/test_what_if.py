"""Bounds on machines that differ in one figure, against machine files that say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from answers import only_answer
from places import SAMPLES
from programs import run_program

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.commands.what_if.study import bound_variants
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import OpTiming
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

BASE = "orin-ecrts2025-16sm"
SGEMM = Request(
    str(SAMPLES / "sgemm_naive.ptx"),
    block="32x32",
    grid="8x8",
    parameters=("M=256", "N=256", "K=256"),
    machine=BASE,
)
FILE = """schema = 1
extends = "orin-ecrts2025"
name = "changed"
description = "one figure is another one"
[ops.{op}]
unit = "{unit}"
initiation_cycles = {initiation}
latency_cycles = {latency}
evidence = "assumed"
source = "machine"
"""


@pytest.mark.parametrize(
    ("op", "figure", "number"),
    [("fp32_fma", "latency", 9), ("fp32_fma", "initiation", 3), ("load_shared", "latency", 77)],
)
def test_a_change_is_that_of_a_machine_file(
    op: str, figure: str, number: int, tmp_path: Path
) -> None:
    timing = load_machine("orin-ecrts2025").timings[OpClass(op)]
    assert isinstance(timing, OpTiming)
    figures = {"initiation": timing.initiation_cycles, "latency": timing.latency_cycles}
    file = tmp_path / "changed.toml"
    file.write_text(FILE.format(op=op, unit=timing.unit, **figures | {figure: number}))
    plain = replace(SGEMM, machine="orin-ecrts2025", grid=None)
    expected = only_answer(replace(plain, machine=str(file))).worst.bound.claim.cycles
    (row,) = bound_variants(plain, [f"{op}.{figure}={number}"]).answered
    assert row.cycles == only_answer(plain).worst.bound.claim.cycles != expected
    assert [one.cycles for one in row.variants] == [expected]


def test_a_memory_latency_is_that_of_the_option() -> None:
    (row,) = bound_variants(SGEMM, ["memory.latency=50..350:150"]).answered
    for one, latency in zip(row.variants, (50, 200, 350), strict=True):
        known = only_answer(replace(SGEMM, memory_latency_cycles=latency))
        assert isinstance(known.launch_bound, LaunchBound)
        assert one.variant == f"memory.latency={latency}"
        assert one.cycles == known.worst.bound.claim.cycles
        assert one.launch_cycles == known.launch_bound.claim.cycles
    assert row.variants[1].launch_cycles == row.launch_cycles


def test_a_part_of_a_name_is_all_op_classes_that_have_it() -> None:
    both, single, double = (
        bound_variants(SGEMM, [change]).answered[0].variants[0].cycles
        for change in ("fma.latency=40", "fp32_fma.latency=40", "fp64_fma.latency=40")
    )
    assert both == single
    assert double == bound_variants(SGEMM, ["fp64_fma.latency=41"]).answered[0].cycles


def test_seven_machines_of_a_range_without_a_step() -> None:
    (row,) = bound_variants(SGEMM, ["memory.latency=100..700"]).answered
    assert [one.variant for one in row.variants] == [
        f"memory.latency={number}" for number in range(100, 800, 100)
    ]


@pytest.mark.parametrize(
    "change",
    [
        "fma=2",
        "fma.latency=0",
        "fma.latency=3..2",
        "fma.latency=1..9:0",
        "fma.latency=1..9999:1",
        "fm.latency=2",
        "memory.initiation=2",
        "texture.latency=2",
        "fma.latency=٣",
        "fma.latency=2000000",
        "memory.latency=",
    ],
)
def test_what_is_no_change(change: str) -> None:
    with pytest.raises(PtxwcetError) as raised:
        bound_variants(SGEMM, [change])
    assert [one.code for one in raised.value.diagnostics] == ["PW325"]


def test_the_command_prints_a_table_and_data() -> None:
    words = ["what-if", str(SAMPLES / "vector_add.ptx"), "--block", "256", "--param", "n=1000"]
    words += ["--set", "memory.latency=100..300:100"]
    shown = run_program(*words)
    assert shown.code == 0, shown.err
    assert "memory.latency=100    462  -30.2 %" in shown.out
    data = json.loads(run_program(*words, "--format", "json").out)
    jsonschema.validate(data, schema_of("what-if"))
    (kernel,) = data["kernels"]
    assert [one["cycles"] for one in kernel["variants"]] == [462, 662, 862]
