"""What ptxas says of many single statements, a few thousand in one run.

All statements stand in one kernel first, one a line, with a wrong one last: ptxas then names each
line that it refuses and translates nothing. What is left is translated, each in a kernel of its
own, because some forms are refused only then. A syntax error ends a run of ptxas: that line is
taken out and the others are asked again.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

PTXAS = shutil.which("ptxas")

HEAD = """.version 9.0
.target sm_{target}
.address_size 64
.global .align 16 .b32 gl[64];
.const .align 16 .b32 cn[64];
.func (.reg .b32 rv) f (.reg .b32 a, .reg .b32 b) {{ add.s32 rv, a, b; ret; }}
"""
ENTRY = ".visible .entry k{number}(.param .align 16 .b8 pa[64])\n{{\n"
_KINDS = "pred b8 u8 s8 b16 u16 s16 f16 b32 u32 s32 f32 f16x2 b64 u64 s64 f64 b128"
REGISTERS = {kind: f"%{kind}_" for kind in _KINDS.split()}
"""The stem of the registers of each type: ``%u32_1`` is a .u32."""
DECLARATIONS = (
    " ".join(f".reg .{kind} {stem}<16>;" for kind, stem in REGISTERS.items())
    + " .reg .v4 .b32 vec; .shared .align 16 .b32 sh[64]; .local .align 16 .b32 lo[64];"
    + " .param .align 16 .b8 q[64]; T: .branchtargets L;\n"
)
"""One line, so that the statement after it has a known one."""
TAIL = "L:\nret;\n}\n"
_ERROR = re.compile(r", line (\d+); (?:error|fatal)\s*: (.*)")
_CHUNK = 150
_SECONDS = 6


def kernel_text(statements: Sequence[str], target: str = "100a") -> str:
    """A file with one kernel of these statements, one a line."""
    lines = "".join(f"{one}\n" for one in statements)
    return HEAD.format(target=target) + ENTRY.format(number=0) + DECLARATIONS + lines + TAIL


def verdicts(statements: Iterable[str], target: str = "100a") -> dict[str, str]:
    """ptxas's message for each statement, empty if it takes it. Cost: about 1 ms a statement."""
    asked = list(dict.fromkeys(statements))
    found: dict[str, str] = {}
    for start in range(0, len(asked), _CHUNK):
        chunk = asked[start : start + _CHUNK]
        found.update(_read(chunk, target))
        found.update(_translated([one for one in chunk if one not in found], target))
    return {one: found.get(one, "") for one in asked}


def _read(statements: list[str], target: str) -> dict[str, str]:
    """The messages for those refused when they are read."""
    first = kernel_text([], target)[: -len(TAIL)].count("\n") + 1
    refused: dict[str, str] = {}
    while True:
        rest = [one for one in statements if one not in refused]
        errors = _errors(kernel_text([*rest, "add.wrong %u32_1;"], target), target)
        places = {line - first: message for line, message in errors.items()}
        refused.update({rest[at]: text for at, text in places.items() if 0 <= at < len(rest)})
        if len(rest) in places:
            return refused
        if not any(0 <= at < len(rest) for at in places):
            return refused | _halves(rest, target, errors)


def _halves(statements: list[str], target: str, errors: dict[int, str]) -> dict[str, str]:
    """Narrows down a statement that makes ptxas end without naming a line."""
    if len(statements) == 1:
        return {statements[0]: errors.get(0) or "ptxas crashes"}
    middle = len(statements) // 2
    return _read(statements[:middle], target) | _read(statements[middle:], target)


def _translated(statements: list[str], target: str) -> dict[str, str]:
    """The messages for those refused when they are translated."""
    refused: dict[str, str] = {}
    while True:
        rest = [one for one in statements if one not in refused]
        text, lines = HEAD.format(target=target), {}
        for number, one in enumerate(rest):
            text += ENTRY.format(number=number) + DECLARATIONS
            lines[text.count("\n") + 1] = one
            text += f"{one}\n{TAIL}"
        errors = _errors(text, target)
        named = {lines[line]: message for line, message in errors.items() if line in lines}
        refused.update(named)
        if not errors:
            return refused
        if not named:
            return refused | _one_by_one(rest, target)


def _one_by_one(statements: list[str], target: str) -> dict[str, str]:
    """Halves the statements until the refused ones stand alone: for errors that name no line."""
    if not _errors(_kernels(statements, target), target):
        return {}
    if len(statements) == 1:
        return {statements[0]: "refused when translated"}
    middle = len(statements) // 2
    return _one_by_one(statements[:middle], target) | _one_by_one(statements[middle:], target)


def _kernels(statements: list[str], target: str) -> str:
    parts = [
        ENTRY.format(number=number) + DECLARATIONS + f"{one}\n{TAIL}"
        for number, one in enumerate(statements)
    ]
    return HEAD.format(target=target) + "".join(parts)


def _errors(text: str, target: str) -> dict[int, str]:
    """The first message for each line at fault; line 0 for an error without a line."""
    assert PTXAS is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "asked.ptx"
        path.write_text(text)
        command = [PTXAS, "-O0", f"-arch=sm_{target}", "-o", f"{folder}/out", str(path)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            return {0: "ptxas does not end"}
    if done.returncode == 0:
        return {}
    found: dict[int, str] = {}
    for match in _ERROR.finditer(done.stderr):
        found.setdefault(int(match.group(1)), match.group(2).strip())
    return found or {0: done.stderr.strip()[:200]}
