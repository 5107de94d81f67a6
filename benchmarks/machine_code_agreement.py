"""The same launches bounded from PTX and from the machine code that ptxas makes of it.

    python benchmarks/machine_code_agreement.py [--arch 86] [--only dense ...] [-o FILE]
    python benchmarks/machine_code_agreement.py --join PART ... [-o FILE]

Kernels are those of the suite and of the samples, compiled by the nvcc on the PATH (nvdisasm is
needed, too). Of each: both bounds of the launch, loops by line of CUDA and the counts of their
bodies, the classes of branches by line, and what accesses take at most by line. Loops are alike if
both have the same lines with the same counts; ptxas unrolls and peels, so that they need not be.
Prints tables, and writes all of it as JSON. A run may be made in parts, which are joined.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ptxwcet
from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.flow.paths.branch_kinds import BranchClass, classify_branches
from ptxwcet.report.access_rows import access_rows
from ptxwcet.report.source_lines import SourceLines
from ptxwcet.timing.launch_costs import graph_of, kernel_accesses

ROOT = Path(__file__).parent.parent
SUITE = ROOT / "benchmarks" / "kernels" / "suite"
SAMPLES = ROOT / "samples"


def kernels(only: list[str]) -> Iterator[tuple[Path, str, Path]]:
    """The CUDA source, the name and the launch file of each kernel."""
    for folder in (SAMPLES, SUITE):
        sources = sorted(folder.glob("*.cu"))
        texts = {source: source.with_suffix(".ptx").read_text() for source in sources}
        for launch in sorted((folder / "launches").glob("*.toml")):
            name = tomllib.loads(launch.read_text()).get("kernel", launch.stem)
            for source, text in texts.items():
                if f".entry {name}(" in text and (not only or source.stem in only):
                    yield source, name, launch


def bounded(path: Path, source: Path, name: str, launch: Path, machine: str) -> dict[str, Any]:
    """The bound of a launch and what it is made of, or why there is none."""
    begin = time.process_time()
    facts = launch.parent.parent / "facts" / f"{name}.toml"
    given: dict[str, Any] = {"facts": str(facts)} if facts.exists() else {}
    kept: dict[str, Any] = {
        "kernel": name,
        "launch": str(launch),
        "cuda_source": str(source),
        "machine": machine,
    }
    try:
        answer = ptxwcet.bound(str(path), **kept, **given)
        report = answer.to_dict()
    except ptxwcet.PtxwcetError as error:
        one = error.diagnostics[0]
        return {"code": one.code, "why": one.message}
    analysis = answer.analysis
    return {
        "cycles": report["launch"]["cycles"],
        "loops": sorted(
            [str(row["source_line"]).rpartition("/")[2], row["iterations"]]
            for row in report["loops"]
        ),
        "branches": branches(analysis),
        "accesses": accesses(analysis, SourceLines(str(path), str(source))),
        "seconds": round(time.process_time() - begin, 2),
    }


_CLASSES = list(BranchClass)
"""From what all agree on to what is not known."""


def branches(analysis: KernelAnalysis) -> dict[str, str]:
    """By line of CUDA: who agrees at its branches, of several those of which least is known."""
    found: dict[str, int] = {}
    kernel, cfg = analysis.flow.kernel, analysis.flow.cfg
    paths = [piece.paths for piece in analysis.pieces]
    for one in classify_branches(graph_of(kernel, analysis.launch), analysis.facts, paths):
        branch = kernel.instructions[cfg.blocks[one.block].end - 1]
        if branch.location is not None:
            place = f"{Path(branch.location.file).name}:{branch.location.line}"
            found[place] = max(found.get(place, 0), _CLASSES.index(one.kind))
    return {line: _CLASSES[number].name for line, number in sorted(found.items())}


def accesses(analysis: KernelAnalysis, lines: SourceLines) -> dict[str, list[int]]:
    """By line of CUDA: the most sectors and passes that an access of it takes."""
    found: Counter[tuple[str, str]] = Counter()
    kernel = analysis.flow.kernel
    for row in access_rows(kernel, kernel_accesses(kernel, analysis.launch), lines, {}, None):
        line = str(row.place).rpartition("/")[2]
        for kind in ("sectors", "passes"):
            found[line, kind] = max(found[line, kind], getattr(row.most, kind))
    return {
        line: [found[line, "sectors"], found[line, "passes"]]
        for line in sorted({line for (line, _), most in found.items() if most})
    }


def compiled(source: Path, arch: str, folder: Path) -> Path:
    """The machine code of a file."""
    made = folder / f"{source.stem}.cubin"
    if not made.exists():
        command = ["nvcc", "-cubin", f"-arch=sm_{arch}", "-O3", "-lineinfo", source.name]
        subprocess.run([*command, "-o", str(made)], check=True, cwd=source.parent)
    return made


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="86")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--machine", default="orin-ecrts2025-16sm")
    parser.add_argument("--join", nargs="*", type=Path, default=[])
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.join:
        parts = [json.loads(one.read_text()) for one in options.join]
        (of_what,) = {(one["arch"], one["machine"]) for one in parts}
        rows = sorted((row for one in parts for row in one["rows"]), key=lambda row: row["launch"])
    else:
        of_what = f"sm_{options.arch}", options.machine
        rows = list(compared(options.only, options.arch, options.machine))
    summary = {"arch": of_what[0], "machine": of_what[1], **summarised(rows)}
    print(json.dumps(summary, indent=1))
    if options.output is not None:
        options.output.write_text(json.dumps({**summary, "rows": rows}, indent=1) + "\n")
    if summary["bounded_from_both"]:
        print(tables(summary, rows))
    return 0


def compared(only: list[str], arch: str, machine: str) -> Iterator[dict[str, Any]]:
    """A row for each launch, printed as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        for source, name, launch in kernels(only):
            code = compiled(source, arch, Path(folder))
            with contextlib.redirect_stderr(io.StringIO()):
                found = {
                    kind: bounded(path, source, name, launch, machine)
                    for kind, path in (("ptx", source.with_suffix(".ptx")), ("sass", code))
                }
            row = {"kernel": name, "launch": launch.stem, "source": source.stem, **found}
            print(row_text(row), flush=True)
            yield row


def summarised(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What all rows come to."""
    both = [row for row in rows if "cycles" in row["ptx"]]
    reached = [row for row in both if "cycles" in row["sass"]]
    ratios = sorted(ratio(row) for row in reached)
    lines = Counter(how for row in reached for how in like_lines(row, "branches", _less_known))
    access = Counter(how for row in reached for how in like_lines(row, "accesses", _more_sectors))
    return {
        "launches": len(rows),
        "bounded_from_ptx": len(both),
        "bounded_from_both": len(reached),
        "only_from_machine_code": sum(
            "cycles" in row["sass"] and "cycles" not in row["ptx"] for row in rows
        ),
        "ratio_least_median_largest": [round(ratios[n], 2) for n in (0, len(ratios) // 2, -1)]
        if ratios
        else [],
        "loops": dict(Counter(map(like_loops, reached)).most_common()),
        "lines_with_branches": dict(lines.most_common()),
        "lines_with_accesses": dict(access.most_common()),
    }


def ratio(row: dict[str, Any]) -> float:
    """The bound from machine code over that from PTX."""
    return float(row["sass"]["cycles"] / row["ptx"]["cycles"])


def like_loops(row: dict[str, Any]) -> str:
    """How the loops of both compare: by line, the counts that any has there at most."""
    if row["ptx"]["loops"] == row["sass"]["loops"]:
        return "alike"
    most: dict[str, dict[str, int]] = {"ptx": {}, "sass": {}}
    for kind, own in most.items():
        for line, count in row[kind]["loops"]:
            own[line] = max(own.get(line, 0), count)
    fewer = all(count <= most["ptx"].get(line, 0) for line, count in most["sass"].items())
    return "unrolled or peeled" if fewer else "others"


def like_lines(row: dict[str, Any], what: str, is_more: Callable[[Any, Any], bool]) -> list[str]:
    """How machine code compares at each line of CUDA at which PTX has something, too."""
    ptx, sass = (row[kind][what] for kind in ("ptx", "sass"))
    found = []
    for line in ptx.keys() & sass.keys():
        more = is_more(sass[line], ptx[line])
        same = sass[line] == ptx[line]
        found.append("alike" if same else "more in machine code" if more else "less")
    return found


def _less_known(one: str, other: str) -> bool:
    names = [each.name for each in _CLASSES]
    return names.index(one) > names.index(other)


def _more_sectors(one: list[int], other: list[int]) -> bool:
    return any(mine > yours for mine, yours in zip(one, other, strict=True))


_MOST_ROWS = 10


def tables(summary: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Returns the tables as Markdown."""
    both = [row for row in rows if "cycles" in row["ptx"]]
    reached = sorted((row for row in both if "cycles" in row["sass"]), key=ratio)
    percent = 100 * len(reached) // len(both)
    loops, lines = summary["loops"], summary["lines_with_branches"]
    access = summary["lines_with_accesses"]
    least, middle, largest = summary["ratio_least_median_largest"]
    text = [f"On `{summary['machine']}`, {summary['arch']}.", ""]
    text += ["| | launches |", "|---|--:|"]
    text += [f"| all | {len(rows)} |", f"| bounded from PTX | {len(both)} |"]
    text += [f"| of these from machine code, too | {len(reached)} ({percent} %) |"]
    text += [f"| bounded from machine code alone | {summary['only_from_machine_code']} |"]
    text += [f"| loops {name} | {count} of {len(reached)} |" for name, count in loops.items()]
    text += [
        "",
        f"The bound from machine code is {least} to {largest} times that from PTX, {middle}",
    ]
    text[-1] += " in the middle."
    text += ["", "| lines of CUDA at which both have | alike | more from machine code | less |"]
    text += ["|---|--:|--:|--:|"]
    for name, found in (("branches: who agrees", lines), ("accesses: sectors, passes", access)):
        numbers = [found.get(how, 0) for how in ("alike", "more in machine code", "less")]
        text += [f"| {name} | {' | '.join(map(str, numbers))} |"]
    text += ["", "**What only PTX reaches**:", "", "| launch | why machine code does not |"]
    text += ["|---|---|"]
    for row in both:
        if "cycles" not in row["sass"]:
            text.append(f"| {row['launch']} | {row['sass']['code']}: {first(row['sass']['why'])} |")
    text += ["", "| lowest and highest | PTX | machine code | ratio |", "|---|--:|--:|--:|"]
    for row in (*reached[: _MOST_ROWS // 2], *reached[-_MOST_ROWS:]):
        cycles = [f"{row[kind]['cycles']:,}" for kind in ("ptx", "sass")]
        text.append(f"| {row['launch']} | {cycles[0]} | {cycles[1]} | {ratio(row):.2f} |")
    return "\n".join(text)


def first(why: str) -> str:
    """What a message says before the registers that it names."""
    return why.partition(":")[0]


def row_text(row: dict[str, Any]) -> str:
    """A line of the table."""
    ptx, sass = (row[kind].get("cycles") or row[kind].get("code") for kind in ("ptx", "sass"))
    loops = ""
    if "loops" in row["ptx"] and "loops" in row["sass"]:
        loops = "alike" if row["ptx"]["loops"] == row["sass"]["loops"] else "other loops"
    return (
        f"{row['launch']:26} {ptx!s:>10} {sass!s:>10}  {loops or row['sass'].get('why', '')[:60]}"
    )


if __name__ == "__main__":
    sys.exit(main())
