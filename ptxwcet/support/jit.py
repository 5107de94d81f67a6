"""Provides numba: functions compiled when Python first calls them, and cached on disk.

A compiled function may call compiled functions of any module. A cached function is renewed when a
file of its *group* changes: its module, the modules whose compiled functions and classes this
module names, and so on; or a number or text that one of them names, wherever it is defined. Numba
itself is imported with the first call.

Reading the cache runs its code, so it is in a folder that only the user may write, and nothing is
read from a folder of another user. Unreadable entries are compiled again.

A function that Python calls is compiled with all of its callees as one program. Four measures make
the compilation or the code fast: functions that only compiled code calls get no entry from Python;
no copy is made for arguments that happen to be constants (numba would compile ``step(cycle)`` once
for the 0 in which ``cycle`` begins, and once for all other numbers); no division tests for zero
(its result there is 0: divide by numbers that cannot be 0); and a function that returns only
numbers to compiled code does not count references to its array arguments: it cannot make an array,
which numba reports. A slice as the target of an assignment takes a second to compile, for a message
that is never shown: copy its elements.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, wraps
from hashlib import sha256
from inspect import signature
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from ptxwcet.support.extras import require_extra
from ptxwcet.support.first_use import CACHE_VARIABLE, about_to_compile, cache_folder, is_private

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SOURCES: dict[object, FunctionType] = {}
"""The functions to compile, by the functions that Python calls."""

_INLINED: set[FunctionType] = set()

_NAMES: dict[int, dict[str, Any]] = {}
"""The names that a module's compiled functions see, by the identity of the module's names."""

_PARTS: dict[FunctionType, Any] = {}
"""The functions that compiled code calls, by the functions to compile."""


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Returns the function, compiled to machine code by its first call.

    A call raises PtxwcetError (PW235) if numba is not installed. Cost of the first call: some
    seconds, or a tenth of a second with cached machine code.
    """
    assert isinstance(function, FunctionType)
    entry: Callable[_P, _R] | None = None

    @wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        nonlocal entry
        if entry is None:
            entry = cast(Callable[_P, _R], _entry(function))
        return entry(*arguments, **named)

    _SOURCES[call] = function
    return call


def inlined(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Returns :func:`compiled`, inlined into each caller: for small steps of inner loops."""
    call = compiled(function)
    _INLINED.add(_SOURCES[call])
    return call


def one_of(functions: Sequence[Callable[..., _R]]) -> Callable[..., _R]:
    """Returns a compiled function that passes its further arguments to function ``number``, from 0.

    All are compiled, and take the same arguments. A number out of range raises ValueError.
    """
    first = _SOURCES[functions[0]]
    arguments = ", ".join(signature(first).parameters)
    branches = (
        f"    if number == {number}:\n        return _{number}({arguments})\n"
        for number in range(len(functions))
    )
    text = f"def one_of(number, {arguments}):\n{''.join(branches)}    raise ValueError('no such')\n"
    names: dict[str, Any] = {f"_{number}": each for number, each in enumerate(functions)}
    names["__name__"] = first.__module__
    exec(compile(text, first.__code__.co_filename, "exec"), names)
    made: Callable[..., _R] = names["one_of"]
    made.__annotations__["return"] = first.__annotations__.get("return", Any)
    return inlined(made)


def unsigned(number: int) -> int:
    """Returns the number modulo 2^64; in compiled code an unsigned one of 64 bits."""
    return number & (1 << 64) - 1


def _entry(function: FunctionType) -> Any:
    """Returns the function that Python calls; without a cache if no folder can be written."""
    numba = _numba()
    own = _in_place_of(function, _names_of(function))
    folder = _folder()
    options = {"nogil": True, "error_model": "numpy"}
    try:
        digest = _group_digest(function)
        with _kept_in(folder):
            made = numba.njit(cache=folder is not None, **options)(own)
        if folder is not None:
            index = made._cache._cache_file
            index._source_stamp = (index._source_stamp, digest)  # numba's own: of one file
    except (OSError, RuntimeError):  # no source, or no writable cache location
        made = numba.njit(**options)(own)
    _renew_what_is_damaged(made._cache)
    _entries().add(made)
    return made


def _group_digest(function: FunctionType) -> str:
    """Returns a digest of the files of a function's group, and of the constants that they name."""
    package = function.__module__.partition(".")[0]
    files, constants, left, met = set(), [], [function], set[int]()
    while left:
        member = left.pop()
        files.add(member.__code__.co_filename)
        if id(member.__globals__) in met:
            continue
        met.add(id(member.__globals__))
        for name, value in member.__globals__.items():
            if isinstance(value, FunctionType) and value in _SOURCES:
                left.append(_SOURCES[value])
            elif isinstance(value, type) and value.__module__.partition(".")[0] == package:
                files.add(str(sys.modules[value.__module__].__file__))
            elif isinstance(value, int | float | str | tuple) and not name.startswith("__"):
                constants.append((name, repr(value)))
    digest = sha256(repr(sorted(constants)).encode())
    for file in sorted(files):
        digest.update(sha256(Path(file).read_bytes()).digest())
    return digest.hexdigest()


def _renew_what_is_damaged(kept: Any) -> None:
    """Makes numba compile again if a cache entry is unreadable, and go without a full cache."""
    load, save = kept.load_overload, kept.save_overload

    def load_if_whole(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # unpickling may raise anything
            with suppress(OSError):
                kept.flush()
            return None

    def save_if_there_is_room(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    kept.load_overload, kept.save_overload = load_if_whole, save_if_there_is_room


def _names_of(function: FunctionType) -> Mapping[str, Any]:
    """Returns the names of a function's module, with compiled ones as compiled code calls them."""
    own = function.__globals__
    if id(own) not in _NAMES:
        names = _NAMES[id(own)] = dict(own)
        for name, value in own.items():
            if value is unsigned:
                names[name] = _numba().uint64
            elif isinstance(value, FunctionType) and value in _SOURCES:
                names[name] = _part(_SOURCES[value])
    return _NAMES[id(own)]


def _part(function: FunctionType) -> Any:
    """Returns the function that compiled code calls. Its module's names may already create it."""
    names = _names_of(function)
    if function not in _PARTS:
        part = _numba().njit(
            nogil=True,
            error_model="numpy",
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
            forceinline=function in _INLINED,
            _nrt=not _gives_numbers(function),
        )
        _PARTS[function] = _without_constants(part(_in_place_of(function, names)))
    return _PARTS[function]


def _gives_numbers(function: FunctionType) -> bool:
    """Returns whether all declared results are numbers: then the function owns no array."""
    words = set(re.findall(r"\w+", str(function.__annotations__.get("return", "anything"))))
    return words <= {"None", "bool", "float", "int", "tuple"}


def _in_place_of(function: FunctionType, names: Mapping[str, Any]) -> FunctionType:
    """Returns a copy of a function with ``names`` in place of its module's global names."""
    made = FunctionType(function.__code__, cast(dict[str, Any], names), function.__name__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _without_constants(dispatcher: Any) -> Any:
    """Returns the dispatcher, for which a constant argument is any number of its type."""
    unliteral, template = _numba().core.types.unliteral, dispatcher.get_call_template

    def widened(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        kinds = {name: unliteral(kind) for name, kind in named.items()}
        return template(tuple(map(unliteral, arguments)), kinds)

    dispatcher.get_call_template = widened
    return dispatcher


@cache
def _entries() -> set[Any]:
    """Returns the functions that Python calls; reports the first compilation of a module."""
    numba, made, told = _numba(), set[Any](), set[str]()

    class Telling(numba.core.event.Listener):  # type: ignore[misc, name-defined]
        def on_start(self, event: Any) -> None:
            dispatcher = event.data["dispatcher"]
            module = dispatcher.py_func.__module__
            if dispatcher in made and module not in told:
                told.add(module)
                about_to_compile(module.partition(".")[2], _folder())

        def on_end(self, event: Any) -> None:
            pass

    numba.core.event.register("numba:compile", Telling())
    return made


def _folder() -> Path | None:
    """Returns the folder of compiled code; None if no such folder is the user's own.

    Numba's own variable, where it is set, takes precedence over the platform's folder.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given and not os.environ.get(CACHE_VARIABLE):
        folder = Path(given)
    elif (kept := cache_folder()) is not None:
        folder = kept / "compiled"
        with suppress(OSError):  # made by an older version, with the usual mode
            folder.chmod(0o700)
    else:
        return None
    return folder if is_private(folder) else None


@contextmanager
def _kept_in(folder: Path | None) -> Iterator[None]:
    """Makes numba keep functions decorated in its context in a folder, if there is one."""
    config = _numba().config
    before = config.CACHE_DIR
    if folder is not None:
        config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _numba() -> Any:
    require_extra("sim", "this simulation")
    import numba
    import numba.core.event

    return numba
