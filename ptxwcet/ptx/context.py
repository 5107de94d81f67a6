"""What the readers of one file's items share while it is parsed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxwcet.ir.kernel import RegisterDeclaration
from ptxwcet.ptx.declarations import Declared
from ptxwcet.ptx.locations import LocationCache
from ptxwcet.ptx.problems import Problems
from ptxwcet.ptx.scopes import Scope
from ptxwcet.ptx.shapes import DirectiveCache, ShapeCache
from ptxwcet.support.source import SourceFile


@dataclass(slots=True)
class FileContext:
    """Source, error list, module scope and the caches of one file."""

    source: SourceFile
    problems: Problems
    files: dict[int, tuple[str, str]]
    module: Scope
    is_incomplete: bool = False  # an item could not be read: what it declares is not known
    shapes: ShapeCache = field(default_factory=ShapeCache)
    directives: DirectiveCache = field(default_factory=DirectiveCache)
    locations: LocationCache = field(default_factory=LocationCache)
    registers: dict[str, list[tuple[RegisterDeclaration, Declared]]] = field(default_factory=dict)
