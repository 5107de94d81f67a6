"""The vendor's disassembler, run on a copy of a cubin: nvdisasm of its wheel, or of the PATH.

It gets a file under a name of our own in a private folder, and nothing of the user's on its command
line; no shell is between. One that does not end, fails, dies or writes without end is stopped and
named (PW124).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import read_at_most

DISASSEMBLER = "nvdisasm"
MOST_SECONDS = 300
"""After so long the disassembler is given up."""

_MOST_BYTES = 512 << 20  # of its listing: 64 MiB of machine code
_MOST_MEMORY = 8 << 30
# inlining of CUDA and lines of PTX; targets of indexed branches are in the file itself
_OPTIONS = ("-c", "-hex", "-gi", "-gp", "-ndf")
_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")
_COPY = "kernel.cubin"


def disassembled(name: str, data: bytes) -> tuple[str, str]:
    """The disassembler's version, and its listing of a cubin.

    Raises PtxwcetError (PW124). Cost: two runs of it.
    """
    tool = _found(name)
    with tempfile.TemporaryDirectory(prefix="ptxwcet-") as folder:
        said = _run(name, [tool, "--version"], folder)
        version = _VERSION.search(said)
        if version is None:
            raise _failed(name, f"{DISASSEMBLER} does not say its version", said)
        Path(folder, _COPY).write_bytes(data)
        return version[1], _run(name, [tool, *_OPTIONS, _COPY], folder)


def _found(name: str) -> str:
    """The program: that of the installed wheel, else that of the PATH."""
    wheels = find_spec("nvidia")  # a folder that many wheels share, without a module of its own
    for root in (wheels.submodule_search_locations or ()) if wheels else ():
        for found in sorted(Path(root).glob(f"*/bin/{DISASSEMBLER}*"), reverse=True):
            if os.access(found, os.X_OK):
                return str(found)
    on_path = shutil.which(DISASSEMBLER)
    if on_path is None:
        raise PtxwcetError(
            Diagnostic(
                "PW124",
                f"'{name}' is machine code, and there is no {DISASSEMBLER} to list it",
                help="pip install 'ptxwcet[sass]', or put the CUDA toolkit on the PATH",
            )
        )
    return on_path


def _run(name: str, command: list[str], folder: str) -> str:
    """What it writes. Raises PtxwcetError (PW124) if it does not end well."""
    with tempfile.TemporaryFile() as written, tempfile.TemporaryFile() as told:
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=written, stderr=told
            )
        except OSError as error:
            raise _failed(name, f"{DISASSEMBLER} does not start", str(error.strerror)) from None
        with process:
            try:
                _limit(process.pid)
                code = process.wait(MOST_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                why = f"{DISASSEMBLER} has not ended after {MOST_SECONDS} seconds"
                raise _failed(name, why, "") from None
            except BaseException:
                process.kill()
                raise
        written.seek(0)
        told.seek(0)
        listing = read_at_most(written, _MOST_BYTES)
        said = read_at_most(told, 1 << 16).decode("utf-8", "replace")
        if code:
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise _failed(name, f"{DISASSEMBLER} {ended}", said)
        if len(listing) > _MOST_BYTES:
            raise _failed(name, f"{DISASSEMBLER} writes more than {_MOST_BYTES >> 20} MiB", "")
        return listing.decode("utf-8", "replace")


def _limit(process: int) -> None:
    """Limits what it may write and hold, where the system can."""
    try:
        import resource

        resource.prlimit(process, resource.RLIMIT_FSIZE, (_MOST_BYTES + 1, _MOST_BYTES + 1))
        resource.prlimit(process, resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
    except (ImportError, AttributeError, OSError, ValueError):
        return  # no Linux, a lower limit of the user's own, or it has ended


def _failed(name: str, why: str, said: str) -> PtxwcetError:
    notes = tuple(line.strip() for line in said.splitlines()[:2] if line.strip())
    return PtxwcetError(
        Diagnostic(
            "PW124",
            f"'{name}' cannot be listed: {why}",
            notes=notes,
            help="the file may be damaged, or of an architecture that this version does not know: "
            "pip install --upgrade nvidia-cuda-nvdisasm",
        )
    )
