"""Precision of two revisions compared: bounds, refusals, bounds of loops, classes of branches.

    python benchmarks/precision.py --write new.json
    python benchmarks/precision.py --write old.json --package ../older-checkout
    python benchmarks/precision.py old.json new.json

The first form analyses all kernels of samples, suite, corpus and the hybrid experiment: each in a
block of 64 threads (or of those that it requires) without a grid and without parameters, and in a
grid of 4 blocks with all integers of 32 bits given as 1000; those with a launch file also as that
says, first without and then with the stated answers about loops and branches. ``--package`` names
another checkout whose analysis is taken for the same kernels, ``--only samples/`` or the like takes
some of them: all take ten minutes of a processor. A launch is named by file, kernel and kind. The
last form prints what is better
and what is worse; exit code 1 if something is worse.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import signal
import statistics
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "benchmarks" / "kernels" / "suite"
HYBRID = ROOT / "benchmarks" / "kernels" / "hybrid"
FOLDERS = (ROOT / "samples", SUITE, HYBRID, ROOT / "tests" / "corpus" / "ptx")
THREADS = "64"
GRID = "4"
SCALAR = 1000
MOST_SECONDS = 10
"""Of the processor, for a launch: one that takes longer is recorded as such."""
STRENGTH = ("UNKNOWN", "DIVERGENT", "WARP", "BLOCK")
"""Classes of branches, those that say least first."""
SHORT = 0.005
"""Seconds below which an analysis is not compared: the clock's grain would be."""
INTERNAL = "PW901"


class TooLong(BaseException):
    """The analysis of a launch took too long. No Exception: those are refusals of a kernel."""


@dataclass(frozen=True)
class Launched:
    """A launch of a kernel; ``options`` are fields of ptxwcet.opened.request.Request."""

    name: str
    options: dict[str, Any]


@dataclass
class Row:
    """What came of a launch. ``loops``: iterations by label; ``branches``: class and decision.

    ``bound`` is in cycles, None for a refusal with ``code``. ``seconds`` are those of the processor
    for the bound without reading the file. ``note`` says why there is nothing else.
    """

    bound: int | None = None
    code: str | None = None
    loops: dict[str, int] = field(default_factory=dict)
    branches: dict[str, tuple[str, bool | None]] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""


def launches() -> Iterator[Launched]:
    """All launches of all kernels, file by file."""
    answers = tomllib.loads((SUITE / "answers.toml").read_text(encoding="utf-8"))["answer"]
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.ptx")):
            text = path.read_text(encoding="utf-8")
            for kernel in re.findall(r"\.entry\s+([\w$]+)", text):
                yield from general(path, kernel, text)
            for file in sorted((folder / "launches").glob("*.toml")):
                kernel = tomllib.loads(file.read_text(encoding="utf-8"))["kernel"]
                if re.search(rf"\.entry\s+{re.escape(kernel)}\b", text):
                    loops = [f"{a['loop']}={a['bound']}" for a in answers if a["kernel"] == kernel]
                    yield from given(path, kernel, file, loops if folder == SUITE else [])


def general(path: Path, kernel: str, text: str) -> Iterator[Launched]:
    """The launches that every kernel has."""
    name = f"{path.relative_to(ROOT)}:{kernel}"
    header = re.search(rf"\.entry\s+{re.escape(kernel)}\b([^{{;]*)", text)
    assert header is not None
    options: dict[str, Any] = {"path": str(path), "kernels": (kernel,), "unknown_at_worst": True}
    if ".reqntid" not in header[1]:
        options["block"] = THREADS
    yield Launched(f"{name} open", options)
    integers = re.findall(r"\.param\s+\.[usb]32\s+([\w$]+)\s*(?=[,)])", header[1])
    parameters = tuple(f"{one}={SCALAR}" for one in integers)
    yield Launched(f"{name} scalars", {**options, "grid": GRID, "parameters": parameters})


def given(path: Path, kernel: str, file: Path, loops: list[str]) -> Iterator[Launched]:
    """The launches of a launch file: alone, and with answers if there are some."""
    name = f"{path.relative_to(ROOT)}:{kernel} {file.stem}"
    options: dict[str, Any] = {"path": str(path), "launch_file": str(file)}
    options["unknown_at_worst"] = True
    yield Launched(name, options)
    facts = file.parents[1] / "facts" / file.name
    if loops or facts.exists():
        stated = str(facts) if facts.exists() else None
        answered = {**options, "loop_bounds": tuple(loops), "facts_file": stated}
        yield Launched(f"{name} answered", answered)


_DOORS = {
    "parsing": "ptxwcet.opened.opening",
    "asking": "ptxwcet.opened.request",
    "bounding": "ptxwcet.commands.bound.study",
    "flow": "ptxwcet.commands.cfg.study",
    "reporting": "ptxwcet.commands.bound.build",
}
_OLDER_DOORS = {
    "parsing": "ptxwcet.studies.opening",
    "asking": "ptxwcet.studies.request",
    "bounding": "ptxwcet.studies.block_bound",
    "flow": "ptxwcet.studies.flow_notes",
    "reporting": "ptxwcet.report.build",
}


class Analysis:
    """The analysis of the package that is first on the path of modules."""

    def __init__(self) -> None:
        # here: the package may be another checkout's, of which only these names are relied on; one
        # before the features had folders has its front doors elsewhere
        names = _DOORS if importlib.util.find_spec("ptxwcet.opened") else _OLDER_DOORS
        self.doors = {what: importlib.import_module(name) for what, name in names.items()}
        from ptxwcet.support.diagnostics import PtxwcetError

        self.build_report, self.refusal = self.doors["reporting"].build_report, PtxwcetError
        parsers = ("read_program", "parse_module")
        self.parser = next(one for one in parsers if hasattr(self.doors["parsing"], one))
        self.parse = vars(self.doors["parsing"])[self.parser]
        self.reading = 0.0

    def _parsed(self, *arguments: Any, **options: Any) -> Any:
        begin = time.process_time()
        try:
            return self.parse(*arguments, **options)
        finally:
            self.reading += time.process_time() - begin

    def row(self, launched: Launched) -> Row:
        """The row of a launch. Cost: the analysis twice, once for the branches."""
        row = Row()
        signal.signal(signal.SIGVTALRM, _too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        try:
            self._fill(row, self.doors["asking"].Request(**launched.options))
        except self.refusal as error:
            row.code = error.diagnostics[0].code
        except TooLong:
            row = Row(note=f"more than {MOST_SECONDS} s")
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return row

    def _fill(self, row: Row, request: Any) -> None:
        self.reading, begin = 0.0, time.process_time()
        with mock.patch.object(self.doors["parsing"], self.parser, self._parsed):
            answer = self.doors["bounding"].bound_file(request)
        row.seconds = round(time.process_time() - begin - self.reading, 4)
        (kernel,) = asdict(self.build_report(answer))["kernels"]
        if kernel["status"] == "bounded":
            row.bound = kernel["bound_cycles"]
            for loop in kernel["loops"]:
                row.loops[loop["block"]] = loop["iterations"]
        else:
            row.code = kernel["diagnostics"][0]["code"]
        (flow,) = self.doors["flow"].describe_flow(request)
        if isinstance(flow, self.doors["flow"].DescribedKernel):
            for block, one in flow.notes.branches.items():
                row.branches[flow.cfg.name(flow.cfg.blocks[block].id)] = (
                    one.kind.name,
                    one.is_decided,
                )


def _too_long(*_: object) -> None:
    raise TooLong


def write(target: Path, part: str) -> None:
    """Analyses the launches with ``part`` in their names and writes a row for each."""
    analysis = Analysis()
    rows = {one.name: asdict(analysis.row(one)) for one in launches() if part in one.name}
    target.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    bounded = sum(row["bound"] is not None for row in rows.values())
    print(f"{len(rows)} launches, {bounded} bounded")
    for name, row in rows.items():
        if row["note"]:
            print(f"not analysed: {name}: {row['note']}")


@dataclass
class Changes:
    """How a launch differs, in words."""

    better: list[str] = field(default_factory=list)
    worse: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)

    def number(self, what: str, old: int, new: int) -> None:
        """A bound: less is better."""
        if old != new:
            (self.better if new < old else self.worse).append(f"{what} {old:,} -> {new:,}")


def compared(old: Row, new: Row) -> Changes:
    """What is better and what is worse for one launch. A loop without a row is never entered."""
    found = Changes()
    if old.bound is not None and new.bound is not None:
        found.number("bound", old.bound, new.bound)
        for loop in sorted({*old.loops, *new.loops}):
            found.number(f"loop {loop}", old.loops.get(loop, 0), new.loops.get(loop, 0))
    elif old.bound is not None:
        found.worse.append(f"bound {old.bound:,} -> {new.code}")
    elif new.bound is not None:
        found.better.append(f"{old.code} -> bound {new.bound:,}")
    elif old.code != new.code:
        text = f"{old.code} -> {new.code}"
        (found.worse if new.code == INTERNAL else found.other).append(text)
    for branch in sorted({*old.branches} & {*new.branches}):
        was, now = old.branches[branch], new.branches[branch]
        if STRENGTH.index(was[0]) != STRENGTH.index(now[0]):
            stronger = STRENGTH.index(now[0]) > STRENGTH.index(was[0])
            place = found.better if stronger else found.worse
            place.append(f"branch {branch} {was[0].lower()} -> {now[0].lower()}")
        if was[1] is not None and now[1] is not None and was[1] != now[1]:
            text = f"branch {branch} {'decided' if now[1] else 'no longer decided'}"
            (found.better if now[1] else found.worse).append(text)
    return found


def read(path: Path) -> dict[str, Row]:
    """The rows that were written, by launch."""
    return {
        name: Row(**{**row, "branches": {b: (k, d) for b, (k, d) in row["branches"].items()}})
        for name, row in json.loads(path.read_text(encoding="utf-8")).items()
    }


def compare(old: dict[str, Row], new: dict[str, Row]) -> bool:
    """Prints the comparison; whether something is worse."""
    counts = Counter[str]()
    lines: dict[str, list[str]] = {"worse": [], "better": [], "refused otherwise": []}
    for name in (name for name in old if name in new):
        if old[name].note or new[name].note:
            counts["not compared"] += 1
            continue
        found = compared(old[name], new[name])
        verdict = "worse" if found.worse else "better" if found.better else "equal"
        counts[verdict] += 1
        for key, texts in zip(lines, (found.worse, found.better, found.other), strict=True):
            if texts:
                lines[key].append(f"{key}: {name}: {'; '.join(texts)}")
    for texts in lines.values():
        print(*texts, sep="\n", end="\n" if texts else "")
    for name in sorted({*old} ^ {*new}):
        print(f"only in the {'old' if name in old else 'new'} file: {name}")
    for side, rows in (("old", old), ("new", new)):
        for name, row in rows.items():
            if row.note:
                print(f"not analysed in the {side} revision: {name}: {row.note}")
    keys = ("equal", "better", "worse", "not compared")
    shown = ", ".join(f"{counts[key]} {key}" for key in keys)
    print(f"{counts.total()} launches: {shown}; {ratio(old, new)}")
    return bool(counts["worse"])


def ratio(old: dict[str, Row], new: dict[str, Row]) -> str:
    """The time of the analysis, new over old."""
    pairs = [
        (old[name].seconds, new[name].seconds)
        for name in old
        if name in new and min(old[name].seconds, new[name].seconds) > SHORT
    ]
    if not pairs:
        return "no times to compare"
    was, now = (sum(side) for side in zip(*pairs, strict=True))
    median = statistics.median(after / before for before, after in pairs)
    return (
        f"time of the analysis new / old: median {median:.3f} over {len(pairs)} launches, "
        f"sum {was:.1f} s -> {now:.1f} s"
    )


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="old and new rows")
    parser.add_argument("--write", type=Path, metavar="FILE", help="analyse, and write the rows")
    parser.add_argument("--package", type=Path, default=ROOT, help="checkout to be analysed with")
    parser.add_argument("--only", default="", metavar="PART", help="launches named like this")
    options = parser.parse_args()
    if options.write is not None:
        sys.path.insert(0, str(options.package.resolve()))
        write(options.write, options.only)
        return 0
    if len(options.files) != 2:
        parser.error("two files are compared")
    return int(compare(*map(read, options.files)))


if __name__ == "__main__":
    sys.exit(main())
