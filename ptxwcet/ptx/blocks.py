"""Collects the blocks of a function body: scopes, labels and declarations, in text order.

Branch targets are resolved at the end of a function, when all of its labels are known.
"""

from __future__ import annotations

from dataclasses import field, replace

from lark import Token, Tree

from ptxwcet.ir.kernel import (
    BodyItem,
    Directive,
    Instruction,
    LabelDefinition,
    RegisterDeclaration,
    ScopeBegin,
    ScopeEnd,
    Variable,
)
from ptxwcet.ptx import scopes
from ptxwcet.ptx.declarations import (
    HANDLES,
    MOST_NAMES,
    Declared,
    lower_variables,
    names_of,
    refusal,
    space_of,
)
from ptxwcet.ptx.grammar import tokens
from ptxwcet.ptx.literals import integer_value
from ptxwcet.ptx.problems import Problems, TooManyProblemsError
from ptxwcet.ptx.scopes import FunctionNames, Scope
from ptxwcet.ptx.statements import canonical
from ptxwcet.support.records import dataclass

DEEPEST_NESTING = 1000
"""The limit of nested blocks; compilers stay below 20."""


MOST_LABELS = 1 << 16
"""The limit of labels of one range ``L<n>`` in a branch table."""


@dataclass(slots=True)
class Targets:
    """The branches and branch tables of one function.

    A branch: the number of its instruction, the label as spelled, the scope of this use. A table:
    its unique name, its labels as spelled, the scope, its extent in the text.
    """

    _branches: list[tuple[int, str, Scope]] = field(default_factory=list)
    _tables: list[tuple[str, tuple[str, ...], Scope, tuple[int, int]]] = field(default_factory=list)
    _indirect: list[tuple[int, str]] = field(default_factory=list)

    def add_branch(self, index: int, label: str, scope: Scope) -> None:
        """Adds a branch of instruction ``index`` to ``label``, which may follow in the text."""
        self._branches.append((index, label, scope))

    def add_indirect(self, index: int, table: str) -> None:
        """Adds a branch of instruction ``index`` through the table with this unique name."""
        self._indirect.append((index, table))

    def add_table(
        self, unique: str, tree: Tree[Token], scope: Scope, place: tuple[int, int]
    ) -> None:
        """Adds a ``.branchtargets`` directive. Raises LiteralError."""
        self._tables.append((unique, _table_labels(tree), scope, place))

    def resolve(
        self, instructions: list[Instruction], names: FunctionNames, problems: Problems
    ) -> None:
        """Gives every branch and branch table the unique names of its labels. Cost: linear."""
        for index, spelled, scope in self._branches:
            unique = scope.find_label(spelled)
            instruction = instructions[index]
            if unique is None:
                _undefined(spelled, (instruction.start, instruction.end), names, problems)
                continue
            instructions[index] = instruction._replace(
                names=(*instruction.names[:-1], unique), targets=(unique,)
            )
        for table, labels, scope, place in self._tables:
            uniques = [scope.find_label(label) for label in labels]
            for label, unique in zip(labels, uniques, strict=True):
                if unique is None:
                    _undefined(label, place, names, problems)
            names.tables[table] = tuple([unique for unique in uniques if unique is not None])
        for index, name in self._indirect:
            instructions[index] = instructions[index]._replace(targets=names.tables[name])


def _undefined(
    label: str, place: tuple[int, int], names: FunctionNames, problems: Problems
) -> None:
    inside = any(unique.split("@")[0] == label for unique in names.labels)
    help_text = "a label inside a block cannot be reached from outside it" if inside else ""
    problems.add("PW106", f"branch to '{label}', which is no label here", place, help_text)


def _table_labels(tree: Tree[Token]) -> tuple[str, ...]:
    """Returns the labels of a ``.branchtargets``, with ranges ``L<2>`` expanded."""
    labels: list[str] = []
    for child in tree.children:
        if isinstance(child, Tree) and child.data == "branch_target":
            name, *count = tokens(child)
            if count:
                size = min(integer_value(count[0]), MOST_LABELS)
                labels.extend(f"{name}{number}" for number in range(size))
            else:
                labels.append(str(name))
    return tuple(labels)


@dataclass(slots=True)
class Blocks:
    """The open blocks of one function, and the items between its instructions.

    ``opened`` are the offsets of the braces that are open; the first is the function's.
    """

    problems: Problems
    names: FunctionNames
    scope: Scope
    instructions: list[Instruction]
    items: list[tuple[int, BodyItem]] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    targets: Targets = field(default_factory=Targets)

    def open(self, start: int) -> None:
        """Opens a block for the brace at offset ``start``."""
        self.opened.append(start)
        if len(self.opened) > DEEPEST_NESTING:
            message = f"blocks nested more than {DEEPEST_NESTING} deep"
            self.problems.add("PW117", message, (start, start + 1))
            raise TooManyProblemsError
        self.add(ScopeBegin(self.names.scopes))
        self.scope = Scope(self.scope, self.names)

    def close(self) -> bool:
        """Closes the innermost block; returns whether that was the function."""
        self.opened.pop()
        if not self.opened:
            self.targets.resolve(self.instructions, self.names, self.problems)
            return True
        self.add(ScopeEnd())
        assert self.scope.parent is not None
        self.scope = self.scope.parent
        return False

    def end_of_text(self, text: str) -> None:
        """Reports the end of the text with blocks open: one error for all of them."""
        line = self.problems.source.position(self.opened[-1])[0]
        end = len(text.rstrip())
        self.problems.add(
            "PW111",
            f"the file ends inside the block opened on line {line}",
            (max(0, end - 1), end),
            "add the missing '}', or check that the file is complete",
        )
        self.opened.clear()

    def add(self, item: BodyItem) -> None:
        """Adds an item before the next instruction."""
        self.items.append((len(self.instructions), item))

    def _duplicate(self, name: str, place: tuple[int, int]) -> None:
        self.problems.add(
            "PW105",
            f"'{name}' is declared twice in one block",
            place,
            "rename one of them, or open a block with '{ }' around the second",
        )

    def label(self, text: str, start: int) -> None:
        """Adds a label with this spelling, at offset ``start``."""
        scope = self.scope
        if text in scope.labels or text in scope.own or text in scope.others:
            self._duplicate(text, (start, start + len(text)))
            return
        unique = text + scope.suffix
        scope.labels[text] = unique
        self.names.labels[unique] = len(self.instructions)
        self.add(LabelDefinition(text, unique))

    def declare_register(
        self, declaration: RegisterDeclaration, declared: Declared, start: int
    ) -> None:
        """Adds a declarator of the ``.reg`` at offset ``start``."""
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
            for number in range(min(declaration.count, MOST_NAMES)):
                scope.declare_vector(f"{name}{number}", declaration.vector, declaration.type)
        elif not scope.declare_range(name, declaration.count, declaration.type):
            self._duplicate(f"{name}<{declaration.count}>", place)
        self.add(declaration)

    def declare(self, tree: Tree[Token], text: str, place: tuple[int, int]) -> None:
        """Adds a directive other than ``.reg`` and ``.loc``. Raises LiteralError."""
        if tree.data == "pragma":
            self.add(Directive(".pragma", canonical(text)))
        elif tree.data == "local_variable":
            for variable, declared in lower_variables(tree, text):
                self._declare_variable(variable, declared, place[0])
        else:
            self._declare_table(tree, text, place)

    def _declare_variable(self, variable: Variable, declared: Declared, start: int) -> None:
        place = (start + declared.start, start + declared.end)
        names = names_of(variable)
        for name in names:
            if self.scope.is_taken(name) or name in self.scope.labels:
                self._duplicate(name, place)
                return
        reason = refusal(variable)
        if variable.type in HANDLES or variable.space == "tex":
            reason = f"a {space_of(variable)} belongs outside of functions"
        if reason is not None:
            self.problems.add("PW118", reason, place)
        for name in names:
            self.scope.declare_variable(name, space_of(variable))
        unique_variable = replace(variable, name=variable.name + self.scope.suffix)
        self.variables.append(unique_variable)
        self.add(unique_variable)

    def _declare_table(self, tree: Tree[Token], text: str, place: tuple[int, int]) -> None:
        name, *words = tokens(tree)
        if self.scope.is_taken(name) or name in self.scope.labels:
            self._duplicate(name, (place[0], place[0] + len(name)))
            return
        if tree.data == "branch_targets":
            unique = self.scope.declare(str(name), scopes.TABLE)
            self.targets.add_table(unique, tree, self.scope, place)
        else:
            unique = self.scope.declare(str(name), scopes.PROTOTYPE)
            if tree.data == "call_targets":
                self.scope.function.call_lists[unique] = tuple(map(str, words))
                for word in words:
                    if self.scope.kind(word)[0] != scopes.FUNCTION:
                        message = f"'{word}' is no function declared above"
                        self.problems.add("PW104", message, place)
        self.add(Directive(f".{str(tree.data).replace('_', '')}", canonical(text)))
