"""Reads reports from JSON into their data models; reports the place of data that do not fit.

The types of the models define the expected data, as for their schemas
(:mod:`ptxwcet.commands.explain.schema`). A key that is not in a model is ignored, and a key with a
default may be missing: a report of an older version can still be read. A digest in a report is
compared with its content.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum, EnumMeta
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ptxwcet.support.seals import require_seal

_Model = TypeVar("_Model")
_PLAIN = {str: "a text", int: "a whole number", float: "a number", bool: "a boolean"}
_LONGEST = 60
_MOST = 10**300  # larger than any bound, and still a floating-point number


class NotAReport(ValueError):
    """The data do not fit the model; the text has the place: ``kernels[0].warps: no list``."""


def read_as(model: type[_Model], data: object, place: str = "") -> _Model:
    """Returns the data as an instance of a dataclass. Raises NotAReport, Changed. Cost: linear."""
    if not isinstance(data, dict):
        raise NotAReport(f"{place or 'the top'}: no object")
    if not place:
        require_seal(data)
    kind: Any = model
    values, hints = {}, _hints(kind)
    for field in dataclasses.fields(kind):
        where = f"{place}.{field.name}" if place else field.name
        if field.name in data:
            values[field.name] = _value(hints[field.name], data[field.name], where)
        elif field.default is dataclasses.MISSING:
            raise NotAReport(f"{where} is missing")
    return model(**values)


@cache
def _hints(model: Any) -> Mapping[str, Any]:
    return get_type_hints(model, include_extras=True)


def _value(kind: Any, data: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, Union):
        return _value(_alternative(arguments, data), data, place)
    if origin in (Annotated, Literal):
        words = arguments if origin is Literal else _words(arguments[1])
        if any(data == word and type(data) is type(word) for word in words):
            return data
        raise NotAReport(f"{place} is not {' or '.join(map(repr, words))}")
    if origin is tuple:
        return _tuple(arguments, data, place)
    if dataclasses.is_dataclass(kind):
        return read_as(kind, data, place)  # type: ignore[arg-type]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise NotAReport(f"{place}: no object")
        return {key: _value(arguments[1], one, f"{place}.{key}") for key, one in data.items()}
    if kind is type(None) and data is None:
        return None
    is_meant = type(data) is kind or (kind is float and type(data) is int)
    if is_meant and (not isinstance(data, int) or abs(data) < _MOST):
        return data
    raise NotAReport(f"{place} is not {_PLAIN.get(kind, 'null')}: {str(data)[:_LONGEST]}")


def _words(names: Any) -> list[str]:
    """Returns the values of a text: a Literal's arguments, or an enumeration's members."""
    if not isinstance(names, EnumMeta):
        return list(names)
    members: Mapping[str, Enum] = names.__members__
    return [member.value for member in members.values()]


def _tuple(arguments: tuple[Any, ...], data: Any, place: str) -> tuple[Any, ...]:
    is_open = arguments[-1] is Ellipsis
    if not isinstance(data, list) or (not is_open and len(data) != len(arguments)):
        raise NotAReport(f"{place}: no list" + ("" if is_open else f" of {len(arguments)}"))
    kinds = [arguments[0]] * len(data) if is_open else arguments
    return tuple(
        _value(kind, one, f"{place}[{number}]")
        for number, (kind, one) in enumerate(zip(kinds, data, strict=True))
    )


def _alternative(kinds: tuple[Any, ...], data: Any) -> Any:
    """Returns the type that the data are meant to have: objects name theirs by their ``status``."""
    if isinstance(data, dict):
        models = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
        meant = (m for m in models if data.get("status") in get_args(_hints(m).get("status")))  # type: ignore[arg-type]
        return next(meant, models[0] if models else kinds[0])
    return next((kind for kind in kinds if type(data) is kind), kinds[0])
