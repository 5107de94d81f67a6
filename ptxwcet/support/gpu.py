"""Launches a kernel on a GPU through NVIDIA's driver bindings (the optional extra ``gpu``).

It covers only the needs of recording: one module, one kernel, arrays copied there and back. The
bindings are imported when a GPU is requested; tests replace them by their own.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass

Array = npt.NDArray[Any]
Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class GpuLaunch:
    """A launch: the PTX text, the kernel and its arguments in parameter order.

    An argument is the bytes of a parameter, or an array that is copied to the device and passed by
    address. ``variables`` are the bytes of module variables.
    """

    ptx: str
    kernel: str
    grid: Dim3
    block: Dim3
    dynamic_shared: int
    arguments: tuple[bytes | Array, ...]
    variables: tuple[tuple[str, bytes], ...] = ()


def load_bindings() -> Any:
    """Returns the driver bindings. Raises PtxwcetError (PW661) where they are not installed."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError:
        raise PtxwcetError(
            Diagnostic(
                "PW661",
                "recording on a GPU needs the package cuda-bindings",
                help="pip install 'ptxwcet[gpu]', or record with the emulator",
            )
        ) from None


def launch_on_gpu(bindings: Any, launch: GpuLaunch) -> tuple[Array | None, ...]:
    """Returns the arrays after the kernel has run on the first GPU, None for other arguments.

    Raises PtxwcetError (PW661) with the message of the driver, its compiler included. Cost: that of
    the copies and of the kernel.
    """
    try:
        with ExitStack() as stack:
            return _Session(bindings, stack).run(launch)
    except PtxwcetError:
        raise
    except Exception as error:  # the bindings raise their own where no driver is installed
        raise _failed(f"{type(error).__name__}: {error}") from None


class _Session:
    """One launch; its device resources are released when the stack is closed."""

    def __init__(self, bindings: Any, stack: ExitStack) -> None:
        self._cuda, self._stack = bindings, stack

    def run(self, launch: GpuLaunch) -> tuple[Array | None, ...]:
        cuda, check = self._cuda, self._check
        check(cuda.cuInit(0))
        device = check(cuda.cuDeviceGet(0))
        context = check(cuda.cuDevicePrimaryCtxRetain(device))
        self._stack.callback(cuda.cuDevicePrimaryCtxRelease, device)
        check(cuda.cuCtxSetCurrent(context))
        module = check(cuda.cuModuleLoadData(launch.ptx.encode() + b"\0"))
        self._stack.callback(cuda.cuModuleUnload, module)
        function = check(cuda.cuModuleGetFunction(module, launch.kernel.encode()))
        for name, data in launch.variables:
            address, size = check(cuda.cuModuleGetGlobal(module, name.encode()))
            check(cuda.cuMemcpyHtoD(address, data, min(size, len(data))))
        if launch.dynamic_shared:
            words = cuda.CUfunction_attribute
            limit = words.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cuda.cuFuncSetAttribute(function, limit, launch.dynamic_shared))
        addresses = [self._upload(argument) for argument in launch.arguments]
        values = _values(launch.arguments, addresses)
        sizes = (*launch.grid, *launch.block, launch.dynamic_shared)
        pointers = np.array([ctypes.addressof(value) for value in values], dtype=np.uint64)
        check(cuda.cuLaunchKernel(function, *sizes, 0, pointers.ctypes.data, 0))
        check(cuda.cuCtxSynchronize())
        pairs = zip(launch.arguments, addresses, strict=True)
        return tuple(self._download(argument, address) for argument, address in pairs)

    def _upload(self, argument: bytes | Array) -> Any:
        if isinstance(argument, bytes):
            return None
        size = max(argument.nbytes, 1)
        address = self._check(self._cuda.cuMemAlloc(size))
        self._stack.callback(self._cuda.cuMemFree, address)
        if argument.nbytes:
            data = np.ascontiguousarray(argument)
            self._check(self._cuda.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes))
        return address

    def _download(self, argument: bytes | Array, address: Any) -> Array | None:
        if isinstance(argument, bytes):
            return None
        result = np.empty(argument.shape, dtype=argument.dtype)
        if result.nbytes:
            self._check(self._cuda.cuMemcpyDtoH(result.ctypes.data, address, result.nbytes))
        return result

    def _check(self, answer: Sequence[Any]) -> Any:
        """Returns the results of a driver call without its error code."""
        error, *rest = answer
        if int(error) != 0:
            _, name = self._cuda.cuGetErrorName(error)
            raise _failed(name.decode() if isinstance(name, bytes) else str(error))
        return rest[0] if len(rest) == 1 else tuple(rest)


def _values(arguments: Sequence[bytes | Array], addresses: Sequence[Any]) -> list[Any]:
    """Returns host memory that holds each argument as the kernel takes it."""
    values: list[Any] = []
    for argument, address in zip(arguments, addresses, strict=True):
        if isinstance(argument, bytes):
            values.append(ctypes.create_string_buffer(argument, len(argument)))
        else:
            values.append(ctypes.c_uint64(int(address)))
    return values


def _failed(reason: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW661",
            f"the GPU did not run the kernel: {reason}",
            help="the driver must be as new as the PTX, and the GPU as its .target",
        )
    )
