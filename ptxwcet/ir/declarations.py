"""Declarations and directives: what a module or a body holds besides instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry or function, in declaration order from index 0.

    ``count`` is the number of elements (1 for scalars); ``size_bytes`` the size of the whole.
    ``is_pointer`` is True where ``.ptr`` says so and None where nothing is said.
    ``declaration`` is its canonical PTX text.
    """

    name: str
    type: str
    size_bytes: int
    alignment: int
    index: int
    count: int = 1
    is_array: bool = False
    is_pointer: bool | None = None
    space: str = "param"
    declaration: str = ""

    def described(self, called: str | None) -> str:
        """The parameter for readers: ``n = 3 (k_param_3, .u32)``, without a mangled name."""
        name = f"{self.name}, " if called is None or not self.name.startswith("_Z") else ""
        text = f"{self.index} ({name}.{self.type})"
        return text if called is None else f"{called} = {text}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a module, function or scope.

    ``name`` is unique (``@n`` in inner scopes). ``size_bytes`` is 0 for unsized externals
    (dynamic shared memory). ``declaration`` is its canonical PTX text, semicolon included.
    ``initial`` gives the bytes that it holds when a launch begins, None where these are zeros.
    """

    name: str
    space: str
    type: str
    size_bytes: int
    alignment: int
    linkage: str
    declaration: str
    initial: Callable[[Variable], bytes] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RegisterDeclaration:
    """``.reg type name`` or, with a count, ``.reg type name<count>``; ``vector`` is 0, 2 or 4."""

    name: str
    type: str
    vector: int = 0
    count: int | None = None


@dataclass(frozen=True, slots=True)
class LabelDefinition:
    """``name:``; ``unique`` is the key in :attr:`Kernel.labels`."""

    name: str
    unique: str


@dataclass(frozen=True, slots=True)
class ScopeBegin:
    """``{`` inside a body. ``number`` is the n of the ``@n`` suffix of names declared in it."""

    number: int


@dataclass(frozen=True, slots=True)
class ScopeEnd:
    """``}`` inside a body."""


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other directive as canonical PTX text: .loc, .file, .pragma, .section, prototypes ..."""

    keyword: str
    text: str


BodyItem = RegisterDeclaration | Variable | LabelDefinition | ScopeBegin | ScopeEnd | Directive


@dataclass(frozen=True, slots=True)
class PerformanceDirective:
    """``.maxntid 256, 1, 1`` and its kin: the keyword with its dot, its numbers, its PTX text."""

    keyword: str
    values: tuple[int, ...]
    text: str
