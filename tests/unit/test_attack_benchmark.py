"""``benchmarks/attack.py``: chunks add up, a stopped run goes on, the page says what was found."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from places import ROOT

from ptxwcet.validate.attack import attack
from ptxwcet.validate.generator import FAMILIES

BENCHMARK = ROOT / "benchmarks" / "attack.py"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("attack_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CHUNK", 24)
    return module


def run(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    arguments = ["attack.py", "--workloads", "60", "--seed", "4", "--out", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    bench.main()


def test_counts_and_page(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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
    page = out.with_suffix(".md").read_text()
    assert "60 random blocks (seed 4)" in page
    assert "Violations of what must hold: 0." in page
    assert not out.with_suffix(".parts").exists()


def test_a_stopped_run_goes_on(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Chunks that are done are not done again, unless the sources have changed."""
    out = tmp_path / "attack.json"
    right = bench.run_chunk
    ran: list[tuple[int, int, int]] = []

    def stopping(job: tuple[int, int, int]) -> object:
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(job)
        return right(job)

    monkeypatch.setattr(bench, "run_chunk", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(bench, monkeypatch, out)
    ran[:] = ran[:1]
    run(bench, monkeypatch, out)
    assert ran[1:] == [(4, 48, 60)]
    assert sum(row["cases"] for row in json.loads(out.read_text())["families"]) == 60


def test_chunks_of_other_sources_are_not_used(bench: ModuleType, tmp_path: Path) -> None:
    job = (4, 0, 24)
    bench.name(tmp_path, job).write_text(json.dumps({"sources": "old", "families": {}}))
    assert bench.read(tmp_path, job, "new") is None
    assert bench.read(tmp_path, job, "old") == {"families": {}}
