"""Measures the asynchronous engines of an SM: ``python measure.py BINARIES OUT [GROUP ...]``.

Runs groups of experiments, each in a process of its own with a limit of time, and appends what they
give to OUT/GROUP.bin: a line of JSON for each launch (its name and numbers, the shape of the data),
then the data, compressed. BINARIES holds what build.sh makes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from ctypes import c_int, c_uint64
from pathlib import Path
from typing import Any

import numpy as np
from driver import TYPES, DriverError, Gpu, as_argument, warm
from sink import Sink
from whole import whole

SLOTS = 64
SOURCE, TARGET = 1 << 30, 1 << 29
SECONDS = {
    "mbarriers": 20, "asking": 15, "whole": 18, "products": 12, "bulk": 12, "tensor": 10, "rest": 8,
}  # fmt: skip
"""The groups, the most valuable first, and how long each may take."""
ONE = 9.0
"""How long one process may take: it is killed if a kernel of it never ends."""


class Bench:
    """Launches of engines.cu."""

    def __init__(self, gpu: Gpu, binaries: Path, sink: Sink) -> None:
        self.gpu, self.sink = gpu, sink
        self.module = gpu.load(str(binaries / "engines.cubin"))
        self.source, self.target = gpu.allocate(SOURCE), gpu.allocate(TARGET)
        self.room = 132 * 64 * SLOTS * 8 + (1 << 20)
        self.out = gpu.allocate(self.room)
        gpu.fill(self.source, 1, SOURCE)
        gpu.fill(self.target, 0, TARGET)
        warm(gpu, self.module, self.out)

    def run(
        self,
        kernel: str,
        *,
        grid: int = 1,
        block: int = 32,
        shared: int = 0,
        reps: int = 64,
        launches: int = 3,
        slots: int = SLOTS,
        tensor: tuple[Any, ...] | None = None,
        offset: int = 0,
        span: int = 1 << 28,
        numbers: tuple[int, ...] = (),
        map_in_memory: bool = False,
    ) -> None:
        if not self.sink.next(kernel):
            return
        about: dict[str, object] = {
            "kernel": kernel, "grid": grid, "block": block, "numbers": numbers, "tensor": tensor,
            "offset": offset, "span": span,
        }  # fmt: skip
        gpu = self.gpu
        try:
            function = gpu.function(self.module, kernel, shared)
            made = bytes(128)
            if tensor is not None:
                kind, dimensions, pitches, box, swizzle, is_out = tensor
                place = self.target if is_out else self.source
                made = gpu.tensor_map(kind, place + offset, dimensions, pitches, box, swizzle).bytes
            if map_in_memory:
                gpu.put(self.target, np.frombuffer(made, np.uint8))
            found = []
            for _ in range(launches):
                gpu.fill(self.out, 255, grid * reps * SLOTS * 8)
                arguments = [
                    c_uint64(self.out), c_int(reps),
                    *[c_int(one) for one in (*numbers, *[0] * (6 - len(numbers)))],
                    c_uint64(self.source + offset), c_uint64(self.target + offset), c_uint64(span),
                    as_argument(made),
                ]  # fmt: skip
                gpu.launch(function, (grid,), block, shared, arguments)
                found.append(gpu.get(self.out, (grid, reps, SLOTS), "int64")[..., :slots])
            data = np.stack(found)
            if slots == SLOTS:  # leave out what nobody wrote
                used = (data != -1).any(axis=(0, 1, 2))
                about["used"] = np.flatnonzero(used).tolist()
                data = data[..., used]
            self.sink.put(about, np.clip(data, -1, 2**31 - 1).astype("int32"))
        except DriverError as error:
            self.sink.put({**about, "error": str(error)}, np.zeros(0, "int32"))
            raise


# --- groups ---------------------------------------------------------------------------------------

MANY = ("arrive", "arrive_tx", "test", "try")
BY_ONE = (
    "nothing", "expect", "init", "inval", "bulk_commit", "bulk_wait", "bulk_wait_read",
    "copy_commit", "copy_wait",
)  # fmt: skip
BY_ALL = (
    "nothing", "noinc", "fence_async", "fence_init", "fence_cta", "fence_gpu", "dependents",
    "grid_wait", "copy_commit", "copy_wait",
)  # fmt: skip
TOGETHER = ("elect", "sync_all", "sync_warp", "wg_fence", "wg_commit", "wg_wait", "store_fence")


def mbarriers(bench: Bench) -> None:
    run = bench.run
    # from the last arrival until others go on
    for kind in (0, 1):
        for lanes in (1, 32):
            for block in (64, 160, 256, 512, 1024):
                for first, spread, reps in ((300, 200, 64), (3000, 20000, 64)):
                    run("wake", block=block, reps=reps, numbers=(kind, lanes, first, spread, 1, 0))
        for count in (4, 8, 16):
            run("wake", block=1024, numbers=(kind, 1, 500, 200, count, 0))
            run("wake", block=1024, numbers=(kind, 32, 500, 200, count, 7))
    began = time.monotonic()  # how long try_wait suspends is not documented
    run("polls", block=32, reps=1, launches=1, numbers=(0, 1))
    again = 4 if time.monotonic() - began < 0.02 else 1
    for lanes in (1, 32):
        for block in (32, 64, 128, 160, 256, 512, 1024):
            if again > 1 or block in (64, 1024):
                run("polls", block=block, reps=again, launches=again, numbers=(0, lanes))
            run("polls", block=block, numbers=(1, lanes))
    for limit in (1, 100, 1000, 10_000):
        run("polls", block=32, reps=4, launches=1, numbers=(2, 1, limit))
    for kind in (0, 1):
        run("wake", block=160, reps=16, numbers=(kind, 1, 100_000, 2_000_000, 1, 0))
        for other in (1, 4):
            run("ping_pong", block=160, reps=64, numbers=(kind, 0, 64, other))
    for kind in (0, 1, 2):
        for block in (160, 512, 1024):
            run("beside_polls", block=block, numbers=(kind,))
    # single instructions
    for name in MANY:
        for count in (1, 4, 16, 64):
            for lanes in (1, 32):
                if name == "arrive_tx" and lanes == 32:
                    continue
                for block in (32, 128, 256, 1024):
                    run(f"row_{name}_{count}", block=block, numbers=(lanes,))
    for lanes, names in ((1, BY_ONE), (32, BY_ALL)):
        for name in names:
            for count in (1, 4, 16, 64):
                for block in (32, 128, 1024):
                    if name in ("inval", "init") and block > 32:
                        continue
                    run(f"row_{name}_{count}", block=block, numbers=(lanes,))
    for name in TOGETHER:
        for count in (1, 4, 16):
            for block in (32, 64, 128, 256, 512, 1024):
                if name.startswith("wg") and block < 128:
                    continue
                run(f"row_{name}_{count}", block=block)
    # barriers of the block, named ones
    for kind in (0, 1):
        for block in (32, 64, 128, 160, 256, 512, 1024):
            run("opens", block=block, numbers=(kind, 0, 500, 200))
    for block, count in ((64, 1), (128, 1), (128, 3), (256, 4), (512, 1), (1024, 1), (1024, 31)):
        run("opens", block=block, numbers=(2, 0, 500, 200, count))


def asking(bench: Bench) -> None:
    """How often warps ask that are told no, alone and while something else happens."""
    run, room = bench.run, 65536
    for kind in (0, 1):
        for lanes in (32, 1, 2, 16, 31):
            for block in (64, 160, 256, 512, 1024):
                cycles = 100_000 if lanes == 32 and kind == 0 else 20_000
                run("rounds", block=block, shared=room, reps=8, numbers=(kind, lanes, cycles, 0, 0))
    for lanes in (32, 1):
        for what in (1, 2, 3, 4, 5):
            for apart in (200, 1500):
                for block in (64, 160, 512):
                    numbers = (0, lanes, 50_000, apart, what)
                    run("rounds", block=block, shared=room, reps=8, numbers=numbers)
    for times in (20, 100):
        for beside in (0, 1):
            run("beside_takes", block=384, reps=1, launches=40, numbers=(times, beside))


SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)


def bulk(bench: Bench) -> None:
    room = 200 * 1024
    for new in (0, 1):
        for size in SIZES:
            apart = max(size, 16384) if new else size
            for kernel in ("bulk_in", "bulk_out"):
                for count in (1, 2, 4, 8, 12, 16, 32, 64, 128):
                    if count * size > 196608 or (count > 12 and size > 4096):
                        continue
                    numbers = (size, count, new, apart, size)
                    run_all = count in (1, 8, 32)
                    for grid in (1, 132) if run_all else (1,):
                        bench.run(
                            kernel, grid=grid, shared=room, slots=4, numbers=numbers,
                            reps=64 if grid == 1 else 12, launches=3 if grid == 1 else 2,
                        )  # fmt: skip
    for new in (0, 1):
        for size, stages in (
            (16, 16), (64, 16), (256, 16), (1024, 16), (2048, 16), (4096, 16), (8192, 16),
            (16384, 8), (16384, 4), (16384, 2), (16384, 1), (32768, 4), (65536, 3),
            (65536, 2), (65536, 1),
        ):  # fmt: skip
            for grid in (1, 132):
                for count in (48, 144):
                    bench.run(
                        "bulk_stream", grid=grid, shared=room, slots=1, reps=16, launches=3,
                        numbers=(size, stages, new, size, 0, count),
                        span=1 << 28 if new else 1 << 24,
                    )  # fmt: skip
    # begins at 16 bytes behind a line
    for size in (16, 128, 1024, 4096, 16384):
        for kernel in ("bulk_in", "bulk_out"):
            for count in (1, 8):
                bench.run(
                    kernel, shared=room, slots=4, offset=16, numbers=(size, count, 0, size, size)
                )
    # others that begin elsewhere, in memory and in shared memory, and of other sizes
    for size in (4096, 16384, 16384 - 16, 16384 + 48):
        for offset in (16, 32, 48, 64, 112):
            for to in (0, 16, 64, offset):
                for kernel in ("bulk_in", "bulk_out"):
                    for count in (1, 8):
                        bench.run(
                            kernel, shared=room, slots=4, offset=offset, reps=16,
                            numbers=(size, count, 0, 16384, 16640, to),
                        )  # fmt: skip
    for offset in (0, 16):
        for size, stages in ((1024, 16), (4096, 16), (8192, 16), (16384, 8), (65536, 2)):
            bench.run(
                "bulk_stream", shared=room, slots=1, reps=16, launches=3, offset=offset,
                numbers=(size, stages, 0, size, 0, 144), span=1 << 24,
            )  # fmt: skip
    for lanes in (1, 2, 8, 32):
        for size in (16, 128, 1024):
            bench.run(
                "bulk_in_lanes", shared=room, slots=2, numbers=(size, 0, 0, size, size, lanes)
            )


BOXES = (
    # kind, elements of a row, rows, swizzle
    ("u16", 8, 1, 0), ("u16", 8, 8, 0), ("u16", 8, 64, 0), ("u16", 8, 256, 0), ("u16", 16, 64, 0),
    ("u16", 16, 64, 1), ("u16", 32, 64, 0), ("u16", 32, 64, 2), ("u16", 64, 1, 0),
    ("u16", 64, 8, 0), ("u16", 64, 8, 3), ("u16", 64, 64, 0), ("u16", 64, 64, 3),
    ("u16", 64, 128, 3),
    ("u16", 64, 256, 3), ("u16", 128, 64, 0), ("u16", 256, 64, 0), ("f32", 256, 32, 0),
    ("f32", 64, 4, 0), ("f32", 32, 32, 0), ("f32", 32, 128, 3), ("u8", 128, 128, 3),
    ("u8", 16, 256, 0), ("u64", 256, 16, 0), ("u16", 24, 64, 0), ("u16", 40, 64, 0),
)  # fmt: skip


def tensor(bench: Bench) -> None:
    pitch, rows = 4096, 1 << 17
    for kind, inner, height, swizzle in BOXES:
        width = TYPES[kind][1]
        size = inner * width * height
        for is_out in (0, 1):
            about = (kind, (pitch // width, rows), (pitch,), (inner, height), swizzle, is_out)
            for count in (1, 2, 4, 8, 16):
                if count * ((size + 1023) & ~1023) > 196608:
                    continue
                for new in (0, rows - 256 * 16) if count in (1, 4) else (0,):
                    for grid in (1, 132) if count in (1, 4) else (1,):
                        bench.run(
                            "tensor_out" if is_out else "tensor_in", grid=grid, shared=200 * 1024,
                            slots=4 if is_out else 2, tensor=about,
                            reps=16 if grid == 1 else 6, launches=6 if grid == 1 else 2,
                            numbers=(size, count, height, new),
                        )  # fmt: skip
    # rows that begin elsewhere in a line; other pitches; the map in memory
    shapes = (
        ("u16", 64, 64, 3), ("u16", 64, 64, 0), ("u16", 8, 64, 0), ("u16", 8, 256, 0),
        ("u16", 256, 64, 0), ("u16", 64, 128, 3), ("f32", 256, 32, 0), ("u16", 24, 64, 0),
    )  # fmt: skip
    for kind, inner, height, swizzle in shapes:
        size = inner * TYPES[kind][1] * height
        for other in (4096, 4096 + 16, 4096 + 32, 8192 + 128, 65536):
            tall = min(rows, (1 << 28) // other)
            for column in (0, 8, 16, 40, 64):
                about = (kind, (1024, tall), (other,), (inner, height), swizzle, 0)
                for count in (1, 4):
                    bench.run(
                        "tensor_in_at", shared=200 * 1024, slots=2, tensor=about, reps=16,
                        launches=4, numbers=(size, count, height, 0, 0, column),
                    )  # fmt: skip
                about = (*about[:5], 1)
                bench.run(
                    "tensor_out", shared=200 * 1024, slots=4, tensor=about, reps=16,
                    launches=4, numbers=(size, 4, height, 0, 0, column),
                )  # fmt: skip
        about = (kind, (1024, 1 << 16), (4096,), (inner, height), swizzle, 0)
        bench.run(
            "tensor_in_memory", shared=200 * 1024, slots=2, tensor=about, reps=16, launches=20,
            numbers=(size, 1, height, 0, 1), map_in_memory=True,
        )  # fmt: skip
        bench.run(
            "tensor_in_at", shared=200 * 1024, slots=2, tensor=about, reps=1, launches=60,
            numbers=(size, 1, height, 0, 0),
        )  # fmt: skip
    # columns that are no multiple of 16 bytes
    for name, kind, inner, swizzle, column in (
        ("words", "f32", 64, 0, 1), ("halves", "u16", 64, 0, 1), ("swizzled", "u16", 64, 3, 4),
    ):  # fmt: skip
        about = (kind, (1024, 1 << 16), (4096,), (inner, 64), swizzle, 0)
        bench.run(
            f"tensor_in_{name}", shared=200 * 1024, slots=2, tensor=about, reps=4, launches=2,
            numbers=(inner * TYPES[kind][1] * 64, 1, 64, 0, 0, column),
        )  # fmt: skip


def products(bench: Bench) -> None:
    kinds = {
        "f16": (8, 16, 32, 64, 96, 128, 192, 256), "bf16": (64, 256),
        "tf32": (8, 64, 128, 256), "e4m3": (8, 64, 128, 256), "s8": (8, 64, 128, 256),
    }  # fmt: skip
    for kind, sizes in kinds.items():
        for n in sizes:
            for factor in ("ss", "rs", "ss_t"):
                if factor == "ss_t" and not (kind == "f16" and n in (64, 128, 256)):
                    continue
                for times in (1, 4, 16):
                    for groups in (1, 2, 3, 4):
                        if (n > 128 and groups > 3) or (n > 192 and groups > 2):
                            continue
                        for swizzled in (0, 1):
                            if swizzled == 0 and (factor == "ss_t" or groups > 2):
                                continue
                            bench.run(
                                f"wg_{kind}_{n}_{factor}_{times}", block=128 * groups,
                                shared=131072, reps=32, launches=2,
                                numbers=(groups, 0, swizzled, 0),
                            )  # fmt: skip
    for n in (8, 64, 128):
        for times in (4, 16):
            bench.run(f"wg_turns_{n}_{times}", block=128, shared=131072, numbers=(1, 0, 1, 0))
    # beside loads from shared memory (1) and bulk copies to it (2)
    for name in ("f16_64_ss", "f16_128_ss", "f16_256_ss", "f16_64_rs", "f16_256_rs", "tf32_128_ss",
                 "f16_8_ss"):  # fmt: skip
        for beside in (0, 1, 2):
            for times in (1, 4, 16):
                for more in (128, 256):
                    bench.run(
                        f"wg_{name}_{times}", block=128 + more, shared=200 * 1024, reps=32,
                        launches=2, numbers=(1, beside, 1, 0),
                    )  # fmt: skip
    # one warpgroup later than another
    for late in (20, 50, 100):
        bench.run("wg_f16_64_ss_4", block=256, shared=131072, numbers=(2, 0, 1, late))
    for warp in (9, 0, 1, 3):
        for where in (0, 1, 2, 3):
            bench.run("holds", block=128, shared=131072, numbers=(warp, 3000, where))
        bench.run("holds_straight", block=128, shared=131072, numbers=(warp, 3000))


def rest(bench: Bench) -> None:
    for first, then in ((500, 3000), (3000, 500), (500, 500), (500, 520), (20_000, 500)):
        bench.run("registers", block=384, reps=1, launches=60, numbers=(first, then))
    for kind in ("f16", "bf16"):
        for apart in (0, 1):
            for block in (32, 64, 128, 256, 512, 1024):
                bench.run(f"mma_{kind}", block=block, numbers=(apart,))
    for wait in (0, 1):
        for number in (0, 1, 2, 4):
            for small in (0, 1):
                for new in (0, 1):
                    for apart in (16, 128, 4096):
                        if number == 0 and (small or new or apart > 16):
                            continue
                        for block in (32, 128, 512):
                            bench.run(
                                "small", block=block, shared=65536,
                                numbers=(number, small, new, apart, wait),
                            )  # fmt: skip


def run_group(name: str, binaries: Path, out: Path, skipped: int, failed: tuple[str, ...]) -> None:
    gpu = Gpu(os.environ.get("CUDA_LIBRARY", "libcuda.so.1"))
    sink = Sink(out / f"{name}.bin", skipped, failed)
    sink.put({"gpu": gpu.name, "sms": gpu.sms, "group": name}, np.zeros(0, "int32"))
    if name == "whole":
        whole(gpu, binaries, sink)
    else:
        {
            "mbarriers": mbarriers,
            "asking": asking,
            "bulk": bulk,
            "tensor": tensor,
            "products": products,
            "rest": rest,
        }[name](Bench(gpu, binaries, sink))
    sink.put({"done": name}, np.zeros(0, "int32"))


def main() -> None:
    binaries, out = Path(sys.argv[1]), Path(sys.argv[2])
    if sys.argv[3:4] == ["--only"]:
        run_group(sys.argv[4], binaries, out, int(sys.argv[5]), tuple(sys.argv[6:]))
        return
    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or SECONDS:
        began, skipped = time.monotonic(), 0
        failed: list[str] = []
        for _ in range(12):
            left = min(ONE, SECONDS[name] - (time.monotonic() - began))
            if left < 1:
                break
            status = in_child(name, binaries, out, left, [str(skipped), *failed])
            tried = out / f"{name}.at"
            if not tried.exists():
                print(name, status, flush=True)
                break
            number, kernel = tried.read_text().split(" ", 1)
            print(name, status, number, kernel, f"{time.monotonic() - began:.1f} s", flush=True)
            if status == "0":
                break
            skipped = int(number)
            failed.append(kernel)


def in_child(name: str, binaries: Path, out: Path, seconds: float, behind: list[str]) -> str:
    """Runs a group in a process of its own; how that ended."""
    command = [sys.executable, __file__, str(binaries), str(out), "--only", name, *behind]
    with (out / f"{name}.err").open("ab") as errors:
        try:
            done = subprocess.run(
                command, timeout=seconds, stdout=subprocess.DEVNULL, stderr=errors
            )
        except subprocess.TimeoutExpired:
            return "timeout"
    return str(done.returncode)


if __name__ == "__main__":
    main()
