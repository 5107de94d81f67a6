"""Listings by hand, each for a rule of where lanes of machine code go on together.

Each parts its lanes by bits of their numbers (P0, P1, P2) and has a ``tail`` that more groups than
one come to, or one alone where all lanes are joined.
"""

from __future__ import annotations

from collections.abc import Mapping

_HEAD = (
    ".target sm_86\n.disassembler 13.5.37\n.section k\n.registers 16\n.shared 0\n.local 0\n"
    ".parameters 0x160\n.parameter 0x0 8\n.parameter 0x8 8\n.kernel k\n"
)
_BEGIN = (
    "S2R R0, SR_TID.X",
    "LOP3.LUT R1, R0, 0x1, RZ, 0xc0, !PT",
    "ISETP.NE.AND P0, PT, R1, RZ, PT",
    "LOP3.LUT R1, R0, 0x2, RZ, 0xc0, !PT",
    "ISETP.NE.AND P1, PT, R1, RZ, PT",
    "LOP3.LUT R1, R0, 0x4, RZ, 0xc0, !PT",
    "ISETP.NE.AND P2, PT, R1, RZ, PT",
)
_WORK, _TAIL = ("IADD3 R2, R0, 0x5, RZ",), (*["IADD3 R2, R2, R0, RZ"] * 8, "EXIT")

_CODES: Mapping[str, tuple[str, ...]] = {
    "joined": ("BSSY B0, `(.M)", "@P0 BRA `(.M)", *_WORK, ".M:", "BSYNC B0"),
    "nested": (
        "BSSY B0, `(.N)",
        "@P0 BRA `(.N)",
        "BSSY B1, `(.M)",
        "@P1 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B1",
        *_WORK,
        ".N:",
        "BSYNC B0",
    ),
    "left": ("BSSY B0, `(.M)", "@P0 BREAK B0", "@P1 BRA `(.M)", *_WORK, ".M:", "BSYNC B0"),
    "left and gone": (
        "BSSY B0, `(.M)",
        "@P2 BRA `(.A)",
        "@P0 BREAK B0",
        "@P0 BRA `(.N)",
        ".A:",
        "@P1 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B0",
        *_WORK,
        ".N:",
    ),
    "set behind": (
        "BSSY B0, `(.A)",
        "@P0 BRA `(.S)",
        *_WORK,
        ".S:",
        "BSSY B1, `(.M)",
        "@P2 BRA `(.A)",
        *_WORK,
        ".A:",
        "BSYNC B0",
        "@P1 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B1",
    ),
    "set behind by many": (
        "BSSY B0, `(.A)",
        "MOV R3, RZ",
        ".L:",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P3, PT, R3, R0, PT",
        "@!P3 BRA `(.L)",
        "BSSY B1, `(.M)",
        "@P2 BRA `(.A)",
        *_WORK,
        ".A:",
        "BSYNC B0",
        "@P1 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B1",
    ),
    "set between": (
        "@P0 BRA `(.S)",
        *_WORK,
        ".S:",
        "BSSY B0, `(.M)",
        "@P1 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B0",
    ),
    "gathered": ("@P0 BRA `(.M)", *_WORK, ".M:", "WARPSYNC.ALL"),
    "gathered between": (
        "@P0 BRA `(.M)",
        "@P1 BRA `(.A)",
        *_WORK,
        ".A:",
        "WARPSYNC.ALL",
        ".M:",
        "WARPSYNC.ALL",
    ),
    "set before gathering": (
        "@P0 BRA `(.S)",
        *_WORK,
        ".S:",
        "BSSY B1, `(.M)",
        "@P2 BRA `(.A)",
        *_WORK,
        ".A:",
        "WARPSYNC.ALL",
        "@P1 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B1",
    ),
    "tiles": ("MOV R3, 0x55", "@P0 MOV R3, 0xaa", "WARPSYNC R3"),
    "tiles of a vote before": (
        "VOTE.ANY R3, PT, P0",
        "@P0 BRA `(.M)",
        *_WORK,
        ".M:",
        "WARPSYNC R3",
    ),
    "tiles of two kinds": (
        "@P0 BRA `(.A)",
        "MOV R3, 0x55",
        "BRA `(.M)",
        ".A:",
        "POPC R3, 0x55",
        ".M:",
        "WARPSYNC R3",
    ),
    "lanes that are active": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.A)",
        "MATCH.ANY R3, RZ",
        "BRA `(.M)",
        ".A:",
        "MATCH.ANY R3, RZ",
        ".M:",
        "BSYNC B0",
        "WARPSYNC R3",
    ),
    "set by some": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.M)",
        "MOV R3, 0xff",
        ".M:",
        "BSYNC B0",
        "WARPSYNC R3",
    ),
    "other lanes than those": ("MOV R3, R0", "WARPSYNC ~R3"),
    "set behind it": (
        "MOV R4, RZ",
        ".L:",
        "WARPSYNC R3",
        "MOV R3, 0xff",
        "IADD3 R4, R4, 0x1, RZ",
        "ISETP.GE.AND P3, PT, R4, R0, PT",
        "@!P3 BRA `(.L)",
    ),
    "of some": ("WARPSYNC PT, R0",),
    "waited for by some": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC P1, B0",
    ),
    "from a table": ("WARPSYNC c[0x3][R0]",),
    "one tile": ("@P0 BRA `(.M)", *_WORK, ".M:", "MOV R3, 0xff", "WARPSYNC R3"),
    "some gathered": ("@P0 BRA `(.M)", *_WORK, ".M:", "WARPSYNC 0x1"),
    "guarded": ("@P1 BSSY B0, `(.M)", "@P0 BRA `(.M)", *_WORK, ".M:", "BSYNC B0"),
    "copied": (
        "BSSY B0, `(.N)",
        "BMOV.32.CLEAR R4, B0",
        "BSSY B0, `(.M)",
        "@P0 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B0",
        "BMOV.32 B0, R4",
        "@P1 BRA `(.N)",
        *_WORK,
        ".N:",
        "BSYNC B0",
    ),
    "copy lost": (
        "@P0 BRA `(.S)",
        *_WORK,
        ".S:",
        "BSSY B0, `(.N)",
        "BMOV.32.CLEAR R4, B0",
        "@P1 BMOV.32 B0, R4",
        "@P2 BRA `(.N)",
        *_WORK,
        ".N:",
        "BSYNC B0",
    ),
    "loop": (
        "BSSY B0, `(.M)",
        "MOV R3, RZ",
        ".L:",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P3, PT, R3, R0, PT",
        "@P3 BRA `(.M)",
        "ISETP.GE.AND P4, PT, R3, 0x5, PT",
        "@!P4 BRA `(.L)",
        ".M:",
        "BSYNC B0",
    ),
    "loop without": (
        "MOV R3, RZ",
        ".L:",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P3, PT, R3, R0, PT",
        "@P3 BRA `(.M)",
        "ISETP.GE.AND P4, PT, R3, 0x5, PT",
        "@!P4 BRA `(.L)",
        ".M:",
    ),
    "set in a loop": (
        "MOV R3, RZ",
        ".L:",
        "BSSY B0, `(.M)",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P3, PT, R3, R0, PT",
        "@P3 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B0",
        "ISETP.GE.AND P4, PT, R3, 0x3, PT",
        "@!P4 BRA `(.L)",
    ),
    "left in a loop": (
        "BSSY B0, `(.M)",
        "MOV R3, RZ",
        ".L:",
        "IADD3 R3, R3, 0x1, RZ",
        "ISETP.GE.AND P3, PT, R3, R0, PT",
        "@P3 BREAK B0",
        "@P3 BRA `(.N)",
        "ISETP.GE.AND P4, PT, R3, 0x5, PT",
        "@!P4 BRA `(.L)",
        "@P1 BRA `(.M)",
        *_WORK,
        ".M:",
        "BSYNC B0",
        *_WORK,
        ".N:",
    ),
    "ends among": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.M)",
        "@P1 EXIT",
        *_WORK,
        ".M:",
        "BSYNC B0",
    ),
    "waits": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.A)",
        "S2R R3, SR_TID.X #holds",
        "BRA `(.M)",
        ".A:",
        "@P1 BRA `(.C)",
        "S2R R4, SR_TID.X #holds",
        "BRA `(.M)",
        ".C:",
        "S2R R5, SR_TID.X #holds",
        ".M:",
        "BSYNC B0 #waits",
    ),
}


def _written(lines: tuple[str, ...], tail: tuple[str, ...] = _TAIL) -> str:
    """The listing of a kernel. Its instructions have a stall of 5, where no other is said, and
    where said a scoreboard that they hold or wait for, which is 0 if it has no number.
    """
    out, address = [_HEAD], 0
    for line in (*_BEGIN, *lines, *tail):
        code, _, note = line.partition(" #")
        if code.startswith("."):
            out.append(code)
            continue
        notes = {
            one.rstrip("0123456789"): one.lstrip("abcdefghijklmnopqrstuvwxyz") or "0"
            for one in note.split()
        }
        holds = int(notes.get("holds", "0" if address == 0 else "7"))
        waits = int(notes["waits"]) if "waits" in notes else 0 if address == 16 else None
        bits = int(notes.get("stall", 5)) | 1 << 4 | holds << 5 | 7 << 8
        bits |= 0 if waits is None else 1 << 11 + waits
        out.append(f"/*{address:04x}*/ {code} ; /* {bits << 105:032x} */")
        address += 16
    return "\n".join(out).replace("\n\n", "\n") + "\n"


LISTINGS: Mapping[str, str] = {name: _written(lines) for name, lines in _CODES.items()}
"""By what they have."""

_M = "MUFU.RCP R7, R0"
_OTHER = ("BSSY B0, `(.M)", "@P0 BRA `(.A)", f"{_M} #stall2 holds1 waits0", "BRA `(.M)", ".A:")
_SLOW = (*["IADD3 R2, R2, R0, RZ #stall12"] * 8, "EXIT")
_WAITING = "IADD3 R2, R0, 0x5, RZ #waits1"

_TIMED: dict[str, tuple[str, ...]] = {
    "others between groups": (
        *_OTHER,
        "@P1 BRA `(.C)",
        f"{_M} #stall2 holds0",
        "BRA `(.M)",
        ".C:",
        _WAITING,
        ".M:",
        "BSYNC B0",
    ),
    "others between groups that meet before": (
        *_OTHER,
        "BSSY B1, `(.I)",
        "@P1 BRA `(.C)",
        f"{_M} #stall2 holds0",
        "BRA `(.I)",
        ".C:",
        _WAITING,
        ".I:",
        "BSYNC B1",
        ".M:",
        "BSYNC B0",
    ),
    "others before groups go on together": (
        *_OTHER,
        "BSSY B1, `(.I)",
        "@P1 BRA `(.I)",
        f"{_M} #stall2 holds0",
        ".I:",
        "BSYNC B1",
        _WAITING,
        ".M:",
        "BSYNC B0",
    ),
}
_TIMED |= {
    "others at a wait of some": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.B)",
        f"{_M} #stall2 holds0",
        "WARPSYNC 0x55",
        _WAITING,
        "BRA `(.M)",
        ".B:",
        "IADD3 R2, R0, 0x5, RZ #waits0",
        f"{_M} #stall2 holds1",
        ".M:",
        "BSYNC B0",
    ),
    "others at a wait for nobody": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.B)",
        f"{_M} #stall2 holds0",
        "BSSY B1, `(.I)",
        ".I:",
        "BSYNC B1",
        _WAITING,
        "BRA `(.M)",
        ".B:",
        "IADD3 R2, R0, 0x5, RZ #waits0",
        f"{_M} #stall2 holds1",
        ".M:",
        "BSYNC B0",
    ),
    "some wait before others begin": (
        "BSSY B0, `(.M)",
        "@P0 BRA `(.M)",
        f"{_M} #stall2 holds1",
        ".M:",
        "BSYNC B0",
        _WAITING,
    ),
    "some wait before others go on in a loop": (
        "BSSY B0, `(.M)",
        "MOV R3, RZ",
        ".L:",
        "IADD3 R3, R3, 0x1, RZ",
        f"{_M} #stall2 holds1",
        "ISETP.GE.AND P3, PT, R3, R0, PT",
        "@!P3 BRA `(.L)",
        ".M:",
        "BSYNC B0",
        _WAITING,
    ),
}

TIMED: Mapping[str, str] = {name: _written(lines, _SLOW) for name, lines in _TIMED.items()}
"""By what comes between, where only MUFU has a latency: others wait for it, and let others wait."""

_SLOW_TO_END = (*_SLOW[:-1], ".E:", "EXIT")
ENDING: Mapping[str, str] = {
    "some end at once": _written((f"{_M} #stall2", "@P0 BRA `(.E)"), _SLOW_TO_END),
    "some end in a loop": _written(
        (
            "MOV R3, RZ",
            ".L:",
            f"{_M} #stall2",
            "IADD3 R3, R3, 0x1, RZ #stall15",
            "ISETP.GE.AND P3, PT, R3, R0, PT",
            "@P3 BRA `(.E)",
            "BRA `(.L)",
        ),
        (".E:", "EXIT"),
    ),
}
"""By what they have, where the end waits for the unit of MUFU."""
