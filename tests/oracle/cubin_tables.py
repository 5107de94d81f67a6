"""What a cubin has of constant bank 2 of its kernels: tables of branches and literals."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_BANK = ".nv.constant2."


def tables_of(data: bytes) -> dict[str, bytes]:
    """The content of bank 2 by the name of the kernel, read from the sections of the file."""
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count, of_names = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, offset + n * size) for n in range(count)]
    names = rows[of_names][4]
    found = {}
    for name, _, _, _, place, length in rows:
        end = data.index(b"\0", names + name)
        text = data[names + name : end].decode()
        if text.startswith(_BANK):
            found[text.removeprefix(_BANK)] = data[place : place + length]
    return found


if __name__ == "__main__":  # what tests/data/sass/build.sh keeps beside a listing
    for kernel, content in tables_of(Path(sys.argv[1]).read_bytes()).items():
        print(kernel, content.hex())
