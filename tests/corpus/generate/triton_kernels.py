"""Triton kernels of the corpus: element-wise, reductions, products by pointer and descriptor."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask) + tl.load(y + offsets, mask), mask)


@triton.jit
def softmax(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    values = tl.load(x + row * stride + offsets, mask, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + offsets, values / tl.sum(values, 0), mask)


@triton.jit
def norm(x, weights, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + offsets, offsets < columns, other=0.0)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares, 0) / columns + epsilon)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        values = tl.load(x + row * columns + offsets, mask) * scale
        tl.store(out + row * columns + offsets, values * tl.load(weights + offsets, mask), mask)


@triton.jit
def sort_and_scan(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.sort(tl.load(x + offsets))
    tl.store(out + offsets, tl.cumsum(values, 0))


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + offsets, offsets < n, other=0), 128)
    tl.atomic_add(bins + tl.arange(0, 128), counts)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, SUM: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_pointers = a + rows[:, None] * k + inner[None, :]
    b_pointers = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), SUM)
    for step in range(tl.cdiv(k, K)):
        left = tl.load(a_pointers, mask=inner[None, :] < k - step * K, other=0)
        right = tl.load(b_pointers, mask=inner[:, None] < k - step * K, other=0)
        total = tl.dot(left, right, total)
        a_pointers += K
        b_pointers += K * n
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask)


@triton.jit
def matmul_descriptors(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    result = tl.make_tensor_descriptor(c, [m, n], [n, 1], [M, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for step in range(0, k, K):
        total = tl.dot(left.load([row, step]), right.load([step, column]), total)
    result.store([row, column], total.to(tl.float16))


@triton.jit
def matmul_specialised(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [M, K])
    right = tl.make_tensor_descriptor(b, [k, n], [n, 1], [K, N])
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for step in tl.range(0, k, K, warp_specialize=True):
        total = tl.dot(left.load([row, step]), right.load([step, column]), total)
    offsets = (row + tl.arange(0, M))[:, None] * n + column + tl.arange(0, N)[None, :]
    tl.store(c + offsets, total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, WIDTH)
    queries = tl.load(q + rows[:, None] * WIDTH + inner[None, :])
    largest = tl.full((BLOCK,), -1e30, tl.float32)
    weight = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for start in range(0, length, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        keys = tl.load(k + columns[None, :] * WIDTH + inner[:, None])
        values = tl.load(v + columns[:, None] * WIDTH + inner[None, :])
        scores = tl.dot(queries, keys)
        now = tl.maximum(largest, tl.max(scores, 1))
        scores = tl.exp2(scores - now[:, None])
        fade = tl.exp2(largest - now)
        weight = weight * fade + tl.sum(scores, 1)
        total = tl.dot(scores.to(tl.float16), values, total * fade[:, None])
        largest = now
    tl.store(out + rows[:, None] * WIDTH + inner[None, :], (total / weight[:, None]).to(tl.float16))


P, H = "*fp32", "*fp16"
KERNELS = {
    "add": (add, {"x": P, "y": P, "out": P, "n": "i32"}, {"BLOCK": 1024}),
    "softmax": (softmax, {"x": P, "out": P, "stride": "i32", "columns": "i32"}, {"BLOCK": 1024}),
    "norm": (
        norm,
        {"x": P, "weights": P, "out": P, "columns": "i32", "epsilon": "fp32"},
        {"BLOCK": 512},
    ),
    "sort_and_scan": (sort_and_scan, {"x": "*i32", "out": "*i32"}, {"BLOCK": 128}),
    "histogram": (histogram, {"x": "*i32", "bins": "*i32", "n": "i32"}, {"BLOCK": 512}),
    "matmul": (
        matmul,
        {"a": H, "b": H, "c": P, "m": "i32", "n": "i32", "k": "i32"},
        {"M": 64, "N": 32, "K": 32, "SUM": tl.float32},
    ),
    "matmul_int8": (
        matmul,
        {"a": "*i8", "b": "*i8", "c": "*i32", "m": "i32", "n": "i32", "k": "i32"},
        {"M": 32, "N": 32, "K": 32, "SUM": tl.int32},
    ),
    "matmul_descriptors": (
        matmul_descriptors,
        {"a": H, "b": H, "c": H, "m": "i32", "n": "i32", "k": "i32"},
        {"M": 64, "N": 64, "K": 32},
    ),
    "matmul_specialised": (
        matmul_specialised,
        {"a": H, "b": H, "c": H, "m": "i32", "n": "i32", "k": "i32"},
        {"M": 128, "N": 64, "K": 64},
    ),
    "attention": (
        attention,
        {"q": H, "k": H, "v": H, "out": H, "length": "i32"},
        {"WIDTH": 32, "BLOCK": 64},
    ),
}


def compile_to_ptx(name, arch):
    """The PTX of a kernel for sm_``arch``: 4 warps, 3 stages, pointers and sizes multiples of 16."""
    kernel, types, constants = KERNELS[name]
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={**types, **dict.fromkeys(constants, "constexpr")},
        constexprs={(names.index(key),): value for key, value in constants.items()},
        attrs={
            (names.index(key),): [["tt.divisibility", 16]]
            for key, kind in types.items()
            if kind != "fp32"
        },
    )
    options = {"num_warps": 4, "num_stages": 3, "ptx_version": 87}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options).asm["ptx"]
