"""Lowers a listing of machine code to a module of the IR: its graph, registers and timing bits.

An instruction is an :class:`~ptxwcet.ir.kernel.Instruction` whose row is of
:mod:`ptxwcet.sass.opcodes`; the waiting encoded in its word is in ``Kernel.code``. A kernel with an
unknown opcode, modifier, operand or transfer of control is an ``UnreadKernel``: any use of it
reports the refusal (PW125) with the address.

CALL.REL saves nothing: its function returns to the address in a register. It is a call of the IR
where a register holds the address of the next instruction, which is taken for that register, and a
branch where its target is a label of its own function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, NoReturn

from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.kernel import (
    Encoded,
    Guard,
    Instruction,
    Kernel,
    LabelDefinition,
    MachineCode,
    Module,
    Origin,
    Parameter,
    PerformanceDirective,
    SourceLocation,
    UnreadKernel,
    Variable,
)
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.operands import Decorated, Operand, Register, SymbolRef, leaves
from ptxwcet.ir.verifier import lowered
from ptxwcet.sass.elf import require_architecture
from ptxwcet.sass.hazards import hazards_of
from ptxwcet.sass.listing import (
    PERFORMANCE,
    Line,
    ListedSection,
    ListedVariable,
    Listing,
    Places,
    parse_listing,
)
from ptxwcet.sass.opcodes import ROWS, Row, Writes
from ptxwcet.sass.operands import (
    UnknownOperandError,
    is_predicate,
    operand_of,
    registers,
    split_operands,
)
from ptxwcet.sass.widths import has_wide_addresses, register_counts
from ptxwcet.support.demangling import readable_names
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError, internal_error
from ptxwcet.support.source import SourceFile, Span, readable_paths

_STEP = 16  # bytes of an instruction
_OF_THE_SYSTEM = 1024  # bytes of a block's shared memory from sm_90 on, which the file counts, too
_MOST_ALIGNED = 256
_INDEXED = re.compile(r"(U?R\d+)(?:\.reuse)? (-?0x[0-9a-f]+)")
_RETURN = re.compile(r"(R\d+) (?:`\([\w.$@]+\)|0x0)")
_NAMED = re.compile(r"`\(([\w.$@]+)\)")
_FEW = 6
_NEVER = ("!PT", "!UPT")  # guards that hold for no thread


def read_program(main: SourceFile, *linked: SourceFile) -> Module:
    """Returns the module of a listing. Raises PtxwcetError: PW123 (not a listing), PW125.

    Its warnings are reads for which machine code does not wait (PW126). Cost: about linear.
    """
    listing = parse_listing(main)
    if linked:
        message = "machine code is linked: nothing is linked with it here"
        raise PtxwcetError(Diagnostic("PW125", message, help="give the cubin without --link"))
    require_architecture(main.name, listing.architecture)
    names = [name for s in listing.sections for part in s.functions for name in part.names]
    module = _Module(listing, readable_names(names))
    kernels = [kernel for section in listing.sections for kernel in module.kernels(section)]
    whole = [kernel for kernel in kernels if not isinstance(kernel, UnreadKernel)]
    warnings = [hazard for kernel in whole for hazard in hazards_of(kernel, listing.architecture)]
    return Module(
        main,
        (*module.variables, *kernels),
        target=f"sm_{listing.architecture}",
        warnings=tuple(warnings),
    )


def unread(
    name: str, readable: str, span: Span, error: Exception, *, is_entry: bool
) -> UnreadKernel:
    """Returns a kernel or function with unreadable code. An exception other than PtxwcetError is a
    bug of the tool, or wrong output of the disassembler (PW901): it costs only this kernel.
    """
    if isinstance(error, PtxwcetError):
        failure = error.diagnostics[0]
    else:
        failure = internal_error(error, f"kernel {readable}")
    return UnreadKernel(
        name, is_entry=is_entry, has_body=True, span=span, failure=failure, readable=readable
    )


class _Module:
    def __init__(self, listing: Listing, readable: Mapping[str, str]) -> None:
        self.source, self.architecture = listing.source, listing.architecture
        self.readable = readable
        lines = (line for s in listing.sections for part in s.functions for line in part.lines)
        self.files = readable_paths(path for line in lines for path, _ in line.places)
        self.ptx = listing.ptx
        self.origins: dict[Places, Origin] = {}
        parts = [part for section in listing.sections for part in section.functions]
        self.functions = {name: part for part in parts for name in part.names}
        # A taken name identifies no variable: the bytes of that one are unknown.
        taken = {name for s in listing.sections for name in _own_names(s)}
        named = [v for v in listing.variables if v.name not in taken]
        self.variables = [_variable(v) for v in named]
        self.constants_at = tuple(
            (v.offset, v.offset + v.size, v.name) for v in named if v.space == "const"
        )

    def kernels(self, section: ListedSection) -> Iterable[Kernel]:
        """Yields the kernel of a section, and its functions."""
        for number, part in enumerate(section.functions):
            end = part.lines[-1].end if part.lines else part.start + 1
            span = Span(self.source, part.start, end)
            try:
                yield lowered(_Function(self, section, number, span).kernel())
            except Exception as error:
                name, readable = part.names[0], self.readable[part.names[0]]
                yield unread(name, readable, span, error, is_entry=part.is_kernel)

    def origin(self, places: Places) -> Origin:
        """Returns the origin with the line of CUDA, and the lines that inlined it."""
        if places not in self.origins:
            location = None
            for path, line in reversed(places):
                location = SourceLocation(path, line, 0, location, self.files[path])
            self.origins[places] = Origin(self.source, location)
        return self.origins[places]


class _Lowered(NamedTuple):
    instruction: Instruction
    table: tuple[str, tuple[str, ...]] | None = None


class _Function:
    """The lowering of one kernel or function."""

    def __init__(self, module: _Module, section: ListedSection, number: int, span: Span) -> None:
        self.module, self.section, self.span = module, section, span
        self.part = section.functions[number]
        self.entries = {name: function for function in section.functions for name in function.names}
        self.lines = _without_padding(self.part.lines, section.labels)
        self.first = self.part.lines[0].address if self.part.lines else 0
        self.end = self.first + _STEP * len(self.lines)
        self.registers: dict[str, str] = {}
        self.labels = {
            label: (address - self.first) // _STEP
            for label, address in section.labels.items()
            if self.first <= address < self.end
        }
        self.reached = self.places_reached()
        self.label_of = {index: label for label, index in reversed(self.labels.items())}

    def kernel(self) -> Kernel:
        """Returns the kernel. Raises PtxwcetError (PW125)."""
        if not self.lines:
            self.refuse(None, "a function without instructions")
        if unresolved := self.section.numbers.get("relocations"):
            self.refuse_relocation(unresolved[0][0])
        self.require_rows()
        code = [self.lower(line) for line in self.lines]
        section, name = self.section, self.part.names[0]
        tables = dict(c.table for c in code if c.table is not None)
        ordered = sorted(self.labels.items(), key=lambda item: item[1])
        is_kernel = self.part.is_kernel
        return Kernel(
            name=name,
            is_entry=is_kernel,
            parameters=_parameters(section) if is_kernel else (),
            instructions=tuple(c.instruction for c in code),
            labels=dict(ordered),
            registers=self.registers,
            branch_tables=tables,
            variables=_shared(section, self.module.architecture) if is_kernel else (),
            performance=_performance(section) if is_kernel else (),
            body=tuple((index, LabelDefinition(label, label)) for label, index in ordered),
            span=self.span,
            readable=self.module.readable[name],
            target=f"sm_{self.module.architecture}",
            code=MachineCode(
                registers=section.number("registers"),
                local_bytes=section.number("local"),
                parameters_at=_places(section),
                encoded=tuple(_encoded(line) for line in self.lines),
                constants_at=self.module.constants_at,
                ptx=self.module.ptx,
            ),
        )

    def refuse(
        self,
        line: Line | None,
        why: str,
        notes: tuple[str, ...] = (),
        help_text: str = "bound the kernel from its PTX, and report the instruction",
    ) -> NoReturn:
        span = self.span if line is None else Span(self.span.source, line.start, line.end)
        at = "" if line is None else f" at {line.address:#06x}"
        raise PtxwcetError(
            Diagnostic(
                "PW125",
                f"machine code that is not known{at}: {why}",
                span,
                notes=notes,
                help=help_text,
            )
        )

    def refuse_relocation(self, address: int) -> NoReturn:
        """Refuses code that the loader completes with a value from outside of the file."""
        line = next((line for line in self.lines if line.address == address), None)
        name = _NAMED.search(line.operands) if line is not None else None
        if line is not None and name is not None and line.mnemonic.startswith("CALL"):
            self.refuse(
                line,
                f"it calls {name[1]}, whose code is not in the file",
                help_text="link the file that defines it (nvlink), or remove the call if it is of "
                "the driver's own, as printf, malloc and assert are",
            )
        self.refuse(
            line,
            "whoever loads the file writes an address here that is not of this file's code",
            help_text="compile the program as one file, without -rdc=true and -dc, or bound the "
            "kernel from its PTX",
        )

    def require_rows(self) -> None:
        """Refuses the first opcode or modifier without a row, and names all others."""
        unknown: dict[str, Line] = {}
        for line in self.lines:
            entry = _row(line)
            if entry is None or not entry.modifiers.issuperset(line.mnemonic.split(".")[1:]):
                unknown.setdefault(line.mnemonic, line)
        if not unknown:
            return
        first, *others = unknown.items()
        notes = [f"{name} at {line.address:#06x}" for name, line in others[:_FEW]]
        if len(others) > _FEW:
            notes.append(f"and {len(others) - _FEW} more kinds")
        name, line = first
        words = name.split(".")[1:]
        entry = _row(line)
        why = f"no row for {line.mnemonic}"
        if entry is not None:
            why = f"{name} with .{next(w for w in words if w not in entry.modifiers)}"
        self.refuse(line, why, (f"so are {', '.join(notes)}",) if notes else ())

    def lower(self, line: Line) -> _Lowered:
        """Returns the instruction, with its branch table."""
        entry = _row(line)
        assert entry is not None
        if line.guard in _NEVER:
            return _Lowered(self.made(line, ROWS["NOP"], []))
        texts = split_operands(line.operands)
        control = entry.opcode.control
        if entry.opcode.name in ("BRX", "BRXU"):
            return self.indexed(line, entry)
        if control is ControlEffect.RETURN:
            return self.returning(line, entry)
        words = line.mnemonic.split(".")
        if control is ControlEffect.CALL:
            return self.call(line, entry, texts)
        if control is ControlEffect.BRANCH or "COLLECTIVE" in words:
            return self.branch(line, entry, texts)
        entry = _arriving(entry, words)
        return _Lowered(self.made(line, entry, self.operands(line, entry, texts)))

    def operands(self, line: Line, entry: Row, texts: list[str]) -> list[Operand]:
        words = line.mnemonic.split(".")
        counts = register_counts(words[0], words[1:])
        if counts is None:
            self.refuse(line, f"how many registers {line.mnemonic} has")
        written = _written(entry.writes, texts)
        wide, place, made = has_wide_addresses(words), 0, list[Operand]()
        is_copy = words[0] == "LDGSTS"  # its first address is in shared memory
        masked = int(texts[-1], 0) if "PR" in texts and texts[-1].startswith("0x") else 0x7F
        for number, text in enumerate(texts):
            count = counts[min(place, len(counts) - 1)]
            try:
                made.append(
                    operand_of(
                        text,
                        count,
                        written=number < written,
                        wide_addresses=wide and not (is_copy and number == 0),
                        masked=masked,
                    )
                )
            except UnknownOperandError as error:
                self.refuse(line, f"{line.mnemonic} with the operand {error}")
            place += not is_predicate(text)
        return made + self.descriptor(line, words)

    def descriptor(self, line: Line, words: list[str]) -> list[Operand]:
        """Returns the uniform registers of a memory descriptor, which sm_8x reads without showing.

        Newer code shows them, as ``desc[UR4][R2.64]``.
        """
        shown = "desc[" in line.operands or ".64" not in line.operands
        # where other instructions have a register of data
        number = line.word >> (32 if words[0] in ("LD", "LDG") else 64) & 0x3F
        if not has_wide_addresses(words) or shown or self.module.architecture < 80 or number > 61:
            return []
        return [Decorated(registers("UR", number, 2), "desc")]

    def made(
        self,
        line: Line,
        entry: Row,
        operands: list[Operand],
        targets: tuple[str, ...] = (),
        guard: Guard | None = None,
    ) -> Instruction:
        if guard is None and not line.guard.endswith("PT") and line.guard:
            guard = Guard(line.guard.lstrip("!"), line.guard.startswith("!"))
        place = self.module.origin(line.places), line.start, line.end
        texts = split_operands(line.operands)
        instruction = instruction_of(
            line.mnemonic,
            operands,
            place,
            guard=guard,
            targets=targets,
            decoded=(entry.opcode, min(_written(entry.writes, texts), len(operands))),
        )
        for name in (*instruction.reads, *instruction.writes):
            is_predicate_name = name[0] == "%" or name.lstrip("U")[0] == "P"
            self.registers[name] = "pred" if is_predicate_name else "b32"
        return instruction

    # --- transfers of control --------------------------------------------------------------------

    def target(self, line: Line, label: str) -> str:
        """Returns a label of this function. Refuses other labels."""
        if label not in self.labels:
            self.refuse(line, f"{line.mnemonic} leads out of the function, to {label}")
        return label

    def branch(self, line: Line, entry: Row, texts: list[str]) -> _Lowered:
        """Lowers a branch, whose condition may include predicates or convergence."""
        operands = self.operands(line, entry, texts)
        label = operands[-1] if operands else None
        if not isinstance(label, SymbolRef):
            self.refuse(line, f"{line.mnemonic} to {line.operands or 'nothing'}")
        others = operands[:-1]
        guards = [line.guard] if line.guard else []
        words = line.mnemonic.split(".")
        named = [text for text in texts[:-1] if is_predicate(text)]
        waits = [word for word in ("DIV", "CONV", "ANY", "COLLECTIVE") if word in words]
        guard, added = None, list[Operand]()
        if named or waits:
            # one pseudo predicate, which nothing writes, for the whole condition
            added = [Register(g.lstrip("!")) for g in guards]
            guard = Guard("%" + "&".join((*guards, *named, *waits)), False)
        elif others and texts[:-1] != ["UPT"]:
            self.refuse(line, f"{line.mnemonic} {line.operands}")
        entry = entry._replace(opcode=replace(entry.opcode, control=ControlEffect.BRANCH))
        target = self.target(line, label.name)
        return _Lowered(self.made(line, entry, [label, *others, *added], (target,), guard))

    def indexed(self, line: Line, entry: Row) -> _Lowered:
        """Lowers an indexed branch, whose targets the compiler lists in the file."""
        targets = self.section.branches().get(line.address)
        match = _INDEXED.fullmatch(line.operands)
        if not targets or match is None:
            self.refuse(line, f"{line.mnemonic} without a list of where it leads")
        names = []
        for address in targets:
            if not self.first <= address < self.end or address % _STEP:
                self.refuse(line, f"{line.mnemonic} leads out of the function, to {address:#x}")
            names.append(self.label_at(address))
        table = f"targets_{line.address:#x}"
        operands = [self.register(line, match[1]), SymbolRef(table)]
        return _Lowered(self.made(line, entry, operands, tuple(names)), (table, tuple(names)))

    def places_reached(self) -> set[int]:
        """Returns the indices of instructions that can be reached by a jump."""
        reached = {
            self.labels[label]
            for line in self.lines
            for label in _NAMED.findall(line.operands)
            if label in self.labels and line.mnemonic != "BSSY"
        }
        listed = (address for targets in self.section.branches().values() for address in targets)
        return reached | {(address - self.first) // _STEP for address in listed}

    def label_at(self, address: int) -> str:
        """Returns the first label of an address, made if there is none."""
        index = (address - self.first) // _STEP
        if index not in self.label_of:
            self.label_of[index] = f"at_{address:#x}"
            self.labels[self.label_of[index]] = index
        return self.label_of[index]

    def returning(self, line: Line, entry: Row) -> _Lowered:
        match = _RETURN.fullmatch(line.operands)
        if self.part.is_kernel or match is None:
            self.refuse(line, f"{line.mnemonic} {line.operands} in a kernel")
        return _Lowered(self.made(line, entry, [self.register(line, match[1])]))

    def register(self, line: Line, text: str) -> Operand:
        """Returns the two registers with the target of a transfer of control."""
        try:
            return operand_of(text, 2, written=False)
        except UnknownOperandError as error:
            self.refuse(line, f"{line.mnemonic} with the operand {error}")

    def call(self, line: Line, entry: Row, texts: list[str]) -> _Lowered:
        operands = [] if _RETURN.fullmatch(line.operands) else self.operands(line, entry, texts)
        if len(operands) != 1 or not isinstance(operands[0], SymbolRef):
            self.refuse(
                line,
                f"{line.mnemonic} of what a register holds: a function that is not named here",
                help_text="call functions by their names, and none of the driver's own, as printf, "
                "malloc and assert are, or bound the kernel from its PTX",
            )
        name = operands[0].name
        if name in self.labels:
            return self.branch(line, entry, texts)
        is_absolute = "ABS" in line.mnemonic.split(".")
        callee = (self.module.functions if is_absolute else self.entries).get(name)
        if callee is None:
            self.refuse(line, f"{line.mnemonic} of {name}, which is not in the kernel's section")
        following = f"{line.address + _STEP:#x}"
        words = (f"lo@{following}", f"hi@{following}") if is_absolute else (following,)
        held = [self.has_next(line, word) or "" for word in words]
        numbers = [int(h[1:]) for h in held if h[1:].isdigit()]
        if len(numbers) != len(words) or numbers[-1] - numbers[0] != len(words) - 1:
            self.refuse(line, f"{line.mnemonic} that may not return to the next instruction")
        made = self.made(line, entry, [Register(r) for r in held])
        form = replace(made.form, callee_slot=len(made.names))
        return _Lowered(made._replace(form=form, names=(*made.names, callee.names[0])))

    def has_next(self, line: Line, wanted: str) -> str | None:
        """Returns the register that holds the address of the next instruction at a call, if any.

        It holds the operand ``wanted``, moved there since the last place that is a target, and not
        overwritten.
        """
        overwritten = set[str]()
        index = (line.address - self.first) // _STEP
        while index > 0 and index not in self.reached:
            index -= 1
            before = self.lines[index]
            entry = _row(before)
            if entry is None or entry.opcode.control is not ControlEffect.NONE:
                return None
            texts = split_operands(before.operands)
            is_move = before.mnemonic == "MOV" or before.mnemonic.startswith("IMAD.MOV")
            if is_move and texts[-1] == wanted and texts[0] not in overwritten:
                return None if before.guard else texts[0]
            count = _written(entry.writes, texts)
            overwritten |= _names(self.operands(before, entry, texts)[:count])
        return None


def _row(line: Line) -> Row | None:
    return ROWS.get(line.mnemonic.partition(".")[0])


def _arriving(entry: Row, words: list[str]) -> Row:
    """Returns the row; for a barrier that does not wait, one that only arrives."""
    if entry.opcode.name == "BAR" and "ARV" in words:
        return entry._replace(opcode=replace(entry.opcode, control=ControlEffect.ARRIVE))
    return entry


def _names(operands: Iterable[Operand]) -> set[str]:
    return {leaf.name for o in operands for leaf in leaves(o) if isinstance(leaf, Register)}


def _written(writes: Writes, texts: list[str]) -> int:
    """Returns the number of leading operands that an instruction writes."""
    if writes is Writes.BEFORE_MEMORY:
        return next((n for n, text in enumerate(texts) if "[" in text), 0)
    if writes is Writes.WITH_PREDICATES:
        first = next((n for n, text in enumerate(texts) if not is_predicate(text)), 0)
        rest = texts[first + 1 :]
        return first + 1 + next((n for n, text in enumerate(rest) if not is_predicate(text)), 0)
    simple = {Writes.NONE: 0, Writes.ONE: 1, Writes.TWO: 2, Writes.ALL: len(texts)}
    return simple.get(writes, len(texts) - 1)


def _without_padding(lines: list[Line], labels: Mapping[str, int]) -> list[Line]:
    """Returns the instructions without the padding of a section: a loop to itself, with NOPs.

    It is unreachable: the code before it ends, and nothing else names the label.
    """
    last = len(lines)
    while last and lines[last - 1].mnemonic == "NOP":
        last -= 1
    if last < 2:
        return lines
    end, before = lines[last - 1], lines[last - 2]
    label = end.operands.removeprefix("`(").rstrip(")")
    is_loop = end.mnemonic == "BRA" and not end.guard and labels.get(label) == end.address
    ends = before.mnemonic in ("EXIT", "BRA") or before.mnemonic.startswith(("RET.", "CALL."))
    named = sum(f"`({label})" in line.operands for line in lines)
    if is_loop and ends and not before.guard and named == 1 and "," not in before.operands:
        return lines[: last - 1]
    return lines


def _encoded(line: Line) -> Encoded:
    """Returns the bits of a word that encode waiting: see docs/methods/machine-code.md."""
    bits = line.word >> 105
    on_write, on_read, mask = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
    return Encoded(
        address=line.address,
        stall=bits & 15,
        yields=not bits >> 4 & 1,
        on_write=None if on_write == 7 else on_write,
        on_read=None if on_read == 7 else on_read,
        waits=tuple(board for board in range(6) if mask >> board & 1),
        reuse=bits >> 17 & 15,
        ptx_line=line.ptx_line,
        kind=None if line.guard in _NEVER else ROWS[line.mnemonic.partition(".")[0]].kind,
    )


def _parameters(section: ListedSection) -> tuple[Parameter, ...]:
    rows = section.numbers.get("parameter", ())
    return tuple(_parameter(section, n, size) for n, (_, size) in enumerate(rows))


def _parameter(section: ListedSection, number: int, size: int) -> Parameter:
    """Returns a parameter: a number, or an array of bytes."""
    name = f"{section.name}_param_{number}"
    if size in (1, 2, 4, 8):
        return Parameter(name, f"b{8 * size}", size, size, number)
    return Parameter(name, "b8", size, 1, number, size, is_array=True)


def _own_names(section: ListedSection) -> tuple[str, ...]:
    """Returns the names of a kernel's parameters and shared memory."""
    return (_shared_name(section), *(p.name for p in _parameters(section)))


def _variable(held: ListedVariable) -> Variable:
    alignment = min(held.offset & -held.offset or _MOST_ALIGNED, _MOST_ALIGNED)
    declaration = f".{held.space} .align {alignment} .b8 {held.name}[{held.size}];"
    initial = partial(_first_bytes, held.initial)
    return Variable(held.name, held.space, "b8", held.size, alignment, "", declaration, initial)


def _first_bytes(data: bytes, variable: Variable) -> bytes:
    return data.ljust(variable.size_bytes, b"\0")


def _places(section: ListedSection) -> tuple[int, ...]:
    base = section.number("parameters")
    return tuple(base + row[0] for row in section.numbers.get("parameter", ()))


def _shared_name(section: ListedSection) -> str:
    return f"{section.name}_shared"


def _shared(section: ListedSection, architecture: int) -> tuple[Variable, ...]:
    size = section.number("shared")
    if architecture >= 90:
        size = max(0, size - _OF_THE_SYSTEM)
    name = _shared_name(section)
    declaration = f".shared .b8 {name}[{size}];"
    return (Variable(name, "shared", "b8", size, 1, "", declaration),) if size else ()


def _performance(section: ListedSection) -> tuple[PerformanceDirective, ...]:
    directives = []
    for keyword in PERFORMANCE:
        for values in section.numbers.get(keyword, ()):
            text = f".{keyword} " + ", ".join(map(str, values))
            directives.append(PerformanceDirective(f".{keyword}", values, text))
    return tuple(directives)
