"""Makes a kit for ``device.py``: cases, and what the emulator makes of each.

    python benchmarks/silicon/semantics/prepare.py KIT [--phases statements programs scenes sweeps]

ptxas must be on the PATH (``nvcc`` as well for the sweeps).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import statements
import translation_programs
from kit import Kit, argument, assembled

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

PHASES = ("scenes", "sweeps", "statements", "programs")
MODULE = 100
PROGRAMS = {"integers": 800, "exchanges": 500, "floats": 500}
OTHERS = 200
MOST_WARP_INSTRUCTIONS = 4_000


# --- statements -----------------------------------------------------------------------------------


def taken_by_ptxas(texts: Sequence[str]) -> list[str]:
    """Those statements that ptxas takes for sm_90a."""
    left, start = list(texts), 0
    with TemporaryDirectory() as place:
        file = Path(place) / "k.ptx"
        while start < len(left):
            part = left[start : start + 400]
            while True:
                lines, text = [], statements.HEAD
                for number, one in enumerate(part):
                    lines.append(text.count("\n") + 1)
                    text += statements.kernel(f"k{number}", one)
                file.write_text(text)
                command = ["ptxas", "-arch=sm_90a", "-O0", str(file), "-o", f"{place}/k.cubin"]
                said = subprocess.run(command, capture_output=True, text=True, check=False)
                found = re.findall(r"line (\d+); (?:error|fatal)", said.stderr + said.stdout)
                if not found:
                    assert said.returncode == 0, said.stderr
                    break
                wrong = {bisect_right(lines, int(line)) - 1 for line in found}
                part = [one for number, one in enumerate(part) if number not in wrong]
            left[start : start + 400] = part
            start += len(part)
    return left


def emulated_statements(task: tuple[int, list[str]]) -> list[tuple[str, bytes | str]]:
    """What the emulator makes of statements, or why it makes nothing."""
    _, texts = task
    found: list[tuple[str, bytes | str]] = []
    for text in texts:
        data = statements.operands(statements.domain_of(text))
        try:
            module = parse_module(SourceFile("k.ptx", statements.module([("k", text)])))
            given = np.frombuffer(data, np.uint8)
            out = np.zeros(statements.out_bytes(text), np.uint8)
            blocks = statements.LANES // statements.BLOCK
            launch = EmulatedLaunch((statements.BLOCK, 1, 1), (blocks, 1, 1), (given, out))
            options = EmulatorOptions(checks=frozenset())
            done = execute(module.kernels[0], module, launch, options=options)
        except PtxwcetError as error:
            found.append((text, error.diagnostics[0].message))
            continue
        buffer = done.buffers[1]
        assert buffer is not None
        assert done.is_complete, text
        found.append((text, buffer.tobytes()))
    return found


def add_statements(kit: Kit, pool: ProcessPoolExecutor, literals: int) -> None:
    """A kernel of each statement that ptxas takes."""
    texts = taken_by_ptxas(statements.all_statements(statements.SEED, literals))
    operands = {
        domain: argument(np.frombuffer(statements.operands(domain), np.uint8), kit)
        for domain in statements.DOMAINS
    }
    refused: Counter[str] = Counter()
    tasks = [(n, texts[n : n + MODULE]) for n in range(0, len(texts), MODULE)]
    for (start, _), done in zip(tasks, pool.map(emulated_statements, tasks), strict=True):
        cases, kernels = [], []
        for number, (text, result) in enumerate(done):
            if isinstance(result, str):
                refused[result] += 1
                print("not executed:", text, result, flush=True)
                continue
            name = f"s{start + number}"
            kernels.append((name, text))
            cases.append(
                {
                    "name": text,
                    "kernel": name,
                    "grid": (statements.LANES // statements.BLOCK, 1, 1),
                    "block": (statements.BLOCK, 1, 1),
                    "arguments": [
                        operands[statements.domain_of(text)],
                        kit.checked(result, 1024, most=12),
                    ],
                }
            )
        kit.module(
            "statements", f"statements {start}", assembled(statements.module(kernels)), cases
        )
    print(len(texts), "statements", refused)


# --- random programs ------------------------------------------------------------------------------


def emulated_programs(task: tuple[str, range]) -> tuple[Any, dict[str, Any], Counter[str]]:
    """The programs of a module that end, and what they leave."""
    kind, seeds = task
    made = translation_programs.made(kind, seeds)
    module = parse_module(SourceFile("k.ptx", made.text))
    found: dict[str, Any] = {}
    why: Counter[str] = Counter()
    for kernel in module.kernels:
        options = EmulatorOptions(max_instructions=MOST_WARP_INSTRUCTIONS)
        try:
            done = execute(kernel, module, made.launches[kernel.name], options=options)
        except PtxwcetError as error:
            why[error.diagnostics[0].code] += 1
            continue
        if done.findings:
            why[done.findings[0].code] += 1
            continue
        found[kernel.name] = (
            [parameter.size_bytes for parameter in kernel.parameters],
            [None if one is None else one.tobytes() for one in done.buffers],
        )
    return made, found, why


def arguments_of(
    kit: Kit, sizes: Sequence[int], launch: EmulatedLaunch, buffers: Sequence[bytes | None]
) -> list[dict[str, Any]]:
    """The arguments of a launch, with what they are to hold behind it."""
    found: list[dict[str, Any]] = []
    for size, given, left in zip(sizes, launch.arguments, buffers, strict=True):
        if isinstance(given, np.ndarray):
            assert left is not None
            one = argument(given, kit)
            if given.dtype == np.float32:  # approximations: not to the bit
                found.append(one | {"check": True})
            else:
                found.append(one | kit.checked(left, 1024, most=12))
        elif isinstance(given, int):
            found.append({"value": (given % (1 << 8 * size)).to_bytes(size, "little").hex()})
        else:
            assert isinstance(given, bytes)
            found.append({"value": given.hex()})
    return found


def add_programs(kit: Kit, pool: ProcessPoolExecutor, share: float) -> None:
    """The programs of the translation campaign."""
    tasks = []
    for kind in translation_programs.KINDS:
        last = statements.SEED + int(share * PROGRAMS.get(kind, OTHERS))
        for start in range(statements.SEED, last, MODULE):
            tasks.append((kind, range(start, min(last, start + MODULE))))
    total: Counter[str] = Counter()
    for (kind, seeds), (made, found, why) in zip(
        tasks, pool.map(emulated_programs, tasks), strict=True
    ):
        total.update(why)
        total[kind] += len(found)
        cases = []
        for name, (sizes, buffers) in found.items():
            launch = made.launches[name]
            cases.append(
                {
                    "name": f"{kind} {name[1:]}",
                    "kernel": name,
                    "grid": launch.grid,
                    "block": launch.block,
                    "shared": launch.dynamic_shared,
                    "arguments": arguments_of(kit, sizes, launch, buffers),
                }
            )
        try:
            cubins = assembled(made.text)
        except subprocess.CalledProcessError as error:
            print(kind, seeds, "not assembled", error.returncode)
            continue
        kit.module("programs", f"{kind} {seeds.start}", cubins, cases)
    print("programs", total)


def kernel_of(text: str, name: str) -> tuple[Kernel, Any]:
    """A kernel of a text by its name, and the module."""
    module = parse_module(SourceFile("k.ptx", text))
    return next(one for one in module.kernels if one.name == name), module


def main() -> None:
    """Makes the kit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kit", type=Path)
    parser.add_argument("--phases", nargs="*", default=PHASES)
    parser.add_argument("--literals", type=int, default=1500)
    parser.add_argument("--share", type=float, default=1.0, help="of the random programs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    statements.SEED = given.seed  # children are forked, and have it as well
    kit, begin = Kit(given.phases), time.monotonic()
    with ProcessPoolExecutor(given.workers) as pool:
        if "scenes" in given.phases:
            import scenes

            scenes.add(kit)
        if "sweeps" in given.phases:
            import sweeps

            sweeps.add(kit)
        if "statements" in given.phases:
            add_statements(kit, pool, given.literals)
        if "programs" in given.phases:
            add_programs(kit, pool, given.share)
    kit.write(given.kit)
    print(f"{kit.size:,} bytes in {len(kit.modules)} modules, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
