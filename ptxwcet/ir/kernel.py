"""Modules, kernels and instructions: what the parser lowers PTX to.

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
"""Builds an operand from the names and literals that fill an instruction's slots."""


@dataclass(frozen=True, slots=True, eq=False)
class InstructionForm:
    """Opcode, modifiers, operand kinds and roles; one object per distinct statement shape.

    Slots are indices into :attr:`Instruction.names`. ``guard_slot`` and ``callee_slot`` are -1
    where there is none. ``read_slots`` and ``write_slots`` name register slots only. Without a row
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
        """The operands of an instruction of this form. Cost: linear in their number."""
        return tuple([template(names, immediates) for template in self.templates])


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p``. ``register`` is the unique name of the predicate register."""

    register: str
    negated: bool


class SourceLocation(NamedTuple):
    """Where an instruction came from in the high-level source (``.loc``), and what inlined it.

    ``readable`` is what to call the file, its own name if empty. Line 0 is nobody's.
    """

    file: str
    line: int
    column: int
    inlined_at: SourceLocation | None = None
    readable: str = ""

    @property
    def place(self) -> str:
        """``file:line`` for people; ``compiler`` for what the compiler added on no line."""
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
        """The row of the opcode table, None for an opcode that has none."""
        return self.form.opcode

    @property
    def is_known(self) -> bool:
        """Whether the opcode table has a row for it; if not, op class and roles are guesses."""
        return self.form.opcode is not None

    @property
    def mnemonic(self) -> str:
        """Opcode with modifiers as written, e.g. ``mul.lo.s32``."""
        return self.form.mnemonic

    @property
    def words(self) -> str:
        """As the table has it, ``mul.lo.s32``: of machine code what it does, in words of PTX where
        there are some, however it is written. The mnemonic of an opcode without a row.
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
        """What it does to the flow of control."""
        return self.form.control

    @property
    def convergence(self) -> Convergence:
        """What it does to the barriers at which lanes of a warp meet."""
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
        """Unique names of the registers read: guard, sources, address registers, elements.

        Contains :data:`CARRY` for instructions that read the carry flag; no special registers.
        """
        return _named(self.names, self.form.read_slots, self.form.implicit_reads)

    @property
    def writes(self) -> tuple[str, ...]:
        """Unique names of the registers written; several for vectors, ``a|b`` and calls."""
        return _named(self.names, self.form.write_slots, self.form.implicit_writes)

    @property
    def callee(self) -> str | None:
        """Name of the function of a direct call; None for anything else."""
        slot = self.form.callee_slot
        return None if slot < 0 else self.names[slot]

    @property
    def target_list(self) -> str:
        """The label that ends a call through a register; empty for anything else."""
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
    """The names in some slots, once each, and those that are implied. Asked for all the time."""
    if len(slots) == 1 and not implicit:
        return (names[slots[0]],)
    return (*dict.fromkeys([names[slot] for slot in slots]), *implicit) if slots else implicit


# --- declarations and directives: what there is besides instructions ------------------------------


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


class Encoded(NamedTuple):
    """How an instruction of machine code is encoded: its address, and what tells warps to wait.

    The warp issues nothing for ``stall`` cycles after it. ``on_write`` and ``on_read`` are the
    scoreboards that it holds until it has written, or read (None: it holds none), and it is not
    issued while one of ``waits`` is held. ``ptx_line`` is the line that it was made of, 0 if that
    is not known. ``kind`` is None where the op class says enough.
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
    """What a file of machine code says of a kernel or function, and of each instruction in order.

    ``parameters_at`` are the places of its parameters in constant bank 0, ``constants_at`` of the
    module's ``.const`` variables in bank 3: first byte, last + 1, name. ``added`` are the indices
    of instructions that are not in the code and take no time: they say what registers hold, and
    have the encoding of the one beside them. ``ptx`` are lines of the PTX that the code was made
    of, by their numbers, if the file has them: for people, nothing is read from them.
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
    """``.maxntid 256, 1, 1`` and its kin: the keyword with its dot, its numbers, its PTX text."""

    keyword: str
    values: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """An entry or a device function; equality is identity.

    ``labels`` maps the unique name of each label (its spelling; spelling + ``@n`` in inner scopes)
    to the index of the instruction that it precedes, ``len(instructions)`` at the end.
    ``registers`` maps the unique name of every register that an instruction reads or writes to its
    type (``b32``, ``pred``), that of the carry flag included, which no operand names.
    ``branch_tables`` maps a ``.branchtargets`` label to unique label names, ``call_lists`` a
    ``.calltargets`` label to the functions that a call through a register may call.
    ``body`` holds what is not an instruction, each with the index of the instruction it precedes.
    A prototype has ``has_body`` False and no instructions. ``attributes`` are PTX texts.
    ``readable`` is the name for people: as written in the source, if ``name`` is mangled.
    ``recursions`` has for the index of a call that closes a cycle of calls the functions on it.
    ``code`` is there for machine code alone. ``target`` is the architecture that it is for, of a
    linked program the newest of its files: ``sm_86``, empty if that is not stated.
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
        """``.reqntid`` as (x, y, z), None if absent."""
        return self._dimensions(".reqntid")

    @property
    def max_threads(self) -> tuple[int, int, int] | None:
        """``.maxntid`` as (x, y, z), None if absent."""
        return self._dimensions(".maxntid")

    @property
    def shared_bytes(self) -> int:
        """Bytes of statically sized shared variables declared in the kernel."""
        return sum(v.size_bytes for v in self.variables if v.space == "shared")

    def called(self, readable: str) -> Kernel:
        """A copy with another name for people."""
        return replace(self, readable=readable)

    def _dimensions(self, keyword: str) -> tuple[int, int, int] | None:
        for directive in self.performance:
            if directive.keyword == keyword:
                x, y, z = (*directive.values, 1, 1)[:3]
                return x, y, z
        return None


class UnreadKernel(Kernel):
    """A kernel or function that an internal error of the parser kept from being read.

    Its name and place are known. Whoever asks for anything that it contains gets the error
    (PtxwcetError with ``failure``): it costs this kernel and those that call it, and no other.
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
        known = {"name": name, "is_entry": is_entry, "has_body": has_body, "span": span}
        known["readable"] = readable or name
        for field_name, value in {**known, "failure": failure}.items():
            object.__setattr__(self, field_name, value)

    def called(self, readable: str) -> UnreadKernel:
        """See :meth:`Kernel.called`."""
        what = {"is_entry": self.is_entry, "has_body": self.has_body}
        return UnreadKernel(
            self.name, **what, span=self.span, failure=self.failure, readable=readable
        )

    def __getstate__(self) -> dict[str, object]:
        kept = ("name", "is_entry", "has_body", "span", "readable", "failure")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> NoReturn:
        # only asked for what is not set
        if name in {one.name for one in fields(Kernel)}:
            raise PtxwcetError(self.failure)
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"UnreadKernel({self.name!r})"


ModuleItem = Kernel | Variable | Directive


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A PTX file. ``items`` holds everything after the header in order, for printing.

    Of a program of several files, these are ``files``, the one with its kernels first. ``version``,
    ``target`` and its options are what the header of PTX says.
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
"""How the names of listings begin that were made or found when they were asked for."""


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
    """``file:line`` of an instruction in the source, else where it is in the code."""
    location = kernel.instructions[index].location
    return code_place(kernel, index) if location is None else location.place


def code_place(kernel: Kernel, index: int) -> str:
    """The line of PTX of an instruction, of machine code its address."""
    if kernel.code is not None:
        return f"{kernel.code.encoded[index].address:#06x}"
    return f"PTX line {kernel.instructions[index].span.shown_line}"


def unknown_instructions(kernel: Kernel) -> tuple[Instruction, ...]:
    """The instructions whose opcode has no row, in order. Cost: linear."""
    return tuple(i for i in kernel.instructions if i.form.opcode is None)


@lru_cache(maxsize=8)
def counts_at_mbarriers(kernel: Kernel) -> bool:
    """Whether anything counts at mbarriers, or waits for them. Cost: linear, once."""
    return any(one.op_class in COUNTING for one in kernel.instructions)


@lru_cache(maxsize=8)
def hands_registers_over(kernel: Kernel) -> bool:
    """Whether some warps wait for registers that others give up. Cost: linear, once."""
    return any("inc" in one.modifiers for one in _register_changes(kernel))


@lru_cache(maxsize=8)
def registers_at_entry(kernel: Kernel) -> int | None:
    """Returns with how many registers each thread starts, where ptxas keeps to a number exactly.

    It does so in kernels that change it (``setmaxnreg``): the number is that of ``.maxnreg``, but
    at most the largest that they take. None for other kernels, and without a number that ptxas
    respects. Cost: linear, once.
    """
    changes = _register_changes(kernel)
    stated = [one.values[0] for one in kernel.performance if one.keyword == ".maxnreg"]
    if not changes or not stated or stated[0] > _MOST_REGISTERS:
        return None
    taken = [
        int(one.operands[0].value)
        for one in changes
        if "inc" in one.modifiers and isinstance(one.operands[0], Immediate)
    ]
    return max(_FEWEST_REGISTERS, min(stated[0], max(taken, default=stated[0])))


_FEWEST_REGISTERS, _MOST_REGISTERS = 24, 255  # that ptxas lets .maxnreg state


def _register_changes(kernel: Kernel) -> list[Instruction]:
    return [
        instruction
        for instruction in kernel.instructions
        if instruction.opcode is not None and instruction.opcode.name == "setmaxnreg"
    ]
