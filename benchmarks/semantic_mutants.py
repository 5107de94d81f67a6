"""Statements with one token changed: what ptxas refuses and what ptxwcet refuses.

    python benchmarks/semantic_mutants.py --each 12 --out docs/experiments/semantic-mutants.json
    python benchmarks/semantic_mutants.py --store 1500 tests/data/ptx/semantic-mutants.tsv

The statements are the distinct ones of the corpus, the samples and the golden table, with registers
of the same types. Each is changed in ``--each`` ways, drawn with ``--seed``, of every kind that
fits. A *missed* mutant is one that ptxas refuses and ptxwcet takes, a *lost* one the reverse.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ptx_printer import print_instruction
from ptxas_verdicts import REGISTERS, kernel_text, verdicts

from ptxwcet.ir.instruction_set import find_opcode
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.ir.op_classes import ControlEffect, OpClass
from ptxwcet.ir.operands import Register, SymbolRef, leaves
from ptxwcet.ir.words import is_type
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "data" / "ptx" / "instructions.tsv"
SYMBOLS = {"shared": "sh", "global": "gl", "const": "cn", "local": "lo", "param": "pa"}
LEFT_OUT = {OpClass.TEXTURE, OpClass.SURFACE, OpClass.CALL, OpClass.BRANCH, OpClass.VIDEO}
TYPES = ["pred", "b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "b128", "f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "u16x2", "s16x2", "tf32"]  # noqa: E501  # fmt: skip
SPACES = ["global", "shared", "local", "const", "param", "shared::cta", "shared::cluster"]
WORDS = ["rn", "rz", "rm", "rp", "rni", "rzi", "ftz", "sat", "approx", "full", "lo", "hi", "wide", "cc", "relu", "NaN", "xorsign", "abs", "lt", "eq", "ne", "geu", "num", "lo", "and", "or", "xor", "add", "inc", "cas", "exch", "min", "max", "wrap", "clamp", "volatile", "relaxed", "acquire", "sc", "cta", "gpu", "sys", "cluster", "weak", "nc", "ca", "cg", "cs", "L1::evict_last", "L2::128B", "v2", "v4", "v8", "sync", "aligned", "idx", "up", "down", "bfly", "all", "any", "uni", "ballot", "popc", "to", "gl", "level::eviction_priority", "noftz", "x2", "l", "r", "shiftamt", "f4e", "mmio", "release", "acq_rel", "unified", "global", "shared", "local", "const", "param"]  # noqa: E501  # fmt: skip
NUMBERS = [
    "0",
    "1",
    "-1",
    "17",
    "31",
    "33",
    "64",
    "255",
    "256",
    "65536",
    "4294967296",
    "1.0",
    "0f3F800000",
    "0d3FF0000000000000",
]

Mutation = Callable[[str, list[str], random.Random], list[str]]


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=10, help="mutants of each statement")
    parser.add_argument("--out", type=Path, help="JSON with the counts")
    parser.add_argument("--store", nargs=2, help="number of verdicts to store, and the file")
    parser.add_argument("--only", default="", help="opcodes, separated by commas")
    options = parser.parse_args()
    valid = statements()
    if options.only:
        valid = [one for one in valid if opcode(one) in options.only.split(",")]
    drawn = mutants(valid, options.each, random.Random(options.seed))
    said = verdicts([*valid, *drawn])
    originals = {one: said[one] for one in valid}
    kinds = {text: kind for text, (kind, origin) in drawn.items() if not originals[origin]}
    asked = [one for one in valid if not originals[one]] + list(kinds)
    ours = {text: our_verdict(text) for text in dict.fromkeys(asked)}
    found = summary(options, {text: kinds.get(text, "none") for text in ours}, said, ours)
    print(json.dumps({k: v for k, v in found.items() if k not in ("missed", "lost")}, indent=1))
    for text in found["lost"][:60]:
        print("LOST  ", text, "|", ours[text])
    for text in found["missed"][:200]:
        print("MISSED", text, "|", said[text])
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    if options.store:
        number, path = int(options.store[0]), Path(options.store[1])
        chosen = sorted(random.Random(options.seed).sample(sorted(ours), number))
        lines = [f"{'refused' if said[text] else 'taken'}\t{text}\n" for text in chosen]
        path.write_text("".join(lines))


def opcode(text: str) -> str:
    """The name of the row of a statement's opcode."""
    words = text.split("@", 1)[-1].split(" ", 1) if text.startswith("@") else ["", text]
    return words[1].split()[0].split(".")[0].rstrip(";")


def summary(
    options: argparse.Namespace, kinds: dict[str, str], said: dict[str, str], ours: dict[str, str]
) -> dict[str, Any]:
    """Counts by kind of mutation; ``missed`` and ``lost`` are the statements."""
    rows: dict[str, Counter[str]] = {}
    missed, lost = [], []
    for text, kind in kinds.items():
        row = rows.setdefault(kind, Counter())
        row["asked"] += 1
        row["refused by ptxas"] += bool(said[text])
        row["refused by both"] += bool(said[text] and ours[text])
        if said[text] and not ours[text]:
            missed.append(text)
        if ours[text] and not said[text]:
            lost.append(text)
            row["lost"] += 1
    refused = sum(row["refused by ptxas"] for row in rows.values())
    both = sum(row["refused by both"] for row in rows.values())
    return {
        "seed": options.seed,
        "statements": sum(kind == "none" for kind in kinds.values()),
        "mutants": sum(kind != "none" for kind in kinds.values()),
        "refused by ptxas": refused,
        "refused by both": both,
        "share": round(both / max(refused, 1), 4),
        "kinds": {kind: dict(row) for kind, row in sorted(rows.items())},
        "missed by opcode": dict(Counter(map(opcode, missed)).most_common(40)),
        "lost": sorted(lost),
        "missed": sorted(missed),
    }


def our_verdict(text: str) -> str:
    """The message of ptxwcet's parser, empty if it takes the statement."""
    try:
        parse_module(SourceFile("one.ptx", kernel_text([text])))
    except PtxwcetError as error:
        return error.diagnostics[0].message
    return ""


# --- statements -----------------------------------------------------------------------------------


def statements() -> list[str]:
    """The distinct statements of corpus, samples and golden table, calls and textures left out."""
    found: dict[str, str] = {}
    folders = (ROOT / "tests" / "corpus" / "ptx", ROOT / "samples")
    for path in (path for folder in folders for path in sorted(folder.rglob("*.ptx"))):
        for text in _rewritten(parse_module(read_source(str(path)))):
            found.setdefault(_LITERAL.sub("7", text), text)
    frame = __import__("test_ir_opcodes").FRAME
    for line in GOLDEN.read_text().splitlines()[1:]:
        target, statement = line.split("\t")[:2]
        text = frame.format(target=target, body=statement)
        for one in _rewritten(parse_module(SourceFile("g.ptx", text))):
            found.setdefault(one, one)
    return list(dict.fromkeys(found.values()))


_LITERAL = re.compile(r"(?<![\w.$%-])-?[0-9]+\b(?!\.)")


def _rewritten(module: Module) -> Iterator[str]:
    outer = {one.name: one.space for one in module.variables}
    for kernel in (*module.kernels, *module.functions):
        spaces = outer | {one.name: one.space for one in kernel.variables}
        spaces |= {one.name: "param" for one in kernel.parameters}
        for one in kernel.instructions:
            if one.op_class not in LEFT_OUT and one.control is not ControlEffect.INDIRECT_BRANCH:
                yield _renamed(one, kernel, spaces)


def _renamed(instruction: Any, kernel: Kernel, spaces: dict[str, str]) -> str:
    """The statement with the registers and variables of the frame."""
    names: dict[str, str] = {}
    used: Counter[str] = Counter()
    symbols = {
        leaf.name
        for operand in instruction.operands
        for leaf in leaves(operand)
        if isinstance(leaf, SymbolRef)
    }
    registers = [
        leaf.name
        for operand in instruction.operands
        for leaf in leaves(operand)
        if isinstance(leaf, Register)
    ]
    if instruction.guard is not None:
        registers.append(instruction.guard.register)
    for name in registers:
        if "." in name:
            names[name.partition(".")[0]] = "vec"
        if name not in names:
            kind = kernel.registers[name]
            used[kind] += 1
            names[name] = f"{REGISTERS[kind]}{used[kind] % 16}"
    stores = instruction.mnemonic.startswith("st.param")
    for name in symbols:
        names[name] = (
            "q"
            if stores
            else SYMBOLS.get(spaces.get(name, "global").split("[")[0].split("::")[0], "gl")
        )
    form = instruction.form
    changed = instruction._replace(names=tuple(names.get(n, n) for n in instruction.names))
    assert form is instruction.form
    return print_instruction(changed)


# --- mutations ------------------------------------------------------------------------------------

_TOKEN = re.compile(r"%?[\w$]+(?:\.[xyzw]\b)?|\s+|.", re.ASCII)


def split(text: str) -> tuple[str, list[str], list[str]]:
    """Guard, words of the mnemonic, tokens of the operands."""
    guard, rest = "", text.rstrip(";")
    if rest.startswith("@"):
        guard, rest = rest.split(" ", 1)
    mnemonic, _, operands = rest.partition(" ")
    return guard, mnemonic.split("."), _TOKEN.findall(operands)


def joined(guard: str, words: list[str], tokens: list[str]) -> str:
    """The statement again."""
    operands = "".join(tokens)
    return f"{guard + ' ' if guard else ''}{'.'.join(words)}{' ' if operands else ''}{operands};"


def mutants(valid: list[str], each: int, chance: random.Random) -> dict[str, tuple[str, str]]:
    """Kind and origin by text of the mutants, each different from every valid statement."""
    found: dict[str, tuple[str, str]] = {}
    known = set(valid)
    for text in valid:
        changed = [(kind, one) for kind, one in _changes(text, chance) if one not in known]
        by_kind: dict[str, list[str]] = {}
        for kind, one in changed:
            by_kind.setdefault(kind, []).append(one)
        order = sorted(by_kind)
        chance.shuffle(order)
        for number in range(each):
            kind = order[number % len(order)]
            one = chance.choice(by_kind[kind])
            found.setdefault(one, (kind, text))
    return found


def _changes(text: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    guard, words, tokens = split(text)
    _, leading = find_opcode(words)
    for kind, changed in _word_changes(words, leading, chance):
        yield kind, joined(guard, changed, tokens)
    for kind, changed in _token_changes(tokens, chance):
        yield kind, joined(guard, words, changed)
    for kind, changed in _operand_changes(tokens):
        yield kind, joined(guard, words, changed)
    yield "guard no predicate", joined("@%u32_9", words, tokens)
    yield "guard", joined("@!%pred_9", words, tokens)


def _word_changes(
    words: list[str], leading: int, chance: random.Random
) -> Iterator[tuple[str, list[str]]]:
    for at in range(leading, len(words)):
        before, word, after = words[:at], words[at], words[at + 1 :]
        kind = "type" if is_type(word) else "space" if word in SPACES else "modifier"
        yield f"{kind} removed", before + after
        yield f"{kind} doubled", [*before, word, word, *after]
        choice = {"type": TYPES, "space": SPACES}.get(kind, WORDS)
        for other in chance.sample(choice, 4):
            yield f"{kind} changed", [*before, other, *after]
        if at + 1 < len(words):
            yield "words exchanged", [*before, after[0], word, *after[1:]]
    for _ in range(4):
        at = chance.randrange(leading, len(words) + 1)
        yield "word added", [*words[:at], chance.choice(WORDS), *words[at:]]


def _token_changes(tokens: list[str], chance: random.Random) -> Iterator[tuple[str, list[str]]]:
    for at, token in enumerate(tokens):
        before, after = tokens[:at], tokens[at + 1 :]

        def put(*new: str, b: list[str] = before, a: list[str] = after) -> list[str]:
            return [*b, *new, *a]

        if token[0] == "%" and "_" in token:
            for kind in chance.sample(sorted(REGISTERS), 5):
                yield "register of another type", put(f"{REGISTERS[kind]}{12 + at % 3}")
            yield "register for literal", put(chance.choice(NUMBERS))
            yield "register negated", put(chance.choice("!-"), token)
            yield "register for name", put(chance.choice(["L", "f", "sh", "gl", "pa", "cn", "T"]))
            yield "register for special register", put("%laneid")
            yield "register for sink", put("_")
            yield "register in brackets", put("[", token, "]")
            yield "register with offset", put(token, "+4")
        elif token.isalnum() and token[0].isdigit():
            yield "literal changed", put(chance.choice(NUMBERS))
            kind = chance.choice(["u32", "b64", "f32", "pred", "b16"])
            yield "literal for register", put(f"{REGISTERS[kind]}7")
        elif token in SYMBOLS.values():
            yield "name changed", put(chance.choice(["L", "f", "T", "vec", "%u32_3", "%f32_3"]))
        elif token == "_":
            yield "sink for register", put("%u32_8")
        elif token in "!-":
            yield "sign removed", put()
        elif token == "[" and "]" in after:
            close = after.index("]")
            yield "brackets removed", [*before, *after[:close], *after[close + 1 :]]


def _operand_changes(tokens: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Operands and elements of vectors dropped and doubled."""
    depth, start = 0, 0
    spans = []
    for at, token in enumerate([*tokens, ","]):
        if token in "[{(":
            depth += 1
        elif token in "]})":
            depth -= 1
        elif token == "," and depth == 0:
            spans.append((start, at))
            start = at + 1
    for start, end in spans if tokens else []:
        inner = tokens[start:end]
        kept = [tokens[a:b] for a, b in spans if a != start]
        yield "operand dropped", _with_commas(kept)
        yield "operand doubled", _with_commas([*(tokens[a:b] for a, b in spans), inner])
        if "{" in inner:
            elements = "".join(inner).strip().strip("{}").split(",")
            for size in (len(elements) - 1, len(elements) + 1):
                chosen = (elements * 2)[:size]
                if chosen:
                    vector = " {" + ",".join(chosen) + "}"
                    yield "vector size", [*tokens[:start], vector, *tokens[end:]]
            yield "vector for register", [*tokens[:start], " " + elements[0], *tokens[end:]]
        elif len(inner) <= 2 and inner[-1][0] == "%":
            vector = [" {", inner[-1], ", ", inner[-1], "}"]
            yield "register for vector", [*tokens[:start], *vector, *tokens[end:]]


def _with_commas(parts: list[list[str]]) -> list[str]:
    return [",".join("".join(part) for part in parts).strip()] if parts else []


if __name__ == "__main__":
    main()
