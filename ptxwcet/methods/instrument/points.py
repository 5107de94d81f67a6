"""Chooses instrumentation points: the beginnings of basic blocks, and the ends of warps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ptxwcet.flow.graph.cfg import BasicBlock, BlockId, ControlFlowGraph, build_cfg
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.ir.kernel import Instruction, Kernel, Module, require_ptx
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.support.comments import blank_comments
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.trace.events import END, Ipoint

_GUARD = re.compile(r"@\s*(!?)\s*([\w$%]+)")
_ENDINGS = (ControlEffect.RETURN, ControlEffect.EXIT)
_BRANCHES = (ControlEffect.BRANCH, ControlEffect.INDIRECT_BRANCH)
_LABELS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class BlockPoint:
    """A point at the beginning of a basic block; ``offset`` is that of its first instruction."""

    ipoint: Ipoint
    offset: int


@dataclass(frozen=True, slots=True)
class EndPoint:
    """A place where lanes end: before a ``ret`` or ``exit`` at ``offset``, or before the ``}``.

    ``guard`` is the guard as PTX text (``%p1``, ``!%p1``), empty for an ending without one.
    """

    offset: int
    guard: str = ""


@dataclass(frozen=True, slots=True)
class KernelPoints:
    """The points of a kernel in program order, the entry block's first, and all its ends."""

    kernel: Kernel
    blocks: tuple[BlockPoint, ...]
    ends: tuple[EndPoint, ...]

    @property
    def ipoints(self) -> tuple[Ipoint, ...]:
        """The points by number; the last one is the end."""
        return (*(point.ipoint for point in self.blocks), END)

    @property
    def inserted(self) -> int:
        """The number of places that record: blocks, and each place where lanes end."""
        return len(self.blocks) + len(self.ends)


def choose_points(
    kernels: Sequence[Kernel], module: Module, places: Sequence[str]
) -> tuple[KernelPoints, ...]:
    """Returns the points of each kernel: at each reachable block, or only at ``places``.

    A place is the name of a block (a label, ``block 3``) or the number of a line of the PTX file,
    for the blocks that contain it; the entry block and the ends always have points: the s and t of
    [B] II-A. Raises PtxwcetError (PW651) for the places that no kernel has. Cost: linear in the
    instructions.
    """
    points, present = [], set()
    for kernel in kernels:
        require_ptx(kernel, "a trace is recorded by")
        cfg = build_cfg(kernel)
        chosen = {cfg.entry}
        for place in places:
            blocks_there = _find_blocks(kernel, cfg, place)
            chosen |= blocks_there
            present |= {place} if blocks_there else set()
        blocks = _reached(cfg)
        if places:
            blocks = tuple(block for block in blocks if block.id in chosen)
        points.append(_points(kernel, module, cfg, blocks))
    missing = [place for place in dict.fromkeys(places) if place not in present]
    if missing:
        raise PtxwcetError([_no_place(kernels, place) for place in missing])
    return tuple(points)


def _reached(cfg: ControlFlowGraph) -> tuple[BasicBlock, ...]:
    return tuple(cfg.blocks[b] for b in sorted(cfg.reverse_postorder) if b != cfg.exit)


def _points(
    kernel: Kernel, module: Module, cfg: ControlFlowGraph, blocks: Sequence[BasicBlock]
) -> KernelPoints:
    names = _analysis_names(kernel, module)
    points = []
    for block in blocks:
        if block.start == block.end:  # the only block of a kernel without instructions
            points.append(BlockPoint(Ipoint(cfg.name(block.id), 0), kernel.span.end - 1))
            continue
        first = kernel.instructions[block.start]
        label = names.get(first.start, cfg.name(block.id))
        points.append(BlockPoint(Ipoint(label, first.span.line), first.start))
    return KernelPoints(kernel, tuple(points), _ends(kernel, cfg))


def _analysis_names(kernel: Kernel, module: Module) -> dict[int, str]:
    """Returns the analyses' names of blocks, by offset: they see calls inlined."""
    whole = inline_calls(kernel, module)
    cfg = build_cfg(whole)
    names: dict[int, str] = {}
    for block in cfg.blocks[:-1] if whole.instructions else ():
        names.setdefault(whole.instructions[block.start].start, cfg.name(block.id))
    return names


def _is_line(place: str) -> bool:
    return re.fullmatch("[0-9]{1,12}", place) is not None


def _find_blocks(kernel: Kernel, cfg: ControlFlowGraph, place: str) -> set[BlockId]:
    """Returns the block that a place names, or the blocks that contain a line."""
    instructions, blocks = kernel.instructions, set()
    for block in _reached(cfg) if instructions else ():
        if _is_line(place):
            first = instructions[block.start].span.line
            if first <= int(place) <= instructions[block.end - 1].span.line:
                blocks.add(block.id)
        elif kernel.labels.get(place) == block.start or place == cfg.name(block.id):
            blocks.add(block.id)
    return blocks


def _no_place(kernels: Sequence[Kernel], place: str) -> Diagnostic:
    labels = [label for kernel in kernels for label in kernel.labels]
    shown = ", ".join(labels[:_LABELS_SHOWN]) + (", ..." if len(labels) > _LABELS_SHOWN else "")
    subject = f"instruction on line {place}" if _is_line(place) else f"block {place!r}"
    names = ", ".join(kernel.readable for kernel in kernels[:_LABELS_SHOWN])
    return Diagnostic(
        "PW651",
        f"no {subject} that is reached in {names}",
        kernels[0].span if len(kernels) == 1 else None,
        help=f"give a label (there are: {shown or 'none'}), the name of a block as ptxwcet cfg "
        "shows it, or a line with an instruction",
    )


def _ends(kernel: Kernel, cfg: ControlFlowGraph) -> tuple[EndPoint, ...]:
    """Returns the reachable endings, and the ``}`` if control can run into it."""
    ends, runs_off = [], False
    for number in sorted(cfg.reverse_postorder):
        block = cfg.blocks[number]
        if number == cfg.exit:
            continue
        if not kernel.instructions:
            return (EndPoint(kernel.span.end - 1),)
        last = kernel.instructions[block.end - 1]
        if last.control in _ENDINGS:
            ends.append(EndPoint(last.start, _guard_text(last)))
        branches_out = last.control in _BRANCHES and cfg.exit in cfg.successors[number]
        runs_off |= branches_out or cfg.fallthrough[number] == cfg.exit
    if runs_off:
        ends.append(EndPoint(kernel.span.end - 1))
    return tuple(ends)


def _guard_text(instruction: Instruction) -> str:
    """Returns the guard as the text spells it: in a scope it may differ from the unique name."""
    if instruction.guard is None:
        return ""
    match = _GUARD.match(blank_comments(instruction.span.text))
    assert match is not None, "a guard begins its statement"
    return "".join(match.groups())


_LEAST_VERSION = (6, 2)
_LEAST_TARGET = 30
_PARAMETER_BYTES, _MORE_PARAMETER_BYTES = 4352, 32764
_MORE_SINCE = ((8, 1), 70)
_ADDED_BYTES = 16


def refuse_kernels(module: Module, kernels: Sequence[Kernel]) -> None:
    """Raises PtxwcetError (PW650) with all reasons. Cost: linear in the module.

    ``activemask`` needs PTX ISA 6.2 and sm_30; parameters have limits of their own; and a function
    that ends threads by ``exit`` would end warps without a record, because points are in kernels.
    """
    problems = [*_module_problems(module)]
    if not problems:
        for kernel in kernels:
            problems += _kernel_problems(module, kernel)
    if problems:
        raise PtxwcetError(problems)


def _target_number(module: Module) -> int:
    match = re.search(r"\d+", module.target)
    return int(match.group()) if match else 0


def _module_problems(module: Module) -> Iterator[Diagnostic]:
    name = module.source.name
    if module.address_size != 64:
        message = f"{name} has addresses of {module.address_size} bits; points need 64"
        yield Diagnostic("PW650", message, help="compile for 64 bits (nvcc -m64)")
    if module.version < _LEAST_VERSION:
        version = "{}.{}".format(*module.version)
        message = f"{name} is PTX {version}; points use activemask, which needs 6.2"
        yield Diagnostic("PW650", message, help="compile it with CUDA 9.2 or later")
    if _target_number(module) < _LEAST_TARGET:
        message = f"{name} is for {module.target}; points use activemask, which needs sm_30"
        yield Diagnostic("PW650", message, help="compile for a newer architecture")


def _kernel_problems(module: Module, kernel: Kernel) -> Iterator[Diagnostic]:
    end = 0
    for parameter in kernel.parameters:
        aligned = -(-end // parameter.alignment) * parameter.alignment
        end = aligned + parameter.size_bytes
    end = -(-end // 8) * 8 + _ADDED_BYTES
    version, target = _MORE_SINCE
    larger = module.version >= version and _target_number(module) >= target
    limit = _MORE_PARAMETER_BYTES if larger else _PARAMETER_BYTES
    if end > limit:
        message = f"kernel {kernel.readable} would have {end:,} bytes of parameters, {limit:,} fit"
        yield Diagnostic(
            "PW650", message, kernel.span, help="pass a pointer instead of a structure"
        )
    functions = {f.name: f for f in module.functions}
    for name in _called(module, kernel):
        for instruction in functions[name].instructions:
            if instruction.control is ControlEffect.EXIT:
                yield Diagnostic(
                    "PW650",
                    f"function {functions[name].readable}, which kernel {kernel.readable} may "
                    "call, ends threads",
                    instruction.span,
                    notes=("points are inserted in kernels: this end would not be recorded",),
                    help="compile with the function inlined (__forceinline__)",
                )


def _called(module: Module, kernel: Kernel) -> list[str]:
    """Returns the functions with a body that a kernel may call; all after an indirect call."""
    functions = {f.name: f for f in module.functions}
    called: dict[str, None] = {}
    waiting = [kernel]
    while waiting:
        for instruction in waiting.pop().instructions:
            if instruction.control is not ControlEffect.CALL:
                continue
            names = [instruction.callee] if instruction.callee is not None else [*functions]
            for name in names:
                if name in functions and name not in called:
                    called[name] = None
                    waiting.append(functions[name])
    return [*called]
