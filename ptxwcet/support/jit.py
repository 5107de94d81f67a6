"""The door of numba: functions compiled when Python first calls them, and kept on disk.

A compiled function may call only compiled functions of its own module: what is kept is renewed when
that module changes, not when another does. Numba itself is imported with the first call.

Reading what is kept runs it, so it is kept in a folder that nobody else may write, and nothing is
taken from one that is another's. What cannot be read is made again.

A function that Python calls is compiled with all that it calls as one program. Two things make that
quick, and neither costs speed afterwards: what is only called by compiled code gets no entry from
Python, and no copy is made for arguments that happen to be constants (numba would compile
``step(cycle)`` once for the 0 in which ``cycle`` begins, and once for all other numbers).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from ptxwcet.support.extras import require_extra
from ptxwcet.support.first_use import CACHE_VARIABLE, about_to_compile, cache_folder, is_private

_P = ParamSpec("_P")
_R = TypeVar("_R")

_FUNCTIONS: dict[str, dict[str, FunctionType]] = {}
"""By module and name, what is to be compiled."""


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, compiled to machine code by its first call.

    A call raises PtxwcetError (PW235) if numba is not installed. Cost: of the first call some
    seconds, or a tenth of a second where the machine code is kept.
    """
    assert isinstance(function, FunctionType)
    _FUNCTIONS.setdefault(function.__module__, {})[function.__name__] = function
    entry: Callable[_P, _R] | None = None

    @wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        nonlocal entry
        if entry is None:
            entry = cast(Callable[_P, _R], _entry(function))
        return entry(*arguments, **named)

    return call


def _entry(function: FunctionType) -> Any:
    """What Python calls; without a cache where no place can be written."""
    module = function.__module__
    numba = _numba()
    own = _in_place_of(function, _globals_of(module))
    folder = _folder()
    try:
        with _kept_in(folder):
            made = numba.njit(cache=folder is not None, nogil=True)(own)
    except RuntimeError:  # no writable cache location
        made = numba.njit(nogil=True)(own)
    _renew_what_is_damaged(made._cache)
    _entries().add(made)
    return made


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


@cache
def _globals_of(module: str) -> Mapping[str, Any]:
    """The names of a module, those of its compiled functions for what compiled code calls."""
    numba = _numba()
    functions = _FUNCTIONS[module]
    names = dict(next(iter(functions.values())).__globals__)
    for name, function in functions.items():
        part = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
        names[name] = _without_constants(part(_in_place_of(function, names)))
    return names


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
