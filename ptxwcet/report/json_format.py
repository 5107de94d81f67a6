"""Reports as JSON: the same bytes for the same input; ``ptxwcet.report.schema`` describes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ptxwcet.support.seals import sealed

if TYPE_CHECKING:
    from ptxwcet.report.hybrid_rows import HybridReport
    from ptxwcet.report.model import Report
    from ptxwcet.report.pwcet_model import PwcetReport
    from ptxwcet.report.symbolic_model import SymbolicReport

    AnyReport = Report | SymbolicReport | HybridReport | PwcetReport


def render_json(report: AnyReport | Sequence[AnyReport]) -> str:
    """A report as one JSON object, keys in the order of the data model; several as an array."""
    data = [asdict(one) for one in report] if isinstance(report, Sequence) else asdict(report)
    return json.dumps(sealed(data), indent=2, ensure_ascii=False) + "\n"
