"""Whole kernels with engines: when each block began and ended, and whether results are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_int, c_uint64
from functools import partial
from pathlib import Path

import numpy as np
from driver import Gpu, as_argument, warm
from sink import Sink
from timed import BLOCKS

TILES = (1, 2, 6, 16, 64)
PLAIN = "engines_plain"


class Runner:
    """Launches of kernels with times kept."""

    def __init__(self, gpu: Gpu, binaries: Path, sink: Sink) -> None:
        self.gpu, self.sink = gpu, sink
        self.modules = {
            name: gpu.load(str(binaries / f"{name}.cubin"))
            for name in ("mbarriers", "engines_of_tests", PLAIN, "matmul_90", "matmul_8_warps_90",
                         "matmul_of_boxes_90")
        }  # fmt: skip
        self.a, self.b, self.c = (gpu.allocate(1 << 26) for _ in range(3))
        self.rng = np.random.default_rng(5)

    def numbers(self, *shape: int, kind: str = "float16") -> np.ndarray:
        """Small whole numbers, whose sums of products are exact."""
        return self.rng.integers(-2, 3, shape).astype(kind)

    def run(
        self,
        module: str,
        kernel: str,
        grid: tuple[int, ...],
        block: int,
        shared: int,
        arguments: Sequence[object],
        check: Callable[[], dict[str, object]],
        **about: object,
    ) -> None:
        if not self.sink.next(f"{module}:{kernel}"):
            return
        gpu, loaded = self.gpu, self.modules[module]
        function = gpu.function(loaded, kernel, shared)
        gpu.fill(self.c, 255, 1 << 24)
        blocks = int(np.prod(grid))
        assert blocks <= BLOCKS
        if module == PLAIN:  # no times are kept
            ms = [gpu.launch(function, grid, block, shared, arguments) for _ in range(12)]
            about = {"kernel": f"{module}:{kernel}", "grid": grid, **check(), **about}
            self.sink.put({**about, "milliseconds": ms}, np.zeros(0, "int32"))
            return
        place, size = gpu.variable(loaded, "kept_times")
        assert size == 40 * BLOCKS
        start = np.zeros((blocks, 5), "int64")
        start[:, [0, 2]] = 2**62
        times, ms = [], []
        for _ in range(60 if blocks == 1 else 12):
            gpu.put(place, start)
            ms.append(gpu.launch(function, grid, block, shared, arguments))
            times.append(gpu.get(place, (blocks, 5), "int64"))
        data = np.stack(times)
        began = data[:, :, 2].min(axis=1)
        kept = np.stack(
            [
                data[:, :, 1] - data[:, :, 0],
                data[:, :, 2] - began[:, None],
                data[:, :, 3] - began[:, None],
                data[:, :, 4],
            ],
            axis=2,
        )
        self.sink.put(
            {"kernel": f"{module}:{kernel}", "grid": grid, "block": block, "shared": shared,
             **check(), "milliseconds": ms, **about},
            np.clip(kept, -1, 2**31 - 1).astype("int32"),
        )  # fmt: skip

    def compared(self, right: np.ndarray) -> dict[str, object]:
        """Whether the results are those of numpy; else which are not."""
        got = self.gpu.get(self.c, right.shape, str(right.dtype))
        if np.array_equal(got, right):
            return {"right": True}
        wrong = np.flatnonzero((got != right).reshape(-1))
        places = [[int(one), float(got.flat[one]), float(right.flat[one])] for one in wrong[:20]]
        rows = np.unique(wrong // 256)
        return {"right": False, "wrong": len(wrong), "places": places, "rows": rows[:300].tolist()}


def tiled(matrix: np.ndarray) -> np.ndarray:
    """Tiles of 64 x 64 of a matrix, in core matrices of 8 x 16 bytes, as `gemm` wants them."""
    rows, columns = matrix.shape
    parts = matrix.reshape(rows // 64, 8, 8, columns // 64, 8, 8)
    return np.ascontiguousarray(parts.transpose(0, 3, 1, 4, 2, 5))


def products(r: Runner) -> None:
    """Both products of ours, alone and many."""
    for across, down in ((1, 1), (16, 16)):
        for tiles in TILES:
            a, b = r.numbers(64 * down, 64 * tiles), r.numbers(64 * across, 64 * tiles)
            r.gpu.put(r.a, tiled(a))
            r.gpu.put(r.b, tiled(b))
            r.gpu.fill(r.c, 0, 1 << 24)
            right = a.astype("f4") @ b.astype("f4").T
            arguments: list[object] = [c_uint64(r.a), c_uint64(r.b), c_uint64(r.c), c_int(tiles)]
            r.run("mbarriers", "gemm", (across, down), 160, 65536, arguments,
                  partial(r.compared, right), tiles=tiles)  # fmt: skip
        for tiles in TILES:
            a, b = r.numbers(128 * down, 64 * tiles), r.numbers(64 * across, 64 * tiles)
            r.gpu.put(r.a, a)
            r.gpu.put(r.b, b)
            r.gpu.fill(r.c, 0, 1 << 24)
            right = a.astype("f4") @ b.astype("f4").T
            k = 64 * tiles
            maps = [
                r.gpu.tensor_map("f16", place, (k, rows), (2 * k,), (64, height), 3)
                for place, rows, height in ((r.a, 128 * down, 128), (r.b, 64 * across, 64))
            ]
            arguments = [*[as_argument(one.bytes) for one in maps], c_uint64(r.c), c_int(tiles)]
            r.run("engines_of_tests", "tensor_gemm", (across, down), 384, 98304, arguments,
                  partial(r.compared, right), tiles=tiles)  # fmt: skip


def rings(r: Runner) -> None:
    for blocks in (1, 264):
        for tiles in (5, 6, 7, 16, 64):
            x = r.numbers(64 * 256, kind="float32")
            r.gpu.put(r.a, x)
            arguments = [c_uint64(r.a), c_uint64(r.c), c_int(tiles)]
            plain = x[: 32 * tiles].reshape(tiles, 32).sum(axis=0)
            tile = x[: 256 * tiles].reshape(tiles, 256)
            sums = np.stack([tile[:, t::96].sum() for t in range(96)])
            right = np.tile(np.tile(plain, 3), blocks)
            r.run("mbarriers", "plain_ring", (blocks,), 128, 0, arguments,
                  partial(r.compared, right), tiles=tiles)  # fmt: skip
            right = np.tile(sums, blocks)
            for name in ("bulk_ring", "ring_of_three"):
                r.run("mbarriers", name, (blocks,), 128, 0, arguments,
                      partial(r.compared, right), tiles=tiles)  # fmt: skip
            box = r.gpu.tensor_map("f32", r.a, (64, 256), (256,), (64, 4))
            r.run("engines_of_tests", "tensor_ring", (blocks,), 128, 0,
                  [as_argument(box.bytes), c_uint64(r.c), c_int(tiles)],
                  partial(r.compared, right), tiles=tiles)  # fmt: skip
            r.gpu.put(r.b, np.frombuffer(box.bytes, np.uint8))
            r.run("engines_of_tests", "tensor_ring_by_pointer", (blocks,), 128, 0,
                  [c_uint64(r.b), c_uint64(r.c), c_int(tiles)],
                  partial(r.compared, right), tiles=tiles)  # fmt: skip
            small = x[: 64 * tiles].reshape(tiles, 2, 32).sum(axis=(0, 1))
            right = np.tile(small, blocks)
            r.run("engines_of_tests", "small_ring", (blocks,), 64, 0, arguments,
                  partial(r.compared, right), tiles=tiles)  # fmt: skip
            sums = tile.sum(axis=0)
            for module in ("engines_of_tests", PLAIN):
                for some in (1,) if blocks == 1 else (2, 132, 133, 264):
                    right = np.tile(sums, some)
                    r.run(module, "specialised", (some,), 384, 0, arguments,
                          partial(r.compared, right), tiles=tiles)  # fmt: skip
        x = r.numbers(1024 * 264, kind="float32")
        r.gpu.put(r.a, x)
        right = x[: 1024 * blocks] + 1
        r.run("mbarriers", "there_and_back", (blocks,), 128, 4104, [c_uint64(r.a), c_uint64(r.c)],
              partial(r.compared, right))  # fmt: skip
    square = x[:1024].reshape(32, 32)
    maps = [r.gpu.tensor_map("f32", place, (32, 32), (128,), (32, 32)) for place in (r.a, r.c)]
    problem = bytes(128) + maps[0].bytes + maps[1].bytes + bytes(128)
    r.run("engines_of_tests", "there_and_back", (1,), 128, 0, [as_argument(problem)],
          lambda: r.compared(2 * square))  # fmt: skip


def triton(r: Runner) -> None:
    """Of benchmarks/triton_kernels: 512 x 512 x 512 as the page of Triton has it, and larger."""
    for size in (512, 1024):
        a, b = r.numbers(size, size), r.numbers(size, size)
        r.gpu.put(r.a, a)
        r.gpu.put(r.b, b)
        right = (a.astype("f4") @ b.astype("f4")).astype("f2")
        sizes = [c_int(size)] * 6
        spare = [c_uint64(0), c_uint64(0)]
        arguments = [c_uint64(r.a), c_uint64(r.b), c_uint64(r.c), *sizes, *spare]

        def check(right: np.ndarray = right) -> dict[str, object]:
            return r.compared(right)

        for name, block, tile, shared in (
            ("matmul", 128, 64 * 128, 65536), ("matmul_8_warps", 256, 128 * 128, 114688),
        ):  # fmt: skip
            r.gpu.fill(r.c, 0, 1 << 22)
            r.run(f"{name}_90", "matmul", (size * size // tile,), block, shared, arguments, check)
        maps = [
            r.gpu.tensor_map("f16", place, (size, size), (2 * size,), box, 3)
            for place, box in ((r.a, (64, 32)), (r.b, (64, 64)), (r.c, (64, 32)))
        ]
        described: list[object] = []
        for one in maps:
            shape = [c_int(size), c_int(size), c_uint64(size), c_uint64(1)]
            described += [as_argument(one.bytes), *shape]
        described += [c_int(size), *spare]
        r.gpu.fill(r.c, 0, 1 << 22)
        r.run("matmul_of_boxes_90", "matmul_of_boxes", (size // 32, size // 64), 128, 65536,
              described, check)  # fmt: skip


def whole(gpu: Gpu, binaries: Path, sink: Sink) -> None:
    out = gpu.allocate(1 << 20)
    warm(gpu, gpu.load(str(binaries / "engines.cubin")), out)
    runner = Runner(gpu, binaries, sink)
    for part in (products, rings, triton):
        part(runner)
