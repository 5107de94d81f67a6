"""What loads, stores and atomic operations take on a GPU, and how it starts blocks.

    nvcc -cubin -arch=sm_90 -O3 benchmarks/silicon/memory.cu -o memory.cubin
    python benchmarks/silicon/memory.py memory.cubin docs/experiments/silicon-h200-memory.json

Needs CuPy. Four tables, in cycles of an SM (docs/experiments/silicon-h200.md says what they show):

* ``chases``: loads of one warp, each waiting for the one before, of an idle GPU whose caches hold
  something else; and the longest sums of 2 to 128 loads that follow each other;
* ``rates``: what an access takes of the path of an SM, or with all SMs of the memory, by pattern;
* ``scattered``: words of sectors in any order, by all SMs;
* ``dispatch``: from the end of a block to the first instruction of the one that gets its place, by
  whether an older block was on the SM; how far apart the warps of a block start.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

MIB, GIB = 1 << 20, 1 << 30
_FLUSHED_BYTES = 512 * MIB
_SPIN_CYCLES = 3000
_MISSED_CYCLES = 1000
"""A place that stays empty longer is not refilled by the end of its block."""
_RATES = (("load", 4), ("load", 16), ("load_l1", 4), ("store", 4), ("store", 16), ("red", 4))
_STRIDES = (0, 4, 8, 12, 16, 20, 32, 36, 64, 96, 128, 160, 256, 1056)


def figures(cycles: Sequence[int] | np.ndarray[Any, Any]) -> dict[str, int]:
    """Least, middle, 99th and 99.9th hundredth, longest, and how many."""
    ordered = np.sort(np.asarray(cycles, dtype=np.int64))
    places = {"least": 0.0, "middle": 0.5, "of 100": 0.99, "of 1000": 0.999}
    found = {name: int(ordered[int(part * len(ordered))]) for name, part in places.items()}
    return {"n": len(ordered), **found, "longest": int(ordered[-1])}


class Gpu:
    """The kernels of ``memory.cu`` on the first GPU."""

    def __init__(self, cubin: str) -> None:
        cupy: Any = importlib.import_module("cupy")
        self.cupy = cupy
        self._module = cupy.RawModule(path=cubin)
        self._flushed = cupy.zeros(_FLUSHED_BYTES, dtype=cupy.uint8)
        self.sms = int(cupy.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"])

    def zeros(self, count: int, kind: str = "uint64") -> Any:
        """An array on the GPU."""
        return self.cupy.zeros(count, dtype=kind)

    def run(self, name: str, grid: int, block: int, *arguments: Any, shared_bytes: int = 0) -> None:
        """Launches a kernel; whole numbers are passed as 32 bits, others as they are."""
        kernel = self._module.get_function(name)
        kernel.max_dynamic_shared_size_bytes = max(shared_bytes, 1)
        given = [np.int32(one) if type(one) is int else one for one in arguments]
        kernel((grid,), (block,), tuple(given), shared_mem=shared_bytes)

    def flush(self, value: int) -> None:
        """Writes more than the caches hold."""
        self._flushed.fill(value % 256)


def chases(gpu: Gpu) -> Iterator[dict[str, Any]]:
    """Loads of arrays of several sizes; of the one of 8 GiB many."""
    random = np.random.default_rng(7)
    for size, rounds in ((1 * MIB, 10), (64 * MIB, 10), (1 * GIB, 10), (8 * GIB, 500)):
        lines = np.unique(random.integers(0, size // 128, 2048).astype(np.uint64))
        random.shuffle(lines)
        places = np.append(lines, lines[0]) * np.uint64(16)
        buffer, count = gpu.zeros(size // 8), len(lines)
        gpu.run("scatter", -(-count // 256), 256, buffer, gpu.cupy.asarray(places), count)
        times, runs = gpu.zeros(count, "uint32"), []
        for number in range(rounds):
            gpu.flush(number)
            gpu.run("chase", 1, 32, buffer, places[0], count, times)
            runs.append(times.get().astype(np.int64))
        windows = {
            str(n): int(max(np.convolve(one, np.ones(n, np.int64), "valid").max() for one in runs))
            for n in (2, 4, 8, 16, 32, 64, 128)
        }
        yield {"bytes": size, **figures(np.concatenate(runs)), "sums": windows}


def rates(gpu: Gpu) -> Iterator[dict[str, Any]]:
    """Cycles an access by what its lanes touch; ``all`` SMs at places of their own, or the same."""
    base = gpu.zeros(3 * GIB, "uint8")
    for what, size in (*_RATES, ("atom", 4)):
        for stride in _STRIDES:
            if stride % size or 0 < stride < size:
                continue
            touched = np.arange(32)[:, None] * stride + np.arange(0, size, 4)[None]
            row: dict[str, Any] = {"what": what, "bytes": size, "stride": stride}
            row |= {"lines": len(np.unique(touched // 128))}
            row |= {"sectors": len(np.unique(touched // 32))}
            span = -(-(31 * stride + size) // 128) * 128
            for name, blocks, apart in (
                ("one", 1, 1),
                ("all", gpu.sms, 1),
                ("all, same", gpu.sms, 0),
            ):
                step, far, farther = span * apart, span * 8 * apart, span * 256 * apart
                if farther * blocks > 3 * GIB:
                    continue
                record, found = gpu.zeros(2 * blocks), []
                places = [np.uint64(one) for one in (step, far, farther, 0)]
                for _ in range(4):
                    gpu.run(f"{what}_{size}", blocks, 1024, base, stride, *places, record)
                    both = record.get().reshape(-1, 2).astype(np.int64)
                    found.append(int((both[:, 1] - both[:, 0]).max()) / (8 * 8 * 32))
                row[name] = round(max(found[1:]), 2)
            yield row


def scattered(gpu: Gpu) -> Iterator[dict[str, Any]]:
    """Cycles for 1024 sectors, in the L2 cache or not."""
    array = gpu.zeros(2 * GIB // 4, "uint32")
    for size in (8 * MIB, 2 * GIB):
        for number, what in enumerate(("read", "write", "add")):
            blocks, count = 2 * gpu.sms, 64
            record = gpu.zeros(3 * blocks)
            for _ in range(2):
                gpu.run(
                    "scattered", blocks, 1024, array, np.uint64(size // 32), count, number, record
                )
            rows = record.get().astype(np.int64).reshape(-1, 3)
            spans = [int(one[:, 2].max() - one[:, 1].min()) for one in _by_sm(rows)]
            yield {"bytes": size, "what": what, "cycles": round(max(spans) / (blocks * count), 1)}


def dispatch(gpu: Gpu) -> Iterator[dict[str, Any]]:
    """Places that become free, and the warps of a block."""
    for threads, shared, is_stored in (
        *((n, 0, 0) for n in (64, 128, 256, 512, 640, 992, 1024)),
        *((n, 100 << 10, 0) for n in (32, 128, 256, 512)),
        *((n, 200 << 10, k) for k in (0, 1) for n in (32, 256, 1024)),
    ):
        warps, blocks = threads // 32, gpu.sms * max(24, 8192 // threads)
        record, last = gpu.zeros(3 * blocks * warps), gpu.zeros(blocks * threads)
        cycles = np.uint64(_SPIN_CYCLES)
        for _ in range(2):
            gpu.run("blocks", blocks, threads, cycles, record, last, is_stored, shared_bytes=shared)
        rows = record.get().astype(np.int64).reshape(blocks, warps, 3)
        begins = rows[:, :, 1]
        found = _refilled(np.stack([rows[:, 0, 0], begins.min(1), rows[:, :, 2].max(1)], axis=1))
        yield {
            "threads": threads,
            "shared_bytes": shared,
            "ends with a store": bool(is_stored),
            **found,
            "warps apart": figures(begins.max(1) - begins.min(1)),
        }


def _refilled(blocks: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Of blocks (SM, begin, end) while others wait: gaps, and places that stayed empty."""
    gaps: list[int] = []
    counts = dict.fromkeys(
        ("oldest: refilled", "oldest: not", "younger: refilled", "younger: not"), 0
    )
    most = 0
    for rows in _by_sm(blocks):
        changes = sorted([(b, 1) for b in rows[:, 1]] + [(e, -1) for e in rows[:, 2]])
        held = np.cumsum([change for _, change in changes]).max()
        most = max(most, int(held))
        later = sorted(int(one) for one in rows[:, 1])[held:]
        for begin, end in sorted(
            ((int(b), int(e)) for b, e in rows[:, 1:]), key=lambda one: one[1]
        ):
            behind = [one for one in later if one > end]
            if not behind:
                break
            older = ((rows[:, 1] < begin) & (rows[:, 2] > end)).any()
            is_refilled = behind[0] - end <= _MISSED_CYCLES
            counts[
                f"{'younger' if older else 'oldest'}: {'refilled' if is_refilled else 'not'}"
            ] += 1
            if is_refilled:
                gaps.append(behind[0] - end)
                later.remove(behind[0])
    return {"blocks of an SM": most, **counts, "gap": figures(gaps) if gaps else None}


def _by_sm(rows: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    for one in np.unique(rows[:, 0]):
        yield rows[rows[:, 0] == one]


def main() -> int:
    """Runs all and writes a line for each row."""
    gpu = Gpu(sys.argv[1])
    tables = []
    for table in (chases, rates, scattered, dispatch):
        rows = ",\n ".join(json.dumps(row) for row in table(gpu))
        tables.append(f'"{table.__name__}": [\n {rows}\n]')
        gpu.cupy.get_default_memory_pool().free_all_blocks()
    Path(sys.argv[2]).write_text("{\n" + ",\n".join(tables) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
