"""Links several PTX files to one program, as nvlink does (docs/guide/machine-code.md).

A name without linkage is local to its file: if another file has the name too, the local name of the
linked file becomes ``b.ptx::name``. All other names are the program's: one definition each, to
which the ``.extern`` declarations of other files refer. Everything that nvlink refuses is refused,
and so is every program that depends on the order of the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations

from ptxwcet.ir.kernel import Directive, Kernel, Module, ModuleItem, UnreadKernel, Variable
from ptxwcet.ir.needs import Target
from ptxwcet.ir.verifier import rewritten
from ptxwcet.ptx.declarations import names_of
from ptxwcet.ptx.functions import shape_of
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.comments import blank_comments
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, Severity
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span

_NAME = re.compile(r"(?<![\w$%.])[A-Za-z_$%][\w$]*", re.ASCII)
_ALIAS = re.compile(r"\.alias ([\w$%]+)", re.ASCII)
_DEFAULTS = {"texmode_unified", "debug"}
_HELP = "build the files together, as 'nvcc -rdc=true' does, and leave out what defines it twice"


def read_program(main: SourceFile, *linked: SourceFile) -> Module:
    """Returns the program of a file, whose kernels are the program's, and of files linked with it.

    Raises PtxwcetError: errors of a file, or PW122 with all conflicts that keep the files from
    being one program. Cost: linear in the files.
    """
    modules = [parse_module(main)]
    for source in linked:
        modules.append(parse_module(source.behind(modules[-1].source)))
    return _linked([_File(module) for module in modules]) if linked else modules[0]


@dataclass(frozen=True, slots=True)
class _Symbol:
    """The information of a file about a name: its definition, or else its first declaration."""

    name: str
    item: Kernel | Variable
    linkage: str
    is_defined: bool

    @property
    def strength(self) -> int:
        """The rank of a definition: the strongest definition counts."""
        return {"weak": 2, "common": 1}.get(self.linkage, 3) if self.is_defined else 0


class _File:
    """A file with its symbols, and their names in the program."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.symbols = _symbols(module.items)
        self.names: dict[str, str] = {}
        self.changed: dict[str, str] = {}

    def name(self, given: dict[tuple[str, str], str], taken: set[str]) -> None:
        """Names the symbols: a name is ``given`` for the whole program, or for one file."""
        file = self.module.source.name
        for name, symbol in self.symbols.items():
            key = name, "" if symbol.linkage else file
            given.setdefault(key, f"{file}::{name}" if name in taken else name)
            self.names[name] = given[key]
        taken.update(self.names.values())
        self.changed = {name: new for name, new in self.names.items() if name != new}

    def renamed(self, item: Kernel | Variable) -> Kernel | Variable:
        """Returns an item with the names of the program. Cost: linear if names change."""
        if not self.changed:
            return item
        name = self.names.get(item.name, item.name)  # variables of functions have none
        if isinstance(item, Variable):
            return replace(item, name=name, declaration=self.text(item.declaration))
        file = "" if name == item.name else f"{self.module.source.name}::"
        readable = file + item.readable
        if isinstance(item, UnreadKernel):
            kind = {"is_entry": item.is_entry, "has_body": item.has_body}
            return UnreadKernel(
                name, **kind, span=item.span, failure=item.failure, readable=readable
            )
        own = _own_names(item)
        changed = {name: new for name, new in self.changed.items() if name not in own}
        kernel = replace(
            item,
            name=name,
            readable=readable,
            instructions=tuple(
                one._replace(names=tuple(changed.get(name, name) for name in one.names))
                for one in item.instructions
            ),
            call_lists={
                label: tuple(changed.get(name, name) for name in names)
                for label, names in item.call_lists.items()
            },
        )
        return rewritten(kernel)

    def text(self, declaration: str) -> str:
        """Returns a declaration, or a directive, with the names of the program."""
        return _NAME.sub(lambda match: self.changed.get(match[0], match[0]), declaration)

    def place(self, words: str) -> Span:
        """Returns the first span of words: a name is declared before it is used."""
        source = self.module.source
        text, pattern = blank_comments(source.text), rf"(?<![\w$]){re.escape(words)}(?![\w$])"
        match = re.search(pattern, text, re.ASCII)
        return Span(source, *(match.span() if match else (len(text) - 1, len(text))))


def _symbols(items: Iterable[ModuleItem]) -> dict[str, _Symbol]:
    symbols: dict[str, _Symbol] = {}
    texts = (item.text for item in items if isinstance(item, Directive))
    aliases = {alias[1] for alias in map(_ALIAS.match, texts) if alias}
    for item in items:
        if isinstance(item, Directive):
            continue
        if isinstance(item, Kernel):
            names, is_defined = [item.name], item.has_body or item.name in aliases
        else:
            names, is_defined = [item.name, *names_of(item)], item.linkage != "extern"
        # an unread item is taken for the program's: only its users are affected
        linkage = "visible" if isinstance(item, UnreadKernel) else item.linkage
        for name in names:
            symbol = _Symbol(name, item, linkage, is_defined)
            earlier = symbols.get(name)
            if earlier is not None:
                kept, other = (
                    (symbol, earlier)
                    if is_defined and not earlier.is_defined
                    else (earlier, symbol)
                )
                symbol = replace(kept, linkage=kept.linkage or other.linkage)
            symbols[name] = symbol
    return symbols


def _own_names(kernel: Kernel) -> frozenset[str]:
    """Returns the names with a local meaning in a function's body."""
    parameters = (p.name for p in (*kernel.parameters, *kernel.results))
    names = (kernel.registers, kernel.labels, kernel.branch_tables, kernel.call_lists)
    return frozenset(variable.name for variable in kernel.variables).union(parameters, *names)


def _linked(files: Sequence[_File]) -> Module:
    """Returns the program of some files. Raises PtxwcetError (PW122)."""
    given: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for file in files:
        file.name(given, taken)
        if file is files[0]:  # functions keep their variables apart in the program, kernels do not
            kernels = (k for k in file.module.kernels if not isinstance(k, UnreadKernel))
            taken.update(name for kernel in kernels for name in _own_names(kernel))
    problems = [d for pair in combinations(files, 2) for d in _different_machines(*pair)]
    groups: dict[str, list[tuple[_File, _Symbol]]] = {}
    for file in files:
        for name, symbol in file.symbols.items():
            groups.setdefault(file.names[name], []).append((file, symbol))
    meant = {name: _definition(group, problems) for name, group in groups.items()}
    if problems:
        raise PtxwcetError(problems)
    newest = max((file.module.target for file in files), key=lambda name: Target.read(name).order)
    hidden = [d for pair in permutations(files, 2) for d in _hidden(*pair)]
    return replace(
        files[0].module,
        items=tuple(
            replace(item, target=newest) if type(item) is Kernel else item
            for file in files
            for item in _items(file, meant, files[0])
        ),
        warnings=(*hidden, *(warning for file in files for warning in file.module.warnings)),
        files=tuple(file.module for file in files),
    )


def _hidden(file: _File, other: _File) -> Iterator[Diagnostic]:
    """Yields warnings for names that are local to a file, and the program's in another file.

    Compilers give them different names, so that the file was probably not made to be linked.
    """
    for name, symbol in file.symbols.items():
        if not symbol.linkage and name in other.symbols and other.symbols[name].linkage:
            message = f"'{name}' is this file's own, not that of {other.module.source.name}"
            help_text = "if one is meant, compile both files with 'nvcc -rdc=true -ptx'"
            place, level = file.place(name), Severity.WARNING
            yield Diagnostic("PW122", message, place, help=help_text, severity=level)


def _items(
    file: _File, meant: dict[str, tuple[_File, _Symbol]], main: _File
) -> Iterator[ModuleItem]:
    """Yields a file's items of the program: chosen definitions, and kernels of the main file."""
    for item in file.module.items:
        if isinstance(item, Directive):
            alias = _ALIAS.match(item.text)
            if file is main if alias is None else meant[file.names[alias[1]]][0] is file:
                yield replace(item, text=file.text(item.text)) if alias else item
            continue
        is_prototype = isinstance(item, Kernel) and not item.has_body
        if (isinstance(item, Kernel) and item.is_entry and file is not main) or not (
            is_prototype or meant[file.names[item.name]][1].item is item
        ):
            continue
        yield file.renamed(item)


def _different_machines(first: _File, second: _File) -> Iterator[Diagnostic]:
    """Yields the conflicts between the headers of two files."""
    main, other = first.module, second.module
    if main.address_size != other.address_size:
        message = (
            f"addresses of {main.address_size} bits and of {other.address_size} in one program"
        )
        yield _problem(message, ".address_size", first, second)
    targets = {Target.read(main.target), Target.read(other.target)}
    specific = [each for each in targets if each.letter]  # code for sm_80 also runs on sm_90a
    newest = max(each.number for each in targets)
    if len(targets) == 2 and (len(specific) == 2 or any(t.number < newest for t in specific)):
        message = f"no GPU runs both {main.target} and {other.target}"
        yield _problem(message, ".target", first, second)
    if {*main.target_options} - _DEFAULTS != {*other.target_options} - _DEFAULTS:
        yield _problem("other options of .target in one program", ".target", first, second)


def _definition(
    group: Sequence[tuple[_File, _Symbol]], problems: list[Diagnostic]
) -> tuple[_File, _Symbol]:
    """Returns the definition of a name in the program; conflicts are added to ``problems``.

    Without a definition, it is the declaration with the strictest alignment.
    """

    def rank(candidate: tuple[_File, _Symbol]) -> tuple[int, int]:
        item = candidate[1].item
        if isinstance(item, Kernel) and item.is_entry:  # the main file's, if it has one
            return int(candidate[1].is_defined), 0
        return candidate[1].strength, item.alignment if isinstance(item, Variable) else 0

    chosen = max(group, key=rank)
    for candidate in group:
        reason = "" if candidate is chosen else _disagreement(candidate, chosen)
        if reason:
            (first, symbol), (second, _) = sorted((candidate, chosen), key=group.index)
            problems.append(_problem(f"'{symbol.name}' {reason}", symbol.name, first, second))
    return chosen


def _disagreement(candidate: tuple[_File, _Symbol], chosen: tuple[_File, _Symbol]) -> str:
    """Returns why the statements of two files about a name conflict; empty if they agree."""
    (_, symbol), (_, other) = candidate, chosen
    mine, theirs = symbol.item, other.item
    if isinstance(mine, Kernel) and isinstance(theirs, Kernel):
        if mine.is_entry != theirs.is_entry:
            return "is a kernel in one file and a function in the other"
        is_unread = isinstance(mine, UnreadKernel) or isinstance(theirs, UnreadKernel)
        is_alike = is_unread or _shapes(mine) == _shapes(theirs)
    elif isinstance(mine, Variable) and isinstance(theirs, Variable):
        sizes = {mine.size_bytes, theirs.size_bytes}
        is_open = 0 in sizes and mine.space != "shared"  # unsized .shared has no definition
        is_alike = (mine.space, mine.type) == (theirs.space, theirs.type)
        is_alike &= len(sizes) == 1 or is_open
        is_alike &= mine.alignment <= theirs.alignment
    else:
        return "is a function in one file and a variable in the other"
    strengths = symbol.strength, other.strength
    if strengths == (3, 3):
        return "is defined in both files"
    if not is_alike:
        return "is declared differently in the other file"
    if sorted(strengths) == [1, 2]:
        return "is .common in one file and .weak in the other"
    is_kernel = isinstance(mine, Kernel) and mine.is_entry and 0 not in strengths
    if (strengths == (2, 2) or is_kernel) and _content(*candidate) != _content(*chosen):
        return "is .weak, and not the same in both files: which of them is used is not known"
    return ""


def _shapes(kernel: Kernel) -> list[list[tuple[str, str, int, int]]]:
    return [[shape_of(p) for p in group] for group in (kernel.results, kernel.parameters)]


def _content(file: _File, symbol: _Symbol) -> object:
    """Returns a definition without its places, for comparison between two files."""
    item = file.renamed(symbol.item)
    if isinstance(item, Variable):
        return item.declaration
    body = [
        (i.mnemonic, i.guard, i.operands, i.reads, i.writes, i.targets, i.callee)
        for i in item.instructions
    ]
    return body, item.labels, item.variables, item.call_lists, item.performance


def _problem(message: str, words: str, first: _File, second: _File) -> Diagnostic:
    """Returns PW122 at some words in the second file, with the place in the first."""
    place = first.place(words)
    note = f"{place}: {' '.join(place.source.line_text(place.line).split())}"
    return Diagnostic("PW122", message, second.place(words), (note,), _HELP)
