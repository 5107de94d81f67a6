"""What instrumented kernels record is what the original executes: samples, random kernels, shapes.

The executed path of the emulator knows nothing of instrumentation; it is itself held against an
interpreter that shares nothing with it (``test_emulator_divergence.py``).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executions import execute_first
from hypothesis import given, settings
from hypothesis import strategies as st
from instrumented import check_same, check_times, executed_paths, recorded_paths, run_both
from parsing import parse_text
from places import SAMPLES
from refusals import refusals_of
from test_paths_against_execution import LAUNCHES, Awkward
from test_walk_against_execution import Writer
from thoroughness import drawn

from ptxwcet.commands.run.study import RunRequest, run_file
from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.emulator.registers import special_registers
from ptxwcet.flow.launch import Launch
from ptxwcet.methods.instrument.buffers import prepare_buffer
from ptxwcet.methods.instrument.recording import (
    Emulator,
    InstrumentRequest,
    RawDump,
    RecordRequest,
    import_dumps,
    instrument_file,
    read_dumps,
    record_launch,
    write_dump,
    write_instrumented,
)
from ptxwcet.methods.instrument.rewriting import build_sidecar, instrument_module
from ptxwcet.support.diagnostics import PtxwcetError

LARGE = {"sgemm_naive_1024"}  # there for a bound: a run takes minutes
LAUNCH_FILES = [path for path in sorted(SAMPLES.glob("launches/*.toml")) if path.stem not in LARGE]


def sample_of(launch: Path) -> Path:
    kernel = tomllib.loads(launch.read_text(encoding="utf-8")).get("kernel", launch.stem)
    for path in sorted(SAMPLES.glob("*.ptx")):
        if f".entry {kernel}(" in path.read_text(encoding="utf-8"):
            return path
    raise AssertionError(launch)


@pytest.mark.every(2)
@pytest.mark.parametrize("launch", LAUNCH_FILES, ids=lambda path: path.stem)
def test_samples_record_the_path_that_they_execute(launch: Path, tmp_path: Path) -> None:
    path = sample_of(launch)
    source = path.with_suffix(".cu")
    out, sidecar, dump = tmp_path / "k.ptx", tmp_path / "k.json", tmp_path / "k.bin"
    write_instrumented(instrument_file(InstrumentRequest(str(path))), out, sidecar)
    names = str(source) if source.exists() else None
    request = RecordRequest(str(out), str(sidecar), str(launch), names, 1 << 20)
    done = record_launch(request, Emulator())
    write_dump(done, dump)
    trace = import_dumps(str(sidecar), [str(dump)])
    plain = run_file(RunRequest(str(path), str(launch), record_paths=True))
    threads = np.prod(plain.launch.block)
    assert recorded_paths(trace) == executed_paths(plain.execution, int(-(-threads // 32)))
    check_times(trace)
    assert done.diagnostics == ()
    assert done.outputs.keys() == plain.outputs.keys()
    for name, array in plain.outputs.items():
        np.testing.assert_array_equal(done.outputs[name], array)


def compare(text: str, launch: Launch) -> bool:
    """False if the run is too long to compare."""
    assert launch.grid is not None
    emulated = EmulatedLaunch(launch.block, launch.grid, tuple(launch.parameters.values()))
    try:
        check_same(text, emulated)
    except PtxwcetError as error:
        if [one.code for one in error.diagnostics] != ["PW411"]:
            raise
        return False
    return True


@settings(max_examples=drawn(30), deadline=None)
@given(
    seed=st.integers(0, 10**9),
    n=st.integers(-1, 7),
    threads=st.sampled_from([8, 32, 48]),
    grid=st.integers(1, 2),
)
def test_random_kernels(seed: int, n: int, threads: int, grid: int) -> None:
    compare(Writer(seed).text(), Launch((threads, 1, 1), (grid, 1, 1), {"n": n}))


@settings(max_examples=drawn(20), deadline=None)
@given(seed=st.integers(0, 10**9), launch=LAUNCHES)
def test_awkward_kernels(seed: int, launch: Launch) -> None:
    compare(Awkward(seed).text(), launch)


def test_most_random_kernels_are_compared() -> None:
    launch = Launch((40, 1, 1), (1, 1, 1), {"n": 5})
    assert sum(compare(Writer(seed).text(), launch) for seed in range(20)) >= 18
    assert sum(compare(Awkward(seed).text(), launch) for seed in range(12)) >= 7


# --- shapes ---------------------------------------------------------------------------------------

HEAD = ".version 7.8\n.target sm_75\n.address_size 64\n"
OUT = """.reg .b32 %t, %r<9>; .reg .b64 %o; .reg .pred %p, %q;
mov.u32 %t, %tid.x; ld.param.u64 %o, [out]; mad.wide.u32 %o, %t, 4, %o;
"""


def kernel(body: str, functions: str = "", parameters: str = "(.param .u64 out)") -> str:
    return f"{HEAD}{functions}.visible .entry k{parameters}\n{{\n{OUT}{body}\n}}\n"


def launch_of(threads: int, grid: int = 1) -> EmulatedLaunch:
    return EmulatedLaunch((threads, 1, 1), (grid, 1, 1), (np.zeros(threads, "i4"),))


TABLE = """and.b32 %r1, %t, 3; T: .branchtargets A, B, C, D; brx.idx %r1, T;
A: mov.u32 %r2, 10; bra M; B: mov.u32 %r2, 20; bra M; C: exit; D: mov.u32 %r2, 40;
M: st.global.u32 [%o], %r2; ret;"""
SHAPES = {
    "ret in lanes": "setp.lt.u32 %p, %t, 9; @%p ret; st.global.u32 [%o], %t; ret;",
    "ret of the others": "setp.lt.u32 %p, %t, 9; @!%p ret; st.global.u32 [%o], %t; ret;",
    "exit in lanes, then off the end": "setp.eq.u32 %p, %t, 3; @%p exit; st.global.u32 [%o], %t;",
    "guarded ret at the end": "st.global.u32 [%o], %t; setp.lt.u32 %p, %t, 7; @%p ret;",
    "branch to the end": "setp.lt.u32 %p, %t, 7; @%p bra E; st.global.u32 [%o], %t; E:",
    "branch to the end alone": "setp.lt.u32 %p, %t, 7; @%p bra E; st.global.u32 [%o], %t; ret; E:",
    "uniform branch": "bra.uni L; L: st.global.u32 [%o], %t; ret;",
    "branch to the next": "setp.lt.u32 %p, %t, 7; @%p bra L; L: st.global.u32 [%o], %t; ret;",
    "table": TABLE,
    "guarded table": "setp.lt.u32 %p, %t, 20; " + TABLE.replace("brx", "@%p brx"),
    "no instruction on a line of its own": "L: add.u32 %t, %t, 1; setp.lt.u32 %p, %t, 40; @%p bra "
    "L; st.global.u32 [%o], %t; ret;",
    "scopes": "{ .reg .pred %p; setp.lt.u32 %p, %t, 5; { .reg .b32 %t; mov.u32 %t, 4; "
    "st.global.u32 [%o], %t; @%p ret; } } L: { .reg .b32 %w; mov.u32 %w, 1; "
    "st.global.u32 [%o], %w; setp.gt.u32 %p, %t, 30; @%p bra L2; } { .reg .pred %p; "
    "setp.lt.u32 %p, %t, 9; @!%p exit; setp.lt.u32 %p, %t, 2; @%p bra L3; L3: } L2: ret;",
    "barrier": "setp.lt.u32 %p, %t, 40; @%p bra L; mov.u32 %r1, 1; L: bar.sync 0; "
    "st.global.u32 [%o], %r1; bar.sync 0; ret;",
    "trap that is not reached": "setp.gt.u32 %p, %t, 99; @%p bra T; st.global.u32 [%o], %t; ret; "
    "T: trap;",
    "unreachable code": "st.global.u32 [%o], %t; ret; X: mov.u32 %r1, 1; bra X;",
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("threads", [5, 32, 72])
def test_shapes(name: str, threads: int) -> None:
    check_same(kernel(SHAPES[name]), launch_of(threads, grid=2))


def test_a_kernel_without_instructions() -> None:
    both = run_both(HEAD + ".entry k(.param .u64 out) { }", launch_of(64, 2))
    assert recorded_paths(both.trace) == {warp: ["entry", "end"] for warp in range(4)}


def test_a_loop_that_begins_the_kernel() -> None:
    text = HEAD + (
        ".entry k(.param .u64 out) { .reg .b32 %r<3>; .reg .pred %p;\n"
        "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 20; @%p bra L; ret; }"
    )
    both = check_same(text, launch_of(64))
    assert recorded_paths(both.trace)[1] == ["L"] * 20 + ["block 1", "end"]


FUNCTION = """.func (.reg .b32 %y) twice(.reg .b32 %x)
{ .reg .pred %p; setp.lt.u32 %p, %x, 6; @%p bra L; add.u32 %x, %x, 1; L: add.u32 %y, %x, %x; ret; }
"""


def test_a_function_is_part_of_the_block_that_calls_it() -> None:
    body = "call (%r1), twice, (%t); setp.lt.u32 %p, %t, 4; @%p bra L; add.u32 %r1, %r1, 1;\n"
    both = run_both(kernel(body + "L: st.global.u32 [%o], %r1; ret;", FUNCTION), launch_of(32))
    names = [point.label for point in both.trace.ipoints]
    assert names[0] == "entry"
    assert names[2:] == ["L", "end"]
    assert recorded_paths(both.trace) == {0: names}
    executed = executed_paths(both.original, 1)[0]
    assert [row for row in executed if row in names] == names
    np.testing.assert_array_equal(both.original.buffers[0], both.buffers[0])


def test_a_block_that_begins_with_a_call_keeps_its_name() -> None:
    body = "bra L; L: call (%r1), twice, (%t); st.global.u32 [%o], %r1; ret;"
    both = run_both(kernel(body, FUNCTION), launch_of(32))
    assert recorded_paths(both.trace) == {0: ["entry", "L", "end"]}


@pytest.mark.parametrize("place", ["L", "13"])
def test_only_some_points(place: str) -> None:
    body = "mov.u32 %r1, 0;\nbra L;\nL:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p, %r1, 3;\n"
    text = kernel(body + "@%p bra L;\nst.global.u32 [%o], %r1;\nret;")
    both = run_both(text, launch_of(32), [place])
    assert recorded_paths(both.trace) == {0: ["entry", "L", "L", "L", "end"]}


def test_warps_of_a_grid_are_numbered_as_blocks_are() -> None:
    """x runs fastest in grid and block; each warp stores its number where it stands."""
    text = HEAD + (
        ".entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .pred %p;\n"
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;\n"
        "mov.u32 %r4, %tid.y; mad.lo.u32 %r1, %r2, 2, %r1; mad.lo.u32 %r1, %r3, 6, %r1;\n"
        "shr.u32 %r4, %r4, 1; mad.lo.u32 %r1, %r1, 2, %r4; setp.eq.u32 %p, %r1, 17;\n"
        "@%p bra L; ret; L: ret; }"
    )
    launch = EmulatedLaunch((16, 4, 1), (2, 3, 2), (np.zeros(1, "i4"),))
    paths = recorded_paths(check_same(text, launch).trace)
    assert [warp for warp, path in paths.items() if "L" in path] == [17]
    assert len(paths) == 24


def test_the_emulators_blocks_follow_one_another() -> None:
    both = check_same(kernel(SHAPES["barrier"]), launch_of(72, grid=3))
    blocks = both.trace.warp // 3
    times = [both.trace.cycle[blocks == block] for block in range(3)]
    assert times[0].max() < times[1].min() <= times[1].max() < times[2].min()
    both = check_same(kernel("st.global.u32 [%o], %t; ret;"), launch_of(32, grid=3))
    starts = both.trace.cycle[both.trace.ipoint == 0]
    size = len(both.original.kernel.instructions) + 39 + 2 * 20
    assert starts.tolist() == [0, size, 2 * size]


def test_a_full_buffer_is_refused_and_an_exact_one_is_not() -> None:
    text = kernel(
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 20; @%p bra L; ret;"
    )
    # the head, entry, 20 times L, the block of ret and the end: 24 records in 3 chunks
    both = run_both(text, launch_of(32), size=64 + 3 * 128)
    assert len(both.dump) == 64 + 3 * 128
    (problem,) = refusals_of(run_both, text, launch_of(32), size=64 + 2 * 128)
    assert problem.code == "PW657"
    # the eight records without a chunk ask for one each
    assert "2 chunks, 10 were asked for, so at least 8 records are lost" in problem.message


def test_more_warps_than_the_buffer_is_for_write_nothing_outside() -> None:
    """A host that launches more blocks than it said: refused, and no memory is touched."""
    module = parse_text(kernel("st.global.u32 [%o], %t; ret;"))
    added = instrument_module(module, module.kernels)
    sidecar = build_sidecar(added, "k.ptx", "00")
    again = parse_text(added.text)
    identity = sidecar.identity(sidecar.kernels[0])
    buffer, chunks = prepare_buffer(64 + 2 * 128, (2, 1, 1), (32, 1, 1), identity)
    launch = EmulatedLaunch((32, 1, 1), (4, 1, 1), (np.zeros(32, "i4"), buffer, chunks))
    done = execute_first(again, launch)
    assert not done.findings
    assert [
        row.code
        for row in refusals_of(read_dumps, [RawDump("k.bin", done.buffers[1].tobytes())], sidecar)
    ] == ["PW657"]


@pytest.mark.parametrize(("guard", "ends"), [("%p", 1), ("!%p", 1), ("%q", 2)])
def test_an_end_that_the_leading_lane_does_not_take_is_not_recorded(guard: str, ends: int) -> None:
    """No lane, the others, and (a record too many, which is left out) the first lanes end."""
    body = "setp.gt.u32 %p, %t, 99; setp.lt.u32 %q, %t, 5;"
    if guard == "!%p":
        body = "setp.lt.u32 %p, %t, 9;"
    both = check_same(kernel(f"{body} @{guard} ret; st.global.u32 [%o], %t; ret;"), launch_of(32))
    codes = np.frombuffer(both.dump[64:], dtype="<u4")[::4] & 0xFFFF
    assert (codes == len(both.trace.ipoints)).sum() == ends


def test_multiprocessors_and_hardware_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block b on multiprocessor 300 + b, its warp w in slot 40 + w: in every record and head."""

    def placed(launch: EmulatedLaunch, block: int, lanes: int) -> dict[str, Any]:
        found = special_registers(launch, block, lanes)
        found["%smid"] = found["%smid"] + np.uint32(300 + block)
        found["%warpid"] = found["%warpid"] + np.uint32(40)
        return found

    monkeypatch.setattr("ptxwcet.emulator.execute.special_registers", placed)
    loop = "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, %t; @%p bra L; ret;"
    both = check_same(kernel(loop), launch_of(64, 3))
    assert (both.trace.sm == 300 + both.trace.warp // 2).all()
    heads = np.frombuffer(both.dump[64:], dtype="<u4").reshape(-1, 32)[:6, :4]
    assert heads.tolist() == [
        [0xFFFF | 300 + warp // 2 << 16, warp, 40 + warp % 2, 0] for warp in range(6)
    ]


def test_lanes_that_lead_by_turns_keep_their_order() -> None:
    """Each lane leaves the loop in its own turn: thirty-two leaders, each with its own chunks."""
    body = "mov.u32 %r1, 0;\nL: setp.eq.u32 %p, %r1, %t; @%p bra X;\nadd.u32 %r1, %r1, 1; bra L;\n"
    both = check_same(kernel(body + "X: st.global.u32 [%o], %r1; ret;"), launch_of(64))
    assert len(recorded_paths(both.trace)[0]) == 2 + 32 + 31 + 1
