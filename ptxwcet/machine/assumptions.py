"""The assumptions that bounds rest on. A machine file gives each of them a state and a source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ALONE = "alone-on-its-sm"
NO_OTHER_KERNELS = "no-other-kernels"
"""A condition on the use of a machine: true by definition only where an SM holds one block."""

NO_BANK_CONFLICTS = "no-bank-conflicts"
"""Needed of machines that charge each access of an op class the same."""

BREADTH_FIRST = "breadth-first-dispatch"
"""Makes bounds of launches smaller where it holds; where it is doubtful, they do without it."""

OF_LAUNCHES = (
    "greedy-dispatch",
    "resident-blocks",
    BREADTH_FIRST,
    "launch-overhead",
    NO_OTHER_KERNELS,
)
"""What bounds of launches rest on beside the execution of a block (docs/methods/grid.md)."""

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
        "perfect-instruction-supply": "instruction and constant fetch never delay an issue",
        "stack-reconvergence": (
            "the sides of a divergent branch run one after the other, in any order, up to its "
            "immediate post-dominator, where the lanes go on together"
        ),
        "ptx-is-executed": "the machine executes the PTX instructions as written, in their order",
        ALONE: (
            "the block has its SM to itself from its start to its end: no other block runs there, "
            "and the SM was idle before"
        ),
        "greedy-dispatch": (
            "while blocks of a launch wait, a free slot of an SM gets one of them as soon as the "
            "machine file says, whichever block and slot it is"
        ),
        "resident-blocks": (
            "an SM holds as many blocks of a launch as its registers, all of its shared memory, "
            "its warps and its block slots allow"
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
"""Key -> what is assumed, one sentence each. Every machine file has an entry for every key."""
