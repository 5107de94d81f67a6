"""Parses PTX text to IR: :func:`parse_module`.

The text is split into items and statements by regular expressions; Lark parses each distinct shape
(see :mod:`ptxwcet.ptx.body`); names are resolved by scope while statements are read. After an error
the parser continues at the next statement, so that one run reports the errors of a whole file.
"""

from __future__ import annotations

import contextlib
import gc
import re
from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from lark import Token, Tree, UnexpectedInput

from ptxwcet.ir.kernel import (
    CARRY,
    Directive,
    Instruction,
    Kernel,
    Module,
    ModuleItem,
    UnreadKernel,
    Variable,
)
from ptxwcet.ir.needs import Target
from ptxwcet.ir.operation import type_bytes
from ptxwcet.ir.verifier import lowered
from ptxwcet.ptx import scopes, statements
from ptxwcet.ptx.body import BodyReader, FileContext
from ptxwcet.ptx.declarations import (
    HANDLES,
    lower_variables,
    names_of,
    parameter_refusal,
    refusal,
    shorten_lists,
    space_of,
    unfit_addresses,
)
from ptxwcet.ptx.functions import (
    IS_FUNCTION,
    FunctionHead,
    Signature,
    function_name,
    guarded_arguments,
    head_end,
    lower_head,
    performance_conflict,
    wrong_calls,
)
from ptxwcet.ptx.grammar import parse_rule, section_pattern, tokens
from ptxwcet.ptx.header import NEWEST, Header, read_header
from ptxwcet.ptx.literals import LiteralError, integer_value
from ptxwcet.ptx.problems import Problems, TooManyProblemsError
from ptxwcet.ptx.scopes import FunctionNames, Scope
from ptxwcet.ptx.statements import SKIP, canonical
from ptxwcet.support.demangling import readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, Severity, internal_error
from ptxwcet.support.source import WHOLE_PATH, SourceFile, Span, readable_paths


def parse_module(source: SourceFile) -> Module:
    """Returns the IR of a PTX file.

    Raises PtxwcetError with all errors, at most ``MOST_PROBLEMS``. Opcodes without a row are no
    errors here: see :func:`ptxwcet.ir.kernel.unknown_instructions`. Cost: linear; see
    ``benchmarks/bench_parse.py`` for instructions per second.
    """
    problems = Problems(source)
    with _without_collector():
        try:
            reader = ModuleReader(source, problems)
            module = reader.read()
        except TooManyProblemsError:
            raise PtxwcetError(problems.in_order()) from None
    if problems.found:
        raise PtxwcetError(problems.in_order())
    return module


@contextmanager
def _without_collector() -> Iterator[None]:
    """Suspends cyclic garbage collection: none of the objects built here is garbage.

    Freezing and unfreezing moves the new objects to the oldest generation at no cost; without it
    the next allocation would traverse them all. Omitted if other code froze objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


# --- Items of a module: functions, variables, directives, debug sections, in the order of the text


_FILE_NUMBER = re.compile(r'\.file\s+([0-9][0-9A-Fa-fxXbBU]*)\s+"([^"\n]*)"')
_LONGEST_INDENT = 200
_FILE = re.compile(
    rf'\.file\b{SKIP}[0-9]\w*{SKIP}"[^"\n]*"(?:{SKIP},{SKIP}[0-9]\w*){{0,2}}', re.ASCII
)
_NEXT_ITEM = re.compile(
    r"^[ \t]*"
    r"(\.(?:visible|extern|weak|common|entry|func|global|const|shared|section|file|alias)\b)",
    re.MULTILINE,
)


class ModuleReader:
    """The reader of the items of one file in order."""

    def __init__(self, source: SourceFile, problems: Problems) -> None:
        self.source = source
        self.text = source.text
        self.problems = problems
        module = Scope(None, FunctionNames())
        self.context = FileContext(source, problems, _file_names(source), module)
        self.items: list[ModuleItem] = []
        self.heads: dict[str, tuple[bool, str, tuple[int, int]]] = {}
        self.variables: dict[str, str] = {}
        self.signatures: dict[str, Signature] = {}
        self.aliases: dict[str, str] = {}
        self.entries: set[str] = set()

    def read(self) -> Module:
        """Returns the module, as far as it can be read; errors go to ``problems``."""
        unclosed = statements.unclosed_comment(self.text)
        stray = statements.stray_character(self.text)
        if stray >= 0:
            message = "a character that PTX does not have: NUL or a vertical tab"
            self.problems.add("PW101", message, (stray, stray + 1), "put a space in its place")
            header, position = None, 0
        elif unclosed >= 0:
            place = (unclosed, unclosed + 2)
            self.problems.add("PW101", "a comment without end", place, "end it with '*/'")
            header, position = None, 0
        else:
            header, position = read_header(self.source, self.problems)
        self.header = header
        if header is not None:
            self.context.shapes.target = Target.read(header.target, header.version)
            position = statements.skip(self.text, position)
            while position < len(self.text):
                position = statements.skip(self.text, self._item(position))
            self._check_prototypes()
        header = header or Header((0, 0), "", (), 64)
        return Module(
            source=self.source,
            version=header.version,
            target=header.target,
            target_options=header.options,
            address_size=header.address_size,
            items=_with_readable_names(self.items),
            warnings=_warnings(self.source, header),
        )

    def _item(self, start: int) -> int:
        """Reads one item; returns the offset to continue at."""
        text = self.text
        if text.startswith(".section", start):
            return self._section(start)
        if text.startswith(".file", start):
            directive = _FILE.match(text, start)
            if directive is not None:
                self.items.append(Directive(".file", canonical(directive.group())))
                return self._parse_item(start, directive.end())
        if text[start] == "{" and self._is_after_prototype():
            return self._cut_off_body(start)
        head = IS_FUNCTION.match(text, start)
        if head is not None:
            return self._function(start, head.end())
        end, ended = statements.statement_end(text, start)
        if text[start] != "." or not ended:
            return self._misplaced(start, end)
        return self._parse_item(start, end)

    def _section(self, start: int) -> int:
        """Reads debug data, which is kept as text."""
        match = section_pattern().match(self.text, start)
        end = start + len(".section") if match is None else match.end()
        if match is not None and self.text[end : end + 1] == "}":
            self.items.append(Directive(".section", self.text[start : end + 1]))
            return end + 1
        self.problems.add("PW101", "unexpected text in a section", (end, end + 1))
        return self._next_item(end)

    def _next_item(self, start: int) -> int:
        """Returns the next line from ``start`` on that begins like an item, else the text's end."""
        match = _NEXT_ITEM.search(self.text, start)
        return len(self.text) if match is None else match.start(1)

    def _is_after_prototype(self) -> bool:
        last = self.items[-1] if self.items else None
        return isinstance(last, Kernel) and not last.has_body

    def _cut_off_body(self, start: int) -> int:
        """Reads a body after ``;``: the semicolon made the head a prototype."""
        semicolon = len(self.text[:start].rstrip()) - 1
        place = (semicolon, semicolon + 1)
        help_text = "performance directives end without ';'"
        self.problems.add("PW101", "unexpected ';' before the body of a function", place, help_text)
        last = self.items[-1]
        assert isinstance(last, Kernel)
        self.heads[last.name] = (True, last.linkage, place)
        return statements.matching_brace(self.text, start)

    def _misplaced(self, start: int, end: int) -> int:
        """Reads text that begins no item, or an item without end."""
        resume = self._next_item(start + 1)
        if self.text[start] == ".":
            return self._parse_item(start, min(end, resume), resume)
        match = re.compile(r"[\w$%.]+|\S").match(self.text, start)
        word = match.group() if match else ""
        help_text = "a '}' too many above?" if word == "}" else ""
        place = (start, start + len(word))
        self.problems.add("PW101", f"unexpected '{word[:40]}' outside a function", place, help_text)
        return resume

    def _parse_item(self, start: int, end: int, resume: int = -1) -> int:
        text = self.text[start:end]
        resume = end if resume < 0 else resume
        try:
            tree = parse_rule(shorten_lists(text), "item")
            self.context.check_target(text, (start, end))
            if tree.data == "variable":
                self._variables(tree, text, start)
            elif tree.data in ("alias", "pragma"):
                self._directive(tree, text, start)
        except (UnexpectedInput, LiteralError) as error:
            self._not_read(error, start, end)
        return resume

    def _not_read(self, error: UnexpectedInput | LiteralError, start: int, end: int) -> None:
        self.context.is_incomplete |= isinstance(error, UnexpectedInput)
        self.problems.add_unread(error, start, end)

    def _directive(self, tree: Tree[Token], text: str, start: int) -> None:
        if tree.data == "alias":
            alias, function = tokens(tree)
            self._alias(alias, function, start)
        self.items.append(Directive(f".{tree.data}", canonical(text)))

    def _alias(self, alias: Token, function: Token, start: int) -> None:
        """Makes the first function, which has no body, another name of the second (``.alias``)."""
        place = (start + (alias.start_pos or 0), start + (function.end_pos or 0))
        mine, theirs = self.heads.get(alias), self.heads.get(function)
        reason = ""
        if mine is None or theirs is None:
            if not self.context.is_incomplete:
                reason = f"'{alias if mine is None else function}' is no function declared above"
        elif mine[0]:
            reason = f"'{alias}' has a body or an alias already"
        elif not {alias, function}.isdisjoint((*self.entries, *self.aliases)) or alias in (
            function,
            *self.aliases.values(),
        ):
            reason = "a function with a body is expected, which is neither an entry nor an alias"
        elif theirs[1] in ("extern", "weak"):
            reason = f"'{function}' is .{theirs[1]}"
        elif alias in self.signatures and function in self.signatures:
            reason = self.signatures[alias].conflict(self.signatures[function], has_body=False)
        if reason:
            self.problems.add("PW118", f"no alias: {reason}", place)
        self.aliases[str(alias)] = str(function)
        linkage, own = ("", place) if mine is None else mine[1:]
        self.heads[str(alias)] = (True, linkage, own)

    def _variables(self, tree: Tree[Token], text: str, start: int) -> None:
        for variable, declared in lower_variables(tree, text):
            place = (start + declared.start, start + declared.end)
            name = variable.name
            earlier = self.variables.get(name)
            if name in self.heads or (
                earlier is not None and "extern" not in (earlier, variable.linkage)
            ):
                self._duplicate(name, place)
            reason = refusal(variable) or self._target_refusal(variable)
            if reason is None and not self.context.is_incomplete:
                reason = unfit_addresses(variable, self.context.module)
            if reason is not None:
                self.problems.add("PW118", reason, place)
            self.variables[name] = variable.linkage
            for declared_name in names_of(variable):
                self.context.module.declare_variable(declared_name, space_of(variable))
            self.items.append(variable)

    def _target_refusal(self, variable: Variable) -> str | None:
        assert self.header is not None
        if variable.type == "samplerref" and "texmode_independent" not in self.header.options:
            return ".samplerref needs '.target ..., texmode_independent'"
        if "[" in variable.space and self.header.version >= (2, 2):
            return "constant banks ended with PTX 2.2"
        if variable.space in ("local", "param"):
            return f"a .{variable.space} variable belongs into a function"
        return None

    def _duplicate(self, name: str, place: tuple[int, int]) -> None:
        self.problems.add("PW105", f"'{name}' is defined twice", place, "rename one of them")

    # --- functions ---

    def _function(self, start: int, keyword_end: int) -> int:
        """Reads a definition or a prototype; returns the offset past it."""
        end = head_end(self.text, keyword_end)
        try:
            return self._read_function(start, end)
        except TooManyProblemsError:
            raise
        except Exception as error:
            return self._unread(start, keyword_end, end, error)

    def _unread(self, start: int, keyword_end: int, end: int, error: Exception) -> int:
        """Keeps a function by name if reading it is a bug of ours; the others are still read.

        Raises ``error`` without a name.
        """
        text = self.text
        name = function_name(text[keyword_end:end])
        if name is None:
            raise error
        has_body = text[end : end + 1] == "{"
        resume = end + 1 if text[end : end + 1] == ";" else end
        if has_body:
            resume = statements.matching_brace(text, end)
        is_entry = text[:keyword_end].endswith(".entry")
        shown = readable_names((name,))[name]
        failure = internal_error(error, f"{'kernel' if is_entry else 'function'} {shown}")
        span = Span(self.source, start, resume)
        self.heads[name] = (True, "", (start, end))
        self.context.module.declare(name, scopes.FUNCTION)
        self.items.append(
            UnreadKernel(name, is_entry=is_entry, has_body=has_body, span=span, failure=failure)
        )
        return resume

    def _read_function(self, start: int, end: int) -> int:
        """Reads the function whose head ends at ``end``; returns the offset past it."""
        text = self.text
        has_body = text[end : end + 1] == "{"
        resume = end + 1 if text[end : end + 1] == ";" else end
        try:
            tree = parse_rule(text[start:end], "function_head")
            head = lower_head(tree, text[start:end])
        except (UnexpectedInput, LiteralError) as error:
            self._not_read(error, start, end)
            return statements.matching_brace(text, end) if has_body else resume
        self._check_head(head, (start, end), has_body)
        self.context.check_target(text[start:end], (start, end))
        if head.is_entry:
            self.entries.add(head.name.name)
        self._declare_function(head, start, has_body)
        names = FunctionNames(spaces=ChainMap({}, self.context.module.function.spaces))
        scope = Scope(self.context.module, names)
        self._declare_parameters(head, scope, start, has_body=has_body)
        reader = BodyReader(self.context, names, scope)
        if has_body:
            resume = reader.read(end + 1)
            for call, reason in wrong_calls(
                reader.instructions,
                self.signatures,
                names,
                reader.blocks.variables,
                has_abi=head.is_entry and self.context.shapes.target.number >= 20,
            ):
                self.problems.add("PW108", f"call: {reason}", (call.start, call.end))
            for access in guarded_arguments(reader.instructions, reader.blocks.variables):
                message = "no guard may stand before an access to an argument or a result of a call"
                self.problems.add("PW108", message, (access.start, access.end))
        self.items.append(self._kernel(head, reader, has_body, Span(self.source, start, resume)))
        return resume

    def _declare_function(self, head: FunctionHead, start: int, has_body: bool) -> None:
        name = head.name.name
        place = (start + head.name.start, start + head.name.end)
        earlier = self.heads.get(name)
        if name in self.variables or (earlier is not None and earlier[0] and has_body):
            self._duplicate(name, place)
        defined = has_body or (earlier is not None and earlier[0])
        linkage = "extern" if earlier is not None and earlier[1] == "extern" else head.linkage
        self.heads[name] = (defined, linkage, place)
        self.context.module.declare(name, scopes.FUNCTION)

    def _check_head(self, head: FunctionHead, place: tuple[int, int], has_body: bool) -> None:
        """Checks the head against an earlier one of the function, and its directives together."""
        name, signature = head.name.name, Signature.of(head)
        earlier = self.signatures.setdefault(name, signature)
        reason = signature.conflict(earlier, has_body=has_body)
        is_second = has_body and self.heads.get(name, (False,))[0]
        if reason and not is_second:
            place = place[0] + head.name.start, place[0] + head.name.end
            self.problems.add("PW118", f"'{name}' is declared twice: {reason}", place)
        reason = performance_conflict(head)
        if reason:
            self.problems.add("PW118", reason, place)

    def _declare_parameters(
        self, head: FunctionHead, scope: Scope, start: int, *, has_body: bool
    ) -> None:
        for number, (parameter, declared) in enumerate((*head.results, *head.parameters)):
            name = parameter.name
            place = (start + declared.start, start + declared.end)
            reason = parameter_refusal(parameter, has_body=has_body)
            if reason:
                self.problems.add("PW118", reason, place)
            if name == "_":
                continue
            if scope.is_taken(name):
                self._duplicate(name, place)
            elif parameter.space != "reg":
                is_handle = parameter.type in HANDLES
                space = "input" if number >= len(head.results) else "param"
                scope.declare_variable(name, parameter.type if is_handle else space)
            elif head.is_entry:
                self.problems.add("PW118", "parameters of an entry are .param", place)
            elif (width := parameter.size_bytes // type_bytes(parameter.type)) > 1:
                scope.declare_vector(name, width, parameter.type)
            else:
                scope.declare_register(name, parameter.type)

    def _kernel(self, head: FunctionHead, reader: BodyReader, has_body: bool, span: Span) -> Kernel:
        names = reader.names
        kernel = Kernel(
            name=head.name.name,
            is_entry=head.is_entry,
            parameters=tuple(parameter for parameter, _ in head.parameters),
            instructions=tuple(reader.instructions),
            labels=MappingProxyType(names.labels),
            registers=MappingProxyType(names.types | _carry_flag(reader.instructions)),
            branch_tables=MappingProxyType(names.tables),
            call_lists=MappingProxyType(names.call_lists),
            variables=tuple(reader.blocks.variables),
            performance=head.performance,
            body=tuple(reader.blocks.items),
            span=span,
            linkage=head.linkage,
            results=tuple(parameter for parameter, _ in head.results),
            attributes=head.attributes,
            has_body=has_body,
            target="" if self.header is None else self.header.target,
        )
        return lowered(kernel)

    def _check_prototypes(self) -> None:
        for name, (defined, linkage, place) in self.heads.items():
            if not defined and linkage != "extern":
                self.problems.add(
                    "PW104",
                    f"function '{name}' is declared but not defined",
                    place,
                    "define it, or declare it .extern",
                )


def _with_readable_names(items: Sequence[ModuleItem]) -> tuple[ModuleItem, ...]:
    """Returns the items; kernels and functions have their readable names."""
    readable = readable_names(item.name for item in items if isinstance(item, Kernel))
    return tuple(
        item.called(readable[item.name])
        if isinstance(item, Kernel) and readable[item.name] != item.name
        else item
        for item in items
    )


def _file_names(source: SourceFile) -> dict[int, tuple[str, str]]:
    """Returns the names in ``.file``, each with a readable name unless it is another file's.

    A relative path in a linked file may be a different file with the same path in another one: it
    is ``b.ptx::kernel.cu``.
    """
    files, others, before = _paths(source), list[str](), source.before
    while before is not None:
        others += _paths(before).values()
        before = before.before
    readable = readable_paths((*files.values(), *others))
    return {
        number: (file, "" if readable[file] == file else readable[file])
        for number, file in files.items()
    }


def _paths(source: SourceFile) -> dict[int, str]:
    """Returns the files of ``.file`` by number; nvcc writes it after the code that refers to it."""
    files, text = {}, source.text
    for match in _FILE_NUMBER.finditer(text):
        before = text[max(0, match.start() - _LONGEST_INDENT) : match.start()]
        if "//" not in before.rpartition("\n")[2]:
            with contextlib.suppress(ValueError):  # reported where the directive is read
                file = match.group(2)
                if source.is_linked and not WHOLE_PATH.match(file):
                    file = f"{source.name}::{file}"
                files[integer_value(match.group(1))] = file
    return files


def _warnings(source: SourceFile, header: Header) -> tuple[Diagnostic, ...]:
    warnings = []
    match = None if source.text.isascii() else re.search(r"[^\x00-\x7f]+", source.text)
    if match is not None:
        span = Span(source, match.start(), match.end())
        message = "a character outside ASCII: ptxas refuses the file"
        warnings.append(Diagnostic("PW116", message, span, severity=Severity.WARNING))
    if header.version > NEWEST:
        span = Span(source, header.start, header.start + len(".version"))
        message = "a newer PTX ISA than 9.0: statements are judged and charged as 9.0 has them"
        warnings.append(Diagnostic("PW114", message, span, severity=Severity.WARNING))
    return tuple(warnings)


def _carry_flag(instructions: Sequence[Instruction]) -> dict[str, str]:
    """Returns the type of the carry flag, if an instruction reads or writes it."""
    forms = {instruction.form for instruction in instructions}
    is_used = any(CARRY in (*form.implicit_reads, *form.implicit_writes) for form in forms)
    return {CARRY: "pred"} if is_used else {}
