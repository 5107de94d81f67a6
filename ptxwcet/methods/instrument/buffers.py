"""Defines the buffer of instrumented kernels: its layout, and its preparation for a launch.

Little endian. A header of 64 bytes, then chunks of 128 bytes, eight records of 16 bytes each::

    header   0  magic     8 bytes "PTXWCET" and a zero
             8  version   u32, 1
            12  clock     u32, 0: %clock64 of a GPU, 1: the emulator's count of instructions
            16  used      u64, chunks given out; the kernel adds to it
            24  chunks    u64, chunks that the buffer holds
            32  grid      3 x u32
            44  block     3 x u32
            56  identity  8 bytes that name the instrumented kernel
    record   0  code      u32: point + 1, or 0xffff for the head of a warp; multiprocessor << 16
             4  warp      u32, block index times warps a block plus the warp's number in it
             8  clock     u64; in the head of a warp its hardware slot (%warpid)

Chunk w belongs to warp w: its first record is the head. Further records of a warp are in chunks
that are allocated while the kernel runs, each to one lane, so that a lane's records need no
synchronisation. A record with code 0 was never written. The host fills header and zeros.
"""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
import numpy.typing as npt

from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.records import dataclass

MAGIC = b"PTXWCET\0"
VERSION = 1
GPU_CLOCK, EMULATOR_CLOCK = 0, 1
HEADER = struct.Struct("<8sIIQQ3I3I8s")
"""The header: magic, version, clock, used, chunks, grid, block, identity."""

USED_OFFSET = 16
RECORDS_A_CHUNK = 8
RECORD_BYTES = 16
CHUNK_BYTES = RECORDS_A_CHUNK * RECORD_BYTES
HEAD = 0xFFFF
"""The code of a warp's head."""

MOST_POINTS = HEAD - 1
MOST_CHUNKS = 1 << 28
"""The most chunks: records are counted in 32 bits."""

Bytes = npt.NDArray[np.uint8]
Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BufferHeader:
    """The header that the host writes at the beginning of a buffer; the kernel updates ``used``."""

    clock: int
    used: int
    chunks: int
    grid: Dim3
    block: Dim3
    identity: bytes

    @property
    def warps_a_block(self) -> int:
        """The warps of a block, the last one perhaps not full."""
        return -(-math.prod(self.block) // 32)

    @property
    def warps(self) -> int:
        """The warps of the launch."""
        return math.prod(self.grid) * self.warps_a_block

    def pack(self) -> bytes:
        """Returns the 64 bytes."""
        counts = (VERSION, self.clock, self.used, self.chunks)
        return HEADER.pack(MAGIC, *counts, *self.grid, *self.block, self.identity)


def unpack_header(data: bytes) -> BufferHeader:
    """Returns the header at the beginning of ``data``; the caller has checked magic and version."""
    _, _, clock, used, chunks, *sizes, identity = HEADER.unpack_from(data)
    x, y, z, a, b, c = sizes
    return BufferHeader(clock, used, chunks, (x, y, z), (a, b, c), identity)


def identity_of(instrumented_sha256: str, kernel: str) -> bytes:
    """Returns eight bytes that identify a kernel of an instrumented file, for its dumps."""
    return hashlib.sha256(f"{instrumented_sha256}\0{kernel}".encode()).digest()[:8]


def prepare_buffer(
    size_bytes: int, grid: Dim3, block: Dim3, identity: bytes, clock: int = GPU_CLOCK
) -> tuple[Bytes, int]:
    """Returns a buffer of at most ``size_bytes`` for a launch, and its number of chunks.

    The two values that the kernel is given are the device address of the copy and the number of
    chunks. Raises PtxwcetError (PW657: not even a chunk for each warp, or no memory). Cost: linear
    in the size.
    """
    chunks = min((size_bytes - HEADER.size) // CHUNK_BYTES, MOST_CHUNKS)
    header = BufferHeader(clock, 0, max(chunks, 0), grid, block, identity)
    warps = header.warps
    if chunks < warps:
        needed = HEADER.size + warps * CHUNK_BYTES
        raise PtxwcetError.of(
            "PW657",
            f"a buffer of {size_bytes:,} bytes is too small: {warps:,} warps need at least "
            f"{needed:,}",
            help="give a larger buffer (--buffer-mib)"
            if warps <= MOST_CHUNKS
            else f"a launch of more than {MOST_CHUNKS:,} warps cannot be recorded",
        )
    try:
        buffer = np.zeros(HEADER.size + chunks * CHUNK_BYTES, dtype=np.uint8)
    except MemoryError:
        message = f"this machine has no memory for a buffer of {size_bytes:,} bytes"
        raise PtxwcetError.of("PW657", message, help="give a smaller one") from None
    ready = BufferHeader(clock, warps, chunks, grid, block, identity)
    buffer[: HEADER.size] = np.frombuffer(ready.pack(), dtype=np.uint8)
    return buffer, chunks


def written_part(buffer: Bytes) -> bytes:
    """Returns the dump: header and the allocated chunks. Cost: linear in these."""
    header = unpack_header(buffer[: HEADER.size].tobytes())
    end = HEADER.size + min(header.used, header.chunks) * CHUNK_BYTES
    return buffer[:end].tobytes()
