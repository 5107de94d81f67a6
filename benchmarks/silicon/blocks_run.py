"""Runs a kit of kernels (``blocks.py prepare``) on the first GPU: needs cuda-bindings and NumPy.

    python blocks_run.py KIT RESULTS.jsonl --seconds 68

One line of JSON a launch: what its arrays hold afterwards, of the kernel and of a copy whose
products and sums are not fused, how long the launches of the plain kernel took by events (the
launch waits behind a kernel that waits, so that the host is not in it), and the cycles of each
block and of each SM by the clocks that the timed copy reads. ``first`` is the first launch after
the module was loaded, ``cold`` those after 256 MiB were written, ``warm`` those after the arrays
were. Kernels run in a process of their own, which is ended and started anew behind a kernel that
does not come back.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import hashlib
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FLUSHED_BYTES = 256 << 20
COLD, WARM, EMPTY = 36, 20, 300
WARM_UP_NS, BETWEEN_NS, HELD_NS = 60_000_000, 200_000, 150_000
ALONE_SHARED_BYTES = 118_784
"""Of shared memory: two blocks with so much do not fit an SM of compute capability 9.0."""
SHOWN_BYTES = 65_536
MOST_SECONDS, MOST_TO_START = 6.0, 25.0
FEW_THREADS = 150_000
WORDS = 4
"""Words a thread of the timed copy writes: clock at its entry, at its end, its SM, its warp."""

Array = np.ndarray[Any, Any]


def built(source: Mapping[str, Any]) -> Array:
    """The array that a launch file describes, as ``ptxwcet.emulator.launch_arrays`` builds it."""
    dtype, shape, settings = source["dtype"], source["shape"], source["settings"]
    count = int(np.prod(shape, dtype=np.int64))
    random = np.random.RandomState(int(settings.get("seed", 0)))
    match source["initialiser"]:
        case "raw":
            data = zlib.decompress(base64.b64decode(source["data"]))
            return np.frombuffer(data, dtype).reshape(shape).copy()
        case "zeros":
            made = np.zeros(count, dtype)
        case "ones":
            made = np.ones(count, dtype)
        case "value":
            made = np.full(count, settings["value"], dtype)
        case "uniform":
            made = random.uniform(settings["low"], settings["high"], count).astype(dtype)
        case "integers":
            drawn = random.randint(int(settings["low"]), int(settings["high"]), count, np.int64)
            made = drawn.astype(dtype)
        case other:
            raise ValueError(other)
    return made.reshape(shape)


def block_times(words: Array, blocks: int) -> dict[str, Any]:
    """What the clocks of all threads of a launch say of its blocks, and of the SMs.

    Clocks are of 32 bits and one for each SM: differences count, modulo 2^32.
    """
    rows = words.reshape(blocks, -1, WORDS)
    unwritten = int((rows[:, :, 3] == 0).sum())
    start, end, sm = rows[:, :, 0], rows[:, :, 1], rows[:, 0, 2].astype(np.int64)
    origin = start[:, :1].copy()
    begin = (start - origin).view(np.int32).min(axis=1).astype(np.int64)
    last = (end - origin).view(np.int32).max(axis=1).astype(np.int64)
    cycles = last - begin
    spans, resident = [], 1
    for number in np.unique(sm):
        mine = np.flatnonzero(sm == number)
        shift = (origin[mine, 0] - origin[mine[0], 0]).view(np.int32).astype(np.int64)
        starts, ends = shift + begin[mine], shift + last[mine]
        spans.append(int(ends.max() - starts.min()))
        if len(mine) > 1:
            resident = max(resident, *(int(((starts <= s) & (ends > s)).sum()) for s in starts))
    return {
        "block": int(cycles.max()),
        "worst": int(cycles.argmax()),
        "least": int(cycles.min()),
        "span": max(spans),
        "sms": len(spans),
        "resident": resident,
        "unwritten": unwritten,
        "moved": int((rows[:, :, 2] != rows[:, :1, 2]).any()),
    }


class Device:
    """The first GPU. Raises RuntimeError with the name of what the driver answers."""

    def __init__(self) -> None:
        from cuda.bindings import driver  # here: the parent process touches no GPU

        self.cuda: Any = driver
        self.check(driver.cuInit(0))
        device = self.check(driver.cuDeviceGet(0))
        self.check(driver.cuCtxSetCurrent(self.check(driver.cuDevicePrimaryCtxRetain(device))))
        words = driver.CUdevice_attribute
        self.sms = self.check(
            driver.cuDeviceGetAttribute(words.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device)
        )
        self.name = self.check(driver.cuDeviceGetName(128, device)).split(b"\0")[0].decode()
        self.events = [self.check(driver.cuEventCreate(0)) for _ in range(2)]
        self.flushed = self.check(driver.cuMemAlloc(FLUSHED_BYTES))
        self.flushes = 0

    def check(self, answer: Sequence[Any]) -> Any:
        """What a call gives beside its error code."""
        error, *rest = answer
        if int(error) != 0:
            _, name = self.cuda.cuGetErrorName(error)
            raise RuntimeError(name.decode() if isinstance(name, bytes) else str(error))
        return rest[0] if len(rest) == 1 else tuple(rest)

    def flush(self) -> None:
        """Writes an array five times as large as the L2 cache."""
        self.flushes += 1
        self.check(self.cuda.cuMemsetD32Async(self.flushed, self.flushes, FLUSHED_BYTES // 4, 0))

    def upload(self, address: Any, data: Array | bytes) -> None:
        """Copies to the device."""
        array = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        self.check(self.cuda.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))

    def download(self, address: Any, array: Array) -> Array:
        """Copies from the device into ``array``."""
        self.check(self.cuda.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
        return array

    def wait(self) -> None:
        """Until all is done."""
        self.check(self.cuda.cuCtxSynchronize())

    def microseconds(self, launch: Callable[[], None], hold: Callable[[], None]) -> float:
        """How long a launch takes, by events before and behind it, all queued behind ``hold``."""
        begin, end = self.events
        hold()
        self.check(self.cuda.cuEventRecord(begin, 0))
        launch()
        self.check(self.cuda.cuEventRecord(end, 0))
        self.wait()
        return round(1000 * float(self.check(self.cuda.cuEventElapsedTime(begin, end))), 3)


class Kernel:
    """A kernel of a module that was just loaded, with the variables of the module."""

    def __init__(self, device: Device, cubin: Path, job: Mapping[str, Any]) -> None:
        self.device, cuda = device, device.cuda
        check = device.check
        code = np.frombuffer(cubin.read_bytes(), np.uint8)
        self.module = check(cuda.cuModuleLoadData(code.ctypes.data))
        self.function = check(cuda.cuModuleGetFunction(self.module, job["kernel"].encode()))
        words = cuda.CUfunction_attribute
        kinds = {
            "registers": words.CU_FUNC_ATTRIBUTE_NUM_REGS,
            "shared": words.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            "local": words.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        }
        self.has = {
            key: int(check(cuda.cuFuncGetAttribute(kind, self.function)))
            for key, kind in kinds.items()
        }
        self.variables: list[tuple[Any, Array]] = []
        given = {name: base64.b64decode(data) for name, data in job["given"].items()}
        for name in job["variables"]:
            error, address, size = cuda.cuModuleGetGlobal(self.module, name.encode())
            if int(error) == 0:  # what a module does not need it does not hold
                data = device.download(address, np.empty(size, np.uint8))
                if name in given:
                    data[: len(given[name])] = np.frombuffer(given[name], np.uint8)
                self.variables.append((address, data))

    def restore(self) -> None:
        """The variables as they are before the launch."""
        for address, data in self.variables:
            self.device.upload(address, data)

    def allow_shared(self, dynamic: int) -> None:
        """So much dynamic shared memory, which beyond 48 KiB has to be asked for."""
        limit = self.device.cuda.CUfunction_attribute
        name = limit.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self.device.check(self.device.cuda.cuFuncSetAttribute(self.function, name, dynamic))

    def unload(self) -> None:
        """Gives the module back, so that the next load finds nothing of it in a cache."""
        self.device.check(self.device.cuda.cuModuleUnload(self.module))


class Arguments:
    """The arguments of a launch on the device, each array twice: one copy stays as it was."""

    def __init__(self, device: Device, job: Mapping[str, Any]) -> None:
        self.device = device
        self.arrays: dict[int, tuple[Any, Any, Array]] = {}
        self.values: list[Any] = []
        allocate = device.cuda.cuMemAlloc
        for number, argument in enumerate(job["arguments"]):
            if "bytes" in argument:
                data = base64.b64decode(argument["bytes"])
                self.values.append(ctypes.create_string_buffer(data, len(data)))
                continue
            array = built(argument)
            used, kept = (device.check(allocate(max(array.nbytes, 1))) for _ in range(2))
            device.upload(kept, array)
            self.arrays[number] = (used, kept, array)
            self.values.append(ctypes.c_uint64(int(used)))

    def restore(self) -> None:
        """The arrays as they are before the launch."""
        for used, kept, array in self.arrays.values():
            self.device.check(self.device.cuda.cuMemcpyDtoDAsync(used, kept, array.nbytes, 0))

    def digests(self) -> dict[int, tuple[str, bytes]]:
        """SHA-256 and bytes of each array now."""
        found = {}
        for number, (used, _, array) in self.arrays.items():
            data = self.device.download(used, np.empty_like(array)).tobytes()
            found[number] = (hashlib.sha256(data).hexdigest(), data)
        return found

    def free(self) -> None:
        """Gives the memory back."""
        for used, kept, _ in self.arrays.values():
            self.device.check(self.device.cuda.cuMemFree(used))
            self.device.check(self.device.cuda.cuMemFree(kept))


class Run:
    """A job on a device; :meth:`result` is its line."""

    def __init__(self, device: Device, kit: Path, job: Mapping[str, Any], spin: Spin) -> None:
        self.device, self.kit, self.job, self.spin = device, kit, job, spin
        self.arguments = Arguments(device, job)

    def launcher(self, kernel: Kernel, dynamic: int, more: Any = None) -> Callable[[], None]:
        """What launches a kernel, with one more argument if it is the timed one."""
        values = [*self.arguments.values, *([] if more is None else [ctypes.c_uint64(int(more))])]
        pointers = np.array([ctypes.addressof(value) for value in values], dtype=np.uint64)
        sizes = (*self.job["grid"], *self.job["block"], dynamic)
        cuda, check = self.device.cuda, self.device.check

        def launch(values: Any = values, pointers: Array = pointers) -> None:
            check(cuda.cuLaunchKernel(kernel.function, *sizes, 0, pointers.ctypes.data, 0))

        return launch

    def each(self, kernel: Kernel, first: bool = True, part: int = 1) -> Iterator[str]:
        """Prepares a launch after the other; yields what kind it is. ``part``: fewer of them."""
        kinds = ["cold"] * -(-COLD // part) + ["warm"] * -(-WARM // part)
        kinds = ["first", *kinds] if first else kinds
        for kind in kinds:
            kernel.restore()
            self.arguments.restore()
            if kind != "warm":
                self.device.flush()
            self.device.wait()
            yield kind

    def plain(self) -> dict[str, Any]:
        """The kernel as it is: results, and times of launches."""
        device, dynamic = self.device, self.job["dynamic_shared"]
        kernel = Kernel(device, self.kit / self.job["plain"], self.job)
        if dynamic:
            kernel.allow_shared(dynamic)
        launch = self.launcher(kernel, dynamic)
        times: dict[str, list[float]] = {}
        outputs: dict[int, dict[str, Any]] = {}
        for kind in self.each(kernel):
            times.setdefault(kind, []).append(device.microseconds(launch, self._hold))
            if kind == "first":
                outputs = self._outputs(self.arguments.digests())
        again = {number: digest for number, (digest, _) in self.arguments.digests().items()}
        for number, output in outputs.items():
            output["repeats"] = again[number] == output["sha256"]
        kernel.unload()
        return {"times_us": times, "outputs": outputs, "plain_has": kernel.has}

    def _hold(self) -> None:
        self.spin.wait(HELD_NS)

    def unfused(self) -> dict[str, Any]:
        """What the copy computes whose products and sums are rounded one after the other.

        A kit may leave it out.
        """
        path = self.kit / self.job["unfused"]
        if not path.exists():
            return {}
        kernel = Kernel(self.device, path, self.job)
        if self.job["dynamic_shared"]:
            kernel.allow_shared(self.job["dynamic_shared"])
        kernel.restore()
        self.arguments.restore()
        self.launcher(kernel, self.job["dynamic_shared"])()
        self.device.wait()
        outputs = self._outputs(self.arguments.digests())
        kernel.unload()
        return {"unfused": outputs}

    def _outputs(self, found: Mapping[int, tuple[str, bytes]]) -> dict[int, dict[str, Any]]:
        outputs: dict[int, dict[str, Any]] = {}
        for number, (digest, data) in found.items():
            outputs[number] = {"sha256": digest}
            expected = self.job["arguments"][number]["expected"]
            if expected not in (None, digest):
                shown = zlib.compress(data[:SHOWN_BYTES])
                outputs[number]["data"] = base64.b64encode(shown).decode()
        return outputs

    def timed(self) -> dict[str, Any]:
        """The copy that reads clocks: as it is launched, and with one block an SM at a time."""
        device, dynamic = self.device, self.job["dynamic_shared"]
        blocks = int(np.prod(self.job["grid"], dtype=np.int64))
        threads = blocks * int(np.prod(self.job["block"], dtype=np.int64))
        words = np.zeros(threads * WORDS, np.uint32)
        buffer = device.check(device.cuda.cuMemAlloc(words.nbytes))
        kernel = Kernel(device, self.kit / self.job["timed"], self.job)
        rows: dict[str, dict[str, list[dict[str, Any]]]] = {}

        def measured(title: str, shared: int, first: bool) -> None:
            if shared:
                kernel.allow_shared(shared)
            launch = self.launcher(kernel, shared, buffer)
            rows[title] = {}
            for kind in self.each(kernel, first, 1 if threads <= FEW_THREADS else 5):
                device.check(device.cuda.cuMemsetD32Async(buffer, 0, words.size, 0))
                if kind != "warm":
                    device.flush()
                device.wait()
                launch()
                device.wait()
                device.download(buffer, words)
                rows[title].setdefault(kind, []).append(block_times(words, blocks))

        measured("as it is", dynamic, True)
        resident = max(row["resident"] for kind in rows["as it is"].values() for row in kind)
        room = ALONE_SHARED_BYTES - kernel.has["shared"]
        if resident > 1 and room > dynamic:
            measured("alone", room, False)
        kernel.unload()
        device.check(device.cuda.cuMemFree(buffer))
        return {
            "timed_has": kernel.has,
            "blocks": {title: _columns(kinds) for title, kinds in rows.items()},
        }

    def result(self) -> dict[str, Any]:
        """All that is measured of the job."""
        found = self.plain() | self.unfused() | (self.timed() if self.job["is_timed"] else {})
        self.arguments.free()
        return found


def _columns(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, list[Any]]]:
    return {
        kind: {key: [row[key] for row in rows] for key in rows[0]} for kind, rows in kinds.items()
    }


class Spin:
    """A kernel that waits for nanoseconds: the clock rises under load, and this tells its rate."""

    def __init__(self, device: Device, kit: Path) -> None:
        none = {"kernel": "spin", "given": {}, "variables": []}
        self.device = device
        self.kernel = Kernel(device, kit / "spin.cubin", none)
        self.buffer = device.check(device.cuda.cuMemAlloc(16))

    def wait(self, nanoseconds: int) -> None:
        """Launches it."""
        values = [ctypes.c_uint64(int(self.buffer)), ctypes.c_uint64(nanoseconds)]
        pointers = np.array([ctypes.addressof(value) for value in values], dtype=np.uint64)
        sizes = (self.device.sms, 1, 1, 128, 1, 1, 0)
        launch = self.device.cuda.cuLaunchKernel
        answer = launch(self.kernel.function, *sizes, 0, pointers.ctypes.data, 0)
        self.device.check(answer)

    def launches(self) -> dict[str, list[float]]:
        """Microseconds by events of nothing, and of launches that end at once."""

        def hold() -> None:
            self.wait(HELD_NS)

        def short() -> None:
            self.wait(0)

        times = self.device.microseconds
        return {
            "nothing_us": [times(lambda: None, hold) for _ in range(EMPTY)],
            "empty_us": [times(short, hold) for _ in range(EMPTY)],
        }

    def megahertz(self, nanoseconds: int) -> float:
        """The clock of the SMs over a wait."""
        self.wait(nanoseconds)
        self.device.wait()
        cycles, waited = self.device.download(self.buffer, np.zeros(2, np.uint64))
        return round(1000 * int(cycles) / max(int(waited), 1), 1)


def work(kit: Path, results: Path, begin: int) -> None:
    """Runs the jobs from number ``begin`` on, a line each."""
    jobs = json.loads((kit / "jobs.json").read_text(encoding="utf-8"))
    device = Device()
    spin = Spin(device, kit)
    warm = spin.megahertz(WARM_UP_NS)
    with results.open("a", encoding="utf-8") as file:

        def say(line: Mapping[str, Any]) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        say({"device": device.name, "sms": device.sms, "mhz": warm, "begin": begin})
        if begin == 0:
            say(spin.launches())
        for number, job in enumerate(jobs[begin:], begin):
            say({"job": number, "starts": job["name"]})
            mhz = spin.megahertz(BETWEEN_NS)
            before = time.monotonic()
            found = Run(device, kit, job, spin).result()
            seconds = round(time.monotonic() - before, 3)
            say({"job": number, "name": job["name"], "mhz": mhz, "seconds": seconds, **found})


def _last_job(results: Path) -> tuple[int, bool]:
    """The last job that was begun, and whether it came to its end; -1 before the first."""
    last, is_done = -1, True
    for text in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if "job" in line:
            last, is_done = line["job"], "starts" not in line
    return last, is_done


def watch(kit: Path, results: Path, seconds: float) -> None:
    """Starts workers until all jobs are done or the time is up; skips what does not come back."""
    count = len(json.loads((kit / "jobs.json").read_text(encoding="utf-8")))
    ends = time.monotonic() + seconds
    begin, vain = 0, 0
    while begin < count and time.monotonic() < ends and vain < 3:
        command = [sys.executable, __file__, str(kit), str(results), "--worker", str(begin)]
        errors = results.with_suffix(".err")
        with errors.open("ab") as log:
            child = subprocess.Popen(command, stderr=log, stdout=log)
            size, since, limit = -1, time.monotonic(), MOST_TO_START
            while child.poll() is None:
                time.sleep(0.02)
                now = time.monotonic()
                grown = results.stat().st_size if results.exists() else 0
                if grown != size:
                    limit = MOST_TO_START if size < 0 else MOST_SECONDS
                    size, since = grown, now
                if now > ends or now - since > limit:
                    child.kill()
                    child.wait()
        last, is_done = _last_job(results)
        if child.returncode == 0:
            return
        vain = vain + 1 if last < begin else 0
        if not is_done and last >= begin and time.monotonic() < ends:
            error = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            with results.open("a", encoding="utf-8") as file:
                said = error[-1:] if child.returncode > 0 else ["it did not come back"]
                line = {"job": last, "failed": child.returncode, "error": said}
                file.write("\n" + json.dumps(line) + "\n")
        begin = last + 1


def main() -> int:
    """Watches workers, or is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kit", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=68.0)
    parser.add_argument("--worker", type=int, metavar="JOB", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ["CUDA_MODULE_LOADING"] = "EAGER"
    if asked.worker is not None:
        work(asked.kit, asked.results, asked.worker)
    else:
        watch(asked.kit, asked.results, asked.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
