"""Kernels like those of Triton's tutorials, compiled without a GPU: ``python kernels.py``.

Vector addition, softmax of rows, a product of matrices whose programs are grouped for the cache,
another of boxes, layer normalisation, the forward pass of attention, causal or not; written anew,
for sm_80 and sm_90 (sm_100 is bounded nowhere yet, and not kept). Needs triton 3.9.
"""

import re
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).resolve().parent


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    """``out = x + y``."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def softmax(x, out, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """The softmax of each row; a program does every so many rows."""
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        values = tl.load(x + row * x_stride + at, inside, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, 0))
        tl.store(out + row * out_stride + at, powers / tl.sum(powers, 0), inside)


@triton.jit
def matmul(
    a, b, c, m, n, k, a_stride, b_stride, c_stride,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """``c = a b``; neighbouring programs take tiles of the same columns, GROUP rows of tiles."""
    program, across = tl.program_id(0), tl.cdiv(n, N)
    first = program // (GROUP * across) * GROUP
    height = min(tl.cdiv(m, M) - first, GROUP)
    row = first + program % (GROUP * across) % height
    column = program % (GROUP * across) // height
    inner = tl.arange(0, K)
    a_rows = (row * M + tl.arange(0, M)) % m
    b_columns = (column * N + tl.arange(0, N)) % n
    left = a + a_rows[:, None] * a_stride + inner[None, :]
    right = b + inner[:, None] * b_stride + b_columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for step in range(tl.cdiv(k, K)):
        rest = k - step * K
        one = tl.load(left, inner[None, :] < rest, other=0.0)
        other = tl.load(right, inner[:, None] < rest, other=0.0)
        total = tl.dot(one, other, total)
        left += K
        right += K * b_stride
    rows = row * M + tl.arange(0, M)
    columns = column * N + tl.arange(0, N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * c_stride + columns[None, :], total.to(tl.float16), inside)


@triton.jit
def layer_norm(x, out, weight, bias, means, deviations, stride, n, eps, BLOCK: tl.constexpr):
    """Each row less its mean, by its deviation; a program does a row, BLOCK columns at a time."""
    row = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        sums += tl.load(x + row * stride + at, at < n, other=0.0).to(tl.float32)
    mean = tl.sum(sums, 0) / n
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + at, at < n, other=0.0).to(tl.float32)
        values = tl.where(at < n, values - mean, 0.0)
        squares += values * values
    deviation = 1 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    tl.store(means + row, mean)
    tl.store(deviations + row, deviation)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < n
        values = tl.load(x + row * stride + at, inside, other=0.0).to(tl.float32)
        values = (values - mean) * deviation
        values = values * tl.load(weight + at, inside) + tl.load(bias + at, inside)
        tl.store(out + row * stride + at, values, inside)


@triton.jit
def attention(
    q, k, v, out, logs, scale, length,
    WIDTH: tl.constexpr, M: tl.constexpr, N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """The forward pass for M queries of a head: the softmax of their products with all keys, or
    with those up to their own place, times the values.
    """
    start = tl.program_id(0) * M
    head = tl.program_id(1) * length * WIDTH
    rows, inner = start + tl.arange(0, M), tl.arange(0, WIDTH)
    own = head + rows[:, None] * WIDTH + inner[None, :]
    queries = tl.load(q + own)
    most = tl.full((M,), -float("inf"), tl.float32)
    weights = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, WIDTH), tl.float32)
    scale *= 1.44269504
    end = start + M if CAUSAL else length
    for at in range(0, end, N):
        columns = at + tl.arange(0, N)
        keys = tl.load(k + head + columns[None, :] * WIDTH + inner[:, None])
        scores = tl.dot(queries, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -1.0e6)
        now = tl.maximum(most, tl.max(scores, 1))
        scores = tl.exp2(scores - now[:, None])
        fade = tl.exp2(most - now)
        weights = weights * fade + tl.sum(scores, 1)
        values = tl.load(v + head + columns[:, None] * WIDTH + inner[None, :])
        total = tl.dot(scores.to(tl.float16), values, total * fade[:, None])
        most = now
    tl.store(logs + tl.program_id(1) * length + rows, most + tl.log2(weights))
    tl.store(out + own, (total / weights[:, None]).to(tl.float16))


@triton.jit
def matmul_of_boxes(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """``c = a b`` by copies of boxes, of tensor maps that the host makes (tensor descriptors)."""
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for at in range(0, k, K):
        total = tl.dot(a.load([row, at]), b.load([at, column]), total)
    c.store([row, column], total.to(tl.float16))


F, H, I = "*fp32", "*fp16", "i32"  # noqa: E741
_MATMUL = {**dict.fromkeys("abc", H), **dict.fromkeys("mnk", I)}
_MATMUL |= dict.fromkeys(("a_stride", "b_stride", "c_stride"), I)
_BOXES = [32, 64], [64, 64], [32, 64]
_SOFTMAX = {"x": F, "out": F, "x_stride": I, "out_stride": I, "rows": I, "columns": I}
_NORM = {"x": H, "out": H, "weight": H, "bias": H, "means": F, "deviations": F}
_NORM |= {"stride": I, "n": I, "eps": "fp32"}
_ATTENTION = {**dict.fromkeys(("q", "k", "v", "out"), H), "logs": F, "scale": "fp32", "length": I}
KERNELS = {
    "vector_add": (vector_add, {"x": F, "y": F, "out": F, "n": I}, {"BLOCK": 1024}, 4),
    "softmax": (softmax, _SOFTMAX, {"BLOCK": 1024, "STAGES": 2}, 8),
    "matmul": (matmul, _MATMUL, {"M": 64, "N": 128, "K": 32, "GROUP": 8}, 4),
    "matmul_8_warps": (matmul, _MATMUL, {"M": 128, "N": 128, "K": 64, "GROUP": 8}, 8),
    "layer_norm": (layer_norm, _NORM, {"BLOCK": 1024}, 4),
    "attention": (attention, _ATTENTION, {"WIDTH": 64, "M": 64, "N": 64, "CAUSAL": False}, 4),
    "attention_causal": (attention, _ATTENTION, {"WIDTH": 64, "M": 64, "N": 64, "CAUSAL": True}, 4),
}
BOXES = {key: f"tensordesc<fp16{box}>" for key, box in zip("abc", _BOXES, strict=True)}
OF_BOXES = {
    "matmul_of_boxes_90": (matmul_of_boxes, {**BOXES, "k": I}, {"M": 32, "N": 64, "K": 64}, 4),
}
"""Files of kernels with tensor descriptors, which sm_80 has not; the lines as of ``KERNELS``."""
WIDE = {64: {"WIDTH": 64, "M": 128, "N": 128}, 128: {"WIDTH": 128, "M": 128, "N": 64}}
"""The tiles of attention whose times on an H100 were published, by the width of a head."""
PUBLISHED = {
    "attention_d64_80": (64, False, 4),
    "attention_d128_80": (128, False, 4),
    "attention_d64_causal_80": (64, True, 4),
    "attention_d128_causal_80": (128, True, 4),
    "attention_d64_90": (64, False, 8),
    "attention_d128_90": (128, False, 8),
}
"""Files of these: width, whether it is causal, warps."""


def compile_to_ptx(name: str, arch: int) -> str:
    """The PTX of a kernel; pointers and sizes are multiples of 16, of line information the file."""
    if name in PUBLISHED:
        width, is_causal, warps = PUBLISHED[name]
        kernel, types, constants = attention, _ATTENTION, {**WIDE[width], "CAUSAL": is_causal}
    else:
        kernel, types, constants, warps = (KERNELS | OF_BOXES)[name]
    names = kernel.arg_names
    source = ASTSource(
        kernel,
        {**types, **dict.fromkeys(constants, "constexpr")},
        constexprs={(names.index(key),): value for key, value in constants.items()},
        attrs={
            (names.index(key),): [["tt.divisibility", 16]]
            for key, kind in types.items()
            if kind in (F, H, I)
        },
    )
    options = {"num_warps": warps, "num_stages": 3, "ptx_version": 87}
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    text = re.sub(r'"/\S*/(kernels\.py|triton/language/\S*)"', r'"\1"', compiled.asm["ptx"])
    return re.sub(r"\t\.section.*", "", text, flags=re.DOTALL)  # debug data: names of folders


def main() -> None:
    """Writes the files of the architectures that are named, or of those that are kept."""
    for arch in map(int, sys.argv[1:] or ("80", "90")):
        for name in KERNELS:
            (HERE / f"{name}_{arch}.ptx").write_text(compile_to_ptx(name, arch))
    for name in (*PUBLISHED, *OF_BOXES):
        (HERE / f"{name}.ptx").write_text(compile_to_ptx(name, int(name[-2:])))


if __name__ == "__main__":
    main()
