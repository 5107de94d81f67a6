"""Lists the assumptions of bounds. A machine file gives each of them a state and a source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ALONE = "alone-on-its-sm"
NO_OTHER_KERNELS = "no-other-kernels"
"""A condition on the use of a machine: true by definition only where an SM holds one block."""

NO_BANK_CONFLICTS = "no-bank-conflicts"
"""An assumption for machines that charge each access of an op class the same."""

BREADTH_FIRST = "breadth-first-dispatch"
"""An assumption that makes bounds of launches smaller; bounds omit it where it is doubtful."""

DEALT = "warps-dealt-in-turn"
"""An assumption for machines whose SM has several schedulers."""

COUNTED = "documented-transactions"
"""An assumption for machines that charge an access by its memory transactions."""

NEVER_IDLE = "busy-servers"
"""An assumption for machines with servers after their units."""

STORES_HOLD = "stores-hold-slots"
"""An assumption of launch bounds on machines with a memory path (A3 of docs/methods/grid.md)."""

STACK = "stack-reconvergence"
PTX_IS_EXECUTED, MACHINE_CODE_IS_EXECUTED = "ptx-is-executed", "machine-code-is-executed"
"""Alternatives: bounds of machine code need only the second, which is outside machine files."""

OF_LAUNCHES = (
    "dispatch-in-turn",
    "resident-blocks",
    STORES_HOLD,
    BREADTH_FIRST,
    "launch-overhead",
    NO_OTHER_KERNELS,
)
"""The assumptions of launch bounds in addition to block bounds (docs/methods/grid.md)."""

ASSUMPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "work-conserving": (
            "in every cycle in which a warp of a scheduler is eligible, the scheduler issues one"
        ),
        "single-issue": "a scheduler issues at most one instruction a cycle",
        "constant-initiation": (
            "no instruction occupies its unit longer, or finishes later, than its op class says"
        ),
        "constant-memory-latency": (
            "no global memory access takes longer than the memory latency; there are no caches"
        ),
        NO_BANK_CONFLICTS: "shared-memory accesses are never serialised by bank conflicts",
        "no-write-port-hazard": "a unit never delays a dispatch to keep results from colliding",
        "units-independent": (
            "an instruction waits only for instructions of its own unit and scheduler"
        ),
        "units-in-order": (
            "a unit takes instructions in the order of their issue and is never idle while one "
            "waits; no issue waits for a unit"
        ),
        "perfect-instruction-supply": "instruction and constant fetch never delay an issue",
        STACK: (
            "the sides of a divergent branch run one after the other, in any order, up to its "
            "immediate post-dominator, where the lanes go on together"
        ),
        PTX_IS_EXECUTED: "the machine executes the PTX instructions as written, in their order",
        "common-start": "all warps of a block start in the same cycle",
        DEALT: (
            "the warps of a block are dealt to the schedulers of an SM in turn, by their numbers"
        ),
        "prompt-barriers": (
            "a barrier opens in the cycle in which the last warp of the block arrives, where one "
            "that has exited counts as arrived in its last cycle; the others may issue from the "
            "next cycle on"
        ),
        COUNTED: (
            "an access takes no more sectors, lines, passes, words and turns than the vendor's "
            "rules give, and no pointer that is loaded leads to constants or parameters"
        ),
        NEVER_IDLE: (
            "the memory path of an SM and the memory of the GPU, with a cache that is a server, "
            "are never idle while an access waits for them, and take no longer for it than the "
            "machine file says"
        ),
        ALONE: (
            "the block has its SM to itself from its start to its end: no other block runs there, "
            "and the SM was idle before"
        ),
        "dispatch-in-turn": (
            "while blocks of a launch wait, an SM that holds R of them is given its n-th as soon "
            "as the machine file says after the first n - R that it was given have ended, or "
            "earlier; whichever block it is, and in whatever order the SMs come"
        ),
        "resident-blocks": (
            "an SM holds as many blocks of a launch as its registers, all of its shared memory, "
            "its warps and its block slots allow"
        ),
        STORES_HOLD: (
            "a block keeps its slot until all that it has sent, stores included, has passed the "
            "memory path of its SM"
        ),
        BREADTH_FIRST: (
            "no SM ever holds more blocks of a launch than its share, the blocks divided by the "
            "SMs, rounded up"
        ),
        "launch-overhead": (
            "a launch takes no more cycles than the machine file says before its first block "
            "starts and after its last block ends"
        ),
        NO_OTHER_KERNELS: (
            "nothing else runs on the GPU from the start of a launch to its end, and nothing is "
            "preempted"
        ),
    }
)
"""Key -> text of the assumption, one sentence each. Every machine file has every key."""

PATH_KEEPS_UP = "path-keeps-up"
KEEPS_RECENT, CONSERVATIVE = "keeps-recent", "conservative-cache"
HASHED_SETS = "xor-hashed-sets"
L1_KEEPS_RECENT, L1_CONSERVATIVE = "l1-keeps-recent", "l1-conservative-cache"
_RECENT = (
    "{} keeps a line of a launch's data as long as fewer others were used since its last use than "
    "kept_bytes has lines; "
)
_FEW = (
    "in any stretch in which a launch asks for no more lines of data than kept_bytes has, {} "
    "brings in no more than so many; "
)
_L1 = (
    "a sector stays while its line does, unless a store changes it; what no block of a launch "
    "needs for shared memory is there for the cache"
)
_L2 = (
    "a sector is fetched only as one that is not there is read or changed in part, stays while "
    "its line does, and is written back only as that leaves"
)
CLAIMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        PATH_KEEPS_UP: (
            "memory",
            "an access that passes the memory path of an SM occupies its unit for no less than the "
            "initiation of its op class, comes to the path a time after that is the same for all "
            "of that unit, and the path serves in the order of arrival",
        ),
        KEEPS_RECENT: ("l2_cache", _RECENT.format("the L2 cache") + _L2),
        CONSERVATIVE: ("l2_cache", _FEW.format("the L2 cache") + _L2),
        HASHED_SETS: (
            "l2_cache",
            "the L2 cache has sets in the number of its figure, each with ways for a launch's data "
            "of which the one that was used least recently is replaced; a line comes to the set of "
            "its number modulo that of the sets, xor a function of the quotient; " + _L2,
        ),
        L1_KEEPS_RECENT: ("l1_cache", _RECENT.format("the L1 cache of an SM") + _L1),
        L1_CONSERVATIVE: ("l1_cache", _FEW.format("the L1 cache of an SM") + _L1),
    }
)
"""The optional claims of a machine file: the table that a claim is about, and its text."""
