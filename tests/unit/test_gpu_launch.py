"""The loader against a driver that is not there: each call in order, each failure one message.

The stand-in keeps device memory in bytearrays, decodes the parameters from the pointers that it is
given, and lets the emulator run the kernel. No GPU was ever asked.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from parsing import parse_text
from places import SAMPLES
from refusals import refusal_of, refusals_of

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.methods.instrument import recording
from ptxwcet.methods.instrument.recording import RawDump, read_dumps
from ptxwcet.support import gpu

pytestmark = pytest.mark.fast

LIMIT = "MAX_DYNAMIC_SHARED_SIZE_BYTES"


class Driver:
    """``fails`` names the call that gives error 700."""

    CUfunction_attribute = SimpleNamespace(
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=LIMIT,
    )

    def __init__(self, fails: str = "") -> None:
        self.fails, self.calls = fails, []
        self.memory: dict[int, bytearray] = {}
        self.globals: dict[str, int] = {}

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if not name.startswith("cu") or name == "cuGetErrorName":
            return value

        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            return (700, *[None] * 2) if name == self.fails else value(*arguments)

        return call

    def reserve(self, size: int) -> int:
        address = 0x700000000000 + 0x10000000 * len(self.memory)
        self.memory[address] = bytearray(size)
        return address

    def cuGetErrorName(self, error: int) -> tuple[int, bytes]:  # noqa: N802
        return 0, f"CUDA_ERROR_{error}".encode()

    def cuInit(self, flags: int) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuDeviceGet(self, number: int) -> tuple[int, str]:  # noqa: N802
        assert number == 0
        return 0, "device"

    def cuDevicePrimaryCtxRetain(self, device: str) -> tuple[int, str]:  # noqa: N802
        assert device == "device"
        return 0, "context"

    def cuDevicePrimaryCtxRelease(self, device: str) -> tuple[int]:  # noqa: N802
        assert device == "device"
        return (0,)

    def cuCtxSetCurrent(self, context: str) -> tuple[int]:  # noqa: N802
        assert context == "context"
        return (0,)

    def cuModuleLoadData(self, image: bytes) -> tuple[int, Any]:  # noqa: N802
        assert image.endswith(b"\0")
        module = parse_text(image[:-1].decode(), "image")
        for variable in module.variables:
            if variable.space in ("const", "global"):
                self.globals[variable.name] = self.reserve(variable.size_bytes)
        return 0, module

    def cuModuleUnload(self, module: Any) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuModuleGetFunction(self, module: Any, name: bytes) -> tuple[int, Any]:  # noqa: N802
        return 0, (module, next(k for k in module.kernels if k.name == name.decode()))

    def cuModuleGetGlobal(self, module: Any, name: bytes) -> tuple[int, int, int]:  # noqa: N802
        address = self.globals[name.decode()]
        return 0, address, len(self.memory[address])

    def cuFuncSetAttribute(self, function: Any, name: str, value: int) -> tuple[int]:  # noqa: N802
        assert name == LIMIT
        return (0,)

    def cuMemAlloc(self, size: int) -> tuple[int, int]:  # noqa: N802
        assert size > 0
        return 0, self.reserve(size)

    def cuMemFree(self, address: int) -> tuple[int]:  # noqa: N802
        del self.memory[address]
        return (0,)

    def cuMemcpyHtoD(self, address: int, host: Any, size: int) -> tuple[int]:  # noqa: N802
        data = host[:size] if isinstance(host, bytes) else ctypes.string_at(host, size)
        self.memory[address][:size] = data
        return (0,)

    def cuMemcpyDtoH(self, host: int, address: int, size: int) -> tuple[int]:  # noqa: N802
        ctypes.memmove(host, bytes(self.memory[address][:size]), size)
        return (0,)

    def cuCtxSynchronize(self) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuLaunchKernel(self, function: Any, *arguments: Any) -> tuple[int]:  # noqa: N802
        module, kernel = function
        *sizes, shared, stream, pointers, extra = arguments
        assert (stream, extra) == (0, 0)
        count = len(kernel.parameters)
        places = np.frombuffer(ctypes.string_at(pointers, 8 * count), dtype=np.uint64).tolist()
        values: list[Any] = []
        for parameter, place in zip(kernel.parameters, places, strict=True):
            data = ctypes.string_at(place, parameter.size_bytes)
            address = int.from_bytes(data, "little")
            is_array = parameter.size_bytes == 8 and address in self.memory
            values.append(np.frombuffer(self.memory[address], "u1") if is_array else data)
        variables = tuple((name, bytes(self.memory[at])) for name, at in self.globals.items())
        launch = EmulatedLaunch(
            tuple(sizes[3:]), tuple(sizes[:3]), tuple(values), variables, shared
        )
        done = execute(kernel, module, launch, options=EmulatorOptions())
        assert not done.findings
        for place, result in zip(places, done.buffers, strict=True):
            if result is not None:
                address = int.from_bytes(ctypes.string_at(place, 8), "little")
                self.memory[address][:] = result.tobytes()
        return (0,)


def prepare(tmp_path: Path, sample: str, launch: str) -> recording.RecordRequest:
    out, sidecar = tmp_path / "k.ptx", tmp_path / "k.json"
    path = SAMPLES / f"{sample}.ptx"
    answer = recording.instrument_file(recording.InstrumentRequest(str(path)))
    recording.write_instrumented(answer, out, sidecar)
    source = str(path.with_suffix(".cu"))
    return recording.RecordRequest(
        str(out), str(sidecar), str(SAMPLES / f"launches/{launch}.toml"), source, 1 << 18
    )


@pytest.mark.parametrize(
    ("sample", "launch"),
    [("scan", "scan_random"), ("saxpy", "saxpy"), ("block_reduce", "block_reduce_tree")],
)
def test_a_launch(sample: str, launch: str, tmp_path: Path, monkeypatch: Any) -> None:
    request = prepare(tmp_path, sample, launch)
    driver = Driver()
    monkeypatch.setattr(recording, "load_bindings", lambda: driver)
    there = recording.record_launch(request, recording.Gpu())
    here = recording.record_launch(request, recording.Emulator())
    assert there.diagnostics == ()
    assert there.outputs.keys() == here.outputs.keys()
    for name, array in here.outputs.items():
        np.testing.assert_array_equal(there.outputs[name], array)
    assert there.dump[:12] + there.dump[16:] == here.dump[:12] + here.dump[16:]  # but the clock
    sidecar = recording.read_sidecar((tmp_path / "k.json").read_bytes(), "k.json")
    assert read_dumps([RawDump("d", there.dump)], sidecar).origin.clock == "cycle"
    assert driver.calls[:6] == [
        "cuInit",
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuModuleLoadData",
        "cuModuleGetFunction",
    ]
    assert driver.calls[-2:] == ["cuModuleUnload", "cuDevicePrimaryCtxRelease"]
    assert not driver.memory


def test_the_whole_buffer_is_used(tmp_path: Path) -> None:
    request = prepare(tmp_path, "scan", "scan_random")
    dump = recording.record_launch(request, recording.Emulator()).dump
    exact = recording.record_launch(replace(request, buffer_bytes=len(dump)), recording.Emulator())
    assert exact.dump[64:] == dump[64:]
    sidecar = recording.read_sidecar((tmp_path / "k.json").read_bytes(), "k.json")
    assert len(read_dumps([RawDump("d", exact.dump)], sidecar)) == 434
    less = replace(request, buffer_bytes=len(dump) - 1)
    short = recording.record_launch(less, recording.Emulator()).dump
    assert refusal_of(read_dumps, [RawDump("d", short)], sidecar).code == "PW657"


TEXT = """.version 7.0
.target sm_75
.address_size 64
.const .align 4 .b32 scale;
.extern .shared .align 4 .b8 room[];
.entry k(.param .u64 out, .param .align 4 .b8 pair[8], .param .f32 x)
{ .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %o;
ld.param.u64 %o, [out]; ld.param.u32 %r1, [pair+4]; ld.const.u32 %r2, [scale];
mul.lo.u32 %r1, %r1, %r2; st.shared.u32 [room+60], %r1; ld.shared.u32 %r3, [room+60];
st.global.u32 [%o], %r3; ld.param.f32 %f1, [x]; st.global.f32 [%o+4], %f1; ret; }
"""


def small(**changes: Any) -> gpu.GpuLaunch:
    fields: dict[str, Any] = {
        "ptx": TEXT,
        "kernel": "k",
        "grid": (1, 1, 1),
        "block": (1, 1, 1),
        "dynamic_shared": 64,
        "arguments": (
            np.zeros(2, "u4"),
            np.array([3, 7], "<u4").tobytes(),
            np.float32(1.5).tobytes(),
        ),
        "variables": (("scale", (6).to_bytes(4, "little")),),
    }
    return gpu.GpuLaunch(**{**fields, **changes})


def test_aggregates_variables_and_dynamic_shared_memory() -> None:
    driver = Driver()
    array, *others = gpu.launch_on_gpu(driver, small())
    assert others == [None, None]
    assert array is not None
    assert array[0] == 42
    assert array[1:].view("f4")[0] == 1.5
    assert "cuFuncSetAttribute" in driver.calls


def test_an_array_without_elements() -> None:
    text = ".version 7.0\n.target sm_75\n.address_size 64\n.entry k(.param .u64 a) { ret; }"
    empty = small(ptx=text, arguments=(np.zeros(0, "f4"),), variables=(), dynamic_shared=0)
    (array,) = gpu.launch_on_gpu(Driver(), empty)
    assert array is not None
    assert array.shape == (0,)


@pytest.mark.parametrize(
    "call",
    ["cuInit", "cuModuleLoadData", "cuMemAlloc", "cuLaunchKernel", "cuCtxSynchronize"],
)
def test_what_the_driver_refuses(call: str) -> None:
    driver = Driver(fails=call)
    (problem,) = refusals_of(gpu.launch_on_gpu, driver, small())
    assert problem.code == "PW661"
    assert problem.message == "the GPU did not run the kernel: CUDA_ERROR_700"
    held = driver.calls.count("cuDevicePrimaryCtxRetain")
    assert driver.calls.count("cuDevicePrimaryCtxRelease") == held


def test_no_driver_on_the_machine() -> None:
    class NoDriver:
        def cuInit(self, flags: int) -> tuple[int]:  # noqa: N802
            raise RuntimeError("libcuda is not installed")

    refusal = refusal_of(gpu.launch_on_gpu, NoDriver(), small())
    message = "the GPU did not run the kernel: RuntimeError: libcuda is not installed"
    assert refusal.message == message


def test_no_bindings(monkeypatch: Any) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(gpu.importlib, "import_module", missing)
    assert refusal_of(gpu.load_bindings).code == "PW661"
