"""Generates microbenchmarks in PTX, from which machine figures follow (docs/tutorials/machine.md).

Each is a kernel of one warp that reads ``%clock64`` around a short section of ``SHORT`` statements
and a long section of twice as many: both contain the cost of the reading, so it cancels in their
difference. The statements are in ``table.toml``, their surroundings in ``kernel.ptx``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from ptxwcet.ir.op_classes import OpClass
from ptxwcet.support.records import dataclass

SHORT = 24
"""The number of statements of the short section; the long section has twice as many."""

_LEAD_IN = 4
_FOLDER = Path(__file__).parent
_OFFSET_BYTES = 4224  # a page and a line, so that neither is touched twice
_ZERO = ("cvt.u32.u64 %z, %zz;", "and.b32 %z, %z, %lane;", "cvt.u64.u32 %zz, %z;")
_START = ("add.s32 {p}, %z, 0x3fc00001;", "add.s32 {s}, %z, 0x40200001;")
_WIDE_START = (
    "add.s64 {p}, %zz, 0x3ff8000000000001;",
    "add.s64 {s}, %zz, 0x4004000000000001;",
)


@dataclass(frozen=True, slots=True)
class Microbenchmark:
    """The measurement of op class ``op``, or of the figure ``figure`` of ``[memory]``, by a kernel.

    ``is_chain``: each statement waits for the one before, so that it takes initiation and latency;
    otherwise none waits, and it takes the initiation. ``extra`` is the op class of a second
    operation of each statement of a chain. An access of a figure takes ``per`` transactions, and
    ``beside`` has the counts of other figures.
    """

    name: str
    idea: str
    statements: tuple[str, ...]
    op: OpClass | None = None
    is_chain: bool = False
    extra: OpClass | None = None
    figure: str = ""
    per: int = 1
    beside: Mapping[str, int] = field(default_factory=dict)
    setup: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    wide: bool = False
    offset_bytes: int = _OFFSET_BYTES

    @property
    def formula(self) -> str:
        """The formula for its two numbers, in a line."""
        cycles = f"(long - short) / {SHORT}"
        if self.op is None:
            less = "".join(f" - {count} {figure}" for figure, count in self.beside.items())
            return f"{self.figure} = ({cycles}{less}) / {self.per}, rounded up"
        if not self.is_chain:
            return f"initiation_cycles of {self.op.value} = {cycles}, rounded up"
        less = "" if self.extra is None else f" - both of {self.extra.value}"
        return f"initiation_cycles + latency_cycles of {self.op.value} = {cycles}{less}, rounded up"

    def text(self) -> str:
        """Returns the kernel in PTX."""
        count = 3 if self.is_chain else _LEAD_IN + 3 * SHORT
        sections: list[str] = []
        done = 0
        for number, length in enumerate((_LEAD_IN, SHORT, 2 * SHORT)):
            sections += self._section(number, done, length)
            done += length
        return Template((_FOLDER / "kernel.ptx").read_text(encoding="utf-8")).substitute(
            name=self.name,
            idea=self.idea,
            formula=self.formula,
            count=_LEAD_IN + 3 * SHORT,
            setup=_lines([*self.setup, *self._values(count)]),
            sections=_lines(sections),
            keep=_lines([*self._keep(count)]),
        )

    def _register(self, number: int) -> str:
        return f"%{'wide_' if self.wide else ''}{'x' if self.is_chain else 'r'}{number}"

    def _values(self, count: int) -> Iterator[str]:
        """Yields statements that give registers different numbers, unknown to any compiler."""
        zero, kind, unit = ("%zz", "s64", 1 << 52) if self.wide else ("%z", "s32", 1 << 20)
        first = 0x3FF << 52 if self.wide else 0x3F8 << 20
        for number in range(count):
            value = first + number * (unit >> 6) + 1
            yield f"add.{kind} {self._register(number)}, {zero}, {value};"

    def _section(self, number: int, done: int, length: int) -> Iterator[str]:
        """Yields statements that start after a reading of the clock, and the next reading."""
        size, other = ("b64", "%wide_c") if self.wide else ("b32", "%c")
        yield f"shr.u64 %zz, %t{number}, 63;"
        yield from _ZERO
        first = {"s": self._register(1), "p": self._register(0)}
        if not self.is_chain:
            first = {"s": other, "p": other}
        start = self.start or (_WIDE_START if self.wide else _START)
        yield from (line.format(**first) for line in start)
        last = first["s"]
        for index in range(length):
            own = self._register(done + index)
            names = {"d": own, "s": own, "p": other}
            if self.is_chain:
                names = {key: self._register((index + k) % 3) for k, key in enumerate("psd")}
            statement = self.statements[index % len(self.statements)]
            yield statement.format(**names, offset=(done + index) * self.offset_bytes)
            last = names["d"]
        yield f"setp.eq.{size} %never, {last}, 0x123457;"
        yield "@%never bra $keep;"
        yield f"mov.u64 %t{number + 1}, %clock64;"

    def _keep(self, count: int) -> Iterator[str]:
        """Yields a use of all results, which keeps the compiler from removing them."""
        size = "b64" if self.wide else "b32"
        kept = "%wide_kept" if self.wide else "%kept"
        yield f"mov.{size} {kept}, 0;"
        for number in range(count):
            yield f"xor.{size} {kept}, {kept}, {self._register(number)};"
        yield f"setp.eq.{size} %never, {kept}, 0x765431;"


@cache
def microbenchmarks() -> Mapping[str, Microbenchmark]:
    """Returns all microbenchmarks by name, in the order of the table."""
    table = tomllib.loads((_FOLDER / "table.toml").read_text(encoding="utf-8"))
    both = [*_of_ops(table["ops"]), *_of_memory(table["memory"])]
    return {benchmark.name: benchmark for benchmark in both}


def microbenchmark_files() -> dict[str, str]:
    """Returns the files for users: file name -> text, the kernels and how to run them."""
    benchmarks = microbenchmarks().values()
    table = "\n".join(f"| `{benchmark.name}` | {benchmark.formula} |" for benchmark in benchmarks)
    readme = Template((_FOLDER / "README.md").read_text(encoding="utf-8"))
    return {
        "README.md": readme.substitute(short=SHORT, table=table),
        "launch.toml": (_FOLDER / "launch.toml").read_text(encoding="utf-8"),
        **{f"{benchmark.name}.ptx": benchmark.text() for benchmark in benchmarks},
    }


def _of_ops(table: dict[str, dict[str, Any]]) -> Iterator[Microbenchmark]:
    for name, given in table.items():
        fields = {**given}
        statements = _tuple(fields.pop("statement"))
        interval = _tuple(fields.pop("interval", statements))
        extra = OpClass(fields.pop("extra")) if "extra" in fields else None
        common = {**_common(fields), "op": OpClass(name)}
        idea = f"{name}, each one waiting for the result of the one before"
        yield Microbenchmark(
            f"{name}_latency", idea, statements, is_chain=True, extra=extra, **common
        )
        yield Microbenchmark(
            f"{name}_interval", f"{name}, none waiting for another", interval, **common
        )


def _of_memory(table: dict[str, dict[str, Any]]) -> Iterator[Microbenchmark]:
    for name, given in table.items():
        entry = {**given}
        statements = _tuple(entry.pop("statement"))
        idea = f"accesses of {entry['per']} times what {entry['figure']} is charged for"
        yield Microbenchmark(f"{name}_cycles", idea, statements, **_common(entry))


def _common(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def _tuple(value: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _lines(rows: list[str]) -> str:
    return "\n".join(f"    {line}" for line in rows)
