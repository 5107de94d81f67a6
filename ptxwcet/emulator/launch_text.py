"""The text of a launch file: reading it, and finding where a key is written."""

from __future__ import annotations

import re
from typing import Any

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.input_files import MOST_TOML_BYTES, read_text
from ptxwcet.support.source import SourceFile, Span
from ptxwcet.support.toml_places import NotToml, parse_toml


def read_toml(path: str) -> tuple[SourceFile, dict[str, Any]]:
    """Text and tables of the file at ``path``. Raises PtxwcetError (PW420, PW421)."""
    file = _read_text(path)
    try:
        return file, parse_toml(file)
    except NotToml as problem:
        message = f"not TOML: {problem.message}"
        raise PtxwcetError(Diagnostic("PW421", message, problem.span)) from None


def _read_text(path: str) -> SourceFile:
    try:
        return SourceFile(path, read_text(path, MOST_TOML_BYTES))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PtxwcetError(
            Diagnostic("PW420", f"cannot read launch file '{path}': {reason}")
        ) from None


def locate(file: SourceFile, table: str, key: str) -> Span | None:
    """Where ``key`` of ``table`` is written; None if it is not found (a dotted or inline form)."""
    text, name = file.text, rf"[\"']?{re.escape(key)}[\"']?"
    header = re.search(rf"^[ \t]*\[\s*{f'{table}.' if table else ''}{name}\s*\]", text, re.M)
    if header is not None:
        return Span(file, header.start(), header.end())
    begin, end = 0, len(text)
    if table:
        opening = re.search(rf"^[ \t]*\[\s*{table}\s*\]", text, re.M)
        if opening is None:
            return None
        begin = opening.end()
    following = re.compile(r"^[ \t]*\[", re.M).search(text, begin)
    if following is not None:
        end = following.start()
    entry = re.compile(rf"^[ \t]*({name}\s*=[^\n]*)", re.M).search(text, begin, end)
    return None if entry is None else Span(file, entry.start(1), entry.end(1))
