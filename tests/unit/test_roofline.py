"""The roofline of a launch by its plain definition, below every bound, and as people see it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answers import only_answer
from parsing import parse_text
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.roofline import Roofline, bytes_of_arrays, launch_roofline
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.validate.checks import Bounds
from ptxwcet.validate.generator import FAMILIES
from ptxwcet.validate.grids import bound_case, random_grid
from ptxwcet.warp.program import Barrier, BlockWorkload, Node, Repeat, TimedInstruction

pytestmark = pytest.mark.fast

TITAN = load_machine("titan-v")


class OpenPathError(Exception):
    """The program has something that is not decided."""


def issued(body: Sequence[Node]) -> Iterator[TimedInstruction | Barrier]:
    """What a warp issues, one after the other: loops unrolled."""
    for node in body:
        if isinstance(node, Repeat) and node.least in (-1, node.count):
            for _ in range(node.count):
                yield from issued(node.body)
        elif isinstance(node, TimedInstruction | Barrier):
            yield node
        else:
            raise OpenPathError


def plain(workload: BlockWorkload, schedulers: int) -> tuple[int, int, int]:
    """Cycles on the busiest sub-core between barriers, at the path, and sectors, of a block."""
    cores: Counter[tuple[int, int]] = Counter()
    path = sectors = 0
    for warp_class in workload.classes:
        instructions = list(issued(warp_class.program.body))
        for warp in warp_class.warps:
            section = 0
            for one in instructions:
                own = one.instruction if isinstance(one, Barrier) else one
                cores[section, warp % schedulers] += own.initiation_cycles
                path += own.path_cycles
                sectors += own.sectors
                section += isinstance(one, Barrier)
    sections = {section for section, _ in cores}
    busiest = sum(max(cores[one, core] for core in range(schedulers)) for one in sections)
    return busiest, path, sectors


def asked(name: str, **said: Any) -> KernelAnalysis:
    said = {"machine": "titan-v", **said}
    return only_answer(Request(str(SAMPLES / f"{name}.ptx"), **said))


LAUNCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("vector_add", {"block": "256", "grid": "333", "parameters": ("n=85000",)}),
    ("transpose_tiled", {"block": "32x8", "grid": "9x7", "parameters": ("width=256", "height=99")}),
    ("sgemm_naive", {"block": "16x15", "grid": "9", "parameters": ("M=99", "N=99", "K=7")}),
    ("scan", {"block": "96", "grid": "1000"}),
)


@pytest.mark.parametrize(("name", "said"), LAUNCHES)
def test_it_is_the_busiest_resource_counted_plainly(name: str, said: dict[str, Any]) -> None:
    row = asked(name, **said)
    launched = row.launch_bound
    assert isinstance(launched, LaunchBound)
    each = [plain(one.analysis.workload, 4) for one in row.of_launch]
    counts = [one.count for one in row.of_launch]
    assert sum(one or 0 for one in counts) == launched.blocks
    core, path, sectors = (
        sum(count * one[place] for count, one in zip(counts, each, strict=True) if count)
        for place in range(3)
    )
    cycles = TITAN.cycles_per_1024_sectors
    expected = Roofline(
        max(math.ceil(core / 80), *(one[0] for one in each)),
        max(math.ceil(path / 80), *(one[1] for one in each)),
        math.ceil(cycles * sectors / 1024),
    )
    assert row.roofline == expected
    assert expected.core_cycles > 0 < expected.traffic_cycles
    assert expected.memory_cycles == expected.traffic_cycles == launched.bound.memory_cycles
    terms = expected.core_cycles, expected.path_cycles, launched.bound.memory_cycles
    assert expected.cycles == max(terms)


def test_no_roofline_is_above_a_bound() -> None:
    decided = 0
    for index in range(8 * len(FAMILIES)):
        grid = random_grid(7, index)
        cases = Counter(grid.blocks)
        bound = bound_case(grid, Bounds())
        launched: Any = SimpleNamespace(
            blocks=len(grid.blocks), sms=grid.sms, bound=SimpleNamespace(memory_cycles=0)
        )
        pieces = [(grid.kinds[kind].analyse(), count) for kind, count in cases.items()]
        found = launch_roofline(pieces, launched, TITAN, None)
        assert found.cycles <= bound, grid.name
        unknown = launch_roofline([(one, None) for one, _ in pieces], launched, TITAN, None)
        assert found.cycles <= unknown.cycles
        if not all(analysis.has_private_units for analysis, _ in pieces):
            continue
        try:
            each = [
                plain(grid.kinds[kind].workload, grid.kinds[kind].schedulers)[0] for kind in cases
            ]
        except OpenPathError:
            continue
        decided += 1
        total = sum(count * one for count, one in zip(cases.values(), each, strict=True))
        assert found.core_cycles == max(math.ceil(total / grid.sms), *each, 0)
    assert decided > 20


@pytest.mark.parametrize("more", [{}, {"sms": 7}, {"registers": 64}, {"co_runner": "65536,100"}])
def test_its_parts_are_within_those_of_the_bound(more: dict[str, Any]) -> None:
    for name, block, params in (
        ("transpose_naive", (32, 8), {"width": 1000, "height": 999}),
        ("vector_add", 128, {"n": 50_000}),
        ("sgemm_naive", (32, 32), {"M": 100, "N": 100, "K": 100}),
    ):
        path = SAMPLES / f"{name}.ptx"
        found = ptxwcet.bound(path, block=block, grid=300, params=params, machine="titan-v", **more)
        launched, roofline = found.analysis.launch_bound, found.roofline
        assert isinstance(launched, LaunchBound)
        assert roofline is not None
        own = launched.bound.cycles - launched.bound.memory_cycles
        assert 0 < max(roofline.core_cycles, roofline.path_cycles) <= own
        assert 0 < roofline.memory_cycles <= launched.bound.memory_cycles
        if "co_runner" in more:  # others are in the bound alone
            assert roofline.memory_cycles < launched.bound.memory_cycles


def test_arrays_of_the_launch_file_are_moved_once(tmp_path: Path) -> None:
    text = (SAMPLES / "launches/convolution.toml").read_text()
    path = tmp_path / "l.toml"
    path.write_text(text)
    whole = asked("convolution", launch_file=str(path)).roofline
    assert whole is not None
    assert whole.arrays_cycles is not None
    assert whole.memory_cycles == min(whole.arrays_cycles, whole.traffic_cycles)
    path.write_text("".join(one for one in text.splitlines(True) if "shape" not in one))
    silent = asked("convolution", launch_file=str(path)).roofline
    assert silent == Roofline(whole.core_cycles, whole.path_cycles, whole.traffic_cycles)


KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.global .align 4 .b8 table[100];
.global .align 4 .b8 unused[5000];
.visible .entry k(.param .u64 a, .param .u32 n, .param .f64 f, .param .b64 b)
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, table;
  ret;
}
"""


def test_sizes_of_arrays_are_known_of_all_or_not_at_all() -> None:
    module = parse_text(KERNEL)
    (kernel,) = module.kernels
    launch = Launch((1, 1, 1))

    def known(launch: Launch = launch, **stated: int) -> int | None:
        return bytes_of_arrays(kernel, module, launch, stated)

    assert known(a=1000, b=64) == 1164
    assert known(a=1000) is known() is None
    assert known(Launch((1, 1, 1), parameters={"b": 7}), a=1000) == 1100
    assert known(Launch((1, 1, 1), ranges={"b": (0, 7)}), a=1000) == 1100
    assert known(Launch((1, 1, 1), sizes={"b": 32}), a=1000) == 1132
    aggregate = parse_text(KERNEL.replace(".param .u32 n", ".param .align 8 .b8 n[16]"))
    assert bytes_of_arrays(aggregate.kernels[0], aggregate, launch, {"a": 1, "b": 1}) is None
    unsized = parse_text(
        KERNEL.replace(".global .align 4 .b8 table[100]", ".extern .global .b8 table[]")
    )
    assert bytes_of_arrays(unsized.kernels[0], unsized, launch, {"a": 1, "b": 1}) is None


WORDS = ("samples/vector_add.ptx", "--block", "256", "--grid", "64", "--param", "n=16384")


def test_it_stands_beside_the_bound_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES.parent)
    words = (*WORDS, "--machine", "titan-v")
    text = run_program(*words).out
    (line,) = (one for one in text.splitlines() if one.startswith("roofline"))
    assert " no bound: sub-cores " in line
    assert line.endswith(" (all that is charged)   estimate")
    (row,) = json.loads(run_program(*words, "--format", "json").out)["kernels"]
    roofline = row["roofline"]
    assert f"roofline   {roofline['cycles']:,} cycles" in line
    assert roofline["guarantee"] == "estimate"
    assert roofline["memory_of"] == "traffic"
    terms = [roofline[f"{one}_cycles"] for one in ("core", "path", "memory")]
    assert roofline["cycles"] == max(terms) < row["launch"]["cycles"]
    assert "roofline" not in row["launch"]
    alone = (*WORDS[:3], *WORDS[5:], "--machine", "titan-v")
    assert "roofline" not in run_program(*alone).out
    (row,) = json.loads(run_program(*alone, "--format", "json").out)["kernels"]
    assert row["roofline"] is None
    assert ptxwcet.bound(WORDS[0], block=256, params={"n": 9}).roofline is None
