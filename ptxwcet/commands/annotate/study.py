"""The bounds of each kernel of a PTX file, and the share of each instruction in them.

>>> from ptxwcet.commands.annotate.study import explain_file
>>> from ptxwcet.opened.request import Request
>>> request = Request("samples/vector_add.ptx", block="256", parameters=("n=1000",))
>>> (row,) = explain_file(request).answered
>>> sum(paid.total for paid in row.explained.paid.values())
662
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.explanation import BoundExplanation, LaunchCycles, explain_launch, explain_safe
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.bound.study import bounded_on
from ptxwcet.flow.facts.placing import is_file, main_file
from ptxwcet.ir.kernel import Instruction, Kernel, SourceLocation
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import Answer, open_request
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes
from ptxwcet.support.comments import COMMENT
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span


@dataclass(frozen=True, slots=True)
class ExplainedKernel:
    """The bounds of a kernel, and the cycles that its instructions pay of them.

    ``explained`` splits the safe bound of a block; ``launch`` splits the bound of the launch by
    instruction, without launcher gaps and overhead; it is None without a launch bound. ``regions``
    are the marked or requested parts.
    """

    analysis: KernelAnalysis
    explained: BoundExplanation
    launch: Mapping[int, LaunchCycles] | None
    regions: Regions

    @property
    def kernel(self) -> Kernel:
        """The kernel, with functions in the place of their calls."""
        return self.analysis.kernel


def explain_file(request: Request, places: Sequence[str] = ()) -> Answer[ExplainedKernel]:
    """Bounds and explains each requested kernel; refuses one whose waits do not settle (PW404).

    Also refuses a kernel without such ``places``, or with half a mark (PW248, PW651). Raises
    PtxwcetError for input that concerns no single kernel. Cost: as the bounds, and an attribution
    for each section and kind of warps, independent of trip counts.
    """
    machine = load_machine(request.machine, request.memory_latency_cycles)
    opened = open_request(request)
    wishes = Wishes(request)

    def explained(kernel: Kernel) -> ExplainedKernel:
        analysis = bounded_on(opened, kernel, machine, wishes)
        launch = None
        if isinstance(analysis.launch_bound, LaunchBound):
            pieces = [(piece.analysis, piece.count) for piece in analysis.of_launch]
            launch = explain_launch(analysis.launch_bound, pieces)
        regions = find_regions(analysis.kernel, places)
        return ExplainedKernel(analysis, explain_safe(analysis.worst.analysis), launch, regions)

    return Answer(request.path, opened.sha256, machine, opened.each(explained))


# --- Regions of a kernel whose cycles are summed: between marks in the source, or lines of it -----
# ``asm volatile("// ptxwcet: region NAME")`` begins a region and ``// ptxwcet: region end`` ends
# the region that began last. It contains the instructions between the comments where the compiler
# placed them in the PTX; copies of the comments (unrolling, inlining) are one region.


END = "end"
_MARK = re.compile(rf'"[^"\n]*+"|(?P<mark>{COMMENT})')
_REGION = re.compile(r"(?://|/\*)\s*ptxwcet\s*:\s*region\s+(\w+)\s*(?:\*/)?", re.ASCII)
_LINES = re.compile(r"(?:(?P<file>[^:]+):)?(?P<first>[0-9]{1,9})(?:-(?P<last>[0-9]{1,9}))?")

Regions = Mapping[str, tuple[int, ...]]
"""The instructions of each region by its name, in order."""


def find_regions(kernel: Kernel, places: Sequence[str]) -> Regions:
    """Returns the regions that comments mark in a kernel with inlined calls, and ``places``.

    With ``places``, these only: names of marks, lines of the main file, as ``20-35``, or of any
    file, as ``kernel.cu:20-35``. Lines that call an inlined function contain its instructions too.
    Raises PtxwcetError: PW248 (a mark without its other half), PW651 (not a place). Cost: linear in
    the text, and in the kernel for each place.
    """
    marked = _marked(kernel)
    if not places:
        return marked
    return {place: marked.get(place) or _of_lines(kernel, place, marked) for place in places}


def _marked(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    regions: dict[str, dict[int, None]] = {}
    for source in dict.fromkeys(instruction.span.source for instruction in kernel.instructions):
        by_start = [
            (one.start, index)
            for index, one in enumerate(kernel.instructions)
            if one.span.source is source
        ]
        for name, start, end in _spans(source):
            inside = [index for at, index in by_start if start < at < end]
            if inside:
                regions.setdefault(name, {}).update(dict.fromkeys(inside))
    return {name: tuple(sorted(indices)) for name, indices in regions.items()}


def _spans(source: SourceFile) -> Iterator[tuple[str, int, int]]:
    """Names of regions, where they begin and end. Raises PtxwcetError (PW248)."""
    if "ptxwcet" not in source.text:
        return
    begun: list[tuple[str, Span]] = []
    for comment in _MARK.finditer(source.text):
        mark = _REGION.fullmatch((comment["mark"] or "").rstrip())
        if mark is None:
            continue
        span = Span(source, comment.start(), comment.end())
        if mark[1] != END:
            begun.append((mark[1], span))
        elif not begun:
            raise _half(span, "ends a region that nothing begins")
        else:
            name, start = begun.pop()
            yield name, start.end, span.start
    if begun:
        raise _half(begun[-1][1], "begins a region that nothing ends")


def _half(span: Span, what: str) -> PtxwcetError:
    message = f"comment not understood: it {what}"
    remedy = "write ptxwcet: region NAME, and ptxwcet: region end behind it"
    return PtxwcetError(Diagnostic("PW248", message, span, help=remedy))


def _of_lines(kernel: Kernel, place: str, marked: Iterable[str]) -> tuple[int, ...]:
    lines = _LINES.fullmatch(place)
    if lines is None:
        names = ", ".join(marked) or "none"
        raise _no_place(kernel, f"{place} is no region that is marked ({names}), and no lines")
    first, last = int(lines["first"]), int(lines["last"] or lines["first"])
    name = lines["file"]
    of_kernel = main_file(kernel) if name is None else None

    def is_there(instruction: Instruction) -> bool:
        return any(
            first <= frame.line <= last
            and (frame.file == of_kernel if name is None else is_file(frame.file, name))
            for frame in _frames(instruction.location)
        )

    indices = tuple(i for i, one in enumerate(kernel.instructions) if is_there(one))
    if not indices:
        has_lines = any(instruction.location is not None for instruction in kernel.instructions)
        why = "" if has_lines else ", as its code names no lines of a source"
        raise _no_place(kernel, f"no instruction is of the lines {place}{why}")
    return indices


def _frames(location: SourceLocation | None) -> Iterator[SourceLocation]:
    """Yields a location, then the calls into which it is inlined."""
    while location is not None:
        yield location
        location = location.inlined_at


def _no_place(kernel: Kernel, what: str) -> PtxwcetError:
    remedy = (
        "give lines of the CUDA source (nvcc -lineinfo) as kernel.cu:20-35, or the name of a region"
    )
    message = f"kernel {kernel.readable}: {what}"
    return PtxwcetError(Diagnostic("PW651", message, kernel.span, help=remedy))
