"""The kernels of the reference data, executed and compared with numpy and plain Python."""

from __future__ import annotations

import csv
from functools import cache

import numpy as np
import pytest
from parsing import parse_file
from places import REFERENCE

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import Argument, EmulatedLaunch, EmulatorOptions, Execution
from ptxwcet.ir.kernel import Kernel, Module

PTX = REFERENCE / "ptx"
RANDOM = np.random.default_rng(3)


@cache
def module(name: str) -> Module:
    path = PTX / f"{name}.ptx"
    return parse_file(path)


def run(name: str, block: tuple[int, int, int], *arguments: Argument) -> Execution:
    kernels = {kernel.name: kernel for kernel in module("kernels").kernels}
    launch = EmulatedLaunch(block, (1, 1, 1), arguments)
    result = execute(kernels[name], module("kernels"), launch, options=EmulatorOptions())
    assert result.is_complete
    assert not result.findings
    return result


@pytest.mark.parametrize("warps", [1, 4, 32])
def test_vecadd(warps: int) -> None:
    n = 32 * warps
    a, b = RANDOM.random((2, n), dtype="f4")
    result = run("vecadd", (n, 1, 1), a, b, np.zeros(n, "f4"), n)
    np.testing.assert_array_equal(result.buffers[2], a + b)


@pytest.mark.parametrize("warps", [1, 8])
def test_saxpy_loop(warps: int) -> None:
    n = 256 * warps
    x, y = RANDOM.random((2, n), dtype="f4")
    result = run("saxpy_loop", (32 * warps, 1, 1), x, y, 2.0, n)
    exact = (x.astype("f8") * 2 + y).astype("f4")
    np.testing.assert_array_equal(result.buffers[1], exact)


@pytest.mark.parametrize("warps", [4, 8, 16, 32])
def test_sgemm_naive(warps: int) -> None:
    """Whatever its number of warps, a block computes 32 x 32 elements."""
    a, b = RANDOM.random((32, 64), dtype="f4"), RANDOM.random((64, 32), dtype="f4")
    c = np.zeros((32, 32), "f4")
    result = run(f"sgemm_naive_{warps}", (32, warps, 1), a, b, c, 32, 64)
    np.testing.assert_allclose(result.buffers[2], a @ b, rtol=1e-5)


@pytest.mark.parametrize("warps", [1, 8])
def test_reduce_smem(warps: int) -> None:
    n = 128 * warps
    values = RANDOM.integers(0, 100, n).astype("f4")  # sums are exact
    result = run("reduce_smem", (32 * warps, 1, 1), values, np.zeros(1, "f4"), n)
    assert result.buffers[1] is not None
    assert result.buffers[1][0] == values.sum()


def test_matvec_in_double_precision() -> None:
    n = 64
    matrix, vector = RANDOM.integers(-9, 9, (8, n)).astype("f8"), RANDOM.integers(-9, 9, 8)
    result = run("matvec_f64", (n, 1, 1), matrix, vector.astype("f8"), np.zeros(n, "f8"), 8)
    np.testing.assert_array_equal(result.buffers[2], matrix.T @ vector)


@pytest.mark.parametrize("warps", [1, 4, 8, 16, 32])
def test_sgemm_double_buffered(warps: int) -> None:
    a, b = RANDOM.random((32, 96), dtype="f4"), RANDOM.random((96, 32), dtype="f4")
    result = run(f"sgemm_db_{warps}", (32, warps, 1), a, b, np.zeros((32, 32), "f4"), 32, 96)
    np.testing.assert_allclose(result.buffers[2], a @ b, rtol=1e-5)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_stencil(steps: int) -> None:
    row = RANDOM.random(96, dtype="f4")
    result = run("stencil1d", (96, 1, 1), row, np.zeros(96, "f4"), steps)
    for _ in range(steps):
        wide = np.pad(row, 1)
        row = (wide[:-2] / 4 + wide[1:-1] / 2 + wide[2:] / 4).astype("f4")
    np.testing.assert_allclose(result.buffers[1], row, rtol=1e-6)


def test_mixed_arithmetic() -> None:
    x, h = RANDOM.random(64, dtype="f4").astype("f8"), np.arange(64, dtype="i8") * 7 + 1
    result = run("mathmix", (64, 1, 1), x.astype("f4"), np.zeros(64, "f4"), 5)
    for _ in range(5):
        x = np.sin(x) * 0.5 + 1 / np.sqrt(x * x + 1)
        h = (h * 1103515245 + 12345).astype("i4")
        h = (h ^ h >> 13).astype("i4").astype("i8")
        x = x + (h & 15) * 0.01
    np.testing.assert_allclose(result.buffers[1], x, rtol=1e-5)


def test_diverge() -> None:
    n, iterations = 96, 13
    start = RANDOM.integers(0, 50, n).astype("i4")
    result = run("diverge", (n, 1, 1), start, np.zeros(n, "i4"), iterations)

    def collatz(value: int) -> int:
        for _ in range(iterations):
            value = 3 * value + 1 if value & 1 else value >> 1
        return value

    expected = [collatz(int(value) + lane) for lane, value in enumerate(start)]
    assert result.buffers[1] is not None
    assert result.buffers[1].tolist() == expected


# --- warp instructions, counted by another simulator ----------------------------------------------


def launch_of(name: str, warps: int) -> tuple[Kernel, Module, EmulatedLaunch]:
    """The launch that the measurements of a kernel were made with (README of the data)."""
    n = 32 * warps
    if (PTX / f"{name}.ptx").exists():
        source = module(name)
        kernel = source.kernels[0]
        # micro kernels: any buffer that is large enough
        arguments: list[Argument] = [np.zeros(1 << 18, "u1") for _ in kernel.parameters]
        return kernel, source, EmulatedLaunch((n, 1, 1), (1, 1, 1), tuple(arguments))
    source = module("kernels")
    entry = f"{name}_{warps}" if name.startswith("sgemm") else name
    (kernel,) = [one for one in source.kernels if one.name == entry]
    f4 = np.zeros(1 << 15, "f4")
    threes = np.full(n, 3, "i4")
    given: dict[str, tuple[Argument, ...]] = {
        "vecadd": (f4, f4, f4, n),
        "saxpy_loop": (f4, f4, 2.0, 8 * n),
        "reduce_smem": (f4, f4, 4 * n),
        "matvec_f64": (np.zeros(8 * n), np.zeros(8), np.zeros(n), 8),
        "diverge": (threes, threes, 12),
        "sgemm_naive": (f4, f4, f4, 32, 64),
    }
    block = (32, warps, 1) if name.startswith("sgemm") else (n, 1, 1)
    return kernel, source, EmulatedLaunch(block, (1, 1, 1), given[name])


def measured() -> list[tuple[str, int, int]]:
    rows = set()
    for file in ("micro.csv", "cuda.csv"):
        with (PTX.parent / file).open() as text:
            for row in csv.DictReader(text):
                rows.add((row["kernel"], int(row["warps"]), int(row["winsn"])))
    return sorted(rows)


@pytest.mark.parametrize("row", measured(), ids=lambda row: f"{row[0]}-{row[1]}")
def test_warp_instructions_are_those_of_another_simulator(row: tuple[str, int, int]) -> None:
    name, warps, expected = row
    kernel, source, launch = launch_of(name, warps)
    result = execute(kernel, source, launch, options=EmulatorOptions())
    assert result.is_complete
    assert result.warp_instructions == expected


def test_every_reference_kernel_can_be_executed() -> None:
    """All instructions are known: what is not supported is refused before anything runs."""
    for name in sorted(path.stem for path in PTX.glob("*.ptx")):
        for kernel in module(name).kernels:
            arguments: list[Argument] = [
                np.zeros(1 << 16, "u1") if p.type in ("u64", "b64") else 0
                for p in kernel.parameters
            ]
            launch = EmulatedLaunch((32, 1, 1), (1, 1, 1), tuple(arguments))
            execute(kernel, module(name), launch, options=EmulatorOptions())
