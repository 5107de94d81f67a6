"""The README is short, its output is the tool's, and so are numbers in the text of pages."""

from __future__ import annotations

import csv
import json
import re
import shlex

import pytest
from click.testing import CliRunner
from pages import missing
from places import DOCS, ROOT

import ptxwcet
from ptxwcet.cli.main import commands
from ptxwcet.validate.selftest import CORPUS

pytestmark = pytest.mark.fast

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXPERIMENTS = DOCS / "experiments"


def said(page: str, text: str) -> None:
    """A page of the documentation has to contain the text; line breaks do not matter."""
    shown = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    assert text in shown, f"{page} no longer says: {text}"


def output(*arguments: str) -> str:
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


# --- the main example -----------------------------------------------------------------------------


def example_arguments() -> list[str]:
    """Arguments of the command that the README shows first."""
    block = re.search(r"<!-- run -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert block is not None
    (line,) = (one for one in block[1].splitlines() if one.startswith(".venv/bin/ptxwcet"))
    return shlex.split(line)[1:]


def example_lines() -> list[str]:
    block = re.search(r"```text\n(ptxwcet .*?)```", README, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def test_the_example_prints_what_is_shown() -> None:
    assert len(example_lines()) > 8
    printed = output("bound", *example_arguments()).splitlines()
    assert missing(example_lines(), printed) == []


def test_a_changed_number_would_be_noticed() -> None:
    shown = example_lines()
    for number, line in enumerate(shown):
        if re.search(r"\d", line):
            other = re.sub(r"\d(?=\D*$)", lambda m: str((int(m[0]) + 1) % 10), line)
            changed = [*shown[:number], other, *shown[number + 1 :]]
            assert missing(changed, shown), line


def test_it_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README.splitlines()) <= 62
    links = re.findall(r"\]\(([^)]*)\)", README)
    assert len(links) >= 15
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_its_line_of_python_works() -> None:
    (line,) = re.findall(r"`(ptxwcet\.bound\([^`]*)`", README)
    assert eval(line, {"ptxwcet": ptxwcet}) > 0


# --- numbers in the text of pages -----------------------------------------------------------------


@pytest.mark.parametrize(("policy", "cycles"), [("lrr", "124,805"), ("gto", "124,463")])
def test_simulated_cycles_of_the_example(policy: str, cycles: str) -> None:
    said(
        "reading-a-bound.md", "takes 124,805 cycles for this block under LRR and 124,463 under GTO"
    )
    run = json.loads(
        output("simulate", *example_arguments(), "--policy", policy, "--format", "json")
    )
    assert f"{run['kernels'][0]['cycles']:,}" == cycles


@pytest.mark.parametrize(
    ("arguments", "formula"),
    [
        ("samples/loops.ptx -k loop_up --block 64 --symbolic n=1..1000000", "231 + 230*n"),
        (
            "samples/sgemm_naive.ptx --block 32x32 --param N=1024 --symbolic K=1..1000000",
            "2,278 + 4,139*ceil(K/32)",
        ),
    ],
)
def test_formulas(arguments: str, formula: str) -> None:
    said("command-line.md", f"`{formula}`")
    assert output("bound", *arguments.split()).count(formula) == 1


def test_makespan() -> None:
    said("methods/index.md", "600 warps of `LLCLL` take exactly 2,401 slots")
    said("command-line.md", "ptxwcet makespan LLCLL --warps 600 --load-store 1 --cores 1")
    options = ["LLCLL", "--warps", "600", "--load-store", "1", "--cores", "1"]
    assert re.search(r"MAKESPAN +2,401 slots +safe-bound, exact", output("makespan", *options))


def test_counterexamples_of_gub() -> None:
    said("reading-a-bound.md", "It is not safe: four small workloads exceed it")
    assert sum(known.worst > known.gub for known in CORPUS) == 4


def test_the_attack() -> None:
    said(
        "reading-a-bound.md",
        "a million random blocks searched and attacked, no run exceeded the safe bound",
    )
    found = json.loads((EXPERIMENTS / "attack.json").read_text())
    assert (found["workloads"], found["violations"]) == (1_000_000, 0)


def test_overestimations_of_the_hybrid_analysis() -> None:
    said("methods/index.md", "On 25 kernels after its Table II")
    with (EXPERIMENTS / "hybrid.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 25

    def mean(column: str, mark: str = "high_water_mark") -> str:
        return f"{sum(100 * (int(r[column]) / int(r[mark]) - 1) for r in rows) / len(rows):.0f} %"

    published = [mean(f"published_{one}", "published_high_water_mark") for one in ESTIMATES]
    own = [mean(one) for one in ESTIMATES]
    said(
        "methods/index.md",
        f"Z_dynamic {own[0]} above the high-water mark on average (published {published[0]})",
    )
    said("methods/index.md", f"Z_hybrid {own[1]} ({published[1]})")
    planned = json.loads((EXPERIMENTS / "hybrid.json").read_text())["rows"]
    over = [100 * (row["planned"] / row["high_water_mark"] - 1) for row in planned]
    said(
        "methods/index.md",
        f"and {sum(over) / len(over):.0f} % with waves computed from launch and occupancy",
    )


ESTIMATES = ("dynamic", "hybrid")
