"""Mutated inputs and options for every command: no traceback, no internal error, in bounded time.

Each case takes a command line that works on the samples, and changes a few bytes or words of its
input files, or of its words. The process must end by itself with exit code 0, 1 or 2, without a
traceback and without PW901. Run: python benchmarks/fuzz_inputs.py --seconds 180 --seed 1
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import io
import json
import random
import re
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from ptxwcet.cli.main import main

SAMPLES = Path(__file__).parents[1] / "samples"
MOST_SECONDS = 15
"""Of processor time, for one case."""

_WORDS = re.compile(rb"[\w$%.]+|[^\w\s]")
_NASTY = (
    *(b"0", b"-1", b"1", b"4294967295", b"4294967296", b"18446744073709551616", b"9" * 5000),
    *(b"0x" + b"f" * 5000, b"1e999", b"nan", b"inf", b"-0.0", b"", b" ", b"\n", b"\0", b"\xff"),
    *(b"\x1b[2J", b'"', b"'", b"[", b"]" * 50, b"{" * 50, b"}", b"(", b"#", b"//", b"/*", b";"),
    *(b"@", b"%", b"%r1", b"%p1", b"%rd1", b"%tid.x", b"ret;", b"bar.sync 0;", b"bra", b".pred"),
    *(b".u32", b".s64", b".b8", b".v4", b".f16x2", b"true", b"[[x]]", b"a.b.c = 1", b"=", b","),
    *(b"add.cc.u32", b"call", b"brx.idx", b"1..0", b"\xe2\x80\xae", b"file", b"seed", b"1x1x1"),
)
_LAUNCHED = {
    "vector_add": ("--block", "256", "--grid", "4", "--param", "n=1000"),
    "saxpy": ("--block", "64", "--grid", "2", "--param", "n=100"),
    "sgemm_naive": ("--block", "8x8", "--param", "K=16"),
    "block_reduce": ("--block", "128", "--grid", "2", "--param", "n=200"),
    "scan": ("--block", "64", "--grid", "1"),
    "loops": ("--block", "32", "--param", "n=5"),
}


def command_lines() -> Iterator[list[str]]:
    """Command lines that work; the files of samples in them are copied and changed."""
    for name, launch in _LAUNCHED.items():
        file = f"{name}.ptx"
        yield [file, *launch]
        yield [file, *launch, "--explain", "--format", "json"]
        yield [file, *launch, "--machine", "machine.toml"]
        yield [file, *launch, "--facts", "facts.toml"]
        yield [
            file,
            *launch[:2],
            "--grid",
            "1",
            "--symbolic",
            f"{'K' if name[0] == 's' else 'n'}=1..100",
        ]
        yield ["facts", file, *launch[:2]]
        yield ["cfg", file]
        yield ["cfg", file, *launch, "--format", "text"]
        yield ["annotate", "phases", file, *launch, "--warp", "0"]
        yield ["simulate", file, *launch, "--policy", "gto", "--max-instructions", "100000"]
        yield ["validate", file, *launch, "--runs", "1", "--timeout", "0.2"]
        yield ["makespan", file, *launch, "--load-store", "1", "--cores", "1", "--timeout", "1"]
        yield ["instrument", file, "-o", "instrumented.ptx"]
        if (SAMPLES / "launches" / f"{name}.toml").exists():
            toml = f"{name}.toml"
            effort = ("--max-instructions", "20000")
            yield ["run", file, "--launch", toml, "-o", "o.npz", "--paths", "p.jsonl", *effort]
            yield [file, "--launch", toml]
            yield [
                "simulate",
                "launch",
                file,
                "--launch",
                toml,
                "-o",
                "t.csv",
                "--policy",
                "lrr",
                *effort,
            ]
            yield ["hybrid", file, "--trace", "trace.csv", "--launch", toml]
    yield ["machine", "check", "machine.toml"]
    yield ["machine", "machine.toml"]
    yield ["makespan", "LLCLL", "--warps", "9", "--load-store", "1", "--cores", "1"]
    yield ["pwcet", "times.csv"]
    yield ["pwcet", "times.csv", "--format", "json", "--force"]
    yield ["instrument", "import", "sidecar.json", "dump.bin", "-o", "t.npz"]
    yield ["explain", "PW203"]


def base_files() -> dict[str, bytes]:
    """The texts that are changed, by the name that command lines use."""
    found = {path.name: path.read_bytes() for path in SAMPLES.glob("*.ptx")}
    found |= {path.name: path.read_bytes() for path in SAMPLES.glob("*.cu")}
    found |= {path.name: path.read_bytes() for path in (SAMPLES / "launches").glob("*.toml")}
    models = SAMPLES.parent / "ptxwcet" / "machine" / "models"
    found["machine.toml"] = (models / "ampere-realistic.toml").read_bytes()
    found["facts.toml"] = (
        b'[[loop]]\nat = "$L__BB0_2"\nbound = 9\n'
        b'[[branch]]\nline = 7\nnever = "taken"\n[parameters]\nn = "1..9"\n'
    )
    choice = random.Random(1)
    rows = "".join(f"{choice.gammavariate(9, 100) + 1000:.0f}\n" for _ in range(1200))
    found["times.csv"] = b"cycles\n" + rows.encode()
    found["trace.csv"] = (
        b"# ptxwcet-trace 1\n# kernel saxpy\n# recorder r\n# clock cycle\n# ipoint 0 19 entry\n"
        b"# ipoint 1 40 end\nipoint,sm,warp,cycle\n# run 0\n0,0,0,0\n1,0,0,50\n# events 2\n"
    )
    found["dump.bin"] = bytes(range(256)) * 8
    found["sidecar.json"] = b'{"schema": 1, "source": "k.ptx", "kernels": []}'
    return found


def changed(data: bytes, rng: random.Random) -> bytes:
    """The data with one to four changes: words replaced, swapped, doubled, cut, bytes flipped."""
    for _ in range(rng.randint(1, 4)):
        words = list(_WORDS.finditer(data))
        if not words:
            return rng.choice(_NASTY)
        one, other = rng.choice(words), rng.choice(words)
        if rng.random() < 0.7:  # a word of the same kind: most of these are still well-formed
            alike = [row.group() for row in words if row.group()[:2] == one.group()[:2]]
            if one.group()[:1].isdigit():
                alike += [b"0", b"1", b"3", b"31", b"32", b"2147483647", b"4294967295", b"0xffff"]
            data = data[: one.start()] + rng.choice(alike) + data[one.end() :]
            continue
        match rng.randrange(7):
            case 0:
                data = data[: one.start()] + rng.choice(_NASTY) + data[one.end() :]
            case 1:
                data = data[: one.start()] + other.group() + data[one.end() :]
            case 2:
                data = data[: one.start()] + data[one.end() :]
            case 3:
                begin, end = sorted((one.start(), other.end()))
                data = data[:end] + data[begin : min(end, begin + 2000)] + data[end:]
            case 4:
                begin, end = sorted((one.start(), other.end()))
                data = data[:begin] + data[min(end, begin + 200) :]
            case 5:
                place = rng.randrange(len(data))
                data = data[:place] + bytes((rng.randrange(256),)) + data[place + 1 :]
            case 6 if rng.random() < 0.1:
                data = data[: rng.randrange(len(data))]
    return data


def changed_words(words: list[str], rng: random.Random) -> list[str]:
    """The command line with a word replaced, left out or doubled."""
    words = list(words)
    place = rng.randrange(len(words))
    nasty = rng.choice(_NASTY).replace(b"\0", b"").decode("utf-8", "surrogateescape")
    match rng.randrange(4):
        case 0 | 1:
            words[place] = nasty
        case 2:
            del words[place]
        case _:
            words.insert(place, rng.choice(words))
    return words


def run_case(words: list[str]) -> tuple[int | str, str]:
    """The exit code of one command line, or what went wrong, and what was written."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))

    def late(*_: object) -> None:
        raise TimeoutError  # an OSError of no full disk: a bug, as the command line sees it

    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    code: int | str = "no exit"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    except TimeoutError:
        code = "slow"
    except BaseException as error:  # what the command line let through
        code = f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    for stream in (out, err):
        stream.flush()
    text = b"".join(s.buffer.getvalue() for s in (out, err)).decode("utf-8", "replace")  # type: ignore[attr-defined]
    if "TimeoutError" in text:
        code = "slow"
    elif re.search(r"error\[PW901\]|\"code\": \"PW901\"", text):
        found = re.search(r"internal error at ([^:]*:\d+: \w+)", text)
        code = f"PW901 {found.group(1) if found else ''}"
    elif "Traceback" in text:
        code = "traceback"
    elif re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text):
        code = "control character"
    return code, text


def main_fuzz() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="Folder for the cases that went wrong.")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    lines, bases = list(command_lines()), base_files()
    warnings.simplefilter("ignore")
    codes: collections.Counter[str] = collections.Counter()
    kinds: dict[str, list[str]] = {}
    end = time.monotonic() + given.seconds
    cases = 0
    slowest = 0.0
    while time.monotonic() < end:
        words = rng.choice(lines)
        names = [word for word in words if word in bases]
        texts = names + names[:1]  # the PTX more often
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for name, data in bases.items():
                Path(name).write_bytes(data)
            if names and rng.random() < 0.75:
                name = rng.choice(texts)
                Path(name).write_bytes(changed(bases[name], rng))
            else:
                words = changed_words(words, rng)
            if "facts.toml" in words and names:
                digest = hashlib.sha256(Path(names[0]).read_bytes()).hexdigest()
                facts = Path("facts.toml").read_bytes()
                Path("facts.toml").write_bytes(f'ptx = "sha256:{digest}"\n'.encode() + facts)
            begin = time.process_time()
            code, text = run_case(words)
            slowest = max(slowest, time.process_time() - begin)
            cases += 1
            codes[str(code) if code in (0, 1, 2) else "wrong"] += 1
            if code not in (0, 1, 2) and str(code) not in kinds:
                kinds[str(code)] = words
                if given.keep is not None:
                    _keep(given.keep / f"case{len(kinds)}", words, str(code), text)
    print(f"seed {given.seed}: {cases:,} cases of {len(lines)} command lines")
    print("exit codes " + ", ".join(f"{code}: {count:,}" for code, count in sorted(codes.items())))
    print(f"slowest case {slowest:.1f} s of processor time")
    for kind, words in kinds.items():
        print(f"WRONG {kind}: {json.dumps(words)[:300]}")
    sys.exit(1 if kinds else 0)


def _keep(place: Path, words: list[str], code: str, text: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for word in words:
        if word in base_files() and Path(word).exists():
            (place / word).write_bytes(Path(word).read_bytes())
    (place / "case.txt").write_text(f"{json.dumps(words)}\n{code}\n\n{text}", errors="replace")


if __name__ == "__main__":
    main_fuzz()
