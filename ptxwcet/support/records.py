"""Provides ``dataclass`` like the standard library's, made in a third of the time.

The main job imports some 300 dataclasses of the package. The standard library compiles six
functions for each of them when it is imported, and that was a third of the job's processor time;
here only ``__init__`` is compiled then, ``__eq__`` and ``__hash__`` when they are first called. For
type checkers it is ``dataclasses.dataclass``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from reprlib import recursive_repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Returns the class that ``dataclasses.dataclass`` makes, for the options used here.

        Raises TypeError for options other than ``eq``, ``repr``, ``frozen``, ``slots``,
        ``weakref_slot``.
        """
        if cls is None:
            return lambda undecorated: _made(undecorated, **options)
        return _made(cls, **options)


def _made(
    cls: type,
    *,
    eq: bool = True,
    repr: bool = True,
    frozen: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
) -> type:
    stated = set(cls.__dict__)
    made: Any = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot
    )(cls)
    own: dict[str, object] = {"__init__": _init(made, frozen, slots)}
    if repr:
        own["__repr__"] = _repr
    if eq:
        own["__eq__"] = _later(made, "__eq__", _eq)
        own["__hash__"] = _later(made, "__hash__", _hash) if frozen else None
    if "__eq__" in stated and cls.__dict__["__hash__"] is None:
        stated.discard("__hash__")  # put there by Python, not by the author
    if frozen:
        own |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and slots:
        own |= {"__getstate__": _state, "__setstate__": _set_state}
    elif frozen:
        own |= {"__getstate__": _named_state, "__setstate__": _set_named_state}
    for name, value in own.items():
        if name not in stated:
            setattr(made, name, value)
    return made  # type: ignore[no-any-return]


def _init(made: type, frozen: bool, slots: bool) -> Callable[..., None]:
    """Returns a compiled ``__init__``: arguments by field order, then ``__post_init__``."""
    scope: dict[str, Any] = {"_put": object.__setattr__, "_absent": dataclasses.MISSING}
    arguments, body, annotations = ["self"], [], {}
    for field in dataclasses.fields(made):
        name, value = field.name, field.name
        has_default = field.default is not dataclasses.MISSING
        has_factory = field.default_factory is not dataclasses.MISSING
        if has_default:
            scope[f"_of_{name}"] = field.default
        elif has_factory:
            scope[f"_of_{name}"] = field.default_factory
        if field.init:
            default = f"=_of_{name}" if has_default else "=_absent" if has_factory else ""
            arguments.append(name + default)
            annotations[name] = field.type
            if has_factory:
                value = f"_of_{name}() if {name} is _absent else {name}"
        elif has_factory or (has_default and slots):  # otherwise it is the class's attribute
            value = f"_of_{name}()" if has_factory else f"_of_{name}"
        else:
            continue
        if not frozen:
            body.append(f"self.{name} = {value}")
        elif slots:
            scope[f"_put_{name}"] = getattr(made, name).__set__
            body.append(f"_put_{name}(self, {value})")
        else:
            body.append(f"_put(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    function = _compiled("__init__", arguments, body or ["pass"], scope, made)
    function.__annotations__ = annotations
    return function


def _eq(made: type) -> Callable[..., Any]:
    fields = [field.name for field in dataclasses.fields(made) if field.compare]
    mine, others = (_tuple(of, fields) for of in ("self", "other"))
    lines = [
        "if other.__class__ is self.__class__:",
        f" return {mine} == {others}",
        "return NotImplemented",
    ]
    return _compiled("__eq__", ["self", "other"], lines, {}, made)


def _hash(made: type) -> Callable[..., Any]:
    fields = dataclasses.fields(made)
    names = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
    return _compiled("__hash__", ["self"], [f"return hash({_tuple('self', names)})"], {}, made)


def _tuple(of: str, names: list[str]) -> str:
    return "(" + "".join(f"{of}.{name}," for name in names) + ")"


def _compiled(
    name: str, arguments: list[str], body: list[str], scope: dict[str, Any], made: type
) -> Callable[..., Any]:
    lines = "".join(f"\n {line}" for line in body)
    exec(f"def {name}({', '.join(arguments)}):{lines}", scope)
    function = scope[name]
    function.__qualname__ = f"{made.__qualname__}.{name}"
    function.__module__ = made.__module__
    return function  # type: ignore[no-any-return]


def _later(
    made: type, name: str, compiled: Callable[[type], Callable[..., Any]]
) -> Callable[..., Any]:
    """Returns a method that puts the compiled one in its own place when it is first called."""

    def first(*arguments: object) -> Any:
        function = compiled(made)
        setattr(made, name, function)
        return function(*arguments)

    return first


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({fields})"


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


class _ReadOnly(dict[Any, Any]):
    """A mapping that is read-only again when its owner has been unpickled or copied."""


def _state(self: Any) -> list[object]:
    return [_kept(getattr(self, field.name)) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, _restored(value))


def _named_state(self: Any) -> dict[str, object]:
    """Returns the fields that the object itself has, without values computed from them."""
    own = {field.name for field in dataclasses.fields(self)}
    own = {
        name
        for name in own
        if name in vars(self) or hasattr(getattr(type(self), name, None), "__set__")
    }
    return {name: _kept(getattr(self, name)) for name in sorted(own)}


def _set_named_state(self: Any, state: dict[str, object]) -> None:
    for name, value in state.items():
        object.__setattr__(self, name, _restored(value))


def _kept(value: object) -> object:
    return _ReadOnly(value) if isinstance(value, MappingProxyType) else value


def _restored(value: object) -> object:
    return MappingProxyType({**value}) if isinstance(value, _ReadOnly) else value
