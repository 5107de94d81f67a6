"""The forms of integer instructions that PTX has: types and modifiers of each opcode.

Anything else is refused when the instruction is compiled, before its builder sees it. Source: the
PTX ISA manual, the syntax of each instruction, as ptxas reads it: a direction or half of a product
(``.l``, ``.lo``) stands right after the opcode, other modifiers and types in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ptxwcet.emulator.registers import Context, Step, Unsupported
from ptxwcet.emulator.rows import Builder
from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.opcodes import is_type

_TYPE, _LEADING, _WORDS = range(3)


@dataclass(frozen=True, slots=True)
class Form:
    """Types and modifiers of instructions: each field is a choice of words, split at spaces.

    ``types``: the type, or one for each of ``types`` and ``second``. One of ``leading`` follows the
    opcode, one of ``required`` is written anywhere, of ``optional`` at most one.
    """

    types: str
    leading: str = ""
    required: str = ""
    optional: str = ""
    second: str = ""

    def refusal(self, modifiers: tuple[str, ...]) -> tuple[int, str] | None:
        """What keeps modifiers from being this form, and how far they match; None if they are."""
        types = [word for word in modifiers if is_type(word)]
        choices = [choice.split() for choice in (self.types, self.second) if choice]
        if len(types) != len(choices) or any(
            name not in choice for name, choice in zip(types, choices, strict=True)
        ):
            return _TYPE, "type ." + ".".join(types)
        if self.leading and modifiers[0] not in self.leading.split():
            return _LEADING, f"{_either(self.leading)} is to follow the opcode"
        rest = modifiers[1:] if self.leading else modifiers
        return self._wrong_words({word for word in rest if not is_type(word)})

    def _wrong_words(self, words: set[str]) -> tuple[int, str] | None:
        required, optional = set(self.required.split()), set(self.optional.split())
        if words - required - optional:
            return _WORDS, "modifier ." + ", .".join(sorted(words - required - optional))
        if required and not words & required:
            return _WORDS, f"no {_either(self.required)}"
        if len(words & required) > 1 or len(words & optional) > 1:
            return _WORDS, "modifiers ." + ", .".join(sorted(words)) + " together"
        return None


def _either(choice: str) -> str:
    return " or ".join(f".{word}" for word in choice.split())


def permitted(name: str, builder: Builder) -> Builder:
    """The builder for the forms of an opcode, raising Unsupported for anything else."""
    forms = FORMS[name]

    def build(context: Context, instruction: Instruction) -> Step:
        refusals = [form.refusal(instruction.modifiers) for form in forms]
        if None not in refusals:
            _, reason = max((r for r in refusals if r is not None), key=lambda r: r[0])
            raise Unsupported(reason)
        return builder(context, instruction)

    return build


_WIDE = "u32 s32 u64 s64"
_ALL = f"u16 s16 {_WIDE}"
_PAIRS = "u16x2 s16x2"
_SUMS_WITH_CARRY = (Form("u16 s16"), Form(_WIDE, optional="cc"))
_LOGIC = (Form("pred b16 b32 b64"),)
_COUNTS = (Form("b32 b64"),)
_EXTREMA = (Form("u16 s16 u32 u64 s64 u16x2"), Form("s32 s16x2", optional="relu"))

FORMS: Mapping[str, tuple[Form, ...]] = {
    "add": (Form(f"u16 s16 {_PAIRS}"), Form("u32 u64 s64", optional="cc"),
            Form("s32", optional="cc sat")),
    "sub": (Form("u16 s16"), Form("u32 u64 s64", optional="cc"), Form("s32", optional="cc sat")),
    "addc": _SUMS_WITH_CARRY,
    "subc": _SUMS_WITH_CARRY,
    "mul": (Form("u16 s16 u32 s32", "lo hi wide"), Form("u64 s64", "lo hi")),
    "mad": (Form("u16 s16 u32 s32", "lo hi wide"), Form("s32", "hi", optional="sat"),
            Form(_WIDE, "lo hi", optional="cc")),
    "madc": (Form("u16 s16", "lo hi"), Form(_WIDE, "lo hi", optional="cc")),
    "mul24": (Form("u32 s32", "lo hi"),),
    "mad24": (Form("u32 s32", "lo hi"), Form("s32", "hi", optional="sat")),
    "div": (Form(_ALL),),
    "rem": (Form(_ALL),),
    "min": _EXTREMA,
    "max": _EXTREMA,
    "sad": (Form(_ALL),),
    "neg": (Form("s16 s32 s64"),),
    "abs": (Form("s16 s32 s64"),),
    "dp4a": (Form("u32 s32", second="u32 s32"),),
    "dp2a": (Form("u32 s32", "lo hi", second="u32 s32"),),
    "and": _LOGIC,
    "or": _LOGIC,
    "xor": _LOGIC,
    "not": _LOGIC,
    "cnot": (Form("b16 b32 b64"),),
    "lop3": (Form("b32", optional="and or"),),
    "shl": (Form("b16 b32 b64"),),
    "shr": (Form(f"b16 b32 b64 {_ALL}"),),
    "shf": (Form("b32", "l r", "clamp wrap"),),
    "bfe": (Form(_WIDE),),
    "bfi": _COUNTS,
    "bfind": (Form(_WIDE, optional="shiftamt"),),
    "popc": _COUNTS,
    "clz": _COUNTS,
    "brev": _COUNTS,
    "fns": (Form("b32"),),
    "prmt": (Form("b32", optional="f4e b4e rc8 ecl ecr rc16"),),
    "szext": (Form("u32 s32", required="clamp wrap"),),
    "bmsk": (Form("b32", required="clamp wrap"),),
}  # fmt: skip
"""The forms of each opcode, those of floating-point types left out."""
