"""Kernels whose grids are not bounded, by the name of what they use (docs/methods/grid.md).

The theorems are about blocks that share an SM and nothing else: none waits for another, and each
starts as soon as a slot is free.
"""

from __future__ import annotations

import re

from ptxwcet.claims import Refusal
from ptxwcet.ir.kernel import Kernel

_CLUSTER = "the blocks of a cluster start together and may wait for one another"
_COOPERATIVE = "the blocks of a cooperative launch wait for one another"
_CHILDREN = "a launch from the device shares the SMs with its own children"
_REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"\.(reqnctapercluster|explicitcluster|maxclusterrank|blocksareclusters)", _CLUSTER),
        (r"barrier\.cluster\b.*|mapa\b.*|getctarank\b.*|clusterlaunchcontrol\b.*", _CLUSTER),
        (r"%(cluster_\w+|n?clusterid|is_explicit_cluster)(\.\w)?", _CLUSTER),
        (r"%envreg[12]", _COOPERATIVE),  # where cooperative groups find the barrier of the grid
        (r"cudaLaunchDevice\w*|cudaGetParameterBuffer\w*|__cudaCDP2\w*", _CHILDREN),
    )
)


def grid_refusal(kernel: Kernel) -> Refusal | None:
    """Why the theorems say nothing of launches of this kernel; None where they may.

    Calls must have been inlined. Cost: linear in the kernel.
    """
    names = dict.fromkeys(directive.keyword for directive in kernel.performance)
    for instruction in kernel.instructions:
        names[instruction.mnemonic] = None
        names.update(dict.fromkeys(instruction.names))  # special registers and functions among them
    for name in (one for one in names if one not in kernel.registers):
        for pattern, reason in _REASONS:
            if pattern.fullmatch(name):
                return Refusal(f"the kernel uses {name}: {reason}; its grid is not bounded")
    return None
