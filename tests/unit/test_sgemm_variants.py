"""``benchmarks/sgemm_variants``: its variants, what they compute, what the plan asks."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from places import SAMPLES
from sgemm_variants import build

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.run.study import RunRequest, run_file
from ptxwcet.opened.request import Request
from ptxwcet.sweeps.sweep_plan import read_sweep_plan

VARIANTS = list(build.variants())
needs_nvcc = pytest.mark.skipif(
    not all(map(shutil.which, ("nvcc", "ptxas"))), reason="nvcc and ptxas are not on PATH"
)
LAUNCH = """
kernel = "sgemm"
grid = "2x2"
block = "{block}"
[arguments]
A = {{ shape = [{m}, {k}], dtype = "float32", init = "uniform", low = -1, high = 1, seed = 1 }}
B = {{ shape = [{k}, {n}], dtype = "float32", init = "uniform", low = -1, high = 1, seed = 2 }}
C = {{ shape = [{m}, {n}], dtype = "float32", init = "zeros" }}
M = {m}
N = {n}
K = {k}
"""


def test_variants_are_what_the_source_can_compile() -> None:
    assert len(VARIANTS) == len(set(map(build.stem, VARIANTS))) == 269
    for one in VARIANTS:
        assert one["tm"] % one["rm"] == one["tn"] % one["rn"] == 0
        threads = one["tm"] // one["rm"] * (one["tn"] // one["rn"])
        assert 64 <= threads <= 512
        assert one["tm"] * one["tk"] % threads == one["tk"] * one["tn"] % threads == 0


def test_tables_differ_in_machine_and_registers_only() -> None:
    first, second = tomllib.loads(build.PLAN.read_text())["sweep"]
    assert {key for key in first | second if first[key] != second[key]} == {
        "machines",
        "ptxas_info",
    }


def test_the_plan_asks_for_every_variant_on_two_machines(tmp_path: Path) -> None:
    for one in VARIANTS:
        (tmp_path / f"{build.stem(one)}.ptx").write_text(
            ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry sgemm() { ret; }\n"
        )
        for architecture in build.ARCHITECTURES:
            (tmp_path / f"{build.stem(one)}.{architecture}.txt").touch()
    for file in (build.SOURCE, build.PLAN):
        shutil.copy(file, tmp_path)
    plan = read_sweep_plan(str(tmp_path / build.PLAN.name))
    assert plan.count() == 269 * 4 * 2
    assert plan.columns[:7] == (*build.MACROS, "n")
    asked = {(Path(unit.request.path).stem, unit.request.machine) for unit in plan.units()}
    machines = ("titan-v", "jetson-agx-orin")
    assert asked == {(build.stem(one), machine) for one in VARIANTS for machine in machines}


def test_the_plan_of_the_samples() -> None:
    plan = read_sweep_plan(str(SAMPLES / "sweep.toml"))
    units = list(plan.units())
    assert len(units) == plan.count() == 66
    (last,) = (unit for unit in units if unit.index == 65)
    assert last.request.kernels == ("sgemm_cp_async",)
    assert (last.request.block, last.request.grid) == ("32x32", "32x32")


@needs_nvcc
@pytest.mark.parametrize("chosen", [(16, 32, 8, 2, 4, 1), (32, 16, 16, 4, 2, 2)])
def test_a_variant_multiplies_and_is_bounded(chosen: tuple[int, ...], tmp_path: Path) -> None:
    variant = dict(zip(build.MACROS, chosen, strict=True))
    assert variant in VARIANTS
    build.build(variant, tmp_path)
    multiplies(variant, tmp_path)
    is_bounded(variant, tmp_path)


def multiplies(variant: build.Variant, folder: Path) -> None:
    m, n, k = 2 * variant["tm"], 2 * variant["tn"], 3 * variant["tk"]
    launch = folder / "launch.toml"
    launch.write_text(LAUNCH.format(block=block_of(variant), m=m, n=n, k=k))
    ptx = folder / f"{build.stem(variant)}.ptx"
    answer = run_file(RunRequest(str(ptx), str(launch), source=str(build.SOURCE)))
    assert [diagnostic.render() for diagnostic in answer.diagnostics] == []
    left, right, *_ = answer.launch.values()
    wanted = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(dict(answer.outputs)["C"], wanted, rtol=0, atol=k * k * 2**-24)


def is_bounded(variant: build.Variant, folder: Path) -> None:
    stem = build.stem(variant)
    request = Request(
        str(folder / f"{stem}.ptx"),
        block=block_of(variant),
        grid=f"{512 // variant['tn']}x{512 // variant['tm']}",
        parameters=("M=512", "N=512", "K=512"),
        source=str(build.SOURCE),
        machine="titan-v",
        ptxas_info=str(folder / f"{stem}.sm_75.txt"),
    )
    (row,) = bound_file(request).answered
    assert row.launch_bound is not None
    assert row.launch_bound.residency.least == row.launch_bound.residency.most > 1


def block_of(variant: build.Variant) -> str:
    return f"{variant['tn'] // variant['rn']}x{variant['tm'] // variant['rm']}"
