"""Bounds on machines with other figures: each change by itself, in a table.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.commands.what_if.study import bound_variants
>>> request = Request("samples/vector_add.ptx", block="256", parameters=("n=1000",))
>>> (row,) = bound_variants(request, ["memory.latency=100..300:100"]).answered
>>> row.cycles, [(one.variant, one.cycles) for one in row.variants]
(662, [('memory.latency=100', 462), ('memory.latency=200', 662), ('memory.latency=300', 862)])
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.bound.study import bounded_on
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.checks import MOST_CYCLES
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine, OpTiming
from ptxwcet.opened.opening import Answer, open_request
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.toml_places import nearest

_CHANGE = re.compile(
    r"(\w+)\.(latency|initiation)=(\d{1,9})(?:\.\.(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII
)
_MEMORY = "memory"
_POINTS = 7
MOST_VARIANTS = 200
"""Machines of one table."""


@dataclass(frozen=True, slots=True)
class BoundVariant:
    """The bound of a block on the machine with ``variant``, and of the launch if its grid is known.

    ``cycles`` is None without a bound, for ``reason``.
    """

    variant: str
    cycles: int | None
    launch_cycles: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BoundVariants:
    """The bounds of a kernel: on the machine itself, then with each change by itself."""

    kernel: Kernel
    cycles: int
    launch_cycles: int | None
    variants: tuple[BoundVariant, ...]


def bound_variants(request: Request, changes: Sequence[str]) -> Answer[BoundVariants]:
    """Bounds each kernel on the machine, and on machines with one of the ``changes`` each.

    A change is ``WHAT.latency=N`` or ``WHAT.initiation=N`` in cycles, where WHAT is an op class
    (``fp32_fma``), a part of such names (``fma``, ``load``), or ``memory`` for the latency of
    global memory; ``A..B:STEP`` in the place of N is a machine for each number. Raises PtxwcetError
    (PW325, or for input that concerns no single kernel). Cost: a bound for each machine.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    machines = dict(variant for text in changes for variant in _variants(text, machine, request))
    if len(machines) > MOST_VARIANTS:
        raise _refused(f"{len(machines)} machines are more than {MOST_VARIANTS}")
    opened, wishes = open_request(request), Wishes(request)

    def bounded(kernel: Kernel) -> BoundVariants:
        analysis = bounded_on(opened, kernel, machine, wishes)
        variants = []
        for name, changed in machines.items():
            try:
                varied = bounded_on(opened, kernel, changed, wishes)
            except PtxwcetError as error:
                variants.append(BoundVariant(name, None, None, error.diagnostics[0].message))
                continue
            variants.append(BoundVariant(name, *_cycles(varied)))
        return BoundVariants(analysis.kernel, *_cycles(analysis), tuple(variants))

    return Answer(request.path, opened.sha256, machine, opened.each(bounded))


def _cycles(row: KernelAnalysis) -> tuple[int, int | None]:
    launched = row.launch_bound
    whole = launched.claim.cycles if isinstance(launched, LaunchBound) else None
    return row.worst.bound.claim.cycles, whole


def _variants(text: str, machine: Machine, request: Request) -> Iterator[tuple[str, Machine]]:
    """Yields the machines of a change, by their variants. Raises PtxwcetError (PW325)."""
    match = _CHANGE.fullmatch(text.strip())
    if match is None:
        figure = text.partition("=")[0].rpartition(".")[2]
        near = nearest(figure, ("latency", "initiation"))
        raise _refused(f"{text!r} is no change of a machine", near)
    target, figure, first, last, step = match.groups()
    numbers = _numbers(text, int(first), last, step)
    if target == _MEMORY:
        if figure != "latency":
            raise _refused(f"{text!r}: of the memory only the latency can be changed")
        for number in numbers:
            yield f"{target}.{figure}={number}", load_machine(request.machine, number)
        return
    classes = [one for one in OpClass if f"_{target}_" in f"_{one.value}_"]
    timed = [op_class for op_class in classes if isinstance(machine.timings[op_class], OpTiming)]
    if not timed:
        reason = "is refused by the machine" if classes else "is no op class, nor a part of one"
        words = {part for one in OpClass for part in (one.value, *one.value.split("_"))}
        near = "" if classes else nearest(target, (_MEMORY, *sorted(words)))
        raise _refused(f"{text!r}: {target} {reason}", near)
    for number in numbers:
        yield f"{target}.{figure}={number}", _changed(machine, timed, figure, number)


def _numbers(text: str, first: int, last: str | None, step: str | None) -> list[int]:
    end = first if last is None else int(last)
    width = max(1, (end - first) // (_POINTS - 1)) if step is None else int(step)
    if not 1 <= first <= end <= MOST_CYCLES or width == 0:
        raise _refused(f"{text!r}: numbers of cycles lie between 1 and {MOST_CYCLES}, in order")
    if (end - first) // width >= MOST_VARIANTS:
        raise _refused(f"{text!r} gives more than {MOST_VARIANTS} machines")
    return list(range(first, end + 1, width))


def _changed(machine: Machine, classes: Sequence[OpClass], figure: str, number: int) -> Machine:
    timings = dict(machine.timings)
    for op_class in classes:
        timing = timings[op_class]
        assert isinstance(timing, OpTiming)
        if figure == "latency":
            forms = tuple((name, (own, number)) for name, (own, _) in timing.forms)
            timings[op_class] = replace(timing, latency_cycles=number, readers=(), forms=forms)
        else:
            forms = tuple((name, (number, own)) for name, (_, own) in timing.forms)
            timings[op_class] = replace(timing, initiation_cycles=number, forms=forms)
    return replace(machine, timings=timings)


def _refused(message: str, near: str = "") -> PtxwcetError:
    remedy = (
        near + "for example fp32_fma.latency=2, load.initiation=1..4 or memory.latency=100..400:50"
    )
    return PtxwcetError.of("PW325", message, help=remedy)
