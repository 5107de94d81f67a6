"""``ptxwcet validate attack``: the same bytes however it runs, and what is broken is seen."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import jsonschema
import pytest
from pages import code_blocks
from places import DOCS, ROOT, SAMPLES
from programs import run_program

import ptxwcet.sweeps.attacks as package
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.sweeps.attack_run import AttackPlan, run_attacks
from ptxwcet.sweeps.attacks import ATTACKS, Attack, Seen, read_attack_file
from ptxwcet.sweeps.engine import embedded_cluster

BROKEN = ROOT / "tests" / "support" / "broken_attacks.py"
BENCHMARKS = ROOT / "benchmarks" / "attacks.py"
QUICK = """
from collections import Counter
from ptxwcet.sweeps.attacks import Attack, Seen, Witness

def quick(seed):
    seen = Seen(1, 2, counts=Counter(odd=seed % 2))
    seen.control("false", 1, 1)
    if seed % 10 == 0:
        seen.violations = 1
        title = f"{seed} is a multiple of ten"
        seen.witnesses.append(Witness("ten", title, ("line",), "// ptx\\n"))
    return seen

def slow(seed):
    import time
    time.sleep(0.1)
    return Seen(1, seed)

ATTACKS = (Attack("quick", "nothing", quick), Attack("slow", "nothing", slow))
"""


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    file = tmp_path / "quick.py"
    file.write_text(QUICK)
    return file


def contents(folder: Path) -> dict[str, bytes]:
    """The summary and the witnesses, by name."""
    names = [folder / "attack.json", *sorted((folder / "witnesses").glob("*"))]
    return {path.name: path.read_bytes() for path in names if path.exists()}


def test_the_summary_does_not_depend_on_workers(tmp_path: Path, quick: Path) -> None:
    words = ("validate", "attack", "quick", quick, "--cases", 25, "--seed", 6)
    for workers in (1, 3):
        ended = run_program(*words, "--workers", workers, "-o", tmp_path / str(workers))
        assert ended.code == 1, ended.err
        assert "quick         seeds 6 to 30: 25 cases, 50 runs, 3 violations" in ended.out
        assert "error[PW830]: attack quick, seed 10: ten: 10 is a multiple of ten" in ended.err
    first = contents(tmp_path / "1")
    assert first == contents(tmp_path / "3")
    seeds = (10, 20, 30)
    expected = {f"quick-{seed}.{kind}" for seed in seeds for kind in ("ptx", "txt")}
    assert set(first) == expected | {"attack.json"}
    report = json.loads(first["attack.json"])
    jsonschema.Draft202012Validator(schema_of("attack")).validate(report)
    (row,) = report["attacks"]
    assert (row["units"], row["cases"], row["runs"], row["violations"]) == (25, 25, 50, 3)
    assert row["counts"] == {"odd": 12}
    assert row["controls"] == [{"what": "false", "checked": 25, "exceeded": 25}]
    assert [witness["seed"] for witness in report["witnesses"]] == [*seeds]
    again = b"again: ptxwcet validate attack quick quick.py --seed 20 --cases 1\n"
    assert first["quick-20.txt"] == b"ten: 20 is a multiple of ten\nline\n" + again


def test_attacks_of_the_package_in_turn(tmp_path: Path) -> None:
    words = ("validate", "attack", "grids", "blocks", "--cases", 1)
    for workers in (1, 2):
        ended = run_program(*words, "--workers", workers, "-o", tmp_path / str(workers))
        assert ended.code == 0, ended.err
        assert "grids         seeds 1 to 1: 100 cases, 600 runs, 0 violations" in ended.out
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_killed_run_goes_on(tmp_path: Path, quick: Path) -> None:
    words = [
        "validate",
        "attack",
        "slow",
        str(quick),
        "--cases",
        "30",
        "--workers",
        "2",
    ]
    command = [sys.executable, "-m", "ptxwcet", *words, "-o", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = tmp_path / "killed" / "answers.sqlite-wal"
    for _ in range(3000):
        time.sleep(0.02)
        if store.exists() and store.stat().st_size > 60_000:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "attack.json").exists()
    refused = run_program(*words, "-o", tmp_path / "killed")
    assert (refused.code, "error[PW832]" in refused.err) == (2, True)
    assert run_program(*words, "-o", tmp_path / "killed", "--resume").code == 0
    assert run_program(*words, "-o", tmp_path / "whole").code == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    # more seeds, and none of them anew
    os.rename(quick, tmp_path / "elsewhere.py")
    (tmp_path / "quick.py").write_text(QUICK)
    more = [*words, "-o", tmp_path / "killed", "--resume"]
    more[more.index("30")] = "32"
    assert "seeds 1 to 32: 32 cases, 528 runs" in run_program(*more).out


def test_seconds_end_a_run(tmp_path: Path, quick: Path) -> None:
    words = ("validate", "attack", "slow", quick, "--workers", 2, "-o", tmp_path / "o")
    assert run_program(*words, "--timeout", 0.5).code == 0
    row = json.loads((tmp_path / "o/attack.json").read_text())["attacks"][0]
    assert row["units"] == row["cases"] >= 1
    assert row["runs"] == sum(range(1, row["units"] + 1))  # seeds without a gap


def test_what_was_found_beyond_a_gap_is_told(tmp_path: Path, quick: Path) -> None:
    """A run that is stopped leaves gaps; one that goes on for no time still tells all."""
    words = (
        "validate",
        "attack",
        "quick",
        quick,
        "-o",
        tmp_path / "o",
        "--workers",
        1,
    )
    assert run_program(*words, "--cases", 25).code == 1
    file = read_attack_file(quick)
    plan = AttackPlan(file.attacks[:1], file)
    with sqlite3.connect(tmp_path / "o" / "answers.sqlite") as store:
        for seed in (3, 9, 11):
            key = plan.key(plan.attacks[0], seed)
            gone = store.execute("DELETE FROM answers WHERE key = ?", (key,))
            assert gone.rowcount == 1
    ended = run_program(*words, "--timeout", 0, "--resume")
    assert "seeds 1 to 25: 25 cases, 50 runs, 2 violations" in ended.out
    assert ended.code == 1


def test_a_changed_source_is_imported_anew(tmp_path: Path) -> None:
    """Also where the processes of an earlier run are still there, as on a worker of a cluster."""
    (tmp_path / "oracle.py").write_text("CASES = 1\n")
    file = tmp_path / "attacks_of_oracle.py"
    file.write_text(
        "import sys\nsys.path.insert(0, __file__.rpartition('/')[0])\n"
        "from oracle import CASES\n"
        "from ptxwcet.sweeps.attacks import Attack, Seen\n"
        "ATTACKS = (Attack('counted', 'nothing', lambda seed: Seen(CASES)),)\n"
        "SOURCES = ('oracle.py',)\n"
    )
    cases = []
    with embedded_cluster(1) as cluster:
        for number in (1, 22):
            (tmp_path / "oracle.py").write_text(f"CASES = {number}\n")
            read = read_attack_file(file)
            plan = AttackPlan(read.attacks, read, 1, 1)
            report = run_attacks(plan, tmp_path / "o", lambda: nullcontext(cluster), resume=True)
            cases.append(report.attacks[0].cases)
    assert cases == [1, 22]


def test_what_ends_a_unit(tmp_path: Path) -> None:
    """A crash and an exception are findings; what is stopped from outside is not finished."""
    words = ("validate", "attack", "broken-ends", BROKEN, "--cases", 4, "--seed", 4)
    ended = run_program(*words, "-o", tmp_path / "o")
    assert ended.code == 1
    report = json.loads((tmp_path / "o/attack.json").read_text())
    assert report["violations"] == 2
    kinds = [(row["seed"], row["kind"]) for row in report["witnesses"]]
    assert kinds == [(5, "died"), (7, "internal error")]
    assert [row["seed"] for row in report["unfinished"]] == [6]
    assert "not finished: broken-ends, seed 6" in ended.out
    assert "ZeroDivisionError" in (tmp_path / "o/witnesses/broken-ends-7.txt").read_text()


def test_a_broken_bound_is_seen_and_shrunk(tmp_path: Path) -> None:
    words = (
        "validate",
        "attack",
        "broken-blocks",
        "broken-accesses",
        BROKEN,
        "--cases",
        1,
    )
    ended = run_program(*words, "--workers", 2, "-o", tmp_path / "o")
    assert ended.code == 1
    assert "error[PW830]: attack broken-blocks, seed 1: SAFE >= " in ended.err
    text = (tmp_path / "o/witnesses/broken-blocks-1.txt").read_text()
    assert "1 warps" in text
    whole = len((tmp_path / "o/witnesses/broken-accesses-1.ptx").read_text().splitlines())
    assert whole < 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "error[PW831]: no attack is called 'nothing': there are blocks, grids"),
        (("absent.py",), "absent.py"),
        (("--timeout", "1", "--cases", "1"), "leave one out"),
        (("--cases", "0"), "0 is not in the range"),
        (("--seed", "-1"), "-1 is not in the range"),
    ],
)
def test_bad_usage(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    ended = run_program("validate", "attack", *words, "-o", tmp_path / "o")
    assert ended.code == 2
    assert message in ended.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "it defines no ATTACKS"),
        ("ATTACKS = [1]", "ATTACKS holds a int"),
        ("a letter", "SyntaxError"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        (QUICK + "SOURCES = ('absent',)", "its source 'absent' is not there"),
        (QUICK + "SOURCES = 'x'", "SOURCES is a tuple"),
        (QUICK + "SOURCE = ('x',)", "it defines SOURCE: did you mean SOURCES?"),
        (QUICK.replace('"quick", ', '"blocks", '), "two attacks are called 'blocks'"),
        ("\x00", "null bytes"),
    ],
)
def test_a_file_that_is_no_file_of_attacks(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "f.py"
    file.write_text(text)
    ended = run_program("validate", "attack", file, "-o", tmp_path / "o")
    assert ended.code == 2
    assert f"error[PW831]: cannot use attacks of 'f.py': {why}" in ended.err or why in ended.err


def test_a_folder_of_something_else(tmp_path: Path, quick: Path) -> None:
    words = ("validate", "attack", "quick", quick, "--cases", 1)
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "thesis.tex").write_text("")
    ended = run_program(*words, "-o", tmp_path / "o")
    assert (ended.code, "holds other files" in ended.err) == (2, True)
    assert run_program(*words, "-o", tmp_path / "p").code == 0
    ended = run_program(*words, "--seed", 2, "-o", tmp_path / "p", "--resume")
    assert (ended.code, "other attacks or seeds" in ended.err) == (2, True)


def test_a_changed_file_or_source_is_attacked_again(tmp_path: Path, quick: Path) -> None:
    (tmp_path / "oracle").mkdir()
    (tmp_path / "oracle" / "o.py").write_text("x = 1\n")
    quick.write_text(QUICK + "SOURCES = ('oracle',)\n")
    before = read_attack_file(quick).sha256
    assert read_attack_file(quick).sha256 == before
    (tmp_path / "oracle" / "o.py").write_text("x = 2\n")
    after = read_attack_file(quick).sha256
    quick.write_text(QUICK.replace("multiple", "product"))
    assert len({before, after, read_attack_file(quick).sha256}) == 3


def test_units_follow_from_their_seeds() -> None:
    for attack in (*ATTACKS[1:], *read_attack_file(BENCHMARKS).attacks[1:2]):
        assert attack.unit(3) == attack.unit(3) != attack.unit(4)


def test_what_ran_before_changes_nothing() -> None:
    """Random kernels have small budgets, and what comes after them has not."""
    from ptxwcet import pipeline
    from ptxwcet.flow import flow_graph
    from ptxwcet.flow.paths import advice
    from ptxwcet.flow.walk import state

    attacks = {attack.name: attack for attack in read_attack_file(BENCHMARKS).attacks}

    def budgets() -> tuple[object, ...]:
        own = state._MOST_VISITS, flow_graph.MOST_WALK_STEPS, flow_graph.MOST_SEARCH_STEPS
        return (*own, pipeline._MOST_TRIAL_VISITS, advice.advised)

    before = budgets()
    first = attacks["kernels"].unit(12)
    assert budgets() == before
    attacks["accesses"].unit(0)
    assert attacks["kernels"].unit(12) == first


@pytest.mark.parametrize("name", ["grids", "paths", "kernels", "grid-machine", "servers"])
def test_each_attack_sees_what_is_broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "KERNELS", 1)
    broken = {attack.name: attack for attack in read_attack_file(BROKEN).attacks}
    seen = broken[f"broken-{name}"].unit(1)
    assert seen.violations >= 1
    assert seen.witnesses
    assert all(witness.title and witness.lines for witness in seen.witnesses)


def test_false_statements_are_contradicted() -> None:
    """Without that an attack would prove nothing."""
    attacks = {attack.name: attack for attack in read_attack_file(BENCHMARKS).attacks}
    for name, least in (("grid-machine", 2), ("servers", 3)):
        seen = attacks[name].unit(1)
        assert seen.violations == 0
        assert sum(contradicted > 0 for _, contradicted in seen.controls.values()) >= least


def test_the_file_of_the_page_works(tmp_path: Path) -> None:
    page = (DOCS / "guide" / "attack.md").read_text(encoding="utf-8")
    (tmp_path / "own.py").write_text(page.split("```python\n")[1].split("```")[0])
    (tmp_path / "kernels").mkdir()
    oracle = f"""
def random_kernel(seed):
    return {str(SAMPLES / "vector_add.ptx")!r}, {{"block": 256, "params": {{"n": 1000}}}}

def longest_run(text, launch, seed):
    return 600 + 100 * seed
"""
    (tmp_path / "my_oracle.py").write_text(oracle)
    sys.path.insert(0, str(tmp_path))
    try:
        (attack,) = read_attack_file(tmp_path / "own.py").attacks
        fine, wrong = attack.unit(0), attack.unit(1)
    finally:
        sys.path.remove(str(tmp_path))
    assert (fine.violations, wrong.violations) == (0, 1)
    assert wrong.witnesses[0].title == "700 cycles, the bound is 662"
    assert fine.controls == {"half of the bound": (1, 1)}


def test_numbers_add_up() -> None:
    total = Seen()
    for _ in range(2):
        one = Seen(1, 2, 3, package.Counter(a=4))
        one.control("c", 5, 1)
        total.add(one)
    assert (total.cases, total.runs, total.violations) == (2, 4, 6)
    assert (total.counts, total.controls) == ({"a": 8}, {"c": (10, 2)})


def test_names_are_apart() -> None:
    own: tuple[Attack, ...] = read_attack_file(BENCHMARKS).attacks
    names = [attack.name for attack in (*ATTACKS, *own)]
    assert len(names) == len(set(names)) == 8


def test_the_attack_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the file of attacks on docs/guide/attack.md, with an oracle that exceeds the bound."""
    (shown,) = (
        block.text
        for block in code_blocks((DOCS / "guide" / "attack.md").read_text(encoding="utf-8"))
        if block.language == "python"
    )
    (tmp_path / "kernels").mkdir()
    (tmp_path / "mine.py").write_text(shown)
    (tmp_path / "my_oracle.py").write_text(
        f"text = open({str(SAMPLES / 'saxpy.ptx')!r}).read()\n"
        "launch = {'block': 64, 'grid': 4, 'params': {'saxpy_param_0': 100}}\n"
        "def random_kernel(seed): return text, launch\n"
        "def longest_run(text, launch, seed): return 10**6\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_oracle", raising=False)
    (attack,) = read_attack_file(tmp_path / "mine.py").attacks
    seen = attack.unit(100)
    assert (seen.cases, seen.violations, len(seen.witnesses)) == (1, 1, 1)
    assert seen.witnesses[0].title.startswith("1000000 cycles, the bound is ")
