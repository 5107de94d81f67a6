"""The bound, or the refusal, of the only kernel that a request asks for."""

from __future__ import annotations

from ptxwcet.compose.analysed import KernelAnalysis
from ptxwcet.studies.block_bound import bound_file
from ptxwcet.studies.opening import RefusedKernel
from ptxwcet.studies.request import Request


def only_answer(request: Request) -> KernelAnalysis:
    (row,) = bound_file(request).kernels
    assert isinstance(row, KernelAnalysis), row.diagnostics[0].render()
    return row


def only_refusal(request: Request) -> RefusedKernel:
    (row,) = bound_file(request).kernels
    assert isinstance(row, RefusedKernel), row.worst.bound
    return row
