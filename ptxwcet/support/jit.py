"""The door of numba: functions compiled when Python first calls them, and kept on disk.

A compiled function may call compiled functions of any module. What is kept is renewed when a file
of its *group* changes: its module, those whose compiled functions and classes this module names,
and so on; or a number or text that one of them names, wherever it comes from. Numba itself is
imported with the first call.

Reading what is kept runs it, so it is kept in a folder that nobody else may write, and nothing is
taken from one that is another's. What cannot be read is made again.

A function that Python calls is compiled with all that it calls as one program. Four things make
that or what is made quick: what is only called by compiled code gets no entry from
Python, no copy is made for arguments that happen to be constants (numba would compile
``step(cycle)`` once for the 0 in which ``cycle`` begins, and once for all other numbers), no
division looks for a zero (its result there is 0: divide by what cannot be one), and what returns
nothing but numbers to compiled code does not count who refers to the arrays that it is given: it
cannot make an array, which numba says. A slice that is assigned to takes a second to compile, for a
message that nobody sees: copy its elements.
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
"""By what Python calls, what is to be compiled."""

_INLINED: set[FunctionType] = set()

_NAMES: dict[int, dict[str, Any]] = {}
"""By the identity of a module's names, the names that its compiled functions see."""

_PARTS: dict[FunctionType, Any] = {}
"""By what is to be compiled, what compiled code calls."""


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, compiled to machine code by its first call.

    A call raises PtxwcetError (PW235) if numba is not installed. Cost: of the first call some
    seconds, or a tenth of a second where the machine code is kept.
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
    """As :func:`compiled`, and inlined into each caller: for small steps of inner loops."""
    call = compiled(function)
    _INLINED.add(_SOURCES[call])
    return call


def one_of(functions: Sequence[Callable[..., _R]]) -> Callable[..., _R]:
    """A compiled function that hands its further arguments to the function of a number, from 0.

    All are compiled, and take the same arguments. A number that none has raises ValueError.
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
    """The number modulo 2^64; in compiled code one of 64 bits without a sign."""
    return number & (1 << 64) - 1


def _entry(function: FunctionType) -> Any:
    """What Python calls; without a cache where no place can be written."""
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
    """Of the files of a function's group, and of the numbers and texts that they name."""
    package = function.__module__.partition(".")[0]
    files, constants, left, met = set(), [], [function], set[int]()
    while left:
        one = left.pop()
        files.add(one.__code__.co_filename)
        if id(one.__globals__) in met:
            continue
        met.add(id(one.__globals__))
        for name, value in one.__globals__.items():
            if isinstance(value, FunctionType) and value in _SOURCES:
                left.append(_SOURCES[value])
            elif isinstance(value, type) and value.__module__.partition(".")[0] == package:
                files.add(str(sys.modules[value.__module__].__file__))
            elif isinstance(value, int | float | str | tuple) and not name.startswith("__"):
                constants.append((name, repr(value)))
    found = sha256(repr(sorted(constants)).encode())
    for file in sorted(files):
        found.update(sha256(Path(file).read_bytes()).digest())
    return found.hexdigest()


def _renew_what_is_damaged(kept: Any) -> None:
    """Makes numba compile again where what is kept cannot be read, and go on if nothing is kept."""
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
    """The names of a function's module, compiled ones among them as compiled code calls them."""
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
    """What compiled code calls. Its module's names may name it, and so make it, themselves."""
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
    """Whether all that it returns is said to be numbers: then it owns no array."""
    words = set(re.findall(r"\w+", str(function.__annotations__.get("return", "anything"))))
    return words <= {"None", "bool", "float", "int", "tuple"}


def _in_place_of(function: FunctionType, names: Mapping[str, Any]) -> FunctionType:
    """A copy of a function with ``names`` in the place of its module's global names."""
    made = FunctionType(function.__code__, cast(dict[str, Any], names), function.__name__)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made


def _without_constants(dispatcher: Any) -> Any:
    """The dispatcher, for which a constant argument is any number of its type."""
    unliteral, template = _numba().core.types.unliteral, dispatcher.get_call_template

    def widened(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        kinds = {name: unliteral(kind) for name, kind in named.items()}
        return template(tuple(map(unliteral, arguments)), kinds)

    dispatcher.get_call_template = widened
    return dispatcher


@cache
def _entries() -> set[Any]:
    """What Python calls, so far. Whoever listens is told when the first of a module is compiled."""
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
    """Where compiled code is kept; None if there is no such folder that is the user's own.

    Numba's own variable, where it is set, goes before the platform's folder.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given and not os.environ.get(CACHE_VARIABLE):
        folder = Path(given)
    elif (kept := cache_folder()) is not None:
        folder = kept / "compiled"
        with suppress(OSError):  # made by an older version, with whatever mode was usual
            folder.chmod(0o700)
    else:
        return None
    return folder if is_private(folder) else None


@contextmanager
def _kept_in(folder: Path | None) -> Iterator[None]:
    """Makes numba keep what is decorated meanwhile in a folder, if there is one."""
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
