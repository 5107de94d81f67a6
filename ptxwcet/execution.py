"""Running a kernel from a launch file: the library's front door to the emulator.

>>> from ptxwcet.execution import RunRequest, run_file
>>> answer = run_file(RunRequest("samples/saxpy.ptx", "samples/launches/saxpy.toml"))
>>> answer.outputs["y"][:2]  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ptxwcet.api import Request, cuda_parameter_names
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, Execution, Finding
from ptxwcet.emulator.launch_arrays import Array
from ptxwcet.emulator.launch_files import read_launch_file
from ptxwcet.emulator.launch_model import LaunchFile, OutputCheck
from ptxwcet.emulator.path_lines import path_lines
from ptxwcet.emulator.result_files import write_arrays, write_lines
from ptxwcet.flow.facts import Dim3, Launch, check_launch
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import Diagnostic

MOST_INSTRUCTIONS = 10**9
"""Warp-instructions after which a run is given up unless told otherwise."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run. ``source`` is the CUDA source that names the parameters, as in ``Request``."""

    path: str
    launch_file: str
    source: str | None = None
    max_instructions: int = MOST_INSTRUCTIONS
    record_paths: bool = False


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """A run. ``outputs`` has every buffer after it, by argument name; none if it was stopped.

    ``diagnostics`` are the run's findings and the results that are not as expected.
    """

    path: str
    sha256: str
    launch: LaunchFile
    execution: Execution
    seconds: float
    outputs: Mapping[str, Array]
    checks: tuple[OutputCheck, ...]
    diagnostics: tuple[Diagnostic, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all blocks ran to their end."""
        return self.execution.is_complete


def run_file(request: RunRequest, progress: Callable[[int, int], None] | None = None) -> RunAnswer:
    """Executes the launch that a launch file describes.

    ``progress`` is called every now and then with the blocks done and all. Raises PtxwcetError:
    problems of the inputs, instructions that cannot be executed (all at once, before anything
    runs), a run over ``max_instructions``, expected arrays that fit no result. Faults found while
    it runs are diagnostics of the answer. Cost: that of the run.
    """
    module = parse_module(read_source(request.path))
    names = Request(request.path, source=request.source)
    launch = read_launch_file(
        request.launch_file, module, lambda kernel: cuda_parameter_names(kernel, names)
    )
    check_launch(Launch(launch.block, launch.grid), launch.kernel)
    emulated = EmulatedLaunch(
        launch.block,
        launch.grid,
        launch.values(),
        tuple(launch.variable_bytes().items()),
        launch.dynamic_shared_bytes,
    )
    options = EmulatorOptions(
        max_instructions=request.max_instructions,
        record_paths=request.record_paths,
        progress=progress,
    )
    begin = time.monotonic()
    execution = execute(launch.kernel, module, emulated, options=options)
    seconds = time.monotonic() - begin
    outputs: dict[str, Array] = {}
    checks: tuple[OutputCheck, ...] = ()
    if execution.is_complete:
        buffers = zip(launch.arguments, execution.buffers, strict=True)
        outputs = {row.name: array for row, array in buffers if array is not None}
        checks = launch.check(outputs)
    wrong = [check.diagnostic() for check in checks]
    return RunAnswer(
        path=request.path,
        sha256=hashlib.sha256(Path(request.path).read_bytes()).hexdigest(),
        launch=launch,
        execution=execution,
        seconds=seconds,
        outputs=outputs,
        checks=checks,
        diagnostics=(
            *(_diagnostic(finding, launch) for finding in execution.findings),
            *(row for row in wrong if row is not None),
        ),
    )


def _diagnostic(finding: Finding, launch: LaunchFile) -> Diagnostic:
    """A finding at its PTX instruction, with block, thread, address and source line."""
    block = _position(finding.block, launch.grid)
    notes = [f"block {block}, thread {_position(finding.thread, launch.block)}"]
    if finding.address is not None:
        notes.append(f"address 0x{finding.address:x}")
    places = {row.start: row.location for row in launch.kernel.instructions}
    location = places.get(finding.span.start)
    if location is not None:
        notes.append(f"source line {location.file}:{location.line}")
    message = f"kernel {finding.kernel}: {finding.message}"
    return Diagnostic(finding.code, message, finding.span, notes=tuple(notes))


def _position(linear: int, size: Dim3) -> Dim3:
    return linear % size[0], linear // size[0] % size[1], linear // (size[0] * size[1])


def write_results(answer: RunAnswer, out: Path | None, paths: Path | None) -> None:
    """Writes the arrays (``.npz``) and the executed paths (JSON lines) of a complete run.

    Raises PtxwcetError (PW429); a file is written whole or not at all.
    """
    if not answer.is_complete:
        raise ValueError("a run that was stopped has no results")
    if out is not None:
        write_arrays(out, answer.outputs)
    if paths is not None:
        launch = answer.launch
        lines = path_lines(answer.execution, launch.block, launch.grid, answer.path)
        write_lines(paths, lines)
