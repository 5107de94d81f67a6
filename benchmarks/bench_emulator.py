"""Speed of the emulator: ``python benchmarks/bench_emulator.py``.

Prints executed warp instructions a second of SGEMM by the number of its warps, with and without the
checks and with recorded paths, of the other samples, and what numpy needs for the same product in
the same run. Memory is that of the process after the largest run, and of the launch's data.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np
from random_launches import KINDS, REFERENCE, load, random_launch

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import CHECKS, EmulatedLaunch, EmulatorOptions, Execution

RANDOM = np.random.default_rng(1)


def best(call: Callable[[], Execution], repetitions: int = 3) -> tuple[Execution, float]:
    """The result and the shortest time of some runs."""
    least = float("inf")
    for _ in range(repetitions):
        begin = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - begin)
    return result, least


def sgemm(
    warps: int, size: int, checks: frozenset[str] = CHECKS, *, paths: bool = False
) -> tuple[Execution, float]:
    """A block of ``warps`` warps computes 32 x 32 elements from 32 x size and size x 32."""
    source = load(REFERENCE)
    (kernel,) = [k for k in source.kernels if k.name == f"sgemm_naive_{warps}"]
    a, b = RANDOM.random((32, size), dtype="f4"), RANDOM.random((size, 32), dtype="f4")
    arguments = (a, b, np.zeros((32, 32), "f4"), 32, size)
    launch = EmulatedLaunch((32, warps, 1), (1, 1, 1), arguments)
    options = EmulatorOptions(checks=checks, record_paths=paths)
    return best(lambda: execute(kernel, source, launch, options=options))


def row(name: str, result: Execution, seconds: float) -> None:
    rate = result.warp_instructions / seconds
    print(f"{name:42} {result.warp_instructions:>11,} {seconds:9.4f} s {rate:>13,.0f} /s")


def main() -> None:
    """Prints the table."""
    print(f"{'run':42} {'warp instr.':>11} {'time':>11} {'rate':>16}")
    for warps in (1, 4, 8, 16, 32):
        row(f"sgemm_naive, {warps} warps", *sgemm(warps, 1024))
    row("sgemm_naive, 32 warps, paths recorded", *sgemm(32, 1024, paths=True))
    unchecked, seconds = sgemm(32, 1024, frozenset())
    row("sgemm_naive, 32 warps, fewest checks", unchecked, seconds)
    for kind in KINDS:
        if kind.file == REFERENCE:
            continue
        kernel, _, launch, _ = random_launch(kind, 5)
        source = load(kind.file)
        options = EmulatorOptions()
        done = best(lambda k=kernel, s=source, n=launch, o=options: execute(k, s, n, options=o), 2)
        row(f"{kind.name}, a random launch", *done)
    size = 16384
    result, seconds = sgemm(32, size)
    row(f"sgemm_naive, 32 warps, K = {size:,}", result, seconds)
    a, b = RANDOM.random((32, size), dtype="f4"), RANDOM.random((size, 32), dtype="f4")
    begin = time.perf_counter()
    for _ in range(10):
        a @ b
    numpy = (time.perf_counter() - begin) / 10
    print(f"numpy multiplies the same matrices in {numpy:.6f} s: 1/{seconds / numpy:,.0f} of that")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    data = 2 * a.nbytes / 2**20
    print(f"peak memory of the process {peak:.0f} MiB, data of the launch {data:.1f} MiB")


if __name__ == "__main__":
    main()
