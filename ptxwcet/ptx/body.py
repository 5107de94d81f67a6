"""Reads the bodies of functions: the statement loop, block scopes, labels, branch targets."""

from __future__ import annotations

import re
from dataclasses import field, replace

from lark import Token, Tree, UnexpectedInput

from ptxwcet.ir.kernel import Instruction, InstructionForm, Origin, RegisterDeclaration
from ptxwcet.ir.needs import Target, directive_words, unmet
from ptxwcet.ir.operands import Immediate
from ptxwcet.ptx import scopes, statements
from ptxwcet.ptx.blocks import Blocks
from ptxwcet.ptx.declarations import Declared, lower_registers, shorten_lists
from ptxwcet.ptx.grammar import Node, first_token, is_tree, parse_rule, tokens
from ptxwcet.ptx.literals import LITERAL, LiteralError, evaluate, immediate
from ptxwcet.ptx.locations import LocationCache, Locations
from ptxwcet.ptx.lowering import (
    NEWER,
    LoweredForm,
    Statement,
    check_operands,
    lower,
    written_operands,
)
from ptxwcet.ptx.operand_builder import LoweringError
from ptxwcet.ptx.problems import Problems
from ptxwcet.ptx.scopes import CONSTANT, REGISTER, SINK, FunctionNames, Scope
from ptxwcet.ptx.statements import STATEMENT
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile

# --- Statement shapes: Lark parses each distinct shape once, all other statements reuse the result
# A statement's *raw shape* is its text with every name replaced by a mark::
#
#     ld.global.f32 %f1, [%rd4+16];      ->  ld.global.f32 @, [@+16]      names %f1, %rd4
#     ld.global.f32 %f2, [%rd4+20];      ->  ld.global.f32 @, [@+20]
#
# and its *shape* has marks in place of the literals too, one mark a kind of literal, so that these
# two share a shape. A mark represents one token and nothing else (a sign stays in the shape),
# therefore two statements of one shape have the same syntax tree up to the texts of names and
# literals. A shape is kept only where its tree has the literals that the pattern has seen.
# Statements with constant expressions share nothing: their values are folded into the form.


NAME = re.compile(r"(?<![\w.$])([%$A-Za-z_][\w$]*+)", re.ASCII)
"""A name in the text of operands; must agree with the grammar's NAME and SINK."""

_OTHER_KINDS = re.compile(f"[^{SINK}{CONSTANT}]")
"""Kinds other than the grammar's NAME; ``_`` and WARP_SZ are terminals of their own."""

_LITERAL_MARKS = {"INT": "\2", "FLOAT": "\3", "HEXFLOAT": "\4", "HEXDOUBLE": "\5"}


@dataclass(frozen=True, slots=True)
class ShapedForm:
    """A form and the literals of one raw shape; ``accepted``: the types of names that fit it."""

    lowered: LoweredForm
    literals: tuple[Immediate, ...]
    accepted: set[tuple[str, ...]]


_Plain = tuple[InstructionForm, tuple[Immediate, ...], set[tuple[str, ...]]]


@dataclass(slots=True)
class ShapeCache:
    """The forms by shape; the cache lives as long as one file is parsed.

    ``plain`` maps the raw shapes whose names are all scalar registers directly to the parts of an
    instruction and the types of names that fit, ``branches`` does so for ``bra``; the parser's
    inner loop reads them directly.
    """

    target: Target = Target()
    plain: dict[str, _Plain] = field(default_factory=dict)
    branches: dict[str, InstructionForm] = field(default_factory=dict)
    _raw: dict[tuple[str, str], ShapedForm | None] = field(default_factory=dict)
    _shapes: dict[tuple[str, str], LoweredForm] = field(default_factory=dict)
    _mnemonics: dict[str, bool] = field(default_factory=dict)
    _operands: dict[tuple[str, bool, str], tuple[Node, ...]] = field(default_factory=dict)

    def find(self, parts: StatementText, kinds: str) -> ShapedForm | None:
        """Returns the form of a statement; None if it has none (the slow path finds the reason).

        Cost: a look-up for a known raw shape, a few microseconds for a known shape, one run of Lark
        over the operands for a new one.
        """
        key = (parts.raw, kinds)
        try:
            return self._raw[key]
        except KeyError:
            pass
        form = self._make(parts, kinds)
        self._raw[key] = form
        if form is None:
            return None
        if form.lowered.target_slot >= 0:
            self.branches[parts.raw] = form.lowered.form
        elif form.lowered.is_plain and kinds == REGISTER * len(kinds):
            self.plain[parts.raw] = (form.lowered.form, form.literals, form.accepted)
        return form

    def _make(self, parts: StatementText, kinds: str) -> ShapedForm | None:
        literals: list[tuple[str, str]] = []
        shape = LITERAL.sub(lambda match: _mark(match, literals), parts.raw_operands)
        key = (f"{parts.guard}{parts.mnemonic} {shape}", kinds)
        try:
            lowered = self._shapes.get(key)
            values = tuple([immediate(kind, text) for kind, text in literals])
            if lowered is not None:
                return _shaped(lowered, values)
            lowered = self._lower(parts, shape, kinds, values)
        except (UnexpectedInput, LoweringError, LiteralError):
            return None
        if lowered.shareable:
            self._shapes[key] = lowered
            return _shaped(lowered, values)
        return _shaped(lowered, lowered.literals)

    def _lower(
        self, parts: StatementText, shape: str, kinds: str, values: tuple[Immediate, ...]
    ) -> LoweredForm:
        is_call = self._mnemonics.get(parts.mnemonic)
        if is_call is None:
            is_call = parts.mnemonic.partition(".")[0] == "call"
            parse_rule(parts.mnemonic, "call" if is_call else "mnemonic")
            self._mnemonics[parts.mnemonic] = is_call
        guard = None if not parts.guard else parts.guard[1:]
        key = (shape, is_call, _OTHER_KINDS.sub(REGISTER, kinds))
        cached_operands = self._operands.get(key)
        if cached_operands is not None:
            return lower(
                Statement(guard, parts.mnemonic, cached_operands, is_call), kinds, self.target
            )
        tree = parse_rule(parts.operands, "call_operands" if is_call else "operands")
        operands = tuple(tree.children)
        statement = Statement(guard, parts.mnemonic, operands, is_call)
        lowered = lower(statement, kinds, self.target)
        if not lowered.shareable or lowered.literals != values:
            return replace(lowered, shareable=False)
        self._operands[key] = operands
        return lowered


def _shaped(lowered: LoweredForm, literals: tuple[Immediate, ...]) -> ShapedForm:
    """Shares the types that fit among raw shapes of a shape, unless values of literals matter."""
    whole = all(isinstance(literal.value, int) for literal in literals)
    shared = lowered.shared if whole else None
    return ShapedForm(lowered, literals, set() if shared is None else shared)


@dataclass(frozen=True, slots=True)
class StatementText:
    """An instruction split by the statement regex. ``guard`` is ``""``, ``@`` or ``@!``."""

    guard: str
    mnemonic: str
    operands: str
    raw_operands: str
    raw: str


def _mark(match: re.Match[str], literals: list[tuple[str, str]]) -> str:
    kind = match.lastgroup
    assert kind is not None
    literals.append((kind, match.group()))
    return _LITERAL_MARKS[kind]


# --- The statement loop ---------------------------------------------------------------------------

_new = tuple.__new__
_split = NAME.split
_GUARD = "@! \t\r\n\f\v"


_MOST_OF_A_DIRECTIVE = 4096


@dataclass(slots=True)
class FileContext:
    """Source, error list, module scope and the caches of one file."""

    source: SourceFile
    problems: Problems
    files: dict[int, tuple[str, str]]
    module: Scope
    is_incomplete: bool = False  # an unread item may declare names
    shapes: ShapeCache = field(default_factory=ShapeCache)
    locations: LocationCache = field(default_factory=LocationCache)
    registers: dict[str, list[tuple[RegisterDeclaration, Declared]]] = field(default_factory=dict)

    def check_target(self, text: str, place: tuple[int, int]) -> None:
        """Reports a directive that is newer than the file's ``.version`` or ``.target``."""
        reason = unmet(*directive_words(text[:_MOST_OF_A_DIRECTIVE]), self.shapes.target)
        if reason:
            self.problems.add("PW118", reason, place, NEWER)


class BodyReader:
    """The reader of one function body; the results are its public attributes."""

    def __init__(self, context: FileContext, names: FunctionNames, scope: Scope) -> None:
        self.context = context
        self.text = context.source.text
        self.names = names
        self.instructions: list[Instruction] = []
        self.blocks = Blocks(context.problems, names, scope, self.instructions)
        self._origin = Origin(context.source, None)
        self._locations = Locations(context.source, context.files, context.locations)
        self._undeclared: set[str] = set()

    def read(self, start: int) -> int:
        """Reads from past the opening brace; returns the offset past the closing one.

        Cost: about 2 microseconds per instruction of a known shape.
        """
        self.blocks.opened.append(start - 1)
        position = start
        while self.blocks.opened:
            position = self._run(position)
        return position

    def _run(self, position: int) -> int:
        """Reads statements of known shape, until one needs a closer look: the inner loop."""
        plain = self.context.shapes.plain
        branches = self.context.shapes.branches
        instructions = self.instructions
        append = instructions.append
        add_item = self.blocks.items.append
        locations = self._locations.known
        add_branch = self.blocks.targets.add_branch
        lookup = self.blocks.scope.__getitem__
        types = self.names.types
        type_of = types.__getitem__
        origin = self._origin
        for match in STATEMENT.finditer(self.text, position):
            kind = match.lastindex
            if kind != statements.INSTRUCTION:
                if kind is None:
                    break
                location = locations.get(match.group(kind))
                if location is not None:
                    self._origin, directive = location
                    origin = self._origin
                    add_item((len(instructions), directive))
                    continue
                resume = self._other(match)
                if resume >= 0:
                    return resume
                lookup = self.blocks.scope.__getitem__
                origin = self._origin
                continue
            guard, mnemonic, operands = match.group(1, 2, 3)
            parts = _split(operands)
            spelled = parts[1::2]
            raw_operands = "\0".join(parts[::2])
            if guard is None:
                mark = ""
                start = match.start(2)
            else:
                mark = "@!" if "!" in guard else "@"
                spelled.insert(0, guard.strip(_GUARD))
                start = match.start(1)
            raw = f"{mark}{mnemonic} {raw_operands}"
            entry = plain.get(raw)
            try:
                if entry is not None:
                    names = tuple(map(lookup, spelled))
                    if tuple(map(type_of, names)) in entry[2]:
                        fields = (entry[0], names, entry[1], start, match.end(), origin, ())
                        append(_new(Instruction, fields))
                        continue
                elif raw in branches and (guard is None or types[lookup(spelled[0])] == "pred"):
                    names = (*map(lookup, spelled[:-1]), spelled[-1])
                    append(Instruction(branches[raw], names, (), start, match.end(), origin))
                    add_branch(len(instructions) - 1, spelled[-1], self.blocks.scope)
                    continue
            except KeyError:
                pass
            shape = StatementText(mark, mnemonic, operands, raw_operands, raw)
            if not self._shaped(shape, spelled, start, match.end()):
                return self._closer_look(start)
        self.blocks.end_of_text(self.text)
        return len(self.text)

    # --- instructions ---

    def _shaped(self, shape: StatementText, spelled: list[str], start: int, end: int) -> bool:
        """Adds an instruction of a new shape or with other names; False: it needs a closer look."""
        if end - start > statements.LONGEST_STATEMENT:
            return False
        kinds, names = [], []
        for name in spelled:
            kind, unique = self.blocks.scope.kind(name)
            if kind == scopes.SPECIAL and unmet("%", {name[1:]}, self.context.shapes.target):
                return False
            kinds.append(kind)
            names.append(unique)
        if shape.guard:
            if kinds[0] != scopes.REGISTER or self.names.types[names[0]] != "pred":
                return False
            del kinds[0]
        form = self.context.shapes.find(shape, "".join(kinds))
        if form is None:
            return False
        instruction = self._made(form.lowered, names, form.literals, (start, end))
        types, spaces = self.names.types, self.names.spaces
        key = tuple([types.get(name) or spaces.get(name, "") for name in instruction.names])
        if key not in form.accepted:
            if check_operands(form.lowered, instruction, types, spaces) is not None:
                return False
            form.accepted.add(key)
        self._finish(form.lowered, instruction, spelled)
        return True

    def _made(
        self,
        lowered: LoweredForm,
        names: list[str],
        literals: tuple[Immediate, ...],
        place: tuple[int, int],
    ) -> Instruction:
        members = [f"{names[slot]}.{member}" for slot, member in lowered.members]
        return Instruction(lowered.form, (*names, *members), literals, *place, self._origin)

    def _finish(self, lowered: LoweredForm, instruction: Instruction, spelled: list[str]) -> None:
        names = instruction.names
        self.instructions.append(instruction)
        index = len(self.instructions) - 1
        if lowered.target_slot >= 0:
            self.blocks.targets.add_branch(index, spelled[lowered.target_slot], self.blocks.scope)
        if lowered.table_slot >= 0:
            self.blocks.targets.add_indirect(index, names[lowered.table_slot])

    def _closer_look(self, start: int) -> int:
        """Reads a statement that the inner loop does not know, by Lark.

        Returns the offset to continue at; after an error, past the statement or at the next one.
        """
        after_marker = statements.line_marker_end(self.text, start)
        if after_marker >= 0:
            return after_marker
        end, _ = statements.statement_end(self.text, start)
        if self.text[start] == ".":
            return self._directive(start, end)
        if end - start > statements.LONGEST_STATEMENT:
            self.context.problems.add("PW101", "statement without end", (start, start + 1))
            return end
        try:
            tree = parse_rule(self.text[start:end], "instruction")
        except UnexpectedInput as error:
            fault = self.context.problems.add_unread(error, start, end)
            return self._after(fault, start, end)
        self._lower_tree(tree, start, end)
        return end

    def _after(self, fault: int, start: int, end: int) -> int:
        """Returns where to resume after a syntax error: at the fault if a new line begins there."""
        line = self.text.rfind("\n", 0, fault) + 1
        return fault if start < fault < end and not self.text[line:fault].strip() else end

    def _lower_tree(self, tree: Tree[Token], start: int, end: int) -> None:
        *guard, mnemonic, operands = (child for child in tree.children if isinstance(child, Tree))
        mark = None if not guard else ("!" if len(guard[0].children) > 1 else "")
        words = "".join(tokens(mnemonic))
        statement = Statement(mark, words, tuple(operands.children), mnemonic.data == "call")
        nodes = self._without_sums(statement, start, end)
        statement = replace(statement, operands=nodes)
        spelled = [token for node in nodes for token in tokens(node) if token.type in _NAME_TOKENS]
        pairs = [self.blocks.scope.kind(token) for token in spelled]
        names = [unique for _, unique in pairs]
        texts = [str(token) for token in spelled]
        try:
            if guard:
                register = tokens(guard[0])[-1]
                names.insert(0, self._guard(register))
                texts.insert(0, str(register))
            lowered = lower(statement, [kind for kind, _ in pairs], self.context.shapes.target)
            made = self._made(lowered, names, lowered.literals, (start, end))
            self._check(lowered, made, statement)
            self._check_special(spelled, [kind for kind, _ in pairs])
        except LoweringError as error:
            self._refuse(error, start, start + len(words))
        except LiteralError as error:
            self.context.problems.add("PW107", str(error), (start, end))
        else:
            self._finish(lowered, made, texts)

    def _check_special(self, spelled: list[Token], kinds: list[str]) -> None:
        for token, kind in zip(spelled, kinds, strict=True):
            if kind == scopes.SPECIAL:
                reason = unmet("%", {token[1:]}, self.context.shapes.target)
                if reason:
                    raise LoweringError("PW113", reason, token, NEWER)

    def _without_sums(self, statement: Statement, start: int, end: int) -> tuple[Node, ...]:
        """Returns the operands, with a new register for each sum with a constant (``%r1+4``).

        As in ptxas, an addition before the instruction computes it.
        """
        nodes = list(statement.operands)
        for place, node in enumerate(nodes):
            if not is_tree(node, "base_offset") or place < written_operands(statement):
                continue
            kind, unique = self.blocks.scope.kind(first_token(node))
            declared = self.names.types.get(unique, "")
            if kind == scopes.REGISTER and declared[0] in "bus" and declared[1:] in _SUMMED:
                nodes[place] = self._sum(node, declared, start, end)
        return tuple(nodes)

    def _sum(self, node: Node, declared: str, start: int, end: int) -> Node:
        assert isinstance(node, Tree)
        register, constant = first_token(node), evaluate(node.children[1])
        name = f"%sum_{len(self.instructions)}_{register.start_pos}"
        place = Declared(name, register.start_pos or 0, register.end_pos or 0)
        self.blocks.declare_register(RegisterDeclaration(name, declared), place, start)
        text = f"add.u{declared[1:]} {name}, {register}, {constant}"
        self._lower_tree(parse_rule(f"{text};", "instruction"), start, end)
        return Tree("plain", [Token("NAME", name, register.start_pos, register.line)])

    def _check(self, lowered: LoweredForm, made: Instruction, statement: Statement) -> None:
        fault = check_operands(lowered, made, self.names.types, self.names.spaces)
        if fault is None:
            return
        place = max(0, min(fault.place, len(statement.operands) - 1))
        token = first_token(statement.operands[place]) if statement.operands else None
        message = f"{made.mnemonic}, operand {fault.place + 1}: {fault.message}"
        raise LoweringError("PW108", message, token)

    def _guard(self, token: Token) -> str:
        kind, unique = self.blocks.scope.kind(token)
        if kind != scopes.REGISTER:
            raise LoweringError("PW104", f"'{token}' is not declared here", token)
        if self.names.types[unique] != "pred":
            raise LoweringError("PW108", f"the guard '{token}' is not a predicate", token)
        return unique

    def _refuse(self, error: LoweringError, start: int, end: int) -> None:
        token = error.token
        if token is not None and token.start_pos is not None:
            if error.code == "PW104":
                if token in self._undeclared or self.context.is_incomplete:
                    return
                self._undeclared.add(str(token))
            end = start + token.start_pos + len(token)
            start += token.start_pos
        self.context.problems.add(error.code, error.message, (start, end), error.help_text or "")

    # --- everything else ---

    def _other(self, match: re.Match[str]) -> int:
        """Reads any other statement. Returns the offset to continue at, -1 for past it."""
        kind = match.lastindex
        start, end = match.span(kind or 0)
        if kind == statements.LOCATION:
            return self._location(match.group(kind), start)
        if kind == statements.LABEL:
            self.blocks.label(match.group(kind), start)
            return -1
        if kind == statements.BRACE:
            if match.group(kind) == "}":
                return end if self.blocks.close() else -1
            self.blocks.open(start)
            return -1
        if kind in (statements.TABLE, statements.DIRECTIVE):
            return self._directive(start, end)
        return self._closer_look(start)

    def _location(self, text: str, start: int) -> int:
        end = start + len(text)
        try:
            self._origin, directive = self._locations.read(text)
        except (UnexpectedInput, LiteralError) as error:
            self.context.problems.add_unread(error, start, end)
            return end
        self.blocks.add(directive)
        return -1

    def _directive(self, start: int, end: int) -> int:
        """Reads registers, variables, tables, pragmas. Returns the offset to continue at."""
        text = self.text[start:end]
        registers = self.context.registers.get(text)
        if registers is None:
            self.context.check_target(text, (start, end))
            try:
                tree = parse_rule(shorten_lists(text), "declaration")
                if tree.data != "registers":
                    self.blocks.declare(tree, text, (start, end))
                    return end
                registers = self.context.registers[text] = lower_registers(tree)
            except (UnexpectedInput, LiteralError) as error:
                fault = self.context.problems.add_unread(error, start, end)
                return self._after(fault, start, end)
        for declaration, declared in registers:
            self.blocks.declare_register(declaration, declared, start)
        return end


_SUMMED = frozenset(("16", "32", "64"))
_NAME_TOKENS = frozenset({"NAME", "SINK", "WARP_SZ"})
