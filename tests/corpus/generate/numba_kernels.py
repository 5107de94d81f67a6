"""Numba kernels of the corpus."""

import math

from numba import cuda, float32, float64, int32, types


def saxpy(n, a, x, y):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = a * x[i] + y[i]


def matmul(a, b, c):
    left = cuda.shared.array((16, 16), float32)
    right = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for tile in range(a.shape[1] // 16):
        left[ty, tx] = a[y, tile * 16 + tx]
        right[ty, tx] = b[tile * 16 + ty, x]
        cuda.syncthreads()
        for i in range(16):
            total += left[ty, i] * right[i, tx]
        cuda.syncthreads()
    c[y, x] = total


def reduce(values, out):
    partial = cuda.shared.array(256, float64)
    t = cuda.threadIdx.x
    total = 0.0
    for i in range(t, values.size, cuda.blockDim.x):
        total += values[i]
    partial[t] = total
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            partial[t] += partial[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, partial[0])


def warp_sum(values, out):
    lane = cuda.laneid
    value = values[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if lane == 0:
        out[cuda.blockIdx.x] = value
    cuda.syncwarp()


def local_sort(values, n):
    keys = cuda.local.array(32, int32)
    for i in range(32):
        keys[i] = values[cuda.grid(1) * 32 + i]
    for i in range(1, n):
        key = keys[i]
        j = i - 1
        while j >= 0 and keys[j] > key:
            keys[j + 1] = keys[j]
            j -= 1
        keys[j + 1] = key
    for i in range(32):
        values[cuda.grid(1) * 32 + i] = keys[i]


def special(x, y, count):
    i = cuda.grid(1)
    if i >= x.size:
        return
    v = x[i]
    y[i] = math.sin(v) + math.exp(-v) * math.sqrt(abs(v)) + v**3 + v // 0.3
    count[i] = cuda.popc(count[i]) + cuda.clz(count[i]) + cuda.brev(count[i])
    cuda.threadfence()
    cuda.atomic.max(count, 0, count[i])


def checked(values, divisor, out):
    i = cuda.grid(1)
    out[i] = values[i] // divisor
    print("thread", i, out[i])


VECTOR, MATRIX = types.float32[:], types.float32[:, ::1]
KERNELS = {
    "saxpy": (saxpy, (types.int32, types.float32, VECTOR, VECTOR), {}),
    "matmul": (matmul, (MATRIX, MATRIX, MATRIX), {"fastmath": True}),
    "reduce": (reduce, (types.float64[::1], types.float64[::1]), {}),
    "warp_sum": (warp_sum, (types.float64[::1], types.float64[::1]), {}),
    "local_sort": (local_sort, (types.int32[::1], types.int64), {}),
    "special": (special, (types.float64[::1], types.float64[::1], types.int32[::1]), {}),
    "checked": (
        checked,
        (types.int64[::1], types.int64, types.int64[::1]),
        {"debug": True, "opt": False},
    ),
    "saxpy_lines": (saxpy, (types.int64, types.float64, VECTOR, VECTOR), {"lineinfo": True}),
}


def compile_to_ptx(name, arch):
    """The PTX of a kernel for sm_``arch``."""
    function, signature, options = KERNELS[name]
    return cuda.compile_ptx(function, signature, cc=divmod(arch, 10), **options)[0]
