"""``benchmarks/attack.py``: units add up, a stopped run goes on, the page says what was found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from places import ROOT

from ptxwcet.validate.attack import attack
from ptxwcet.validate.generator import FAMILIES


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, as a module that child processes can import, too."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    sys.modules.pop("attack", None)
    import attack as module

    monkeypatch.setattr(module, "CHUNK", 24)
    return module


def run(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    arguments = ["attack.py", "--workloads", "60", "--seed", "4", "--out", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    bench.main()


def test_counts_and_page(
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "attack.json"
    run(bench, monkeypatch, out)
    summary = json.loads(out.read_text())
    assert summary["violations"] == 0
    whole, _ = attack(4, range(60))
    for family, row in zip(FAMILIES, summary["families"], strict=True):
        tally = whole[family.name]
        assert row["distribution"]["name"] == family.name
        assert row["cases"] == tally.cases >= 60 // len(FAMILIES)
        assert row["checks"] == dict(tally.checks)
        assert sum(row["safe_over_longest"]["histogram"].values()) == tally.cases
    page = capsys.readouterr().out
    assert "60 random blocks (seed 4)" in page
    assert "Violations of what must hold: 0." in page
    assert not out.with_suffix(".parts").exists()


def test_a_stopped_run_goes_on(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Units that are done are not done again, unless the sources have changed."""
    import units_on_engine as helper

    out = tmp_path / "attack.json"
    right = helper.run_campaign
    ran: list[int] = []

    def stopping(work: str, units: object, *rest: object) -> object:
        for result in right(work, units, *rest):
            if result is None:
                continue
            if len(ran) == 2:
                raise KeyboardInterrupt
            ran.append(result.number)
            yield result

    monkeypatch.setattr(helper, "run_campaign", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(bench, monkeypatch, out)
    first = list(ran)
    ran.clear()
    assert out.with_suffix(".parts").exists()
    run(bench, monkeypatch, out)
    assert sorted([*first, *ran]) == [0, 1, 2]
    assert sum(row["cases"] for row in json.loads(out.read_text())["families"]) == 60
    assert not out.with_suffix(".parts").exists()
    job = (4, 0, 24)
    before = helper._key("attack:run_chunk", job)
    monkeypatch.setattr(helper, "_sources", lambda: "other")
    assert helper._key("attack:run_chunk", job) != before
