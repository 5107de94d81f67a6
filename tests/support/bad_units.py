"""Units of work that misbehave, by name: what ``campaign.cell`` has to live with."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

WORK = "bad_units:work"
_kept: list[object] = []


def work(payload: Any, shared: Mapping[str, bytes]) -> Any:
    """Does what the payload names, and answers with what it left to the next."""
    name, argument = payload
    return _DOES[name](argument)


def _state(_: object) -> Any:
    return {"cwd": os.getcwd(), "variable": os.environ.get("BAD_UNIT"), "pid": os.getpid()}


def _abort(_: object) -> None:
    os.abort()


def _segfault(_: object) -> None:
    ctypes.string_at(0)


def _allocate(mebibytes: int) -> int:
    return len(bytearray(mebibytes << 20))


def _allocate_in_bits(_: object) -> None:
    while True:
        _kept.append(bytearray(1 << 20))


def _recurse(depth: int) -> int:
    return _recurse(depth + 1) + 1


def _recurse_in_c(_: object) -> None:
    """The hash of a tuple is that of its elements, and nobody counts how deep."""
    nested: tuple[object, ...] = ()
    for _ in range(1_000_000):
        nested = (nested,)
    hash(nested)


def _never_ends(_: object) -> None:
    while True:
        time.sleep(1)


def _never_ends_with_the_lock(_: object) -> None:
    """No other thread of this process has a turn, and no handler of a signal."""
    ctypes.PyDLL(None).pause()


def _signalled(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def _prints(mebibytes: int) -> str:
    for _ in range(mebibytes):
        print("o" * (1 << 20), flush=True)
        os.write(1, b"o" * 1024)
        os.write(2, b"e" * 1024)
    return "printed"


def _reads(_: object) -> str:
    return sys.stdin.read() + repr(os.read(0, 100))


def _raises(error: BaseException) -> None:
    raise error


def _not_to_pickle(_: object) -> object:
    return lambda: 1


class Unreadable:
    """Can be pickled, and then not be read."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def _unreadable(_: object) -> object:
    return Unreadable()


def _closes(descriptors: tuple[int, int]) -> str:
    os.closerange(*descriptors)
    return "closed"


def _closes_all_and_stays(_: object) -> None:
    os.closerange(0, 256)
    time.sleep(3600)


def _closes_streams(_: object) -> str:
    sys.stdin.close()
    sys.stdout.close()
    return "closed"


def _forks(_: object) -> int:
    """Leaves a child that holds all pipes."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
        os._exit(0)
    return child


def _forks_and_dies(path: str) -> None:
    child = _forks(None)
    Path(path).write_text(str(child), encoding="ascii")
    os._exit(3)


def _starts_a_program(_: object) -> int:
    return subprocess.Popen(["sleep", "3600"]).pid


def _moves(folder: str) -> None:
    os.chdir(folder)
    os.environ["BAD_UNIT"] = "set"


def _thread_that_stays(_: object) -> None:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    sys.exit(5)


def _ignores_signals(_: object) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


def _limit(_: object) -> Any:
    return resource.getrlimit(resource.RLIMIT_DATA)


_DOES: Mapping[str, Callable[[Any], Any]] = {
    "abort": _abort,
    "allocate": _allocate,
    "allocate in bits": _allocate_in_bits,
    "close": _closes,
    "close all and stay": _closes_all_and_stays,
    "close streams": _closes_streams,
    "echo": lambda value: value,
    "exit": lambda code: os._exit(code),
    "fork": _forks,
    "fork and die": _forks_and_dies,
    "ignore signals": _ignores_signals,
    "limit": _limit,
    "move": _moves,
    "never end": _never_ends,
    "never end with the lock": _never_ends_with_the_lock,
    "not to pickle": _not_to_pickle,
    "print": _prints,
    "raise": _raises,
    "read": _reads,
    "recurse": _recurse,
    "recurse in C": _recurse_in_c,
    "return": bytes,
    "segfault": _segfault,
    "signal": _signalled,
    "start": _starts_a_program,
    "state": _state,
    "thread that stays": _thread_that_stays,
    "unreadable": _unreadable,
}
