"""Launch files: what they say, and one clear diagnostic for each way to get them wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from answers import only_answer
from parsing import parse_file, parse_text
from places import SAMPLES
from programs import run_program
from refusals import refusals_of

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.bound.executed import bound_executed
from ptxwcet.commands.run.study import RunRequest, run_file
from ptxwcet.emulator.launch_arrays import MOST_BYTES, array_source, difference
from ptxwcet.emulator.launch_files import read_launch_file
from ptxwcet.emulator.launch_model import LaunchFile
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.cuda_text import cuda_parameter_names
from ptxwcet.opened.request import Request
from ptxwcet.validate.inputs import validate_inputs

pytestmark = pytest.mark.fast

SAXPY = SAMPLES / "saxpy.ptx"

GOOD = """\
kernel = "saxpy"
grid = 4
block = "64"

[arguments]
n = 1000
a = 2.5
x = { shape = 1000, dtype = "float32", init = "ones" }
y = { shape = [10, 100], dtype = "float32", init = "zeros" }
"""

OWN = """\
.version 8.0
.target sm_86
.address_size 64
.const .align 4 .b8 table[8];
.visible .entry k(.param .u64 k_0, .param .b32 k_1, .param .align 4 .b8 k_2[12], .param .f64 k_3)
.reqntid 32
{
  ret;
}
"""


def read(text: str, tmp_path: Path, ptx: Path = SAXPY) -> LaunchFile:
    path = tmp_path / "l.toml"
    path.write_text(text)
    request = Request(str(ptx))
    module = parse_file(ptx)
    return read_launch_file(str(path), module, lambda k: cuda_parameter_names(k, request))


def read_own(text: str, tmp_path: Path) -> LaunchFile:
    path = tmp_path / "l.toml"
    path.write_text(text)
    return read_launch_file(str(path), parse_text(OWN), lambda kernel: None)


def refusal(read: Callable[[], object]) -> list[tuple[str, str, int | None]]:
    rows = refusals_of(read)
    return [(row.code, row.message, row.span.line if row.span else None) for row in rows]


def test_reads_what_is_written(tmp_path: Path) -> None:
    launch = read(GOOD, tmp_path)
    assert (launch.kernel.name, launch.grid, launch.block) == ("saxpy", (4, 1, 1), (64, 1, 1))
    assert launch.scalars == {"saxpy_param_0": 1000, "saxpy_param_1": 2.5}
    n, a, x, y = launch.values()
    assert (n, a) == (1000, 2.5)
    assert isinstance(x, np.ndarray)
    assert isinstance(y, np.ndarray)
    assert x.tolist() == [1.0] * 1000
    assert (y.shape, y.dtype, y.any()) == ((10, 100), np.float32, False)


@pytest.mark.parametrize("name", ["1", "saxpy_param_1", "a"])
def test_names_of_parameters(name: str, tmp_path: Path) -> None:
    assert read(GOOD.replace("a = 2.5", f"{name} = 3"), tmp_path).scalars["saxpy_param_1"] == 3.0


@pytest.mark.parametrize(
    ("text", "size"),
    [("7", (7, 1, 1)), ('"32x8"', (32, 8, 1)), ('"2,3,4"', (2, 3, 4)), ("[5, 6]", (5, 6, 1))],
)
def test_sizes(text: str, size: tuple[int, int, int], tmp_path: Path) -> None:
    assert read(GOOD.replace("grid = 4", f"grid = {text}"), tmp_path).grid == size


BAD = [
    # old text, new text, code, words of the message, line
    ('kernel = "saxpy"', "kernel = 3", "PW424", "kernel must be a name", 1),
    ('kernel = "saxpy"', 'kernel = "axpy"', "PW208", "no kernel 'axpy'", 1),
    ('kernel = "saxpy"', 'kernle = "saxpy"', "PW422", "unknown key 'kernle'", 1),
    ("grid = 4", "grid = 0", "PW424", "grid 0 has no blocks", 2),
    ("grid = 4", 'grid = "4x0"', "PW424", "has no blocks", 2),
    ("grid = 4", "grid = -1", "PW424", "has no blocks", 2),
    ("grid = 4", "grid = 4.0", "PW424", "is not a size", 2),
    ("grid = 4", "grid = true", "PW424", "is not a size", 2),
    ("grid = 4", 'grid = "4 by 4"', "PW424", "is not a size", 2),
    ("grid = 4", "grid = [1, 2, 3, 4]", "PW424", "is not a size", 2),
    ("grid = 4\n", "", "PW423", "grid is missing", None),
    ('block = "64"\n', "", "PW423", "block is missing", None),
    ('block = "64"', "block = [64, 0]", "PW424", "has no threads", 3),
    ("grid = 4", "grid = 4\ndynamic_shared_bytes = -1", "PW424", "no number of bytes", 3),
    ("grid = 4", "grid = 4\ndynamic_shared_bytes = 1.5", "PW424", "no number of bytes", 3),
    ("grid = 4", "grid = ", "PW421", "not TOML", 2),
    ("[arguments]", "[argument]", "PW422", "unknown key 'argument'", 5),
    ("n = 1000\n", "", "PW423", "no argument for n = 0 (saxpy_param_0, .u32)", 5),
    ("n = 1000", "n = 1000\nm = 3", "PW422", "has no parameter 'm'", 7),
    ("n = 1000", "n = 1000\n0 = 1000", "PW215", "'n' and '0' are the same", 7),
    ("n = 1000", "n = 10.5", "PW424", "10.5 is not an integer", 6),
    ("n = 1000", 'n = "1000"', "PW424", "needs a number", 6),
    ("n = 1000", "n = true", "PW424", "needs a number", 6),
    ("n = 1000", "n = 4294967296", "PW425", "does not fit .u32", 6),
    ("n = 1000", "n = [1]", "PW424", "needs a number", 6),
    ("a = 2.5", "a = 1e39", "PW425", "over the largest float32", 7),
    ("a = 2.5", 'a = { shape = 2, dtype = "int8", init = "ones" }', "PW425", "scalar parameter", 7),
    ("shape = 1000,", "", "PW424", "shape is missing", 8),
    ("shape = 1000", "shape = 0", "PW424", "is not a shape", 8),
    ("shape = 1000", "shape = [2, -1]", "PW424", "is not a shape", 8),
    ("shape = 1000", "shape = []", "PW424", "is not a shape", 8),
    ("shape = 1000", "shape = 1_000_000_000_000", "PW425", "too large", 8),
    ('dtype = "float32", init = "ones"', 'init = "ones"', "PW424", "dtype is missing", 8),
    ('dtype = "float32", init = "ones"', 'dtype = "float", init = "ones"', "PW424", "'float'", 8),
    ('init = "ones"', 'init = "one"', "PW424", "init 'one' is not known", 8),
    ('init = "ones"', "init = [1]", "PW424", "is not known", 8),
    (', init = "ones"', "", "PW424", "init is missing", 8),
    ('init = "ones"', 'init = "ones", seed = 1', "PW422", "unknown key 'seed'", 8),
    ('init = "ones"', 'init = "uniform", low = 0, high = 1', "PW424", "needs seed", 8),
    ('init = "ones"', 'init = "uniform", low = 1, high = 1, seed = 0', "PW424", "less than", 8),
    ('init = "ones"', 'init = "uniform", low = 0, high = 1, seed = -1', "PW424", "seed -1", 8),
    ('init = "ones"', 'init = "uniform", low = 0, high = "1", seed = 1', "PW424", "a number", 8),
    ('init = "ones"', 'init = "integers", low = 0, high = 1.5, seed = 1', "PW424", "integer", 8),
    ('init = "ones"', 'init = "value"', "PW424", "needs value", 8),
    ('init = "ones"', "values = [1]", "PW425", "values 1", 8),
    ('init = "ones"', "values = 1", "PW424", "list of numbers", 8),
    ('init = "ones"', "values = [[1]]", "PW424", "must be numbers", 8),
    ('{ shape = 1000, dtype = "float32", init = "ones" }', "{ file = 3 }", "PW424", ".npy", 8),
    ('{ shape = 1000, dtype = "float32", init = "ones" }', '{ file = "a.py" }', "PW424", ".npy", 8),
]


@pytest.mark.parametrize(("old", "new", "code", "words", "line"), BAD)
def test_one_clear_diagnostic(
    old: str, new: str, code: str, words: str, line: int | None, tmp_path: Path
) -> None:
    assert GOOD.count(old) == 1
    rows = refusal(lambda: read(GOOD.replace(old, new), tmp_path))
    if code == "PW422" and new in ("[argument]", 'kernle = "saxpy"'):
        rows = rows[:1]  # the table that is meant is missing, too
    assert len(rows) == 1
    assert rows[0][0] == code
    assert words in rows[0][1]
    assert rows[0][2] == line


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    module = parse_text(OWN)
    missing = str(tmp_path / "none.toml")
    ((code, message, _),) = refusal(lambda: read_launch_file(missing, module, lambda k: None))
    assert code == "PW420"
    assert "No such file" in message
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    binary = str(tmp_path / "b.toml")
    ((code, message, _),) = refusal(lambda: read_launch_file(binary, module, lambda k: None))
    assert (code, "UTF-8" in message) == ("PW420", True)


def test_all_problems_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("grid = 4", "grid = 0").replace("n = 1000", "n = 1.5")
    assert [row[0] for row in refusal(lambda: read(text, tmp_path))] == ["PW424", "PW424"]


def test_kernel_must_be_named_where_there_are_several(tmp_path: Path) -> None:
    loops = SAMPLES / "loops.ptx"
    ((code, message, _),) = refusal(lambda: read("grid = 1\nblock = 1\n", tmp_path, loops))
    assert code == "PW423"
    assert "16 of them" in message


OWN_ARGUMENTS = """\
grid = 1
[arguments]
0 = 0
1 = { value = 1.5, dtype = "float32" }
2 = { dtype = "int32", values = [1, -1, 258] }
3 = 7
"""


def test_aggregates_bits_and_default_block(tmp_path: Path) -> None:
    launch = read_own(OWN_ARGUMENTS, tmp_path)
    assert launch.block == (32, 1, 1)
    assert launch.values() == (
        0,
        0x3FC00000,
        b"\1\0\0\0\xff\xff\xff\xff\2\1\0\0",
        7.0,
    )


def test_aggregate_of_another_size(tmp_path: Path) -> None:
    launch = read_own(OWN_ARGUMENTS.replace(", 258", ""), tmp_path)
    ((code, message, line),) = refusal(launch.values)
    assert (code, line) == ("PW425", 5)
    assert "12 bytes" in message
    ((code, message, line),) = refusal(
        lambda: read_own(OWN_ARGUMENTS.replace("{ dtype", "3 #"), tmp_path)
    )
    assert (code, line) == ("PW424", 5)
    assert "aggregate of 12 bytes" in message


def test_variables(tmp_path: Path) -> None:
    good = OWN_ARGUMENTS + '[variables]\ntable = { dtype = "uint8", shape = 8, init = "arange" }\n'
    assert read_own(good, tmp_path).variable_bytes() == {"table": bytes(range(8))}
    launch = read_own(good.replace("shape = 8", "shape = 9"), tmp_path)
    ((code, _, line),) = refusal(launch.variable_bytes)
    assert (code, line) == ("PW425", 8)
    rows = refusal(lambda: read_own(good.replace("table =", "tabel ="), tmp_path))
    assert [row[::2] for row in rows] == [("PW422", 8)]
    rows = refusal(lambda: read_own(OWN_ARGUMENTS + "[variables]\ntable = 3\n", tmp_path))
    assert [row[::2] for row in rows] == [("PW424", 8)]


def test_expected(tmp_path: Path) -> None:
    def with_expected(text: str) -> LaunchFile:
        return read(GOOD + "[expected]\n" + text, tmp_path)

    entry = 'y = { shape = 1000, dtype = "float32", init = "value", value = 2.5, relative = 1e-6 }'
    launch = with_expected(entry)
    (output,) = launch.expected
    assert (output.argument, output.relative, output.absolute) == (3, 1e-6, 0.0)
    zeros = np.zeros((10, 100), np.float32)
    assert launch.expected_array(output, zeros).tolist() == [[2.5] * 100] * 10
    ((code, _, line),) = refusal(lambda: launch.expected_array(output, zeros[:9]))
    assert (code, line) == ("PW425", 11)
    (right,) = launch.check({"y": zeros + np.float32(2.5 + 2e-6)})
    assert right.diagnostic() is None
    zeros[3, 7] = 2.5
    (wrong,) = launch.check({"y": zeros})
    diagnostic = wrong.diagnostic()
    assert diagnostic is not None
    text = diagnostic.render()
    assert "l.toml:11:1: error[PW428]: 999 of 1,000 elements of y are not as expected" in text
    assert "y[0, 0] = 0.0, expected 2.5" in text
    assert "relative = 1e-06" in text
    for text, code in [
        (entry.replace("y =", "z ="), "PW422"),
        (entry.replace("y =", "n ="), "PW422"),
        ("y = 3", "PW424"),
        (entry.replace("1e-6", "-1e-6"), "PW424"),
        (entry.replace("1e-6", '"1e-6"'), "PW424"),
    ]:
        assert [row[::2] for row in refusal(lambda text=text: with_expected(text))] == [(code, 11)]


# --- arrays ---------------------------------------------------------------------------------------


def built(**table: object) -> list[float]:
    return list(array_source(table, Path(), None).build().tolist())


def test_initialisers() -> None:
    assert built(shape=3, dtype="int16", init="ones") == [1, 1, 1]
    assert built(shape=[2, 2], dtype="uint8", init="value", value=255) == [[255, 255], [255, 255]]
    assert built(shape=3, dtype="int8", init="arange", start=2, step=-65) == [2, -63, -128]
    assert built(shape=3, dtype="uint64", init="arange", start=2**63 - 1) == [
        2**63 - 1,
        2**63,
        2**63 + 1,
    ]
    assert built(shape=2, dtype="float64", init="arange", start=0.5, step=0.25) == [0.5, 0.75]
    assert built(dtype="int32", shape=[2, 2], values=[1, 2, 3, 4]) == [[1, 2], [3, 4]]


def test_random_arrays_repeat_and_stay_in_range() -> None:
    table = {"shape": 500, "dtype": "int8", "init": "integers", "low": -3, "high": 4, "seed": 9}
    assert built(**table) == built(**table)
    assert set(built(**table)) == set(range(-3, 4))
    assert built(**table) != built(**{**table, "seed": 10})
    table = {"shape": 500, "dtype": "float32", "init": "uniform", "low": 2, "high": 3, "seed": 9}
    assert built(**table) == built(**table)
    assert all(2 <= value <= 3 for value in built(**table))


def test_random_streams_are_the_documented_ones() -> None:
    """The first numbers of MT19937 with seed 5489 (Matsumoto and Nishimura's reference)."""
    source = {"shape": 2, "dtype": "float64", "init": "uniform", "low": 0, "high": 1, "seed": 5489}
    words = [3499211612, 581869302, 3890346734, 3586334585]
    doubles = [
        ((words[i] >> 5) * 67108864 + (words[i + 1] >> 6)) / 9007199254740992 for i in (0, 2)
    ]
    assert built(**source) == doubles


@pytest.mark.parametrize(
    ("dtype", "settings"),
    [
        ("int8", {"init": "value", "value": 128}),
        ("uint8", {"init": "arange", "start": 250, "step": 2}),
        ("uint8", {"init": "arange", "start": 0, "step": -1}),
        ("int32", {"init": "value", "value": 1.0}),
        ("int32", {"init": "arange", "step": 0.5}),
        ("uint16", {"init": "integers", "low": 0, "high": 65537, "seed": 1}),
        ("uint64", {"init": "integers", "low": 0, "high": 2**64, "seed": 1}),
        ("float16", {"init": "value", "value": 65520.0}),
        ("int32", {"init": "uniform", "low": 0, "high": 1, "seed": 1}),
        ("uint8", {"init": "integers", "low": float("nan"), "high": 1, "seed": 1}),
        ("float32", {"init": "uniform", "low": float("-inf"), "high": 1, "seed": 1}),
    ],
)
def test_values_that_do_not_fit(dtype: str, settings: dict[str, object]) -> None:
    from ptxwcet.emulator.launch_arrays import Malformed

    with pytest.raises(Malformed):
        array_source({"shape": 4, "dtype": dtype, **settings}, Path(), None)


def test_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000, dtype=">f4"))
    text = GOOD.replace('{ shape = 1000, dtype = "float32", init = "ones" }', '{ file = "x.npy" }')
    x = read(text, tmp_path).values()[2]
    assert isinstance(x, np.ndarray)
    assert x.dtype == np.float32
    assert x.dtype.isnative
    assert x.tolist() == list(range(1000))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("gone", "PW420"),
        ("text", "PW425"),
        ("cut", "PW425"),
        ("objects", "PW425"),
        ("complex", "PW425"),
        ("empty", "PW425"),
    ],
)
def test_npy_files_that_cannot_be_used(name: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "text.npy").write_text("no array")
    np.save(tmp_path / "x.npy", np.arange(10))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-8])
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    np.save(tmp_path / "complex.npy", np.array([1j]))
    np.save(tmp_path / "empty.npy", np.array([], dtype=np.float32))
    source = '{ shape = 1000, dtype = "float32", init = "ones" }'
    launch = read(GOOD.replace(source, f'{{ file = "{name}.npy" }}'), tmp_path)
    assert [row[::2] for row in refusal(launch.values)] == [(code, 8)]


def test_differences() -> None:
    def compare(a: object, b: object, relative: float = 0, absolute: float = 0) -> object:
        found = difference(np.array(a), np.array(b), relative, absolute)
        return None if found is None else (found.wrong, found.first, found.found, found.wanted)

    nan, inf = float("nan"), float("inf")
    assert compare([1.0, nan, inf], [1.0, nan, inf]) is None
    assert compare([1.0, 2.0], [1.0, nan])[:2] == (1, (1,))
    assert compare([inf], [-inf], absolute=1) == (1, (0,), inf, -inf)
    assert compare([inf], [3.0], relative=1) == (1, (0,), inf, 3.0)
    assert compare([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.5], [3.0, 4.5]]) == (2, (0, 1), 2.0, 2.5)
    assert compare([100.0, 1.0], [101.0, 1.0], relative=0.01) is None
    assert compare([100.0], [101.02], relative=0.01) is not None
    assert compare([0.5], [0.0], absolute=0.5) is None
    big = 2**63 - 1
    assert compare([big], [big - 1]) == (1, (0,), big, big - 1)


def test_size_limit_is_one_of_bytes() -> None:
    from ptxwcet.emulator.launch_arrays import Malformed

    table = {"dtype": "float64", "init": "zeros"}
    array_source({**table, "shape": MOST_BYTES // 8}, Path(), None)
    with pytest.raises(Malformed):
        array_source({**table, "shape": MOST_BYTES // 8 + 1}, Path(), None)


# --- the launch of a bound ------------------------------------------------------------------------

LAUNCH = str(SAMPLES / "launches/sgemm_naive_1024.toml")
SGEMM = str(SAMPLES / "sgemm_naive.ptx")


def test_a_bound_takes_its_facts_from_the_launch_file() -> None:
    from_file = only_answer(Request(SGEMM, launch_file=LAUNCH))
    options = Request(SGEMM, (), "32x32", "32x32", ("M=1024", "N=1024", "K=1024"))
    from_options = only_answer(options)
    assert from_file.launch == from_options.launch
    assert from_file.worst.bound.cycles == from_options.worst.bound.cycles


def test_a_bound_needs_no_data_and_a_run_does(tmp_path: Path) -> None:
    """Of what may be a pointer, and of floats, a bound says nothing else with an argument."""
    short, whole = tmp_path / "short.toml", tmp_path / "whole.toml"
    whole.write_text(GOOD)
    short.write_text("".join(one for one in GOOD.splitlines(True) if one[0] not in "axy"))
    said = [only_answer(Request(str(SAXPY), launch_file=str(one))) for one in (short, whole)]
    bounds = [one.launch_bound for one in said]
    assert all(isinstance(one, LaunchBound) for one in bounds)
    # each has a kernel of its own
    assert replace(bounds[0], block=bounds[1].block) == bounds[1]
    assert said[0].worst.bound.claim == said[1].worst.bound.claim
    # what an option says of a pointer that the file is silent about is no contradiction
    request = Request(str(SAXPY), launch_file=str(short), parameters=("x=align:16", "y=4096"))
    assert only_answer(request).launch.parameters["saxpy_param_3"] == 4096
    with_launch = Request(str(SAXPY), launch_file=str(short))
    for run in (
        lambda: run_file(RunRequest(str(SAXPY), str(short))),
        lambda: list(validate_inputs(with_launch, parse_file(SAXPY), load_machine("titan-v"), 1)),
        lambda: bound_executed(with_launch),
    ):
        (problem,) = refusals_of(run)
        assert problem.code == "PW423"
        for name in ("a = 1", "x = 2", "y = 3"):
            assert name in problem.message
        assert problem.span is not None
        assert problem.help == (
            "give all parameters of saxpy: only a bound does without arrays and floats"
        )


@pytest.mark.parametrize(
    ("missing", "is_needed"), [("0 = ", False), ("1 = ", True), ("2 = ", True), ("3 = ", False)]
)
def test_a_bound_needs_what_is_neither_pointer_nor_float(
    missing: str, is_needed: bool, tmp_path: Path
) -> None:
    ptx, launch = tmp_path / "own.ptx", tmp_path / "l.toml"
    ptx.write_text(OWN)
    lines = OWN_ARGUMENTS.splitlines(keepends=True)
    launch.write_text("".join(one for one in lines if not one.startswith(missing)))
    request = Request(str(ptx), launch_file=str(launch))
    if not is_needed:
        assert only_answer(request).launch.block == (32, 1, 1)
        return
    ((code, message, _),) = refusal(lambda: only_answer(request))
    assert (code, f"no argument for {missing[0]} (k_{missing[0]}" in message) == ("PW423", True)


def test_options_may_repeat_the_launch_file() -> None:
    options = ["--block", "32x32", "--grid", "32x32x1", "--param", "K=0x400", "-k", "sgemm_naive"]
    code, out, _ = run_program(SGEMM, "--launch", LAUNCH, *options)
    assert code == 0
    assert "133,702 cycles" in out


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--block", "32x16"), 4),
        (("--grid", "32"), 3),
        (("--param", "K=1000"), 12),
        (("--param", "5=1000"), 12),
        (("--param", "A=1000"), 7),
    ],
)
@pytest.mark.parametrize("command", [(), ("simulate", "--policy", "gto")])
def test_contradictions_name_both(
    options: tuple[str, str],
    line: int,
    command: tuple[str, ...],
) -> None:
    code, _, text = run_program(*command, SGEMM, "--launch", LAUNCH, *options)
    assert code == 1
    assert f"error[PW426]: {' '.join(options)} contradicts {LAUNCH}:{line}:1" in text
    assert text.count("error") == 1


def test_another_kernel_contradicts() -> None:
    loops, launch = str(SAMPLES / "loops.ptx"), str(SAMPLES / "launches/loop_up.toml")
    said = run_program(loops, "--launch", launch, "-k", "loop_down").err
    assert f"--kernel loop_down contradicts {launch}:2:1, which says loop_up" in said
