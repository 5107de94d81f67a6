"""``import ptxwcet``: sources of any kind, arguments, results, refusals."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import ROOT
from programs import run_program

import ptxwcet
from ptxwcet.library.sources import ptx_of

SAXPY = ROOT / "samples" / "saxpy.ptx"
ADD = ROOT / "samples" / "vector_add.ptx"
TRITON = ROOT / "samples" / "triton_add.ptx"
ONE, OTHER = (
    f".visible .entry {name}(.param .u32 n)\n{{\n.reg .b32 %r<2>;\nmov.b32 %r1, 1;\nret;\n}}\n"
    for name in ("_Z5sobelPKfPfii", "_Z5scalei")
)
TEXT = f".version 8.0\n.target sm_80\n.address_size 64\n{ONE}{OTHER}"


def test_a_file_in_three_lines() -> None:
    found = ptxwcet.bound(ADD, block=256, params={"n": 1000})
    assert found.cycles == 662
    assert found.guarantee == "safe-bound"
    assert found.microseconds == 0.712  # 662 / 930, rounded up to nanoseconds
    assert repr(found) == "<Bound vector_add: 662 cycles, safe-bound, on orin-ecrts2025-memory>"
    assert "alone-on-its-sm" in found.assumptions


def test_it_is_what_the_command_says() -> None:
    command = [sys.executable, "-m", "ptxwcet", str(SAXPY), "--block", "32x8", "--grid", "4"]
    command += ["--param", "n=1000", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    (row,) = json.loads(done.stdout)["kernels"]
    found = ptxwcet.bound(str(SAXPY), block=(32, 8), grid=4, params={"n": 1000})
    assert json.loads(json.dumps(found.to_dict())) == row
    assert found.loops == {one["block"]: one["iterations"] for one in row["loops"]}
    assert f"{found.cycles:,}" in found.text()


@pytest.mark.parametrize(
    "source",
    [
        ADD.read_text(),
        ADD.read_bytes(),
        SimpleNamespace(asm={"ptx": ADD.read_text(), "cubin": b""}),
        SimpleNamespace(__name__="add", inspect_asm=lambda: {("f",): ADD.read_text()}),
        SimpleNamespace(name="vector_add", code=ADD.read_text(), options=()),
        SimpleNamespace(file_path=str(ADD), code=None),
        SimpleNamespace(ptx=ADD.read_bytes()),
    ],
    ids=["text", "bytes", "triton", "numba", "cupy", "cupy module", "any"],
)
def test_what_carries_ptx(source: object) -> None:
    found = ptxwcet.bound(source, block=256, params={3: 1000})
    assert found.cycles == 662


def test_kernels_by_the_names_of_their_source() -> None:
    assert ptxwcet.bound(TEXT, block=32, kernel="sobel").kernel == "sobel"
    assert ptxwcet.bound(TEXT, block=32, kernel="_Z5scalei").kernel == "scale"
    both = ptxwcet.analyse(TEXT, block=32)
    assert list(both) == ["_Z5sobelPKfPfii", "_Z5scalei"]
    assert both["scale"].cycles == both["_Z5scalei"].cycles
    assert "sobel" in both._repr_html_()
    with pytest.raises(ptxwcet.PtxwcetError, match="2 kernels: sobel, scale"):
        ptxwcet.bound(TEXT, block=32)
    with pytest.raises(KeyError):
        both["nothing"]


def test_ranges_tuples_and_bounds_of_loops() -> None:
    known = ptxwcet.bound(SAXPY, block=256, grid=(4, 1), params={"n": range(1, 1001)})
    least = ptxwcet.bound(SAXPY, block=256, grid=(4, 1), params={"n": "1..1000"})
    assert known.cycles == least.cycles
    stated = ptxwcet.bound(SAXPY, block="256", loop_bounds={"$L__BB0_2": 7})
    assert stated.loops == {"$L__BB0_2": 7}
    with pytest.raises(ptxwcet.PtxwcetError, match="no range"):
        ptxwcet.bound(SAXPY, block=256, params={"n": range(0, 9, 2)})


def test_a_refusal_has_its_reasons() -> None:
    with pytest.raises(ptxwcet.PtxwcetError) as caught:
        ptxwcet.bound(SAXPY, block=256)
    assert [one.code for one in caught.value.diagnostics] == ["PW203"]
    assert 'help: give grid=SIZE and params={"n": VALUE}: with' in "\n".join(caught.value.__notes__)
    found = ptxwcet.analyse(SAXPY, block=256)["saxpy"]
    assert isinstance(found, ptxwcet.Refused)
    assert repr(found) == "<Refused saxpy: PW203>"
    assert "PW203" in found._repr_html_()


def test_the_graph_as_a_graph() -> None:
    graph = ptxwcet.cfg(SAXPY).to_networkx()
    assert graph.nodes["$L__BB0_2"]["loops"] == 1
    assert graph.edges["$L__BB0_2", "$L__BB0_2"]["taken"]
    bound = ptxwcet.bound(SAXPY, block=256, grid=1, params={"n": 10})
    assert set(bound.cfg.to_networkx()) == set(graph)
    assert repr(bound.cfg).endswith("1 loops>")


def test_a_run_is_within_the_bound() -> None:
    launched = {"block": 256, "grid": 4, "params": {"n": 1000}}
    run = ptxwcet.simulate(SAXPY, policy="lrr", **launched)
    assert 0 < run.cycles <= ptxwcet.bound(SAXPY, **launched).cycles
    assert "under lrr" in repr(run)


def test_what_a_kernel_computes() -> None:
    answer = ptxwcet.run(SAXPY, ROOT / "samples" / "launches" / "saxpy.toml")
    assert answer.is_complete
    assert answer.outputs


def test_commands_give_the_same_answers(tmp_path: Path) -> None:
    """The JSON of each command is the report of its function."""
    launch: dict[str, Any] = {"block": 256, "params": {"n": 1000}}
    words = ["--block", "256", "--param", "n=1000"]
    add, mandelbrot = str(ADD), str(ROOT / "samples" / "mandelbrot.ptx")
    changed = ptxwcet.what_if(add, {"memory.latency": range(100, 301, 100)}, **launch)
    of_units = ptxwcet.ports(SAXPY, grid=4, **launch)
    for command, found in {
        ("annotate", add, *words, "--ptx"): ptxwcet.annotate(add, ptx=True, **launch),
        ("memory", add, *words): ptxwcet.memory(add, **launch),
        ("memory", add): ptxwcet.memory(add),  # refused
        ("annotate", "ports", add, *words): ptxwcet.ports(add, **launch),
        ("annotate", "ports", str(SAXPY), *words, "--grid", "4"): of_units,
        ("what-if", add, *words, "--set", "memory.latency=100..300:100"): changed,
        ("compare", add, add, *words): ptxwcet.compare(add, add, **launch),
    }.items():
        told = json.loads(run_program(*command, "--format", "json").out)
        told.pop("digest", None)
        assert json.loads(json.dumps(found.to_dict())) == told, command
        assert str(found).startswith(run_program(*command).out), command
    template = run_program("facts", mandelbrot, "--block", "256").out
    found = ptxwcet.facts(mandelbrot, block=256, output=tmp_path / "facts.toml")
    assert found.text() == (tmp_path / "facts.toml").read_text() == template
    with pytest.raises(ptxwcet.PtxwcetError, match="it exists"):
        ptxwcet.facts(mandelbrot, block=256, output=tmp_path / "facts.toml")
    assert ptxwcet.explain("PW810").text() == run_program("explain", "PW810").out
    assert ptxwcet.cfg(ADD).dot() == run_program("cfg", add).out
    with pytest.raises(ValueError, match="no code 'PW000'"):
        ptxwcet.explain("PW000")


def test_results_and_versions_are_compared(tmp_path: Path) -> None:
    launch: dict[str, Any] = {"block": 256, "params": {"n": 1000}}
    now = ptxwcet.bound(ADD, memory_latency=300, **launch)
    before = ptxwcet.analyse(ADD, **launch)
    (row,) = ptxwcet.compare(before, now, threshold=10).kernels
    assert row.worse == ("the bound of the block grew from 662 to 862 cycles, by 30.21 %",)
    assert ptxwcet.compare(before, now, threshold=31).report.worse == 0
    (tmp_path / "old.json").write_text(json.dumps(before.to_dict()))
    assert ptxwcet.compare(tmp_path / "old.json", now).kernels[0].bounds == row.bounds
    with pytest.raises(TypeError, match="a result is compared with a result"):
        ptxwcet.compare(before, ADD)
    with pytest.raises(TypeError, match="block= says how to bound"):
        ptxwcet.compare(before, now, block=256)
    with pytest.raises(TypeError, match="threshold= is of two results"):
        ptxwcet.compare(ADD, ADD, threshold=1, **launch)
    (tmp_path / "both.ptx").write_text(TEXT)
    versions = [f"{tmp_path / 'both.ptx'}:{name}" for name in ("sobel", "scale")]
    assert [one.kernel for one in ptxwcet.compare(*versions, block=32).kernels] == ["scale"]
    with pytest.raises(TypeError, match="kernel= names kernels"):
        ptxwcet.compare(*versions, kernel="scale", block=32)
    with pytest.raises(ptxwcet.PtxwcetError, match="cannot read"):
        ptxwcet.compare("nowhere.ptx", ADD, **launch)


def triton(**changes: object) -> SimpleNamespace:
    """What Triton gives for the sample, or something like it."""
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    source = {"signature": signature, "constants": {(4,): 512}, **changes}
    function = SimpleNamespace(arg_names=["x", "y", "out", "n", "BLOCK"])
    of = SimpleNamespace(fn=function, **source)
    return SimpleNamespace(asm={"ptx": TRITON.read_text()}, src=of)


def test_parameters_of_triton_by_name() -> None:
    usual = ptxwcet.bound(triton(), grid=9, params={"n": 1000}).to_dict()
    assert usual["parameters"] == (("triton_add_param_3", 1000),)
    assert usual["parameter_names"] == (("triton_add_param_3", "n"),)
    pointers = dict.fromkeys(("x", "y", "out"), "*fp32")
    old = triton(signature={**pointers, "n": "i32"}, constants={"BLOCK": 512})
    assert ptxwcet.bound(old, grid=9, params={"n": 1000}).to_dict() == usual


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": {"x": "*fp32", "y": "*fp32", "n": "i32", "out": "*fp32"}},  # another order
        {"signature": {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i64"}},  # another width
        {"signature": {"x": "*fp32", "y": "*fp32", "n": "i32"}},  # one is missing
        {"signature": {"x": "*fp32", "y": ("*fp32", "*fp32"), "out": "*fp32", "n": "i32"}},
        {"signature": {"x": "*fp32", "y": "tensordesc<fp32>", "out": "*fp32", "n": "i32"}},
        {"signature": {0: "*fp32", 1: "*fp32", 2: "*fp32", 3: "i32"}},  # of a file of IR
        {"constants": {(3,): 1}},  # specialised: then it is no parameter
        {"constants": {(1, 0): 1}},  # part of an argument
        {"signature": None},
    ],
)
def test_names_that_do_not_fit_are_none(changes: dict[str, object]) -> None:
    """A value must not go to another parameter: without a name it is refused."""
    with pytest.raises(ptxwcet.PtxwcetError, match="has no parameter 'n'"):
        ptxwcet.bound(triton(**changes), grid=9, params={"n": 1000})


def test_parameters_of_cupy_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compiled(_: str, options: list[str]) -> str:
        asked.append(options)
        return ADD.read_text()

    monkeypatch.setattr("ptxwcet.library.sources.compiled_ptx", compiled)
    code = ADD.with_suffix(".cu").read_text()
    kernel = SimpleNamespace(name="vector_add", code=code, options=("-DN=4",))
    given: dict[str, object] = {"block": 256, "arch": "sm_86", "nvcc_options": "-O3 -DM=1"}
    found = ptxwcet.bound(kernel, params={"n": 1000}, **given)  # type: ignore[arg-type]
    assert found.cycles == 662
    assert asked == [["-DN=4", "-arch=sm_86", "-O3", "-DM=1"]]
    kernel.code = code.replace("int n", "int count")
    assert ptxwcet.bound(kernel, block=256, params={"count": 1000}).cycles == 662
    with pytest.raises(ptxwcet.PtxwcetError, match="has no parameter 'n'"):
        ptxwcet.bound(kernel, block=256, params={"n": 1000})


@pytest.mark.parametrize(
    ("source", "signature", "said"),
    [
        (3, None, "int, carries no PTX"),
        (SimpleNamespace(__name__="k", inspect_asm=dict), None, "not been compiled"),
        (SimpleNamespace(__name__="k", inspect_asm=lambda: {1: "a", 2: "b"}), None, "2 signatures"),
        (SimpleNamespace(__name__="k", inspect_asm=dict), "void()", "not compiled for void"),
    ],
)
def test_what_carries_none(source: object, signature: object, said: str) -> None:
    with pytest.raises(ptxwcet.PtxwcetError, match=said) as caught:
        ptx_of(source, signature)
    assert caught.value.diagnostics[0].code == "PW119"


def test_cuda_source_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    raw = SimpleNamespace(name="k", code='extern "C" __global__ void k() {}', options=())
    with pytest.raises(ptxwcet.PtxwcetError, match="nvcc is not on the PATH"):
        ptxwcet.bound(raw, block=32)


def test_a_kernel_of_numba() -> None:
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def scale(x, a, n):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < n:
            x[i] = x[i] * a

    signature = "void(float32[::1], float32, int32)"
    try:
        cuda.compile_ptx(scale.py_func, signature, cc=(8, 0))
    except Exception as error:
        pytest.skip(f"Numba compiles no PTX here: {error}")
    assert ptxwcet.bound(scale, block=256, signature=signature).cycles > 0


def test_importing_is_cheap_and_typed() -> None:
    code = "import sys, ptxwcet; print(sorted(set(sys.modules) & {'lark', 'numpy', 'networkx'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert (Path(inspect.getfile(ptxwcet)).parent / "py.typed").exists()
    assert {"bound", "analyse", "simulate", "run", "cfg"} <= set(dir(ptxwcet))
    with pytest.raises(AttributeError):
        ptxwcet.nothing  # noqa: B018


USER = """import ptxwcet
ptxwcet.bound("k.ptx", block=256, machin="titan-v")
ptxwcet.memory("k.ptx", block=2.5)
ptxwcet.cfg("k.ptx", co_runner="65536,20")
ptxwcet.report("k.ptx", simulate=False, grid=(1, 2)).html.upper()
ptxwcet.annotate("k.ptx", block=256).report.kernels[0].no_such
"""
MAPPINGS = """import ptxwcet
by_name: dict[str, int] = {"n": 3}
by_place: dict[int, float] = {3: 2.5}
mixed: dict[str | int, int] = {"n": 3, 4: 1}
figures: dict[str, int] = {"memory.latency": 300}
ptxwcet.bound("k.ptx", block=256, params=by_name, loop_bounds=by_name)
ptxwcet.simulate("k.ptx", block=256, params=by_place, loop_bounds={27: 3})
ptxwcet.cfg("k.ptx", block=(32, 8), params=mixed, machine="h200", memory_latency=300)
ptxwcet.what_if("k.ptx", figures, params={"n": range(1, 9)}, loop_bounds=mixed)
"""


def test_mappings_with_one_type_of_keys_are_taken(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "user.py").write_text(MAPPINGS)
    said, _, _ = api.run([str(tmp_path / "user.py"), "--cache-dir", str(tmp_path / "cache")])
    assert [line for line in said.splitlines() if "user.py" in line] == []


@pytest.mark.thorough
def test_a_type_checker_sees_arguments_and_results(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    (tmp_path / "user.py").write_text(USER)
    said, _, _ = api.run([str(tmp_path / "user.py"), "--cache-dir", str(tmp_path / "cache")])
    errors = [line.split(": ", 1)[1] for line in said.splitlines() if "user.py" in line]
    assert 'argument "machin" for "bound"; did you mean "machine"?' in errors[0]
    assert 'Argument "block" to "memory" has incompatible type "float"' in "".join(errors)
    assert 'argument "co_runner" for "cfg"' in "".join(errors)
    assert 'has no attribute "no_such"' in errors[-1]
    assert not any(":5:" in line for line in said.splitlines())
