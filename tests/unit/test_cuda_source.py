"""CUDA source at every door: places are of what was written, plans compile it once."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from programs import run_program

from ptxwcet.commands.check.report import run_plan
from ptxwcet.commands.check.study import read_plan
from ptxwcet.opened.inputs import Inputs
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.sweeps import sweep_run
from ptxwcet.sweeps.kernel_work import bound_unit, kernel_unit
from ptxwcet.sweeps.sweep_plan import SweepPlan, read_sweep_plan
from ptxwcet.sweeps.sweep_run import SweepResult

pytestmark = pytest.mark.fast

CUDA = """\
extern "C" __global__ void tiled(float* out, int n) {
  for (int i = 0; i < TILE; i++) out[i] = 0;
  for (int i = 0; i < n; i++) out[i] = 1;
}
"""
PTX = """\
.version 8.0
.target sm_86
.address_size 64
.visible .entry tiled(.param .u64 tiled_param_0, .param .u32 tiled_param_1)
{
\t.reg .pred %p<3>;
\t.reg .b32 %r<9>;
\t.loc\t1 1 0
\tld.param.u32 %r3, [tiled_param_1];
\tmov.u32 %r1, 0;
\tmov.u32 %r2, 0;
$L1:
\t.loc\t1 2 3
\tadd.s32 %r1, %r1, 1;
\tsetp.lt.s32 %p1, %r1, TILE;
\t@%p1 bra $L1;
\t.loc\t1 3 3
$L2:
\tadd.s32 %r2, %r2, 1;
\tsetp.lt.s32 %p2, %r2, %r3;
\t@%p2 bra $L2;
\tret;
}
\t.file\t1 "SOURCE"
"""
COMPILER = r"""#!/bin/sh
folder=$(dirname "$0")
echo "$*" >> "$folder/calls"
tile=4
while [ $# -gt 0 ]; do
  case "$1" in
    -DTILE=0) echo "kernel.cu(2): error: TILE" >&2; exit 2 ;;
    -DTILE=*) tile=${1#-DTILE=} ;;
    -E) is_text=1 ;;
    --dryrun) echo "$MORE $*" >&2; exit ;;
    --version) echo "nvcc 1.0"; exit ;;
    -o) out=$2; shift ;;
  esac
  last=$1
  shift
done
if [ "$is_text" ]; then cat "$last" "$folder/header" > "$out" 2> /dev/null; exit 0; fi
sed "s|TILE|$tile|; s|SOURCE|$(realpath "$last")|" "$folder/kernel.ptx" > "$out"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with CUDA source, and a compiler on the PATH that notes how it is called."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "nvcc").write_text(COMPILER)
    (tools / "nvcc").chmod(0o755)
    (tools / "kernel.ptx").write_text(PTX)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    (tmp_path / "tile.cu").write_text(CUDA)
    monkeypatch.chdir(tmp_path)
    return tools / "calls"


def test_a_refusal_is_where_the_loop_is_written(calls: Path) -> None:
    given = ("tile.cu", "--arch", "sm_86", "--block", "32")
    ended = run_program(*given)
    assert ended.code == 1
    where = "tile.cu:3:3: error[PW203]"
    assert f"{where}: the number of iterations of this loop is not known" in ended.err
    assert "    3 |   for (int i = 0; i < n; i++) out[i] = 1;\n      |   ^" in ended.err
    assert "  note: in the PTX of tile.cu: line 21, @%p2 bra $L2;" in ended.err
    assert "source line" not in ended.err
    (row,) = json.loads(run_program(*given, "--format", "json").out)["kernels"]
    (told,) = row["diagnostics"]
    assert (told["file"], told["line"], told["column"]) == ("tile.cu", 3, 3)
    for command in (("annotate",), ("report", "--no-simulate", "-o", "page.html")):
        assert where in run_program(*command, *given).err
    assert "(tile.cu:3)" in run_program("facts", *given).out


def written(text: str, at: str, name: str = "src/k.cu") -> Span | None:
    source = SourceFile("PTX of k.cu", text, made_of=SourceFile(name, "first\nsecond\nthird\n"))
    start = text.index(at)
    return Span(source, start, start + len(at)).written


def test_places_of_what_was_inlined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a header of the author the place is there, in one of others where it is called."""
    monkeypatch.chdir(tmp_path)
    call = ".visible .entry k() {{\n.loc 2 9 5, function_name $i, inlined_at 1 2 3\nret;\n}}\n"
    text = call + '.file 1 "/elsewhere/k.cu"\n.file 2 "{}"\n'
    own, others = f"{tmp_path}/src/own.cuh", "/usr/include/others.hpp"
    found = written(text.format(own), "ret;")
    assert str(found) == "src/own.cuh:9:1"
    assert Diagnostic("PW203", "m", found).render() == "src/own.cuh:9:1: error[PW203]: m"
    assert str(written(text.format(others), "ret;")) == "src/k.cu:2:3"
    assert str(written(text.format(others), ".visible")) == "src/k.cu:2:3"  # the first line in it
    assert written(text.format(others).replace("2 3\n", "5 3\n"), "ret;") is None
    assert written(text.format(others).replace("k.cu", "other.cu"), "ret;") is None
    assert written(text.format(others), ".file 1") is None
    two = '.func f() {\n.loc 1 3 1\n}\n.func g() {\nret;\n}\n.file 1 "k.cu"\n'
    assert written(two, "ret;") is None


def test_places_in_listings_of_machine_code() -> None:
    text = (
        '//## File "/src/k.cu", line 1\n.section f\n/*00*/ NOP ;\n//## File "/k.cu", line 2\n'
        '//## File ".nv_debug_ptx_txt", line 40\n/*10*/ EXIT ;\n.section g\n/*00*/ BRA ;\n'
    )
    assert str(written(text, "EXIT")) == "src/k.cu:2:1"
    assert written(text, "BRA") is None


PLAN = """
arch = "sm_86"
[[check]]
files = "tile.cu"
nvcc_options = "-DTILE=8"
block = 32
params = { n = 100 }
budget = "0.01 us"
[[check]]
files = "tile.cu"
nvcc_options = "-DTILE=16"
block = [[32]]
"""


def test_plans_of_checks(calls: Path, tmp_path: Path) -> None:
    plan = PLAN.replace("[[32]]", "64\nparams = { n = 7 }")
    (tmp_path / "p.toml").write_text(f"{plan}[[check]]{plan.split('[[check]]')[1]}grid = 4\n")
    read = read_plan("p.toml")
    options = [one.partition(" -arch=")[2].partition(" -o ")[0] for one in calls.open()]
    assert options == ["sm_86 -DTILE=8", "sm_86 -DTILE=16"]  # each once
    report = run_plan(read, 1)
    kept = tmp_path / "kept"
    assert [run_plan(read, 1, cache=kept) for _ in range(2)] == [report, report]
    over, within, _ = report.checks
    assert over.name == "tiled [block 32, n=100, sm_86 -DTILE=8] on orin-ecrts2025-memory"
    assert within.outcome == "passed"
    (told,) = over.problems
    assert (told.file, told.line) == ("tile.cu", 1)
    assert re.fullmatch(
        r"kernel tiled: the bound, [\d.]+ us \([\d,]+ cycles\), is over the budget of 0.01 us "
        r"\(9 cycles\)",
        told.message,
    )
    loops = [one.answer.loops for one in (over, within)]  # type: ignore[union-attr]
    assert [[loop.iterations for loop in each] for each in loops] == [[8, 100], [16, 7]]


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(PtxwcetError) as raised:
        (read_sweep_plan if "[[sweep]]" in text else read_plan)(str(path))
    return "\n".join(one.render() for one in raised.value.diagnostics)


def test_mistakes_of_plans(calls: Path, tmp_path: Path) -> None:
    path, table = Path("p.toml"), '[[check]]\nfiles = "tile.cu"\nblock = 32\n'
    for text in (table, table.replace("check", "sweep")):
        found = refused(path, text)
        assert "p.toml:2:1: error[PW120]: " in found
        assert ": 'tile.cu' is CUDA source: for which architecture is not said" in found
        assert 'arch = "sm_86"' in found
        found = refused(path, f'{text}arch = "sm_86"\nnvcc_options = "-DTILE=0"\n')
        assert "nvcc does not compile 'tile.cu'" in found
        assert "note: kernel.cu(2): error: TILE" in found
        found = refused(path, f'{text}arch = "sm_86"\nnvcc_options = "-o x"\n')
        assert "the option '-o' of nvcc is not passed on" in found
        found = refused(path, f'{text}arch = "sm_86"\nnvcc_options = "\'"\n')
        assert "quotes come in pairs" in found
        found = refused(path, f'{text}arch = "sm_86"\nnvcc_option = "-DTILE=1"\n')
        assert "unknown key 'nvcc_option'" in found
        assert "did you mean nvcc_options?" in found
        Path("tile.ptx").write_text(PTX.replace("TILE", "4"))
        found = refused(path, text.replace(".cu", ".ptx") + 'arch = "sm_86"\n')
        assert "arch is for CUDA source and binaries: PTX is compiled already" in found


SWEEP = """
[[sweep]]
files = "tile.cu"
arch = ["sm_80", "sm_86"]
nvcc_options = "-DTILE={t}"
block = "{32 * t}"
params = { n = [1, 2] }
axes = { t = [2, 3] }
"""


def test_plans_of_sweeps(calls: Path, tmp_path: Path) -> None:
    """An axis is a macro: compiled once for each value, however many units there are."""
    (tmp_path / "s.toml").write_text(SWEEP)
    plan = read_sweep_plan("s.toml")
    assert len(calls.read_text().splitlines()) == 4
    assert plan.columns == ("t", "param.n", "set.arch")
    units = list(plan.units())
    assert plan.count() == len(units) == 8
    assert [one.values for one in units[:3]] == [(2, 1, "sm_80"), (2, 2, "sm_80"), (2, 1, "sm_86")]
    inputs, cycles, keys = Inputs(), {}, set()
    for planned in units:
        keyed = inputs.keyed(planned.request)
        keys.add(keyed.key)
        unit = kernel_unit(planned.index, keyed, inputs.supplied(keyed))
        assert PTX[:20] not in json.dumps(unit.payload)  # the text is sent once, not with each
        row = bound_unit(unit.payload, unit.shared)["summary"]
        assert (row["outcome"], row["kernel"]) == ("bounded", "tiled")
        cycles[planned.values] = row["cycles"]
    assert cycles[2, 1, "sm_86"] < cycles[2, 2, "sm_86"] < cycles[3, 2, "sm_86"]
    assert len(keys) == 4  # one PTX for both architectures is one question
    assert len(calls.read_text().splitlines()) == 4


def test_a_sweep_that_goes_on_compiles_nothing_again(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept in the output folder, which is the plan's afterwards; no other one is touched."""

    def kept_in(plan: SweepPlan, folder: Path, *_: object, **__: object) -> SweepResult:
        return SweepResult(folder, Counter(bounded=plan.count()), 0)

    monkeypatch.setattr(sweep_run, "run_sweep", kept_in)

    def compilations(*folder: str, plan: str = "s.toml") -> int:
        before = calls.read_text() if calls.exists() else ""
        assert run_program("sweep", plan, "-o", *folder).code == 0
        new = calls.read_text().removeprefix(before).splitlines()
        return sum(one.startswith("-ptx ") for one in new)

    for plan in ("s.toml", "other.toml"):
        (tmp_path / plan).write_text(SWEEP)
    assert [compilations("out"), compilations("out", "--resume")] == [4, 0]
    sweep_run.claim_of(read_sweep_plan("s.toml")).take(
        tmp_path / "out", resume=False, is_used=lambda _: False
    )
    assert compilations("out", "--resume") == 0
    assert compilations("out", plan="other.toml") == 4
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").touch()
    assert compilations("full") == 4
    assert [one.name for one in (tmp_path / "full").iterdir()] == ["notes"]


def test_what_was_compiled_is_kept_by_its_content(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the text behind the preprocessor, the options and the compiler; damage is noticed."""
    (tmp_path / "p.toml").write_text(PLAN.replace("[[32]]", "64"))
    kept = tmp_path / "kept"

    def compilations() -> int:
        before = calls.read_text() if calls.exists() else ""
        jobs = read_plan("p.toml", kept).jobs
        assert all("setp.lt.s32 %p1" in (job.request.text or "") for job in jobs)
        assert "%r1, 8;" in (jobs[0].request.text or "")
        new = calls.read_text().removeprefix(before).splitlines()
        return sum(one.startswith("-ptx ") for one in new)

    assert [compilations(), compilations()] == [2, 0]
    (calls.parent / "header").write_text("int more;")  # that is included
    assert [compilations(), compilations()] == [2, 0]
    monkeypatch.setenv("MORE", "-fmad=false")  # of which nvcc hears by its environment
    assert [compilations(), compilations()] == [2, 0]
    for path in (kept / "compiled").iterdir():
        path.write_bytes(path.read_bytes().replace(b", 8;", b", 9;"))
    assert [compilations(), compilations()] == [1, 0]


@pytest.mark.parametrize(
    ("command", "table"),
    [(("check",), "check"), (("sweep", "-o", "out"), "sweep"), (("sequence",), "launch")],
)
def test_source_that_is_not_compiled_is_a_mistake_of_the_plan(
    calls: Path, command: tuple[str, ...], table: str
) -> None:
    """Its exit code is that of other mistakes of plans, whatever their codes are."""
    key = "file" if table == "launch" else "files"
    text = (
        f'[[{table}]]\n{key} = "tile.cu"\narch = "sm_86"\nnvcc_options = "-DTILE=0"\nblock = 32\n'
    )
    Path("p.toml").write_text(text)
    name, *options = command
    ended = run_program(name, "p.toml", *options)
    assert (ended.code, ended.out) == (2, "")
    assert f"p.toml:2:1: error[PW120]: {table} 1: nvcc does not compile 'tile.cu'" in ended.err
    Path("p.toml").write_text(text.replace("tile.cu", "absent.cu").replace("arch", "archi"))
    ended = run_program(name, "p.toml", *options)
    assert ended.code == 2
    assert "did you mean arch? " in ended.err


def test_nothing_is_said_of_the_architecture_of_a_file_that_is_not_there(calls: Path) -> None:
    found = refused(Path("p.toml"), '[[check]]\nfiles = "tiel.cu"\narch = "sm_86"\n')
    assert "error[PW573]: check 1: no file 'tiel.cu'" in found
    assert "arch is for" not in found


def test_a_sequence_takes_source_and_compiles_it_once(calls: Path) -> None:
    launch = (
        '[[launch]]\nfile = "tile.cu"\narch = "sm_86"\nnvcc_options = "-DTILE=8"\n'
        'block = 32\ngrid = "2"\nparams = { n = 10 }\n'
    )
    Path("p.toml").write_text(launch + launch.replace("10", "20"))
    ended = run_program("sequence", "p.toml", "--format", "json")
    assert ended.code == 0, ended.err
    first, second = json.loads(ended.out)["launches"]
    assert first["cycles"] < second["cycles"]
    assert sum("-DTILE=8" in one for one in calls.read_text().splitlines()) == 1
    Path("p.toml").write_text('[[launch]]\nfile = "k.ptx"\narch = "sm_86"\n')
    ended = run_program("sequence", "p.toml")
    assert ended.code == 2
    assert "p.toml:3:1: error[PW550]: launch 1: arch is for CUDA source" in ended.err


def test_a_mistake_in_one_check_hides_none_of_the_others(calls: Path) -> None:
    tables = (
        'files = "tile.cu"\narch = "sm_86"\nblok = 32\n',
        'files = "absent*.cu"\n',
        'files = "tile.cu"\narch = "sm_86"\nkernels = ["tield"]\n',
        'files = "tile.cu"\narch = "sm_86"\nmachines = ["titan"]\n',
    )
    found = refused(Path("p.toml"), "".join(f"[[check]]\n{one}" for one in tables))
    assert re.findall(r"p.toml:(\d+):1: error\[(PW\d+)\]", found) == [
        ("4", "PW571"),
        ("6", "PW573"),
        ("10", "PW208"),
        ("14", "PW301"),
    ]
    for one in ("block", "tiled", "titan-v"):
        assert f"did you mean {one}? " in found


@pytest.mark.parametrize(
    ("said", "meant"), [("sm86", "sm_86"), ("SM_90a", "sm_90a"), ("8.6", None), ("ampere", None)]
)
def test_a_word_that_is_no_architecture(calls: Path, said: str, meant: str | None) -> None:
    near = "" if meant is None else f"did you mean {meant}? "
    ended = run_program("tile.cu", "--arch", said, "--block", "32")
    assert ended.code == 2
    assert f"error[PW120]: '{said}' is no architecture\n" in ended.err
    assert f"  help: {near}for example sm_86" in ended.err
    text = f'[[check]]\nfiles = "tile.cu"\narch = "{said}"\n'
    assert f"p.toml:2:1: error[PW120]: check 1: '{said}' is no" in refused(Path("p.toml"), text)
    ended = run_program("tile.cu", "--block", "32")
    assert ended.code == 2
    assert "'tile.cu' is CUDA source: for which architecture is not said" in ended.err
    assert run_program("tile.cu", "--machine-code", "--block", "32").code == 2
    assert not calls.exists()  # nothing was compiled
