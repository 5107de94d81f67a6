"""The kernels of the hybrid experiment: results against NumPy and SciPy, runs against bounds."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.hybrid_kernels import (
    CLASSES,
    HybridKernel,
    hybrid_kernels,
    reshaped,
    values_of,
    with_arrays,
    write_input,
)
from parsing import parse_file
from scipy.linalg import eigvalsh_tridiagonal
from scipy.stats import norm

from ptxwcet.commands.run.study import RunRequest, run_file
from ptxwcet.machine.loader import load_machine
from ptxwcet.validate.inputs import validate_inputs

KERNELS = {kernel.kernel: kernel for kernel in hybrid_kernels()}
MACHINE = load_machine("orin-ecrts2025")
ROUNDING = 2e-5
CHUNK = 512
Values = Mapping[str, Any]
Results = dict[str, Any]


# --- references -----------------------------------------------------------------------------------


def merged(v: Values, keys: str, values: str, strides: list[int]) -> Results:
    """Steps of the merges of runs: place i is compared with place i ^ stride."""
    pairs = np.stack([v[keys], v[values]])
    places = np.arange(pairs.shape[1])
    for stride in strides:
        low = places[(places & stride) == 0]
        first, second = pairs[:, low], pairs[:, low ^ stride]
        swap = (first[0] > second[0]) == ((low & v["run"]) == 0)
        pairs[:, low], pairs[:, low ^ stride] = (
            np.where(swap, second, first),
            np.where(swap, first, second),
        )
    return {"keys": pairs[0], "values": pairs[1]}


def sorted_chunks(v: Values) -> Results:
    """Random keys are all different: the values follow them."""
    rows = v["keys_in"].reshape(-1, CHUNK)
    order = np.argsort(rows, axis=1)
    order[1::2] = order[1::2, ::-1]
    along = np.take_along_axis
    values = along(v["values_in"].reshape(-1, CHUNK), order, 1)
    return {"keys": along(rows, order, 1).ravel(), "values": values.ravel()}


def prices(v: Values) -> Results:
    s, k, t = (v[name].astype(np.float64) for name in ("spot", "strike", "years"))
    rate, volatility = np.float64(v["rate"]), np.float64(v["volatility"])
    upper = (np.log(s / k) + (rate + volatility**2 / 2) * t) / (volatility * np.sqrt(t))
    lower = upper - volatility * np.sqrt(t)
    call = s * norm.cdf(upper) - k * np.exp(-rate * t) * norm.cdf(lower)
    return {"call": call, "put": call + k * np.exp(-rate * t) - s}


def eigenvalues(v: Values) -> Any:
    return eigvalsh_tridiagonal(v["diagonal"].astype(np.float64), v["off"].astype(np.float64))


def transposed(v: Values) -> Results:
    return {"out": v["in"].T}


def block_sums(elements: int) -> Callable[[Values], Results]:
    def sums(v: Values) -> Results:
        padded = np.pad(v["data"], (0, -v["n"] % elements))
        return {"sums": padded.reshape(-1, elements).sum(axis=1)}

    return sums


def histogram(words: Any) -> Any:
    return np.bincount(words.view(np.uint8) >> 2, minlength=64)


def partial_histograms(v: Values) -> Results:
    """Words go to blocks of 256 threads in turn."""
    blocks = v["partial"].size // 64
    chunk = np.arange(v["words"]) // 256 % blocks
    return {"partial": np.array([histogram(v["data"][chunk == b]) for b in range(blocks)])}


def block_scans(v: Values) -> Results:
    sums = np.cumsum(v["data"].reshape(-1, CHUNK), axis=1)
    return {"sums": sums, "totals": sums[:, -1]}


def exclusive_rows(v: Values) -> Results:
    rows = v["totals"].reshape(-1, CHUNK)
    return {"totals": np.cumsum(rows, axis=1) - rows}


REFERENCES: dict[str, Callable[[Values], Results]] = {
    "bitonic_sort_1": sorted_chunks,
    "bitonic_sort_2": lambda v: merged(v, "keys", "values", [v["stride"]]),
    "bitonic_sort_3": lambda v: merged(
        v, "keys_in", "values_in", [1 << i for i in range(8, -1, -1)]
    ),
    "black_scholes": prices,
    "histogram_1": lambda v: {"histogram": v["partial"].reshape(-1, 64).sum(axis=0)},
    "histogram_2": partial_histograms,
    "matrix_multiply": lambda v: {"c": v["a"].astype(np.float64) @ v["b"].astype(np.float64)},
    **{f"matrix_transpose_{i}": transposed for i in range(1, 5)},
    **{f"reduction_{i}": block_sums(256 if i < 4 else 512) for i in range(1, 7)},
    "scalar_product": lambda v: {
        "products": (v["a"].astype(np.float64) * v["b"].astype(np.float64)).sum(axis=1)
    },
    "scan_1": block_scans,
    "scan_2": exclusive_rows,
    "scan_3": lambda v: {"sums": v["sums"].reshape(-1, CHUNK) + v["totals"][:, None]},
    "vector_add": lambda v: {"c": v["a"].astype(np.float64) + v["b"].astype(np.float64)},
}


def outputs(kernel: HybridKernel, launch: Path) -> Values:
    answer = run_file(RunRequest(str(kernel.path), str(launch)))
    assert [row.render() for row in answer.diagnostics] == []
    return answer.outputs


def compare(found: Any, expected: Any) -> None:
    expected = np.asarray(expected).reshape(found.shape)
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)
    else:
        np.testing.assert_array_equal(found, expected)


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFERENCES)
def test_results_are_those_of_numpy(name: str) -> None:
    kernel = KERNELS[name]
    given = values_of(kernel, kernel.small)
    expected = REFERENCES[name](given)
    found = outputs(kernel, kernel.small)
    assert expected
    for key, values in expected.items():
        compare(found[key], values)


@pytest.mark.parametrize("name", ["eigenvalues_1", "eigenvalues_3"])
def test_eigenvalues_are_those_of_scipy(name: str) -> None:
    kernel = KERNELS[name]
    given = values_of(kernel, kernel.small)
    found = outputs(kernel, kernel.small)["eigenvalues"]
    expected = eigenvalues(given)
    # half of the last interval, and what rounding of a pivot moves an eigenvalue by
    room = given["precision"] * np.maximum(np.abs(expected), 0.25) / 2 + 2e-6
    assert np.all(np.abs(found - expected) <= room)


@pytest.mark.parametrize("name", ["eigenvalues_1", "eigenvalues_3"])
def test_pivots_of_zero_count_once(name: str, tmp_path: Path) -> None:
    """The first x is 0, and with a diagonal of 0 so is every other pivot."""
    kernel = KERNELS[name]
    given = values_of(kernel, kernel.small)
    matrix = {"diagonal": np.zeros_like(given["diagonal"]), "off": np.ones_like(given["off"])}
    launch = tmp_path / "launch.toml"
    text = kernel.small.read_text(encoding="utf-8")
    launch.write_text(with_arrays(text, matrix, tmp_path), encoding="utf-8")
    found = outputs(kernel, launch)["eigenvalues"]
    rows = np.arange(given["n"], 0, -1)
    expected = 2 * np.cos(np.pi * rows / (given["n"] + 1))
    assert np.max(np.abs(found - expected)) <= 1e-4


def test_every_interval_holds_its_eigenvalues() -> None:
    kernel = KERNELS["eigenvalues_2"]
    given = values_of(kernel, kernel.small)
    found = outputs(kernel, kernel.small)
    intervals = int(found["found"][0])
    rows = [found[key][:intervals] for key in ("lefts", "rights", "before", "after")]
    left, right, before, after = rows
    expected = eigenvalues(given)
    assert before[0] == 0
    assert after[-1] == given["n"]
    np.testing.assert_array_equal(before[1:], after[:-1])
    assert np.all((after - before == 1) | (right - left <= given["gap"]))
    assert np.all(right - left > given["gap"] / 2)
    for row in range(intervals):
        held = expected[before[row] : after[row]]
        assert held.size >= 1
        assert np.all((held >= left[row] - 2e-6) & (held <= right[row] + 2e-6))


def test_every_kernel_is_compared() -> None:
    assert len(KERNELS) == 25
    assert {*REFERENCES, "eigenvalues_1", "eigenvalues_2", "eigenvalues_3"} == set(KERNELS)
    for folder in ("launches", "small"):
        files = {
            kernel.launch.parents[1] / folder / f"{kernel.kernel}.toml"
            for kernel in KERNELS.values()
        }
        assert files == set((next(iter(files))).parent.glob("*.toml"))


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.every(7)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.kernel)
def test_executions_stay_within_the_static_bound(kernel: HybridKernel) -> None:
    module = parse_file(kernel.path)
    results = list(validate_inputs(kernel.request(kernel.small), module, MACHINE, 2))
    assert len(results) == 2
    for result in results:
        assert [row.render() for row in result.diagnostics] == []
        assert result.rows
        assert all(row.longest_cycles <= (row.safe_cycles or 0) for row in result.rows)


# --- published figures and inputs -----------------------------------------------------------------


def test_published_percentages_follow_from_published_cycles() -> None:
    """But for two: 591 for 591.7 %, and 4,064 where the cycles give 4,046 %."""
    wrong = {}
    totals = np.zeros(2)
    for kernel in KERNELS.values():
        row = kernel.published
        mark = row.high_water_mark
        exact = (100 * row.dynamic / mark - 100, 100 * row.hybrid / mark - 100)
        totals += exact
        if (round(exact[0]), round(exact[1])) != (row.dynamic_percent, row.hybrid_percent):
            wrong[row.kernel] = (round(exact[0]), round(exact[1]))
    assert wrong == {"ScalarProduct": (592, 1181), "Scan-1": (48, 4046)}
    assert [round(total / len(KERNELS)) for total in totals] == [102, 796]


def test_input_vectors_are_of_the_classes_in_turn(tmp_path: Path) -> None:
    kernel = KERNELS["matrix_multiply"]
    seen = []
    for number, kind in enumerate(CLASSES):
        a = values_of(kernel, write_input(kernel, number, tmp_path / str(number)))["a"]
        assert a.shape == (64, 96)
        steps = np.diff(a.ravel())
        ordered = {"sorted": steps >= 0, "reversed": steps <= 0, "constant": steps == 0}
        assert np.all(ordered.get(kind, True))
        assert (np.unique(a).size <= 4) == (kind in ("constant", "few values"))
        seen.append(a.tobytes())
    assert len(set(seen)) == len(CLASSES)
    own = values_of(kernel, kernel.launch)["a"]
    assert own.tobytes() == seen[0]


def test_few_values_are_mixed() -> None:
    values = reshaped(np.arange(12), "few values")
    assert set(values) == {0, 1, 2, 3}
    assert np.any(np.diff(values) < 0)


def test_refinement_gets_the_intervals_of_the_separation(tmp_path: Path) -> None:
    kernel = KERNELS["eigenvalues_3"]
    given = values_of(kernel, write_input(kernel, 6, tmp_path))
    expected = eigenvalues(given)
    assert np.all(np.diff(given["diagonal"]) >= 0)
    assert np.all(given["lefts"] - 2e-6 <= expected)
    assert np.all(expected <= given["rights"] + 2e-6)
    assert np.max(given["rights"] - given["lefts"]) < 1
