"""``ptxwcet pwcet``: what it prints, draws and refuses."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from places import ROOT
from programs import run_program

from ptxwcet.commands.explain.schema import schema_of

SCHEMA = schema_of("pwcet")
VOID = {"meta", "br", "link"}


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two conditions of 1,000 independent times each, the second longer."""
    random = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("pwcet") / "times.csv"
    rows = [f"A,{x:.0f}" for x in 1000 + random.gamma(9, 100, 1000)]
    rows += [f"<B$_>,{x:.0f}" for x in 1000 + random.gamma(9, 150, 1000)]
    path.write_text("condition,cycles\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("pwcet") / "drift.txt"
    np.savetxt(path, 1000 + random.normal(0, 10, 1000) + np.arange(1000) / 20, "%.3f")
    return path


def test_text_has_tests_gates_fits_and_curve(times: Path) -> None:
    code, out, err = run_program("pwcet", times)
    assert (code, err) == (0, "")
    for word in (
        *("condition  A", "condition  <B$_>", "runs test", "Ljung-Box", "BDS", "KS of halves"),
        *("KPSS", "R/S", "AR order", "extremal index", "extremogram", "Anderson-Darling"),
        *("gpd", "exponential", "gev", "gumbel", "identically distributed", "pWCET      cycles"),
        *(
            "A is dominated by <B$_>",
            "ENVELOPE   over the conditions",
            "assumed, besides the tests",
        ),
    ):
        assert word in out, word


def test_json_follows_the_schema_and_is_the_same_again(times: Path) -> None:
    code, out, _ = run_program("pwcet", times, "--format", "json", "--extremes", "bm:25")
    assert code == 0
    data = json.loads(out)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    for row in data["conditions"]:
        for name in ("low", "estimate", "pwcet"):
            values = [point[name] for point in row["curve"]]
            assert values == sorted(values)
            assert values == [int(value) for value in values], "on the grid of the times"
        for point in row["curve"]:
            assert row["high_water_mark"] <= point["low"] <= point["estimate"] <= point["pwcet"]
    for name in ("estimate", "pwcet"):
        top = [point[name] for point in data["envelope"]]
        assert top == [
            max(row["curve"][k][name] for row in data["conditions"]) for k in range(len(top))
        ]
    again = run_program("pwcet", times, "--format", "json", "--extremes", "bm:25")[1]
    assert again == out


def test_levels_are_those_of_one_run_not_of_a_block(times: Path) -> None:
    """The printed level, put back into the printed law: 1 - G(x)^(1/25) is the probability."""
    _, out, _ = run_program(
        "pwcet",
        *(times, "--format", "json", "--extremes", "bm:25"),
        *("--shape", "zero", "--probability", 1e-4),
    )
    for row in json.loads(out)["conditions"]:
        assert row["extremal_index"]["applied"] == 1
        fit = next(one for one in row["fits"] if one["family"] == "gumbel")
        x = fit["levels"][0]
        block = np.exp(-np.exp(-(x - fit["location"]) / fit["scale"]))
        below = np.exp(-np.exp(-(x - 1 - fit["location"]) / fit["scale"]))
        if x > row["high_water_mark"]:
            assert 1 - block ** (1 / 25) <= 1e-4 <= 1 - below ** (1 / 25)


def test_a_drift_is_refused_and_shown_only_by_force(drifting: Path) -> None:
    code, out, err = run_program("pwcet", drifting, "--unit", "ns")
    assert code == 1
    assert "error[PW710]: condition 'drift': no probabilistic WCET" in err
    assert "REFUSED" in out
    assert "pWCET      ns" not in out
    code, out, err = run_program("pwcet", drifting, "--unit", "ns", "--force")
    assert (code, err) == (0, "")
    assert "FORCED" in out
    assert "bound nothing" in out
    assert "pWCET      ns" in out
    data = json.loads(run_program("pwcet", drifting, "--unit", "ns", "--format", "json")[1])
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    (row,) = data["conditions"]
    assert row["guarantee"] is None
    assert row["curve"] == []
    assert all(fit["levels"] == [] for fit in row["fits"])


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag


def test_page_and_pictures(times: Path, tmp_path: Path) -> None:
    page, folder = tmp_path / "page.html", tmp_path / "pictures"
    code, _, _ = run_program(
        "pwcet",
        *(times, "--format", "html", "-o", page, "--picture", folder / "p.svg"),
        *("--static-bound", "A=5000"),
    )
    assert code == 0
    text = page.read_text()
    parser = _Page()
    parser.feed(text)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    assert text.count("<svg") == 11
    assert "&lt;B$_&gt;" in text
    assert "<B$_>" not in text
    assert "static bound" in text
    names = {path.name for path in folder.iterdir()}
    kinds = ("series", "extremogram", "exceedance", "quantiles", "stability")
    assert names == {
        "p-conditions.svg",
        *(f"p-{label}-{kind}.svg" for label in ("A", "_B___") for kind in kinds),
    }
    for path in folder.iterdir():
        ElementTree.parse(path)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("cycles\n" + "5\n" * 1200, "PW706", "all 1,200 times are 5"),
        ("cycles\n" + "5\n6\n" * 400, "PW705", "800 times are too few"),
        (
            "cycles\n" + "5\n" * 300 + "9\n" * 900,
            "PW706",
            "largest times are all, or half of them, 9",
        ),
    ],
)
def test_times_without_a_tail(tmp_path: Path, text: str, code: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    exit_code, _, err = run_program("pwcet", path)
    assert exit_code == 1
    assert f"error[{code}]" in err
    assert said in err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--probability", 2), 2),
        (("--level", 0), 2),
        (("--runs", 10), 2),
        (("--estimator", "pwm-bootstrap"), 2),
        (("--static-bound", "A"), 2),
        (("--static-bound", "C=4"), 2),
        (("--extremes", "pot:1e9"), 1),
        (("--extremes", "bm:100"), 1),
        (("--extremes", "bm:0"), 2),
        (("--save", "x.csv"), 2),
        (("--format", "html", "-o", "/nowhere/page.html"), 2),
    ],
)
def test_options_that_cannot_be(times: Path, arguments: tuple[object, ...], code: int) -> None:
    found, _, err = run_program("pwcet", times, *arguments)
    assert found == code
    assert "Traceback" not in err
    assert "PW901" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--estimator", "pwm"),
        ("--estimator", "mle-bootstrap", "--confidence", 0.8),
        ("--shape", "free", "--extremes", "bm"),
        ("--extremes", "pot:2200", "--lags", 3, "--probability", 0.5, "--probability", 1e-9),
    ],
)
def test_other_ways_to_fit(times: Path, arguments: tuple[object, ...]) -> None:
    code, out, err = run_program("pwcet", times, *arguments)
    assert "PW901" not in err
    assert code == 0 or "PW710" in err
    assert "condition  A" in out
    assert "nan" not in out


def test_runs_are_drawn_and_bounded(tmp_path: Path) -> None:
    saved = tmp_path / "runs.csv"
    drawing = (
        *(ROOT / "samples/saxpy.ptx", "--launch", ROOT / "samples/launches/saxpy.toml"),
        *("--runs", 1000, "--inputs", 2, "--policy", "random", "--jitter", 40, "--sms", 2),
        *("--resident-blocks", 1, "--launch-gap", 30, "--format", "json", "--force"),
    )
    code, out, err = run_program("pwcet", *drawing, "--save", saved)
    assert code == 0
    assert "error" not in err
    data = json.loads(out)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    (row,) = data["conditions"]
    assert row["runs"] == 1000
    assert row["drawn"]["sms"] == 2
    assert row["static_bound"]["guarantee"] == "safe-bound"
    assert row["high_water_mark"] <= row["static_bound"]["cycles"]
    lines = saved.read_text().splitlines()
    assert lines[0] == "condition,cycles"
    assert max(float(line.split(",")[1]) for line in lines[1:]) == row["high_water_mark"]


def test_runs_that_would_be_the_same_are_refused() -> None:
    launch = ROOT / "samples/launches/saxpy.toml"
    few = run_program(
        "pwcet", ROOT / "samples/saxpy.ptx", "--launch", launch, "--runs", 10, "--policy", "lrr"
    )
    assert few[0] == 1
    assert "PW705" in few[2]
    missing = run_program("pwcet", ROOT / "samples/saxpy.ptx", "--launch", launch)
    assert missing[0] == 2
