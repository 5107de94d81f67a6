"""Certificates of a report checked again, against a PTX file and nothing else of the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ptxwcet.commands.bound.certificate_rows import block_named, proof_from
from ptxwcet.commands.bound.report import Report
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
from ptxwcet.report.reading import read_as
from ptxwcet.support.records import dataclass


class NoReport(Exception):
    """The data are no report with certificates for this file; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What the checker says of the certificate of a loop, and of the bound that rests on it."""

    kernel: str
    readable: str
    block: str
    iterations: int
    verdict: Verdict


def recheck(report: Mapping[str, Any], module: Module) -> Iterator[Rechecked]:
    """The verdict on each certificate of a report, kernel by kernel.

    What the walk knew at the entry of a loop, the certificate's ``facts``, is taken as given. A
    bound on executions of the body is wrong if it is smaller than what back edges allow. Raises
    NoReport. Cost: two questions to the solver for each certificate.
    """
    kernels = {kernel.name: kernel for kernel in module.kernels}
    try:
        read_as(Report, report)  # what is of another shape is not looked at
        for entry in report["kernels"]:
            loops = [(loop, one) for loop in entry.get("loops", ()) for one in _certificates(loop)]
            if not loops:
                continue
            if entry["kernel"] not in kernels:
                raise NoReport(f"the file has no kernel {entry['kernel']}")
            graph = _graph(kernels[entry["kernel"]], module)
            for loop, certificate in loops:
                yield _rechecked(graph, loop, certificate)
    except KeyError as missing:
        raise NoReport(f"no report of this file with certificates: {missing} is missing") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise NoReport(f"no report of this file with certificates: {error}") from None


def _graph(kernel: Kernel, module: Module) -> FlowGraph:
    whole = inline_calls(kernel, module)
    launch = Launch((1, 1, 1), (1, 1, 1))
    return flow_graph(followed(build_flow(whole, launch)), launch)


def _certificates(loop: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The certificates of a loop. Raises NoReport if none has the bound that is to rest on one."""
    found = list(loop["certificates"])
    if loop["origin"] == "certificate" and all(
        one["iterations"] != loop["iterations"] for one in found
    ):
        raise NoReport(f"{loop['iterations']} iterations of {loop['block']} have no certificate")
    return found


def _rechecked(
    graph: FlowGraph, entry: Mapping[str, Any], certificate: Mapping[str, Any]
) -> Rechecked:
    proof = proof_from(certificate, graph.cfg)
    block, kernel = entry["block"], graph.kernel
    header = block_named(graph.cfg, block)
    loop = graph.forest.loop_at(header)
    if loop is None:
        raise NoReport(f"no loop begins at {block} of kernel {kernel.readable}")
    iterations, most = certificate["iterations"], entry["iterations"]
    if type(iterations) is not int or type(most) is not int:
        raise NoReport("iterations of a loop are no number")
    if most < iterations or iterations < proof.certificate.back_edges + is_rotated(loop):
        return Rechecked(kernel.name, kernel.readable, block, iterations, Verdict.WRONG)
    try:
        verdict = verdict_of(graph, loop, proof, Effort(MOST_PROOF_STEPS))
    except TooMuchEffort:
        verdict = Verdict.NOT_SETTLED
    return Rechecked(kernel.name, kernel.readable, block, iterations, verdict)
