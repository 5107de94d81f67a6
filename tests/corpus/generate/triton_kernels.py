"""Triton kernels of the corpus, compiled without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)


@triton.jit
def matmul(a, b, c, K, SIZE: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    columns = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    depth = tl.arange(0, STEP)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in range(0, K, STEP):
        left = tl.load(a + rows[:, None] * K + (k + depth)[None, :])
        right = tl.load(b + (k + depth)[:, None] * K + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * K + columns[None, :], total)


def compiled() -> Iterator[tuple[str, str]]:
    """(name, PTX) of every kernel and target."""
    jobs = [
        (
            "add_sm86",
            add,
            {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"},
            {"BLOCK": 512},
            86,
        ),
        (
            "softmax_sm80",
            softmax,
            {"x": "*fp32", "out": "*fp32", "columns": "i32"},
            {"BLOCK": 512},
            80,
        ),
        (
            "matmul_sm80",
            matmul,
            {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"},
            {"SIZE": 64, "STEP": 32},
            80,
        ),
        (
            "matmul_sm90",
            matmul,
            {"a": "*fp16", "b": "*fp16", "c": "*fp32", "K": "i32"},
            {"SIZE": 64, "STEP": 32},
            90,
        ),
    ]
    for name, kernel, signature, constants, capability in jobs:
        full = {**signature, **dict.fromkeys(constants, "constexpr")}
        aligned = {(i,): [["tt.divisibility", 16]] for i in range(len(signature))}
        source = ASTSource(fn=kernel, signature=full, constexprs=constants, attrs=aligned)
        result = triton.compile(
            source, target=GPUTarget("cuda", capability, 32), options={"ptx_version": 88}
        )
        yield name, result.asm["ptx"]
