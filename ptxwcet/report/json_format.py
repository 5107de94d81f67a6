"""The report as JSON: the same bytes for the same input; ``schema-1.json`` describes it."""

from __future__ import annotations

import json
from dataclasses import asdict

from ptxwcet.report.model import Report


def render_json(report: Report) -> str:
    """The report as one JSON object, keys in the order of the data model."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=False) + "\n"
