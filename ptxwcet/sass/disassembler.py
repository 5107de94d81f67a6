"""Runs the vendor's disassembler on a copy of a cubin: nvdisasm of its wheel, or of the PATH.

It gets a file under a name of the tool in a private folder, and nothing of the user's on its
command line; no shell is involved. A process that does not end, fails, dies or writes without end
is stopped and reported (PW124).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import read_at_most

DISASSEMBLER = "nvdisasm"
MOST_SECONDS, _SECONDS_A_MIB = 60, 5
"""The seconds after which the disassembler is stopped, and more for each MiB of the file."""

_LEAST_BYTES, _BYTES_A_BYTE = 16 << 20, 64  # of its listing, and more for each byte of the file
_LOOKS = 0.05  # seconds between two checks of the size of its output
_MOST_MEMORY = 8 << 30
# inlining of CUDA and lines of PTX; targets of indexed branches are in the file itself
_OPTIONS = ("-c", "-hex", "-gi", "-gp", "-ndf")
_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")
_COPY = "kernel.cubin"


def disassembled(name: str, data: bytes) -> tuple[str, str]:
    """Returns the disassembler's version, and its listing of a cubin.

    Raises PtxwcetError (PW124). Cost: two runs of it.
    """
    tool = _found(name)
    with tempfile.TemporaryDirectory(prefix="ptxwcet-") as folder:
        output = _run(name, [tool, "--version"], folder, 0)
        version = _VERSION.search(output)
        if version is None:
            raise _failed(name, f"{DISASSEMBLER} does not say its version", output)
        Path(folder, _COPY).write_bytes(data)
        return version[1], _run(name, [tool, *_OPTIONS, _COPY], folder, len(data))


def _found(name: str) -> str:
    """Returns the program: the installed wheel's, else the one on the PATH."""
    wheels = find_spec("nvidia")  # a folder that many wheels share, without a module of its own
    for root in (wheels.submodule_search_locations or ()) if wheels else ():
        for program in sorted(Path(root).glob(f"*/bin/{DISASSEMBLER}*"), reverse=True):
            if os.access(program, os.X_OK):
                return str(program)
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


def _run(name: str, command: list[str], folder: str, size: int) -> str:
    """Returns its output for a file of this size. Raises PtxwcetError (PW124) if it fails."""
    most = _LEAST_BYTES + _BYTES_A_BYTE * size
    seconds = MOST_SECONDS + _SECONDS_A_MIB * (size >> 20)
    with tempfile.TemporaryFile() as written, tempfile.TemporaryFile() as told:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=told,
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(name, f"{DISASSEMBLER} does not start", str(error.strerror)) from None
        with process:
            try:
                _limit(process.pid, seconds)
                code = _ended(name, process, (written, told), most, seconds)
            finally:
                if process.poll() is None:
                    _kill(process)
        told.seek(0)
        errors = read_at_most(told, 1 << 16).decode("utf-8", "replace")
        if code:
            ended = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            raise _failed(name, f"{DISASSEMBLER} {ended}", errors)
        written.seek(0)
        return read_at_most(written, most).decode("utf-8", "replace")


def _ended(
    name: str,
    process: subprocess.Popen[bytes],
    files: tuple[IO[bytes], ...],
    most: int,
    seconds: float,
) -> int:
    """Returns its exit code. Raises PtxwcetError if it takes too long, or writes too much."""
    until = time.monotonic() + seconds
    while True:
        try:
            code = process.wait(_LOOKS)
        except subprocess.TimeoutExpired:
            code = None
        if any(os.fstat(file.fileno()).st_size > most for file in files):
            raise _failed(name, f"{DISASSEMBLER} writes more than {most >> 20} MiB", "")
        if code is not None:
            return code
        if time.monotonic() > until:
            why = f"{DISASSEMBLER} has not ended after {seconds} seconds"
            raise _failed(name, why, "")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends the process, and all that it has started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
    else:
        process.kill()


def _limit(process: int, seconds: float) -> None:
    """Limits its memory, and its time should this process die, where the system allows it."""
    try:
        import resource

        resource.prlimit(process, resource.RLIMIT_DATA, (_MOST_MEMORY, _MOST_MEMORY))
        resource.prlimit(process, resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    except (ImportError, AttributeError, OSError, ValueError):
        return  # no Linux, a lower limit of the user's own, or it has ended


def _failed(name: str, why: str, output: str) -> PtxwcetError:
    notes = tuple(line.strip() for line in output.splitlines()[:2] if line.strip())
    return PtxwcetError(
        Diagnostic(
            "PW124",
            f"'{name}' cannot be listed: {why}",
            notes=notes,
            help="the file may be damaged, or of an architecture that this version does not know: "
            "pip install --upgrade nvidia-cuda-nvdisasm",
        )
    )
