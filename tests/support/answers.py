"""The bound, or the refusal, of the only kernel that a request asks for."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.flow_graph import Work
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.opened.request import Request


def only_answer(request: Request) -> KernelAnalysis:
    (row,) = bound_file(request).kernels
    assert isinstance(row, KernelAnalysis), row.diagnostics[0].render()
    return row


def only_refusal(request: Request) -> RefusedKernel:
    (row,) = bound_file(request).kernels
    assert isinstance(row, RefusedKernel), row.worst.bound
    return row


def with_steps(request: Request) -> tuple[str, int, int]:
    """The code of the only kernel, or "bound", and how many steps walks and searches took."""
    works: list[Work] = []
    plain = Work.__init__

    def noted(self: Work, **given: Any) -> None:
        plain(self, **given)
        works.append(self)

    with patch.object(Work, "__init__", noted):
        (row,) = bound_file(request).kernels
    code = row.diagnostics[0].code if isinstance(row, RefusedKernel) else "bound"
    return code, max(w.walking.spent for w in works), max(w.searching.spent for w in works)
