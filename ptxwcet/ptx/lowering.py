"""Lowers one instruction's syntax tree to its :class:`InstructionForm`.

The form is built for one combination of operand syntax and kinds of names (register, variable ...);
instructions of the same shape share it. Names and literals are numbered in textual order: these are
the slots. All mismatches of arguments that ptxas reports and that depend only on the shape are
refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from lark import Token

from ptxwcet.ir.building import form_of
from ptxwcet.ir.instruction_set import find_opcode
from ptxwcet.ir.kernel import Instruction, InstructionForm
from ptxwcet.ir.needs import Target, unmet, words_of
from ptxwcet.ir.op_classes import ControlEffect, Space
from ptxwcet.ir.opcodes import BySpace, Opcode
from ptxwcet.ir.operands import Immediate
from ptxwcet.ir.permitted import Form, depends_on_literals, gives_pairs, matching
from ptxwcet.ir.permitted_operands import OperandRefusal, refusal
from ptxwcet.ir.words import count_spaces, is_impossible_type
from ptxwcet.ptx.grammar import Node, is_tree
from ptxwcet.ptx.operand_builder import LoweringError, OperandBuilder
from ptxwcet.support.records import dataclass


@dataclass(frozen=True, slots=True)
class LoweredForm:
    """A form with all data needed to make instructions of it.

    ``permitted`` are the forms that its operands may fit; empty if the opcode is not
    judged. ``literals`` are the literals of the statement that it was built from, in slot order;
    ``shareable`` is False if their values are part of the form (constant expressions). ``members``
    lists (slot, member) of vector registers: their names are appended to the slots. ``functions``
    are the slots of operands that are names of functions. ``shared``: the types of names that fit,
    for any integer literals; None if these matter. ``target_slot`` and ``table_slot`` are the label
    of a branch and the table of brx.idx, or -1.
    """

    form: InstructionForm
    permitted: tuple[Form, ...]
    literals: tuple[Immediate, ...]
    shareable: bool
    members: tuple[tuple[int, str], ...]
    functions: tuple[int, ...]
    target_slot: int
    table_slot: int
    shared: set[tuple[str, ...]] | None

    @property
    def is_plain(self) -> bool:
        """True if an instruction needs only resolved names in textual order."""
        return not self.members and self.target_slot < 0 and self.table_slot < 0


@dataclass(frozen=True, slots=True)
class Statement:
    """The parts of an instruction's syntax tree; ``guard`` is None, ``""`` or ``"!"``."""

    guard: str | None
    mnemonic: str
    operands: tuple[Node, ...]
    is_call: bool


def lower(statement: Statement, kinds: Sequence[str], target: Target) -> LoweredForm:
    """Returns the form of an instruction. ``kinds``: the kind of each operand name, in order.

    ``target`` is the file's. Raises LoweringError for a wrong number of operands, an undeclared
    name, a destination that cannot be written and the like, LiteralError for constants without a
    value. Cost: linear.
    """
    opcode, modifiers, permitted = _decoded(statement.mnemonic)
    literals_count = depends_on_literals(permitted)
    space = Space.NONE if opcode is None else opcode.space(modifiers)
    first_slot = 0 if statement.guard is None else 1
    builder = OperandBuilder(
        kinds,
        opcode,
        first_slot,
        space not in (Space.NONE, Space.LOCAL),
        pairs=not permitted or gives_pairs(permitted),
    )
    if statement.is_call:
        templates = builder.call(statement.operands)
    else:
        _check_count(statement, opcode)
        if opcode is not None:
            _check_target(opcode, modifiers, statement.operands, target)
        templates = builder.operands(statement.operands, _destinations(statement, opcode))
    form = form_of(
        statement.mnemonic,
        (opcode, modifiers),
        None if statement.guard is None else statement.guard == "!",
        templates,
        (([] if statement.guard is None else [0]) + builder.reads, builder.writes),
        builder.callee_slot,
    )
    return LoweredForm(
        form,
        permitted,
        tuple(builder.literals),
        builder.shareable,
        tuple(builder.members),
        tuple(builder.functions),
        builder.target_slot,
        builder.table_slot,
        None if literals_count else set(),
    )


@lru_cache(maxsize=4096)
def _decoded(mnemonic: str) -> tuple[Opcode | None, tuple[str, ...], tuple[Form, ...]]:
    """Returns opcode, modifiers and the forms that have them. Raises LoweringError.

    Many shapes share a mnemonic; the bound limits the memory of a file of nonsense.
    """
    words = mnemonic.split(".")
    opcode, count = find_opcode(words)
    modifiers = tuple(words[count:])
    _check_modifiers(opcode, modifiers)
    return opcode, modifiers, () if opcode is None else _permitted(opcode, modifiers)


_DIRECTIVES = frozenset(
    (
        *("reg", "entry", "func", "loc", "file", "section", "pragma", "align", "ptr"),
        *("version", "target", "address_size", "extern", "visible", "common", "maxntid"),
        *("reqntid", "minnctapersm", "maxnreg", "branchtargets", "calltargets", "callprototype"),
    )
)


_PLAIN_CONTROL = frozenset(
    {
        ControlEffect.BRANCH,
        ControlEffect.INDIRECT_BRANCH,
        ControlEffect.CALL,
        ControlEffect.RETURN,
        ControlEffect.EXIT,
        ControlEffect.TRAP,
    }
)


def _check_modifiers(opcode: Opcode | None, modifiers: Sequence[str]) -> None:
    for modifier in modifiers:
        if is_impossible_type(modifier):
            raise LoweringError("PW113", f"unknown modifier '.{modifier}'")
        if modifier in _DIRECTIVES:
            raise LoweringError(
                "PW113",
                f"unknown modifier '.{modifier}'",
                help_text="a directive: end a label before it with ':', a statement with ';'",
            )
    if opcode is None:
        return
    if opcode.control in _PLAIN_CONTROL and set(modifiers) - {"uni"}:
        raise LoweringError("PW113", f"{opcode.name} takes no modifier but '.uni'")
    if isinstance(opcode.rule, BySpace) and count_spaces(modifiers) > 1:
        raise LoweringError("PW113", f"{opcode.name} takes one state space")


def _permitted(opcode: Opcode, modifiers: tuple[str, ...]) -> tuple[Form, ...]:
    if not opcode.is_judged(modifiers):
        return ()
    forms, reason = matching(opcode.forms, modifiers)
    if not forms:
        written = ".".join((opcode.name, *modifiers))
        raise LoweringError(
            "PW113",
            f"there is no '{written}': {reason}",
            help_text="compare with the forms of the instruction in the PTX ISA manual",
        )
    return tuple(forms)


def _check_target(
    opcode: Opcode,
    modifiers: Sequence[str],
    operands: Sequence[Node],
    target: Target,
) -> None:
    """Raises LoweringError if ``.version`` or ``.target`` is too old for an instruction."""
    count = len(operands) if opcode.control is ControlEffect.NONE else 0
    marks = "|" * any(is_tree(operand, "pair") for operand in operands)
    marks += "_" * any(isinstance(node, Token) and node.type == "SINK" for node in operands)
    words = words_of(modifiers, count, marks)
    reason = unmet(opcode.name, words, target)
    if reason:
        raise LoweringError("PW113", reason, help_text=NEWER)


NEWER = "compile for a newer architecture, or with a newer .version"


def check_operands(
    lowered: LoweredForm,
    instruction: Instruction,
    types: Mapping[str, str],
    spaces: Mapping[str, str],
) -> OperandRefusal | None:
    """Returns why the operands do not fit the instruction. ``types`` has each register's by unique
    name, ``spaces`` each variable's.

    Cost: linear in the operands; callers use it once for each text of literals and types.
    """
    if not lowered.permitted:
        return None
    functions = {instruction.names[slot] for slot in lowered.functions}
    return refusal(lowered.permitted, instruction, types, spaces, functions)


def _check_count(statement: Statement, opcode: Opcode | None) -> None:
    if opcode is None:
        return
    (least, most), _ = opcode.counts
    given = len(statement.operands)
    if not least <= given <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        plural = "" if wanted == "1" else "s"
        raise LoweringError("PW108", f"{opcode.name} takes {wanted} operand{plural}, {given} given")


def written_operands(statement: Statement) -> int:
    """Returns the number of leading operands that are written; for a call all of them."""
    opcode, _ = find_opcode(statement.mnemonic.split("."))
    return len(statement.operands) if statement.is_call else _destinations(statement, opcode)


def _destinations(statement: Statement, opcode: Opcode | None) -> int:
    """Returns the number of leading operands that are written; never an address."""
    if opcode is None:
        return 0
    before_address = 0
    for node in statement.operands:
        if is_tree(node, "bracket", "element"):
            break
        before_address += 1
    _, destinations = opcode.counts
    return min(destinations, before_address)
