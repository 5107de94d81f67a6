r"""Files with one token of one statement or directive changed: ptxas's verdicts against ours.

    PYTHONPATH=benchmarks python benchmarks/file_mutants.py --number 1000 --seed 5 --out OUT.json

Where ``semantic_mutants.py`` puts statements into a frame of its own, this one leaves them in their
file: the registers and variables are those that compilers declare, and declarations, directives,
calls, textures and video instructions are changed too. A file is cut down to one kernel and what
stands outside kernels; ptxas translates it for the file's own target. A *missed* mutant is one that
ptxas refuses and ptxwcet takes, a *lost* one the reverse. Statements are drawn by mnemonic, so that
rare ones count as much as additions.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptxas_verdicts import PTXAS
from semantic_mutants import NUMBERS, SPACES, TYPES, WORDS

from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

ROOT = Path(__file__).resolve().parents[1]
TOKEN = re.compile(r'"[^"\n]*"|[%$]?\w[\w$]*(?:::\w+)*|\.[A-Za-z_]\w*(?:::\w+)*|\s+|.', re.ASCII)
STATEMENT = re.compile(
    r"^[ \t]*(?![ \t]*(?://|\.loc|\.file|\.section))[^\n]*[^\s{}()][^\n]*$", re.M
)
LINES = """\
.shared .b8 zz[0]; .shared .align 3 .b8 zz[4]; .local .align 0 .b8 zz[4]; .reg .b33 zz;
.reg .v4 .b128 zz; .reg .v2 .pred zz; .reg .b32 zz<0>; .shared .u32 zz[2][0]; .shared .pred zz;
.local .b32 zz = 3; .global .b32 zz; .param .b32 zz; .shared .v4 .b64 zz[2]; .reg .texref zz;
.reg .f16x2 zz; .reg .v4 .b64 zz; .reg .b32 zz<-1>; .shared .align 256 .b8 zz[4]; .const .b32 zz;
.pragma "nounroll"; .shared .b32 zz[]; .maxntid 32;""".replace("; .", ";\n.").splitlines()
DIRECTIVES = [
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
    ".reqnctapercluster",
    ".maxclusterrank",
    ".explicitcluster",
    ".blocksareclusters",
    ".align",
    ".visible",
    ".weak",
    ".extern",
    ".common",
    ".v2",
    ".ptr",
    ".noreturn",
    ".v8",
]  # fmt: skip
AMOUNTS = (
    "0",
    "1",
    "2",
    "3",
    "7",
    "24",
    "64",
    "100000",
    "4294967296",
    "9223372036854775808",
    "-1",
    "0x10",
    "1.5",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """The text of a file, its target, and what was changed: kind, mnemonic and the new line."""

    text: str
    target: str
    kind: str
    name: str
    line: str
    path: str


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=1000, help="mutants")
    parser.add_argument("--target", default="", help="only files of this target")
    parser.add_argument("--out", type=Path, help="JSON with the counts")
    options = parser.parse_args()
    drawn = draw(options.number, random.Random(options.seed), options.target)
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(asked, drawn))
    ours = [our_verdict(one.text) for one in drawn]
    found = summary(options, drawn, said, ours)
    print(json.dumps({k: v for k, v in found.items() if k not in ("missed", "lost")}, indent=1))
    for name in ("lost", "missed"):
        for one in found[name]:
            print(name.upper(), one)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


def summary(
    options: argparse.Namespace, drawn: list[Mutant], said: list[str], ours: list[str]
) -> dict[str, Any]:
    """Counts by target and by kind of change; ``missed`` and ``lost`` are the lines."""
    rows: dict[str, Counter[str]] = {}
    missed, lost = [], []
    for one, theirs, mine in zip(drawn, said, ours, strict=True):
        for key in (one.kind, one.target):
            row = rows.setdefault(key, Counter())
            row["asked"] += 1
            row["refused by ptxas"] += bool(theirs)
            row["agree"] += bool(theirs) == bool(mine)
        shown = f"{one.path}: {one.line.strip()} | {theirs or mine}"
        if theirs and not mine:
            missed.append(shown)
        if mine and not theirs:
            lost.append(shown)
    agree = len(drawn) - len(missed) - len(lost)
    return {
        "seed": options.seed,
        "mutants": len(drawn),
        "refused by ptxas": sum(map(bool, said)),
        "agree": round(agree / len(drawn), 4),
        "rows": {kind: dict(row) for kind, row in sorted(rows.items())},
        "lost": sorted(lost),
        "missed": sorted(missed),
    }


def asked(one: Mutant) -> str:
    """ptxas's message, empty if it takes the file."""
    assert PTXAS is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.ptx"
        path.write_text(one.text)
        command = [PTXAS, "-O0", f"-arch={one.target}", "-o", f"{folder}/out", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            return "ptxas does not end"
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if "error" in line or "fatal" in line]
    return re.sub(r"^ptxas .*?m\.ptx, ", "", (errors or [f"code {done.returncode}"])[0])


def our_verdict(text: str) -> str:
    """The message of ptxwcet's parser, or that an opcode is unknown; empty if it takes the file."""
    try:
        module = parse_module(SourceFile("one.ptx", text))
    except PtxwcetError as error:
        return error.diagnostics[0].message
    unknown = (i for k in (*module.kernels, *module.functions) for i in k.instructions)
    return next((f"{i.mnemonic} has no row" for i in unknown if not i.is_known), "")


# --- drawing --------------------------------------------------------------------------------------


def draw(number: int, chance: random.Random, target: str) -> list[Mutant]:
    """Mutants of files that ptxas takes unchanged, all different."""
    pool = _places(target)
    found: dict[str, Mutant] = {}
    fine: dict[str, bool] = {}
    while len(found) < number:
        name = chance.choice(sorted(pool))
        text, arch, path, start, end = chance.choice(pool[name])
        if fine.setdefault(text, not asked(Mutant(text, arch, "", "", "", ""))):
            kind, line = changed(text[start:end], chance, text)
            changed_text = text[:start] + line + text[end:]
            if line != text[start:end]:
                found.setdefault(changed_text, Mutant(changed_text, arch, kind, name, line, path))
    return list(found.values())


def _places(target: str) -> dict[str, list[tuple[str, str, str, int, int]]]:
    """Where statements stand, by mnemonic or first word: file of one kernel, target, extent."""
    found: dict[str, list[tuple[str, str, str, int, int]]] = {}
    folders = (ROOT / "tests" / "corpus" / "ptx", ROOT / "samples")
    for path in (path for folder in folders for path in sorted(folder.rglob("*.ptx"))):
        source = read_source(str(path))
        module = parse_module(source)
        arch = module.target.replace("compute", "sm")
        if int(re.sub(r"\D", "", arch)) < 75 or (target and arch != target):
            continue
        entries = [one for one in module.kernels if one.has_body]
        for kept in entries or [None]:
            text = source.text
            for other in sorted(entries, key=lambda one: -one.span.start):
                if other is not kept:
                    text = text[: other.span.start] + text[other.span.end :]
            for match in STATEMENT.finditer(text):
                words = re.sub(r"@!?\S+\s+", "", match.group().strip()).split()
                if words:
                    key = words[0].rstrip(";:") if words[0][0] != "$" else "label"
                    found.setdefault(key, []).append((text, arch, path.name, *match.span()))
    return found


def changed(line: str, chance: random.Random, text: str) -> tuple[str, str]:
    """The kind of change and the line with one token changed."""
    tokens = TOKEN.findall(line)
    places = [i for i, token in enumerate(tokens) if not token.isspace()]
    weights = [8 if len(tokens[i]) > 1 or tokens[i].isalnum() else 1 for i in places]
    (at,) = chance.choices(places, weights)
    kind, new = _change(tokens[at], chance, text)
    return kind, "".join([*tokens[:at], new, *tokens[at + 1 :]])


def _change(token: str, chance: random.Random, text: str) -> tuple[str, str]:
    if chance.random() < 0.03:
        return "line added", token + "\n" + chance.choice(LINES) + "\n"
    if chance.random() < 0.04:
        return (
            "directive added",
            f"{chance.choice(DIRECTIVES)} {chance.choice((*AMOUNTS, ''))} {token}",
        )
    if chance.random() < 0.06:
        return "removed", ""
    if chance.random() < 0.04:
        return "doubled", f"{token} {token}" if token[0] != "." else token + token
    if token[0] == ".":
        other = "." + chance.choice(chance.choice((TYPES, SPACES, WORDS)))
        near = chance.choice(re.findall(r"\.[A-Za-z_]\w*(?:::\w+)*", text))
        how = chance.random()
        if how < 0.25:
            return "word added", token + chance.choice((other, near))
        return "word changed", chance.choice((other, near))
    if token[0] == "%" or (token[0].isalpha() and len(token) > 1):
        how = chance.randrange(9)
        if how < 4:
            return "name changed", chance.choice(re.findall(r"%\w+|\b[A-Za-z_$]\w+", text))
        return (
            ("register for literal", chance.choice((*NUMBERS, "1e5", "1U", "-5"))),
            ("sign", chance.choice("!-~") + token),
            ("vector", chance.choice((f"{{{token}}}", f"{{{token}, {token}}}"))),
            ("selector", token + chance.choice((".h0", ".b1", ".x", ".b0123"))),
            ("offset or pair", token + chance.choice(("+4", "-4", "|_", f"|{token}", "[2]"))),
        )[how - 4]
    if token.isdigit() or token[:2] in ("0x", "0f", "0d"):
        return "literal changed", chance.choice((*NUMBERS, *AMOUNTS))
    if token in "{}[]()":
        return "bracket changed", chance.choice("{}[]()")
    return "other", chance.choice((",", ";", "+", "-", "|", "!", ":", "_", "=", "<", "%tid.x"))


if __name__ == "__main__":
    main()
