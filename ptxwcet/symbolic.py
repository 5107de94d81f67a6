"""Parametric bounds: the bound of a kernel as a formula of one of its parameters.

>>> from ptxwcet.api import Request
>>> from ptxwcet.symbolic import bound_symbolic
>>> request = Request("samples/saxpy.ptx", block="256", grid="1")
>>> answer = bound_symbolic(request, "n=1..4096")
>>> [row.formula.at(1000) for row in answer.bounded]
[1745]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ptxwcet.api import (
    RefusedKernel,
    Request,
    build_launch,
    cuda_parameter_names,
    file_digest,
    refuse,
    select_kernels,
    state_facts,
    with_launch_file,
)
from ptxwcet.flow.facts.parameters import find_parameter, parse_parameters
from ptxwcet.flow.facts.stated import FactSource, ParameterFact, StatedFacts
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.parametric import OpenParameter, SymbolicBound, analyse_symbolic
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError


@dataclass(frozen=True, slots=True)
class SymbolicAnswer:
    """The answer for each kernel asked for, in file order."""

    path: str
    sha256: str
    machine: Machine
    kernels: tuple[SymbolicBound | RefusedKernel, ...]

    @property
    def bounded(self) -> tuple[SymbolicBound, ...]:
        """The kernels that have a formula."""
        return tuple(row for row in self.kernels if isinstance(row, SymbolicBound))

    @property
    def refused(self) -> tuple[RefusedKernel, ...]:
        """The kernels that have none."""
        return tuple(row for row in self.kernels if isinstance(row, RefusedKernel))


def bound_symbolic(request: Request, symbolic: str) -> SymbolicAnswer:
    """SAFE of each requested kernel as a formula of the parameter that ``symbolic`` names.

    ``symbolic`` is ``n=1..4096``, or ``n`` if its range is stated elsewhere. The formula has the
    value of :func:`ptxwcet.api.bound_file` at every number of the range, or a smaller one where
    the paths of one value are known less exactly. Raises PtxwcetError for input that concerns no
    single kernel. Cost: independent of the width of the range.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    module = parse_module(read_source(request.path))
    facts = state_facts(request, module)
    request = with_launch_file(request, module, facts)
    rows: list[SymbolicBound | RefusedKernel] = []
    for kernel in select_kernels(module.kernels, request.kernels, request.path):
        try:
            own = facts.of_kernel(kernel.name)
            launch, parameter = _open_parameter(kernel, request, own, symbolic)
            rows.append(
                analyse_symbolic(
                    inline_calls(kernel, module),
                    launch,
                    machine,
                    own,
                    parameter,
                    unknown_at_worst=request.unknown_at_worst,
                )
            )
        except Exception as error:
            rows.append(refuse(kernel, error))
    return SymbolicAnswer(request.path, file_digest(request.path), machine, tuple(rows))


# --- the parameter --------------------------------------------------------------------------------


def _open_parameter(
    kernel: Kernel, request: Request, facts: StatedFacts, symbolic: str
) -> tuple[Launch, OpenParameter]:
    """The launch, and its parameter with the range that all sources allow."""
    shown, separator, _ = (part.strip() for part in symbolic.partition("="))
    source = FactSource(f"--symbolic {symbolic}")
    names = cuda_parameter_names(kernel, request)
    found = find_parameter(kernel, ParameterFact(shown, "", source), names)
    if found.is_array or found.type.startswith("f"):
        raise PtxwcetError(
            Diagnostic(
                "PW541",
                f"{source.name}: {found.name} is not an integer (.{found.type})",
                kernel.span,
                help="a bound is a formula of one integer parameter",
            )
        )
    if separator:
        (fact,) = parse_parameters((symbolic,))
        facts = replace(
            facts, parameters=(*facts.parameters, ParameterFact(fact.name, fact.text, source))
        )
    launch = build_launch(kernel, request, facts)
    if found.name in launch.parameters:
        raise _has_a_value(kernel, source, f"{found.name} = {launch.parameters[found.name]}")
    if found.name not in launch.ranges:
        raise PtxwcetError(
            Diagnostic(
                "PW540",
                f"the range of parameter {shown} is not known",
                kernel.span,
                help=f"say for which values the formula is to hold: --symbolic {shown}=1..4096",
            )
        )
    shown = found.name if shown.isdigit() else shown
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
