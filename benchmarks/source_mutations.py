"""Small mistakes put into Python source: one token or one line changed, all else as written.

``mutations_of`` lists those that a text permits. What only type checkers and readers see
(annotations, docstrings) is left alone, and so is how classes are decorated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_ARITHMETIC |= {ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*")}
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class Mutation:
    """Bytes ``start`` to ``end`` of a file become ``new``."""

    kind: str
    line: int
    start: int
    end: int
    new: str

    def apply(self, source: bytes) -> bytes:
        """The file with the mistake in it."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def describe(self, source: bytes) -> str:
        """The changed line before and after, without what both have at their ends."""
        begin = source.rfind(b"\n", 0, self.start) + 1
        stop = source.find(b"\n", self.end)
        old = source[begin : stop if stop >= 0 else len(source)].decode()
        tail = source[self.end : stop if stop >= 0 else len(source)].decode()
        new = source[begin : self.start].decode() + self.new + tail
        return f"{' '.join(old.split())} → {' '.join(new.split())}"


def mutations_of(source: bytes) -> list[Mutation]:
    """All mutations of a module's text, in the order of its lines; some may not be programs."""
    tree = ast.parse(source)
    places = _Places(source)
    left_alone = _annotations(tree)
    found: list[Mutation] = []
    for node in ast.walk(tree):
        if id(node) not in left_alone:
            found += _of_node(node, places)
    return sorted(set(found), key=lambda one: (one.start, one.end, one.kind, one.new))


def is_other_program(source: bytes, mutation: Mutation) -> bool:
    """Whether the module with the mistake is a program, and another one."""
    try:
        return ast.dump(ast.parse(mutation.apply(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _annotations(tree: ast.Module) -> set[int]:
    """Nodes of annotations, decorators of classes, ``strict=`` and what only type checkers run."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(returns=returns) if returns is not None:
                roots.append(returns)
            case ast.arg(annotation=annotation) if annotation is not None:
                roots.append(annotation)
            case ast.AnnAssign(annotation=annotation):
                roots.append(annotation)
            case ast.ClassDef(decorator_list=decorators):
                roots += decorators
            case ast.keyword(arg="strict"):  # lists of one length, as they should be
                roots.append(node)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                roots.append(node)
    return {id(inner) for root in roots for inner in ast.walk(root)}


class _Places:
    """Where nodes stand in the bytes of a file."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def put(self, kind: str, node: ast.expr | ast.stmt, new: str) -> Mutation:
        return Mutation(kind, node.lineno, self.start(node), self.end(node), new)

    def between(
        self, kind: str, left: ast.expr, right: ast.expr, words: tuple[str, str]
    ) -> Iterator[Mutation]:
        """The operator between two operands changed into another one."""
        begin, end = self.end(left), self.start(right)
        old, new = (word.encode() for word in words)
        pattern = rb"\s+".join(re.escape(word) for word in old.split())
        if old.isalpha() or b" " in old:
            pattern = rb"\b" + pattern + rb"\b"
        gap = re.sub(rb"#[^\n]*", lambda one: b"#" * len(one.group()), self.source[begin:end])
        operator = re.search(pattern, gap)
        if operator is not None:
            at = begin + operator.start()
            line = self.source.count(b"\n", 0, at) + 1
            yield Mutation(kind, line, at, begin + operator.end(), new.decode())


def _of_node(node: ast.AST, places: _Places) -> Iterator[Mutation]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for before, operator, after in zip(
                [left, *comparators], ops, comparators, strict=False
            ):
                yield from places.between("comparison", before, after, _COMPARISONS[type(operator)])
        case ast.BoolOp(op=operator, values=[first, second, *_]):
            words = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
            yield from places.between("and, or", first, second, words)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            yield from places.between("arithmetic", left, right, _ARITHMETIC[type(operator)])
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield places.put("integer", node, str(value + 1))
            yield places.put("integer", node, f"({value - 1})" if value < 1 else str(value - 1))
        case ast.Constant(value=bool(value)):
            yield places.put("true, false", node, str(not value))
        case ast.Call(func=ast.Name(id="min") as name):
            yield places.put("min, max", name, "max")
        case ast.Call(func=ast.Name(id="max") as name):
            yield places.put("min, max", name, "min")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield places.put("not", node, f"({places.text(operand)})")
        case ast.stmt():
            yield from _of_statement(node, places)


def _of_statement(node: ast.stmt, places: _Places) -> Iterator[Mutation]:
    match node:
        case ast.If(
            test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue() | ast.Break()]
        ):
            yield places.put("early end left out", test, "False")
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield places.put("statement left out", node, "pass")
        case ast.For(body=body) | ast.While(body=body) if not isinstance(body[-1], _ENDS):
            at, indent = places.end(body[-1]), " " * body[0].col_offset
            line = body[-1].end_lineno or body[-1].lineno
            yield Mutation("one iteration", line, at, at, f"\n{indent}break")
        case ast.FunctionDef(body=body, returns=returns) if _is_nothing(returns):
            inner = [one for one in body if not isinstance(getattr(one, "value", 0), ast.Constant)]
            if len(inner) > 1:
                at, indent = places.start(inner[1]), " " * inner[1].col_offset
                yield Mutation("early return", inner[1].lineno, at, at, f"return\n{indent}")


def _is_nothing(returns: ast.expr | None) -> bool:
    return isinstance(returns, ast.Constant) and returns.value is None
