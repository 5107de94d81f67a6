"""The little of the CUDA driver that the measurements need, by ctypes: one GPU, one context."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

MAP_BYTES = 128
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
CARVE_OUT = 9  # CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
TYPES = {"u8": (0, 1), "u16": (1, 2), "u32": (2, 4), "u64": (4, 8), "f16": (6, 2), "f32": (7, 4)}


class DriverError(RuntimeError):
    """What the driver answered, and to what."""


class Gpu:
    """The first GPU."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self.lib = ctypes.CDLL(library)
        device, context = c_int(), c_void_p()
        self.do("cuInit", c_uint(0))
        self.do("cuDeviceGet", byref(device), c_int(0))
        self.do("cuDevicePrimaryCtxRetain", byref(context), device)
        self.do("cuCtxSetCurrent", context)
        name = (c_char * 100)()
        self.do("cuDeviceGetName", name, c_int(100), device)
        self.name = name.value.decode()
        sms = c_int()
        self.do("cuDeviceGetAttribute", byref(sms), c_int(16), device)
        self.sms = sms.value

    def do(self, name: str, *arguments: object) -> None:
        """Calls a function of the driver."""
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            raise DriverError(f"{name}: {status}")

    def load(self, path: str) -> c_void_p:
        """A module of machine code."""
        module = c_void_p()
        self.do("cuModuleLoad", byref(module), path.encode())
        return module

    def function(self, module: c_void_p, name: str, shared: int = 0) -> c_void_p:
        """A kernel that may have so many bytes of dynamic shared memory."""
        found = c_void_p()
        self.do("cuModuleGetFunction", byref(found), module, name.encode())
        if shared:
            self.do("cuFuncSetAttribute", found, c_int(DYNAMIC_SHARED), c_int(shared))
        return found

    def variable(self, module: c_void_p, name: str) -> tuple[int, int]:
        """Where a variable lies, and its bytes."""
        place, size = c_uint64(), c_size_t()
        self.do("cuModuleGetGlobal_v2", byref(place), byref(size), module, name.encode())
        return place.value, size.value

    def allocate(self, size: int) -> int:
        place = c_uint64()
        self.do("cuMemAlloc_v2", byref(place), c_size_t(size))
        return place.value

    def fill(self, place: int, byte: int, size: int) -> None:
        self.do("cuMemsetD8_v2", c_uint64(place), ctypes.c_ubyte(byte), c_size_t(size))

    def put(self, place: int, data: np.ndarray) -> None:
        data = np.ascontiguousarray(data)
        self.do(
            "cuMemcpyHtoD_v2", c_uint64(place), c_void_p(data.ctypes.data), c_size_t(data.nbytes)
        )

    def get(self, place: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        data = np.zeros(shape, dtype)
        self.do(
            "cuMemcpyDtoH_v2", c_void_p(data.ctypes.data), c_uint64(place), c_size_t(data.nbytes)
        )
        return data

    def launch(
        self,
        function: c_void_p,
        grid: tuple[int, ...],
        block: int,
        shared: int,
        arguments: Sequence[object],
    ) -> float:
        """Runs a kernel; milliseconds between events before and behind it."""
        pointers = (c_void_p * len(arguments))()
        for i, one in enumerate(arguments):
            pointers[i] = ctypes.addressof(one)  # type: ignore[arg-type]
        x, y, z = (*grid, 1, 1)[:3]
        first, last, passed = c_void_p(), c_void_p(), c_float()
        self.do("cuEventCreate", byref(first), c_uint(0))
        self.do("cuEventCreate", byref(last), c_uint(0))
        self.do("cuEventRecord", first, None)
        sizes = [c_uint(one) for one in (x, y, z, block, 1, 1, shared)]
        self.do("cuLaunchKernel", function, *sizes, None, pointers, None)
        self.do("cuEventRecord", last, None)
        self.do("cuCtxSynchronize")
        self.do("cuEventElapsedTime", byref(passed), first, last)
        self.do("cuEventDestroy_v2", first)
        self.do("cuEventDestroy_v2", last)
        return passed.value

    def tensor_map(
        self,
        kind: str,
        place: int,
        dimensions: Sequence[int],
        pitches: Sequence[int],
        box: Sequence[int],
        swizzle: int = 0,
    ) -> TensorMap:
        """A tiled map, `swizzle` 0 to 3: none, 32, 64, 128 bytes."""
        code, _ = TYPES[kind]
        rank = len(dimensions)
        made = TensorMap()
        at = ctypes.addressof(made.room)
        at += -at % 64
        sizes = (c_uint64 * rank)(*dimensions)
        steps = (c_uint64 * max(1, rank - 1))(*pitches)
        boxes = (c_uint * rank)(*box)
        ones = (c_uint * rank)(*[1] * rank)
        self.do(
            "cuTensorMapEncodeTiled",
            c_void_p(at),
            c_int(code),
            c_uint(rank),
            c_void_p(place),
            sizes,
            steps,
            boxes,
            ones,
            c_int(0),
            c_int(swizzle),
            c_int(0),
            c_int(0),
        )
        made.bytes = ctypes.string_at(at, MAP_BYTES)
        return made


class TensorMap:
    """What the driver makes of a tensor: 128 bytes."""

    def __init__(self) -> None:
        self.room = (c_char * (MAP_BYTES + 64))()
        self.bytes = bytes(MAP_BYTES)


def as_argument(data: bytes) -> object:
    """Bytes as an argument of a kernel."""
    return (c_char * len(data)).from_buffer_copy(data)


def warm(gpu: Gpu, module: c_void_p, out: int) -> None:
    """Lets all SMs spin for 50 ms, so that their clock comes up."""
    function = gpu.function(module, "warm")
    zeros = [c_int(0)] * 5
    arguments = [c_uint64(out), c_int(1), c_int(90_000_000), *zeros, *[c_uint64(0)] * 3]
    gpu.launch(function, (gpu.sms,), 32, 0, [*arguments, as_argument(bytes(128))])
