"""Loop bounds in comments of the PTX, put there by ``asm volatile`` in the CUDA source.

``asm volatile("// ptxwcet: loop_bound 64")`` in the body of a loop: a thread passes this place at
most 64 times for each entry of the innermost loop around it; ``loop_total N``: at most N times in a
run. This module finds the comments and the instructions that they stand between;
:mod:`ptxwcet.flow.facts.marked_loops` says what follows for the loops of a kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from ptxwcet.flow.facts.cuda_loops import CudaSource, loops_around
from ptxwcet.flow.facts.stated import FactSource, Mark, UnreadFact
from ptxwcet.ir.kernel import Instruction, Kernel, Module, UnreadKernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.comments import COMMENT, blank_comments
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error
from ptxwcet.support.source import SourceFile, Span, readable_paths

_COMMENT = re.compile(rf'"[^"\n]*+"|{COMMENT}')
_MARK = re.compile(r"\s*ptxwcet\s*:\s*(.*?)\s*", re.DOTALL)
_FACT = re.compile(r"(loop_bound|loop_total)\s+([0-9]{1,18})", re.ASCII)
_STRING = re.compile(r'"[^"\n]*"')
_LABEL = re.compile(r"[\w$%]\s*:(?!:)", re.ASCII)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)[^\n]*", re.ASCII)
_FILE = re.compile(r'^[ \t]*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE | re.ASCII)


def find_marks(
    module: Module, cuda: CudaSource | None = None
) -> tuple[tuple[Mark, ...], tuple[UnreadFact, ...]]:
    """All comments of the module that state a loop bound, in the order of the text.

    With the CUDA source, the loops around them there are noted. A comment whose reading is an
    internal error is one of the second tuple, and costs those that execute its function; comments
    of functions that could not be read are left out, for these have no bound. Raises PtxwcetError
    with every malformed one (PW248) and every one outside of a body (PW249). Cost: linear in the
    text, and in the source for each comment.
    """
    source = module.source
    if "ptxwcet" not in source.text:
        return (), ()
    reader = _Reader(dict(_FILE.findall(source.text)), cuda)
    functions = (*module.kernels, *module.functions)
    problems: list[Diagnostic] = []
    unread: list[UnreadFact] = []
    for match in _COMMENT.finditer(source.text):
        text = match.group()
        mark = None if text[0] == '"' else _MARK.fullmatch(text.removesuffix("*/")[2:])
        if mark is None:
            continue
        span = Span(source, match.start(), match.end())
        function = _function_at(functions, span)
        if isinstance(function, UnreadKernel):
            continue
        try:
            reader.read(span, mark.group(1), function)
        except PtxwcetError as error:
            problems += error.diagnostics
        except Exception as error:
            if function is None:
                raise
            unread.append(_unread(function, error))
    if problems:
        raise PtxwcetError(problems)
    return tuple(reader.marks), tuple(unread)


def _function_at(functions: tuple[Kernel, ...], span: Span) -> Kernel | None:
    inside = (one for one in functions if one.span.start <= span.start < one.span.end)
    return next(inside, None)


def _unread(function: Kernel, error: Exception) -> UnreadFact:
    whose = f"{'kernel' if function.is_entry else 'function'} {function.readable}"
    place = function.span
    return UnreadFact(internal_error(error, whose), None, place.start, place.end)


@dataclass(slots=True)
class _Reader:
    """Reads comments one by one; ``files`` are the names that ``.file`` gives."""

    files: dict[str, str]
    cuda: CudaSource | None
    marks: list[Mark] = field(default_factory=list)

    def read(self, span: Span, text: str, function: Kernel | None) -> None:
        """Adds what a comment of ``function`` states. Raises PtxwcetError (PW248, PW249)."""
        fact = _FACT.fullmatch(text)
        if fact is None:
            raise PtxwcetError(_malformed(span, text))
        around = None if function is None else _around(function.instructions, span)
        if around is None:
            raise PtxwcetError(orphan(span))
        kind = fact[1] == "loop_total", int(fact[2])
        self.marks.append(_in_source(_mark(span, kind, around, self.files), self.cuda))


def _malformed(span: Span, text: str) -> Diagnostic:
    return Diagnostic(
        "PW248",
        f"comment not understood: {' '.join(text.split())!r} is no fact",
        span,
        help="write ptxwcet: loop_bound N, or ptxwcet: loop_total N",
    )


def orphan(span: Span) -> Diagnostic:
    """PW249: a comment that is in no loop."""
    return Diagnostic(
        "PW249",
        "this comment is in no loop: there is nothing that it bounds",
        span,
        help="remove it if the compiler has unrolled the loop completely; else put it into the "
        "loop's body",
    )


def _around(body: tuple[Instruction, ...], span: Span) -> tuple[Instruction, Instruction] | None:
    """The instructions before and after a place in a body; None at its ends and outside."""
    if not body or not body[0].start < span.start or not span.end <= body[-1].start:
        return None
    low, high = 0, len(body) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if body[middle].start < span.start else (low, middle)
    return body[low], body[high]


def _mark(
    span: Span,
    fact: tuple[bool, int],
    around: tuple[Instruction, Instruction],
    files: dict[str, str],
) -> Mark:
    before, after = around
    source = span.source
    lead = _code(source, before.end, span.start)
    follow = _code(source, span.end, after.start)
    anchor, neighbour, is_sure = after, before, True
    # inlining puts several instructions, in several blocks, in the place of a call
    if _LABEL.search(follow) or after.control is ControlEffect.CALL:
        falls_through = before.control in (ControlEffect.NONE, ControlEffect.BARRIER)
        is_sure = falls_through and not _LABEL.search(lead)
        anchor, neighbour = (before, after) if is_sure else (after, before)
    origin, file, line = None, "", 0
    locations = list(_LOC.finditer(lead))
    if locations:
        number, text = locations[-1].groups()
        file, line = files.get(number, f"file {number}"), int(text)
        origin = locations[-1].group() if line else None
    elif before.location is not None:
        file, line = before.location.file, before.location.line
    shown = readable_paths(files.values()).get(file, file)
    name = f"{shown}:{line}" if file and line else f"PTX line {span.line}"
    states = FactSource(f"asm comment {name}", span)
    places = anchor.start, neighbour.start
    return Mark(span, *fact, *places, is_sure, origin, states, file.rpartition("/")[2], line)


def _in_source(mark: Mark, cuda: CudaSource | None) -> Mark:
    """The comment with the loops around it in the source, if it is from there."""
    if cuda is None or not mark.line or mark.file != cuda.name:
        return mark
    return replace(mark, around=loops_around(cuda.text, mark.line))


def _code(source: SourceFile, start: int, end: int) -> str:
    return _STRING.sub('""', blank_comments(source.text[start:end]))
