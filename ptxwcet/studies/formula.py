"""Parametric bounds: the bound of a kernel as a formula of one of its parameters.

>>> from ptxwcet.studies.request import Request
>>> from ptxwcet.studies.formula import bound_symbolic
>>> request = Request("samples/saxpy.ptx", block="256", grid="1")
>>> answer = bound_symbolic(request, "n=1..4096")
>>> [row.formula.at(1000) for row in answer.answered]
[1745]
"""

from __future__ import annotations

from dataclasses import replace

from ptxwcet.flow.facts.parameters import find_parameter, parse_parameters
from ptxwcet.flow.facts.stated import FactSource, ParameterFact
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.studies.formula_search import OpenParameter, SymbolicBound, analyse_symbolic
from ptxwcet.studies.opening import (
    Answer,
    Opened,
    cuda_parameter_names,
    open_request,
)
from ptxwcet.studies.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

SymbolicAnswer = Answer[SymbolicBound]
"""The formulas of the kernels of a file."""


def bound_symbolic(request: Request, symbolic: str) -> SymbolicAnswer:
    """SAFE of each requested kernel as a formula of the parameter that ``symbolic`` names.

    ``symbolic`` is ``n=1..4096``, or ``n`` if its range is stated elsewhere. The formula has the
    value of :func:`ptxwcet.studies.block_bound.bound_file` at every number of the range, or a
    smaller one where the paths of one value are known less exactly. Raises PtxwcetError for input
    that concerns no single kernel. Cost: independent of the width of the range.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    opened = open_request(request)

    def formula(kernel: Kernel) -> SymbolicBound:
        launch, parameter = _open_parameter(kernel, opened, symbolic)
        return analyse_symbolic(
            opened.whole(kernel),
            launch,
            machine,
            opened.facts_of(kernel),
            parameter,
            unknown_at_worst=request.unknown_at_worst,
        )

    return Answer(request.path, opened.sha256, machine, opened.each(formula))


# --- the parameter --------------------------------------------------------------------------------


def _open_parameter(kernel: Kernel, opened: Opened, symbolic: str) -> tuple[Launch, OpenParameter]:
    """The launch, and its parameter with the range that all sources allow."""
    shown, separator, _ = (part.strip() for part in symbolic.partition("="))
    source = FactSource(f"--symbolic {symbolic}")
    names, facts = cuda_parameter_names(kernel, opened.request), opened.facts_of(kernel)
    found = find_parameter(kernel, ParameterFact(shown, "", source), names)
    if found.is_array or found.type.startswith("f"):
        raise PtxwcetError(
            Diagnostic(
                "PW541",
                f"{source.name}: {shown} is not an integer (.{found.type})",
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
    if found.name in launch.parameters:
        raise _has_a_value(kernel, source, f"{shown} = {launch.parameters[found.name]}")
    if found.name not in launch.ranges:
        raise PtxwcetError(
            Diagnostic(
                "PW540",
                f"the range of parameter {shown} is not known",
                kernel.span,
                help=f"say for which values the formula is to hold: --symbolic {shown}=1..4096",
            )
        )
    shown = launch.name_of(found.name) if shown.isdigit() else shown
    return launch, OpenParameter(found.name, shown, *launch.ranges[found.name])


def _has_a_value(kernel: Kernel, source: FactSource, value: str) -> PtxwcetError:
    return PtxwcetError(
        Diagnostic(
            "PW542",
            f"{source.name}: the parameter has one value only, {value}",
            kernel.span,
            help="leave out its --param, or --symbolic; a range has two numbers: 1..4096",
        )
    )
