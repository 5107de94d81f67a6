"""Translation of options in diagnostics into arguments of Python.

>>> in_python("give --grid SIZE and --param n=VALUE, or use --block 32x1")
'give grid=SIZE and params={"n": VALUE}, or use block=(32, 1)'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.options import OPTIONS, BoundArguments, OtherArguments

KEYWORDS: Mapping[str, str] = {
    OPTIONS[name].word: name
    for arguments in (BoundArguments, OtherArguments)
    for name in arguments.__annotations__
    if OPTIONS[name].words
}
"""The arguments of functions, by the options that they are on the command line."""

_SWITCHES = ("executed", "resume")
_TABLES = ("params", "loop_bounds")
_ENTRY = r"'[^'=]+=[^'=]+'|[^\s'=,;()]+=[^\s'=,;()]*[^\s'=,;():]"
_WORDS = "worst|refuse|ptxas|gto|lrr|scheduled|safe|none"
_OPTION = re.compile(
    rf"(?<![\w-])({'|'.join(KEYWORDS)})(?![\w-])"
    rf"(?:[ =]({_ENTRY}|'[^']*'|[A-Z][A-Z_]*\b|\d+(?:[x,]\d+)*\b|sm_\w+|(?:{_WORDS})\b))?"
)
_COMMANDS = (
    "annotate bound cfg check compare explain facts memory report run simulate sweep what-if"
)
_COMMAND = re.compile(rf"\bptxwcet ({_COMMANDS.replace(' ', '|')})\b")
_FIGURE = re.compile(r"\b(\w+\.(?:latency|initiation))=(\d+(?:\.\.\d+)?(?::\d+)?)")
_TWICE = re.compile(rf"({'|'.join(_TABLES)})={{([^{{}}]*)}}(?: and |, | )\1={{([^{{}}]*)}}")


def in_python(text: str) -> str:
    """Returns a text with arguments of functions in place of options, and calls of commands."""
    worded = _OPTION.sub(lambda found: _argument(KEYWORDS[found[1]], found[2]), text)
    worded = _FIGURE.sub(lambda found: f'{{"{found[1]}": {_value(found[2])}}}', worded)
    while (merged := _TWICE.sub(r"\1={\2, \3}", worded)) != worded:
        worded = merged
    return _COMMAND.sub(lambda found: f"ptxwcet.{found[1].replace('-', '_')}()", worded)


def said_in_python(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Diagnostics in the words of Python."""
    return tuple(
        replace(
            diagnostic,
            message=in_python(diagnostic.message),
            notes=tuple(map(in_python, diagnostic.notes)),
            help=None if diagnostic.help is None else in_python(diagnostic.help),
        )
        for diagnostic in diagnostics
    )


def _argument(keyword: str, value: str | None) -> str:
    if value is None:
        return f"{keyword}=True" if keyword in _SWITCHES else f"{keyword}="
    value = value.strip("'")
    if keyword == "registers" and value == "FILE":
        return "ptxas_info=FILE"
    if keyword not in _TABLES:
        return f"{keyword}={_value(value)}"
    key, equals, stated = value.partition("=")
    return f'{keyword}={{"{key}": {_value(stated)}}}' if equals else f"{keyword}= {value}"


def _value(text: str) -> str:
    """Returns a value as Python writes it; names of placeholders remain."""
    if re.fullmatch(r"-?\d+|[A-Z][A-Z_]*", text):
        return text
    if re.fullmatch(r"\d+(x\d+)+", text):
        return f"({text.replace('x', ', ')})"
    if ends := re.fullmatch(r"(\d+)\.\.(\d+)(?::(\d+))?", text):
        return f"range({ends[1]}, {int(ends[2]) + 1}{f', {ends[3]}' if ends[3] else ''})"
    return f'"{text}"'
