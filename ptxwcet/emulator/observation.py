"""Memory accesses as the warps of a run execute them, told to an observer.

Nothing is observed by default: then an access costs one comparison more, and steps are compiled as
they are without (:mod:`ptxwcet.emulator.nodes`).
"""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array, ObservedAccess, Observer
from ptxwcet.emulator.memory import BASE, Arena

_SPACES = ("global", "shared", "local", "const", "param")
_GLOBAL, _SHARED, _LOCAL, _CONST, _PARAM = range(len(_SPACES))


class Observation:
    """Turns what a group of warps accesses at once into an access of each warp and space.

    ``instruction`` is the index of the instruction that executes, ``block`` that of the block.
    """

    def __init__(self, observer: Observer, arena: Arena, threads: int) -> None:
        self._observer, self._arena = observer, arena
        warps = -(-threads // 32)
        self._existing = [(1 << min(32, threads - 32 * warp)) - 1 for warp in range(warps)]
        self.instruction = self.block = 0

    def note(self, active: Array, what: tuple[int, Array, Array]) -> None:
        """Tells of an access: flags of the active lanes; bytes a lane, lanes, arena indices.

        Cost: linear in the lanes of the block.
        """
        size, lanes, index = what
        masks = np.packbits(active, bitorder="little").view(np.uint32)
        spaces = self._spaces(index)
        addresses = self._addresses(index, spaces)
        warps = lanes >> 5
        for warp in np.unique(warps).tolist():
            for space in np.unique(spaces[warps == warp]).tolist():
                part = np.flatnonzero((warps == warp) & (spaces == space))
                of_lanes = zip((lanes[part] & 31).tolist(), addresses[part].tolist(), strict=True)
                existing = self._existing[warp]
                self._observer(
                    ObservedAccess(
                        self.instruction,
                        self.block,
                        warp,
                        _SPACES[space],
                        size,
                        tuple(of_lanes),
                        int(masks[warp]) & existing,
                        existing,
                    )
                )

    def _spaces(self, index: Array) -> Array:
        """The space that each index lies in, whatever the instruction calls it."""
        arena = self._arena
        spaces = np.full(len(index), _GLOBAL)
        ranges = [(_CONST, *one) for one in arena.constant]
        ranges += [(_PARAM, *one) for one in arena.parameters]
        ranges += [(_SHARED, arena.shared, arena.shared_end)]
        ranges += [(_LOCAL, arena.local, arena.local_end)]
        for space, first, end in ranges:
            spaces[(index >= first) & (index < end)] = space
        return spaces

    def _addresses(self, index: Array, spaces: Array) -> Array:
        arena = self._arena
        found = index + BASE
        origins = {_SHARED: arena.shared, _LOCAL: arena.local}
        if arena.constant:
            origins[_CONST] = arena.constant[0][0]
        for space, origin in origins.items():
            found = np.where(spaces == space, index - origin, found)
        if arena.local_size:
            found = np.where(spaces == _LOCAL, found % arena.local_size, found)
        return found
