"""Spells terms as instructions of PTX, where a single one computes the term.

Searches for the causes of loop exits, displayed conditions and queries inspect opcodes. An
instruction of machine code is spelled as one of PTX if the row of the latter gives the same term;
all others are left unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.kernel import Guard, Instruction, Origin
from ptxwcet.ir.operands import Immediate, Negated, Operand, Register
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Meaning, Op, Term, any_bits, fold, signed, source, term

Spelled = tuple[str, tuple[Operand, ...]]
"""A mnemonic, and the operands that are read."""

_PLAIN = {
    Op.ADD: ("add.s", "add.u"),
    Op.SUB: ("sub.s", "sub.u"),
    Op.MUL: ("mul.lo.s", "mul.lo.u"),
    Op.AND: ("and.b",),
    Op.OR: ("or.b",),
    Op.XOR: ("xor.b",),
    Op.NOT: ("not.b",),
    Op.SHL: ("shl.b",),
    Op.LSHR: ("shr.u",),
    Op.ASHR: ("shr.s",),
    Op.POPC: ("popc.b",),
    Op.CLZ: ("clz.b",),
    Op.BREV: ("brev.b",),
}
_COMPARED = {Op.SLT: (("lt", "s"), ("ge", "s")), Op.ULT: (("lt", "u"), ("ge", "u"))}
_TURNED = {"lt": "gt", "ge": "le", "eq": "eq", "ne": "ne"}
_JOINED = {Op.AND: "and", Op.OR: "or", Op.XOR: "xor"}


def spelled(
    target: str,
    meaning: Meaning,
    place: tuple[Origin, int, int],
    guard: Guard | None,
    registers: Mapping[str, str],
) -> Instruction | None:
    """Returns an instruction of PTX that leaves the single term of a meaning in a register, if any.

    ``registers`` are the types of the registers that it names. Cost: constant.
    """
    (root,) = meaning.results
    for mnemonic, read in _candidates(root, meaning.sources):
        operands = [Register(target), *read]
        made = instruction_of(mnemonic, operands, place, guard=guard)
        spelled_meaning = meaning_of(made, registers)
        if spelled_meaning is not None and _is_same(spelled_meaning, meaning):
            return made
    return None


def _is_same(given: Meaning, wanted: Meaning) -> bool:
    """Returns whether both compute the same; sources may be numbered otherwise, or be literals."""
    numbers = [wanted.sources.index(s) if s in wanted.sources else None for s in given.sources]

    def numbered(node: Term, args: list[Term]) -> Term:
        if node.op is Op.SOURCE:
            number = numbers[node.value]
            return any_bits(node.width) if number is None else source(number, node.width)
        return term(node.op, node.width, tuple(args), node.value) if args else node

    return fold(given.results[0], numbered) is wanted.results[0]


def _candidates(root: Term, sources: Sequence[Operand]) -> Iterator[Spelled]:
    width = root.width
    leaf = _leaf(root, sources)
    if leaf is not None:
        yield ("mov.pred" if width == 1 else f"mov.b{width}"), (leaf,)
        return
    if width == 1:
        yield from _truths(root, sources)
        return
    read = [_leaf(operand, sources) for operand in root.args]
    operands = tuple(operand for operand in read if operand is not None)
    if root.op in _PLAIN and len(operands) == len(read):
        for name in _PLAIN[root.op]:
            yield f"{name}{width}", operands
        if root.op is Op.SUB and isinstance(operands[0], Immediate) and operands[0].value == 0:
            yield f"neg.s{width}", operands[1:]
    if root.op in (Op.SHL, Op.LSHR, Op.ASHR) and len(read) == 2 and read[0] is not None:
        amount = _amount(root.args[1], sources)
        if amount is not None:
            yield f"{_PLAIN[root.op][0]}{width}", (read[0], amount)
    if root.op in (Op.SEXT, Op.ZEXT) and len(operands) == 1:
        kind = "s" if root.op is Op.SEXT else "u"
        yield f"cvt.{kind}{width}.{kind}{root.args[0].width}", operands
    if root.op is Op.EXTRACT and root.value == 0 and len(operands) == 1:
        yield f"cvt.u{width}.u{root.args[0].width}", operands
    if root.op is Op.ADD and root.args[0].op is Op.MUL:
        factors = [_leaf(factor, sources) for factor in root.args[0].args]
        if None not in (*factors, read[1]):
            parts = tuple(operand for operand in (*factors, read[1]) if operand is not None)
            yield f"mad.lo.s{width}", parts
    if root.op is Op.ITE:
        yield from _choices(root, sources)


def _choices(root: Term, sources: Sequence[Operand]) -> Iterator[Spelled]:
    """Yields spellings of one of two numbers: by a predicate, or the smaller or larger one."""
    condition, *numbers = root.args
    read = tuple(leaf for leaf in (_leaf(each, sources) for each in numbers) if leaf is not None)
    if len(read) < 2:
        return
    chosen = _leaf(condition, sources)
    if isinstance(chosen, Register):
        yield f"selp.b{root.width}", (*read, chosen)
    for name in ("min", "max"):
        for kind in "su":
            for pair in (read, read[::-1]):
                yield f"{name}.{kind}{root.width}", pair


def _truths(root: Term, sources: Sequence[Operand]) -> Iterator[Spelled]:
    """Yields comparisons, single or combined with a predicate, and combinations of predicates."""
    yield from _comparisons(root, sources, "", ())
    if root.op is Op.NOT and (inner := _leaf(root.args[0], sources)) is not None:
        yield "not.pred", (inner,)
    word = _JOINED.get(root.op)
    if word is None:
        return
    for first, other in (root.args, root.args[::-1]):
        joined = _truth(other, sources)
        if joined is not None:
            yield from _comparisons(first, sources, f".{word}", (joined,))
    read = tuple(_leaf(arg, sources) for arg in root.args)
    if None not in read:
        yield f"{word}.pred", tuple(operand for operand in read if operand is not None)


def _comparisons(
    root: Term, sources: Sequence[Operand], word: str, joined: tuple[Operand, ...]
) -> Iterator[Spelled]:
    is_negated = root.op is Op.NOT
    inner = root.args[0] if is_negated else root
    if inner.op is Op.EQ:
        names = [(("ne" if is_negated else "eq"), kind) for kind in "su"]
    elif inner.op in _COMPARED:
        names = [_COMPARED[inner.op][is_negated]]
    else:
        return
    read = tuple(_leaf(arg, sources) for arg in inner.args)
    if None in read:
        return
    first, other = (each for each in read if each is not None)
    for name, kind in names:
        for shown, pair in ((name, (first, other)), (_TURNED[name], (other, first))):
            if not isinstance(pair[0], Immediate):
                yield f"setp.{shown}{word}.{kind}{inner.args[0].width}", (*pair, *joined)


def _leaf(leaf: Term, sources: Sequence[Operand]) -> Operand | None:
    if leaf.op is Op.SOURCE:
        return sources[leaf.value]
    if leaf.op is Op.CONST:
        number = signed(leaf.value, leaf.width) if leaf.width > 1 else leaf.value
        return Immediate(number, str(number))
    return None


def _truth(root: Term, sources: Sequence[Operand]) -> Operand | None:
    """Returns a predicate, or a negated one."""
    if root.op is Op.NOT:
        inner = _leaf(root.args[0], sources)
        return Negated(inner) if isinstance(inner, Register) else None
    operand = _leaf(root, sources)
    return operand if isinstance(operand, Register) else None


def _amount(root: Term, sources: Sequence[Operand]) -> Operand | None:
    """Returns a number of bits, of 32 if the shifted number has 64."""
    if root.op is Op.CONST:
        return Immediate(root.value, str(root.value))
    inner = root.args[0] if root.op is Op.ZEXT else root
    return _leaf(inner, sources)
