"""A memory path of which a machine file claims that it keeps up: when it is latency and no work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from parsing import parse_kernel
from places import PACKAGE

import ptxwcet
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.claims import Guarantee
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.warp.program import TimedInstruction

pytestmark = pytest.mark.fast

KEY = "path-keeps-up"
KERNEL = """.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a)
{{
  .reg .b32 %r<9>;
  .reg .b64 %rd<9>;
  .reg .f32 %f<9>;
  .shared .align 16 .b8 tile[4096];
  ld.param.u64 %rd1, [a];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.s32 %r4, %r3, %r2;
  ld.global.f32 %f1, [%rd4];
  {more}
  st.global.f32 [%rd4], %f1;
  ret;
}}
"""
SHARED = "st.shared.f32 [%r4], %f1; ld.shared.f32 %f1, [%r4];"
WIDE = "ld.global.v2.f32 {%f2, %f3}, [%rd2];"
TWO_LINES = "ld.global.f32 %f2, [%rd4+4];"
Made = Callable[..., str]


@pytest.fixture
def machine(tmp_path: Path) -> Made:
    """titan-v: 4 units of memory in an SM, 4 cycles for an access of each, a line a cycle."""

    def made(state: str | None, *, is_known: bool = False, **changed: str) -> str:
        text = (PACKAGE / "machine/models/titan-v.toml").read_text(encoding="utf-8")
        rows = [row for row in text.splitlines() if not row.startswith(KEY)]
        text = "\n".join(rows).replace('name = "titan-v"', 'name = "kept-up"') + "\n"
        for old, new in changed.items():
            assert f"\n{old} = " in text
            text = text.replace(f"\n{old} = ", f"\n{new}\n#", 1)
        if is_known:
            text = text.replace('"doubtful"', '"assumed"')
        if state is not None:
            text += f'{KEY} = {{ state = "{state}", source = "silicon: invented" }}\n'
        path = tmp_path / f"m{len(list(tmp_path.iterdir()))}.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return made


def _costs(machine: str, more: str = "", threads: int = 128) -> list[TimedInstruction]:
    """What the accesses of the kernel take, in order."""
    kernel = parse_kernel(KERNEL.format(more=more))
    found = LaunchCosts(kernel, Launch((threads, 1, 1)), load_machine(machine))
    nodes = [found.nodes(index, one) for index, one in enumerate(kernel.instructions)]
    timed = [node for own in nodes for node in own if isinstance(node, TimedInstruction)]
    return [one for one in timed if one.unit == "MEM"][1:]  # the parameter


def latencies(machine: str, more: str = "", threads: int = 128) -> list[tuple[int, int]]:
    return [(one.path_cycles, one.latency_cycles) for one in _costs(machine, more, threads)]


def test_what_waits_at_the_path_is_latency(machine: Made) -> None:
    """4 units a cycle of the path each: 4 cycles at it, of which 3 may be for others."""
    served = 1  # 79 cycles for 1,024 sectors, of which an access has 4
    plain, kept = machine(None), machine("assumed")
    path = [(1, 461 + 1 + served), (1, 15 + 1), (1, 15 + 1), (1, 461 + 1 + served)]
    assert latencies(plain, SHARED) == path
    assert latencies(kept, SHARED) == [(0, latency + 3) for _, latency in path]


@pytest.mark.parametrize("more", [WIDE, TWO_LINES, "ld.shared.f32 %f2, [%r4+4];"])
def test_one_access_that_takes_more_leaves_work_for_all(machine: Made, more: str) -> None:
    """Of more lines, but not of other words of the same banks, which are one pass."""
    kept = latencies(machine("assumed"), more)
    is_one = more.startswith("ld.shared")
    assert (kept == latencies(machine(None), more)) != is_one
    assert all(path for path, _ in kept) != is_one


def test_units_and_warps(machine: Made) -> None:
    twice = machine("assumed", path_line_cycles=f"path_line_cycles = {figure(2)}")
    assert all(path for path, _ in latencies(twice))
    for end, path in ((" }", 0), (", upper = true }", 1)):  # its time is an upper one
        store = row("store_global", 4).replace(" }", end)
        assert latencies(machine("assumed", store_global=store))[0][0] == path
    few = machine("assumed")
    assert [path for path, _ in latencies(few, threads=96)] == [1, 1]
    assert [path for path, _ in latencies(few, threads=97)] == [0, 0]
    # two units of a sub-core feed the path, 8 of an SM: 4 cycles at each are not enough
    store = row("store_global", 4).replace("MEM", "GMEM")
    assert latencies(machine("assumed", store_global=store), threads=256)[0][0] == 1


def row(op_class: str, initiation: int) -> str:
    head = f'{op_class} = {{ unit = "MEM", initiation_cycles = {initiation}, latency_cycles = 9'
    return head + ', evidence = "assumed", source = "silicon: invented" }'


@pytest.mark.parametrize(("initiation", "is_latency"), [(7, False), (8, True), (9, True)])
def test_the_longest_decides_for_all(machine: Made, initiation: int, is_latency: bool) -> None:
    """Lines take 2 cycles and passes 1: units of 8 are enough for lines, and all may wait 8."""
    rows = {name: row(name, initiation) for name in ("load_global", "store_global")}
    lines = f"path_line_cycles = {figure(2)}"
    found = latencies(machine("assumed", path_line_cycles=lines, **rows), SHARED)
    if is_latency:
        assert found == [(0, 9 + 8 + 1), (0, 15 + 8), (0, 15 + 8), (0, 9 + 8 + 1)]
    else:
        assert found == [(2, 9 + 2 + 1), (1, 15 + 1), (1, 15 + 1), (2, 9 + 2 + 1)]


def figure(value: int) -> str:
    return f'{{ value = {value}, evidence = "assumed", source = "path: invented" }}'


def test_bounds_say_what_they_rest_on(machine: Made, tmp_path: Path) -> None:
    kernel = tmp_path / "k.ptx"
    kernel.write_text(KERNEL.format(more=SHARED))

    def bound(state: str | None) -> ptxwcet.Bound:
        name = machine(state, is_known=True)
        return ptxwcet.bound(str(kernel), block=256, grid=4096, machine=name)

    plain = bound(None)
    assert KEY not in plain.launch_assumptions
    assert plain.roofline is not None
    for state, guarantee in (
        ("by-definition", Guarantee.SAFE_BOUND),
        ("assumed", Guarantee.SAFE_BOUND),
        ("doubtful", Guarantee.ESTIMATE),
    ):
        found = bound(state)
        launched = found.analysis.launch_bound
        assert isinstance(launched, LaunchBound)
        outcome = found.analysis.worst.outcomes["safe"]
        assert isinstance(outcome, BlockBound)
        for claim in (launched.claim, outcome.claim):
            assert claim.guarantee is guarantee
            keys = {one.key for one in claim.assumptions}
            assert (KEY in keys) == (state != "by-definition")
            assert {"busy-servers"} <= keys
        assert found.cycles < plain.cycles
        assert launched.claim.cycles < (plain.launch_cycles or 0)
        assert found.roofline is not None
        assert found.roofline.cycles == plain.roofline.cycles


def test_the_claim_needs_a_path(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    text = 'schema = 1\nextends = "orin-ecrts2025"\nname = "m"\n[sources]\nx = "x"\n[satisfies]\n'
    path.write_text(f'{text}{KEY} = {{ state = "assumed", source = "x" }}\n')
    with pytest.raises(PtxwcetError, match=rf"{KEY} is about the tables \[memory\]"):
        load_machine(str(path))
