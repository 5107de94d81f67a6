"""Bounds the memory traffic of arrays that a launch keeps in persisting L2 (a carve-out).

An array of n bytes has at most ``(n + u - 2) // u + 1`` of the units of u bytes, wherever it is.
Each unit is fetched once, written back once before that with its old contents, and once with its
new contents (docs/methods/first-touch.md).

Example: an array of 4,194,304 bytes has at most 131,073 sectors, which cause 393,219 moves.
"""

from __future__ import annotations

from ptxwcet.bounds.grid import SetAside
from ptxwcet.bounds.occupancy import LaunchedBlock, assumed
from ptxwcet.claims import Assumption
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.model import Machine
from ptxwcet.memory.counting import SECTOR
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import Span

_MOVES = 3  # moves of a unit: its old contents are written back, it is fetched, it is written back

JOINED_MISSES = (
    "what asks for something that is on its way to the L2 cache loses no more than its latency, "
    "beside the time in which cache and memory are busy"
)
"""The assumption of every bound that counts hits of a cache."""


def set_aside_in(block: LaunchedBlock, machine: Machine) -> SetAside | None:
    """Returns the memory demand of a launch's arrays in persisting L2; None without any.

    Raises PtxwcetError (PW326) if the machine has no room for them. Cost: linear in the arrays.
    """
    if not block.arrays:
        return None
    rules = machine.carve_out
    if rules is None:
        raise _no_room(block, f"machine {machine.name} says of no cache that this can be done")
    unit = rules.unit_bytes.value
    units = sum((size + unit - 2) // unit + 1 for _, size in block.arrays)
    room = rules.carve_out_bytes.value
    if units * unit > room:
        reason = (
            f"they may take {units * unit:,} bytes, of which machine {machine.name} has {room:,}"
        )
        raise _no_room(block, reason)
    moved = _MOVES * units * -(-unit // SECTOR)
    return SetAside(rules.cache_cycles_per_1024_sectors.value, moved)


def assumptions_of_arrays(block: LaunchedBlock) -> tuple[Assumption, ...]:
    """Returns the assumptions of a bound with arrays in persisting L2, if any."""
    if not block.arrays:
        return ()
    sizes = ", ".join(f"{name} {size:,}" for name, size in block.arrays)
    names = ", ".join(name for name, _ in block.arrays)
    texts = {
        "array-sizes": "every address that the kernel makes of a pointer and numbers lies in so "
        f"many bytes from it on: {sizes}",
        "carve-out": f"{names} are set aside in the L2 cache during the launch, which nothing else "
        "is: it fetches each unit of them once at most, and writes it back once at most",
        "joined-misses": JOINED_MISSES,
    }
    return tuple(assumed(key, text, "--param bytes") for key, text in texts.items())


def require_grid(launch: Launch, span: Span) -> None:
    """Raises PtxwcetError (PW326) for arrays in persisting L2 without a known grid."""
    if launch.sizes and launch.grid is None:
        raise PtxwcetError(
            Diagnostic(
                "PW326",
                "what is set aside in the L2 cache counts in the bound of a launch, and the number "
                "of its blocks is not known",
                span,
                help="say it with --grid, or leave bytes: out",
            )
        )


def require_no_sizes(launch: Launch, span: Span) -> None:
    """Raises PtxwcetError (PW326) for arrays in persisting L2 where no launch is bounded."""
    if launch.sizes:
        names = ", ".join(map(launch.name_of, launch.sizes))
        raise PtxwcetError(
            Diagnostic(
                "PW326",
                f"bytes: of {names}: what is set aside in the L2 cache counts in the bound of a "
                "launch, and none is bounded here",
                span,
                help="leave bytes: out, or ask for a bound: ptxwcet bound",
            )
        )


def _no_room(block: LaunchedBlock, reason: str) -> PtxwcetError:
    names = ", ".join(name for name, _ in block.arrays)
    return PtxwcetError(
        Diagnostic(
            "PW326",
            f"{names} cannot be set aside in the L2 cache: {reason}",
            block.kernel.span,
            help="leave bytes: out, or take a machine file whose [carve_out] has the room",
        )
    )
