"""``ptxwcet validate tool``: reproducible summary, exit codes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from programs import run_program

import ptxwcet
from ptxwcet.bounds.gub import bound_gub
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.validate import selftest
from ptxwcet.validate import selftest_command as command
from ptxwcet.validate.checks import Bounds
from ptxwcet.validate.generator import FAMILIES
from ptxwcet.validate.selftest import CORPUS

CASES = 3 * len(FAMILIES)


def test_json_is_complete_and_reproducible() -> None:
    code, first, _ = run_program(
        "validate", "tool", "--cases", str(CASES), "--seed", "7", "--format", "json"
    )
    _, second, _ = run_program(
        "validate", "tool", "--cases", str(CASES), "--seed", "7", "--format", "json"
    )
    assert first == second
    data: dict[str, Any] = json.loads(first)
    jsonschema.Draft202012Validator(schema_of("selftest")).validate(data)
    assert code == 0
    assert data["passed"] is True
    assert data["violations"] == 0
    assert set(data["versions"]) == {"ptxwcet", "python", "numpy", "numba"}
    assert data["known_cases"] == {known.case.name: [] for known in CORPUS}
    assert data["random_cases"] == CASES
    assert {name: row["cases"] for name, row in data["families"].items()} == {
        family.name: 3 for family in FAMILIES
    }
    for family in FAMILIES:
        row = data["families"][family.name]
        assert row["searched_exhaustively"] == (3 if family.exhaustive else 0)
        assert row["safe_over_longest_permille"]["least"] >= 1000
    assert min(data["checks"].values()) > 0


def test_machine_digests_are_those_of_the_files() -> None:
    _, out, _ = run_program("validate", "tool", "--cases", "0", "--format", "json")
    digests = json.loads(out)["sha256"]
    models = sorted((Path(ptxwcet.__file__).parent / "machine" / "models").glob("*.toml"))
    assert len(models) >= 4
    for path in models:
        assert digests[f"machine {path.stem}"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_text() -> None:
    code, out, err = run_program("validate", "tool", "--cases", "1")
    assert (code, err) == (0, "")
    assert "violations: 0" in out
    assert out.rstrip().endswith("passed")
    for known in CORPUS:
        assert known.case.name in out


@pytest.mark.every(2)
@pytest.mark.parametrize("nothing", [("--timeout", "0"), ("--cases", "0")])
def test_without_a_random_case_nothing_has_passed(nothing: tuple[str, str]) -> None:
    code, out, _ = run_program("validate", "tool", *nothing)
    assert code == 1
    assert "violations: 0" in out
    assert out.splitlines()[-1].startswith("FAILED: no random case was run")
    code, out, _ = run_program("validate", "tool", *nothing, "--format", "json")
    assert (code, json.loads(out)["passed"]) == (1, False)


def test_compiling_does_not_count_in_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cases of each family take an hour here, as if they were compiled."""
    now, cold = [0.0], [True]
    right = selftest.attack

    def slow_at_first(seed: int, indices: range, bounds: Bounds | None) -> Any:
        now[0] += 3600.0 if cold[0] else 6.0
        cold[0] = False
        return right(seed, range(indices.start, indices.start + 5), bounds)

    monkeypatch.setattr(selftest, "attack", slow_at_first)
    monkeypatch.setattr(selftest.time, "monotonic", lambda: now[0])
    code, out, _ = run_program("validate", "tool", "--timeout", "10", "--format", "json")
    assert code == 0
    assert json.loads(out)["random_cases"] == 2 * 240


def test_a_broken_bound_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = command.run_selftest

    def broken(seed: int, *, seconds: float, cases: int | None) -> selftest.SelfTest:
        return right(seed, seconds=seconds, cases=cases, bounds=Bounds(safe=bound_gub))

    monkeypatch.setattr(command, "run_selftest", broken)
    code, out, err = run_program("validate", "tool", "--cases", "1")
    assert code == 1
    assert out.rstrip().endswith("FAILED")
    assert "SAFE is 10, known is 13" in out
    assert "error[PW535]" in err


def test_usage() -> None:
    assert run_program("validate", "tool", "--cases", "-1")[0] == 2
    assert run_program("validate", "tool", "--format", "yaml")[0] == 2
