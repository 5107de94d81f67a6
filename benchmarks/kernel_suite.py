"""The suite of kernels: where they lie, their loops, and the bound of each, question by question.

A kernel is bounded from its launch facts first. A loop that stays undecided is a question; if
``answers.toml`` has its answer the bound is tried again with it, and so on.
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.graph.cfg import ControlFlowGraph
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.graph.loops import LoopForest
from ptxwcet.ir.kernel import Module
from ptxwcet.opened.request import Request
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import Diagnostic

SUITE = Path(__file__).parent / "kernels" / "suite"
ANSWERS = SUITE / "answers.toml"
UNDECIDED_LOOP = "PW203"


@dataclass(frozen=True, slots=True)
class Answer:
    """At most ``bound`` iterations an entry of the loop at ``loop``, for the data of the launch."""

    kernel: str
    loop: str
    bound: int
    why: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel of the suite: its file, its name, its launch file."""

    path: Path
    kernel: str

    @property
    def launch(self) -> Path:
        """The launch file of the kernel."""
        return SUITE / "launches" / f"{self.kernel}.toml"

    @property
    def facts(self) -> Path | None:
        """What is to be said about branches of the kernel, None for nearly all."""
        path = SUITE / "facts" / f"{self.kernel}.toml"
        return path if path.exists() else None

    @property
    def domain(self) -> str:
        """The file's name says what it is about."""
        return self.path.stem


@dataclass
class Outcome:
    """What came of a kernel. ``asked`` are labels of loops that needed an answer, in order.

    ``refusal`` is the diagnostic that is left, None for a kernel with a bound; ``seconds`` are
    those of the processor, for reading the file and the last try to bound the kernel;
    ``larger_seconds`` the same of a larger launch, if it was tried (larger_launches.py).
    ``facts`` is the file of facts that was needed for ``branches`` of the kernel.
    """

    entry: Entry
    loops: tuple[str, ...]
    asked: list[str] = field(default_factory=list)
    bound: int | None = None
    bound_without_answers: bool = False
    seconds: float = 0.0
    larger_seconds: float | None = None
    refusal: Diagnostic | None = None
    facts: Path | None = None
    branches: int = 0

    @property
    def automatic(self) -> int:
        """Loops that the analysis bounds by itself: 0 are counted for a kernel without a bound."""
        return 0 if self.bound is None else len(self.loops) - len(self.asked)


@cache
def module_of(path: Path) -> Module:
    """The parsed file."""
    return parse_module(read_source(str(path)))


@cache
def entries() -> tuple[Entry, ...]:
    """All kernels, file by file."""
    files = sorted(SUITE.glob("*.ptx"))
    return tuple(
        Entry(path, kernel.name)
        for path in files
        for kernel in module_of(path).kernels
        if kernel.has_body
    )


def read_answers(path: Path = ANSWERS) -> Mapping[str, tuple[Answer, ...]]:
    """The answers by kernel. Raises ValueError for a loop that is answered twice."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("answer", [])
    found: dict[str, tuple[Answer, ...]] = {}
    for row in rows:
        answer = Answer(**row)
        known = found.get(answer.kernel, ())
        if any(one.loop == answer.loop for one in known):
            raise ValueError(f"{path}: two answers for {answer.loop} of {answer.kernel}")
        found[answer.kernel] = (*known, answer)
    return found


def control_flow(entry: Entry) -> ControlFlow:
    """The control flow of the kernel with its calls inlined, as the analysis sees it."""
    module = module_of(entry.path)
    (kernel,) = (one for one in module.kernels if one.name == entry.kernel)
    return ControlFlow.of(inline_calls(kernel, module))


def request_for(
    entry: Entry, answers: tuple[Answer, ...] = (), facts: Path | None = None
) -> Request:
    """The bound of a kernel under its launch file, these answers and facts about branches."""
    return Request(
        str(entry.path),
        launch_file=str(entry.launch),
        loop_bounds=tuple(f"{answer.loop}={answer.bound}" for answer in answers),
        facts_file=None if facts is None else str(facts),
    )


def bound_kernel(entry: Entry, answers: tuple[Answer, ...]) -> Outcome:
    """Bounds a kernel, asking as long as there are answers. Cost: an analysis a question."""
    flow = control_flow(entry)
    cfg, forest = flow.cfg, flow.forest
    outcome = Outcome(entry, tuple(cfg.name(loop.header) for loop in forest.loops))
    known = {answer.loop: answer for answer in answers}
    given: tuple[Answer, ...] = ()
    while True:
        begin = time.process_time()
        result = bound_file(request_for(entry, given, outcome.facts))
        outcome.seconds = time.process_time() - begin
        if result.answered:
            outcome.bound = result.answered[0].worst.bound.cycles
            outcome.bound_without_answers = not given and outcome.facts is None
            return outcome
        question = result.refused[0].diagnostics[0]
        label = _asked_loop(question, cfg, forest)
        if label is None and outcome.facts is None and entry.facts is not None:
            outcome.facts = entry.facts
            outcome.branches = len(tomllib.loads(entry.facts.read_text())["branch"])
            continue
        if label is None or label in outcome.asked:
            outcome.refusal = question
            return outcome
        outcome.asked.append(label)
        if label not in known:
            outcome.refusal = question
            return outcome
        given = (*given, known[label])


def _asked_loop(question: Diagnostic, cfg: ControlFlowGraph, forest: LoopForest) -> str | None:
    """The label of the loop that a diagnostic asks about; None if it asks about no loop."""
    if question.code != UNDECIDED_LOOP:
        return None
    found = re.search(r"in kernel \S+, (?:block|the loop at) (.+)", "\n".join(question.notes))
    assert found is not None, question.notes
    for block in cfg.blocks:
        if cfg.name(block.id) == found[1]:
            loop = forest.innermost(block.id)
            return None if loop is None else cfg.name(loop.header)
    return None
