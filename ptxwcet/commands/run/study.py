"""Execution of a kernel from a launch file: the entry point of the library to the emulator.

>>> from ptxwcet.commands.run.study import RunRequest, run_file
>>> answer = run_file(RunRequest("samples/saxpy.ptx", "samples/launches/saxpy.toml"))
>>> [round(float(one), 3) for one in answer.outputs["y"][:2]]
[-0.543, 0.153]
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from ptxwcet.bounds.analysed import PreparedKernel, PreparedPiece
from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import Argument, EmulatedLaunch, EmulatorOptions, Execution, Progress
from ptxwcet.emulator.launch_files import read_launch_file
from ptxwcet.emulator.launch_model import LaunchFile, OutputCheck
from ptxwcet.emulator.result_files import path_lines, write_arrays, write_lines
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.launch import Dim3, Launch, check_launch
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.model import Machine
from ptxwcet.opened.cuda_text import cuda_parameter_names
from ptxwcet.opened.opening import digest_of, open_request, read_module, refuse
from ptxwcet.opened.request import MOST_INSTRUCTIONS, Request
from ptxwcet.support.array_files import Array
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.timing.launch_costs import LaunchCosts
from ptxwcet.timing.programs import build_workload

EXECUTED_PATHS = Assumption(
    "executed-paths",
    "every run takes the paths that the emulator saw for this launch; other inputs may take others",
    AssumptionState.DOUBTFUL,
    "--executed",
)
"""The assumption of bounds of executed paths, which are estimates."""


def prepare_executed(
    execution: Execution,
    launch: Launch,
    machine: Machine,
    *,
    unknown_at_worst: bool = False,
) -> PreparedKernel:
    """Returns the executed paths of a launch as if they were the paths of every input.

    The workloads rest on :data:`EXECUTED_PATHS`, which makes all bounds estimates. Raises
    PtxwcetError (PW402, PW403) as :func:`ptxwcet.pipeline.prepare_kernel` does. Cost: linear in the
    folded paths.
    """
    assert launch.grid is not None, "an executed launch has a grid"
    flow = ControlFlow.of(execution.kernel)
    costs = LaunchCosts(execution.kernel, launch, machine, unknown_at_worst=unknown_at_worst)
    pieces = []
    for kind in executed_blocks(execution, flow.cfg, flow.postdominators.immediate, launch.grid):
        workload = build_workload(
            kind.paths.warps, execution.kernel, flow.cfg, costs, machine.scoreboard
        )
        assumptions = (EXECUTED_PATHS, *costs.assumptions)
        nominal = costs.is_nominal
        pieces.append(PreparedPiece(kind.paths, workload, assumptions, nominal, kind.count))
    return PreparedKernel(flow, launch, machine, tuple(pieces))


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run: ``source`` is the CUDA source that names the parameters, ``links`` are the files that
    the file is linked with, as in ``Request``."""

    path: str
    launch_file: str
    source: str | None = None
    max_instructions: int = MOST_INSTRUCTIONS
    record_paths: bool = False
    links: tuple[str, ...] = ()


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
        """True if all blocks ran to their end."""
        return self.execution.is_complete


def run_file(request: RunRequest, progress: Progress | None = None) -> RunAnswer:
    """Executes the launch that a launch file describes.

    ``progress`` is called from time to time with the blocks done, all blocks, and the executed
    warp-instructions. Raises PtxwcetError: problems of the inputs, instructions that cannot be
    executed (all at once, before the run), a run over ``max_instructions``, expected arrays that
    fit no result. Faults found during the run are diagnostics of the answer. Cost: as the run.
    """
    asked = Request(request.path, source=request.source, links=request.links)
    module = read_module(asked)
    launch = read_launch(request.launch_file, module, asked)
    options = EmulatorOptions(
        max_instructions=request.max_instructions,
        record_paths=request.record_paths,
        progress=progress,
    )
    begin = time.monotonic()
    execution = execute_launch(module, launch, options)
    seconds = time.monotonic() - begin
    outputs: dict[str, Array] = {}
    checks: tuple[OutputCheck, ...] = ()
    if execution.is_complete:
        buffers = zip(launch.arguments, execution.buffers, strict=True)
        outputs = {parameter.name: array for parameter, array in buffers if array is not None}
        checks = launch.check(outputs)
    wrong = [check.diagnostic() for check in checks]
    return RunAnswer(
        path=request.path,
        sha256=digest_of(asked),
        launch=launch,
        execution=execution,
        seconds=seconds,
        outputs=outputs,
        checks=checks,
        diagnostics=(
            *diagnostics_of(execution, launch.block, launch.grid),
            *(parameter for parameter in wrong if parameter is not None),
        ),
    )


class RefusedLaunch(PtxwcetError):
    """The kernel of a launch has no executed path that can be timed; carries the kernel."""

    def __init__(self, kernel: Kernel, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__(diagnostics)
        self.kernel = kernel


def prepare_launch(
    request: Request, module: Module, machine: Machine, progress: Progress | None = None
) -> PreparedKernel:
    """Runs the launch file of a request and returns the executed paths of its warps.

    Raises PtxwcetError: PW427 (no launch file, or an option without effect on executed paths),
    problems of the launch file; RefusedLaunch: refusals of the run or the machine, and every
    finding of the run (a kernel that reads unwritten memory takes arbitrary paths).
    """
    launch, facts = open_launch(request, module)
    try:
        execution = execute_recorded(module, launch, progress)
        return prepare_executed(
            execution, facts, machine, unknown_at_worst=request.unknown_at_worst
        )
    except Exception as error:
        refused = refuse(launch.kernel, error)
        raise RefusedLaunch(refused.kernel, refused.diagnostics) from None


def open_launch(request: Request, module: Module) -> tuple[LaunchFile, Launch]:
    """Returns the launch file of a request, for executing it, and the facts that it states.

    Raises PtxwcetError: PW427 (no launch file, or an option that an executed path leaves without
    effect), PW426 (an option contradicts the file), problems of the launch file.
    """
    if request.launch_file is None or request.loop_bounds or request.facts_file is not None:
        option = "--loop-bound" if request.loop_bounds else "--facts"
        option = option if request.launch_file else "no launch file"
        raise PtxwcetError.of(
            "PW427",
            f"executed paths with {option}",
            help="executed paths come from the inputs of a launch file: give --launch, and no "
            "loop bounds or facts",
        )
    launch = read_launch(request.launch_file, module, request)
    return launch, open_request(request, module).launch_of(launch.kernel)


def execute_recorded(
    module: Module,
    launch: LaunchFile,
    progress: Progress | None = None,
    *,
    max_instructions: int = MOST_INSTRUCTIONS,
) -> Execution:
    """Executes a launch and records the path of every warp.

    Raises PtxwcetError: refusals of the run, and every finding (a kernel that reads unwritten
    memory takes arbitrary paths). Cost: as the run.
    """
    options = EmulatorOptions(max_instructions, record_paths=True, progress=progress)
    execution = execute_launch(module, launch, options)
    if execution.findings:
        raise PtxwcetError(diagnostics_of(execution, launch.block, launch.grid))
    return execution


def execute_launch(module: Module, launch: LaunchFile, options: EmulatorOptions) -> Execution:
    """Executes a launch on the arrays of its file. Raises PtxwcetError. Cost: as the run."""
    check_launch(Launch(launch.block, launch.grid), launch.kernel)
    return execute(launch.kernel, module, emulated(launch), options=options)


def emulated(launch: LaunchFile, values: tuple[Argument, ...] | None = None) -> EmulatedLaunch:
    """Returns the launch with its arrays built, or these values. Raises PtxwcetError."""
    return EmulatedLaunch(
        launch.block,
        launch.grid,
        launch.values() if values is None else values,
        tuple(launch.variable_bytes().items()),
        launch.dynamic_shared_bytes,
    )


def read_launch(path: str, module: Module, names: Request) -> LaunchFile:
    """Reads the launch file at ``path``; ``names`` has the source of the CUDA names of parameters.

    Raises PtxwcetError (PW420 to PW425).
    """
    return read_launch_file(path, module, lambda kernel: cuda_parameter_names(kernel, names))


def diagnostics_of(execution: Execution, block: Dim3, grid: Dim3) -> tuple[Diagnostic, ...]:
    """Returns the findings of a run, each at its instruction, with block, thread and address."""
    places = {row.start: row.location for row in execution.kernel.instructions}
    diagnostics = []
    for finding in execution.findings:
        place = _position(finding.block, grid), _position(finding.thread, block)
        notes = ["block {}, thread {}".format(*place)]
        if finding.address is not None:
            notes.append(f"address 0x{finding.address:x}")
        location = places.get(finding.span.start)
        if location is not None and location.line:
            notes.append(f"source line {location.place}")
        message = f"kernel {finding.kernel}: {finding.message}"
        diagnostics.append(Diagnostic(finding.code, message, finding.span, notes=tuple(notes)))
    return tuple(diagnostics)


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
