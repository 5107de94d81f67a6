"""Random launches of the sample and reference kernels: sizes, shapes and data that fit together.

A row of :data:`KINDS` knows a kernel's parameters: it draws block, grid, scalars and arrays so that
every access stays inside. A launch is a function of (kernel, seed).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ptxwcet.emulator.launch import Array, EmulatedLaunch
from ptxwcet.flow.facts.stated import StatedFacts, parse_loop_bounds
from ptxwcet.flow.launch import Dim3, Launch
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source

ROOT = Path(__file__).parents[1]
REFERENCE = "tests/data/reference-sim/ptx/kernels.ptx"

Random = np.random.Generator
Draw = tuple[Dim3, Dim3, tuple[Any, ...]]  # block, grid, arguments


@dataclass(frozen=True)
class Kind:
    """A kernel and how its launches are drawn.

    ``bounds`` are loop bounds for its analysis: label of the loop, and index of the parameter that
    bounds it.
    """

    file: str
    kernel: str
    draw: Callable[[Random], Draw]
    bounds: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A name for people."""
        return self.kernel if self.file.startswith("samples") else f"reference {self.kernel}"


@cache
def load(file: str) -> Module:
    """The module of a file of the repository."""
    return parse_module(read_source(str(ROOT / file)))


def random_launch(kind: Kind, seed: int) -> tuple[Kernel, Launch, EmulatedLaunch, StatedFacts]:
    """The kernel, the launch facts for its analysis, the launch itself, its loop bounds."""
    (kernel,) = [k for k in load(kind.file).kernels if k.name == kind.kernel]
    block, grid, arguments = kind.draw(np.random.default_rng(seed))
    scalars = {
        parameter.name: value
        for parameter, value in zip(kernel.parameters, arguments, strict=True)
        if not isinstance(value, np.ndarray)
    }
    variables: tuple[tuple[str, bytes], ...] = ()
    if kind.kernel == "convolution":
        variables = (("weights", np.arange(7, dtype="f4").tobytes()),)
    bounds = [f"{place}={arguments[index]}" for place, index in kind.bounds.items()]
    stated = StatedFacts(loops=parse_loop_bounds(bounds))
    facts = Launch(block, grid, scalars)
    return kernel, facts, EmulatedLaunch(block, grid, arguments, variables), stated


# --- drawing --------------------------------------------------------------------------------------


def _floats(random: Random, *shape: int) -> Array:
    return random.uniform(-1, 1, shape).astype("f4")


def _zeros(*shape: int) -> Array:
    return np.zeros(shape, "f4")


def _int(random: Random, low: int, high: int) -> int:
    """A number from ``low`` to ``high``, both included."""
    return int(random.integers(low, high + 1))


def _power(random: Random, low: int, high: int) -> int:
    return 2 ** _int(random, low, high)


def _add(random: Random) -> Draw:
    block, grid = _int(random, 1, 256), _int(random, 1, 4)
    n = _int(random, 0, block * grid)
    size = max(n, 1)
    arrays = _floats(random, size), _floats(random, size), _zeros(size)
    return (block, 1, 1), (grid, 1, 1), (*arrays, n)


def _saxpy(random: Random) -> Draw:
    n = _int(random, 0, 1500)
    arrays = _floats(random, max(n, 1)), _floats(random, max(n, 1))
    return (_int(random, 1, 256), 1, 1), (_int(random, 1, 3), 1, 1), (n, 1.5, *arrays)


def _saxpy_loop(random: Random) -> Draw:
    n = _int(random, 0, 1500)
    arrays = _floats(random, max(n, 1)), _floats(random, max(n, 1))
    return (_int(random, 1, 256), 1, 1), (1, 1, 1), (*arrays, 1.5, n)


def _transpose(random: Random) -> Draw:
    block = (_int(random, 1, 32), _int(random, 1, 16), 1)
    grid = (_int(random, 1, 3), _int(random, 1, 3), 1)
    width, height = _int(random, 1, block[0] * grid[0]), _int(random, 1, block[1] * grid[1])
    return block, grid, (_floats(random, height, width), _zeros(width, height), width, height)


def _transpose_tiled(random: Random) -> Draw:
    x, y = _int(random, 1, 3), _int(random, 1, 3)
    arrays = _floats(random, 32 * y, 32 * x), _zeros(32 * x, 32 * y)
    return (32, 8, 1), (x, y, 1), (*arrays, 32 * x, 32 * y)


def _product(random: Random) -> Draw:
    x, y, z = _int(random, 1, 2), _int(random, 1, 2), _int(random, 1, 3)
    m, n, k = 32 * y, 32 * x, 32 * z
    arrays = _floats(random, m, k), _floats(random, k, n), _zeros(m, n)
    return (32, 32, 1), (x, y, 1), (*arrays, m, n, k)


def _tile_product(warps: int) -> Callable[[Random], Draw]:
    def draw(random: Random) -> Draw:
        k = 32 * _int(random, 1, 3)
        arrays = _floats(random, 32, k), _floats(random, k, 32), _zeros(32, 32)
        return (32, warps, 1), (1, 1, 1), (*arrays, 32, k)

    return draw


def _stencil(random: Random) -> Draw:
    x, y = _int(random, 1, 3), _int(random, 1, 3)
    shape = 8 * y + 2, 32 * x + 2
    return (32, 8, 1), (x, y, 1), (_floats(random, *shape), _zeros(*shape), 32 * x)


def _convolution(random: Random) -> Draw:
    block, grid = _int(random, 1, 256), _int(random, 1, 4)
    n = _int(random, 0, block * grid)
    return (block, 1, 1), (grid, 1, 1), (_floats(random, n + 6), _zeros(max(n, 1)), n)


def _histogram(random: Random) -> Draw:
    n = _int(random, 0, 2000)
    data = random.integers(0, _power(random, 0, 8), max(n, 1)).astype("u1")
    return (256, 1, 1), (_int(random, 1, 3), 1, 1), (data, np.zeros(256, "u4"), n)


def _scan(random: Random) -> Draw:
    block, grid = _int(random, 1, 512), _int(random, 1, 2)
    data = random.integers(-99, 99, (grid, block)).astype("i4")
    return (block, 1, 1), (grid, 1, 1), (data, np.zeros_like(data))


def _reduce(block: Callable[[Random], int]) -> Callable[[Random], Draw]:
    def draw(random: Random) -> Draw:
        n = _int(random, 0, 1500)
        return (block(random), 1, 1), (1, 1, 1), (_floats(random, max(n, 1)), _zeros(1), n)

    return draw


def _sort(random: Random) -> Draw:
    block, grid = _power(random, 1, 8), _int(random, 1, 2)
    data = random.integers(-99, 99, (grid, block)).astype("i4")
    return (block, 1, 1), (grid, 1, 1), (data,)


def _loop(random: Random) -> Draw:
    n = _int(random, 1, 60)
    return (_int(random, 1, 64), 1, 1), (1, 1, 1), (_floats(random, n * n + 64), n)


def _loop_nested(random: Random) -> Draw:
    n, m = _int(random, 0, 20), _int(random, 0, 20)
    return (_int(random, 1, 64), 1, 1), (1, 1, 1), (_floats(random, n * m + 1), n, m)


def _loop_step(random: Random) -> Draw:
    n, step = _int(random, 0, 60), _int(random, 1, 9)
    return (_int(random, 1, 64), 1, 1), (1, 1, 1), (_floats(random, n + 1), n, step)


def _triangular_solve(random: Random) -> Draw:
    block, grid, n = _int(random, 1, 64), _int(random, 1, 2), _int(random, 0, 14)
    arrays = _floats(random, max(n, 1), max(n, 1)), _floats(random, max(n, 1), block * grid)
    return (block, 1, 1), (grid, 1, 1), (*arrays, n)


def _triangular_sum(random: Random) -> Draw:
    block, n = _int(random, 1, 64), _int(random, 0, 18)
    arrays = _floats(random, max(n, 1), max(n, 1)), _floats(random, max(n, 1)), _zeros(block)
    return (block, 1, 1), (1, 1, 1), (*arrays, n)


def _mandelbrot(random: Random) -> Draw:
    block, grid = (_int(random, 1, 32), _int(random, 1, 8), 1), (_int(random, 1, 2), 1, 1)
    width = block[0] * grid[0]
    x, y, step = random.uniform(-2, 0.5), random.uniform(-1, 1), random.uniform(0.001, 0.1)
    out = np.zeros((block[1], width), "i4")
    return block, grid, (out, width, float(x), float(y), float(step), _int(random, 1, 40))


def _triton_add(random: Random) -> Draw:
    grid = _int(random, 1, 3)
    n = _int(random, 1, 1024 * grid)
    arrays = _floats(random, n), _floats(random, n), _zeros(n)
    return (128, 1, 1), (grid, 1, 1), (*arrays, n, 0, 0)


def _matvec(random: Random) -> Draw:
    block, n = _int(random, 1, 128), _int(random, 0, 30)
    arrays = random.random((max(n, 1), block)), random.random(max(n, 1)), np.zeros(block)
    return (block, 1, 1), (1, 1, 1), (*arrays, n)


def _steps(random: Random) -> Draw:
    block = _int(random, 1, 256)
    return (block, 1, 1), (1, 1, 1), (_floats(random, block), _zeros(block), _int(random, 0, 20))


def _diverge(random: Random) -> Draw:
    block = _int(random, 1, 128)
    data = random.integers(0, 999, block).astype("i4")
    return (block, 1, 1), (1, 1, 1), (data, np.zeros_like(data), _int(random, 0, 20))


def _warps_of_32(random: Random) -> int:
    return 32 * _int(random, 1, 16)


def _up_to_512(random: Random) -> int:
    return _power(random, 0, 9)


_LOOPS = (
    "up", "down", "strided", "shifted", "multiplied", "while", "do_while", "unrolled", "triangular",
    "unsigned", "wide", "block_stride", "threads",
)  # fmt: skip

KINDS: tuple[Kind, ...] = (
    Kind("samples/vector_add.ptx", "vector_add", _add),
    Kind("samples/saxpy.ptx", "saxpy", _saxpy),
    Kind("samples/transpose_naive.ptx", "transpose_naive", _transpose),
    Kind("samples/transpose_tiled.ptx", "transpose_tiled", _transpose_tiled),
    Kind("samples/sgemm_naive.ptx", "sgemm_naive", _product),
    Kind("samples/sgemm_double_buffered.ptx", "sgemm_double_buffered", _product),
    Kind("samples/sgemm_cp_async.ptx", "sgemm_cp_async", _product),
    Kind("samples/stencil_2d.ptx", "stencil_2d", _stencil),
    Kind("samples/convolution.ptx", "convolution", _convolution),
    Kind("samples/histogram.ptx", "histogram", _histogram),
    Kind("samples/scan.ptx", "scan", _scan),
    Kind(
        "samples/block_reduce.ptx",
        "block_reduce_tree",
        _reduce(_up_to_512),
    ),
    Kind("samples/block_reduce.ptx", "block_reduce_shuffle", _reduce(_warps_of_32)),
    Kind("samples/bitonic_sort.ptx", "bitonic_sort", _sort),
    *(Kind("samples/loops.ptx", f"loop_{name}", _loop) for name in _LOOPS),
    Kind("samples/loops.ptx", "loop_break", _loop, {"$L__BB15_2": 1}),
    Kind("samples/loops.ptx", "loop_nested", _loop_nested),
    Kind("samples/loops.ptx", "loop_step", _loop_step),
    Kind("samples/triangular.ptx", "triangular_solve", _triangular_solve),
    Kind("samples/triangular.ptx", "triangular_sum", _triangular_sum),
    Kind("samples/mandelbrot.ptx", "mandelbrot", _mandelbrot, {"$L__BB0_2": 5}),
    Kind("samples/triton_add.ptx", "triton_add", _triton_add),
    Kind(REFERENCE, "vecadd", _add),
    Kind(REFERENCE, "saxpy_loop", _saxpy_loop),
    *(Kind(REFERENCE, f"sgemm_naive_{n}", _tile_product(n)) for n in (1, 4, 8, 16, 32)),
    *(Kind(REFERENCE, f"sgemm_db_{n}", _tile_product(n)) for n in (1, 4, 8, 16, 32)),
    Kind(REFERENCE, "reduce_smem", _reduce(_up_to_512)),
    Kind(REFERENCE, "stencil1d", _steps),
    Kind(REFERENCE, "mathmix", _steps),
    Kind(REFERENCE, "matvec_f64", _matvec),
    Kind(REFERENCE, "diverge", _diverge),
)
"""Every kernel of the samples and of the reference data that takes arguments."""
