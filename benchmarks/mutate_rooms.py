"""Tries small mistakes in the packages where a wrong line makes a bound too small.

    python benchmarks/mutate_rooms.py reach --kept reach.json
    python benchmarks/mutate_rooms.py try --kept reach.json --out mutants.json

Ten mistakes (``source_mutations.py``) are drawn for each package. ``reach`` puts a probe at each of
their lines and runs the tests once: that tells which tests reach which line. A line outside of
functions counts as reached by whatever calls a function of its module. ``try`` puts one mistake at
a time into a copy of the tree and runs the tests that reach its line until one fails: of every test
function the fastest case first, three minutes at most. ``--added`` tries again the mistakes that no
test found, with test files that were written since, and keeps the other rows of ``--out``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate, islice
from pathlib import Path

import pytest
from mutate_fast_set import BY_LIMIT, NOT_COPIED, ROOT, draw, run_tests, try_one
from source_mutations import Mutation

FOLDERS = ("flow/values", "flow/shapes", "flow/certificates", "memory", "bounds", "sass")
SEED, EACH = 47, 10
LIMIT = 180.0
LIMIT_OF_TEST = 45.0
"""Seconds of one test: with a mistake it never ends, and without one it is too slow to be run."""
LEFT_OUT = re.compile(
    "arch/|browser|sweep|pwcet|hybrid|start|tutorial|readme|site|ptxas|notebook|disclosed|selftest"
    "|makespan|test_library|emulator|trace|report_page|release|extras|plugins|silicon|command_table"
)
LOG = "LINES_REACHED"
"""The variable of the environment that names the log of the probes."""

_seen: set[tuple[int, bytes]] = set()


def note_line(number: int) -> None:
    """Notes that the current test reaches the line of a mistake: what probes call."""
    test = os.environ._data.get(b"PYTEST_CURRENT_TEST", b"")  # type: ignore[attr-defined]
    if (number, test) not in _seen and LOG in os.environ:
        _seen.add((number, test))
        with Path(os.environ[LOG]).open("ab", 0) as log:
            log.write(b"%d\t%s\n" % (number, test.rpartition(b" (")[0]))


class TooLong(BaseException):
    """A test that takes longer than it may; no test catches this."""


def _too_long(*_: object) -> None:
    raise TooLong


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Ends a test that takes too long (this module is a plugin of the runs)."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_OF_TEST)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps how long each test takes that passes."""
    if LOG in os.environ and report.when == "call" and report.passed:
        with Path(os.environ[LOG] + ".seconds").open("a") as log:
            log.write(f"{report.nodeid}\t{report.duration}\n")


def drawn() -> list[tuple[str, Mutation]]:
    """Modules, with a mistake for each: in each package, kinds of mistakes count alike.

    Early returns are left out: most are of constructors, and whatever runs finds them.
    """
    rows: list[tuple[str, Mutation]] = []
    for folder in FOLDERS:
        mistakes = draw(SEED, 4 * EACH, f"ptxwcet/{folder}")
        rows += islice((row for row in mistakes if row[1].kind != "early return"), EACH)
    return rows


def with_probes(source: bytes, lines: dict[int, int]) -> str:
    """A module with a probe before the statement of each line (by number of the mistake)."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    places = list[tuple[int, int, ast.stmt, list[ast.stmt]]]()
    for node in (inner for function in functions for inner in ast.walk(function)):
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for statement in block if isinstance(block, list) else ():
                size = (statement.end_lineno or 0) - statement.lineno
                places.append((size, -len(places), statement, block))
    for number, line in lines.items():
        (probe,) = ast.parse(f"note_line({number})").body
        around = [row for row in places if row[2].lineno <= line <= row[2].lineno + row[0]]
        for _, _, statement, block in [min(around)] if around else ():
            at = next(at for at, other in enumerate(block) if other is statement)
            block.insert(at, probe)
        for function in () if around else functions:
            function.body.insert(0, probe)
    future = next(at for at, node in enumerate(tree.body) if isinstance(node, ast.ImportFrom))
    tree.body.insert(future + 1, ast.parse("from mutate_rooms import note_line").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def command(tree: Path, tests: list[str], *options: str) -> tuple[str, ...]:
    """The run of some tests, which a file names."""
    listed = tree / "tests-to-run.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    plugins = ("-p", "no:cacheprovider", "-p", "mutate_rooms")
    return (sys.executable, "-m", "pytest", "-q", *plugins, *options, f"@{listed}")


def reach(tree: Path, kept: Path, limit: float) -> None:
    """Runs the tests with probes; keeps which of them reach which line, and their seconds."""
    by_module: dict[str, dict[int, int]] = defaultdict(dict)
    for number, (module, mutation) in enumerate(drawn()):
        by_module[module][number] = mutation.line
    for module, lines in by_module.items():
        (tree / module).write_text(with_probes((ROOT / module).read_bytes(), lines))
    files = [path.relative_to(tree).as_posix() for path in sorted(tree.glob("tests/*/test_*.py"))]
    files = [name for name in files if not LEFT_OUT.search(name)]
    files.sort(key=lambda name: "= pytest.mark.fast" not in (tree / name).read_text())
    os.environ[LOG] = str(tree / "reached.tsv")
    run_tests(tree, limit, command(tree, files))
    seconds = {name: float(spent) for name, spent in _rows(f"{os.environ[LOG]}.seconds")}
    tests: dict[str, dict[str, float]] = defaultdict(dict)
    for number_text, name in _rows(os.environ[LOG]):
        if name in seconds:
            tests[number_text][name] = seconds[name]
    kept.write_text(json.dumps(tests, indent=1, sort_keys=True))


def _rows(log: str) -> list[list[str]]:
    return [line.split("\t") for line in Path(log).read_text().splitlines()]


def in_order(tests: dict[str, float]) -> list[str]:
    """Tests as far as they may fit into the limit, of every function the fastest case first."""
    ranks: Counter[str] = Counter()
    rows: list[tuple[int, float, str]] = []
    for duration, name in sorted((duration, name) for name, duration in tests.items()):
        function = name.partition("[")[0]
        rows.append((ranks[function], duration, name))
        ranks[function] += 1
    rows.sort()
    spent = accumulate(duration for _, duration, _ in rows)
    return [name for (_, _, name), total in zip(rows, spent, strict=True) if total <= 2 * LIMIT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("reach", "try"))
    parser.add_argument("--kept", type=Path, required=True, help="which tests reach which line")
    parser.add_argument("--minutes", type=float, default=90.0, help="of the run with probes")
    parser.add_argument("--out", type=Path, help="the results, as JSON")
    parser.add_argument("--added", nargs="*", help="test files, for what is not yet found")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
        os.environ["NUMBA_CACHE_DIR"] = str(Path(folder) / "compiled")  # none of these modules is
        if asked.step == "reach":
            reach(tree, asked.kept, 60 * asked.minutes)
            return
        reaching = json.loads(asked.kept.read_text())
        before = json.loads(asked.out.read_text()) if asked.out.exists() else []
        rows = {row["mistake"]: row for row in before}
        for number, (module, mutation) in enumerate(drawn()):
            place = f"{module}:{mutation.line}: {mutation.describe((ROOT / module).read_bytes())}"
            row = rows.setdefault(place, {"mistake": place, "kind": mutation.kind})
            if row.get("found by") or ("seconds" in row and not asked.added):
                continue
            tests = reaching.get(str(number), {})
            row |= {"tests": len(tests), "found by": None, "seconds": 0.0}
            if chosen := asked.added or in_order(tests):
                run = command(tree, chosen, "-x")
                tried = try_one(tree, module, mutation, LIMIT, run)
                row["found by"] = None if tried.found_by == BY_LIMIT else tried.found_by
                row["seconds"] = round(tried.seconds, 1)
            print(f"{row['seconds']:6.1f} s, {row['found by'] or 'NOT FOUND'}: {place}", flush=True)
            asked.out.write_text(json.dumps([*rows.values()], indent=1, ensure_ascii=False) + "\n")
    print(f"{sum(bool(row['found by']) for row in rows.values())} of {len(rows)} are found")


if __name__ == "__main__":
    main()
