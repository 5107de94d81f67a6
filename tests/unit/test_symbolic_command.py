"""--symbolic on the command line: what it prints, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import re
from math import ceil, floor
from pathlib import Path

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result
from places import ROOT

from ptxwcet.bounds.formula import FormulaRow
from ptxwcet.commands.bound.command import bound
from ptxwcet.commands.bound.symbolic import row_text
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.support.diagnostics import USAGE_CODES

LOOPS = str(ROOT / "samples/loops.ptx")
SAXPY = str(ROOT / "samples/saxpy.ptx")
SCHEMA = schema_of("symbolic")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bound, list(arguments), catch_exceptions=False, standalone_mode=False)


def loops(kernel: str, *arguments: str) -> Result:
    return run(LOOPS, "-k", kernel, "--block", "64", *arguments)


def saxpy(*arguments: str) -> Result:
    return run(SAXPY, "--block", "64", "--grid", "1", *arguments)


def codes(result: Result) -> list[str]:
    return re.findall(r"error\[(PW\d+)\]", result.output)


def test_prints_formula_range_and_claim() -> None:
    result = loops("loop_strided", "--symbolic", "n=1..1000000000")
    assert result.return_value == 0
    assert re.search(r"n = 1 to 3 +[\d,]+\n", result.output)
    assert re.search(
        r"n = 4 to 1,000,000,000 +[\d,]+ \+ [\d,]+\*ceil\(\(n - 3\)/7\)", result.output
    )
    assert "for each n (loop_strided_param_1) in 1..1,000,000,000   safe-bound" in result.output
    assert "n lies in 1..1000000000 [assumed]" in result.output


def test_json_follows_the_schema() -> None:
    result = saxpy("--symbolic", "n=1..5000", "--format", "json")
    data = json.loads(result.output)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    (kernel,) = data["kernels"]
    assert kernel["rows"][0]["first"] == kernel["low"] == 1
    assert kernel["rows"][-1]["last"] == kernel["high"] == 5000
    assert all(len(row["values"]) == row["period"] for row in kernel["rows"])
    del kernel["guarantee"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(data)


def test_json_of_a_refused_kernel_follows_the_schema() -> None:
    result = loops("loop_triangular", "--symbolic", "n=1..99999", "--format", "json")
    assert result.return_value == 1
    data = json.loads(result.output[: result.output.rindex("}") + 1])
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert data["kernels"][0]["status"] == "refused"


def test_the_range_may_be_stated_elsewhere() -> None:
    alone = saxpy("--symbolic", "n=20..300")
    assert saxpy("--symbolic", "n", "--param", "n=20..300").output == alone.output
    assert saxpy("--symbolic", "n=1..300", "--param", "n=20..9999").output == alone.output


def test_a_parameter_by_index_has_its_own_name() -> None:
    assert "n = 1 to 32" in saxpy("--symbolic", "0=1..40").output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--symbolic", "n"), "PW540"),
        (("--symbolic", "a"), "PW541"),
        (("--symbolic", "a=1..2"), "PW541"),
        (("--symbolic", "n=1..9", "--param", "n=5"), "PW542"),
        (("--symbolic", "n", "--param", "n=5"), "PW542"),
        (("--symbolic", "n=7..7"), "PW542"),
        (("--symbolic", "q=1..9"), "PW213"),
        (("--symbolic", "=1..9"), "PW213"),
        (("--symbolic", "n=9..1"), "PW214"),
        (("--symbolic", "n=1..x"), "PW214"),
        (("--symbolic", "n=1..99999999999"), "PW214"),
        (("--symbolic", "n=1..9", "--param", "n=20..30"), "PW215"),
        (("--symbolic", "x=1..9"), "PW203"),  # n itself is open
    ],
)
def test_refused(arguments: tuple[str, ...], code: str) -> None:
    result = saxpy(*arguments)
    assert (result.return_value, codes(result)) == (2 if code in USAGE_CODES else 1, [code])


def test_no_formula() -> None:
    result = loops("loop_triangular", "--symbolic", "n=1..100000")
    assert (result.return_value, codes(result)) == (1, ["PW543"])
    assert "no formula in n for kernel loop_triangular" in result.output


def test_facts_may_exclude_values_of_the_range(tmp_path: Path) -> None:
    path = ROOT / "tests/data/crashes/values_excluded.ptx"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    facts = tmp_path / "facts.toml"
    facts.write_text(f'ptx = "sha256:{digest}"\n[[branch]]\nat = "entry"\nnever = "taken"\n')
    arguments = (str(path), "--block", "32", "--facts", str(facts))
    result = run(*arguments, "--symbolic", "n=1..100")
    assert (result.return_value, codes(result)) == (1, ["PW543"])
    assert "no block executes anything for 11: the facts exclude it" in result.output
    assert run(*arguments, "--symbolic", "n=1..10").return_value == 0


@pytest.mark.parametrize(
    "others",
    [("--explain",), ("--policy", "gto"), ("--executed",), ("--method", "scheduled")],
)
def test_excludes_other_answers(others: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError, match=others[0]):
        saxpy("--symbolic", "n=1..9", *others)


def test_checks_are_of_the_largest_bound() -> None:
    found = re.search(r"largest +([\d,]+) cycles", saxpy("--symbolic", "n=1..500").output)
    assert found is not None
    most = int(found.group(1).replace(",", ""))
    assert saxpy("--symbolic", "n=1..500", "--budget", str(most)).return_value == 0
    assert codes(saxpy("--symbolic", "n=1..500", "--budget", str(most - 1))) == ["PW520"]
    realistic = ("--machine", "ampere-realistic", "--require", "safe-bound")
    assert codes(saxpy("--symbolic", "n=1..500", *realistic)) == ["PW521"]


def test_other_kernels_of_the_file_are_refused_by_themselves() -> None:
    result = run(
        LOOPS, "-k", "loop_up", "-k", "loop_nested", "--block", "64", "--symbolic", "m=1..9"
    )
    assert result.return_value == 1
    assert codes(result) == ["PW213", "PW203"]
    assert "REFUSED    [PW213]" in result.output


def test_bad_files_are_refused() -> None:
    with pytest.raises(click.BadParameter, match="cannot read"):
        run("no/such/file.ptx", "--block", "64", "--symbolic", "n=1..9")


# --- the text of a row ----------------------------------------------------------------------------

ROWS = (
    FormulaRow(3, 3, (7,), (0,)),
    FormulaRow(3, 90, (7,), (0,)),
    FormulaRow(3, 90, (7,), (5,)),
    FormulaRow(3, 90, (15,), (5,)),
    FormulaRow(-30, 90, (7,), (-5,)),
    FormulaRow(5, 90, (10, 10, 10, 17), (7, 7, 7, 7)),
    FormulaRow(4, 90, (10, 10, 10, 10), (1, 1, 1, 1)),
    FormulaRow(-9, 90, (1000, 999, 999, 999, 999), (-1,) * 5),
    FormulaRow(0, 400, (5, 5, 5, 5, 5), (1, 1, 2, 2, 2)),
    FormulaRow(5, 400, (10, 11, 12, 50, 57, 57, 57), (60,) * 7),
    FormulaRow(-5, 400, (10, 11, 13, 50, 57, 57, 57), (0, 1, 2, 3, 4, 5, 5)),
    FormulaRow(3, 300, (7,), (5,), 16),
    FormulaRow(3, 300, (1000,), (40,), 16),
    FormulaRow(-30, 90, (7,), (-5,), 16),
    FormulaRow(3, 300, (5,), (1,), 1024),
    FormulaRow(5, 300, (100, 100, 100, 170), (70,) * 4, 32),
    FormulaRow(5, 400, (10, 11, 12, 50, 57, 57, 57), (60,) * 7, 32),
    FormulaRow(-5, 400, (10, 11, 13, 50, 57, 57, 57), (0, 1, 2, 3, 4, 5, 8), 8),
)


def evaluated(lines: tuple[str, ...], number: int) -> int:
    """What the text says, worked out by a reader who knows floor, ceil and mod."""
    names = {"K": number, "ceil": ceil, "floor": floor}
    table = [line.replace(",", "").replace("mod", "%") for line in lines]
    if len(table) == 1:
        return int(eval(table[0], names))
    found = re.fullmatch(r"with q = (.*) r = (.*)", table[0])
    assert found is not None
    names["q"], names["r"] = eval(found.group(1), names), eval(found.group(2), names)
    for line in table[1:]:
        where, _, text = line.partition(": ")
        ends = [int(end) for end in where.removeprefix("r = ").split(" to ")]
        if ends[0] <= names["r"] <= ends[-1]:
            return int(eval(text, names))
    raise AssertionError(f"no line for {number}")


@pytest.mark.parametrize("row", ROWS)
def test_text_says_what_the_row_is(row: FormulaRow) -> None:
    lines = row_text(row, "K")
    for number in range(row.first, row.last + 1):
        assert evaluated(lines, number) == row.at(number)


def test_texts() -> None:
    assert row_text(FormulaRow(1, 9, (1294,), (56,)), "n") == ("1,238 + 56*n",)
    assert row_text(FormulaRow(1, 9, (1,), (1,)), "n") == ("n",)
    assert row_text(FormulaRow(1, 99, (1290,) * 32, (56,) * 32), "n") == ("1,234 + 56*ceil(n/32)",)
    assert row_text(FormulaRow(4, 99, (1290,) * 32, (56,) * 32), "kernel[0]") == (
        "1,234 + 56*ceil(([kernel[0]] - 3)/32)",
    )
    assert row_text(FormulaRow(0, 9, (1294,), (56,), 5), "n") == ("258 + 11*n + ceil((4 + n)/5)",)
    assert row_text(FormulaRow(0, 9, (10,), (3,), 5), "n") == ("2 + ceil(3*n/5)",)
    assert row_text(FormulaRow(0, 9, (0,), (3,), 5), "n") == ("ceil(3*n/5)",)
