"""Bounds of the paths that a launch executes for the inputs of its launch file."""

from __future__ import annotations

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import FileAnswer
from ptxwcet.commands.run.study import RefusedLaunch, prepare_launch
from ptxwcet.emulator.launch import Progress
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import (
    Answer,
    RefusedKernel,
    digest_of,
    find_named_policy,
    open_request,
    read_module,
)
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, with_launch_bound
from ptxwcet.pipeline import analyse_prepared


def bound_executed(request: Request, progress: Progress | None = None) -> FileAnswer:
    """Bounds the executed paths of a launch for the inputs of its launch file: estimates.

    The answer has a bound of a block and of the launch. Raises PtxwcetError for input that concerns
    no single kernel. Cost: as the run.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = read_module(request)
    policy = find_named_policy(request)
    bounded: KernelAnalysis | RefusedKernel
    try:
        prepared = prepare_launch(request, module, machine, progress)
        bounded = analyse_prepared(prepared, policy=policy, method=request.method)
        launched = open_request(request, module).said_by_file
        bounded = with_launch_bound(bounded, module, launched, Wishes(request))
    except RefusedLaunch as refused:
        bounded = RefusedKernel(refused.kernel, refused.diagnostics)
    return Answer(request.path, digest_of(request), machine, (bounded,))
