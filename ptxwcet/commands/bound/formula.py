"""Parametric bounds: the bound of a kernel as a formula of one of its parameters.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.commands.bound.formula import bound_symbolic
>>> request = Request("samples/saxpy.ptx", block="256", grid="1")
>>> answer = bound_symbolic(request, "n=1..4096")
>>> [row.formula.at(1000) for row in answer.answered]
[1745]
"""

from __future__ import annotations

import re
from dataclasses import replace

from ptxwcet.bounds.carve_out import require_grid
from ptxwcet.bounds.launch_bound import LaunchRules, launch_rules
from ptxwcet.bounds.wishes import ANY_GRID
from ptxwcet.claims import Refusal
from ptxwcet.commands.bound.formula_search import (
    OpenParameter,
    SymbolicBound,
    analyse_symbolic,
    analyse_symbolic_blocks,
)
from ptxwcet.flow.facts.parameters import find_parameter, parse_parameters
from ptxwcet.flow.facts.stated import FactSource, ParameterFact
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import (
    Answer,
    Opened,
    cuda_parameter_names,
    open_request,
    require_uses,
)
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, launched_block
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

_BLOCKS = "blocks"
_MOST_BLOCKS = (2**31 - 1) * 65535 * 65535

SymbolicAnswer = Answer[SymbolicBound]
"""The formulas of the kernels of a file."""


def bound_symbolic(request: Request, symbolic: str) -> SymbolicAnswer:
    """SAFE of each requested kernel as a formula of the parameter that ``symbolic`` names.

    ``symbolic`` is ``n=1..4096``, or ``n`` if its range is stated elsewhere; ``blocks=1..4096`` is
    the number of blocks of the grid. The formula of a block has the value of
    :func:`ptxwcet.commands.bound.study.bound_file` at every number of the range; a smaller one
    where the paths of one value are known less exactly, and a larger one where the transactions of
    an access depend on the parameter. With a grid, or for blocks, the launch has
    a formula too, which may be above the bound of a single value. Raises PtxwcetError for input
    that concerns no single kernel. Cost: independent of the width of the range.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    # the number of blocks may be what is open: then what is said of the GPU counts without a grid
    opened = open_request(replace(request, gpu=ANY_GRID, ptxas_info=None, asks_ptxas=False))
    wishes = Wishes(request)

    def formula(kernel: Kernel) -> SymbolicBound:
        whole, facts = opened.whole(kernel), opened.facts_of(kernel)

        def rules(launch: Launch) -> LaunchRules | Refusal:
            said = wishes.of(kernel)
            parts = opened.module, opened.launched, said
            return launch_rules(launched_block(whole, launch, *parts), machine, said)

        blocks = _open_blocks(kernel, opened, symbolic)
        if blocks is not None:
            launch = opened.launch_of(kernel)
            worst = request.unknown_at_worst
            analysis = analyse_kernel(whole, launch, machine, facts, unknown_at_worst=worst)
            return analyse_symbolic_blocks(analysis, blocks, rules(launch))
        launch, parameter = _open_parameter(kernel, opened, symbolic)
        require_grid(launch, kernel.span)
        require_uses(request, has_grid=launch.grid is not None)
        return analyse_symbolic(
            whole,
            launch,
            machine,
            facts,
            parameter,
            unknown_at_worst=request.unknown_at_worst,
            rules=None if launch.grid is None else rules(launch),
        )

    return Answer(request.path, opened.sha256, machine, opened.each(formula))


# --- the parameter --------------------------------------------------------------------------------


def _open_blocks(kernel: Kernel, opened: Opened, symbolic: str) -> OpenParameter | None:
    """The number of blocks with its range; None if a parameter is meant.

    Raises PtxwcetError: PW213 (no range), PW542 (the grid is given).
    """
    name, _, text = (part.strip() for part in symbolic.partition("="))
    if name != _BLOCKS or _BLOCKS in opened.names_of(kernel).values():
        return None
    match = re.fullmatch(r"(\d+) *\.\. *(\d+)", text)
    low, high = (0, 0) if match is None else (int(match[1]), int(match[2]))
    if not 1 <= low <= high <= _MOST_BLOCKS:
        raise PtxwcetError(
            Diagnostic(
                "PW213",
                f"--symbolic {symbolic}: a range of numbers of blocks is wanted",
                help="for example --symbolic blocks=1..4096",
            )
        )
    if opened.request.grid is not None:
        grid = opened.request.grid
        raise _has_a_value(kernel, FactSource(f"--symbolic {symbolic}"), f"the grid is {grid}")
    return OpenParameter(_BLOCKS, _BLOCKS, low, high)


def _open_parameter(kernel: Kernel, opened: Opened, symbolic: str) -> tuple[Launch, OpenParameter]:
    """The launch, and its parameter with the range that all sources allow."""
    shown, separator, _ = (part.strip() for part in symbolic.partition("="))
    source = FactSource(f"--symbolic {symbolic}")
    names, facts = cuda_parameter_names(kernel, opened.request), opened.facts_of(kernel)
    parameter = find_parameter(kernel, ParameterFact(shown, "", source), names)
    if parameter.is_array or parameter.type.startswith("f"):
        raise PtxwcetError(
            Diagnostic(
                "PW541",
                f"{source.name}: {shown} is not an integer (.{parameter.type})",
                kernel.span,
                help="a bound is a formula of one integer parameter",
            )
        )
    if separator:
        (fact,) = parse_parameters((symbolic,))
        facts = replace(
            facts, parameters=(*facts.parameters, ParameterFact(fact.name, fact.text, source))
        )
    launch = opened.launch_of(kernel, facts)
    if parameter.name in launch.parameters:
        raise _has_a_value(kernel, source, f"{shown} = {launch.parameters[parameter.name]}")
    if parameter.name not in launch.ranges:
        raise PtxwcetError(
            Diagnostic(
                "PW540",
                f"the range of parameter {shown} is not known",
                kernel.span,
                help=f"say for which values the formula is to hold: --symbolic {shown}=1..4096",
            )
        )
    shown = launch.name_of(parameter.name) if shown.isdigit() else shown
    return launch, OpenParameter(parameter.name, shown, *launch.ranges[parameter.name])


def _has_a_value(kernel: Kernel, source: FactSource, value: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW542",
            f"{source.name}: the parameter has one value only, {value}",
            kernel.span,
            help="leave out its --param, or --symbolic; a range has two numbers: 1..4096",
        )
    )
