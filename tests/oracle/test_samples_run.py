"""Every sample, run from its launch file, against NumPy as an independent definition."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import LAUNCHES, SAMPLES

from ptxwcet.commands.run.study import RunRequest, run_file

Values = Mapping[str, Any]
Results = dict[str, np.ndarray[Any, Any]]
f32, f64 = np.float32, np.float64

# Launch files that are there for a bound: a run of them takes minutes.
LARGE = {"sgemm_naive_1024"}


def add(v: Values) -> Results:
    return {"c": v["a"] + v["b"]}


def add_by_index(v: Values) -> Results:
    return {"2": v["0"] + v["1"]}


def saxpy(v: Values) -> Results:
    # one rounding: a product of two float32 is exact in float64
    return {"y": (v["a"] * v["x"].astype(f64) + v["y"].astype(f64)).astype(f32)}


def transpose(v: Values) -> Results:
    return {"out": v["in"].T}


def product(v: Values) -> Results:
    return {"C": v["A"].astype(f64) @ v["B"].astype(f64)}


def total(v: Values) -> Results:
    return {"out": v["in"].astype(f64).sum(keepdims=True)}


def prefix_sums(v: Values) -> Results:
    return {"out": np.cumsum(v["in"], axis=-1, dtype=np.int32)}


def ordered(v: Values) -> Results:
    return {"data": np.sort(v["data"], axis=-1)}


def counts(v: Values) -> Results:
    return {"bins": np.bincount(v["in"], minlength=256).astype(np.uint32)}


def stencil(v: Values) -> Results:
    grid = v["in"].astype(f64)
    out = np.zeros_like(grid)
    sides = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
    out[1:-1, 1:-1] = 0.5 * grid[1:-1, 1:-1] + 0.125 * sides
    return {"out": out}


def filtered(v: Values) -> Results:
    return {"out": np.convolve(v["in"].astype(f64), v["weights"][::-1], mode="valid")}


def solved(v: Values) -> Results:
    lower = np.tril(v["L"].astype(f64), -1) + np.eye(len(v["L"]))
    return {"B": np.linalg.solve(lower, v["B"].astype(f64))}


def triangle(v: Values) -> Results:
    return {"out": np.full(32, (np.tril(v["L"].astype(f64)) @ v["x"]).sum())}


def escape_times(v: Values) -> Results:
    """Float32 with the fused operations that the compiler chose is not repeated here: see below."""
    y, x = np.mgrid[0:32, 0 : v["width"]]
    c = (v["x0"] + x * v["step"]) + 1j * (v["y0"] + y * v["step"])
    z, count = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(v["most"]):
        inside = np.abs(z) < 2
        z[inside] = z[inside] ** 2 + c[inside]
        count += inside
    return {"out": count}


def first_becomes(value: Callable[[Values], float]) -> Callable[[Values], Results]:
    def of(v: Values) -> Results:
        data = v["data"].astype(f64)
        data[0] = value(v)
        return {"data": data}

    return of


def summed(chosen: Callable[[Values], Any]) -> Callable[[Values], Results]:
    return first_becomes(lambda v: float(v["data"].astype(f64)[chosen(v)].sum()))


def powers(base: int, most: int) -> list[int]:
    return [base**k for k in range(64) if base**k < most]


def halvings(n: int) -> list[int]:
    return [n >> k for k in range(64) if n >> k]


def halved_sum(v: Values) -> float:
    total = 0.0
    for value in v["data"][: v["n"]]:
        total = total * 0.5 + float(value)
    return total


def triangle_sum(v: Values) -> float:
    n = v["n"]
    return float(np.triu(v["data"].astype(f64).reshape(n, n)).sum())


def doubled(v: Values) -> Results:
    return {"data": v["data"] * 2}


def partial_sums(v: Values) -> Results:
    """All threads write to one element: one of their sums is there, the others are unchanged."""
    return {"data": v["data"][: v["n"]]}


first_n = summed(lambda v: np.arange(v["n"]))

REFERENCES: Mapping[str, Callable[[Values], Results]] = {
    "vector_add": add,
    "saxpy": saxpy,
    "transpose_naive": transpose,
    "transpose_tiled": transpose,
    "sgemm_naive": product,
    "sgemm_double_buffered": product,
    "sgemm_cp_async": product,
    "block_reduce_tree": total,
    "block_reduce_shuffle": total,
    "scan": prefix_sums,
    "scan_random": prefix_sums,
    "bitonic_sort": ordered,
    "histogram": counts,
    "stencil_2d": stencil,
    "convolution": filtered,
    "triangular_solve": solved,
    "triangular_sum": triangle,
    "mandelbrot": escape_times,
    "triton_add": add_by_index,
    "loop_up": first_n,
    "loop_down": summed(lambda v: np.arange(1, v["n"] + 1)),
    "loop_strided": summed(lambda v: np.arange(3, v["n"], 7)),
    "loop_shifted": summed(lambda v: halvings(v["n"])),
    "loop_multiplied": summed(lambda v: powers(3, v["n"])),
    "loop_while": first_n,
    "loop_do_while": summed(lambda v: np.arange(0, v["n"], 2)),
    "loop_unrolled": first_becomes(halved_sum),
    "loop_nested": summed(lambda v: np.arange(v["n"] * v["m"])),
    "loop_triangular": first_becomes(triangle_sum),
    "loop_step": summed(lambda v: np.arange(0, v["n"], v["step"])),
    "loop_unsigned": first_n,
    "loop_wide": first_n,
    "loop_block_stride": doubled,
    "loop_threads": partial_sums,
    "loop_break": first_becomes(lambda v: float(np.argmax(v["data"] < 0))),
}

# Everything else is exact. Sums of n float32 in [-1, 1] are within n * 2^-24 * n of the true one;
# the solution of a triangular system grows, its rounding with it.
ABSOLUTE = {
    **{f"sgemm_{kind}": 96 * 96 * 2**-24 for kind in ("naive", "double_buffered", "cp_async")},
    **{f"block_reduce_{kind}": 1e-3 for kind in ("tree", "shuffle")},
    "stencil_2d": 2**-22,
    "convolution": 2**-21,
    "triangular_solve": 1e-3,
    "triangular_sum": 210 * 210 * 2**-24,
    **{name: 130 * 130 * 2**-24 for name in REFERENCES if name.startswith("loop_")},
}
EXACT = {"loop_block_stride", "loop_break"}


def entries(path: Path) -> set[str]:
    return set(re.findall(r"\.entry\s+(\w+)", path.read_text()))


def sample_of(name: str) -> Path:
    kernel = tomllib.loads((LAUNCHES / f"{name}.toml").read_text())["kernel"]
    return next(path for path in sorted(SAMPLES.glob("*.ptx")) if kernel in entries(path))


def run(name: str) -> tuple[Values, Results, Any]:
    request = RunRequest(str(sample_of(name)), str(LAUNCHES / f"{name}.toml"))
    answer = run_file(request)
    assert [row.render() for row in answer.diagnostics] == []
    given: dict[str, Any] = {}
    for argument, value in zip(answer.launch.arguments, answer.launch.values(), strict=True):
        given[argument.name] = value
    for variable in answer.launch.variables:
        given[variable.variable.name] = variable.source.build()
    return given, dict(answer.outputs), answer


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_sample_against_numpy(name: str) -> None:
    given, results, answer = run(name)
    assert answer.execution.warp_instructions > 0
    for key, wanted in REFERENCES[name](given).items():
        found = results[key].astype(wanted.dtype)
        if name == "mandelbrot":
            assert (found == wanted).mean() > 0.97
            continue
        if name == "loop_threads":
            sums = np.concatenate([[0.0], np.cumsum(given["data"][:31].astype(f64))])
            assert np.abs(sums - float(found[-1])).min() < 1e-5
            found = found[:-1]
        assert found.shape == wanted.shape
        room = 0.0 if name in EXACT else ABSOLUTE.get(name, 0.0)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=room)
    untouched = set(given) & set(results) - set(REFERENCES[name](given))
    for key in untouched:
        np.testing.assert_array_equal(results[key], given[key])


def test_every_launch_file_and_every_kernel_is_run() -> None:
    assert {path.stem for path in LAUNCHES.glob("*.toml")} == set(REFERENCES) | LARGE
    kernels = set[str]().union(*(entries(path) for path in SAMPLES.glob("*.ptx")))
    assert kernels <= set(REFERENCES)
