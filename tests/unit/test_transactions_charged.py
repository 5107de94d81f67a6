"""What lines, bank conflicts and waiting lanes cost in bounds, and what is said of them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from parsing import places_of
from places import SAMPLES

import ptxwcet
from ptxwcet.cli.main import commands
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.op_classes import OpClass, Space
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.cost import InstructionCosts
from ptxwcet.timing.launch_costs import kernel_accesses
from ptxwcet.warp.program import TimedInstruction

pytestmark = pytest.mark.fast

PLAIN, CHARGED = "orin-ecrts2025", "orin-ecrts2025-memory"
SIDES = {"width": 1024, "height": 1024}


def cycles(name: str, block: object, machine: str, **params: int) -> int:
    path = SAMPLES / f"{name}.ptx"
    found = ptxwcet.bound(
        path, block=block, grid=(32, 32), machine=machine, params=params, kernel=name
    )
    return found.cycles


@pytest.mark.parametrize(
    ("name", "block", "params"),
    [("vector_add", 256, {"n": 1024}), ("saxpy", 256, {"n": 1024})],
)
def test_consecutive_elements_cost_what_they_did(
    name: str, block: int, params: dict[str, int]
) -> None:
    assert cycles(name, block, CHARGED, **params) == cycles(name, block, PLAIN, **params)


def test_columns_cost_a_line_a_lane() -> None:
    plain = cycles("transpose_naive", (32, 8), PLAIN, **SIDES)
    # a store of 32 lines in the place of one, by each of 8 warps
    assert cycles("transpose_naive", (32, 8), CHARGED, **SIDES) == plain + 8 * 31


def test_the_transposes_are_in_the_right_order() -> None:
    naive, tiled = (
        ptxwcet.bound(
            SAMPLES / f"{name}.ptx", block=(32, 8), grid=grid, machine=CHARGED, params=SIDES
        ).launch_cycles
        for name, grid in (("transpose_naive", (32, 128)), ("transpose_tiled", (32, 32)))
    )
    assert naive is not None
    assert tiled is not None
    assert naive > 2 * tiled


@pytest.mark.parametrize(("name", "most"), [("sgemm_naive", 1.06), ("sgemm_double_buffered", 1.05)])
def test_exact_counts_cost_little(name: str, most: float) -> None:
    params = {"M": 1024, "N": 1024, "K": 1024}
    plain, charged = (cycles(name, (32, 32), machine, **params) for machine in (PLAIN, CHARGED))
    assert plain <= charged <= most * plain


KERNEL = """.version 8.1
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .b64 %rd<9>;
.reg .b32 %r<9>;
.shared .align 4 .b8 s[8192];
ld.param.u64 %rd1, [p];
cvta.to.global.u64 %rd2, %rd1;
mov.u32 %r1, %tid.x;
{body}
ret;
}}
"""


def charged(body: str) -> int:
    """Cycles at its unit of the last instruction of a body."""
    text = KERNEL.format(body=body)
    row = ptxwcet.analyse(text, block=64, machine=CHARGED).answer.answered[0]
    program = row.worst.analysis.workload.classes[0].program
    timed = [one for one in program.body if isinstance(one, TimedInstruction)]
    return timed[-2].initiation_cycles


GLOBAL = "mul.wide.u32 %rd3, %r1, {}; add.s64 %rd4, %rd2, %rd3; ld.global.u32 %r2, [%rd4+{}];"
SHARED = "mul.lo.u32 %r2, %r1, {}; mov.u32 %r3, s; add.u32 %r4, %r3, %r2; {}"
STORE, LOAD = "st.shared.u32 [%r4], 1;", "ld.shared.u32 %r5, [%r4];"
GENERIC = "mul.wide.u32 %rd3, %r1, 128; add.s64 %rd4, %rd1, %rd3; {}"
INDEXED = "mul.wide.u32 %rd5, %r2, 4; add.s64 %rd6, %rd2, %rd5; ld.global.u32 %r3, [%rd6];"


@pytest.mark.parametrize(
    ("body", "cycles"),
    [
        (GLOBAL.format(4, 0), 1),
        (GLOBAL.format(4, 4), 2),
        (GLOBAL.format(128, 0), 32),
        ("ld.global.u32 %r2, [%rd2]; atom.global.add.u32 %r3, [%rd2], 1;", 33),
        (SHARED.format(4, STORE), 1),
        (SHARED.format(8, STORE), 2),
        (SHARED.format(128, LOAD), 32),
        (SHARED.format(132, LOAD), 1),
        ("mov.u32 %r3, s; red.shared.add.u32 [%r3], 1;", 32),
        (f"ld.global.u32 %r2, [%rd2]; {INDEXED}", 1),
        (f"{GLOBAL.format(4, 0)} {INDEXED}", 32),
        (GENERIC.format("prefetchu.L1 [%rd4];"), 64),  # a line or a bank's word a lane
        (GENERIC.format("prefetch.L2 [%rd4];"), 64),
    ],
)
def test_what_an_access_takes(body: str, cycles: int) -> None:
    assert charged(body) == cycles


@pytest.mark.parametrize(
    ("body", "sectors", "exact"),
    [
        ("ld.global.u32 %r2, [%rd2];", 1, True),
        ("ld.global.L2::64B.u32 %r2, [%rd2];", 2, False),
        ("ld.global.L2::128B.u32 %r2, [%rd2];", 4, False),
        ("ld.global.L2::256B.u32 %r2, [%rd2];", 8, False),
        ("prefetch.global.L2 [%rd2];", 4, False),
        (GLOBAL.replace("ld.global", "ld.global.L2::128B").format(4, 0), 4, True),
        (f"{GLOBAL.format(4, 0)} {INDEXED}".replace("ld.global", "ld.global.L2::128B"), 128, False),
        ("cp.async.cg.shared.global.L2::256B [s], [%rd2], 16;", 8, False),
    ],
)
def test_the_memory_serves_what_is_fetched_around_an_access(
    body: str, sectors: int, exact: bool
) -> None:
    """A prefetch takes its line, and a hint lets the machine take more than it says of lanes."""
    (kernel,) = parse_module(SourceFile("k.ptx", KERNEL.format(body=body))).kernels
    accesses = kernel_accesses(kernel, Launch((64, 1, 1))).accesses
    last = [one for one in accesses if one.access.space is Space.GLOBAL][-1]
    assert (last.most.sectors, last.exact) == (sectors, exact)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("mov.u64 %rd3, %rd1;", 0),
        ("mov.b64 %rd4, a; cvta.param.u64 %rd3, %rd4;", 32),
        ("ld.global.u64 %rd3, [%rd2];", 0),
        ("mul.wide.u32 %rd4, %r1, 8; add.s64 %rd5, %rd2, %rd4; ld.global.u64 %rd3, [%rd5];", 32),
    ],
)
def test_a_generic_address_may_be_one_of_constants(address: str, words: int) -> None:
    """A parameter that is read through a pointer is read address by address, as it is without."""
    load = "mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd3, %rd6; ld.u32 %r2, [%rd7];"
    text = KERNEL.replace("(.param .u64 p)", "(.param .u64 p, .param .align 4 .b8 a[128])")
    (kernel,) = parse_module(SourceFile("k.ptx", text.format(body=address + load))).kernels
    last = kernel_accesses(kernel, Launch((32, 1, 1))).accesses[-1]
    assert (last.access.space, last.most.words) == (Space.GENERIC, words)


def test_what_nobody_analysed_is_charged_at_its_worst() -> None:
    body = "ld.global.v2.u32 {%r2, %r3}, [%rd2]; st.shared.u32 [s], 1;"
    text = KERNEL.format(body=body)
    (kernel,) = parse_module(SourceFile("k.ptx", text)).kernels
    costs = InstructionCosts(load_machine(CHARGED))
    places = places_of(kernel, OpClass.LOAD_GLOBAL, OpClass.STORE_SHARED)
    assert len(places) == 2
    for at in places:
        (node, *_) = costs.nodes(at, kernel.instructions[at])
        assert node.initiation_cycles == 32  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("statement", "op_class"),
    [
        ("multimem.red.relaxed.gpu.global.add.u32 [%rd1], %r1;", OpClass.MULTIMEM),
    ],
)
def test_what_is_not_counted_is_refused_where_accesses_are_charged(
    statement: str, op_class: OpClass
) -> None:
    """Also on machines with a row for it: what it takes of memory would cost nothing."""
    text = KERNEL.format(body=statement).replace("sm_80", "sm_90")
    index, instruction = next(
        (index, one)
        for index, one in enumerate(parse_module(SourceFile("k.ptx", text)).kernels[0].instructions)
        if one.op_class is op_class
    )
    for name, is_refused in ((PLAIN, False), (CHARGED, True)):
        machine = load_machine(name)
        timings = {**machine.timings, op_class: machine.timings[OpClass.LOAD_GLOBAL]}
        costs = InstructionCosts(replace(machine, timings=timings))
        costs.nodes(index, instruction)
        assert costs.has_refusals is is_refused


def test_pointers_are_aligned_by_assumption() -> None:
    params = {"n": 1000}
    bound = ptxwcet.bound(SAMPLES / "saxpy.ptx", block=256, grid=4, machine=CHARGED, params=params)
    assert "aligned-pointers" in bound.assumptions


def test_stated_alignments_are_assumptions() -> None:
    """Bounds of 512 and of 32 bytes differ by what is said, so the claim says it."""
    ptx, said = str(SAMPLES / "vector_add.ptx"), ("n=1000", "a=align:512", "b=align:32")
    (row,) = bound_file(Request(ptx, block="256", parameters=said)).answered
    stated = {one.key: one.text for one in row.worst.bound.claim.assumptions}
    assert stated["stated-alignments"].endswith(": a of 512, b of 32")
    assert stated["aligned-pointers"].endswith(": c")


def test_bytes_of_an_aggregate_are_an_assumption_of_counts() -> None:
    """Its word is the stride between lanes: of 1 element a line, of 32 a line a lane."""
    text = KERNEL.replace("(.param .u64 p)", "(.param .u64 p, .param .align 4 .b8 a[4])")
    load = "ld.param.u32 %r2, [a]; mul.lo.u32 %r3, %r1, %r2; mul.wide.u32 %rd5, %r3, 4;"
    text = text.format(body=f"{load} add.s64 %rd6, %rd2, %rd5; st.global.u32 [%rd6], %r1;")
    (kernel,) = parse_module(SourceFile("k.ptx", text)).kernels
    for stride, lines in ((1, 1), (32, 32)):
        given = {"a": stride.to_bytes(4, "little")}
        launch = Launch((32, 1, 1), parameter_bytes=given)
        assert kernel_accesses(kernel, launch).accesses[-1].most.lines == lines
        row = analyse_kernel(kernel, launch, load_machine(CHARGED))
        assumed = [one for one in row.worst.bound.claim.assumptions if one.key == "launch-memory"]
        assert [one.text.rsplit(": ", 1)[1] for one in assumed] == ["a"]


def test_memory_names_the_lines(tmp_path: Path) -> None:
    arguments = ["memory", str(SAMPLES / "transpose_naive.ptx"), "--block", "32x8"]
    arguments += ["--param", "width=1024", "--param", "height=1024", "--machine", CHARGED]
    found = CliRunner().invoke(commands, arguments)
    assert found.exit_code == 0, found.output
    assert "transpose_naive.cu:4  store global 4 B" in found.output
    assert "32 sectors" in found.output
    assert "stride 4096 bytes between lanes" in found.output
    data = json.loads(CliRunner().invoke(commands, [*arguments, "--format", "json"]).output)
    (kernel,) = data["kernels"]
    store = next(one for one in kernel["accesses"] if one["purpose"] == "store")
    assert (store["most"]["sectors"], store["least"]["sectors"]) == (32, 4)
    assert store["exact"] is True
    assert store["share_percent"] > 30


def test_memory_says_what_counts_rest_on() -> None:
    arguments = ["memory", str(SAMPLES / "vector_add.ptx"), "--block", "64", "--param", "n=1..99"]
    found = CliRunner().invoke(commands, [*arguments, "--param", "a=align:512"])
    assert "assumed: n in 1..99; a is a multiple of 512 bytes" in found.output


def test_a_row_is_exact_if_all_accesses_of_it_are(tmp_path: Path) -> None:
    """Bytes 31 apart take 2 passes, but 1 if they begin 3 bytes behind a word."""
    at = "mad.lo.u32 %r4, %r1, 31, %r3;"
    moved = "mov.u32 %r8, %ctaid.x; add.u32 %r6, %r4, %r8;"
    loads = f"ld.shared.u8 %r5, [%r4]; {moved} ld.shared.u8 %r7, [%r6];"
    ptx = tmp_path / "k.ptx"
    ptx.write_text(KERNEL.format(body=f"mov.u32 %r3, s; {at} {loads}"), encoding="utf-8")
    found = CliRunner().invoke(commands, ["memory", str(ptx), "--block", "64"])
    rows = [line.split("because")[0] for line in found.output.splitlines() if "1 B" in line]
    assert [("<= 2 passes" in row, "2 x" in row) for row in rows] == [(True, False), (False, False)]


def test_memory_of_a_kernel_without_a_bound() -> None:
    found = CliRunner().invoke(
        commands, ["memory", str(SAMPLES / "mandelbrot.ptx"), "--block", "32x8"]
    )
    assert found.exit_code == 0, found.output
    assert "store global" in found.output


@pytest.mark.parametrize(("said", "sectors"), [("256", 4), ("32", 4), ("16", 5), ("4", 5)])
def test_alignment_of_pointers_can_be_said(said: str, sectors: int) -> None:
    arguments = ["memory", str(SAMPLES / "transpose_naive.ptx"), "--block", "32x8", "--format"]
    arguments += ["json", "--param", "width=1024", "--param", f"in=align:{said}"]
    (kernel,) = json.loads(CliRunner().invoke(commands, arguments).output)["kernels"]
    assert kernel["accesses"][0]["most"]["sectors"] == sectors
    assert kernel["aligned_pointers"] == ["out"]


@pytest.mark.parametrize(
    "said", ["in=align:3", "in=align:", "width=align:4", "in=align:-4", "in=align:0"]
)
def test_what_is_no_alignment_is_refused(said: str) -> None:
    arguments = [str(SAMPLES / "transpose_naive.ptx"), "--block", "32x8", "--param", said]
    found = CliRunner().invoke(commands, arguments)
    assert "PW214" in found.output
