"""The report: its JSON follows the published schema, its text carries what the JSON says."""

import json

import jsonschema
import pytest
from places import ROOT

from ptxwcet.cli.output import json_text
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import Report
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.bound.text import render_text
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.opened.request import Request

SCHEMA = schema_of("report")
KERNELS = "tests/data/reference-sim/ptx/kernels.ptx"


@pytest.fixture(scope="module")
def report() -> Report:
    request = Request(
        str(ROOT / KERNELS), block="32x32", parameters=("3=32", "4=64"), memory_latency_cycles=200
    )
    return build_report(bound_file(request))


def test_json_follows_the_schema(report: Report) -> None:
    data = json.loads(json_text(report))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert {row["status"] for row in data["kernels"]} == {"bounded", "refused"}


def test_schema_rejects_a_missing_claim(report: Report) -> None:
    data = json.loads(json_text(report))
    bounded = next(row for row in data["kernels"] if row["status"] == "bounded")
    del bounded["guarantee"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(data)


def test_text_shows_bound_and_claim(report: Report) -> None:
    text = render_text(report).text
    assert "BOUND      10,152 cycles for any one block alone on its SM (10.917 us)   safe" in text
    assert "gub        10,152 cycles   estimate" in text
    assert "lower      8,033 cycles" in text
    assert "REFUSED" in text


def test_equal_input_gives_equal_bytes(report: Report) -> None:
    request = Request(str(ROOT / KERNELS), block="32x32", parameters=("3=32", "4=64"))
    assert json_text(build_report(bound_file(request))) == json_text(report)
