"""Kernels as they are and instrumented: the same results, and the path that was executed?

The suite of kernels, and the applications of the hybrid experiment with their small launches::

    PYTHONPATH=.:benchmarks:tests/oracle python benchmarks/instrumented_runs.py

The emulator runs both. The table shows events, the dump's bytes and the warp-instructions that the
points add; functions that a kernel calls have no points, so their blocks are left out of the path.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from instrumented import executed_paths, recorded_paths
from kernel_suite import entries

from ptxwcet.commands.run.study import RunRequest, run_file
from ptxwcet.methods.instrument.recording import (
    Emulator,
    InstrumentRequest,
    RecordRequest,
    import_dumps,
    instrument_file,
    record_launch,
    write_dump,
    write_instrumented,
)
from ptxwcet.support.diagnostics import PtxwcetError

BUFFERS = (1 << 20, 1 << 24, 1 << 27)


APPLICATIONS = Path(__file__).parent / "kernels" / "hybrid"


@dataclass(frozen=True, slots=True)
class Launched:
    """A kernel and a launch file of it."""

    path: Path
    kernel: str
    launch: Path


def launched() -> Iterator[Launched]:
    for entry in entries():
        yield Launched(entry.path, entry.kernel, entry.launch)
    for launch in sorted((APPLICATIONS / "small").glob("*.toml")):
        name = launch.stem.rstrip("_0123456789")
        yield Launched(APPLICATIONS / f"{name}.ptx", launch.stem, launch)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One kernel; ``same`` is empty or says what differs."""

    kernel: str
    wrong: str
    events: int = 0
    dump_bytes: int = 0
    seconds: float = 0.0


def check(entry: Launched, folder: Path) -> Outcome:
    out, sidecar, dump = (folder / f"k.{suffix}" for suffix in ("ptx", "json", "bin"))
    request = InstrumentRequest(str(entry.path), (entry.kernel,))
    write_instrumented(instrument_file(request), out, sidecar)
    plain = run_file(RunRequest(str(entry.path), str(entry.launch), record_paths=True))
    source = str(entry.path.with_suffix(".cu"))
    begin = time.monotonic()
    for size in BUFFERS:
        record = RecordRequest(str(out), str(sidecar), str(entry.launch), source, size)
        try:
            write_dump(done := record_launch(record, Emulator()), dump)
            trace = import_dumps(str(sidecar), [str(dump)])
            break
        except PtxwcetError as error:
            if error.diagnostics[0].code != "PW657" or size == BUFFERS[-1]:
                return Outcome(entry.kernel, error.diagnostics[0].render())
    wrong = []
    warps = -(-int(np.prod(plain.launch.block)) // 32)
    names = {point.label for point in trace.ipoints}
    wanted = {
        warp: [label for label in path if label in names]
        for warp, path in executed_paths(plain.execution, warps).items()
    }
    if recorded_paths(trace) != wanted:
        wrong.append("another path")
    for name, array in plain.outputs.items():
        if not np.array_equal(array, done.outputs[name], equal_nan=array.dtype.kind == "f"):
            wrong.append(f"another {name}")
    seconds = time.monotonic() - begin
    return Outcome(entry.kernel, ", ".join(wrong), len(trace), len(done.dump), seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in launched():
            if not names or entry.kernel in names:
                rows.append(check(entry, Path(folder)))
                if rows[-1].wrong:
                    print(f"{entry.kernel}: {rows[-1].wrong}", flush=True)
    right = [row for row in rows if not row.wrong]
    events = sum(row.events for row in right)
    print(f"{len(right)} of {len(rows)} kernels: same path, same results")
    print(
        f"{events:,} events, {sum(row.dump_bytes for row in right) / max(events, 1):.1f} bytes each"
    )


if __name__ == "__main__":
    main()
