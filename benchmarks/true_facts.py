"""Facts that are true of executions: does one more ever raise a bound, or lower it below a run?

    python benchmarks/true_facts.py --kernels 2000
    python benchmarks/true_facts.py --launches --kernels 2000

Random kernels that branch, leave loops and return on data are executed on several arrays; one in
four is a function that a kernel calls twice. Facts that are true of all these runs are taken from
them (:mod:`observed_facts`) and stated one after the other, by label, by source line or as comments
in loops. After each the bound must be no larger than before, at least the bound of what was
executed, and hold the executed paths; no fact may be refused. With ``--launches`` the kernels ask
for the index of their block, too, and the size of the grid, the value of the parameter and a range
of it are facts like the others; of the launch the same is asked as of a block.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from kernel_suite import entries
from observed_facts import Observed, TooLong, labels, together

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.commands.run.study import emulated, open_launch, prepare_executed
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, Execution
from ptxwcet.flow.facts.asm_comments import find_marks
from ptxwcet.flow.facts.parameters import resolve_arrays
from ptxwcet.flow.facts.stated import FactSource, ParameterFact, Place, StatedFacts
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.launching import SaidByFile
from ptxwcet.opened.request import Request
from ptxwcet.opened.whole_launch import Wishes, with_launch_bound
from ptxwcet.pipeline import analyse_kernel, analyse_prepared, build_flow
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.validate.containment import find_departure

MACHINE = load_machine("orin-ecrts2025")
WORDS = 256
MOST = 99
"""The largest of the words."""

RUNS = 3
CONTRADICTIONS = frozenset(("PW215", "PW217", "PW219", "PW246", "PW249"))
"""What refuses facts that are not true, or of no place."""


_WORDS_OF_DATA = ParameterFact("data", f"u32 0..{MOST}", FactSource("observed"))


class Writer:
    """Writes a kernel: loops, branches, breaks and returns that data decide, or counters.

    Each line of PTX is a line of its own of the source ``k.cu``.
    """

    def __init__(self, seed: int, *, asks_for_block: bool = False) -> None:
        self.random = random.Random(seed)
        self.own = ("%own", "%cta") if asks_for_block else ("%own",)
        self.lines: list[str] = []
        self.numbers = Counter[str]()
        self.breaks: list[str] = []
        self.statements = self.random.randint(3, 14)

    def new(self, kind: str) -> str:
        self.numbers[kind] += 1
        return f"%{kind}{self.numbers[kind]}"

    def label(self) -> str:
        self.numbers["L"] += 1
        return f"L{self.numbers['L']}"

    def word(self) -> str:
        """A register with a word of the array: of the thread, or the same for all."""
        index, address, word = self.new("r"), self.new("d"), self.new("r")
        own = self.random.random() < 0.5
        step = self.random.choice((1, 5, 33))
        start = self._own() if own else self.random.randint(0, 99)
        self.lines += [
            "add.u32 %time, %time, 1;",
            f"mad.lo.u32 {index}, %time, {step}, {start};",
            f"and.b32 {index}, {index}, {WORDS - 1};",
            f"mad.wide.u32 {address}, {index}, 4, %data;",
            f"ld.global.u32 {word}, [{address}];",
        ]
        return word

    def condition(self) -> str:
        """A predicate: mostly on data, else known."""
        predicate, kind = self.new("p"), self.random.random()
        if kind < 0.7:
            test = f"setp.lt.u32 {predicate}, {self.word()}, {self.random.choice((5, 30, 60, 95))};"
        elif kind < 0.85:
            test = f"setp.gt.s32 {predicate}, %n, {self.random.randint(0, 5)};"
        else:
            most = self.random.choice((3, 17, 32))
            test = f"setp.lt.u32 {predicate}, {self._own()}, {most};"
            if "%cta" in test:
                test = f"setp.lt.u32 {predicate}, %cta, {most % 3 + 1};"
        self.lines.append(test)
        return predicate

    def _own(self) -> str:
        """A number that not all threads have: of the thread, or of its block."""
        return self.own[0] if len(self.own) == 1 else self.random.choice(self.own)

    def work(self) -> None:
        rows = ("div.rn.f32 %f, %f, %g;", "fma.rn.f32 %f, %g, %g, %f;", "mul.f32 %g, %f, %g;")
        self.lines += self.random.choices(rows, k=self.random.randint(1, 2))

    def body(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statements -= 1
            kind = self.random.random() if self.statements > 0 else 1.0
            if depth < 3 and kind < 0.3:
                self.loop(depth)
            elif depth < 4 and kind < 0.6:
                self.branch(depth)
            elif depth < 3 and kind < 0.68:
                self.switch(depth)
            elif self.breaks and kind < 0.8:
                self.lines.append(f"@{self.condition()} bra {self.breaks[-1]};")
            elif 0.97 < kind < 1.0:
                self.lines.append(f"@{self.condition()} ret;")
            else:
                self.work()

    def loop(self, depth: int) -> None:
        head, out = self.label(), self.label()
        counter, predicate = self.new("r"), self.new("p")
        limit = str(self.random.randint(1, 5))
        if self.random.random() < 0.5:  # data say how often
            limit = self.new("r")
            word = self.word()
            if len(self.own) > 1 and self.random.random() < 0.6:  # formulas do
                word = self.random.choice(("%n", "%cta", self.new("r")))
                if word.startswith("%r"):
                    self.lines.append(f"sub.u32 {word}, %n, %cta;")
            self.lines += [f"and.b32 {limit}, {word}, 3;", f"add.u32 {limit}, {limit}, 1;"]
        first = self.random.random() < 0.4
        self.lines += [f"mov.u32 {counter}, 0;", f"{head}:"]
        if first:
            self.lines.append(f"setp.ge.u32 {predicate}, {counter}, {limit};")
            self.lines.append(f"@{predicate} bra {out};")
        self.breaks.append(out)
        self.body(depth + 1)
        self.breaks.pop()
        self.lines.append(f"add.u32 {counter}, {counter}, 1;")
        if first:
            self.lines.append(f"bra {head};")
        else:
            self.lines.append(f"setp.lt.u32 {predicate}, {counter}, {limit};")
            self.lines.append(f"@{predicate} bra {head};")
        self.lines.append(f"{out}:")

    def branch(self, depth: int) -> None:
        other, out = self.label(), self.label()
        bang = self.random.choice(("", "!"))
        self.lines.append(f"@{bang}{self.condition()} bra {other};")
        self.body(depth + 1)
        if self.random.random() < 0.5:
            self.lines += [f"bra {out};", f"{other}:"]
            self.body(depth + 1)
            self.lines.append(f"{out}:")
        else:
            self.lines.append(f"{other}:")

    def switch(self, depth: int) -> None:
        breaks, self.breaks = self.breaks, []
        cases, out = [self.label() for _ in range(3)], self.label()
        table, index = self.label(), self.new("r")
        word = self.word()
        self.lines += [
            f"and.b32 {index}, {word}, 1;",
            f"{table}: .branchtargets {', '.join(cases)};",
            f"brx.idx {index}, {table};",
        ]
        for case in cases:
            self.lines.append(f"{case}:")
            self.body(depth + 1)
            self.lines.append(f"bra {out};")
        self.lines.append(f"{out}:")
        self.breaks = breaks

    def text(self, *, twice: bool = False) -> str:
        """The kernel; ``twice``: a function of which it calls two copies, on other words."""
        self.body(0)
        lines = [
            f".loc 1 {number} 1\n{line}" if not line.endswith(":") else line
            for number, line in enumerate(self.lines, 1)
        ]
        numbers = {kind: self.numbers[kind] + 1 for kind in "rdp"}
        head = ".func f" if twice else ".visible .entry k"
        return (
            '.version 8.0\n.target sm_80\n.address_size 64\n.file 1 "k.cu"\n'
            f"{head}(.param .u32 n, .param .u64 data)\n{{\n"
            f".reg .b32 %r<{numbers['r']}>, %own, %cta, %time, %n;\n"
            f".reg .b64 %d<{numbers['d']}>, %data;\n"
            f".reg .pred %p<{numbers['p']}>;\n.reg .f32 %f, %g;\n"
            "ld.param.u32 %n, [n];\nld.param.u64 %data, [data];\nmov.u32 %own, %tid.x;\n"
            + "mov.u32 %cta, %ctaid.x;\n" * (len(self.own) > 1)
            + "mov.u32 %time, 0;\nmov.f32 %f, 0f3F800001;\nmov.f32 %g, 0f3F800001;\n"
            + "\n".join(lines)
            + "\nret;\n}\n"
            + _CALLER * twice
        )


_CALL = """{
.param .b32 p;
.param .b64 q;
st.param.b32 [p], %n;
st.param.b64 [q], %data;
call.uni f, (p, q);
}
"""
_CALLER = f""".visible .entry k(.param .u32 n, .param .u64 data)
{{
.reg .b32 %n;
.reg .b64 %data;
ld.param.u32 %n, [n];
ld.param.u64 %data, [data];
{_CALL}sub.u32 %n, 6, %n;
add.u64 %data, %data, 512;
{_CALL}ret;
}}
"""


def commented(
    text: str,
    chooser: random.Random,
    comments: Mapping[str, tuple[int, int]],
    bounded: Collection[str],
) -> tuple[str, int]:
    """The text with comments in some loops, behind their labels; how many.

    Those of the loops ``bounded`` say totals, for two statements of a bound have to be equal, and a
    thread that leaves a loop in the middle of an iteration has passed the comment once more.
    """
    chosen = chooser.sample(sorted(comments), min(2, len(comments)))
    for label in chosen:
        bound, total = comments[label]
        says_total = label in bounded or chooser.random() < 0.5
        said = f"loop_total {total}" if says_total else f"loop_bound {bound}"
        assert text.count(f"\n{label}:\n") == 1
        text = text.replace(f"\n{label}:\n", f"\n{label}:\n// ptxwcet: {said}\n")
    return text, len(chosen)


def branch_lines(kernel: Kernel, observed: Observed) -> dict[int, Place]:
    """Blocks by the line of the branch at their end."""
    found = labels(observed.cfg)
    for block in observed.cfg.blocks[:-1]:
        location = kernel.instructions[block.end - 1].location if block.end > block.start else None
        if location is not None:
            found[block.id] = Place(line=location.line)
    return found


def loop_lines(kernel: Kernel, observed: Observed) -> dict[int, Place]:
    """Loops, by their first blocks, by the line of the branch that decides about the next round."""
    cfg, found = observed.cfg, labels(observed.cfg)
    for loop in observed.forest.loops:
        if len(loop.latches) > 1:
            continue
        (latch,) = loop.latches
        source = loop.header if cfg.fallthrough[latch] is None else latch
        if source == loop.header != latch and source not in {one for one, _ in loop.exits}:
            continue
        location = kernel.instructions[cfg.blocks[source].end - 1].location
        assert location is not None
        found[loop.header] = Place(line=location.line, file="k.cu")
    return found


@dataclass
class Case:
    """A kernel and what it did on some arrays."""

    name: str
    module: Module
    kernel: Kernel
    launch: Launch
    runs: list[Execution]
    text: str = ""
    twice: bool = False

    @staticmethod
    def of(seed: int, runs: int = RUNS, *, twice: bool = False, blocks: int = 0) -> Case:
        """A random kernel; with ``blocks`` its launch is of so many, which it asks for."""
        text = Writer(seed, asks_for_block=bool(blocks)).text(twice=twice)
        module = parse_module(SourceFile(f"k{seed}.ptx", text))
        chooser = random.Random(seed)
        n, threads = chooser.randint(0, 6), chooser.choice((1, 4, 32, 48))
        grid = (max(1, blocks), 1, 1)
        launch = Launch((threads, 1, 1), grid, {"n": n})
        numbers = np.random.default_rng(seed)
        executions = []
        for number in range(runs):
            data = numbers.integers(0, MOST + 1, WORDS + 128 * twice).astype("u4")
            if number == 0:
                data[:] = chooser.choice((0, 3, 50, 99))
            options = EmulatorOptions(record_paths=True, max_instructions=200_000)
            words = EmulatedLaunch(launch.block, grid, (n, data))
            executions.append(execute(module.kernels[0], module, words, options=options))
        kernel = inline_calls(module.kernels[0], module)
        return Case(f"seed {seed}", module, kernel, launch, executions, text, twice)

    def with_comments(
        self, observed: Observed, stated: Sequence[StatedFacts], headers: Mapping[int, Place]
    ) -> tuple[Case, list[StatedFacts]]:
        """The kernel with comments that are true of the runs, and these as facts, one by one.

        They come on top of what is ``stated`` of loops at ``headers``.
        """
        bounds = {one.place for row in stated for one in row.loops if one.bound is not None}
        bounded = {
            observed.label(loop) for loop in observed.forest.loops if headers[loop.header] in bounds
        }
        chooser = random.Random(self.name)
        text, count = commented(self.text, chooser, observed.comments(), bounded)
        module = parse_module(SourceFile(f"{self.name}.ptx", text))
        marks, unread = find_marks(module)
        assert len(marks) == count
        assert not unread
        kernel = inline_calls(module.kernels[0], module)
        return replace(self, module=module, kernel=kernel), [
            StatedFacts(marks=(mark,)) for mark in marks
        ]

    @staticmethod
    def of_file(path: Path, launch_file: Path, runs: int = RUNS) -> Case:
        """A kernel on the input of a launch file, and on others of the same kind."""
        module = parse_module(read_source(str(path)))
        file, launch = open_launch(Request(str(path), launch_file=str(launch_file)), module)
        options = EmulatorOptions(record_paths=True)
        inputs = [emulated(file.reseeded(number)) for number in range(runs)]
        executions = [execute(file.kernel, module, one, options=options) for one in inputs]
        whole = inline_calls(file.kernel, module)
        return Case(file.kernel.name, module, whole, launch, executions)


def problems_of(
    seed: int, counts: Counter[str] | None = None, *, twice: bool = False, blocks: int = 0
) -> list[str]:
    """What is wrong with the bounds of a kernel under facts that are true of its runs.

    With ``blocks`` also with those of its launch, of which everything but the block is a fact.
    """
    counts = Counter() if counts is None else counts
    try:
        case = Case.of(seed, twice=twice, blocks=blocks)
    except PtxwcetError as error:
        counts[f"not executed: {error.diagnostics[0].code}"] += 1
        return []
    return problems_in(case, random.Random(seed), counts, is_launch=bool(blocks))


def problems_in(
    case: Case, chooser: random.Random, counts: Counter[str], *, is_launch: bool = False
) -> list[str]:
    """What is wrong with the bounds of a kernel that was executed."""
    if not all(run.is_complete for run in case.runs):
        counts["not executed to the end"] += 1
        return []
    flow = build_flow(case.kernel, case.launch)
    cfg, observed = flow.cfg, Observed(flow.cfg, flow.forest)
    try:
        for run in case.runs:
            observed.add(run)
    except TooLong:
        counts["too long"] += 1
        return []
    # a line of a function is in each of its copies, and so of no single loop or branch
    by_line = bool(case.text) and chooser.random() < 0.5 and not case.twice
    places = branch_lines(case.kernel, observed) if by_line else labels(cfg)
    headers = loop_lines(case.kernel, observed) if by_line else labels(cfg)
    stated = observed.facts(chooser, places, headers)
    facts: list[StatedFacts | OfLaunch] = [*stated]
    if case.text:
        case, comments = case.with_comments(observed, stated, headers)
        counts["facts by comment"] += len(comments)
        facts += comments
        if "ld.global" in case.text:
            facts.append(StatedFacts(arrays=(_WORDS_OF_DATA,)))
        if is_launch:
            n = int(case.launch.parameters["n"])
            least = max(0, n - chooser.choice((0, 1, 3)))
            ends = least, n + chooser.choice((0, 1, 50))
            facts = chooser.sample(facts, min(3, len(facts)))
            facts += [OfLaunch("grid"), OfLaunch("n", ends), OfLaunch("n")]
        chooser.shuffle(facts)
    return _Checker(case, counts, is_launch=is_launch).check(facts)


@dataclass(frozen=True)
class OfLaunch:
    """The size of the grid, or the value of ``n``; with ``ends`` a range in which it lies."""

    name: str
    ends: tuple[int, int] | None = None


def launched(launch: Launch, facts: Sequence[StatedFacts | OfLaunch]) -> Launch:
    """A launch of which no more is known than some facts say, and the block."""
    known = replace(launch, grid=None, parameters={})
    for one in facts:
        if one == OfLaunch("grid"):
            known = replace(known, grid=launch.grid)
        elif one == OfLaunch("n"):
            known = replace(known, parameters=launch.parameters, ranges={})
        elif isinstance(one, OfLaunch) and one.ends and not known.parameters:
            known = replace(known, ranges={"n": one.ends})
    return known


class _Checker:
    def __init__(self, case: Case, counts: Counter[str], *, is_launch: bool = False) -> None:
        self._case = case
        self._is_launch = is_launch
        self._counts = counts
        pieces = [prepare_executed(run, case.launch, MACHINE) for run in case.runs]
        self._executed = [piece for prepared in pieces for piece in prepared.pieces]
        self._least = max(analyse_prepared(one).worst.bound.cycles for one in pieces)

    def check(self, facts: Sequence[StatedFacts | OfLaunch]) -> list[str]:
        """Problems after each of some facts, stated one more at a time."""
        found: list[str] = []
        before = self._bounds((), found)
        for number in range(1, len(facts) + 1):
            after = self._bounds(facts[:number], found)
            self._counts["facts"] += 1
            self._counts["facts that help"] += after[0] is not None and after != before
            for one, two in zip(before, after, strict=True):
                if one is not None and (two is None or two > one):
                    found.append(f"{self._case.name}: {before} -> {after}: {facts[number - 1]}")
            before = after
        self._counts["kernels"] += 1
        self._counts["kernels bounded at last"] += before[0] is not None
        self._counts["launches bounded at last"] += before[1] is not None
        return found

    def _bounds(
        self, stated: Sequence[StatedFacts | OfLaunch], found: list[str]
    ) -> tuple[int | None, int | None]:
        """Of a block, and of the launch if the grid is known."""
        case = self._case
        facts = together(one for one in stated if isinstance(one, StatedFacts))
        launch = launched(case.launch, stated) if self._is_launch else case.launch
        arrays = resolve_arrays(case.kernel, facts.arrays, None)
        launch = replace(launch, arrays=arrays)
        try:
            analysis = analyse_kernel(case.kernel, launch, MACHINE, facts)
            if self._is_launch:
                analysis = with_launch_bound(
                    analysis, case.module, SaidByFile(), Wishes(Request(""))
                )
        except PtxwcetError as error:
            if error.diagnostics[0].code in CONTRADICTIONS:
                text = error.diagnostics[0].render()
                found.append(f"{case.name}: refused: {text}: {facts}")
            return None, None
        cycles = analysis.worst.bound.cycles
        if cycles < self._least:
            found.append(f"{case.name}: {cycles} below {self._least}: {facts}")
        found += [f"{case.name}: {text}: {facts}" for text in self._departures(analysis)]
        whole = analysis.launch_bound
        return cycles, whole.claim.cycles if isinstance(whole, LaunchBound) else None

    def _departures(self, analysis: KernelAnalysis) -> list[str]:
        """Executed paths that are not among the analysed ones."""
        if len(analysis.pieces) > 1:
            return []
        (piece,) = analysis.pieces
        known = {warp: row.nodes for row in piece.paths.warps for warp in row.warps}
        found = []
        for executed in self._executed:
            for row in executed.paths.warps:
                for warp in row.warps[:1] if self._case.launch.threads < 64 else ():
                    departure = find_departure(known[warp], row.nodes)
                    if departure is not None:
                        found.append(f"warp {warp} departs: {departure}")
        return found


def suite_problems(counts: Counter[str], files: Sequence[tuple[Path, Path]]) -> Iterator[str]:
    """What is wrong with kernels that have launch files, each executed on several inputs."""
    for path, launch_file in files:
        try:
            case = Case.of_file(path, launch_file)
        except PtxwcetError as error:
            counts[f"not executed: {error.diagnostics[0].code}"] += 1
            continue
        yield from problems_in(case, random.Random(case.name), counts)


def launch_files() -> list[tuple[Path, Path]]:
    """The kernels of the suite, with their launch files."""
    return [(entry.path, entry.launch) for entry in entries()]


def main() -> int:
    """Checks kernels; 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--launches", action="store_true", help="facts about launches, too")
    parser.add_argument("--suite", action="store_true", help="the kernels of the suite, too")
    arguments = parser.parse_args()
    counts, problems = Counter[str](), list[str]()
    started = time.process_time()
    for seed in range(arguments.first, arguments.first + arguments.kernels):
        blocks = 1 + seed % 4 if arguments.launches else 0
        new = problems_of(seed, counts, twice=seed % 4 == 3, blocks=blocks)
        problems += new
        for text in new:
            print(text, file=sys.stderr, flush=True)
    if arguments.suite:
        for text in suite_problems(counts, launch_files()):
            problems.append(text)
            print(text, file=sys.stderr, flush=True)
    counts["problems"] = len(problems)
    seconds = time.process_time() - started
    rows = "\n".join(f"| {name} | {number:,} |" for name, number in counts.items())
    command = f"python benchmarks/true_facts.py --kernels {arguments.kernels}"
    command += " --suite" * arguments.suite + " --launches" * arguments.launches
    text = (
        "# Facts taken from executions\n\n"
        f"`{command} --first {arguments.first}`: {seconds:,.0f} s of processor time. Each kernel "
        f"was executed on {RUNS} arrays; facts that are true of all three were stated one after "
        "the other. A problem is a bound that rises with one more fact, one below the bound of "
        "what was executed, an executed path that is not among the analysed ones, or a fact that "
        f"is refused.\n\n| | |\n|---|---:|\n{rows}\n"
    )
    print(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
