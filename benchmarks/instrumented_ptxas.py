"""ptxas on instrumented kernels: is every one accepted, and how many registers does it cost?

Every sample and every file of the suite of kernels, for each architecture. PTX is for its .target
and what comes after, so for older architectures the .cu is compiled again. Run from the root of the
repository, with nvcc and ptxas at hand::

    PYTHONPATH=. python benchmarks/instrumented_ptxas.py

It writes tests/data/instrument/ptxas.json, which the test-suite holds against what instrumenting
gives today, and prints the table of docs/experiments/machine-code-translation.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ptxwcet.methods.instrument.rewriting import instrument_module, text_digest
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.source import SourceFile

ROOT = Path(__file__).parents[1]
FOLDERS = ("samples", "benchmarks/kernels/suite", "benchmarks/kernels/hybrid")
CORPUS = ("tests/corpus/ptx", "tests/data/reference-sim/ptx")
ARCHITECTURES = (75, 80, 86, 87, 90, 100)
VERDICTS = ROOT / "tests" / "data" / "instrument" / "ptxas.json"
TOO_OLD = {("sgemm_cp_async", 75): "cp.async needs sm_80", ("triton_add", 75): "no .cu"}
_USED = re.compile(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", re.DOTALL)
_SPILLS = re.compile(r"(\d+) bytes spill stores")


@dataclass(frozen=True, slots=True)
class Assembled:
    """What ptxas says: its first message if it refuses, registers by kernel, bytes spilled."""

    message: str
    registers: dict[str, int]
    spilled: int


def assemble(text: str, architecture: int | str, folder: Path, *options: str) -> Assembled:
    source = folder / "kernel.ptx"
    source.write_text(text, encoding="utf-8")
    command = ["ptxas", "-v", f"-arch=sm_{architecture}", *options, str(source), "-o"]
    command.append(str(folder / "cubin"))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    if done.returncode != 0:
        return Assembled(output.strip().splitlines()[0], {}, 0)
    registers = {name: int(count) for name, count in _USED.findall(output)}
    return Assembled("", registers, sum(map(int, _SPILLS.findall(output))))


def ptx_for(path: Path, architecture: int, folder: Path) -> str | None:
    """The file's PTX if the architecture can take it, else that of its .cu compiled again."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r"\.target\s+sm_(\d+)", text)
    assert found is not None
    if int(found.group(1)) <= architecture:
        return text
    source = path.with_suffix(".cu")
    if not source.exists() or (path.stem, architecture) in TOO_OLD:
        return None
    output = folder / "again.ptx"
    command = ["nvcc", "-ptx", f"-arch=sm_{architecture}", "-lineinfo", str(source), "-o"]
    subprocess.run([*command, str(output)], check=True)
    return output.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Row:
    """A file on an architecture; ``registers`` are (before, after) a kernel."""

    file: str
    architecture: int
    is_stored: bool
    sha256: str
    message: str
    registers: tuple[tuple[int, int], ...]
    spilled: tuple[int, int]


def rows(files: list[Path], folder: Path) -> Iterator[Row]:
    for path in files:
        name = str(path.relative_to(ROOT))
        for architecture in ARCHITECTURES:
            text = ptx_for(path, architecture, folder)
            if text is None:
                continue
            module = parse_module(SourceFile(name, text))
            added = instrument_module(module, module.kernels).text
            before = assemble(text, architecture, folder)
            assert not before.message, f"{name}: {before.message}"
            after = assemble(added, architecture, folder)
            pairs = [(count, after.registers.get(k, 0)) for k, count in before.registers.items()]
            stored = text == path.read_text(encoding="utf-8")
            yield Row(name, architecture, stored, text_digest(added), after.message, tuple(pairs),
                      (before.spilled, after.spilled))  # fmt: skip


def table(found: list[Row]) -> Iterator[str]:
    head = "architecture | files | kernels | refused | registers added (least, mean, most) | spills"
    yield f"| {head} |"
    yield "|---|---|---|---|---|---|"
    for architecture in ARCHITECTURES:
        own = [row for row in found if row.architecture == architecture]
        added = [after - before for row in own for before, after in row.registers]
        refused = sum(bool(row.message) for row in own)
        spills = sum(row.spilled[1] > row.spilled[0] for row in own)
        mean = sum(added) / len(added)
        yield (
            f"| sm_{architecture} | {len(own)} | {len(added)} | {refused} "
            f"| {min(added)}, {mean:.1f}, {max(added)} | {spills} |"
        )


def corpus(folder: Path) -> Iterator[str]:
    """Files of the corpus, each for its own target: what ptxas refuses, then the counts."""
    files = kernels = 0
    for path in sorted(path for part in CORPUS for path in (ROOT / part).rglob("*.ptx")):
        module = parse_module(read_source(path))
        target = module.target.removeprefix("sm_")
        added = instrument_module(module, module.kernels).text
        after = assemble(added, target, folder, "-c")  # some call what is elsewhere
        if after.message:
            yield f"{path.name}: {after.message}"
        files, kernels = files + 1, kernels + len(module.kernels)
    yield f"corpus: {files} files, {kernels} kernels, each for its own target"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args().files
    files = [path.resolve() for path in given]
    files = files or [path for part in FOLDERS for path in sorted((ROOT / part).glob("*.ptx"))]
    with tempfile.TemporaryDirectory() as folder:
        found = list(rows(files, Path(folder)))
        if not given:
            print("\n".join(corpus(Path(folder))))
    for row in found:
        if row.message:
            print(f"{row.file} sm_{row.architecture}: {row.message}")
    print("\n".join(table(found)))
    if given:
        return
    verdicts: dict[str, dict[str, object]] = {}
    for row in found:
        if row.is_stored:
            verdict = verdicts.setdefault(row.file, {"sha256": row.sha256, "accepted": []})
            accepted = verdict["accepted"]
            assert isinstance(accepted, list)
            if not row.message:
                accepted.append(f"sm_{row.architecture}")
    VERDICTS.parent.mkdir(parents=True, exist_ok=True)
    VERDICTS.write_text(json.dumps(verdicts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
