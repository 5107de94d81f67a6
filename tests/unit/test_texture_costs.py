"""Textures and surfaces: the most that a lane fetches, charged where a machine has a row for it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from parsing import parse_text, places_of
from places import DATA
from programs import run_program

from ptxwcet.ir.kernel import Instruction, Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.loader import shipped_machines
from ptxwcet.memory.analysis import Transactions, transactions_at_worst

pytestmark = pytest.mark.fast

HEAD = ".version 6.0\n.target sm_70\n.address_size 64\n"
BODY = """.visible .entry k(.param .u64 t, .param .u64 p, .param .u32 n) {{
.reg .b64 %d<4>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p;
ld.param.u64 %d1, [t]; ld.param.u64 %d2, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0;
mov.f32 %f5, 0f00000000; mov.f32 %f6, %f5;
L: {fetch}
add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, %r1; @%p bra L;
ret; }}
"""
FOUR = "{%f1, %f2, %f3, %f4}"
TWO = "{%f5, %f6}"
ROW = """
texture = { unit = "GMEM", initiation_cycles = 4, latency_cycles = 500, evidence = "measured", \
source = "bench" }
"""
OTHER = files("ptxwcet.machine") / "models" / "orin-ecrts2025-memory.toml"


@pytest.mark.parametrize(
    ("statement", "sectors"),
    [
        (f"tex.1d.v4.f32.f32 {FOUR}, [%d1, {{%f5}}];", 4),
        (f"tex.2d.v4.f32.f32 {FOUR}, [%d1, {TWO}];", 6),
        (f"tex.3d.v4.f32.f32 {FOUR}, [%d1, {{%f5, %f6, %f5, %f5}}];", 10),
        (f"tex.base.2d.v4.f32.f32 {FOUR}, [%d1, {TWO}];", 6),
        (f"tex.level.2d.v4.f32.f32 {FOUR}, [%d1, {TWO}], %f7;", 10),
        (f"tex.grad.2d.v4.f32.f32 {FOUR}, [%d1, {TWO}], {TWO}, {TWO};", 130),
        (f"tld4.r.2d.v4.f32.f32 {FOUR}, [%d1, {TWO}];", 6),
        ("txq.width.b32 %r3, [%d1];", 1),
        ("suq.width.b32 %r3, [%d1];", 1),
        ("suld.b.2d.v4.b32.trap {%r3, %r4, %r5, %r6}, [%d1, {%r2, %r2}];", 2),
        ("sust.b.1d.b32.trap [%d1, {%r2}], {%r3};", 2),
    ],
)
def test_a_warp_takes_the_worst_filter_in_every_lane(statement: str, sectors: int) -> None:
    (kernel,) = parse_text(HEAD + BODY.format(fetch=statement)).kernels
    (fetch,) = fetches(kernel)
    whole = 32 * sectors
    partial = whole if statement.startswith("sust") else 0  # nobody knows what a store fills
    expected = Transactions(sectors=whole, lines=whole, partial=partial)
    assert transactions_at_worst(fetch) == expected


def test_reductions_of_surfaces_wait_for_each_other() -> None:
    statement = "sured.b.add.2d.u32.trap [%d1, {%r2, %r2}], %r3;"
    (kernel,) = parse_text(HEAD + BODY.format(fetch=statement)).kernels
    (fetch,) = fetches(kernel)
    assert transactions_at_worst(fetch) == Transactions(sectors=64, lines=64, serial=32, partial=64)


def fetches(kernel: Kernel) -> list[Instruction]:
    at = places_of(kernel, OpClass.TEXTURE, OpClass.SURFACE)
    return [kernel.instructions[place] for place in at]


def run(tmp_path: Path, machine: str, fetch: str) -> tuple[int, str]:
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + BODY.format(fetch=fetch))
    words = ["bound", str(path), "--block", "32", "--param", "n=10", "--machine", machine]
    ended = run_program(*words)
    return ended.code, ended.out + ended.err


FETCH = f"tex.2d.v4.f32.f32 {FOUR}, [%d1, {TWO}];"


def test_a_row_charges_them_and_loops_are_counted(tmp_path: Path) -> None:
    machine = tmp_path / "m.toml"
    text = OTHER.read_text(encoding="utf-8").replace("[sources]", "[sources]\nbench = 'ours'")
    machine.write_text(f"{text}\n[ops]{ROW}", encoding="utf-8")
    code, output = run(tmp_path, str(machine), FETCH)
    assert code == 0, output
    cycles = int(output.split("BOUND")[1].split()[0].replace(",", ""))
    assert cycles >= 10 * 192  # 32 lanes, four texels and two descriptors each


def test_other_machines_refuse_them_by_name(tmp_path: Path) -> None:
    code, output = run(tmp_path, "orin-ecrts2025-memory", FETCH)
    assert code != 0
    assert "PW402" in output
    assert "texture" in output


@pytest.mark.parametrize("name", shipped_machines())
@pytest.mark.parametrize("statement", [FETCH, "suld.b.1d.b32.trap {%r3}, [%d1, {%r2}];"])
def test_the_remedy_is_a_file_with_which_the_kernel_is_bounded(
    name: str, statement: str, tmp_path: Path
) -> None:
    """Textures and surfaces: what the refusal prints is written to a file as it stands."""
    code, output = run(tmp_path, name, statement)
    assert code != 0
    assert "PW402" in output
    lines = output.partition("  help: ")[2].splitlines()
    assert "in whose place belong those that you measure" in lines[0]
    mine = tmp_path / "mine.toml"
    mine.write_text("\n".join(line.removeprefix("    ") for line in lines[1:8]) + "\n")
    code, output = run(tmp_path, str(mine), statement)
    assert code == 0, output
    assert "BOUND" in output


def test_the_remedy_for_a_file_of_ones_own_is_rows_of_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    head = 'schema = 1\nextends = "titan-v"\nname = "mine"\n'
    mine.write_text(head)
    _, output = run(tmp_path, str(mine), FETCH)
    lines = output.partition("  help: ")[2].splitlines()
    assert "write into the machine file" in lines[0]
    rows = [line.removeprefix("    ") for line in lines[1:5]]
    assert rows[0] == "[sources]"
    mine.write_text(head + "\n".join(rows) + "\n")
    code, output = run(tmp_path, str(mine), FETCH)
    assert code == 0, output


@pytest.mark.parametrize("name", ["texture_extends.toml", "texture_example_row.toml"])
def test_files_that_lack_unit_and_source_are_told_both(name: str, tmp_path: Path) -> None:
    code, output = run(tmp_path, str(DATA / "faults" / "machines" / name), FETCH)
    assert code != 0
    assert "declared units: SP, INT, SFU, DP, TENSOR, MEM, GMEM" in output
    assert 'write [sources] bench = "where it is from"' in output
    mended = tmp_path / "mended.toml"
    text = (DATA / "faults" / "machines" / name).read_text().replace("LSU", "GMEM")
    head, table, rows = text.partition("[sources]")
    bench = '\nbench = "our own microbenchmark"'
    mended.write_text(f"{head}{table}{bench}{rows}" if table else f"{text}[sources]{bench}\n")
    code, output = run(tmp_path, str(mended), FETCH)
    assert code == 0, output
