"""Arrays set aside in the L2 cache: what is said of them, what counts, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from answers import only_answer, only_refusal
from parsing import parse_text
from places import PACKAGE, SAMPLES
from programs import run_program

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import AssumptionState
from ptxwcet.commands.bound.formula import LaunchFormula, bound_symbolic
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.memory.analysis import accesses_kept, require_accessed
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

CACHE, MEMORY, ROOM = 22, 253, 1 << 22


def machine_file(folder: Path, unit: int = 32) -> str:
    """titan-v with an invented carve-out."""
    text = (PACKAGE / "machine/models/titan-v.toml").read_text(encoding="utf-8")
    rows = {"carve_out_bytes": ROOM, "unit_bytes": unit, "cache_cycles_per_1024_sectors": CACHE}
    figures = "".join(
        f'{key} = {{ value = {value}, evidence = "assumed", source = "silicon: invented" }}\n'
        for key, value in rows.items()
    )
    path = folder / "carved.toml"
    named = text.replace('name = "titan-v"', 'name = "carved"')
    path.write_text(f"{named}\n[carve_out]\n{figures}", encoding="utf-8")
    return str(path)


def request(machine: str, *said: str, size: int = 512) -> Request:
    sizes = tuple(f"{one}={size}" for one in "MNK")
    grid = f"{size // 32}x{size // 32}"
    return Request(
        str(SAMPLES / "sgemm_naive.ptx"),
        block="32x32",
        grid=grid,
        parameters=(*sizes, *said),
        machine=machine,
        gpu=GridWishes(registers=40),
    )


def launched(asked: Request) -> LaunchBound:
    found = only_answer(asked).launch_bound
    assert isinstance(found, LaunchBound)
    return found


def cycles(work: int) -> int:
    return -(-work // 1024)


@pytest.mark.parametrize("unit", [32, 128])
def test_the_memory_serves_what_it_says(tmp_path: Path, unit: int) -> None:
    machine, size = machine_file(tmp_path, unit), 4 * 512 * 512
    blocks, loads, stores = 256, 32 * 16 * 8, 32 * 4
    plain = launched(request(machine)).bound
    assert plain.memory_cycles == cycles((CACHE + MEMORY) * blocks * (loads + stores))
    found = launched(request(machine, f"A=bytes:{size}", f"B=bytes:{size}"))
    units = 2 * ((size + unit - 2) // unit + 1)
    moved = blocks * stores + 3 * units * (unit // 32)
    whole = CACHE * blocks * (loads + stores) + MEMORY * moved
    assert found.bound.memory_cycles == cycles(whole)
    assert replace(found.bound, memory_cycles=plain.memory_cycles) == plain
    said = {one.key: one for one in found.claim.assumptions}
    for key in ("array-sizes", "carve-out", "joined-misses"):
        assert said[key].state is AssumptionState.ASSUMED
    assert f"A {size:,}, B {size:,}" in said["array-sizes"].text


def test_formulas_follow(tmp_path: Path) -> None:
    machine = machine_file(tmp_path)
    asked = request(machine, "A=bytes:65536", "B=bytes:65536")
    asked = replace(asked, grid="4x3", gpu=GridWishes(sms=1, resident_blocks=1))
    opened = replace(asked, parameters=tuple(p for p in asked.parameters if p[0] != "K"))
    (row,) = bound_symbolic(opened, "K=33..100001").answered
    assert isinstance(row.launch_formula, LaunchFormula)
    for number in (33, 65, 1001, 99_999):
        single = launched(replace(opened, parameters=(*opened.parameters, f"K={number}")))
        assert row.launch_formula.formula.at(number) == single.claim.cycles
    plain = replace(opened, parameters=("M=512", "N=512"))
    (without,) = bound_symbolic(plain, "K=33..100001").answered
    assert without.formula == row.formula  # a block fetches all that it asks for
    assert isinstance(without.launch_formula, LaunchFormula)
    assert without.launch_formula.claim.cycles > row.launch_formula.claim.cycles


def test_without_the_machine_or_the_room(tmp_path: Path) -> None:
    machine = machine_file(tmp_path)
    # of any place in memory: one unit more than the bytes fill
    launched(request(machine, f"A=bytes:{ROOM - 32}"))
    for asked in (
        request("titan-v", "A=bytes:65536"),
        request(machine, f"A=bytes:{ROOM}"),
        request(machine, f"A=bytes:{ROOM // 2}", f"B=bytes:{ROOM // 2}"),
        replace(request(machine, "A=bytes:65536"), grid=None, gpu=GridWishes()),
    ):
        (problem,) = only_refusal(asked).diagnostics
        assert problem.code == "PW326"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (("A=bytes:0",), "PW214"),
        (("A=bytes:-4",), "PW214"),
        (("A=bytes:4MiB",), "PW214"),
        (("A=bytes:" + "9" * 5000,), "PW214"),
        (("A=bytes:",), "PW214"),
        (("M=bytes:64",), "PW214"),
        (("A=bytes:64", "A=bytes:65"), "PW215"),
        (("A=bytes:64", "A=align:16"), "PW215"),
        (("A=bytes:64", "A=4096"), "PW215"),
        (("A=bytes:64", "M=512", "N=512", "K=512"), "PW326"),
    ],
)
def test_what_cannot_be_said(said: tuple[str, ...], code: str) -> None:
    asked = replace(request("titan-v"), parameters=said)
    assert [one.code for one in only_refusal(asked).diagnostics] == [code]


def test_latencies_have_the_cache(tmp_path: Path) -> None:
    plain, carved = load_machine("titan-v"), load_machine(machine_file(tmp_path))
    assert plain.carve_out is None
    assert (plain.cycles_per_1024_sectors, carved.cycles_per_1024_sectors) == (
        MEMORY,
        MEMORY + CACHE,
    )


@pytest.mark.parametrize(
    "command",
    [
        ("simulate", "--policy", "lrr"),
        ("makespan", "--load-store", "1", "--cores", "1"),
        ("memory",),
        ("annotate phases",),
        ("annotate ports",),
        ("cfg",),
        ("facts",),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("kind", ["bytes:4096", "align:16"])
def test_what_a_command_does_not_use_is_refused(
    tmp_path: Path, command: tuple[str, ...], kind: str
) -> None:
    name, *options = command
    has_machine = name not in ("cfg", "facts")
    machine = ("--machine", machine_file(tmp_path)) if has_machine else ()
    sizes = (one for axis in "MNK" for one in ("--param", f"{axis}=64"))
    said = ("--block", "32x32", "--grid", "2x2", *sizes, "--param", f"A={kind}")
    file = str(SAMPLES / "sgemm_naive.ptx")
    code, _, err = run_program(*name.split(), file, *said, *machine, *options)
    if kind == "bytes:4096":
        assert (code, "error[PW326]" in err) == (1, True), err
    else:
        assert ("error[PW214]" in err) == (not has_machine), err


def test_the_array_of_a_launch_file_is_no_larger(tmp_path: Path) -> None:
    launch_file, said = SAMPLES / "launches/sgemm_naive.toml", ("--machine", machine_file(tmp_path))
    file = str(SAMPLES / "sgemm_naive.ptx")
    for size, code in ((64, 1), (1 << 20, 0)):
        stated = ("--launch", launch_file, "--param", f"A=bytes:{size}")
        ended = run_program("bound", file, *stated, *said)
        assert (ended.code, "error[PW426]" in ended.err) == (code, bool(code)), ended.err


KEPT = """
.version 7.4
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<2>; .reg .f32 %f<9>;
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u32 %r1, [n];
  cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; setp.eq.u32 %p1, %r1, 0;
  sub.s64 %rd5, %rd2, %rd1; add.s64 %rd6, %rd1, %rd5; selp.b64 %rd7, %rd1, %rd2, %p1;
  ACCESS
  ret;
}
"""


HALF = "cvt.u64.u32 %rd8, %r2; ld.global.f32 %f1, [%rd8];"


@pytest.mark.parametrize(
    ("access", "of_p", "of_both"),
    [
        ("ld.global.f32 %f1, [%rd4+8];", True, True),
        ("ld.global.nc.f32 %f1, [%rd4];", True, True),
        ("ld.global.nc.v2.f32 {%f1, %f2}, [%rd4];", True, True),
        ("st.global.f32 [%rd4], %f1;", True, True),
        ("ld.global.f32 %f1, [%rd2];", False, True),
        ("ld.global.f32 %f1, [%rd7];", False, True),  # either of both
        ("ld.global.f32 %f1, [%rd6];", False, False),  # q, made of p and a distance
        (f"ld.param.u32 %r2, [p]; {HALF}", False, False),
        (f"ld.param.u32 %r2, [p+4]; {HALF}", False, False),
        ("ld.volatile.global.f32 %f1, [%rd4];", False, False),
        ("ld.global.cv.f32 %f1, [%rd4];", False, False),
        ("ld.global.cs.f32 %f1, [%rd4];", False, False),
        ("ld.global.L2::128B.f32 %f1, [%rd4];", False, False),
        ("ld.global.L1::no_allocate.f32 %f1, [%rd4];", False, False),
        ("ld.f32 %f1, [%rd4];", False, False),
        ("st.global.wt.f32 [%rd4], %f1;", False, False),
        ("atom.global.add.u32 %r2, [%rd4], 1;", False, False),
        ("ld.global.u64 %rd8, [%rd4]; ld.global.f32 %f1, [%rd8];", True, True),  # the first
    ],
)
def test_which_accesses_are_sure_to_lie_there(access: str, of_p: bool, of_both: bool) -> None:
    (kernel,) = parse_text(KEPT.replace("ACCESS", access)).kernels
    for sizes, expected in (({"p": 64}, of_p), ({"p": 64, "q": 64}, of_both), ({}, False)):
        launch = Launch((32, 1, 1), sizes=sizes)
        found = accesses_kept(kernel, launch)
        assert len(found) == expected
        if sizes.keys() - frozenset[str]().union(*found.values()):
            with pytest.raises(PtxwcetError, match="no load or store of kernel k is sure to be of"):
                require_accessed(kernel, launch, found)
        else:
            require_accessed(kernel, launch, found)


def test_a_unit_is_of_whole_sectors(tmp_path: Path) -> None:
    """One of 40 bytes may have parts of three sectors."""
    with pytest.raises(PtxwcetError, match="unit_bytes is 40: it must be a multiple of 32"):
        load_machine(machine_file(tmp_path, unit=40))


N = "ld.param.u64 %rd8, [m]; mov.u64 %one, 1;"


@pytest.mark.parametrize(
    "sum_of",
    [
        "add.s64 %rd4, %rd1, %rd8;",
        "add.s64 %rd4, %rd8, %rd1;",
        "mul.lo.s64 %rd0, %rd8, 1; add.s64 %rd4, %rd0, %rd1;",
        "mul.lo.s64 %rd0, 1, %rd8; add.s64 %rd4, %rd1, %rd0;",
        "mul.lo.s64 %rd0, %rd8, %one; add.s64 %rd4, %rd1, %rd0;",
        "mul.lo.s64 %rd0, %one, %rd8; add.s64 %rd4, %rd1, %rd0;",
        "mad.lo.s64 %rd4, %rd8, 1, %rd1;",
        "mad.lo.s64 %rd4, 1, %rd8, %rd1;",
        "mad.lo.s64 %rd4, %rd1, 1, %rd8;",
        "shl.b64 %rd0, %rd8, 0; add.s64 %rd4, %rd1, %rd0;",
        "shr.u64 %rd0, %rd8, 0; add.s64 %rd4, %rd1, %rd0;",
        "div.u64 %rd0, %rd8, 1; add.s64 %rd4, %rd1, %rd0;",
        "add.s64 %rd0, %rd8, 0; add.s64 %rd4, %rd1, %rd0;",
        "sub.s64 %rd0, %rd8, 0; add.s64 %rd4, %rd0, %rd1;",
        "mul.lo.s64 %rd0, %rd8, -1; sub.s64 %rd4, %rd1, %rd0;",
        "mul.lo.u64 %rd0, 0xffffffffffffffff, %rd8; sub.s64 %rd4, %rd1, %rd0;",
        "mad.lo.s64 %rd4, %rd8, -1, %rd1;",
        "div.s64 %rd0, %rd8, -1; sub.s64 %rd4, %rd1, %rd0;",
        "rem.u64 %rd0, %rd8, 0x4000000000000000; add.s64 %rd4, %rd1, %rd0;",
        "cvt.u64.u32 %also, 1; mul.lo.u64 %rd0, %rd8, %also; add.s64 %rd4, %rd1, %rd0;",
    ],
)
def test_a_parameter_of_64_bits_may_be_a_pointer_however_it_is_written(sum_of: str) -> None:
    """It may be the distance to another array, and no identity makes a number of it."""
    text = KEPT.replace(".u32 n)", ".u32 n, .param .u64 m)").replace(
        "%rd<9>", "%rd<9>, %one, %also"
    )
    access = f"{N} {sum_of} ld.global.f32 %f1, [%rd4];"
    (kernel,) = parse_text(text.replace("ACCESS", access)).kernels
    assert not accesses_kept(kernel, Launch((32, 1, 1), sizes={"p": 64}))


@pytest.mark.parametrize(
    "moved",
    [
        "mul.lo.s64 %rd4, %rd1, 1;",
        "shl.b64 %rd4, %rd1, 0;",
        "mad.lo.s64 %rd4, %rd1, 1, 8;",
        "mad.lo.s64 %rd4, %rd8, 4, %rd1;",
        "shl.b64 %rd0, %rd8, 2; add.s64 %rd4, %rd0, %rd1;",
        "mad.lo.s64 %rd4, %rd3, -1, %rd1;",
        "rem.u64 %rd0, %rd3, %rd8; add.s64 %rd4, %rd1, %rd0;",
    ],
)
def test_a_pointer_stays_one_however_it_is_written(moved: str) -> None:
    text = KEPT.replace(".u32 n)", ".u32 n, .param .u64 m)").replace(
        "%rd<9>", "%rd<9>, %one, %also"
    )
    access = f"{N} {moved} ld.global.f32 %f1, [%rd4];"
    (kernel,) = parse_text(text.replace("ACCESS", access)).kernels
    assert len(accesses_kept(kernel, Launch((32, 1, 1), sizes={"p": 64}))) == 1
