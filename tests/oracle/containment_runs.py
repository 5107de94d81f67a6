"""Kernels of samples, suite and corpus, analysed and executed under the containment oracle."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from containment_oracle import Oracle, Recorder
from isa_interpreter import ABORTED, OUTSIDE, execute
from path_attack import Checker, explorations, inputs, machine

from ptxwcet.flow.flow_graph import Work
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.walk import analysed, loops
from ptxwcet.flow.walk.guards import after_assuming
from ptxwcet.ir.kernel import Kernel
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request
from ptxwcet.pipeline import prepare_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import PtxwcetError

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """A kernel and a launch of it."""

    name: str
    kernel: Kernel
    launch: Launch


@dataclass
class Result:
    """What came of a kernel: refused, or so many visits held to the walk, and what is false."""

    code: str | None = None
    checked: int = 0
    wrong: str = ""


def few_steps(launch: Launch, blocks: int) -> int:
    """How many blocks a warp may execute so that all lanes of a block execute ``blocks``."""
    return max(8, blocks // launch.threads)


def contained(kernel: Kernel, launch: Launch, *, seed: int, executions: int, steps: int) -> Result:
    """Analyses a kernel and holds so many executions to the walks and to the paths."""
    recorder = Recorder()
    try:
        with recorder.installed(), explorations() as explored:
            prepared = prepare_kernel(kernel, launch, machine())
    except PtxwcetError as error:
        return Result(error.diagnostics[0].code)
    blocks = {block.start: block.id for block in prepared.cfg.blocks[:-1]}
    oracle, checker = Oracle(recorder.walks, blocks), Checker(prepared, explored)
    result = Result()
    for given in inputs(launch, seed, executions, steps):
        oracle.begin()
        try:
            run = execute(kernel, given, oracle)
        except NotImplementedError:  # an operand of an instruction that is not interpreted
            return Result("not executed", oracle.checked)
        result.checked = oracle.checked
        if "barriers of one block differ" in {text for text, _ in run.findings}:
            break  # undefined
        # lanes need not be followed to a trap, also if a run is given up before it comes there
        if oracle.aborts or {(OUTSIDE, 0), (ABORTED, 0)} & set(run.findings):
            oracle.missing.clear()
            continue
        violation = checker.check(run, given)
        if oracle.missing or violation is not None:
            result.wrong = f"{violation or oracle.missing[0]} ({given})"
            break
    return result


@contextlib.contextmanager
def lanes_not_told_apart() -> Iterator[None]:
    """Walks know of the index of a lane only that it is one of the block, from the beginning."""
    plain = Work.__init__

    def noted(self: Work, *arguments: Any, **named: Any) -> None:
        plain(self, *arguments, **named)
        self.told_apart = False

    with patch.object(Work, "__init__", noted):
        yield


@contextlib.contextmanager
def compared_in_the_values_left() -> Iterator[None]:
    """Loops that are followed one by one are compared as those that are too long for that, and
    none is bounded by a variant.
    """

    def compared(self: Any) -> list[dict[str, Any]]:
        made = self._opened.assumed
        return [after_assuming(self._walk, registers, made) for registers in self.history]

    with (
        patch.object(analysed._Search, "compared", compared),
        patch.object(loops, "_variant_claim", lambda *_: None),
    ):
        yield


def launched(path: Path, launch_file: Path) -> Case:
    """The kernel of a launch file, with that launch. Raises PtxwcetError."""
    opened = open_request(Request(str(path), launch_file=str(launch_file)))
    (kernel,) = opened.kernels
    return Case(f"{path.name}:{kernel.name}", opened.whole(kernel), opened.launch_of(kernel))


def corpus(threads: int) -> Iterator[Case]:
    """All kernels of the corpus in blocks of so many threads, or of those that they require."""
    for path in sorted((ROOT / "tests" / "corpus" / "ptx").rglob("*.ptx")):
        module = parse_module(read_source(str(path)))
        for kernel in module.kernels:
            block = kernel.required_threads or (threads, 1, 1)
            if not kernel.instructions:
                continue  # nothing is executed
            try:
                inlined = inline_calls(kernel, module)
            except PtxwcetError:
                continue
            yield Case(f"{path.name}:{kernel.name}", inlined, Launch(block))
