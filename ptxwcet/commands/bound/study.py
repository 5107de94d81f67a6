"""The bounds of each kernel of a PTX file: of a block, and of the launch if the grid is known.

>>> from ptxwcet.commands.bound.study import bound_file
>>> from ptxwcet.opened.request import Request
>>> answer = bound_file(Request("samples/vector_add.ptx", block="256", parameters=("n=1000",)))
>>> [row.worst.bound.cycles for row in answer.answered]
[662]
"""

from __future__ import annotations

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.occupancy import require_static_shared
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.opened.opening import Answer, Opened, find_named_policy, open_request
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, with_launch_bound
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.simulator.policies import Policy

FileAnswer = Answer[KernelAnalysis]
"""The bounds of the kernels of a file."""


def bound_file(request: Request, module: Module | None = None) -> FileAnswer:
    """Bounds each requested kernel; of its ``module`` if that has been read before.

    Raises PtxwcetError for input that concerns no single kernel. Cost: linear in the file,
    independent of trip counts.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    opened = open_request(request, module)
    policy = find_named_policy(request)
    wishes = Wishes(request)
    kernels = opened.each(lambda kernel: bounded_on(opened, kernel, machine, wishes, policy))
    return Answer(request.path, opened.sha256, machine, kernels)


def bounded_on(
    opened: Opened, kernel: Kernel, machine: Machine, wishes: Wishes, policy: Policy | None = None
) -> KernelAnalysis:
    """Bounds a kernel of an opened request on a machine. Raises PtxwcetError.

    Cost: independent of trip counts.
    """
    request = opened.request
    whole = opened.whole(kernel)
    require_static_shared(whole, opened.module)
    analysis = analyse_kernel(
        whole,
        opened.launch_of(kernel),
        machine,
        opened.facts_of(kernel),
        unknown_at_worst=request.unknown_at_worst,
        policy=policy,
        method=request.method,
    )
    return with_launch_bound(analysis, opened.module, opened.said_by_file, wishes)
