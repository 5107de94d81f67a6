"""Which instructions need a newer target: what their opcodes need, and words behind them.

Rows say what ptxas 13.0 says ("requires .target sm_N or higher", "not supported on"). What a newer
architecture has lost again, and what a ``.version`` is too old for, is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ptxwcet.ir.opcodes import Opcode
from ptxwcet.support.records import dataclass

SPECIFIC = 1000
"""Added to the number of an architecture whose ``a`` or ``f`` variant is needed."""


@dataclass(frozen=True, slots=True)
class Target:
    """The number of a target and its letter: ``sm_90a`` is 90 and ``a``."""

    number: int
    letter: str = ""

    @staticmethod
    def read(name: str) -> Target:
        """The target that a file names, such as ``sm_90a`` or ``compute_75``."""
        found = re.match(r"\w+_(\d+)([af]?)\Z", name)
        return NEWEST if found is None else Target(int(found[1]), found[2])

    def has(self, least: int) -> bool:
        """Whether it has what needs an architecture, ``SPECIFIC`` added for its variants."""
        return self.number >= least % SPECIFIC and (least < SPECIFIC or self.letter != "")


NEWEST = Target(SPECIFIC - 1, "a")

_WORDS = {
    **dict.fromkeys(("bf16", "bf16x2", "tf32", "L2::cache_hint", "NaN", "relu", "sp"), 80),
    **dict.fromkeys(("m16n8k16", "m16n8k256", "sp::ordered_metadata"), 80),
    **dict.fromkeys(("e4m3x2", "e5m2x2"), 89),
    **dict.fromkeys(("cluster", "shared::cluster"), 90),
    **dict.fromkeys(("f32x2", "v8", "cp_mask"), 100),
    **dict.fromkeys(("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "rs"), SPECIFIC + 100),
    "block_scale": SPECIFIC + 100,
}


def needed(opcode: Opcode, modifiers: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The architectures that an instruction needs, each with the word for it. Cost: linear."""
    if opcode.least:
        yield opcode.least, opcode.name
    for word in modifiers:
        yield from ((_WORDS[word], f".{word}"),) if word in _WORDS else ()
        if word in opcode.needs:
            yield opcode.needs[word], f"{opcode.name} with .{word}"
