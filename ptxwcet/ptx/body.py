"""Bodies of functions: the statement loop, block scopes, labels and branch targets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from lark import Token, Tree, UnexpectedInput

from ptxwcet.ir.kernel import (
    BodyItem,
    Directive,
    Immediate,
    Instruction,
    LabelDefinition,
    Origin,
    RegisterDeclaration,
    ScopeBegin,
    ScopeEnd,
    SourceLocation,
    Variable,
)
from ptxwcet.ptx import scopes, statements
from ptxwcet.ptx.declarations import (
    Declared,
    lower_registers,
    lower_variables,
    refusal,
    shorten_lists,
)
from ptxwcet.ptx.grammar import parse_rule
from ptxwcet.ptx.literals import LiteralError, integer_value
from ptxwcet.ptx.lowering import LoweredForm, Statement, lower
from ptxwcet.ptx.operand_builder import LoweringError, tokens
from ptxwcet.ptx.problems import Problems, TooManyProblemsError
from ptxwcet.ptx.scopes import FunctionNames, Scope
from ptxwcet.ptx.shapes import NAME, DirectiveCache, LocationCache, ShapeCache, StatementText
from ptxwcet.ptx.statements import STATEMENT, canonical
from ptxwcet.support.source import SourceFile

DEEPEST_NESTING = 1000
"""Blocks inside blocks; compilers stay below 20."""

_new = tuple.__new__
_split = NAME.split
_GUARD = "@! \t\r\n\f\v"


@dataclass(slots=True)
class FileContext:
    """What all bodies of one file share while it is parsed."""

    source: SourceFile
    problems: Problems
    files: dict[int, str]
    module: Scope
    is_incomplete: bool = False  # an item could not be read: what it declares is not known
    shapes: ShapeCache = field(default_factory=ShapeCache)
    directives: DirectiveCache = field(default_factory=DirectiveCache)
    locations: LocationCache = field(default_factory=LocationCache)
    registers: dict[str, list[tuple[RegisterDeclaration, Declared]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Branch:
    """A branch whose label is resolved at the end of the function, when all labels are known."""

    index: int
    spelled: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class _Table:
    """A branch table, likewise; ``place`` is its extent in the text."""

    unique: str
    spelled: tuple[str, ...]
    scope: Scope
    place: tuple[int, int]


class BodyReader:
    """Reads one function body; the results are its public attributes."""

    def __init__(self, context: FileContext, names: FunctionNames, scope: Scope) -> None:
        self.context = context
        self.text = context.source.text
        self.names = names
        self.scope = scope
        self.instructions: list[Instruction] = []
        self.items: list[tuple[int, BodyItem]] = []
        self.variables: list[Variable] = []
        self._origin = Origin(context.source, None)
        self._locations: dict[str, tuple[Origin, Directive]] = {}
        self._places: dict[tuple[int, int, int], SourceLocation] = {}
        self._opened: list[int] = []
        self._undeclared: set[str] = set()
        self._branches: list[_Branch] = []
        self._tables: list[_Table] = []
        self._indirect: list[tuple[int, str]] = []

    def read(self, start: int) -> int:
        """Read from past the opening brace; returns the offset past the closing one.

        Cost: about 2 microseconds an instruction of a known shape.
        """
        self._opened.append(start - 1)
        position = start
        while self._opened:
            position = self._run(position)
        return position

    def _run(self, position: int) -> int:
        """The inner loop: statements of known shape, until something needs a closer look."""
        plain = self.context.shapes.plain
        branches = self.context.shapes.branches
        append = self.instructions.append
        lookup = self.scope.__getitem__
        types = self.names.types
        origin = self._origin
        for match in STATEMENT.finditer(self.text, position):
            kind = match.lastindex
            if kind != statements.INSTRUCTION:
                resume = self._other(match)
                if resume >= 0:
                    return resume
                lookup = self.scope.__getitem__
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
                    if guard is None or types[names[0]] == "pred":
                        fields = (entry[0], names, entry[1], start, match.end(), origin, ())
                        append(_new(Instruction, fields))
                        continue
                elif raw in branches and (guard is None or types[lookup(spelled[0])] == "pred"):
                    names = (*map(lookup, spelled[:-1]), spelled[-1])
                    append(Instruction(branches[raw], names, (), start, match.end(), origin))
                    self._branch(spelled[-1])
                    continue
            except KeyError:
                pass
            shape = StatementText(mark, mnemonic, operands, raw_operands, raw)
            if not self._shaped(shape, spelled, start, match.end()):
                return self._closer_look(start)
        return self._end_of_text()

    # --- instructions ---

    def _shaped(self, shape: StatementText, spelled: list[str], start: int, end: int) -> bool:
        """An instruction with a name that is no register, or of a new shape. False: look closer."""
        kinds, names = [], []
        for name in spelled:
            kind, unique = self.scope.kind(name)
            kinds.append(kind)
            names.append(unique)
        if shape.guard:
            if kinds[0] != scopes.REGISTER or self.names.types[names[0]] != "pred":
                return False
            del kinds[0]
        found = self.context.shapes.find(shape, "".join(kinds))
        if found is None:
            return False
        self._finish(found.lowered, (names, spelled), found.literals, (start, end))
        return True

    def _finish(
        self,
        lowered: LoweredForm,
        names_and_spellings: tuple[list[str], list[str]],
        literals: tuple[Immediate, ...],
        place: tuple[int, int],
    ) -> None:
        names, spelled = names_and_spellings
        for slot, member in lowered.members:
            names.append(f"{names[slot]}.{member}")
        self.instructions.append(
            Instruction(lowered.form, tuple(names), literals, *place, self._origin)
        )
        if lowered.target_slot >= 0:
            self._branch(spelled[lowered.target_slot])
        if lowered.table_slot >= 0:
            self._indirect.append((len(self.instructions) - 1, names[lowered.table_slot]))

    def _branch(self, label: str) -> None:
        """The last instruction branches to ``label``, which may yet have to come."""
        self._branches.append(_Branch(len(self.instructions) - 1, label, self.scope))

    def _closer_look(self, start: int) -> int:
        """A statement that the inner loop does not know: Lark reads it as it stands.

        Returns where to go on; after an error, behind the statement or at the next one.
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
            fault = self.context.problems.add_syntax(error, start, (start, end))
            return self._after(fault, start, end)
        self._lower_tree(tree, start, end)
        return end

    def _after(self, fault: int, start: int, end: int) -> int:
        """Where to resume after a syntax error: at the fault if a new line begins there."""
        line = self.text.rfind("\n", 0, fault) + 1
        return fault if start < fault < end and not self.text[line:fault].strip() else end

    def _lower_tree(self, tree: Tree[Token], start: int, end: int) -> None:
        *guard, mnemonic, operands = (child for child in tree.children if isinstance(child, Tree))
        mark = None if not guard else ("!" if len(guard[0].children) > 1 else "")
        words = "".join(tokens(mnemonic))
        statement = Statement(mark, words, tuple(operands.children), mnemonic.data == "call")
        spelled = [token for token in tokens(operands) if token.type in _NAME_TOKENS]
        pairs = [self.scope.kind(token) for token in spelled]
        names = [unique for _, unique in pairs]
        texts = [str(token) for token in spelled]
        try:
            if guard:
                register = tokens(guard[0])[-1]
                names.insert(0, self._guard(register))
                texts.insert(0, str(register))
            lowered = lower(statement, [kind for kind, _ in pairs])
        except LoweringError as error:
            self._refuse(error, start, start + len(words))
        except LiteralError as error:
            self.context.problems.add("PW107", str(error), (start, end))
        else:
            self._finish(lowered, (names, texts), lowered.literals, (start, end))

    def _guard(self, token: Token) -> str:
        kind, unique = self.scope.kind(token)
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
        """A statement that is no instruction. Returns where to go on, -1 for behind it."""
        kind = match.lastindex
        start, end = match.span(kind or 0)
        if kind == statements.LOCATION:
            return self._location(match.group(kind), start)
        if kind == statements.LABEL:
            self._label(match.group(kind), start)
            return -1
        if kind == statements.BRACE:
            return self._brace(match.group(kind) == "{", start)
        if kind in (statements.TABLE, statements.DIRECTIVE):
            return self._directive(start, end)
        return self._closer_look(start)

    def _brace(self, opening: bool, start: int) -> int:
        if opening:
            self._opened.append(start)
            if len(self._opened) > DEEPEST_NESTING:
                message = f"blocks nested more than {DEEPEST_NESTING} deep"
                self.context.problems.add("PW117", message, (start, start + 1))
                raise TooManyProblemsError
            self._item(ScopeBegin(self.names.scopes))
            self.scope = Scope(self.scope, self.names)
            return -1
        self._opened.pop()
        if not self._opened:
            self._resolve()
            return start + 1
        self._item(ScopeEnd())
        assert self.scope.parent is not None
        self.scope = self.scope.parent
        return -1

    def _end_of_text(self) -> int:
        opened = self._opened[-1]
        line = self.context.source.position(opened)[0]
        end = len(self.text.rstrip())
        self.context.problems.add(
            "PW111",
            f"the file ends inside the block opened on line {line}",
            (max(0, end - 1), end),
            "add the missing '}', or check that the file is complete",
        )
        self._opened.clear()
        return len(self.text)

    def _item(self, item: BodyItem) -> None:
        self.items.append((len(self.instructions), item))

    def _duplicate(self, name: str, place: tuple[int, int]) -> None:
        self.context.problems.add(
            "PW105",
            f"'{name}' is declared twice in one block",
            place,
            "rename one of them, or open a block with '{ }' around the second",
        )

    def _label(self, text: str, start: int) -> None:
        scope = self.scope
        if text in scope.labels or text in scope.own or text in scope.others:
            self._duplicate(text, (start, start + len(text)))
            return
        unique = text + scope.suffix
        scope.labels[text] = unique
        self.names.labels[unique] = len(self.instructions)
        self._item(LabelDefinition(text, unique))

    def _location(self, text: str, start: int) -> int:
        known = self._locations.get(text)
        if known is None:
            try:
                numbers, line = self.context.locations.read(text)
            except UnexpectedInput as error:
                place = (start, start + len(text))
                self.context.problems.add_syntax(error, start, place)
                return place[1]
            origin = Origin(self.context.source, self._source_location(numbers))
            known = self._locations[text] = origin, Directive(".loc", line)
        self._origin = known[0]
        self._item(known[1])
        return -1

    def _source_location(self, numbers: list[int]) -> SourceLocation:
        """From file, line, column and, behind them, those of the place that it was inlined at."""
        outer: SourceLocation | None = None
        if len(numbers) > 3:
            key = (numbers[-3], numbers[-2], numbers[-1])
            outer = self._places.get(key)
            if outer is None:
                outer = SourceLocation(self._file(key[0]), key[1], key[2])
        number, line, column = numbers[:3]
        location = SourceLocation(self._file(number), line, column, outer)
        self._places[number, line, column] = location
        return location

    def _file(self, number: int) -> str:
        return self.context.files.get(number, f"file {number}")

    def _directive(self, start: int, end: int) -> int:
        """Registers, variables, tables, pragmas. Returns where to go on."""
        text = self.text[start:end]
        registers = self.context.registers.get(text)
        if registers is None:
            try:
                tree = self.context.directives.parse(shorten_lists(text), "declaration")
                if tree.data != "registers":
                    self._declare(tree, text, (start, end))
                    return end
                registers = self.context.registers[text] = lower_registers(tree)
            except UnexpectedInput as error:
                fault = self.context.problems.add_syntax(error, start, (start, end))
                return self._after(fault, start, end)
            except LiteralError as error:
                self.context.problems.add("PW107", str(error), (start, end))
                return end
        for declaration, declared in registers:
            self._declare_register(declaration, declared, start)
        return end

    def _declare_register(
        self, declaration: RegisterDeclaration, declared: Declared, start: int
    ) -> None:
        scope, name = self.scope, declaration.name
        place = (start + declared.start, start + declared.end)
        if declaration.count is None:
            if scope.is_taken(name) or name in scope.labels:
                self._duplicate(name, place)
            elif declaration.vector:
                scope.declare_vector(name, declaration.vector, declaration.type)
            else:
                scope.declare_register(name, declaration.type)
        elif declaration.vector:
            for number in range(min(declaration.count, _MOST_VECTORS)):
                scope.declare_vector(f"{name}{number}", declaration.vector, declaration.type)
        elif not scope.declare_range(name, declaration.count, declaration.type):
            self._duplicate(f"{name}<{declaration.count}>", place)
        self._item(declaration)

    def _declare(self, tree: Tree[Token], text: str, place: tuple[int, int]) -> None:
        if tree.data == "pragma":
            self._item(Directive(".pragma", canonical(text)))
        elif tree.data == "local_variable":
            for variable, declared in lower_variables(tree, text):
                self._declare_variable(variable, declared, place[0])
        else:
            self._declare_table(tree, text, place)

    def _declare_variable(self, variable: Variable, declared: Declared, start: int) -> None:
        place = (start + declared.start, start + declared.end)
        if self.scope.is_taken(variable.name) or variable.name in self.scope.labels:
            self._duplicate(variable.name, place)
            return
        reason = refusal(variable)
        if reason is not None:
            self.context.problems.add("PW118", reason, place)
        unique = self.scope.declare(variable.name, scopes.VARIABLE)
        unique_variable = replace(variable, name=unique)
        self.variables.append(unique_variable)
        self._item(unique_variable)

    def _declare_table(self, tree: Tree[Token], text: str, place: tuple[int, int]) -> None:
        name, *words = tokens(tree)
        if self.scope.is_taken(name) or name in self.scope.labels:
            self._duplicate(name, (place[0], place[0] + len(name)))
            return
        if tree.data == "branch_targets":
            unique = self.scope.declare(str(name), scopes.TABLE)
            labels = _table_labels(tree)
            self._tables.append(_Table(unique, labels, self.scope, place))
        else:
            self.scope.declare(str(name), scopes.PROTOTYPE)
            if tree.data == "call_targets":
                for word in words:
                    if self.scope.kind(word)[0] != scopes.FUNCTION:
                        message = f"'{word}' is no function declared above"
                        self.context.problems.add("PW104", message, place)
        self._item(Directive(f".{str(tree.data).replace('_', '')}", canonical(text)))

    def _resolve(self) -> None:
        """Give every branch and branch table the unique names of its labels."""
        for branch in self._branches:
            unique = branch.scope.find_label(branch.spelled)
            instruction = self.instructions[branch.index]
            if unique is None:
                self._nowhere(branch.spelled, (instruction.start, instruction.end))
                continue
            self.instructions[branch.index] = instruction._replace(
                names=(*instruction.names[:-1], unique), targets=(unique,)
            )
        for table in self._tables:
            found = []
            for spelled in table.spelled:
                unique = table.scope.find_label(spelled)
                if unique is None:
                    self._nowhere(spelled, table.place)
                else:
                    found.append(unique)
            self.names.tables[table.unique] = tuple(found)
        for index, name in self._indirect:
            instruction = self.instructions[index]
            self.instructions[index] = instruction._replace(targets=self.names.tables[name])

    def _nowhere(self, label: str, place: tuple[int, int]) -> None:
        inside = any(unique.split("@")[0] == label for unique in self.names.labels)
        self.context.problems.add(
            "PW106",
            f"branch to '{label}', which is no label here",
            place,
            "a label inside a block cannot be reached from outside it" if inside else "",
        )


_NAME_TOKENS = frozenset({"NAME", "SINK", "WARP_SZ"})
_MOST_VECTORS = 1 << 16


def _table_labels(tree: Tree[Token]) -> tuple[str, ...]:
    """The labels of a ``.branchtargets``, ranges ``L<2>`` written out."""
    found: list[str] = []
    for child in tree.children:
        if isinstance(child, Tree) and child.data == "branch_target":
            name, *count = tokens(child)
            if count:
                size = min(integer_value(count[0]), _MOST_VECTORS)
                found.extend(f"{name}{number}" for number in range(size))
            else:
                found.append(str(name))
    return tuple(found)
