"""One table ``[[sweep]]`` as the source of its units: axes, conditions, and the values of its keys.

A combination of axes decides the text of every template. It has subjects (a file, a launch file, a
kernel), and for each subject the product of the values of all other keys.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Any

from ptxwcet.ir.kernel import UnreadKernel
from ptxwcet.opened.cuda_text import cuda_parameter_names
from ptxwcet.opened.launch_tables import LINK, MACHINE_CODE, MAKING, PATHS, SIZES, launch_request
from ptxwcet.opened.opening import loops_named, read_module
from ptxwcet.opened.plan_reading import is_made
from ptxwcet.opened.request import Request
from ptxwcet.support.demangling import names_meant
from ptxwcet.support.input_files import MOST_TOML_BYTES, read_text
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import NotToml, parse_toml
from ptxwcet.sweeps.expressions import Condition, NoValueError, Template, Value, Values

_LONGEST_SHOWN = 300
Code = tuple[str, str | None, str, bool]
"""The path of a file, the target and options of its compilation to PTX, and whether to machine
code; the defaults for PTX.
"""
_Subject = tuple[Code, str | None, str | None]
"""The code, the launch file as the plan names it, the kernel."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The values of one key; templates among them depend on the axes."""

    elements: Sequence[Value | Template]
    has_templates: bool

    @property
    def names(self) -> frozenset[str]:
        """The axes that it names. Cost: linear in its values."""
        if not self.has_templates:
            return frozenset()
        templates = (element for element in self.elements if isinstance(element, Template))
        return frozenset(name for template in templates for name in template.names)

    def values(self, axes: Values) -> Sequence[Value]:
        """Returns its values for a combination of axes. Raises NoValueError."""
        if not self.has_templates:
            return self.elements  # type: ignore[return-value]  # none of them is a template
        return [one.render(axes) if isinstance(one, Template) else one for one in self.elements]

    def texts(self, axes: Values) -> list[str]:
        """Returns its values as texts. Raises NoValueError."""
        return [str(value) for value in self.values(axes)]


NOTHING = Choice((), False)
"""A key that is left out."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The inputs of a plan: files by the text that names them, kernels by file, machines by name.

    ``kernels`` of a file are None if it is unreadable. Stored of a file are only these, the
    ``names`` of its parameters, the places of stated bounds that have ``loops``, and the request
    with the text that was ``made`` of it.
    """

    folder: str
    files: dict[str, list[str]] = field(default_factory=dict)
    made: dict[Code, Request] = field(default_factory=dict)
    kernels: dict[Code, tuple[str, ...] | None] = field(default_factory=dict)
    names: dict[tuple[Code, str], frozenset[str]] = field(default_factory=dict)
    loops: dict[tuple[Code, str], set[str]] = field(default_factory=dict)
    looked_up: set[tuple[Code, str]] = field(default_factory=set)
    launches: dict[str, str | None] = field(default_factory=dict)
    machines: dict[str, str] = field(default_factory=dict)
    are_made: dict[tuple[str, bool], bool] = field(default_factory=dict)

    def kernels_of(self, code: Code) -> tuple[str, ...] | None:
        """Returns the names of a file's kernels, None if it cannot be read. It is parsed once."""
        if code not in self.kernels:
            try:
                request = self.made[code]
                kernels = [kernel for kernel in read_module(request).kernels if kernel.has_body]
                self.kernels[code] = tuple(kernel.name for kernel in kernels)
                for one in (kernel for kernel in kernels if not isinstance(kernel, UnreadKernel)):
                    known = [(str(each.index), each.name) for each in one.parameters]
                    called = cuda_parameter_names(one, request) or ()
                    self.names[code, one.name] = frozenset(chain(called, *known))
            except Exception:  # the analysis reports the reason
                self.kernels[code] = None
        return self.kernels[code]

    def look_up_loops(self, code: Code, places: Iterable[str]) -> None:
        """Finds out which kernels of a file have loops at some places, of each place once."""
        new = [place for place in places if (code, place) not in self.looked_up]
        self.looked_up.update((code, place) for place in new)
        if new and self.kernels_of(code) is not None:
            module = read_module(self.made[code])
            bodies = [kernel for kernel in module.kernels if kernel.has_body]
            for kernel, found in loops_named(module, bodies, new).items():
                self.loops.setdefault((code, kernel), set()).update(found)

    @staticmethod
    def foreign(
        held: Mapping[tuple[Code, str], Collection[str]],
        subject: _Subject,
        others: Iterable[str | None],
        names: Iterable[str],
    ) -> frozenset[str]:
        """Returns the parameters, or places of loops, that other kernels have, but not this one."""
        code, _, kernel = subject
        own = held.get((code, kernel or ""), frozenset(names))
        known = [held.get((code, other or ""), ()) for other in others]
        return frozenset(names).intersection(frozenset().union(*known)).difference(own)

    def has_kernel(self, code: Code, name: str) -> bool:
        """Returns whether a file has a kernel that is meant by a name, or cannot be read."""
        known = self.kernels_of(code)
        return known is None or bool(_meant(name, known))

    def is_made(self, path: str, *, is_code: bool) -> bool:
        """Returns whether something is made of a file, before it is read. It is opened once."""
        if (path, is_code) not in self.are_made:
            self.are_made[path, is_code] = is_made(path, is_code=is_code)
        return self.are_made[path, is_code]

    def launched(self, name_of_file: str) -> str | None:
        """Returns the kernel that a launch file names; None if it names none, or cannot be read."""
        path = os.path.join(self.folder, name_of_file)
        if path not in self.launches:
            try:
                data = parse_toml(SourceFile(path, read_text(path, MOST_TOML_BYTES)))
                name = data.get("kernel")
            except (OSError, ValueError, NotToml):
                name = None
            self.launches[path] = name if isinstance(name, str) else None
        return self.launches[path]


@dataclass(frozen=True, slots=True)
class SweepTable:
    """A table without mistakes; ``number`` is from 1.

    ``making`` are the keys MAKING and MACHINE_CODE, ``choices`` the scalar keys of a launch, and
    ``sms``. ``schedules`` are the pairs of a method and its policy. Each unit is linked with all of
    ``link``.
    """

    number: int
    axes: Mapping[str, Sequence[int | str]]
    where: tuple[Condition, ...]
    files: Choice
    making: Mapping[str, Choice]
    launches: Choice
    kernels: Choice
    choices: Mapping[str, Choice]
    parameters: Mapping[str, Choice]
    loop_bounds: Mapping[str, Choice]
    latencies: Choice
    machines: Choice
    schedules: tuple[tuple[str, str | None], ...]
    link: tuple[str, ...] = ()

    @property
    def is_code(self) -> bool:
        """True if the machine code of its files is bounded, possibly in addition to their PTX."""
        return True in self.making[MACHINE_CODE].elements

    @property
    def condition_names(self) -> frozenset[str]:
        """The axes that ``where`` names."""
        return frozenset(name for condition in self.where for name in condition.names)

    def all_choices(self) -> Iterator[tuple[str, Choice]]:
        """Yields the values of its keys, with their names."""
        yield "files", self.files
        yield "kernels", self.kernels
        yield from self.making.items()
        yield from self.choices.items()
        yield "launch", self.launches
        yield "memory_latency", self.latencies
        yield "machines", self.machines
        for key, choices in (("params", self.parameters), ("loop_bounds", self.loop_bounds)):
            yield from ((f"{key}.{name}", choice) for name, choice in choices.items())

    def combinations(self) -> Iterator[dict[str, int | str]]:
        """Yields the combinations of axes that ``where`` leaves in.

        One for which a condition is false is out, whatever the others are; raises NoValueError if
        none is false and one has no value. Cost: linear in the product; a condition is decided as
        soon as its axes have values.
        """
        axes = list(self.axes)
        decided: list[list[Condition]] = [[] for _ in range(len(axes) + 1)]
        for condition in self.where:
            depth = max((axes.index(name) + 1 for name in condition.names), default=0)
            decided[depth].append(condition)
        return self._walk(decided, {}, None)

    def _walk(
        self,
        decided: list[list[Condition]],
        values: dict[str, int | str],
        failure: NoValueError | None,
    ) -> Iterator[dict[str, int | str]]:
        """Yields the combinations that begin with these values, of the first axes."""
        for condition in decided[len(values)]:
            try:
                if not condition.holds(values):
                    return
            except NoValueError as error:
                failure = error
        if len(values) < len(self.axes):
            name = list(self.axes)[len(values)]
            for value in self.axes[name]:
                yield from self._walk(decided, {**values, name: value}, failure)
        elif failure is not None:
            raise NoValueError(f"where: {failure}{for_values(values, self.condition_names)}")
        else:
            yield values

    def fixed_factor(self) -> int:
        """Returns how many units each subject has for one combination of axes."""
        choices = (*self.choices.values(), *self.parameters.values(), *self.loop_bounds.values())
        sizes = prod(len(choice.elements) for choice in (*choices, self.machines))
        return sizes * max(len(self.latencies.elements), 1) * len(self.schedules)

    def subjects(self, values: Values, sources: Sources) -> Iterator[_Subject]:
        """Yields the files, launch files and kernels of a checked combination of axes."""
        launches: list[str | None] = [*self.launches.texts(values)] or [None]
        names = self.kernels.texts(values)
        for code in self.codes(values, sources):
            for launch in launches:
                for kernel in _kernels(code, launch, names, sources):
                    yield code, launch, kernel

    def codes(self, values: Values, sources: Sources) -> list[Code]:
        """Returns the files of a checked combination of axes, each with its compilation."""
        making: list[Sequence[Any]] = [self.making[key].texts(values) or [None] for key in MAKING]
        making.append(self.making[MACHINE_CODE].elements or [False])
        return list(
            dict.fromkeys(
                (path, arch, options or "", is_code)
                if sources.is_made(path, is_code=is_code)
                else (path, None, "", False)
                for text in self.files.texts(values)
                for path in sources.files[text]
                for arch, options, is_code in _products(making)
            )
        )

    def named_choices(self) -> Iterator[tuple[str, Choice]]:
        """Yields the values that may distinguish units besides the axes, by column name.

        Names are ``param.NAME``, ``set.KEY`` and ``loop.NAME``, without columns of all results.
        """
        for name, choice in self.parameters.items():
            yield f"param.{name}", choice
        for key, choice in {**self.making, **self.choices, "launch": self.launches}.items():
            if choice.elements and key not in SIZES:
                yield f"set.{key}", choice
        for name, choice in self.loop_bounds.items():
            yield f"loop.{name}", choice
        if self.link:
            yield f"set.{LINK}", Choice((", ".join(self.link),), False)

    def _named(
        self, code: Code, launch: str | None, keys: Mapping[str, Any]
    ) -> dict[str, int | str | None]:
        """Returns the values of a unit under these names: integers, and others as text."""
        held = {
            **{f"set.{key}": value or "" for key, value in zip(MAKING, code[1:3], strict=True)},
            f"set.{MACHINE_CODE}": str(code[3]).lower(),
            **{f"param.{name}": value for name, value in keys["params"].items()},
            **{f"set.{key}": value for key, value in keys.items()},
            **{f"loop.{name}": value for name, value in keys["loop_bounds"].items()},
            "set.launch": launch,
            f"set.{LINK}": ", ".join(self.link),
        }
        values = {name: held.get(name) for name, _ in self.named_choices()}
        return {
            name: value if value is None or isinstance(value, int) else str(value)
            for name, value in values.items()
        }

    def requests(self, sources: Sources) -> Iterator[tuple[Request, dict[str, int | str | None]]]:
        """Yields the units in order: each request, with the values of axes and of named_choices.

        Nothing is held but one combination of axes. Cost of a unit: linear in the keys.
        """
        for values in self.combinations():
            alone: dict[str, Sequence[Value]] = {
                key: choice.texts(values) if key in PATHS else choice.values(values)
                for key, choice in self.choices.items()
            }
            parameters = {key: choice.values(values) for key, choice in self.parameters.items()}
            loops = {key: choice.values(values) for key, choice in self.loop_bounds.items()}
            latencies: Sequence[Value | None] = self.latencies.values(values) or (None,)
            machines = [sources.machines[name] for name in self.machines.texts(values)]
            others = (
                *(*alone.values(), *parameters.values(), *loops.values()),
                *(latencies, machines, self.schedules),
            )
            subjects = list(self.subjects(values, sources))
            for subject in subjects:
                kernels = [one[2] for one in subjects if one[0] == subject[0]]
                foreign = sources.foreign(sources.names, subject, kernels, parameters)
                elsewhere = sources.foreign(sources.loops, subject, kernels, loops)
                for picked in _products(others):
                    taken = iter(picked)
                    keys = {key: next(taken) for key in alone}
                    given = {name: next(taken) for name in parameters}
                    keys["params"] = {name: given[name] for name in given if name not in foreign}
                    keys[LINK] = self.link
                    bounds = {place: next(taken) for place in loops}
                    keys["loop_bounds"] = {
                        loop: bounds[loop] for loop in loops if loop not in elsewhere
                    }
                    latency, machine, (method, policy) = taken
                    code, launch, kernel = subject
                    asked = {"launch": launch, "kernel": kernel, "machine": machine}
                    asked |= {"memory_latency": latency, "method": method, "policy": policy}
                    request = launch_request(sources.made[code], keys, sources.folder, **asked)
                    yield request, {**values, **self._named(code, launch, keys)}


def _products(factors: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yields all combinations, the last factor varies fastest; unlike itertools it copies none."""
    if not factors:
        yield ()
        return
    for picked in _products(factors[:-1]):
        for value in factors[-1]:
            yield (*picked, value)


def _kernels(
    code: Code, launch: str | None, names: list[str], sources: Sources
) -> Sequence[str | None]:
    """Returns the selected kernels of a file; None if only the analysis can select them."""
    kernels = sources.kernels_of(code)
    if names:
        wanted: list[str] = names
    elif launch is None:
        return kernels or (None,)
    else:
        named = sources.launched(launch)
        if named is None:
            return kernels if kernels is not None and len(kernels) == 1 else (None,)
        wanted = [named]
    if kernels is None:
        return wanted
    meant = [kernel for name in wanted for kernel in _meant(name, kernels)]
    return list(dict.fromkeys(meant)) if names else meant or (None,)


@lru_cache(maxsize=4096)  # called again for every combination of axes
def _meant(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return names_meant(name, known)


def for_values(values: Values, names: Collection[str]) -> str:
    """Returns ``, for tm = 16, tn = 32``: the end of a message about these axes."""
    listed = ", ".join(f"{name} = {value}" for name, value in values.items() if name in names)
    return f", for {listed[:_LONGEST_SHOWN]}" if listed else ""
