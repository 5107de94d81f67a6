"""Runs prepared kernels on a GPU, and keeps what is other than expected.

    python device.py KIT OUT.tar.gz [--seconds 60]

KIT is what ``prepare.py`` has made. Each case is a kernel of a cubin, a launch, what its buffers
begin with, and checksums of what they are to hold behind it, one for each piece. Pieces that differ
come back, and whole buffers of cases that are to be looked at in any case. Work is done by children
of this process, one for each phase; one that hangs or dies is begun again behind the case that it
was at. OUT.tar.gz holds after each phase all that is known. Needs numpy and cuda-bindings alone.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

MOST = {"statements": 4_500_000, "programs": 2_200_000, "scenes": 1_000_000, "sweeps": 1_600_000}
"""Bytes that a phase may bring back."""
STEP_SECONDS = 6.0
"""How long one case may take, that of the first load of a module included."""


class Gpu:
    """The driver, with return codes as exceptions."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.driver = driver
        self.check(driver.cuInit(0))
        self.device = self.check(driver.cuDeviceGet(0))
        context = self.check(driver.cuDevicePrimaryCtxRetain(self.device))
        self.check(driver.cuCtxSetCurrent(context))

    def check(self, result: Any) -> Any:
        code, *rest = result
        if int(code) != 0:
            raise RuntimeError(f"{code!r}")
        return rest[0] if len(rest) == 1 else rest

    def load(self, cubin: np.ndarray) -> Any:
        return self.check(self.driver.cuModuleLoadData(cubin.ctypes.data))

    def function(self, module: Any, name: str) -> Any:
        return self.check(self.driver.cuModuleGetFunction(module, name.encode()))

    def allocate(self, size: int) -> Any:
        return self.check(self.driver.cuMemAlloc(size))

    def upload(self, place: Any, data: np.ndarray) -> None:
        self.check(self.driver.cuMemcpyHtoD(place, data.ctypes.data, data.nbytes))

    def download(self, data: np.ndarray, place: Any) -> None:
        self.check(self.driver.cuMemcpyDtoH(data.ctypes.data, place, data.nbytes))

    def copy(self, to: Any, source: Any, size: int) -> None:
        self.check(self.driver.cuMemcpyDtoD(to, source, size))

    def clear(self, place: Any, size: int) -> None:
        self.check(self.driver.cuMemsetD8(place, 0, size))

    def launch(self, function: Any, grid: Any, block: Any, shared: int, values: Any) -> None:
        if shared > 48 * 1024:
            name = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.check(self.driver.cuFuncSetAttribute(function, name, shared))
        places = np.array([one.ctypes.data for one in values], np.uint64)
        self.check(
            self.driver.cuLaunchKernel(function, *grid, *block, shared, 0, places.ctypes.data, 0)
        )
        self.check(self.driver.cuCtxSynchronize())


def manifest_of(folder: Path) -> Any:
    """The list of cases."""
    with lzma.open(folder / "manifest.xz") as file:
        return json.loads(file.read())


class Kit:
    """The files of a kit, unpacked in memory."""

    def __init__(self, folder: Path) -> None:
        self.manifest = manifest_of(folder)
        with lzma.open(folder / "data.xz") as file:
            self.data = file.read()
        self.sums = np.frombuffer((folder / "sums.bin").read_bytes(), np.uint32)

    def bytes_of(self, name: str) -> np.ndarray:
        at, size = self.manifest["files"][name]
        return np.frombuffer(self.data, np.uint8, size, at)


class Results:
    """What is found, line by line, and the bytes that lines speak of; both only grow."""

    def __init__(self, folder: Path, phase: str) -> None:
        self.lines = (folder / f"{phase}.jsonl").open("a")
        self.raw = (folder / f"{phase}.raw").open("ab")
        self.room = MOST[phase] - self.raw.tell()

    def put(self, row: dict[str, Any], data: bytes = b"") -> None:
        if data:
            packed = zlib.compress(data, 6)
            if len(packed) <= self.room:
                row |= {"at": self.raw.tell(), "size": len(packed)}
                self.raw.write(packed)
                self.raw.flush()
                self.room -= len(packed)
            else:
                row["lost"] = True
        self.lines.write(json.dumps(row) + "\n")
        self.lines.flush()


class Runner:
    """The cases of a phase, from one on."""

    def __init__(self, kit: Kit, out: Path, phase: str) -> None:
        self.kit, self.gpu, self.results = kit, Gpu(), Results(out, phase)
        self.at = out / f"{phase}.at"
        self.pool: dict[str, Any] = {}
        self.buffers: dict[int, tuple[Any, int]] = {}
        self.seen: dict[tuple[str, int, int], int] = {}

    def run(self, phase: str, first: int) -> None:
        number = 0
        for level in self.kit.manifest["levels"]:
            for module in self.kit.manifest["modules"]:
                if module["phase"] != phase or level not in module["cubins"]:
                    continue
                cases = module["cases"]
                if number + len(cases) <= first:
                    number += len(cases)
                    continue
                loaded = self.gpu.load(self.kit.bytes_of(module["cubins"][level]))
                for case in cases:
                    if number >= first:
                        self.at.write_text(f"{number} {case['name']} {level}")
                        self.case(loaded, case, level)
                    number += 1
                self.gpu.check(self.gpu.driver.cuModuleUnload(loaded))
                self.results.put({"done": number, "level": level, "module": module["name"]})

    def case(self, module: Any, case: dict[str, Any], level: str) -> None:
        gpu = self.gpu
        values, held = [], []
        for place, argument in enumerate(case["arguments"]):
            if "value" in argument:
                values.append(np.frombuffer(bytes.fromhex(argument["value"]), np.uint8))
                continue
            size = argument["size"]
            pointer = self.buffer(place, size)
            if "from" in argument and not argument.get("check"):
                pointer = self.source(argument["from"], size)
            elif "from" in argument:
                gpu.copy(pointer, self.source(argument["from"], size), size)
            else:
                gpu.clear(pointer, size)
            values.append(np.array([int(pointer)], np.uint64))
            if argument.get("check"):
                held.append((place, argument, pointer))
        function = gpu.function(module, case["kernel"])
        gpu.launch(function, case["grid"], case["block"], case.get("shared", 0), values)
        for place, argument, pointer in held:
            found = np.empty(argument["size"], np.uint8)
            gpu.download(found, pointer)
            self.compare(case["name"], level, place, argument, found.tobytes())

    def buffer(self, place: int, size: int) -> Any:
        """A buffer for an argument, at least so large."""
        pointer, room = self.buffers.get(place, (None, 0))
        if room < size:
            room = max(size, 1 << 20)
            pointer = self.gpu.allocate(room)
            self.buffers[place] = pointer, room
        return pointer

    def source(self, name: str, size: int) -> Any:
        if name not in self.pool:
            self.pool[name] = self.gpu.allocate(size)
            self.gpu.upload(self.pool[name], self.kit.bytes_of(name))
        return self.pool[name]

    def compare(
        self, name: str, level: str, place: int, argument: dict[str, Any], found: bytes
    ) -> None:
        """Brings back what differs; of a later level only what differs from the first, too."""
        row: dict[str, Any] = {"case": name, "level": level, "argument": place}
        if "sums" not in argument:
            self.results.put(row | {"pieces": [0]}, found)
            return
        first, step = argument["sums"], argument["piece"]
        wrong, fresh = [], []
        for number, at in enumerate(range(0, len(found), step)):
            told = zlib.crc32(found[at : at + step])
            if told == int(self.kit.sums[first + number]):
                continue
            wrong.append(number)
            key = name, place, number
            if self.seen.setdefault(key, told) != told or level == self.kit.manifest["levels"][0]:
                fresh.append(number)
        if wrong:
            most = min(len(fresh), argument.get("most", 8))
            kept = [fresh[n * len(fresh) // most] for n in range(most)]
            data = b"".join(found[step * one : step * one + step] for one in kept)
            self.results.put(row | {"wrong": wrong, "new": len(fresh), "pieces": kept}, data)


def child(folder: Path, out: Path, phase: str, first: int) -> None:
    runner = Runner(Kit(folder), out, phase)
    runner.run(phase, first)
    (out / f"{phase}.at").write_text("end")


def packed(out: Path, target: Path) -> None:
    """All results as one file, put in place at once."""
    part = target.with_suffix(".part")
    with tarfile.open(part, "w:gz", compresslevel=6) as tar:
        for one in sorted(out.iterdir()):
            tar.add(one, one.name)
    os.replace(part, target)


def main() -> None:
    """Runs the phases one after the other, each in children, until the time is over."""
    if sys.argv[1] == "child":
        child(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
        return
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    seconds = float(sys.argv[4]) if "--seconds" in sys.argv else 60.0
    end = time.monotonic() + seconds
    out = Path(tempfile.mkdtemp())
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", query, "--format=csv"]
        (out / "gpu.csv").write_bytes(subprocess.check_output(command, timeout=10))
    for phase in manifest_of(folder)["phases"]:
        begin = time.monotonic()
        told = watched(folder, out, phase, end)
        print(f"{phase}: {told}, {time.monotonic() - begin:.1f} s", flush=True)
        packed(out, target)


def watched(folder: Path, out: Path, phase: str, end: float) -> str:
    """A phase by as many children as it takes; what came of it."""
    at, first, died = out / f"{phase}.at", 0, 0
    while time.monotonic() < end and died < 12:
        command = [sys.executable, __file__, "child", str(folder), str(out), phase, str(first)]
        error = (out / f"{phase}.err").open("a")
        begun = subprocess.Popen(command, stdout=error, stderr=error)
        told, since = "", time.monotonic() + 6.0  # the first of a process takes longer
        while begun.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
            now = at.read_text() if at.exists() else ""
            if now != told:
                told, since = now, time.monotonic()
            elif time.monotonic() - since > STEP_SECONDS:
                break
        if begun.poll() is None:
            begun.kill()
        begun.wait()
        told = at.read_text() if at.exists() else ""
        if told == "end":
            return f"whole, {died} died"
        if not told:
            return "nothing ran"
        died += 1
        first = int(told.split()[0]) + 1
        with (out / f"{phase}.jsonl").open("a") as lines:
            lines.write(json.dumps({"died": told, "code": begun.returncode}) + "\n")
    return f"in part, {died} died"


if __name__ == "__main__":
    main()
