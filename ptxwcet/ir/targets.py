"""Which instructions need a newer target: the least architecture of opcodes and of their words.

Rows say what ptxas 13.0 says ("requires .target sm_N or higher", "not supported on"). What a newer
architecture has lost again, and what a ``.version`` is too old for, is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

_OPCODES = {
    "cp.async": 80,
    "mbarrier": 80,
    "createpolicy": 80,
    "discard": 80,
    "applypriority": 80,
    "redux": 80,
    "barrier.cluster": 90,
    "cp.async.bulk": 90,
    "cp.reduce.async.bulk": 90,
    "elect": 90,
    "getctarank": 90,
    "griddepcontrol": 90,
    "mapa": 90,
    "mbarrier.complete_tx": 90,
    "mbarrier.expect_tx": 90,
    "mbarrier.try_wait": 90,
    "multimem": 90,
    "red.async": 90,
    "st.async": 90,
    "stmatrix": 90,
    "tensormap.cp_fenceproxy": 90,
    "setmaxnreg": SPECIFIC + 90,
    "tensormap.replace": SPECIFIC + 90,
    "wgmma": SPECIFIC + 90,
    "clusterlaunchcontrol": 100,
    "st.bulk": 100,
    "tcgen05": SPECIFIC + 100,
}
"""By the leading words of an opcode: the longest counts."""

_WORDS = {
    **dict.fromkeys(("bf16", "bf16x2", "tf32", "L2::cache_hint", "NaN", "relu", "sp"), 80),
    **dict.fromkeys(("m16n8k16", "m16n8k256", "sp::ordered_metadata"), 80),
    **dict.fromkeys(("e4m3x2", "e5m2x2"), 89),
    **dict.fromkeys(("cluster", "shared::cluster"), 90),
    **dict.fromkeys(("f32x2", "v8", "cp_mask"), 100),
    **dict.fromkeys(("e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "rs"), SPECIFIC + 100),
    "block_scale": SPECIFIC + 100,
}
_BOTH = {
    **{(name, kind): 80 for name in ("min", "max") for kind in ("f16", "f16x2")},
    **{(name, kind): 90 for name in ("add", "sub", "mul") for kind in ("bf16", "bf16x2")},
    **{(name, size): 90 for name in ("atom", "red") for size in ("v2", "v4", "b128")},
    ("cvt", "f16x2"): 80,
    ("fence", "tensormap::generic"): 90,
    ("fence", "async"): 90,
    ("mbarrier.arrive", "expect_tx"): 90,
    ("prefetch", "tensormap"): 90,
    ("st.async", "global"): 100,
    ("red.async", "global"): 100,
    ("redux", "f32"): SPECIFIC + 100,
    **{
        (name, shape): SPECIFIC + 100
        for name in ("ldmatrix", "stmatrix")
        for shape in ("m16n16", "m8n16", "m16n8")
    },
}


def needed(name: str, modifiers: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The architectures that an instruction needs, each with the word for it. Cost: linear."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        stem = ".".join(words[:count])
        if stem in _OPCODES:
            yield _OPCODES[stem], name
            break
    for word in modifiers:
        yield from ((_WORDS[word], f".{word}"),) if word in _WORDS else ()
        if (name, word) in _BOTH:
            yield _BOTH[name, word], f"{name} with .{word}"
