"""Demangles names of C++ (Itanium) and of Numba to the names that people wrote.

Only the parts that occur in names of kernels are spelled out. If a part is unknown the name is
given as far as it is certain, and not at all otherwise: see :class:`WrittenName`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ptxwcet.support.mangled_names import read_mangled

_LONGEST = 16_384
_SHORT = 60
"""The longest name with template arguments that is shown with them."""
_NUMBA_TYPES = {
    "unsigned char": "uint8", "signed char": "int8", "unsigned short": "uint16",
    "unsigned int": "uint32", "unsigned long long": "uint64", "long long": "int64",
    "short": "int16", "int": "int32", "half": "float16", "float": "float32", "double": "float64",
}  # fmt: skip
_NUMBA_WORDS = re.compile("|".join(rf"\b{one}\b" for one in _NUMBA_TYPES))
_NUMBA_ARRAY = re.compile(r"Array<([\w ]+), (\d), ([ACF]), \w+, \w+>")


class WrittenName(NamedTuple):
    """A name in parts: ``a::k``, ``<float, 4>`` (empty without), ``(float*)``.

    The last two are None where they are unknown, or where the mangled name does not have them.
    """

    name: str
    arguments: str | None
    parameters: str | None

    @property
    def identifier(self) -> str:
        """The last part of the name, without scopes."""
        return re.split(r"::|\.", self.name)[-1]

    @property
    def spellings(self) -> tuple[str, ...]:
        """The spellings with its scopes, from the shortest to the whole."""
        return self._from(self.name)

    @property
    def unscoped_spellings(self) -> tuple[str, ...]:
        """The spellings without its scopes, from the shortest to the whole."""
        return self._from(self.identifier)

    def _from(self, name: str) -> tuple[str, ...]:
        if self.arguments is None:
            return (name,)
        spellings = [name, name + self.arguments]
        if self.parameters is not None:
            spellings.append(spellings[1] + self.parameters)
        return tuple(dict.fromkeys(spellings))


@lru_cache(maxsize=4096)
def demangle(mangled: str) -> WrittenName | None:
    """Returns the name of a mangled one; None if it is not mangled, or not for certain.

    Never raises. Cost: linear, within fixed limits beyond which the answer is None.
    """
    if not mangled.startswith("_Z") or not mangled.isascii() or len(mangled) > _LONGEST:
        return None
    parts = read_mangled(mangled)
    if parts is None:
        return None
    scopes, tags, arguments, parameters = parts
    is_numba = scopes[0] == "cudapy" or (
        len(tags) > 1 and re.fullmatch(r"v[0-9]+", tags[0]) is not None
    )
    if not is_numba:
        return WrittenName("::".join(scopes), arguments, parameters)
    shown = None if parameters is None else _numba_types(parameters)
    return WrittenName(_numba_name(scopes), arguments, shown)


def source_name(mangled: str) -> str:
    """Returns the identifier that the source declares; the name itself if that is unknown."""
    written = demangle(mangled)
    return mangled if written is None else written.identifier


def readable_names(mangled: Iterable[str]) -> dict[str, str]:
    """Returns a readable name for each name of a file: the shortest that is unambiguous.

    Cost: linear.
    """
    names = dict.fromkeys(mangled)
    written = {name: demangle(name) for name in names}
    taken = Counter(
        spelling
        for name, form in written.items()
        for spelling in dict.fromkeys((name, *(() if form is None else form.spellings)))
    )
    return {
        name: next((spelling for spelling in _choices(form) if taken[spelling] == 1), name)
        for name, form in written.items()
    }


def _choices(form: WrittenName | None) -> tuple[str, ...]:
    """Returns the spellings of a name to choose from, the shortest first."""
    spellings = () if form is None else form.spellings
    is_short = form is not None and form.arguments and len(spellings[1]) <= _SHORT
    return spellings[1:] if is_short else spellings


def names_meant(text: str, mangled: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of a file that a text denotes: an equal name, else all spelled so.

    A name may be written without template arguments, without parameters, with any blanks; and
    without its scopes, if there is no other match. Cost: linear.
    """
    names = tuple(dict.fromkeys(mangled))
    if text in names:
        return (text,)
    wanted = _without_blanks(text)
    written = [(name, form) for name in names if (form := demangle(name)) is not None]
    return tuple(
        name for name, form in written if wanted in map(_without_blanks, form.spellings)
    ) or tuple(
        name for name, form in written if wanted in map(_without_blanks, form.unscoped_spellings)
    )


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _numba_name(scopes: tuple[str, ...]) -> str:
    """Returns a name like ``__main__.add``: Numba puts module and function into C++ scopes."""
    words = scopes[1:] if scopes[0] == "cudapy" else scopes
    return ".".join(re.sub(r"_3c(locals|lambda)_3e", r"<\1>", word) for word in words)


def _numba_types(parameters: str) -> str:
    """Returns types as Numba spells them: ``float32[:, ::1]``."""
    named = _NUMBA_WORDS.sub(lambda match: _NUMBA_TYPES[match.group()], parameters)
    return _NUMBA_ARRAY.sub(lambda match: _numba_array(*match.groups()), named)


def _numba_array(element: str, dimensions: str, layout: str) -> str:
    axes = [":"] * int(dimensions)
    if layout != "A" and axes:
        axes[-1 if layout == "C" else 0] = "::1"
    return f"{element}[{', '.join(axes)}]"
