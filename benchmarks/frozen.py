"""Answers to some 1,500 requests, kept field by field: a change of structure changes none.

    python benchmarks/frozen.py keep               # answers all, writes tests/data/frozen.json
    python benchmarks/frozen.py check [--every N]  # tells which fields of which requests differ

Requests are ``ptxwcet bound WORDS --format json`` over samples, suite, plain and hybrid kernels,
kernels of Triton, the corpus of compilers, inputs that once were at fault, launch files, and cubins
where there is a disassembler. Of each answer the file has a digest of each field, of all kernels
together, so that what differs has a name: ``bound``, ``loops``, ``assumptions``, ``diagnostics``.
Whoever changes an answer runs ``keep`` and says in the commit which fields changed, and why.
Requests of the gate are those that were answered soonest, spread over all folders. Requests that
take more than ten seconds are not kept; the others take ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path

from ptxwcet.cli.main import main as ptxwcet
from ptxwcet.sass import disassembler
from ptxwcet.support.diagnostics import PtxwcetError

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests/data/frozen.json"
FOLDERS = (
    *("samples", "docs/tutorials", "benchmarks/triton_kernels", "benchmarks/silicon"),
    *(f"benchmarks/kernels/{name}" for name in ("suite", "plain", "hybrid", "sgemm", "voronoi")),
    *(f"tests/corpus/ptx/{name}" for name in ("nvcc", "clang", "triton", "numba", "handwritten")),
    *(f"tests/data/{name}" for name in ("faults", "unsound", "flow", "joins", "mbarriers")),
    *(f"tests/data/{name}" for name in ("certificates", "emulator", "reach", "crashes", "sass")),
    *("tests/data/reference-sim/ptx", "tests/data/ptxas", "tests/data/faults/machines"),
)
MACHINES = ("orin-ecrts2025", "jetson-agx-orin", "orin-ecrts2025-memory", "h100", "a100")
LAUNCHES = (
    ("--block", "32"),
    ("--block", "256", "--grid", "7"),
    ("--block", "32x8", "--grid", "3x5"),
    ("--block", "64"),
)
OF_THE_PLACE = ("digest", "sha256", "version", "tool", "schema")
"""Fields that change with the version of the tool or with the text of a file."""
GATE, SOON, MOST_SECONDS = 150, 0.35, 10
"""Requests of the gate, their most seconds of processor, and those of a request that is kept."""

Fields = dict[str, str]


def requests() -> Iterator[tuple[str, ...]]:
    """The words behind ``ptxwcet bound`` of each request; paths are relative to the checkout."""
    machines = cycle(MACHINES)
    endings = ("*.ptx", "*.cubin") if has_disassembler() else ("*.ptx",)
    for folder in FOLDERS:
        for file in sorted(path for ending in endings for path in (ROOT / folder).glob(ending)):
            for launch in LAUNCHES:
                yield str(file.relative_to(ROOT)), *launch, "--machine", next(machines)
        for file in sorted((ROOT / folder).glob("launches/*.toml")):
            named = [line for line in file.read_text().splitlines() if line.startswith("kernel")]
            kernel = named[0].partition('"')[2].partition('"')[0] if named else ""
            for source in sorted((ROOT / folder).glob("*.ptx")):
                if kernel and f".entry {kernel}(" in source.read_text():
                    words = str(source.relative_to(ROOT)), "--launch", str(file.relative_to(ROOT))
                    yield *words, "--machine", next(machines)


def has_disassembler() -> bool:
    """Returns whether machine code can be read here."""
    try:
        disassembler._found("")
    except PtxwcetError:
        return False
    return True


def fields_of(words: Sequence[str]) -> Fields:
    """The digest of each field of an answer, by name. Cost: the request's."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            ptxwcet(["bound", *words, "--format", "json"])
        except SystemExit as ended:
            code = ended.code or 0
    for stream in (out, err):
        stream.seek(0)
    found: dict[str, list[object]] = defaultdict(list)
    try:
        report = json.loads(out.read())
    except ValueError:  # refused before any kernel: the words on the standard error are the answer
        report = {"said": err.read()}
    for name, value in report.items():
        if name == "kernels":
            for row in value:
                for field, content in row.items():
                    if content is not None:
                        found[f"kernel {field}"].append(content)
        elif name not in OF_THE_PLACE:
            found[name].append(value)
    return {"code": str(code)} | {name: digest(value) for name, value in sorted(found.items())}


def digest(value: object) -> str:
    """Eight digits for a value of JSON."""
    text = json.dumps(value, sort_keys=True).replace(str(ROOT), "")
    return hashlib.sha256(text.encode()).hexdigest()[:8]


class TooLongError(BaseException):
    """A request takes more than ``MOST_SECONDS``."""


def stop(*_: object) -> None:
    """Ends a request that takes too long. Raises TooLongError."""
    raise TooLongError


def answered(words: tuple[str, ...]) -> tuple[str, Fields, float]:
    """Returns a request in one line, its fields (empty if it takes too long), and its seconds."""
    os.chdir(ROOT)
    begin = time.process_time()
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        fields = fields_of(words)
    except TooLongError:
        fields = {}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return " ".join(words), fields, time.process_time() - begin


def differences(kept: Mapping[str, Fields], now: Mapping[str, Fields]) -> Iterator[str]:
    """What differs, a line for each request: the fields that are others, missing, or new."""
    for words, fields in now.items():
        old = kept.get(words)
        if old is None:
            yield f"{words}: is not kept"
        elif old != fields:
            names = sorted(one for one in {*old, *fields} if old.get(one) != fields.get(one))
            yield f"{words}: {', '.join(names)}"


def all_answers(asked: Sequence[tuple[str, ...]]) -> list[tuple[str, Fields, float]]:
    """The answers to requests, by two processes, in their order."""
    with get_context("spawn").Pool(2, maxtasksperchild=50) as pool:
        found = []
        for row in pool.imap(answered, asked, chunksize=5):
            found.append(row)
            if len(found) % 100 == 0:
                print(len(found), "of", len(asked), file=sys.stderr, flush=True)
        return found


def soonest(rows: Sequence[tuple[str, Fields, float]]) -> list[str]:
    """Requests for the gate: every so many of those that are answered soon."""
    soon = [words for words, _, took in rows if took < SOON and ".cubin" not in words]
    step = max(1, len(soon) // GATE)
    return soon[::step][:GATE]


def main() -> int:
    """Keeps or checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("keep", "check"))
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    if options.what == "keep":
        rows = [row for row in all_answers(list(requests())) if row[1]]
        lines = (f"{json.dumps(words)}: {json.dumps(fields)}" for words, fields, _ in rows)
        each = ",\n".join(lines)
        gate = json.dumps(soonest(rows), indent=0)
        KEPT.write_text(f'{{"gate": {gate},\n"requests": {{\n{each}\n}}}}\n', encoding="utf-8")
        print(len(rows), "requests kept")
        return 0
    kept = json.loads(KEPT.read_text(encoding="utf-8"))["requests"]
    asked = [words for words in kept if has_disassembler() or ".cubin" not in words]
    rows = all_answers([tuple(words.split()) for words in asked[:: options.every]])
    slow = [words for words, fields, _ in rows if not fields]
    lines = list(differences(kept, {words: fields for words, fields, _ in rows if fields}))
    lines += [f"{words}: takes more than {MOST_SECONDS} seconds" for words in slow]
    print(*lines, f"{len(lines)} of {len(rows)} requests differ", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
