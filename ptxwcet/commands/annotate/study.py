"""The bounds of each kernel of a PTX file, and which instruction pays how much of them.

>>> from ptxwcet.commands.annotate.study import explain_file
>>> from ptxwcet.opened.request import Request
>>> request = Request("samples/vector_add.ptx", block="256", parameters=("n=1000",))
>>> (row,) = explain_file(request).answered
>>> sum(paid.total for paid in row.explained.paid.values())
662
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.explanation import BoundExplanation, LaunchCycles, explain_launch, explain_safe
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.annotate.regions import Regions, find_regions
from ptxwcet.commands.bound.study import bounded_on
from ptxwcet.ir.kernel import Kernel
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import Answer, open_request
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class ExplainedKernel:
    """The bounds of a kernel, and what its instructions pay of them.

    ``explained`` takes the safe bound of a block apart; ``launch`` by instruction that of the whole
    launch, without gaps of the launcher and overhead, None where no launch is bounded. ``regions``
    are the parts that are marked, or asked for.
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
    """Bounds and explains each requested kernel; one whose waits do not settle is refused (PW404).

    So is one without such ``places``, or with half a mark (PW248, PW651). Raises PtxwcetError for
    input that concerns no single kernel. Cost: that of the bounds, and an attribution for each
    section and kind of warps, independent of trip counts.
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
