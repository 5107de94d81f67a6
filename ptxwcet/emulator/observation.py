"""Reports memory accesses to an observer, as the warps of a run execute them.

By default an observer is absent: then an access costs one more comparison, and steps are compiled
without observation (:mod:`ptxwcet.emulator.nodes`).
"""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array, ObservedAccess, Observer
from ptxwcet.emulator.memory import BASE, Arena

_SPACES = ("global", "shared", "local", "const", "param")
_GLOBAL, _SHARED, _LOCAL, _CONST, _PARAM = range(len(_SPACES))


class Observation:
    """The conversion of an access by a group of warps to an access of each warp and space.

    ``instruction`` is the index of the executed instruction, ``block`` the index of the block.
    """

    def __init__(self, observer: Observer, arena: Arena, threads: int) -> None:
        self._observer, self._arena = observer, arena
        warps = -(-threads // 32)
        self._existing = [(1 << min(32, threads - 32 * warp)) - 1 for warp in range(warps)]
        self.instruction = self.block = 0

    def note(self, active: Array, access: tuple[int, Array, Array]) -> None:
        """Reports an access: flags of the active lanes; bytes per lane, lanes, arena indices.

        Cost: linear in the lanes of the block.
        """
        size, lanes, index = access
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
        """Returns the space of each index, independent of the instruction's state space."""
        arena = self._arena
        spaces = np.full(len(index), _GLOBAL)
        ranges = [(_CONST, *bounds) for bounds in arena.constant]
        ranges += [(_PARAM, *bounds) for bounds in arena.parameters]
        ranges += [(_SHARED, arena.shared, arena.shared_end)]
        ranges += [(_LOCAL, arena.local, arena.local_end)]
        for space, first, end in ranges:
            spaces[(index >= first) & (index < end)] = space
        return spaces

    def _addresses(self, index: Array, spaces: Array) -> Array:
        arena = self._arena
        addresses = index + BASE
        origins = {_SHARED: arena.shared, _LOCAL: arena.local}
        if arena.constant:
            origins[_CONST] = arena.constant[0][0]
        for space, origin in origins.items():
            addresses = np.where(spaces == space, index - origin, addresses)
        if arena.local_size:
            addresses = np.where(spaces == _LOCAL, addresses % arena.local_size, addresses)
        return addresses
