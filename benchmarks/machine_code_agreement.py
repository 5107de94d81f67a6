"""The same launches bounded from PTX and from the machine code that ptxas makes of it.

    python benchmarks/machine_code_agreement.py [--arch 86] [--only dense ...] [-o FILE]

Kernels are those of the suite and of the samples, compiled by the nvcc on the PATH (nvdisasm is
needed, too). Of each: both bounds of the launch, loops by line of CUDA and the counts of their
bodies, the classes of branches, and what accesses take at most by line. Loops are alike if both
have the same lines with the same counts; ptxas unrolls and peels, so that they need not be.
Prints a table, and writes all of it as JSON.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ptxwcet

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
        return {"code": one.code, "why": one.message, "seconds": time.process_time() - begin}
    return {
        "cycles": report["launch"]["cycles"],
        "loops": sorted(
            [str(row["source_line"]).rpartition("/")[2], row["iterations"]]
            for row in report["loops"]
        ),
        "seconds": time.process_time() - begin,
    }


def accesses(path: Path, source: Path, name: str, launch: Path) -> dict[str, list[int]]:
    """By line of CUDA: the most sectors and passes that an access of it takes."""
    found: Counter[tuple[str, str]] = Counter()
    answer = ptxwcet.memory(
        str(path), kernel=name, launch=str(launch), cuda_source=str(source)
    ).to_dict()
    (kernel,) = answer["kernels"]
    for row in kernel["accesses"]:
        for kind in ("sectors", "passes"):
            line = str(row["place"]).rpartition("/")[2]
            found[line, kind] = max(found[line, kind], row["most"][kind])
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
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for source, name, launch in kernels(options.only):
            code = compiled(source, options.arch, Path(folder))
            with contextlib.redirect_stderr(io.StringIO()):
                ptx = bounded(source.with_suffix(".ptx"), source, name, launch, options.machine)
                sass = bounded(code, source, name, launch, options.machine)
                for one, path in ((ptx, source.with_suffix(".ptx")), (sass, code)):
                    if "cycles" in one:
                        one["accesses"] = accesses(path, source, name, launch)
            rows.append({"kernel": name, "launch": launch.stem, "ptx": ptx, "sass": sass})
            print(row_text(rows[-1]), flush=True)
    both = [row for row in rows if "cycles" in row["ptx"]]
    reached = [row for row in both if "cycles" in row["sass"]]
    ratios = sorted(row["sass"]["cycles"] / row["ptx"]["cycles"] for row in reached)
    alike = sum(row["sass"]["loops"] == row["ptx"]["loops"] for row in reached)
    summary = {
        "arch": f"sm_{options.arch}",
        "machine": options.machine,
        "launches": len(rows),
        "bounded_from_ptx": len(both),
        "bounded_from_both": len(reached),
        "ratio_least_median_largest": [round(ratios[n], 3) for n in (0, len(ratios) // 2, -1)],
        "loops_alike": alike,
        "accesses_alike": sum(row["sass"]["accesses"] == row["ptx"]["accesses"] for row in reached),
        "only_from_machine_code": sum(
            "cycles" in row["sass"] and "cycles" not in row["ptx"] for row in rows
        ),
    }
    print(json.dumps(summary, indent=1))
    if options.output is not None:
        options.output.write_text(json.dumps({**summary, "rows": rows}, indent=1) + "\n")
    return 0


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
