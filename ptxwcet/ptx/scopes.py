"""Resolves the names of a function by block scopes.

PTX scopes registers, variables and labels by ``{ }``. A name declared in an inner scope gets the
unique name ``spelling@n``, n being the scope's number within the function. A register or variable
must be declared before its use; a label may follow its use. Labels can coexist with the registers
of a ``.reg %r<n>`` range (``%r1:`` is legal), but not with individually declared names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from dataclasses import field

from ptxwcet.support.records import dataclass

VARIABLE, FUNCTION, TABLE, PROTOTYPE = "y", "f", "t", "o"
REGISTER, SPECIAL, SINK, CONSTANT, UNKNOWN = "r", "s", "_", "c", "u"
"""Kinds of names, one letter each; a vector register's kind is its width (``2`` to ``8``)."""

MEMBERS = "xyzw"
"""The members of a vector register; ``r g b a`` are other spellings of them."""

_MOST_SPELLED_OUT = 1 << 18
_FEW = 64
"""The number of registers of ranges that a function enters individually at once, in all and by one
range in an inner scope: most will be used, and a lookup that misses costs ten times as much."""

_INDEXED = re.compile(r"(.*?)([0-9]+)\Z", re.ASCII | re.DOTALL)

SPECIAL_REGISTERS = frozenset(
    (
        *("tid", "ntid", "laneid", "warpid", "nwarpid", "ctaid", "nctaid", "smid", "nsmid"),
        *("gridid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"),
        *("cluster_ctarank", "cluster_nctarank", "is_explicit_cluster"),
        *(f"lanemask_{order}" for order in ("eq", "le", "lt", "ge", "gt")),
        *("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"),
        *("total_smem_size", "aggr_smem_size", "dynamic_smem_size", "current_graph_exec"),
        *(f"reserved_smem_offset_{end}" for end in ("begin", "end", "cap", "0", "1")),
        *(f"envreg{n}" for n in range(32)),
        *(f"pm{n}{bits}" for n in range(8) for bits in ("", "_64")),
    )
)


@dataclass(slots=True)
class FunctionNames:
    """The accumulated data of one function: the type of each register by unique name, and so on.

    ``room`` is the number of registers that may still be entered before they are used; ``spaces``
    has the state space of each variable: ``input`` for a parameter that is only read, ``texref``
    and the like for handles.
    """

    types: dict[str, str] = field(default_factory=dict)
    scopes: int = 0
    room: int = _MOST_SPELLED_OUT
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    call_lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spaces: MutableMapping[str, str] = field(default_factory=dict)


class Scope(dict[str, str]):
    """One block; as a dict, the cache from spelling to unique name of its visible registers.

    A lookup that misses uses the enclosing scopes; KeyError means that the name is not a scalar
    register here, and :meth:`kind` returns its kind.
    """

    __slots__ = ("_kinds", "function", "labels", "others", "own", "parent", "ranges", "suffix")

    def __init__(self, parent: Scope | None, function: FunctionNames) -> None:
        super().__init__()
        self.parent = parent
        self.function = function
        self.suffix = f"@{function.scopes}" if function.scopes else ""
        function.scopes += 1
        self.own: dict[str, str] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.others: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self._kinds: dict[str, tuple[str, str]] = {}

    def __missing__(self, name: str) -> str:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.others:
                raise KeyError(name)
            unique = scope.get(name) or (scope._in_range(name) if scope.ranges else None)
            if unique is not None:
                self[name] = unique
                return unique
            scope = scope.parent
        raise KeyError(name)

    def _in_range(self, name: str) -> str | None:
        """Returns the unique name of a member of ``%r<n>``: ``%r0`` to ``%r(n-1)``, or ``%r00``."""
        indexed = _INDEXED.match(name)
        if indexed is None or len(indexed.group(2)) > 12:
            return None
        for split in range(indexed.start(2), len(name)):
            entry = self.ranges.get(name[:split])
            if entry is not None and int(name[split:]) < entry[0]:
                unique = f"{name[:split]}{int(name[split:])}{self.suffix}"
                self.function.types[unique] = entry[1]
                return unique
        return None

    def enclosing(self) -> Iterator[Scope]:
        """Yields this scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def kind(self, name: str) -> tuple[str, str]:
        """Returns kind letter and unique name of anything that may be used as an operand."""
        entry = self._kinds.get(name)
        if entry is None:
            entry = self._find_kind(name)
            if entry[0] != UNKNOWN:
                self._kinds[name] = entry
        return entry

    def _find_kind(self, name: str) -> tuple[str, str]:
        try:
            return REGISTER, self[name]
        except KeyError:
            pass
        for scope in self.enclosing():
            kind = scope.others.get(name)
            if kind is not None:
                return kind, name + scope.suffix
        if name == "_":
            return SINK, name
        if name == "WARP_SZ":
            return CONSTANT, name
        return (SPECIAL if name[:1] == "%" and name[1:] in SPECIAL_REGISTERS else UNKNOWN), name

    def is_taken(self, name: str) -> bool:
        """Returns whether this very scope declares the name as register or variable."""
        is_declared = name in self.own or name in self.others
        return is_declared or (bool(self.ranges) and self._in_range(name) is not None)

    def declare_register(self, name: str, register_type: str) -> None:
        """Declares a scalar register; the caller has checked :meth:`is_taken`."""
        unique = name + self.suffix
        self.own[name] = self[name] = unique
        self._kinds.clear()
        self.function.types[unique] = register_type

    def declare_vector(self, name: str, width: int, register_type: str) -> None:
        """Declares a vector register: its members are the registers ``name.x``, ``name.y`` ..."""
        unique = self.declare(name, str(width))
        for member in MEMBERS:
            self.function.types[f"{unique}.{member}"] = register_type

    def declare_range(self, stem: str, count: int, register_type: str) -> bool:
        """Declares ``stem<count>``; False when it collides with a name of this scope."""
        if stem in self.ranges:
            return False
        for name in (*self.own, *self.others):
            if name.startswith(stem) and name[len(stem) :].isdigit():
                digits = name[len(stem) :]
                if len(digits) <= 12 and int(digits) < count:
                    return False
        self.ranges[stem] = (count, register_type)
        self._kinds.clear()
        own = self.own
        for cached in [n for n in self if n.startswith(stem) and n not in own] if self else ():
            del self[cached]  # it was the outer scope's until now
        if count <= (self.function.room if not self.suffix else min(self.function.room, _FEW)):
            self.function.room -= count
            names = [f"{stem}{number}" for number in range(count)]
            uniques = [name + self.suffix for name in names] if self.suffix else names
            self.update(zip(names, uniques, strict=True))
            self.function.types.update(dict.fromkeys(uniques, register_type))
        return True

    def declare_variable(self, name: str, space: str) -> None:
        """Declares a variable or parameter of a state space, see :class:`FunctionNames`."""
        self.function.spaces[self.declare(name, VARIABLE)] = space

    def declare(self, name: str, kind: str) -> str:
        """Declares any other name (variable, vector register, table); returns its unique name."""
        self.others[name] = kind
        self.pop(name, None)
        self._kinds.clear()
        return name + self.suffix

    def find_label(self, name: str) -> str | None:
        """Returns the unique name of the innermost visible label of this spelling, or None."""
        for scope in self.enclosing():
            unique = scope.labels.get(name)
            if unique is not None:
                return unique
        return None
