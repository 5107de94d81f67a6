"""Reports as JSON: the same bytes for the same input; ``ptxwcet.report.schema`` describes them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from ptxwcet.report.model import Report

if TYPE_CHECKING:
    from ptxwcet.report.hybrid_rows import HybridReport
    from ptxwcet.report.pwcet_model import PwcetReport
    from ptxwcet.report.symbolic_model import SymbolicReport


def render_json(report: Report | SymbolicReport | HybridReport | PwcetReport) -> str:
    """The report as one JSON object, keys in the order of the data model."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n"
