"""The ISA coverage table: what of PTX is parsed, timed on each machine, executed.

    python benchmarks/isa_coverage.py --out docs/isa-coverage.md             writes the page
    python benchmarks/isa_coverage.py --out docs/isa-coverage.md --check     fails if it is false
    benchmarks/coverage_kernels/build.sh FOLDER                              compiles much PTX
    python benchmarks/isa_coverage.py --count FOLDER --what "..." \\
        --json docs/experiments/isa-corpus.json

Every opcode of the opcode table is in one row, with those that fare like it. Whether it is timed or
executed is tried with every instruction of the committed corpus, of the samples and of the cases
that ptxas accepts: yes, in part (some forms), no, or, for opcodes that occur nowhere, what the
tables say. ``--count``
counts a corpus that is too large to be committed; the page shows its counts as they were then.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptxwcet.emulator.nodes import compile_nodes
from ptxwcet.emulator.registers import Context
from ptxwcet.emulator.semantics import SEMANTICS
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.flow.graph.dominance import compute_postdominators
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.ir.instruction_set import OPCODES
from ptxwcet.ir.kernel import Instruction, Kernel, Module
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine, OpTiming
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.cost import cost_instruction

ROOT = Path(__file__).parents[1]
MACHINES = ("orin-ecrts2025", "jetson-agx-orin", "h100", "h200")
LARGE = ROOT / "docs" / "experiments" / "isa-corpus.json"
ON_MBARRIERS = ("mbarrier.", "cp.async.bulk", "cp.async.mbarrier.")
CONTROL = ("bra", "brx.idx", "call", "ret", "exit", "trap", "brkpt")


class Everything(dict[str, int]):
    """Symbols of which each has an address."""

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> int:
        return 4096


@dataclass
class Row:
    """Instructions of an opcode: all, executed, timed by machine."""

    count: int = 0
    executed: int = 0
    timed: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)


@dataclass
class Coverage:
    """A corpus: rows by opcode, kernels, and those covered whole."""

    rows: dict[str, Row] = field(default_factory=dict)
    files: int = 0
    kernels: int = 0
    executed_kernels: int = 0
    timed_kernels: Counter[str] = field(default_factory=Counter)
    unknown: int = 0

    def total(self) -> Row:
        """The sum of all rows."""
        result = Row()
        for row in self.rows.values():
            result.count += row.count
            result.executed += row.executed
            result.timed += row.timed
            result.missing += row.missing
        return result


def refused_places(kernel: Kernel, module: Module) -> dict[int, str]:
    """The instructions of a kernel that the emulator refuses, by their place in the text."""
    whole = inline_calls(kernel, module)
    if not whole.instructions:
        return {}
    cfg, meetings = build_cfg(whole, with_aborts=True), compute_postdominators(build_cfg(whole))
    try:
        compile_nodes(Context(whole, Everything(), 32), cfg, meetings)
    except PtxwcetError as error:
        return {d.span.start: d.message for d in error.diagnostics if d.span is not None}
    return {}


def is_timed(instruction: Instruction, machine: Machine) -> bool:
    """Returns whether a machine has a time for an instruction.

    The cost of an operation on an mbarrier depends on the path; here the row of its class decides.
    """
    cost = cost_instruction(instruction, machine, block_threads=128)
    opcode, op_class = instruction.opcode, instruction.op_class
    if isinstance(cost, Diagnostic) and opcode is not None and op_class is not None:
        row = machine.timings[op_class]
        return opcode.name.startswith(ON_MBARRIERS) and isinstance(row, OpTiming)
    return not isinstance(cost, Diagnostic)


def measure(modules: Iterator[Module]) -> Coverage:
    """The coverage of a corpus. Cost: that of compiling every kernel for the emulator."""
    machines = {name: load_machine(name) for name in MACHINES}
    found = Coverage()
    known: dict[tuple[str, str], bool] = {}
    for module in modules:
        found.files += 1
        for kernel in (*module.kernels, *module.functions):
            refused = refused_places(kernel, module)
            whole_timed = dict.fromkeys(MACHINES, True)
            for one in kernel.instructions:
                if one.opcode is None:
                    found.unknown += 1
                    continue
                row = found.rows.setdefault(one.opcode.name, Row())
                row.count += 1
                if one.start in refused:
                    row.missing[refused[one.start]] += 1
                else:
                    row.executed += 1
                for name, machine in machines.items():
                    key = (f"{one.mnemonic} {len(one.operands)} {one.guard is None}", name)
                    if key not in known or one.control is ControlEffect.BARRIER:
                        known[key] = is_timed(one, machine)
                    timed = known[key]
                    row.timed[name] += timed
                    whole_timed[name] &= timed
            if kernel.is_entry:
                found.kernels += 1
                found.executed_kernels += not refused
                found.timed_kernels.update(n for n, whole in whole_timed.items() if whole)
    return found


def committed() -> Iterator[Module]:
    """The corpus and the samples of the repository, and the cases that ptxas accepts."""
    folders = (ROOT / "tests" / "corpus" / "ptx", ROOT / "samples")
    for folder in folders:
        for path in sorted(folder.rglob("*.ptx")):
            yield parse_module(read_source(str(path)))


def cases() -> Iterator[Module]:
    """The accepted cases of the parser's test data."""
    data = json.loads((ROOT / "tests" / "data" / "ptx-cases.json").read_text())
    for case in data:
        if case["accepted"]:
            yield parse_module(SourceFile("case.ptx", case["source"]))


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def verdict(part: int, whole: int) -> str:
    return "yes" if part == whole else "no" if part == 0 else "in part"


def cell(row: Row | None, machine: str) -> str:
    if row is None or not row.count:
        return "-"
    return verdict(row.timed[machine], row.count)


def executed_cell(row: Row | None, name: str) -> str:
    if row is not None and row.count:
        return verdict(row.executed, row.count)
    barrier = name.split(".")[-1] in ("sync", "arrive", "red") and "cluster" not in name
    family = barrier and name.startswith("bar")
    return "yes" if name in SEMANTICS or name in CONTROL or family else "no"


def page(
    small: Coverage, forms: Coverage, large: dict[str, Any] | None, opcodes: Iterable[str]
) -> str:
    """The page as Markdown."""
    lines = [
        "# Instructions",
        "",
        "An opcode is *parsed* if the opcode table has a row for it, *timed* on a machine if the",
        "machine file has a time for it, and *executed* if the emulator accepts it. The page",
        "docs/machines.md lists the features of all machines. This page is written by",
        "`python benchmarks/isa_coverage.py --out docs/isa-coverage.md`, and a test checks it.",
        "",
        "## Shares of two corpora",
        "",
        "| corpus | files | kernels | instructions | parsed | executed | "
        + " | ".join(f"timed on {name}" for name in MACHINES)
        + " | kernels executed whole | kernels timed whole on orin-ecrts2025 |",
        "|---|" + "---:|" * (7 + len(MACHINES)),
    ]

    def shares(label: str, c: Coverage) -> str:
        t = c.total()
        timed = " | ".join(share(t.timed[name], t.count) for name in MACHINES)
        parsed = share(t.count, t.count + c.unknown)
        return (
            f"| {label} | {c.files:,} | {c.kernels:,} | {t.count:,} | {parsed} | "
            f"{share(t.executed, t.count)} | {timed} | {share(c.executed_kernels, c.kernels)} | "
            f"{share(c.timed_kernels['orin-ecrts2025'], c.kernels)} |"
        )

    lines.append(shares("committed (tests/corpus, samples)", small))
    if large is not None:
        whole = large["instructions"]
        counted = large["timed"]  # not of machines that were added since the corpus was counted
        timed = " | ".join(
            share(counted[name], whole) if name in counted else "-" for name in MACHINES
        )
        lines.append(
            f"| large: {large['what']} | {large['files']:,} | {large['kernels']:,} | "
            f"{whole:,} | {share(whole, whole + large['unknown'])} | "
            f"{share(large['executed'], whole)} | {timed} | "
            f"{share(large['executed_kernels'], large['kernels'])} | "
            f"{share(large['timed_kernels'].get('orin-ecrts2025', 0), large['kernels'])} |"
        )
    lines += [
        "",
        "## Opcodes",
        "",
        "`yes`: all forms that occur in the corpus; `in part`: some of them; `no`: none, so a",
        "kernel with it is refused (PW402). `-`: the opcode does not occur. The other idealised",
        "machines are like `orin-ecrts2025`.",
        "",
    ]
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(opcodes):
        row = small.rows.get(name) or forms.rows.get(name)
        verdicts = (executed_cell(row, name), *(cell(row, machine) for machine in MACHINES))
        alike.setdefault(verdicts, []).append(name)
    columns: dict[tuple[str, ...], list[str]] = {}  # machines that time the same share a column
    for place, machine in enumerate(MACHINES, 1):
        columns.setdefault(tuple(verdicts[place] for verdicts in alike), []).append(machine)
    timed_on = " | ".join(f"timed on {', '.join(machines)}" for machines in columns.values())
    lines += [f"| executed | {timed_on} | opcodes |", "|---|" + "---|" * (len(columns) + 1)]
    places = [MACHINES.index(machines[0]) + 1 for machines in columns.values()]
    for verdicts, names in sorted(alike.items(), key=lambda row: -len(row[1])):
        cells = " | ".join(verdicts[place] for place in (0, *places))
        lines.append(f"| {cells} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join([*lines, ""])


def summary(what: str, c: Coverage) -> dict[str, Any]:
    """A corpus as plain numbers."""
    t = c.total()
    return {
        "what": what,
        "files": c.files,
        "kernels": c.kernels,
        "instructions": t.count,
        "unknown": c.unknown,
        "executed": t.executed,
        "timed": dict(t.timed),
        "executed_kernels": c.executed_kernels,
        "timed_kernels": dict(c.timed_kernels),
        "missing": dict(t.missing.most_common(40)),
        "opcodes": {name: row.count for name, row in sorted(c.rows.items())},
    }


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--count", type=Path)
    parser.add_argument("--what", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.count is not None:
        files = sorted(options.count.rglob("*.ptx"))
        found = measure(parse_module(read_source(str(path))) for path in files)
        options.json.write_text(json.dumps(summary(options.what, found), indent=1) + "\n")
        return 0
    large = json.loads(LARGE.read_text()) if LARGE.exists() else None
    opcodes: Iterable[str] = OPCODES
    if options.check:  # opcodes that are new since the page was written may be missing
        written = options.out.read_text(encoding="utf-8")
        opcodes = OPCODES.keys() & set(re.findall(r"`([^`]*)`", written))
    text = page(measure(committed()), measure(cases()), large, opcodes)
    if options.check:
        same = written == text
        print("up to date" if same else f"{options.out} is out of date: make it anew")
        return int(not same)
    options.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
