"""Prepares machine code for value analyses: separate registers, wide numbers, accesses.

A kernel of machine code becomes an equivalent one, with the same registers and accesses to memory,
in the terms of the analyses:

* Words of constant bank 0 are loaded at the beginning, as parameters, by added instructions.
* A number of 64 bits occupies two registers. Where an instruction reads both as one, an added
  register of 64 bits (``R2:64``) holds it, too, and is written after every write of a half
  (:mod:`ptxwcet.sass.pairs` recognises numbers that two instructions make together).
* Registers are reused for other numbers: each web of related writes and reads becomes a register of
  its own (:mod:`ptxwcet.sass.webs`).
* The place of a block in its cluster, which code of sm_90 adds to addresses of shared memory, is 0
  unless the file requires clusters: their launches are not bounded.
* Accesses to memory, votes and exchanges become those of PTX (:mod:`ptxwcet.sass.accesses`).

Instructions keep their order. Added instructions have the place of an adjacent one, no encoding,
and take no time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise

from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.kernel import Guard, Instruction, Kernel, Module, UnreadKernel, Variable
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.ir.opcodes import Opcode
from ptxwcet.ir.operands import (
    Address,
    Element,
    Operand,
    Register,
    SpecialRegister,
    SymbolRef,
    Vector,
)
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Meaning, Op, Term, any_bits, const, fold, source, term
from ptxwcet.ir.verifier import rewritten
from ptxwcet.sass.accesses import TRUTH, Place, access_of_code, alike
from ptxwcet.sass.divisions import with_divisions
from ptxwcet.sass.lowering import unread
from ptxwcet.sass.pairs import (
    WORD,
    Pair,
    Whole,
    are_halves,
    moved_register,
    place_of,
    wholes,
)
from ptxwcet.sass.spelling import spelled
from ptxwcet.sass.splicing import with_copies
from ptxwcet.sass.webs import speculated, with_webs

BANK, VARIABLES = "c[0x0]", "c[0x3]"  # contents of the banks: parameters, variables
_BANK_BYTES = 1 << 16
_PREDICATE = re.compile(r"(!?)(U?P[0-6T])")
_ALIKE = ("DIV", "CONV")
_MOST_PAIRS = 100
"""The number of pairs from which on copies of registers add no further pairs."""


def translated(kernel: Kernel) -> Kernel:
    """Returns the kernel as analyses read it. Cost: a small multiple of linear in the kernel."""
    if not kernel.instructions:
        return kernel
    translation = _Translation(kernel)
    while translation.wants_more():
        translation.build()
    # Unread wide numbers are removed first: they would read unrelated halves.
    wide = _pruned(with_webs(translation.kernel(), lambda name: ":" in name))
    apart = with_webs(wide)
    divided = with_divisions(apart)
    return rewritten(speculated(apart if divided is apart else with_webs(divided)))


def translated_program(module: Module) -> Module:
    """Returns the module with its kernels as analyses read them, functions copied into them.

    A kernel that cannot be translated costs only that kernel. Cost: a small multiple of linear.
    """
    functions = {f.name: f for f in module.functions if not isinstance(f, UnreadKernel)}
    items = [
        _read(item, functions) if isinstance(item, Kernel) and item.is_entry else item
        for item in module.items
        if not isinstance(item, Kernel) or item.is_entry
    ]
    return replace(module, items=tuple(items))


def _read(kernel: Kernel, functions: Mapping[str, Kernel]) -> Kernel:
    if isinstance(kernel, UnreadKernel):
        return kernel
    try:
        return translated(with_copies(kernel, functions))
    except Exception as error:
        return unread(kernel.name, kernel.readable, kernel.span, error, is_entry=True)


_OF_CLUSTER, _CLUSTER = SpecialRegister("SR_CgaCtaId"), ".reqnctapercluster"


class _Translation:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._has_clusters = any(d.keyword == _CLUSTER for d in kernel.performance)
        self._blocks = build_cfg(kernel).blocks
        self._wide: set[Pair] = set()  # the pairs that are read as one number
        self._wholes: dict[int, list[Whole]] = {}  # by the first of their instructions
        self._known = -1
        self._made: list[Instruction] = []
        self._encoded: dict[int, int] = {}  # the place of an instruction of the code
        self._starts: list[int] = []
        self._words: dict[str, tuple[str, int, int]] = {}  # bank, place, size
        self._types: dict[str, str] = {TRUTH: "pred"}
        self._found: dict[tuple[int, Pair], str] = {}  # the number after an instruction

    def wants_more(self) -> bool:
        """Returns whether more pairs are read as one than were known."""
        return len(self._wide) != self._known

    def build(self) -> None:
        """Builds everything again, for the pairs that are known to be read as one."""
        self._known = len(self._wide)
        self._made, self._starts, self._found, self._wholes = [], [], {}, {}
        instructions = self._kernel.instructions
        for block in self._blocks:
            for whole in wholes(instructions, block.start, block.end, sorted(self._wide)):
                self._wholes.setdefault(min(whole.low, whole.high), []).append(whole)
        self._encoded = {}
        for index, instruction in enumerate(self._kernel.instructions):
            self._starts.append(len(self._made))
            self._one(index, instruction)

    def kernel(self) -> Kernel:
        """Returns the kernel, before its registers are separated."""
        kernel, code = self._kernel, self._kernel.code
        assert code is not None
        first = kernel.instructions[0]
        loads = self._loads(first)
        made = [*loads, *self._made]
        added = len(loads)
        places = [added + start for start in self._starts] + [len(made)]
        registers = {name: self.type_of(name) for i in made for name in (*i.reads, *i.writes)}
        labels = {name: 0 if index == 0 else places[index] for name, index in kernel.labels.items()}
        body = tuple((0 if index == 0 else places[index], item) for index, item in kernel.body)
        own = {added + place: index for place, index in self._encoded.items()}
        beside = [0] * added + [
            index
            for index, (start, end) in enumerate(pairwise((*self._starts, len(self._made))))
            for _ in range(start, end)
        ]
        encoded = [code.encoded[index] for index in beside]
        banks = tuple(
            Variable(name, "const", "b8", _BANK_BYTES, 16, "", f".const .b8 {name}[{_BANK_BYTES}];")
            for name in sorted(_banks(made))
        )
        return replace(
            kernel,
            instructions=tuple(made),
            labels=labels,
            body=body,
            registers=registers,
            variables=(*kernel.variables, *banks),
            code=replace(
                code, encoded=tuple(encoded), added=frozenset(range(len(made))) - own.keys()
            ),
        )

    # --- one instruction --------------------------------------------------------------------------

    def _one(self, index: int, instruction: Instruction) -> None:
        for whole in self._wholes.get(index, ()):
            self._whole(index, instruction, whole.pair, whole.meaning, max(whole.low, whole.high))
        guard = instruction.guard
        if guard is not None and guard.register.startswith("%"):
            self._decide(instruction, guard.register)
        meaning = meaning_of(instruction, self._kernel.registers)
        if _OF_CLUSTER in instruction.operands and not self._has_clusters:
            meaning = Meaning((const(0, 32),), ())
        if meaning is not None:
            self._with_terms(index, instruction, meaning)
            return
        other = self._other(instruction)
        self._encoded[len(self._made)] = index
        self._made.append(other)
        self._pack(index, instruction)

    def _decide(self, branch: Instruction, name: str) -> None:
        """Adds, before a branch on predicates, whether all of them hold, if no more decides.

        Whether lanes of the warp are elsewhere (DIV, CONV) is equal for all that execute it.
        """
        whole, sources = const(1, 1), list[Operand]()
        for text in name[1:].split("&"):
            part = _PREDICATE.fullmatch(text)
            if part is None and text not in _ALIKE:
                return
            if part is None:
                asked = Register(f"{text} of {len(self._made)}")
                self._types[asked.name] = "pred"
                self._made.append(alike(asked, branch))
                sources.append(asked)
                holds = source(len(sources) - 1, 1)
            elif part[2].endswith("T"):
                holds = const(1, 1)
            else:
                sources.append(Register(part[2]))
                holds = source(len(sources) - 1, 1)
            whole = whole & (~holds if part is not None and part[1] else holds)
        meaning = Meaning((whole,), tuple(sources))
        self._made.append(self._computed(branch, [name], meaning, None))

    def _whole(
        self, index: int, beside: Instruction, pair: Pair, meaning: Meaning, behind: int
    ) -> None:
        """Computes a number before an instruction; the pair holds it after another one."""
        name = f"{_wide(pair)} of {index}"
        self._types[name] = "b64"
        self._compute(beside, [name], meaning)
        self._found[behind, pair] = name

    def _with_terms(self, index: int, instruction: Instruction, meaning: Meaning) -> None:
        writes = instruction.writes
        results = dict(zip(writes, meaning.results, strict=True))
        for pair in sorted(self._wide):
            if results.keys() >= set(pair) and not _changes_guard(instruction):
                low, high = (results[name] for name in pair)
                whole = Meaning((_joined(low, high),), meaning.sources)
                self._whole(index, instruction, pair, whole, index)
        made = self._computed(instruction, list(writes), meaning, instruction.guard, is_code=True)
        self._encoded[len(self._made)] = index
        self._made.append(made)
        self._pack(index, instruction)

    def _pack(self, index: int, instruction: Instruction) -> None:
        """Adds, after a write of halves, the whole number."""
        for pair in sorted(self._wide):
            if not set(pair).isdisjoint(instruction.writes):
                meaning = self._packed(index, instruction, pair)
                self._types[_wide(pair)] = "b64"
                guard = None if _changes_guard(instruction) else instruction.guard
                made = self._computed(instruction, [_wide(pair)], meaning, guard, is_whole=True)
                self._made.append(made)

    def _packed(self, index: int, instruction: Instruction, pair: Pair) -> Meaning:
        number = self._found.get((index, pair))
        if number is not None:
            return Meaning((source(0, 64),), (Register(number),))
        low, high = pair
        moved = moved_register(instruction)
        if moved is not None and moved not in pair and len(self._wide) < _MOST_PAIRS:
            # The other half stays: the number is the one with the copied register.
            other = (moved, high) if low in instruction.writes else (low, moved)
            self._wide.add(other)
            return Meaning((source(0, 64),), (Register(_wide(other)),))
        both = source(1, 32).above(source(0, 32))
        return Meaning((both,), (Register(low), Register(high)))

    # --- instructions that compute ----------------------------------------------------------------

    def _compute(self, beside: Instruction, targets: list[str], meaning: Meaning) -> None:
        """Computes the requirements of an instruction before it, in the lanes that execute it."""
        self._made.append(self._computed(beside, targets, meaning, beside.guard))

    def _computed(
        self,
        beside: Instruction,
        targets: Sequence[str],
        meaning: Meaning,
        guard: Guard | None,
        *,
        is_code: bool = False,
        is_whole: bool = False,
    ) -> Instruction:
        """Returns an instruction that leaves these terms in registers; ``is_code``: in place of the
        code's. ``is_whole``: no number of 64 bits is searched in it.
        """
        meaning = meaning if is_whole else _with_wide_sources(meaning, self._is_one)
        sources = [self._source(operand) for operand in meaning.sources]
        place = (beside.origin, beside.start, beside.end)
        if len(targets) == 1:
            read = Meaning(meaning.results, tuple(sources))
            plain = spelled(targets[0], read, place, guard, _Types(self))
            if plain is not None and not (is_code and beside.op_class is OpClass.LOAD_CONST):
                op_class = beside.op_class if is_code else OpClass.MOVE
                form = replace(plain.form, op_class=op_class)
                if is_code:
                    form = replace(form, mnemonic=beside.mnemonic)
                return plain._replace(form=form)
        name, *words = beside.mnemonic.split(".")
        loaded = list[Operand]()
        if is_code and name in ("LDC", "ULDC"):  # an access, of one word for all lanes
            word = next(w for w in beside.operands if isinstance(w, Element))
            loaded = [Address(SymbolRef(word.array.name, place_of(word.index) or 0))]
            small = next((w.lower() for w in words if w[1:] in ("8", "16")), None)
            words = ["const", small or f"b{32 * len(targets)}"]
        op_class = beside.op_class if is_code and beside.op_class is not None else OpClass.MOVE
        opcode = _opcode(name, op_class, bool(loaded), meaning.results)
        made = instruction_of(
            ".".join((name, *words)),
            [*map(Register, targets), *sources, *loaded],
            place,
            guard=guard,
            decoded=(opcode, len(targets)),
        )
        return made._replace(form=replace(made.form, mnemonic=beside.mnemonic)) if loaded else made

    def _source(self, operand: Operand) -> Operand:
        """Returns a source as an operand that analyses read."""
        match operand:
            case Vector((Register(low), Register(high))):
                self._wide.add((low, high))
                return Register(_wide((low, high)))
            case Vector((Element(SymbolRef(bank), address), Element())):
                return self._word(bank, place_of(address), 2 * WORD)
            case Element(SymbolRef(bank), address):
                return self._word(bank, place_of(address), WORD)
        return operand

    def _word(self, bank: str, place: int | None, size: int) -> Register:
        """Returns the register to which a word of a constant bank is loaded at the beginning."""
        assert place is not None
        name = f"{bank}[{place:#x}]" + (":64" if size > WORD else "")
        self._types[name] = f"b{8 * size}"
        self._words[name] = bank, place, size
        return Register(name)

    def type_of(self, name: str) -> str:
        """Returns the type of a register."""
        kind = self._types.get(name) or self._kernel.registers.get(name)
        if kind is not None:
            return kind
        return "b64" if ":" in name else "b32"

    # --- contents of constant banks ---------------------------------------------------------------

    def _loads(self, first: Instruction) -> list[Instruction]:
        """Returns the instructions at the beginning: loads of parts of parameters, and of values
        that only the system knows.
        """
        loads = list[Instruction]()
        for name, (bank, place, size) in sorted(self._words.items()):
            held = self._held(bank, place, size)
            if held is not None:
                loads.append(_loaded(first, name, f"b{8 * size}", held))
                continue
            parts, sources = list[Term](), list[Operand]()
            step = WORD if size > WORD else 1  # words of several parameters, or bytes
            for at in range(place, place + size, step):
                part = self._held(bank, at, step)
                if part is None or (part[1] == bank and step == 1):
                    parts.append(any_bits(8 * step))
                    continue
                own = f"{bank}[{at:#x}] of {name}"
                self._types[own] = "b32"
                loads.append(_loaded(first, own, "b32" if step == WORD else "u8", part))
                parts.append(source(len(sources), 32).part(0, 8 * step))
                sources.append(Register(own))
            whole = parts[0]
            for more in parts[1:]:
                whole = more.above(whole)
            loads.append(
                self._computed(
                    first, [name], Meaning((whole,), tuple(sources)), None, is_whole=True
                )
            )
        return loads

    def _is_one(self, low: Operand, high: Operand) -> bool:
        """Returns whether two words are one number: adjacent registers, or a parameter."""
        if not are_halves(low, high):
            return False
        match low:
            case Element(SymbolRef(bank), address):
                place = place_of(address)
                return place is not None and self._held(bank, place, 2 * WORD) is not None
        return True

    def _held(self, bank: str, place: int, size: int) -> tuple[str, str, int] | None:
        """Returns space, variable and offset of a word; None if no single variable holds it."""
        kernel, code = self._kernel, self._kernel.code
        assert code is not None
        for parameter, at in zip(kernel.parameters, code.parameters_at, strict=True):
            if bank == BANK and at < place + size and place < at + parameter.size_bytes:
                is_inside = at <= place and place + size <= at + parameter.size_bytes
                return ("param", parameter.name, place - at) if is_inside else None
        for first, end, name in code.constants_at if bank == VARIABLES else ():
            if first < place + size and place < end:
                is_inside = first <= place and place + size <= end
                return ("const", name, place - first) if is_inside else None
        return "const", bank, place

    # --- all else ---------------------------------------------------------------------------------

    def _other(self, instruction: Instruction) -> Instruction:
        """Translates an instruction without terms: an access, an exchange of lanes, or itself."""
        access = access_of_code(instruction, lambda place: self._address(instruction, place))
        if access is None:
            return instruction
        place = (instruction.origin, instruction.start, instruction.end)
        made = instruction_of(
            access.mnemonic, access.operands, place, guard=instruction.guard, decoded=access.row
        )
        return made._replace(form=replace(made.form, mnemonic=instruction.mnemonic))

    def _address(self, beside: Instruction, place: Place) -> Address:
        if isinstance(place.base, Meaning):
            name = f"[{len(self._made)}]"
            self._types[name] = f"b{place.width}"
            self._compute(beside, [name], place.base)
            return Address(Register(name), place.offset)
        base = self._source(place.base)
        assert isinstance(base, Register)
        return Address(base, place.offset)


def _loaded(first: Instruction, name: str, kind: str, held: tuple[str, str, int]) -> Instruction:
    space, symbol, offset = held
    return instruction_of(
        f"ld.{space}.{kind}",
        [Register(name), Address(SymbolRef(symbol, offset))],
        (first.origin, first.start, first.end),
    )


class _Types(Mapping[str, str]):
    """The types of registers, including those in construction."""

    def __init__(self, translation: _Translation) -> None:
        self._translation = translation

    def __getitem__(self, name: str) -> str:
        return self._translation.type_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _pruned(kernel: Kernel) -> Kernel:
    """Returns the kernel without added instructions that nothing reads."""
    code = kernel.code
    assert code is not None
    readers = Counter(name for i in kernel.instructions for name in i.reads)
    writers = defaultdict[str, list[int]](list)
    for index in code.added:
        for name in kernel.instructions[index].writes:
            writers[name].append(index)
    gone = set[int]()
    pending = list(code.added)
    while pending:
        index = pending.pop()
        instruction = kernel.instructions[index]
        if index in gone or any(readers[name] for name in instruction.writes):
            continue
        gone.add(index)
        readers.subtract(instruction.reads)
        pending += [other for name in instruction.reads for other in writers[name]]
    kept = [index for index in range(len(kernel.instructions)) if index not in gone]
    places = [bisect_left(kept, index) for index in range(len(kernel.instructions) + 1)]
    instructions = tuple(kernel.instructions[index] for index in kept)
    named = {name for i in instructions for name in (*i.reads, *i.writes)}
    return replace(
        kernel,
        instructions=instructions,
        labels={name: places[index] for name, index in kernel.labels.items()},
        body=tuple((places[index], item) for index, item in kernel.body),
        registers={name: kind for name, kind in kernel.registers.items() if name in named},
        code=replace(
            code,
            encoded=tuple(code.encoded[index] for index in kept),
            added=frozenset(new for new, old in enumerate(kept) if old in code.added),
        ),
    )


def _banks(instructions: Iterable[Instruction]) -> set[str]:
    """Returns the constant banks that loads name."""
    bases = {
        operand.base.name
        for instruction in instructions
        for operand in instruction.operands
        if isinstance(operand, Address) and isinstance(operand.base, SymbolRef)
    }
    return {name for name in bases if name.startswith("c[")}


def _changes_guard(instruction: Instruction) -> bool:
    """Returns whether an instruction writes its own guard, so that later uses differ."""
    return instruction.guard is not None and instruction.guard.register in instruction.writes


def _wide(pair: Pair) -> str:
    """Returns the register of 64 bits that holds the pair's number."""
    return ":".join(pair)


@lru_cache(maxsize=4096)
def _opcode(name: str, op_class: OpClass, is_load: bool, results: tuple[Term, ...]) -> Opcode:
    """Returns a row whose instructions leave these terms of their further operands."""
    meaning = partial(_of_results, results)
    return Opcode(name, op_class, operands=(0, 64), accesses=is_load, meaning=meaning)


def _of_results(
    results: tuple[Term, ...], _: tuple[str, ...], operands: tuple[Operand, ...]
) -> Meaning:
    read = [operand for operand in operands[len(results) :] if not isinstance(operand, Address)]
    return Meaning(results, tuple(read))


def _joined(low: Term, high: Term) -> Term:
    """Returns both words as one number: their common source, if they were cut from one."""
    if low.op is high.op is Op.EXTRACT and low.args == high.args:
        (whole,) = low.args
        if (low.value, high.value, whole.width) == (0, 32, 64):
            return whole
    return high.above(low)


def _with_wide_sources(meaning: Meaning, is_one: Callable[[Operand, Operand], bool]) -> Meaning:
    """Returns the same, with numbers of 64 bits as sources where they are read as such."""
    sources = list(meaning.sources)

    def changed(node: Term, args: list[Term]) -> Term:
        if node.op is Op.SOURCE or not args:
            return node
        halves = _halves(node)
        if halves is not None:
            low, high = (meaning.sources[half.value] for half in halves)
            if is_one(low, high):
                whole = Vector((low, high))
                if whole not in sources:
                    sources.append(whole)
                return source(sources.index(whole), 64)
        return term(node.op, node.width, tuple(args), node.value)

    results = tuple(fold(root, changed) for root in meaning.results)
    used = sorted({leaf.value for root in results for leaf in _leaves(root)})
    numbers = {old: new for new, old in enumerate(used)}

    def renumbered(node: Term, args: list[Term]) -> Term:
        if node.op is Op.SOURCE:
            return source(numbers[node.value], node.width)
        return term(node.op, node.width, tuple(args), node.value) if args else node

    return Meaning(
        tuple(fold(root, renumbered) for root in results), tuple(sources[old] for old in used)
    )


def _halves(root: Term) -> tuple[Term, Term] | None:
    """Returns the low and the high source of a number that consists of two."""
    if root.op is not Op.OR or root.width != 64:
        return None
    shifted, low = root.args
    if shifted.op is not Op.SHL or low.op is not Op.ZEXT or shifted.args[0].op is not Op.ZEXT:
        return None
    amount, high = shifted.args[1], shifted.args[0].args[0]
    if amount.op is not Op.CONST or amount.value != 32:
        return None
    (low,) = low.args
    is_both = low.op is high.op is Op.SOURCE and low.width == high.width == 32
    return (low, high) if is_both else None


def _leaves(root: Term) -> Iterator[Term]:
    sources = dict[Term, None]()

    def visit(node: Term, args: list[None]) -> None:
        if node.op is Op.SOURCE:
            sources[node] = None

    fold(root, visit)
    yield from sources
