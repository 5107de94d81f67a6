"""Branch targets: labels are resolved at the end of a function, when all of them are known."""

from __future__ import annotations

from dataclasses import dataclass, field

from lark import Token, Tree

from ptxwcet.ir.kernel import Instruction
from ptxwcet.ptx.literals import integer_value
from ptxwcet.ptx.problems import Problems
from ptxwcet.ptx.scopes import FunctionNames, Scope
from ptxwcet.ptx.templates import tokens

MOST_LABELS = 1 << 16
"""Labels of one range ``L<n>`` in a branch table."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """Instruction number ``index`` branches to the label that ``spelled`` names in ``scope``."""

    index: int
    spelled: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class _Table:
    """The labels of a branch table; ``place`` is its extent in the text."""

    unique: str
    spelled: tuple[str, ...]
    scope: Scope
    place: tuple[int, int]


@dataclass(slots=True)
class Targets:
    """The branches and branch tables of one function."""

    _branches: list[_Branch] = field(default_factory=list)
    _tables: list[_Table] = field(default_factory=list)
    _indirect: list[tuple[int, str]] = field(default_factory=list)

    def add_branch(self, index: int, label: str, scope: Scope) -> None:
        """Instruction ``index`` branches to ``label``, which may yet have to come."""
        self._branches.append(_Branch(index, label, scope))

    def add_indirect(self, index: int, table: str) -> None:
        """Instruction ``index`` branches through the table of this unique name."""
        self._indirect.append((index, table))

    def add_table(
        self, unique: str, tree: Tree[Token], scope: Scope, place: tuple[int, int]
    ) -> None:
        """A ``.branchtargets`` directive. Raises LiteralError."""
        self._tables.append(_Table(unique, _table_labels(tree), scope, place))

    def resolve(
        self, instructions: list[Instruction], names: FunctionNames, problems: Problems
    ) -> None:
        """Give every branch and branch table the unique names of its labels. Cost: linear."""
        for branch in self._branches:
            unique = branch.scope.find_label(branch.spelled)
            instruction = instructions[branch.index]
            if unique is None:
                _nowhere(branch.spelled, (instruction.start, instruction.end), names, problems)
                continue
            instructions[branch.index] = instruction._replace(
                names=(*instruction.names[:-1], unique), targets=(unique,)
            )
        for table in self._tables:
            labels = []
            for spelled in table.spelled:
                unique = table.scope.find_label(spelled)
                if unique is None:
                    _nowhere(spelled, table.place, names, problems)
                else:
                    labels.append(unique)
            names.tables[table.unique] = tuple(labels)
        for index, name in self._indirect:
            instructions[index] = instructions[index]._replace(targets=names.tables[name])


def _nowhere(label: str, place: tuple[int, int], names: FunctionNames, problems: Problems) -> None:
    inside = any(unique.split("@")[0] == label for unique in names.labels)
    help_text = "a label inside a block cannot be reached from outside it" if inside else ""
    problems.add("PW106", f"branch to '{label}', which is no label here", place, help_text)


def _table_labels(tree: Tree[Token]) -> tuple[str, ...]:
    """The labels of a ``.branchtargets``, ranges ``L<2>`` written out."""
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
