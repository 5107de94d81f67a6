"""Facts templates: the open questions of a PTX file and a launch, as a facts file to be filled in.

>>> from ptxwcet.opened.request import Request
>>> from ptxwcet.commands.facts.study import facts_template
>>> facts_template(Request("samples/mandelbrot.ptx", block="32x8")).text.splitlines()[0]
'# Facts about mandelbrot.ptx: 1 open question.'
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ptxwcet.flow.facts.cuda_loops import CudaSource
from ptxwcet.flow.facts.files import OPEN
from ptxwcet.flow.facts.placing import loop_control, place_facts, unrolled_by
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.control_flow import ControlFlow, OnFlow
from ptxwcet.flow.graph.loops import Loop
from ptxwcet.flow.paths.advice import of_grid
from ptxwcet.flow.paths.questions import (
    OpenAgreement,
    OpenLoop,
    OpenParameter,
    Questions,
    find_questions,
)
from ptxwcet.flow.values.condition_text import ConditionReader
from ptxwcet.ir.kernel import Kernel, place
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.cuda_text import cuda_source
from ptxwcet.opened.opening import Opened, RefusedKernel, open_request, refuse
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import build_flow, refusals_behind
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.printable import printable_line
from ptxwcet.support.records import dataclass

_WHATEVER = frozenset(("PW329", "PW401", "PW402", "PW403"))
"""Refusals that concern the cost of instructions, and that no answer to a question changes."""

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FactsTemplate:
    """A facts file with the ``questions`` that are open; refused kernels can have some too."""

    text: str
    questions: int
    refused: tuple[RefusedKernel, ...]


def facts_template(request: Request) -> FactsTemplate:
    """Returns the open questions of the kernels of a file under the given facts.

    Raises PtxwcetError for input that concerns no single kernel. Cost: a path extraction for each
    question.
    """
    opened = open_request(request)
    parts: list[str] = []
    refused: list[RefusedKernel] = []
    count = 0
    for kernel in opened.kernels:
        try:
            _LOGGER.info("kernel %s: questions are searched for", printable_line(kernel.readable))
            page = _questions_of(kernel, opened)
            lines = tuple(page.lines(named=len(opened.module.kernels) > 1))
        except Exception as error:
            refused.append(refuse(kernel, error))
            continue
        parts += lines
        count += page.count
        if page.questions.refusals:
            refused.append(RefusedKernel(kernel, page.refusals()))
    head = _head(opened, count)
    text = "\n".join(map(printable_line, (*head, *parts))) + "\n"
    return FactsTemplate(text, count, tuple(refused))


def _head(opened: Opened, count: int) -> list[str]:
    name, plural = Path(opened.request.path).name, "" if count == 1 else "s"
    return [
        f"# Facts about {name}: {count or 'no'} open question{plural}.",
        f'# Write an answer for each "{OPEN}", then give this file with --facts.',
        f'ptx = "sha256:{opened.sha256}"',
    ]


def _questions_of(kernel: Kernel, opened: Opened) -> _Page:
    launch, whole = opened.launch_of_paths(kernel), opened.whole(kernel)
    flow = build_flow(whole, launch)
    placed = place_facts(flow, opened.facts_of(kernel))
    questions = find_questions(flow, launch, placed)
    if questions.answered is not None and not questions.refusals:
        machine = load_machine(opened.request.machine, opened.request.memory_latency_cycles)
        answered, facts = questions.answered
        at_worst = opened.request.unknown_at_worst
        behind = refusals_behind(whole, answered, machine, facts, unknown_at_worst=at_worst)
        if not questions.count or all(one.code in _WHATEVER for one in behind):
            questions = replace(questions, refusals=behind)
    names, source = opened.names_of(kernel), cuda_source(opened.request)
    grid = of_grid(questions, launch)
    return _Page(flow, names, source, questions, grid.said() if grid else "")


@dataclass(frozen=True, slots=True)
class _Page(OnFlow):
    """The questions of one kernel, and the data for their texts."""

    flow: ControlFlow
    names: Mapping[str, str]
    source: CudaSource | None
    questions: Questions
    with_grid: str
    """What to give if the size of the grid is cheaper than all answers; empty if it is not."""

    @property
    def count(self) -> int:
        """How many questions there are."""
        return self.questions.count

    def refusals(self) -> tuple[Diagnostic, ...]:
        """The refusals that remain for all answers."""
        found = self.questions.refusals
        return tuple(replace(one, help=self.with_grid or one.help) for one in found)

    def lines(self, *, named: bool) -> Iterator[str]:
        """Yields the tables of the kernel; ``named``: parameters have a table of their own."""
        if self.with_grid:
            yield from ("", f"# Kernel {self.kernel.readable}: {self.with_grid}")
        if self.questions.parameters:
            table = f"parameters.{_key(self.kernel.readable)}" if named else "parameters"
            yield from ("", f"[{table}]")
            for parameter in self.questions.parameters:
                yield from self._parameter(parameter)
        for loop in self.questions.loops:
            yield from self._loop(loop)
        for agreement in self.questions.agreements:
            yield from self._agreement(agreement)

    def _parameter(self, parameter: OpenParameter) -> Iterator[str]:
        if not parameter.branches:
            yield "# Without its value the kernel is refused"
        for index in parameter.branches:
            block = self._block(index)
            loop = self._left_from(block)
            what = f"the branch at the end of {self.cfg.name(block)}"
            if loop is not None:
                what = f"the loop at {self.cfg.name(loop.header)}"
            yield f"# It decides {what} ({self._place(index)})"
            yield from self._condition(index, loop)
        key = _key(self.names[parameter.name])
        yield f'{key} = "{OPEN}"  # a number; a range may do: "1..4096"'

    def _loop(self, question: OpenLoop) -> Iterator[str]:
        loop = self.forest.loops[question.loop]
        label = self.cfg.name(loop.header)
        yield from ("", f"# The loop at {label} ({self._place(question.branch)})")
        yield from self._condition(question.branch, loop)
        yield from self._unrolled(loop)
        others = [f"a value of {self.names[name]} ([parameters])" for name in question.parameters]
        others += ["--grid"] if question.on_grid else []
        if question.in_launch_file:
            others.append(f"{' and '.join(question.in_launch_file)} in a launch file (--launch)")
        if question.arrays:
            ranges = [
                f'{self.names[name]} = "{kind} LEAST..MOST"' for name, kind in question.arrays
            ]
            others.append(f"the range of the integers in an array ([arrays]: {', '.join(ranges)})")
        if others:
            yield f"# Instead of a bound, this may settle it: {' and '.join(others)}"
        yield "[[loop]]"
        yield f"kernel = {json.dumps(self.kernel.readable, ensure_ascii=False)}"
        yield f"at = {json.dumps(label)}"
        yield f'bound = "{OPEN}"  # most executions of its body for each entry'

    def _unrolled(self, loop: Loop) -> Iterator[str]:
        """Yields a note on a loop that does several source iterations at once, or the rest."""
        place = loop_control(self.flow, loop)
        alike = [
            other.id
            for other in self.forest.loops
            if place is not None and loop_control(self.flow, other) == place
        ]
        steps = unrolled_by(self.flow, alike)
        most, own = max(steps.values(), default=1), steps.get(loop.id, 1)
        if own == most > 1:
            yield f"# It seems to be unrolled by {own}: then an iteration is {own} of the source"
        elif own < most:
            main = next(loop for loop in self.forest.loops if steps.get(loop.id) == most)
            label = self.cfg.name(main.header)
            yield f"# It seems to be the rest of the loop at {label}, which is unrolled by {most}:"
            yield f"# then as a rule at most {most - 1}"

    def _agreement(self, question: OpenAgreement) -> Iterator[str]:
        label, scope = self.cfg.name(question.block), question.scope
        index = self.cfg.blocks[question.block].end - 1
        yield from ("", f"# The branch at the end of {label} ({self._place(index)})")
        yield from self._condition(index, None)
        yield f"# Do all threads of a {scope} go the same way here, in every run? If not, there is"
        yield "# no bound."
        yield "[[branch]]"
        yield f"kernel = {json.dumps(self.kernel.readable, ensure_ascii=False)}"
        yield f"at = {json.dumps(label)}"
        also = ', or "block" if all of the block do' if scope == "warp" else ""
        yield f'uniform = "{OPEN}"  # write "{scope}" if they do{also}'

    def _condition(self, index: int, loop: Loop | None) -> Iterator[str]:
        """Yields a branch's source line and condition: to stay in ``loop``, else to be taken."""
        guard = self.kernel.instructions[index].guard
        text = self._source_text(index)
        if text:
            yield f"#     {text}"
        if guard is None:
            return
        holds, what = True, "it is taken if"
        if loop is not None:
            holds = self.cfg.taken[self._block(index)] in loop.body
            what = "it goes on while"
        reader = ConditionReader(self.kernel, self.names)
        condition, registers = reader.condition(guard, holds=holds)
        yield f"# {what} {condition}"
        for register in registers:
            yield f"#     where {register}"

    def _left_from(self, block: BlockId) -> Loop | None:
        """Returns the innermost loop around a block, if the block can leave it."""
        loop = self.forest.innermost(block)
        leaves = loop is not None and any(source == block for source, _ in loop.exits)
        return loop if leaves else None

    def _place(self, index: int) -> str:
        return place(self.kernel, index)

    def _source_text(self, index: int) -> str:
        location = self.kernel.instructions[index].location
        source = self.source
        if location is None or source is None or Path(location.file).name != source.name:
            return ""
        lines = source.text.splitlines()
        return lines[location.line - 1].strip() if 0 < location.line <= len(lines) else ""

    def _block(self, index: int) -> BlockId:
        return next(block.id for block in self.cfg.blocks if block.start <= index < block.end)


def _key(name: str) -> str:
    """Returns a TOML key: bare if it may be, else quoted."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name, re.ASCII) else json.dumps(name)
