"""Reads input files: regular files of a bounded size, whole.

A device, a pipe or a file of another kind has no end that is known beforehand, and some are read
twice (once for their digest); a huge file is nearly always the wrong file. Both are refused before
a byte is read, as an ``OSError`` with the reason in ``strerror``, so that callers treat them like a
missing file.

Inputs can be supplied instead (:func:`supplied_inputs`): then they are read from memory, and no
other file is. So the analysed input is the hashed input, and a computer without the files reads the
same.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import IO

from ptxwcet.support.records import dataclass

MOST_TEXT_BYTES = 64 << 20
"""The largest text that is parsed: PTX, CUDA source, sidecar. Bounding 100,000 instructions, 2.4
MB, takes 4 s of processor time and 180 MB of memory; both grow about linearly.
"""

MOST_TOML_BYTES = 4 << 20
"""The largest TOML file: half a million listed values. More belong into a .npy file."""

MOST_DATA_BYTES = 1 << 32
"""The largest file of data: arrays, measurements, dumps, traces."""

_PART = 1 << 20


@dataclass(frozen=True, slots=True)
class SuppliedInputs:
    """The input files by the paths with which they are opened, and their working directory."""

    files: Mapping[str, bytes]
    folder: str


_supplied: ContextVar[SuppliedInputs | None] = ContextVar("supplied", default=None)
_noted: ContextVar[set[str] | None] = ContextVar("noted", default=None)


@contextlib.contextmanager
def supplied_inputs(supplied: SuppliedInputs | None) -> Iterator[None]:
    """Restricts input files in its context to the given ones; None: to the system's, unnoted.

    Within it, :func:`noted_inputs` reports the requests for these.
    """
    tokens = _supplied.set(supplied), _noted.set(None)
    try:
        yield
    finally:
        _supplied.reset(tokens[0])
        _noted.reset(tokens[1])


@contextlib.contextmanager
def noted_inputs() -> Iterator[set[str]]:
    """Notes in its context the paths of requested input files, existing or not."""
    noted: set[str] = set()
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def is_supplied(path: str | os.PathLike[str]) -> bool | None:
    """Returns whether a file is among the supplied ones; None where the system's files are used."""
    supplied = _supplied.get()
    return None if supplied is None else os.fspath(path) in supplied.files


def working_folder() -> str:
    """Returns the working directory, or that of the supplied inputs."""
    supplied = _supplied.get()
    return os.getcwd() if supplied is None else supplied.folder


def is_input(path: str | os.PathLike[str]) -> bool:
    """Returns whether a path is a regular file. Raises OSError, ValueError as the system."""
    name = os.fspath(path)
    _note(name)
    if (supplied := _supplied.get()) is not None:
        return name in supplied.files
    return os.path.isfile(name)


def open_input(path: str | os.PathLike[str], most: int) -> IO[bytes]:
    """Opens a regular file of at most ``most`` bytes for reading.

    Raises OSError: the system's, or one for a file that is not regular or too large.
    """
    name = os.fspath(path)
    _note(name)
    if (supplied := _supplied.get()) is not None:
        if name not in supplied.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        if len(supplied.files[name]) > most:
            raise _too_large(most, name)
        return io.BytesIO(supplied.files[name])
    if "\0" in name:
        raise OSError(errno.EINVAL, "a path cannot hold a zero byte", name)
    # Without O_NONBLOCK, opening a pipe waits for a process that writes into it.
    handle = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _require_bounded(os.fstat(handle), most, name)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """Returns the bytes of a regular file. Raises OSError as :func:`open_input`. Cost: linear."""
    with open_input(path, most) as file:
        data = read_at_most(file, most)
    if len(data) > most:  # it grew, or its size was unknown: /proc
        raise _too_large(most, os.fspath(path))
    return data


def read_at_most(file: IO[bytes], most: int) -> bytes:
    """Returns the rest of a file, or ``most + 1`` bytes of it if that is more.

    Cost: linear in the rest: ``file.read(most + 1)`` would allocate memory for the most.
    """
    whole = io.BytesIO()
    while part := file.read(min(_PART, most + 1 - whole.tell())):
        whole.write(part)
    return whole.getvalue()


def read_text(path: str | os.PathLike[str], most: int, errors: str = "strict") -> str:
    """Returns the UTF-8 text of a regular file, line ends as ``\\n``.

    Raises OSError as :func:`open_input` does, and UnicodeDecodeError, a ValueError.
    """
    text = read_bytes(path, most).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _note(name: str) -> None:
    if (noted := _noted.get()) is not None:
        noted.add(name)


def _require_bounded(status: os.stat_result, most: int, name: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a regular file", name)
    if status.st_size > most:
        raise _too_large(most, name)


def _too_large(most: int, name: str) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most >> 20:,} MiB", name)
