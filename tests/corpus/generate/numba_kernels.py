"""Numba kernels of the corpus, compiled without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from numba import cuda, float32, int32, types


def saxpy(n, a, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


def block_sum(x, out):
    partial = cuda.shared.array(256, dtype=float32)
    t = cuda.threadIdx.x
    partial[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    d = cuda.blockDim.x // 2
    while d > 0:
        if t < d:
            partial[t] += partial[t + d]
        cuda.syncthreads()
        d //= 2
    if t == 0:
        cuda.atomic.add(out, 0, partial[0])


def matrix_product(a, b, c):
    row, column = cuda.grid(2)
    total = 0.0
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total


def compiled() -> Iterator[tuple[str, str]]:
    """(name, PTX) of every kernel."""
    vector, matrix = float32[::1], float32[:, ::1]
    jobs = [
        (saxpy, (int32, float32, vector, vector)),
        (block_sum, (vector, vector)),
        (matrix_product, (matrix, matrix, matrix)),
    ]
    for function, arguments in jobs:
        text, _ = cuda.compile_ptx(function, types.void(*arguments), cc=(8, 6))
        yield function.__name__, text
