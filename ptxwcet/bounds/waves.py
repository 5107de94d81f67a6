"""In how many waves the blocks of a grid run, from the launch and the occupancy alone.

The count that Betts and Donaldson make by hand (ECRTS 2013, section VI-D): blocks are dealt out
evenly to the SMs, and an SM begins its next wave when the last one has ended. There: 1024 blocks,
8 resident on each of 14 SMs, 10 waves (their Table II was made with 6 resident, which are 13:
docs/methods/hybrid.md). Waves and warps of a wave follow from the same number of resident blocks.
Real dispatch is eager, so that waves overlap: this is the number of rounds, not a statement about
times.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxwcet.bounds.occupancy import Occupancy


@dataclass(frozen=True, slots=True)
class WaveSchedule:
    """``waves`` (Omega) of at most ``warps_per_wave`` warps (phi) on each SM."""

    blocks: int
    sms: int
    resident_blocks: int
    warps_per_block: int

    @property
    def waves(self) -> int:
        """Rounds until all blocks have run."""
        return -(-self.blocks // (self.sms * self.resident_blocks))

    @property
    def blocks_per_wave(self) -> int:
        """The most blocks that one SM runs in a wave."""
        return min(self.resident_blocks, -(-self.blocks // self.sms))

    @property
    def warps_per_wave(self) -> int:
        """The most warps that one SM runs in a wave."""
        return self.blocks_per_wave * self.warps_per_block


def schedule_waves(blocks: int, sms: int, occupancy: Occupancy) -> WaveSchedule:
    """The waves of a grid of so many blocks. Cost: constant."""
    return WaveSchedule(blocks, sms, occupancy.resident_blocks, occupancy.warps_per_block)
