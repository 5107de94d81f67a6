"""How many small mistakes the fast set of the tests finds.

    python benchmarks/mutate_fast_set.py --mutations 40 --seed 1 --out fast-set.md

Puts one mistake at a time (``source_mutations.py``) into a module of the package, in a copy of the
tree, and runs ``pytest -m "fast and not thorough" -x``. First a kind of mistake is drawn, then a
place for it: kinds count alike, and within a kind each place does. A mistake is *found* if the
tests fail, cannot be collected, or take longer than ``--limit`` seconds. Some that are not
found change nothing that can be observed; they are counted as not found all the same.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from source_mutations import Mutation, is_other_program, mutations_of

ROOT = Path(__file__).resolve().parents[1]
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info")
WHICH = "fast and not thorough"
TESTS = (sys.executable, "-m", "pytest", "-m", WHICH, "-x", "-q", "-p", "no:cacheprovider")
BY_LIMIT = "the time limit"


@dataclass(frozen=True)
class Tried:
    """A mistake, and by what it was found (None: by nothing)."""

    module: str
    mutation: Mutation
    change: str
    found_by: str | None
    seconds: float

    @property
    def room(self) -> str:
        """The package of the module."""
        folders = self.module.split("/")[1:-1]
        return folders[0] if folders else "(top)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of one run of the set")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--within", type=float, default=float("inf"), help="minutes; then stop")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    end = time.monotonic() + 60 * asked.within
    with tempfile.TemporaryDirectory() as folder:
        trees = [Path(folder) / f"tree{number}" for number in range(asked.jobs)]
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
        check_unchanged(trees, asked.limit)
        tried = try_all(trees, draw(asked.seed, asked.mutations), asked.limit, end)
    page = summary(tried, asked)
    print(page)
    if asked.out:
        asked.out.write_text(page, encoding="utf-8")


def draw(seed: int, count: int, folder: str = "ptxwcet") -> Iterator[tuple[str, Mutation]]:
    """Modules, with a mistake for each."""
    by_kind: dict[str, list[tuple[str, Mutation]]] = defaultdict(list)
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for mutation in mutations_of(path.read_bytes()):
            by_kind[mutation.kind].append((name, mutation))
    chance = random.Random(seed)
    while count:
        name, mutation = chance.choice(by_kind[chance.choice(sorted(by_kind))])
        if is_other_program((ROOT / name).read_bytes(), mutation):
            count -= 1
            yield name, mutation


def check_unchanged(trees: list[Path], limit: float) -> None:
    """The set passes in a copy without a mistake, and it is the copy that is tested."""
    where = "import ptxwcet; print(ptxwcet.__file__)"
    for tree in trees:
        asked = subprocess.run(
            [sys.executable, "-c", where], cwd=tree, env=environment(tree), stdout=subprocess.PIPE
        )
        assert Path(asked.stdout.decode().strip()).is_relative_to(tree)
    with ThreadPoolExecutor(len(trees)) as pool:
        failed = list(pool.map(lambda tree: run_tests(tree, limit), trees))
    if any(failed):
        sys.exit(f"without a mistake, the fast set fails: {failed}")


def try_all(
    trees: list[Path], drawn: Iterator[tuple[str, Mutation]], limit: float, end: float
) -> list[Tried]:
    free: Queue[Path] = Queue()
    for tree in trees:
        free.put(tree)

    def try_next(one: tuple[str, Mutation]) -> Tried | None:
        if time.monotonic() > end:
            return None
        tree = free.get()
        try:
            tried = try_one(tree, *one, limit)
        finally:
            free.put(tree)
        print(f"{tried.found_by or 'NOT FOUND'}: {where(tried)}", file=sys.stderr, flush=True)
        return tried

    with ThreadPoolExecutor(len(trees)) as pool:
        return [one for one in pool.map(try_next, drawn) if one is not None]


def try_one(
    tree: Path, module: str, mutation: Mutation, limit: float, tests: tuple[str, ...] = TESTS
) -> Tried:
    path = tree / module
    source, stamp = path.read_bytes(), path.stat()
    path.write_bytes(mutation.apply(source))
    begin = time.monotonic()
    try:
        found = run_tests(tree, limit, tests)
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    spent = time.monotonic() - begin
    return Tried(module, mutation, mutation.describe(source), found, spent)


def run_tests(tree: Path, limit: float, tests: tuple[str, ...] = TESTS) -> str | None:
    """The first test that fails."""
    with tempfile.TemporaryDirectory() as compiled:
        # compiled code is kept by the text of its own module alone: each run has its own,
        # unless the caller knows that no such module is changed
        variables = {"NUMBA_CACHE_DIR": compiled, **environment(tree)}
        with subprocess.Popen(
            tests,
            cwd=tree,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as run:
            try:
                out, _ = run.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)  # with the programs that tests start
                return BY_LIMIT
    if run.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", out.decode(errors="replace"), re.MULTILINE)
    return named.group(1) if named else f"exit code {run.returncode}"


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'benchmarks'}"}


def where(tried: Tried) -> str:
    return f"{tried.module}:{tried.mutation.line}: {tried.change}"


def summary(tried: list[Tried], asked: argparse.Namespace) -> str:
    """The page of the experiment."""
    found = sum(one.found_by is not None for one in tried)
    times = sorted(one.seconds for one in tried if one.found_by not in (None, BY_LIMIT))
    median = times[len(times) // 2] if times else 0.0
    share = 100 * found / max(1, len(tried))
    command = f"python benchmarks/mutate_fast_set.py --mutations {asked.mutations}"
    lines = [
        "# What the fast set finds",
        "",
        f"`{command} --seed {asked.seed}`",
        "puts small mistakes into modules of the package, one at a time, and runs",
        f"`pytest -m '{WHICH}' -x`.",
        "",
        f"**{found} of {len(tried)} are found ({share:.0f} %)**, half of those that a test finds "
        f"within {median:.0f} s.",
        "",
        *table("package", [(one.room, one) for one in tried]),
        *table("kind", [(one.mutation.kind, one) for one in tried]),
        "## Not found",
        "",
        *(f"* `{where(one)}`" for one in tried if one.found_by is None),
        "",
        "## Found",
        "",
        *(f"* `{where(one)}`\n  by {one.found_by}" for one in tried if one.found_by is not None),
    ]
    return "\n".join(lines) + "\n"


def table(title: str, rows: list[tuple[str, Tried]]) -> list[str]:
    counts: dict[str, list[bool]] = defaultdict(list)
    for name, one in rows:
        counts[name].append(one.found_by is not None)
    body = [f"| {name} | {sum(all_)} | {len(all_)} |" for name, all_ in sorted(counts.items())]
    return [f"| {title} | found | mutations |", "|---|---:|---:|", *body, ""]


if __name__ == "__main__":
    main()
