"""Defines modules, kernels and instructions: the representation that the parser lowers PTX to.

Everything here is immutable. An :class:`Instruction` shares its :class:`InstructionForm` (opcode,
modifiers, operand kinds, roles) with all instructions of the same shape; only the names and
literals that fill the operand slots and the position are its own. That keeps an instruction small
and its creation cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from functools import lru_cache
from typing import NamedTuple, NoReturn

from ptxwcet.ir.op_classes import COUNTING, ControlEffect, Convergence, Kind, OpClass
from ptxwcet.ir.op_classes import Space as Space
from ptxwcet.ir.opcodes import CARRY as CARRY
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operands import Address as Address
from ptxwcet.ir.operands import Arguments as Arguments
from ptxwcet.ir.operands import Decorated as Decorated
from ptxwcet.ir.operands import Element as Element
from ptxwcet.ir.operands import Immediate as Immediate
from ptxwcet.ir.operands import Negated as Negated
from ptxwcet.ir.operands import Operand as Operand
from ptxwcet.ir.operands import Pair as Pair
from ptxwcet.ir.operands import Register as Register
from ptxwcet.ir.operands import Selected as Selected
from ptxwcet.ir.operands import Sink as Sink
from ptxwcet.ir.operands import SpecialRegister as SpecialRegister
from ptxwcet.ir.operands import SymbolRef as SymbolRef
from ptxwcet.ir.operands import Vector as Vector
from ptxwcet.ir.operands import WholeVector as WholeVector
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile, Span

Template = Callable[[tuple[str, ...], tuple[Immediate, ...]], Operand]
"""A builder of an operand from the names and literals that fill an instruction's slots."""


@dataclass(frozen=True, slots=True, eq=False)
class InstructionForm:
    """Opcode, modifiers, operand kinds and roles; one object per distinct statement shape.

    Slots are indices into :attr:`Instruction.names`. ``guard_slot`` and ``callee_slot`` are -1
    if absent. ``read_slots`` and ``write_slots`` name register slots only. Without a row
    (``opcode`` None) ``op_class`` is None, and the registers of the first operand that has any
    count as read and written.
    """

    opcode: Opcode | None
    modifiers: tuple[str, ...]
    mnemonic: str
    op_class: OpClass | None
    control: ControlEffect
    space: Space
    guard_slot: int
    guard_negated: bool
    templates: tuple[Template, ...]
    read_slots: tuple[int, ...]
    write_slots: tuple[int, ...]
    callee_slot: int = -1
    implicit_reads: tuple[str, ...] = ()
    implicit_writes: tuple[str, ...] = ()

    def fill(
        self, names: tuple[str, ...], immediates: tuple[Immediate, ...]
    ) -> tuple[Operand, ...]:
        """Returns the operands of an instruction of this form. Cost: linear in their number."""
        return tuple([template(names, immediates) for template in self.templates])


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard ``@p`` or ``@!p``. ``register`` is the unique name of the predicate register."""

    register: str
    negated: bool


class SourceLocation(NamedTuple):
    """The source position of an instruction (``.loc``), and the call that inlined it.

    ``readable`` is the file's name for readers, ``file`` if empty. Line 0 means: no source line.
    """

    file: str
    line: int
    column: int
    inlined_at: SourceLocation | None = None
    readable: str = ""

    @property
    def place(self) -> str:
        """The text ``file:line``, or ``compiler`` for instructions without a source line."""
        return f"{self.readable or self.file}:{self.line}" if self.line else "compiler"


class Origin(NamedTuple):
    """The PTX file and the ``.loc`` in force; shared by the instructions that follow it."""

    source: SourceFile
    location: SourceLocation | None


class Instruction(NamedTuple):
    """One PTX instruction. ``start`` and ``end`` are offsets into the source text.

    ``names`` and ``immediates`` fill the slots of ``form``; use the properties. ``targets`` are the
    unique names of the labels that it may branch to, in table order for ``brx.idx``.
    """

    form: InstructionForm
    names: tuple[str, ...]
    immediates: tuple[Immediate, ...]
    start: int
    end: int
    origin: Origin
    targets: tuple[str, ...] = ()

    @property
    def opcode(self) -> Opcode | None:
        """The row of the opcode table, or None for an opcode without a row."""
        return self.form.opcode

    @property
    def is_known(self) -> bool:
        """True if the opcode table has a row for it; otherwise op class and roles are guesses."""
        return self.form.opcode is not None

    @property
    def mnemonic(self) -> str:
        """The opcode with modifiers as written, e.g. ``mul.lo.s32``."""
        return self.form.mnemonic

    @property
    def words(self) -> str:
        """The operation in the words of PTX, ``mul.lo.s32``, where there are some: for machine code
        its effect, not its spelling. For an opcode without a row, its mnemonic.
        """
        opcode = self.form.opcode
        return self.mnemonic if opcode is None else ".".join((opcode.name, *self.form.modifiers))

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The words after the row's name, without dots: ``('lo', 's32')``."""
        return self.form.modifiers

    @property
    def op_class(self) -> OpClass | None:
        """The timing class, None for an opcode without a row."""
        return self.form.op_class

    @property
    def control(self) -> ControlEffect:
        """Its effect on the flow of control."""
        return self.form.control

    @property
    def convergence(self) -> Convergence:
        """Its effect on the barriers at which lanes of a warp reconverge."""
        opcode = self.form.opcode
        return Convergence.NONE if opcode is None else opcode.convergence

    @property
    def space(self) -> Space:
        """State space accessed, ``Space.NONE`` if it accesses no memory."""
        return self.form.space

    @property
    def guard(self) -> Guard | None:
        """The guard predicate, if any."""
        form = self.form
        if form.guard_slot < 0:
            return None
        return Guard(self.names[form.guard_slot], form.guard_negated)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The operands in order, guard excluded. Built on each access: linear in their number."""
        return self.form.fill(self.names, self.immediates)

    @property
    def reads(self) -> tuple[str, ...]:
        """The unique names of the registers read: guard, sources, address registers, elements.

        Contains :data:`CARRY` for instructions that read the carry flag; no special registers.
        """
        return _named(self.names, self.form.read_slots, self.form.implicit_reads)

    @property
    def writes(self) -> tuple[str, ...]:
        """The unique names of the registers written; several for vectors, ``a|b`` and calls."""
        return _named(self.names, self.form.write_slots, self.form.implicit_writes)

    @property
    def callee(self) -> str | None:
        """The name of the function of a direct call, or None for any other instruction."""
        slot = self.form.callee_slot
        return None if slot < 0 else self.names[slot]

    @property
    def target_list(self) -> str:
        """The label that ends a call through a register; empty for any other instruction."""
        operands = self.operands if self.control is ControlEffect.CALL else ()
        last = operands[-1] if len(operands) > 1 else None
        return last.name if isinstance(last, SymbolRef) and self.callee is None else ""

    @property
    def span(self) -> Span:
        """Its place in the PTX text, from guard or opcode to the semicolon included."""
        return Span(self.origin.source, self.start, self.end)

    @property
    def location(self) -> SourceLocation | None:
        """The source line named by the last ``.loc`` before it."""
        return self.origin.location


def _named(
    names: tuple[str, ...], slots: tuple[int, ...], implicit: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the distinct names in some slots, and the implied ones. Called very often."""
    if len(slots) == 1 and not implicit:
        return (names[slots[0]],)
    return (*dict.fromkeys([names[slot] for slot in slots]), *implicit) if slots else implicit


# --- declarations and directives: everything except instructions ----------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry or function, in declaration order from index 0.

    ``count`` is the number of elements (1 for scalars); ``size_bytes`` the size of the whole.
    ``is_pointer`` is True if the declaration has ``.ptr``, and None if it does not state it.
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
        """Returns the parameter for readers, without mangled names: ``n = 3 (k_param_3, .u32)``."""
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
    """The directive ``.reg type name``, or ``.reg type name<count>``; ``vector`` is 0, 2 or 4."""

    name: str
    type: str
    vector: int = 0
    count: int | None = None


@dataclass(frozen=True, slots=True)
class LabelDefinition:
    """The label ``name:``; ``unique`` is the key in :attr:`Kernel.labels`."""

    name: str
    unique: str


@dataclass(frozen=True, slots=True)
class ScopeBegin:
    """The ``{`` inside a body. ``number`` is the n of the ``@n`` suffix of names declared in it."""

    number: int


@dataclass(frozen=True, slots=True)
class ScopeEnd:
    """The ``}`` inside a body."""


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other directive as canonical PTX text: .loc, .file, .pragma, .section, prototypes ..."""

    keyword: str
    text: str


class Encoded(NamedTuple):
    """The encoding of an instruction of machine code: its address, and the fields that delay warps.

    The warp issues nothing for ``stall`` cycles after it. ``on_write`` and ``on_read`` are the
    scoreboards that it holds until it has written, or read (None: it holds none), and it is not
    issued while any scoreboard of ``waits`` is held. ``ptx_line`` is the PTX line that it was
    compiled from, 0 if unknown. ``kind`` is None where the op class is sufficient.
    """

    address: int
    stall: int
    yields: bool
    on_write: int | None
    on_read: int | None
    waits: tuple[int, ...]
    reuse: int
    ptx_line: int
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class MachineCode:
    """The properties of a kernel, and of each instruction in order, in a file of machine code.

    ``parameters_at`` are the places of its parameters in constant bank 0, ``constants_at`` of the
    module's ``.const`` variables in bank 3: first byte, last + 1, name. ``added`` are the indices
    of instructions that are not in the code and take no time: they define register values, and have
    a neighbour's encoding. ``ptx`` are lines of the PTX that the code was compiled from, by number,
    if the file has them: for readers, no analysis uses them.
    """

    registers: int
    local_bytes: int
    parameters_at: tuple[int, ...]
    encoded: tuple[Encoded, ...]
    added: frozenset[int] = frozenset()
    constants_at: tuple[tuple[int, int, str], ...] = ()
    ptx: Mapping[int, str] = field(default_factory=dict)


BodyItem = RegisterDeclaration | Variable | LabelDefinition | ScopeBegin | ScopeEnd | Directive


@dataclass(frozen=True, slots=True)
class PerformanceDirective:
    """The directive ``.maxntid 256, 1, 1`` and its kin: keyword with its dot, numbers, PTX text."""

    keyword: str
    values: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """An entry or a device function; equality is identity.

    ``labels`` maps the unique name of each label (its spelling; spelling + ``@n`` in inner scopes)
    to the index of the instruction that it precedes, ``len(instructions)`` at the end.
    ``registers`` maps the unique name of every register that an instruction reads or writes to its
    type (``b32``, ``pred``), including the carry flag, which no operand names. ``branch_tables``
    maps a ``.branchtargets`` label to unique label names, ``call_lists`` a ``.calltargets`` label
    to the functions that a call through a register may call. ``body`` holds everything except
    instructions, each item with the index of the instruction it precedes. A prototype has
    ``has_body`` False and no instructions. ``attributes`` are PTX texts. ``readable`` is the name
    for readers: as written in the source, if ``name`` is mangled. ``recursions`` maps the index of
    a call that closes a cycle of calls to the functions on it. ``code`` is present only for machine
    code. ``target`` is the architecture that it is for, in a linked program the newest of its
    files: ``sm_86``, empty if unstated.
    """

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    registers: Mapping[str, str]
    branch_tables: Mapping[str, tuple[str, ...]]
    variables: tuple[Variable, ...]
    performance: tuple[PerformanceDirective, ...]
    body: tuple[tuple[int, BodyItem], ...]
    span: Span
    linkage: str = ""
    results: tuple[Parameter, ...] = ()
    attributes: tuple[str, ...] = ()
    has_body: bool = True
    recursions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    call_lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    readable: str = ""
    code: MachineCode | None = None
    target: str = ""

    def __post_init__(self) -> None:
        if not self.readable:
            object.__setattr__(self, "readable", self.name)

    def __repr__(self) -> str:
        return f"<Kernel {self.readable}: {len(self.instructions)} instructions>"

    @property
    def required_threads(self) -> tuple[int, int, int] | None:
        """The ``.reqntid`` as (x, y, z), or None if absent."""
        return self._dimensions(".reqntid")

    @property
    def max_threads(self) -> tuple[int, int, int] | None:
        """The ``.maxntid`` as (x, y, z), or None if absent."""
        return self._dimensions(".maxntid")

    @property
    def shared_bytes(self) -> int:
        """The bytes of statically sized shared variables declared in the kernel."""
        return sum(v.size_bytes for v in self.variables if v.space == "shared")

    def called(self, readable: str) -> Kernel:
        """Returns a copy with another name for readers."""
        return replace(self, readable=readable)

    def _dimensions(self, keyword: str) -> tuple[int, int, int] | None:
        for directive in self.performance:
            if directive.keyword == keyword:
                x, y, z = (*directive.values, 1, 1)[:3]
                return x, y, z
        return None


class UnreadKernel(Kernel):
    """A kernel or function that an internal error of the parser kept from being read.

    Its name and place are defined. Access to anything that it contains raises the error
    (PtxwcetError with ``failure``): this kernel and its callers are lost, and no other kernel.
    """

    __slots__ = ("failure",)
    failure: Diagnostic

    def __init__(
        self,
        name: str,
        *,
        is_entry: bool,
        has_body: bool,
        span: Span,
        failure: Diagnostic,
        readable: str = "",
    ) -> None:
        given = {"name": name, "is_entry": is_entry, "has_body": has_body, "span": span}
        given["readable"] = readable or name
        for field_name, value in {**given, "failure": failure}.items():
            object.__setattr__(self, field_name, value)

    def called(self, readable: str) -> UnreadKernel:
        """Returns a copy, as :meth:`Kernel.called` does."""
        kinds = {"is_entry": self.is_entry, "has_body": self.has_body}
        return UnreadKernel(
            self.name, **kinds, span=self.span, failure=self.failure, readable=readable
        )

    def __getstate__(self) -> dict[str, object]:
        kept = ("name", "is_entry", "has_body", "span", "readable", "failure")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> NoReturn:
        # Python calls this only for attributes that are not set.
        if name in {attribute.name for attribute in fields(Kernel)}:
            raise PtxwcetError(self.failure)
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"UnreadKernel({self.name!r})"


ModuleItem = Kernel | Variable | Directive


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A PTX file. ``items`` holds everything after the header in order, for printing.

    For a program of several files, ``files`` are these, the file with its kernels first.
    ``version``, ``target`` and its options are from the PTX header.
    """

    source: SourceFile
    items: tuple[ModuleItem, ...]
    version: tuple[int, int] = (0, 0)
    target: str = ""
    target_options: tuple[str, ...] = ()
    address_size: int = 64
    warnings: tuple[Diagnostic, ...] = ()
    files: tuple[Module, ...] = ()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The entries that have a body, in file order."""
        return tuple(i for i in self.items if isinstance(i, Kernel) and i.is_entry and i.has_body)

    @property
    def functions(self) -> tuple[Kernel, ...]:
        """The device functions that have a body, in file order."""
        return tuple(
            i for i in self.items if isinstance(i, Kernel) and not i.is_entry and i.has_body
        )

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The module's variables, in file order."""
        return tuple(i for i in self.items if isinstance(i, Variable))


MADE_CODE = "machine code of "
"""The prefix of the names of listings that were generated or extracted on demand."""


def require_ptx(kernel: Kernel, what: str) -> None:
    """Raises PtxwcetError (PW127) for machine code, where ``what`` is only for PTX."""
    if kernel.code is not None:
        message = f"kernel {kernel.readable} is machine code, and {what} PTX alone"
        file = kernel.span.source.name.removeprefix(MADE_CODE)
        help_text = (
            f"leave --machine-code out: the PTX of '{file}' is taken then, out of a binary by the "
            "cuobjdump on the PATH"
        )
        if file == kernel.span.source.name:
            help_text = (
                "give the PTX: 'nvcc -ptx -lineinfo kernel.cu', or the binary that the cubin is "
                "of, without --machine-code"
            )
        raise PtxwcetError(Diagnostic("PW127", message, kernel.span, help=help_text))


def place(kernel: Kernel, index: int) -> str:
    """Returns ``file:line`` of an instruction in the source, else its place in the code."""
    location = kernel.instructions[index].location
    return code_place(kernel, index) if location is None else location.place


def code_place(kernel: Kernel, index: int) -> str:
    """Returns the PTX line of an instruction, or its address in machine code."""
    if kernel.code is not None:
        return f"{kernel.code.encoded[index].address:#06x}"
    return f"PTX line {kernel.instructions[index].span.shown_line}"


def unknown_instructions(kernel: Kernel) -> tuple[Instruction, ...]:
    """Returns the instructions whose opcode has no row, in order. Cost: linear."""
    return tuple(i for i in kernel.instructions if i.form.opcode is None)


@lru_cache(maxsize=8)
def counts_at_mbarriers(kernel: Kernel) -> bool:
    """Returns whether something counts at mbarriers, or waits for them. Cost: linear, once."""
    return any(instruction.op_class in COUNTING for instruction in kernel.instructions)


@lru_cache(maxsize=8)
def hands_registers_over(kernel: Kernel) -> bool:
    """Returns whether some warps wait for registers that others release. Cost: linear, once."""
    return any("inc" in change.modifiers for change in _register_changes(kernel))


@lru_cache(maxsize=8)
def registers_at_entry(kernel: Kernel) -> int | None:
    """Returns the number of registers that each thread starts with, if ptxas keeps to it exactly.

    It does so in kernels that change it (``setmaxnreg``): the number is the one of ``.maxnreg``,
    but at most the largest that they take. None for other kernels, and without a number that ptxas
    respects. Cost: linear, once.
    """
    changes = _register_changes(kernel)
    stated = [d.values[0] for d in kernel.performance if d.keyword == ".maxnreg"]
    if not changes or not stated or stated[0] > _MOST_REGISTERS:
        return None
    taken = [
        int(change.operands[0].value)
        for change in changes
        if "inc" in change.modifiers and isinstance(change.operands[0], Immediate)
    ]
    return max(_FEWEST_REGISTERS, min(stated[0], max(taken, default=stated[0])))


_FEWEST_REGISTERS, _MOST_REGISTERS = 24, 255  # the range of .maxnreg that ptxas accepts


def _register_changes(kernel: Kernel) -> list[Instruction]:
    return [
        instruction
        for instruction in kernel.instructions
        if instruction.opcode is not None and instruction.opcode.name == "setmaxnreg"
    ]
