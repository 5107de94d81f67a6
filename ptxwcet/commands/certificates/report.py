"""Verdicts on the certificates of a report, from a PTX file and no other part of the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxwcet.commands.bound.certificate_rows import block_named, proof_from
from ptxwcet.commands.bound.report import CertificateRow, LoopRow, Report
from ptxwcet.flow.certificates.checker import Verdict
from ptxwcet.flow.certificates.proof import verdict_of
from ptxwcet.flow.effort import Effort, TooMuchEffort
from ptxwcet.flow.flow_graph import MOST_PROOF_STEPS, FlowGraph
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.call_variables import followed
from ptxwcet.flow.paths.extraction import flow_graph
from ptxwcet.flow.walk.iterations import is_rotated
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.pipeline import build_flow
from ptxwcet.report.head import answered
from ptxwcet.support.records import dataclass


class NoReport(ValueError):
    """The report has no certificates for this file; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Rechecked:
    """The verdict of the checker on a loop's certificate, and on the bound that rests on it."""

    kernel: str
    readable: str
    block: str
    iterations: int
    verdict: Verdict


def recheck(report: Report, module: Module) -> Iterator[Rechecked]:
    """Yields the verdict on each certificate of a report, kernel by kernel.

    The certificate's ``facts``, which the walk has at the entry of the loop, are taken as given. A
    bound on executions of the body is wrong if it is less than the back edges allow. Raises
    ValueError for a report of another file. Cost: two solver queries per certificate.
    """
    kernels = {kernel.name: kernel for kernel in module.kernels}
    for kernel_row in answered(report.kernels):
        certificates = [(loop, each) for loop in kernel_row.loops for each in _certificates(loop)]
        if not certificates:
            continue
        if kernel_row.kernel not in kernels:
            raise NoReport(f"the file has no kernel {kernel_row.kernel}")
        graph = _graph(kernels[kernel_row.kernel], module)
        for loop, certificate in certificates:
            yield _rechecked(graph, loop, certificate)


def _graph(kernel: Kernel, module: Module) -> FlowGraph:
    whole = inline_calls(kernel, module)
    launch = Launch((1, 1, 1), (1, 1, 1))
    return flow_graph(followed(build_flow(whole, launch)), launch)


def _certificates(loop: LoopRow) -> Sequence[CertificateRow]:
    """Returns the certificates of a loop. Raises NoReport if its bound needs one and has none."""
    numbers = [certificate.iterations for certificate in loop.certificates]
    if loop.origin == "certificate" and loop.iterations not in numbers:
        raise NoReport(f"{loop.iterations} iterations of {loop.block} have no certificate")
    return loop.certificates


def _rechecked(graph: FlowGraph, reported: LoopRow, certificate: CertificateRow) -> Rechecked:
    """Returns the verdict on a certificate. Raises ValueError."""
    proof, kernel = proof_from(certificate, graph.cfg), graph.kernel
    loop = graph.forest.loop_at(block_named(graph.cfg, reported.block))
    if loop is None:
        raise NoReport(f"no loop begins at {reported.block} of kernel {kernel.readable}")
    iterations = certificate.iterations
    least = proof.certificate.back_edges + is_rotated(loop)
    try:
        verdict = Verdict.WRONG
        if least <= iterations <= reported.iterations:
            verdict = verdict_of(graph, loop, proof, Effort(MOST_PROOF_STEPS))
    except TooMuchEffort:
        verdict = Verdict.NOT_SETTLED
    return Rechecked(kernel.name, kernel.readable, reported.block, iterations, verdict)
