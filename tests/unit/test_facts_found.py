"""Facts of options find what they are about: loops by the lines that tables show, parameters by the
kernels that have them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.commands.check.study import read_plan
from ptxwcet.sweeps.sweep_plan import read_sweep_plan

pytestmark = pytest.mark.fast

LOOPS = SAMPLES / "loops.ptx"
KERNEL = """
.visible .entry {name}(.param .u64 {name}_param_0, .param .{kind} {name}_param_1)
{{
\t.reg .pred %p<2>;
\t.reg .b32 %r<4>;
\tld.param.u32 %r1, [{name}_param_{used}];
\tmov.u32 %r2, 0;
${name}:
\tadd.s32 %r2, %r2, 1;
\tsetp.lt.u32 %p1, %r2, %r1;
\t@%p1 bra ${name};
\tret;
}}
"""
HEAD = ".version 8.0\n.target sm_86\n.address_size 64\n"
CUDA = "__global__ void one(float* a, int n) {}\n__global__ void two(float* a, float m) {}\n"


@pytest.mark.parametrize("name", ["loop_up", "loop_unrolled", "loop_break"])
def test_a_line_of_the_table_is_one_that_an_option_finds(name: str) -> None:
    """Or it says that only the label does."""

    def found(**more: object) -> ptxwcet.Bound:
        return ptxwcet.bound(LOOPS, kernel=name, block=32, params={"n": 99}, **more)

    first = found()
    rows = first.to_dict()["loops"]
    for row in rows:
        line, _, only = row["source_line"].partition(" ")
        is_shared = [one["source_line"] for one in rows].count(line) > 1
        assert only == ("(label only)" if name == "loop_break" else "")
        assert found(loop_bounds={row["block"]: row["iterations"]}).cycles <= first.cycles
        if not only and not is_shared:
            assert found(loop_bounds={line: row["iterations"]}).cycles <= first.cycles
            continue
        with pytest.raises(ptxwcet.PtxwcetError) as raised:
            found(loop_bounds={line: row["iterations"]})
        (told,) = raised.value.diagnostics
        assert told.code == "PW219"
        if is_shared:  # an option for each is in the help
            assert all(one["block"] in (told.help or "") for one in rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two kernels with a pointer each, of which the first has an n and the second an m."""
    rows = (("one", "u32", 1), ("two", "f32", 0))
    kernels = [KERNEL.format(name=name, kind=kind, used=used) for name, kind, used in rows]
    (tmp_path / "k.ptx").write_text(HEAD + "".join(kernels))
    (tmp_path / "k.cu").write_text(CUDA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


BOUNDS = ("--block", "32", "-q", "k.ptx")


def test_a_parameter_is_of_the_kernels_that_have_it(folder: Path) -> None:
    bounds = [
        run_program(*BOUNDS, "--loop-bound", "$two=3", "-k", "two"),
        run_program(*BOUNDS, "--param", "n=5", "-k", "one"),
    ]
    assert [one.code for one in bounds] == [0, 0]
    both = run_program(*BOUNDS, "--param", "n=5", "--param", "a=align:16", "--param", "m=0.5")
    assert both.out == f"{bounds[1].out}two refused PW203\n"
    # a name that no kernel has, and one of a kernel that is not asked for, fit nothing
    for given in (("--param", "nn=5"), ("--param", "n=5", "-k", "two")):
        refused = run_program(*BOUNDS, *given)
        assert refused.code == 2
        assert "has no parameter 'n" in refused.err
    assert (
        "help: did you mean n? name a parameter by" in run_program(*BOUNDS, "--param", "nn=5").err
    )
    meant = run_program(*BOUNDS, "-k", "onne")
    assert "help: did you mean one? a kernel is an .entry" in meant.err


def test_also_in_plans(folder: Path) -> None:
    for table in ("check", "sweep"):
        text = (
            f'[[{table}]]\nfiles = "k.ptx"\nblock = 32\nparams = {{ n = 5, m = "0.5", a = 256 }}\n'
        )
        (folder / "p.toml").write_text(text)
        (folder / "q.toml").write_text(f'{text}kernels = ["two"]\n')
        if table == "check":
            found = [[job.request for job in read_plan(name).jobs] for name in ("p.toml", "q.toml")]
        else:
            plans = read_sweep_plan("p.toml"), read_sweep_plan("q.toml")
            found = [[unit.request for unit in plan.units()] for plan in plans]
            assert [unit.values for unit in plans[0].units()] == [
                (5, None, 256),
                (None, "0.5", 256),
            ]
        assert [one.kernels for one in found[0]] == [("one",), ("two",)]
        assert [one.parameters for one in found[0]] == [("n=5", "a=256"), ("m=0.5", "a=256")]
        assert [one.parameters for one in found[1]] == [("n=5", "m=0.5", "a=256")]


def test_also_in_facts_files(folder: Path) -> None:
    for name, code in (("n", 0), ("nn", 2)):
        digest = hashlib.sha256((folder / "k.ptx").read_bytes()).hexdigest()
        (folder / "f.toml").write_text(f'ptx = "sha256:{digest}"\n[parameters]\n{name} = 5\n')
        ended = run_program(*BOUNDS, "--facts", "f.toml", "--loop-bound", "$two=3", "-k", "two")
        assert ended.code == 2, "asked for alone, it has no such parameter"
        both = run_program("cfg", "k.ptx", "--block", "32", "--facts", "f.toml")
        assert ("has no parameter" in both.err) is bool(code)
