"""Machine code of CUDA source, of PTX and of binaries: compiled or found, told apart, refused."""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path

import pytest
from places import SAMPLES
from programs import run_program
from sass_listings import SASS, listing, raw, stand_in

import ptxwcet
from ptxwcet.opened.machine_code import machine_code
from ptxwcet.opened.nvcc import Compilation
from ptxwcet.sass.containers import held_code
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.options import Parameter
from ptxwcet.sweeps.sweep_plan import read_sweep_plan

pytestmark = pytest.mark.fast

CUBINS = {arch: (SASS / f"sgemm_naive_{arch}.cubin").read_bytes() for arch in (75, 86, 90)}
OTHER = (SASS / "control_86.cubin").read_bytes()
SIZES = ("--param", "3=32", "--param", "4=32", "--param", "5=32")
LAUNCH = ("--block", "16x16", "--grid", "2x2", "-q", *SIZES)
COMPILER = f"""#!{sys.executable}
import pathlib, sys
words = sys.argv[1:]
pathlib.Path(sys.argv[0] + ".called").write_text("\\n".join(words))
pathlib.Path(words[words.index("-o") + 1]).write_bytes(pathlib.Path({str(SASS)!r},
    "sgemm_naive_86.cubin").read_bytes())
"""
OPENER = f"""#!{sys.executable}
import pathlib, sys
assert sys.argv[1:3] == ["-xelf", "all"]
data = pathlib.Path({str(SASS)!r}, "sgemm_naive_86.cubin").read_bytes()
pathlib.Path("app.1.sm_86.cubin").write_bytes(data)
"""


def entry(data: bytes, architecture: int = 86, kind: int = 2, flags: int = 0x11) -> bytes:
    """An entry of a fat binary."""
    numbers = (kind, 0x101, 64, len(data), 0, 0, 8, 1, architecture, 0, 0, flags, 0, 0)
    return struct.pack("<HHIQIIHHIIIQQQ", *numbers) + data


def fat(*entries: bytes) -> bytes:
    """A fat binary."""
    whole = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(whole)) + whole


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH with tools that know one kernel alone."""
    does = stand_in(tmp_path, monkeypatch)
    does.write_text(f"print({raw('sgemm_naive_86')!r})")
    for name, text in (("nvcc", COMPILER), ("ptxas", COMPILER), ("cuobjdump", OPENER)):
        path = tmp_path / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path / "bin"


def refusal(path: Path | str, architecture: str | None = None, *kernels: str) -> str:
    with pytest.raises(PtxwcetError) as raised:
        machine_code(str(path), Compilation(architecture), kernels)
    (one,) = raised.value.diagnostics
    return one.render()


# --- fat binaries ---------------------------------------------------------------------------------


def test_cubins_are_found_wherever_they_lie() -> None:
    inside = fat(entry(CUBINS[75], 75), entry(b"PTX ", kind=1), entry(CUBINS[86]))
    for data in (inside, b"\x7fELF" + bytes(100) + inside + bytes(9), bytes(3) + inside * 2):
        found = held_code("app", data)
        assert [one.architecture for one in found] == [75, 86] * data.count(inside)
        assert {one.kernels for one in found} == {("sgemm_naive",)}
        assert found[0].data == CUBINS[75]
    (alone,) = held_code("app", CUBINS[90])
    assert (alone.architecture, alone.data) == (90, CUBINS[90])
    (compressed,) = held_code("app", fat(entry(b"LZ4 ", flags=0x2011)))
    assert (compressed.architecture, compressed.data) == (86, None)
    (broken,) = held_code("app", fat(entry(CUBINS[86][:99], 86)))
    assert (broken.architecture, broken.kernels) == (86, None)
    assert held_code("app", b"!<arch>\n" + bytes(1000)) == []


def test_a_fat_binary_that_is_cut_short_or_changed_is_one_diagnostic() -> None:
    whole = fat(entry(CUBINS[75], 75), entry(CUBINS[86]))
    places = (*range(16, 80), *range(16 + 64 + len(CUBINS[75]), 16 + 128 + len(CUBINS[75])))
    changed = [whole[:at] + bytes([255]) + whole[at + 1 :] for at in (*range(16), *places)]
    for data in (*changed, *(whole[:length] for length in range(0, len(whole), 301))):
        try:
            held_code("app", data)
        except PtxwcetError as error:
            (one,) = error.diagnostics
            assert one.code == "PW123"
            assert "fat binary" in one.message


def test_which_cubin_of_a_binary(tools: Path, tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(fat(entry(CUBINS[75], 75), entry(CUBINS[86]), entry(OTHER)))
    assert "holds 3 cubins: which one is meant" in refusal(path)
    assert "note: sm_86: unknown, calls, chosen, parted" in refusal(path, "sm_86")
    assert "holds no machine code for sm_90" in refusal(path, "sm_90")
    assert "is no architecture" in refusal(path, "compute_86")
    found = machine_code(str(path), Compilation("sm_86"), ["sgemm_naive"])
    assert found == listing("sgemm_naive_86")
    path.write_bytes(b"!<arch>\n" + bytes(1000))
    assert "holds no machine code" in refusal(path)
    relocatable = bytearray(CUBINS[86])
    relocatable[16] = 1  # in a program of several files beside the one that is linked
    path.write_bytes(fat(entry(bytes(relocatable)), entry(CUBINS[86])))
    assert machine_code(str(path), Compilation("sm_86a")) == found
    path.write_bytes(fat(entry(bytes(relocatable)), entry(bytes(relocatable))))
    assert "PW123" in (said := refusal(path))
    assert "not linked" in said


def test_compressed_code_is_taken_out_by_the_vendors_tool(tools: Path, tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(fat(entry(b"LZ4 ", flags=0x2011)))
    assert machine_code(str(path), Compilation("sm_86")) == listing("sgemm_naive_86")
    (tools / "cuobjdump").unlink()
    assert "cuobjdump is not on the PATH to take the machine code out" in refusal(path)


LAUNCHED = """
block = [32, 32]
grid = 1
[arguments]
sgemm_naive_param_0 = { shape = [32, 32], dtype = "float32", init = "zeros" }
sgemm_naive_param_1 = { shape = [32, 32], dtype = "float32", init = "zeros" }
sgemm_naive_param_2 = { shape = [32, 32], dtype = "float32", init = "zeros" }
sgemm_naive_param_3 = 32
sgemm_naive_param_4 = 32
sgemm_naive_param_5 = 32
"""


@pytest.mark.parametrize("command", ["bound", "simulate"])
def test_what_executes_takes_the_ptx_of_a_binary(command: str, tools: Path, tmp_path: Path) -> None:
    """Of one that holds both; its machine code is refused, with what to leave out."""
    app, launch = tmp_path / "app", tmp_path / "launch.toml"
    app.write_bytes(fat(entry(b"LZ4 ", kind=1, flags=0x2011), entry(CUBINS[86])))
    launch.write_text(LAUNCHED)
    text = (SAMPLES / "sgemm_naive.ptx").read_text(encoding="utf-8")
    (tools / "cuobjdump").write_text(
        f"#!{sys.executable}\nimport pathlib, sys\nassert sys.argv[1:3] == ['-xptx', 'all']\n"
        f"pathlib.Path('app.1.sm_86.ptx').write_text({text!r})\n"
    )
    given = ("--launch", launch, "--executed", *(("--policy", "gto") if command[0] == "s" else ()))
    shown = run_program(command, app, *given)
    assert shown.code == 0, shown.err
    of_ptx = run_program(command, SAMPLES / "sgemm_naive.ptx", *given)
    found, wanted = (re.findall(r"\d[\d,]* cycles", one.out) for one in (shown, of_ptx))
    assert found == wanted != []
    refused = run_program(command, app, "--machine-code", "--arch", "sm_86", *given)
    assert refused.code
    assert "error[PW127]: kernel sgemm_naive is machine code, and " in refused.err
    assert f"leave --machine-code out: the PTX of '{app}' is taken then" in refused.err


# --- compilers ------------------------------------------------------------------------------------


def test_all_doors_bound_one_machine_code(tools: Path, tmp_path: Path) -> None:
    cubin, app = SASS / "sgemm_naive_86.cubin", tmp_path / "app"
    app.write_bytes(fat(entry(CUBINS[86])))
    bound = run_program(cubin, *LAUNCH)
    assert bound.code == 0, bound.err
    for file in (SAMPLES / "sgemm_naive.cu", SAMPLES / "sgemm_naive.ptx", app, cubin):
        given = () if file == cubin else ("--arch", "sm_86")
        shown = run_program(file, "--machine-code", *given, *LAUNCH)
        assert (shown.code, shown.out) == (0, bound.out), shown.err
    for name, options in (("nvcc", ["-cubin", "-lineinfo"]), ("ptxas", ["-lineinfo", "-o"])):
        called = (tools / f"{name}.called").read_text().splitlines()
        assert set(options) < set(called)
        assert "-arch=sm_86" in called
    params: dict[str | int, Parameter] = {"3": 32, "4": 32, "5": 32}
    for source in (SAMPLES / "sgemm_naive.cu", (SAMPLES / "sgemm_naive.ptx").read_text()):
        found = ptxwcet.bound(
            source, machine_code=True, arch="sm_86", block="16x16", grid="2x2", params=params
        )
        assert f" {found.launch_cycles} " in bound.out
    flow = run_program("cfg", SAMPLES / "sgemm_naive.cu", "--machine-code", "--arch", "sm_86")
    assert flow.code == 0, flow.err
    assert "0x0000" in flow.out


@pytest.mark.parametrize("name", ["nvcc", "ptxas"])
def test_compilers_that_fail(name: str, tools: Path, tmp_path: Path) -> None:
    path = tmp_path / ("$(touch pwned).cu" if name == "nvcc" else "$(touch pwned).ptx")
    path.write_text((SAMPLES / "saxpy.ptx").read_text())
    assert "which architecture" in refusal(path)
    assert "is no architecture" in refusal(path, "sm_86$(touch pwned)")
    (tools / name).write_text("#!/bin/sh\necho no such thing >&2; exit 1\n")
    said = refusal(path, "sm_86")
    assert f"error[PW120]: {name} does not compile" in said
    assert "no such thing" in said
    (tools / name).unlink()
    assert "on the PATH" in refusal(path, "sm_86")
    assert not list(tmp_path.glob("**/pwned"))


def test_files_that_are_linked(tools: Path) -> None:
    other = str(SAMPLES / "saxpy.ptx")
    shown = run_program(SAMPLES / "saxpy.cu", "--machine-code", "--link", other, "--block", "64")
    assert (shown.code, "PW120" in shown.err, "--link" in shown.err) == (1, True, True)


PLAN = """machine_code = true
arch = "sm_86"
[[check]]
files = ["k.cu", "k.ptx", "k.cubin"]
block = "16x16"
params = { 3 = 32, 4 = 32, 5 = 32 }
[[check]]
files = "k.ptx"
machine_code = false
block = "16x16"
params = { 3 = 32, 4 = 32, 5 = 32 }
"""


def test_plans_of_machine_code(tools: Path, tmp_path: Path) -> None:
    """It is made once of each file for each variant; PTX stands beside it where that is asked."""
    for end in ("cu", "ptx"):
        (tmp_path / f"k.{end}").write_text((SAMPLES / f"sgemm_naive.{end}").read_text())
    (tmp_path / "k.cubin").write_bytes(CUBINS[86])
    for name in ("nvcc", "ptxas"):  # which is called how often
        text = COMPILER.replace(".called", ".times").replace(".write_text(", '.open("a").write(')
        (tools / name).write_text(text)
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    shown = run_program("check", plan, "--format", "json")
    assert shown.code == 0, shown.err
    rows = json.loads(shown.out)["checks"]
    cycles = [row["answer"]["bound_cycles"] for row in rows]
    assert cycles[0] == cycles[1] == cycles[2] == 1_803 != cycles[3]
    assert [row["launch"].endswith("sm_86 machine code") for row in rows] == [
        True,
        True,
        *[False] * 2,
    ]
    plan.write_text(
        'arch = "sm_86"\n[[sweep]]\nfiles = ["k.ptx", "k.cubin"]\nmachine_code = [false, true]\n'
        'block = ["16x16", "32x8"]\nparams = { 3 = 32, 4 = 32, 5 = 32 }\n'
    )
    sweep = read_sweep_plan(str(plan))
    units, column = list(sweep.units()), sweep.columns.index("set.machine_code")
    held = [(unit.request.path[-5:], unit.request.is_code, unit.request.block) for unit in units]
    assert held == [
        *(("k.ptx", is_code, block) for is_code in (False, True) for block in ("16x16", "32x8")),
        *(("cubin", False, block) for block in ("16x16", "32x8")),
    ]
    assert {unit.values[column] for unit in units} == {"false", "true"}
    assert (tools / "ptxas.times").read_text().count("-lineinfo") == 2
    assert (tools / "nvcc.times").read_text().count("-lineinfo") == 1


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("machine_code = 1", "machine_code is true or false"),
        ("machine_code = true", "which architecture"),
        ('machine_code = true\nlink = "k.ptx"\narch = "sm_86"', "is not linked here"),
        ('machine_code = true\narch = "sm_86"\nnvcc_options = "-O1"', "nvcc_options is for CUDA"),
        ('arch = "sm_86"', "arch is for CUDA source"),
    ],
)
@pytest.mark.usefixtures("tools")
def test_plans_that_are_wrong_about_machine_code(said: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text((SAMPLES / "sgemm_naive.ptx").read_text())
    plan = tmp_path / "plan.toml"
    for kind in ("check", "sweep"):
        plan.write_text(f'[[{kind}]]\nfiles = "k.ptx"\nblock = "16x16"\n{said}\n')
        shown = run_program(kind, plan, *(["-o", tmp_path / "out"] if kind == "sweep" else []))
        assert shown.code, shown.out
        assert why in shown.err
