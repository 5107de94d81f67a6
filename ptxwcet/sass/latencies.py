"""Lists fixed latencies: cycles from an instruction's issue to that of a reader of its result.

They are the least in the output of the vendor's compiler (ptxas 13.0, 2,400 random kernels per
architecture): a shorter one would be a wrong program, so the hardware needs no more. The latencies
of integers, floats, halves and predicates are the tables that NVIDIA gave to Mesa for NAK
(``sm75_instr_latencies.rs``, ``sm80_instr_latencies.rs``, MIT); entries missing there, some readers
of sm_75 and fp64 of sm_90, are the least in the corpus, which proves nothing; 10 for fp64 also
occurs in chains of ptxas (``tests/corpus/test_vendor_latencies.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

_READERS = ("alu", "fma", "factor", "high", "half", "fp64", "matrix", "variable", "address")
# A row for each producer; 0: unknown, not checked. Readers as above: the pipe, a factor of
# IMAD.WIDE, the high half of its addend, and readers through a scoreboard.
_AMPERE = {
    "alu": (4, 5, 5, 3, 5, 6, 7, 4, 5),
    "fma": (5, 4, 4, 2, 5, 6, 7, 4, 5),
    "wide_low": (3, 2, 4, 2, 3, 6, 7, 4, 5),
    "wide_high": (5, 4, 6, 2, 5, 6, 7, 4, 5),
    "pair": (6, 6, 6, 4, 6, 6, 7, 4, 5),
    "half": (5, 5, 5, 3, 4, 6, 7, 4, 5),
    "half_mma": (10, 10, 10, 8, 6, 6, 11, 6, 7),
    "small_matrix": (13, 13, 13, 11, 13, 13, 14, 11, 12),
    "matrix": (17, 17, 17, 15, 17, 17, 18, 15, 16),
}
_HOPPER = {
    **_AMPERE,
    "half_mma": (10, 10, 10, 8, 8, 6, 11, 6, 7),
    "fp64": (10, 10, 10, 8, 10, 8, 11, 6, 7),
}
_TURING = {
    "alu": (4, 5, 5, 3, 6, 6, 0, 6, 8),
    "fma": (5, 4, 4, 2, 6, 6, 0, 6, 8),
    "wide_low": (3, 2, 4, 2, 0, 0, 0, 6, 8),
    "wide_high": (5, 4, 6, 2, 0, 0, 0, 6, 8),
    "pair": (6, 6, 6, 4, 0, 0, 0, 6, 8),
    "half": (8, 8, 8, 6, 6, 0, 0, 8, 8),
}
# predicates, as operands and as guards; and in the uniform datapath
_OPERAND = {"alu": {"alu": 4, "fma": 5}, "fma": {"alu": 5, "fma": 4}, "half": {"alu": 5, "fma": 5}}
_FP64_OPERAND = {"alu": 6, "fma": 6, "fp64": 6}
_UNIFORM = {
    "uniform": {
        **dict.fromkeys(("alu", "fma", "factor", "half"), 6),
        **dict.fromkeys(("address", "variable"), 9),
        "control": 9,
        "uniform": 4,
        "uniform_move": 7,
    },
    "uniform_move": dict.fromkeys(
        ("alu", "fma", "factor", "half", "fp64", "address", "variable", "uniform"), 2
    ),
}
_UNIFORM_PREDICATE = {"alu": 6, "uniform": 4, "guard": 9}


def least_cycles(architecture: int, register: str, producer: str, reader: str) -> int | None:
    """Returns the least cycles from a producer to a reader of a register, None if unknown.

    Producers and readers are named as in :mod:`ptxwcet.sass.hazards`.
    """
    if register[0] == "P":
        return _of_predicate(architecture, producer, reader)
    if register.startswith("UP"):
        return _UNIFORM_PREDICATE.get(reader) if producer == "uniform" else None
    if register.startswith("UR"):
        return _UNIFORM.get(producer, {}).get(reader)
    return _of_register(architecture, producer, "variable" if reader == "control" else reader)


def _of_register(architecture: int, producer: str, reader: str) -> int | None:
    newer = _HOPPER if architecture >= 90 else _AMPERE
    table: Mapping[str, tuple[int, ...]] = newer if architecture >= 80 else _TURING
    if producer not in table or reader not in _READERS:
        return None
    return table[producer][_READERS.index(reader)] or None


def _of_predicate(architecture: int, producer: str, reader: str) -> int | None:
    if reader == "guard":
        return 14 if producer == "fp64" else 12 if architecture < 80 else 13
    if producer == "fp64":
        return _FP64_OPERAND.get(reader)
    return _OPERAND.get(producer, {}).get(reader)
