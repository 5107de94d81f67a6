"""Every option of every command changes what the command does, or is refused: none is passed over.

The click tree is walked: for each option there is a case, words that are run with and without it,
or a reason why there can be none.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import click
import command_tree as tree
import pytest
from places import SAMPLES
from programs import run_program

from ptxwcet.commands.page import command as report
from ptxwcet.dossier import command as dossier
from ptxwcet.methods.pwcet import command as pwcet
from ptxwcet.sweeps.results import command as sweep_report

Words = Mapping[str, str | None]
"""Options and their values; None for one that is left out. Arguments go by capitals."""

COMMANDS = dict(tree.all_commands())
LAUNCH: Words = {
    "FILE": "kernel.ptx",
    "--block": "256",
    "--grid": "4",
    "--param": "n=1000",
    "--machine": "titan-v",
}
BARE: Words = dict.fromkeys(LAUNCH)
LAUNCHED: Words = {
    "FILE": "kernel.ptx",
    "--block": None,
    "--grid": None,
    "--param": None,
    "--launch": "l.toml",
    "--machine": "orin-ecrts2025-16sm",
}
# What a command is run with, beside what all that take a launch are run with.
BASES: dict[str, Words] = {
    "validate attack": {"NAMES": "blocks", "--cases": "1", "--workers": "1", "-o": "out"},
    "bound": {"FILE": None, "FILES": "kernel.ptx"},
    "check": {"PLAN": "ptxwcet.toml", "--workers": "1"},
    "validate certificates": {"REPORT": "old.json", "FILE": "kernel.ptx"},
    "compare": {"FILE": None, "OLD": "kernel.ptx", "NEW": "loops.ptx:loop_up"},
    "report dossier": {"-o": "out.json", "--selftest": "none"},
    "explain": {"CODE": "PW203"},
    "hybrid": {**LAUNCHED, "--policy": "gto"},
    "instrument import": {"SIDECAR": "kernel.instr.json", "DUMPS": "kernel.bin", "-o": "out.csv"},
    "instrument": {"FILE": "kernel.ptx", "-o": "out.ptx"},
    "machine check": {"PATH": "mine.toml"},
    "machine": {"NAME": "titan-v"},
    "machine measure": {"-o": "out"},
    "machine microbenchmarks": {"-o": "out"},
    "machine new": {"NAME": "mine", "MODEL": "titan-v", "-o": "out.toml"},
    "makespan": {
        "--machine": "orin-ecrts2025",
        "--load-store": "1",
        "--cores": "1",
        "--method": "closed-form",
    },
    "pwcet": {"FILES": "times.csv", "--unit": "cycles"},
    "instrument record": {"FILE": "kernel.instr.ptx", "--launch": "l.toml", "-o": "out.bin"},
    "report": {"-o": "out.html", "--no-simulate": ""},
    "run": {"FILE": "kernel.ptx", "--launch": "l.toml"},
    "validate tool": {"--cases": "1"},
    "sequence": {"FILE": "frame.toml", "--machine": "titan-v"},
    "simulate": {"--policy": "lrr"},
    "sweep": {"PLAN": "sweep.toml", "-o": "out", "--workers": "1"},
    "sweep report": {"RESULTS": "results.parquet"},
    "simulate launch": {**LAUNCHED, "--policy": "lrr", "-o": "out.csv"},
    "validate": {"--runs": "1", "--timeout": "2"},
    "what-if": {"--set": "fma.latency=2"},
}
NO_N: Words = {"--param": None}
DATA: Words = {**BARE, "FILE": "scan.ptx", "--launch": "scan.toml"}
STRING: Words = {**dict.fromkeys((*LAUNCH, "--method")), "FILE": "LCLLC", "--warps": "40"}
DRAWN: Words = {
    "FILES": "kernel.ptx",
    "--unit": None,
    "--launch": "l.toml",
    "--runs": "1000",
    "--policy": "lrr",
    "--jitter": "20",
    "--inputs": "1",
    "--machine": "orin-ecrts2025-16sm",
}
# Beside the option: its value, and how the words are others than the command's usual ones.
Case = tuple[str, Words]
SHARED: dict[str, Case] = {
    "--kernel": ("no_such", {}),
    "--link": ("kernel.ptx", {}),
    "--arch": ("sm_86", {}),
    "--machine-code": ("", {}),
    "--nvcc-options": ("-DN=1", {}),
    "--block": ("128", {"--block": None}),
    "--grid": ("4", {"--grid": None}),
    "--param": ("n=9", NO_N),
    "--launch": ("l.toml", {**BARE, "FILE": "kernel.ptx"}),
    "--source": ("other.cu", {}),
    "--loop-bound": ("$L__BB0_2=3", NO_N),
    "--facts": ("facts.toml", NO_N),
    "--machine": ("jetson-agx-orin", {"--machine": None}),
    "--mem-latency": ("777", {}),
    "--on-unknown": ("worst", {"FILE": "odd.ptx", "--param": "0=9"}),
    "--sms": ("2", {}),
    "--resident-blocks": ("1", {}),
    "--registers": ("64", {"--grid": "4000"}),
    "--dynamic-shared": ("49152", {"--grid": "4000"}),
    "--co-runner": ("65536,20", {}),
    "--format": ("json", {}),
    "--output": ("written", {}),
    "--budget": ("3", {}),
    "--require": ("safe-bound", {"--machine": "rtx3070-gpgpusim"}),
    "--seed": ("7", {}),
    "--workers": ("0", {"--workers": None}),
    "--jitter": ("50", {}),
    "--policy": ("oldest", {"--policy": None}),
    "--runs": ("3", {}),
    "--max-instructions": ("5", {}),
    "--timeout": ("-1", {}),
}
CASES: dict[tuple[str, str], Case] = {
    ("bound", "--on-unknown"): ("worst", {"FILES": "odd.ptx", "--param": "0=9"}),
    ("bound", "--launch"): ("l.toml", dict.fromkeys(LAUNCH)),
    ("bound", "--method"): ("scheduled", {"--policy": "lrr"}),
    ("bound", "--executed"): ("", {**DATA, "FILE": None, "FILES": "scan.ptx"}),
    ("bound", "--details"): ("", {}),
    ("bound", "--explain"): ("", {}),
    ("bound", "--symbolic"): ("n=1..9", NO_N),
    ("annotate", "--ptx"): ("", {}),
    ("annotate", "--at"): ("kernel.cu:4", {}),
    ("validate attack", "--cases"): ("2", {"--cases": None}),
    ("validate attack", "--resume"): ("", {"-o": "kept"}),
    ("cfg", "--divergent"): ("published", {**BARE, "FILE": "block_reduce.ptx"}),
    ("cfg", "--format"): ("text", {}),
    ("check", "--cache"): ("kernel.ptx", {}),
    ("compare", "--launch"): ("l.toml", {**BARE, "NEW": "kernel.ptx"}),
    ("compare", "--on-unknown"): ("worst", {"OLD": "odd.ptx", "--param": "0=9"}),
    ("compare", "--threshold"): (
        "9999%",
        {**BARE, "OLD": "old.json", "NEW": "worse.json"},
    ),
    ("report dossier", "--selftest"): ("none", {"--selftest": None, "--cases": "1"}),
    ("report dossier", "--cases"): ("1", {}),
    ("report dossier", "--format"): ("json", {"-o": "out"}),
    ("explain", "--format"): ("markdown", {}),
    ("facts", "--machine"): (
        "jetson-agx-orin",
        {"FILE": "copies.ptx", "--block": "16x16", "--param": "5=64"},
    ),
    ("hybrid", "--grid"): ("5", {}),
    ("hybrid", "--launch"): ("l.toml", {"--launch": None}),
    ("hybrid", "--on-unknown"): ("worst", {"FILE": "odd.ptx", "--launch": "odd.toml"}),
    ("hybrid", "--resident-blocks"): ("1", {"--machine": "orin-ecrts2025"}),
    ("hybrid", "--registers"): ("200", {"--launch": "many.toml"}),
    ("hybrid", "--trace"): ("t.csv", {"--policy": None}),
    ("hybrid", "--save"): ("saved.csv", {}),
    ("hybrid", "--probability"): ("0.5", {}),
    ("hybrid", "--picture"): ("graph.dot", {}),
    ("instrument", "--at"): ("$L__BB0_2", {}),
    ("makespan", "--warps"): ("4", {**BARE, "FILE": "LCL"}),
    ("makespan", "--load-store"): ("1/2", {"--load-store": None}),
    ("makespan", "--cores"): ("1/2", {"--cores": None}),
    ("makespan", "--method"): ("extrapolate:2", STRING),
    ("makespan", "--picture"): ("slots.svg", {}),
    ("annotate phases", "--warp"): ("3", {}),
    ("pwcet", "--unit"): ("ns", {"--unit": None}),
    ("pwcet", "--column"): ("2,which", {"FILES": "two.csv"}),
    ("pwcet", "--counter-bits"): ("64", {"FILES": "pairs.csv", "--unit": None}),
    ("pwcet", "--link"): ("kernel.ptx", DRAWN),
    ("pwcet", "--launch"): ("l.toml", {**DRAWN, "--launch": None}),
    ("pwcet", "--runs"): ("1001", {**DRAWN, "--runs": None}),
    ("pwcet", "--inputs"): ("2", {**DRAWN, "--inputs": None}),
    ("pwcet", "--policy"): ("gto", {**DRAWN, "--policy": None}),
    ("pwcet", "--jitter"): ("40", {**DRAWN, "--jitter": None}),
    ("pwcet", "--launch-gap"): ("50", DRAWN),
    ("pwcet", "--sms"): ("2", DRAWN),
    ("pwcet", "--resident-blocks"): ("1", DRAWN),
    ("pwcet", "--registers"): ("64", DRAWN),
    ("pwcet", "--machine"): ("titan-v", {**DRAWN, "--machine": None}),
    ("pwcet", "--seed"): ("7", DRAWN),
    ("pwcet", "--extremes"): ("bm", {}),
    ("pwcet", "--shape"): ("free", {}),
    ("pwcet", "--estimator"): ("pwm", {}),
    ("pwcet", "--probability"): ("1e-4", {"--force": ""}),
    ("pwcet", "--level"): ("0.2", {}),
    ("pwcet", "--confidence"): ("0.8", {"--force": ""}),
    ("pwcet", "--lags"): ("9", {}),
    ("pwcet", "--force"): ("", {"FILES": "trend.csv"}),
    ("pwcet", "--static-bound"): ("times=2000", {}),
    ("pwcet", "--format"): ("html", {}),
    ("pwcet", "--picture"): ("plots/p.svg", {}),
    ("pwcet", "--save"): ("drawn.csv", DRAWN),
    ("instrument record", "--launch"): ("l.toml", {"--launch": None}),
    ("run", "--launch"): ("l.toml", {"--launch": None}),
    ("run", "--format"): ("json", {}),
    ("instrument record", "--device"): ("gpu", {}),
    ("instrument record", "--buffer-mib"): ("1", {"--buffer-mib": None}),
    ("report", "--no-simulate"): ("", {"--no-simulate": None}),
    ("run", "--paths"): ("paths.jsonl", {}),
    ("validate tool", "--cases"): ("2", {"--cases": None, "--timeout": "0"}),
    ("validate tool", "--timeout"): ("-1", {"--cases": None}),
    ("simulate", "--seed"): ("7", {"--policy": "random"}),
    ("simulate", "--path-seed"): (
        "3",
        {**BARE, "FILE": "mandelbrot.ptx", "--launch": "m.toml", "--machine": "titan-v"},
    ),
    ("simulate", "--timeline"): ("run.json", {}),
    ("simulate", "--picture"): ("run.png", {}),
    ("simulate", "--events"): ("3", {"--timeline": "run.json"}),
    ("simulate", "--executed"): ("", DATA),
    ("sweep", "--resume"): ("", {"-o": "kept"}),
    ("sweep", "--cache"): ("kernel.ptx", {}),
    ("sweep report", "--best"): ("1", {}),
    ("sweep report", "--only"): ("machine=titan-v", {}),
    ("sweep report", "--per"): ("block", {}),
    ("sweep report", "--map"): ("threads", {"--format": "json"}),
    ("sweep report", "--format"): ("html", {}),
    ("sweep report", "--picture"): ("plots/p.png", {}),
    ("simulate launch", "--launch"): ("l.toml", {"--launch": None}),
    ("simulate launch", "--block"): ("64", {"--launch": None, "--grid": "4", "--param": "n=9"}),
    ("simulate launch", "--grid"): ("2", {"--launch": None, "--block": "64", "--param": "n=9"}),
    ("simulate launch", "--param"): ("n=9", {"--launch": None, "--block": "64", "--grid": "4"}),
    ("simulate launch", "--on-unknown"): ("worst", {"FILE": "odd.ptx", "--launch": "odd.toml"}),
    ("simulate launch", "--registers"): ("200", {"--machine": "orin-ecrts2025"}),
    ("simulate launch", "--seed"): ("7", {"--policy": "random"}),
    ("simulate launch", "--max-instructions"): ("5", {"--executed": ""}),
    ("simulate launch", "--launch-gap"): ("100", {}),
    ("simulate launch", "--events"): ("1", {}),
    ("simulate launch", "--executed"): ("", {}),
    ("validate", "--jitter"): ("101", {}),
    ("validate", "--runs"): ("4", {"--runs": None}),
    ("validate", "--inputs"): ("1", DATA),
    ("validate", "--attack"): ("1", DATA),
    ("what-if", "--set"): ("fma.latency=9", {"--set": None}),
}
# Nothing can be seen of these, or they are seen elsewhere.
REASONS: dict[tuple[str, str], str] = {
    ("machine measure", "--output"): "without a GPU nothing is measured",
}


def words_of(words: Words) -> list[str]:
    """Options and arguments as they are typed."""
    typed = []
    for key, value in words.items():
        if value is not None:
            typed += [*([key] if key.startswith("-") else []), *([value] if value else [])]
    return typed


def base_of(command: str) -> dict[str, str | None]:
    takes_launch = any(one.name == "loop_bounds" for one in COMMANDS[tuple(command.split())].params)
    has_machine = any(one.name == "machine" for one in COMMANDS[tuple(command.split())].params)
    shared = LAUNCH if takes_launch else {}
    base = {**shared, **BASES.get(command, {})}
    return {key: value for key, value in base.items() if key != "--machine" or has_machine}


def case_of(command: str, option: str) -> Case:
    return CASES.get((command, option)) or SHARED[option]


@cache
def outcome(command: str, words: tuple[str, ...]) -> tuple[object, ...]:
    """Exit code, what is printed and what is written, which is removed again."""
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    ended = run_program(*command.split(), *words)
    written = {}
    for path in sorted(Path().rglob("*"), reverse=True):
        if path.is_file() and before.get(path) != path.stat().st_mtime_ns:
            written[str(path)] = path.read_bytes()
        if path not in before:
            path.rmdir() if path.is_dir() else path.unlink()
    out, err = (TIMES.sub("", one) for one in (ended.out, ended.err))
    return ended.code, out, err, tuple(sorted(written.items()))


TIMES = re.compile(r"^.*\b(at work for|after) \d+ s.*\n|in [\d.]+ s \(.*/s\)", re.MULTILINE)
"""What is told of the time that a command takes."""

PAIRS = [
    (" ".join(words), (one.secondary_opts or one.opts)[-1])
    for words, command in COMMANDS.items()
    for one in command.params
    if isinstance(one, click.Option) and one.name not in ("quiet", "verbose", "color")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with all files that the cases name."""
    folder = tmp_path_factory.mktemp("options")
    for name in ("saxpy", "loops", "scan", "block_reduce", "mandelbrot"):
        for suffix in (".ptx", ".cu"):
            kept = "kernel" if name == "saxpy" else name
            shutil.copy(SAMPLES / f"{name}{suffix}", folder / f"{kept}{suffix}")
    shutil.copy(SAMPLES / "launches/saxpy.toml", folder / "l.toml")
    shutil.copy(SAMPLES / "launches/scan.toml", folder / "scan.toml")
    shutil.copy(SAMPLES / "sweep/results.parquet", folder / "results.parquet")
    text = (SAMPLES / "vector_add.ptx").read_text()
    (folder / "odd.ptx").write_text(text.replace("add.f32", "frobnicate.f32"))
    (folder / "other.cu").write_text(
        "__global__ void saxpy(int count, float a, float *x, float *y) {}\n"
    )
    (folder / "facts.toml").write_text("[parameters]\nn = 5\n")
    shutil.copy(SAMPLES / "sgemm_cp_async.ptx", folder / "copies.ptx")
    (folder / "info.txt").write_text(
        "ptxas info    : Compiling entry function 'saxpy' for 'sm_80'\n"
        "ptxas info    : Used 64 registers, 380 bytes cmem[0]\n"
    )
    (folder / "odd.toml").write_text(
        'kernel = "vector_add"\ngrid = 1\nblock = 32\n[arguments]\n3 = 9\n'
        + "".join(f'{p} = {{ shape = 64, dtype = "float32", init = "ones" }}\n' for p in range(3))
    )
    many = (SAMPLES / "launches/saxpy.toml").read_text().replace("block = 64", "block = 256")
    (folder / "many.toml").write_text(many.replace("grid = 4", "grid = 40"))
    shutil.copy(SAMPLES / "launches/mandelbrot.toml", folder / "m.toml")
    (folder / "frame.toml").write_text('[[launch]]\nfile = "kernel.ptx"\nlaunch = "l.toml"\n')
    sweep = '[[sweep]]\nfiles = "kernel.ptx"\nblock = 64\ngrid = 4\nparams = { n = 999 }\n'
    (folder / "sweep.toml").write_text(sweep)
    (folder / "ptxwcet.toml").write_text('[[check]]\nfiles = "kernel.ptx"\nlaunch = "l.toml"\n')
    times = ["cycles", *(str(1000 + (k * k * 7919) % 97 + k % 13) for k in range(2000))]
    (folder / "times.csv").write_text("\n".join(times) + "\n")
    (folder / "mine.toml").write_text('schema = 1\nextends = "titan-v"\nname = "mine"\n')
    two = (f"{1000 + k * 7919 % 97},{2000 + k * 104729 % 89},{k % 2}" for k in range(2000))
    (folder / "two.csv").write_text("\n".join(("cycles,others,which", *two)) + "\n")
    (folder / "trend.csv").write_text("\n".join(("cycles", *map(str, range(1000, 3000)))))
    pairs = (
        f"{k},0,{2**33 + k * 5000},{2**33 + k * 5000 + 1000 + k * 7919 % 97}" for k in range(1200)
    )
    (folder / "pairs.csv").write_text("\n".join(("run,sm,start,end", *pairs)) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SOURCE_DATE_EPOCH", "0")
        for module in (dossier, pwcet, report, sweep_report):
            patch.setattr(module, "command_line", lambda: "ptxwcet")
        for name, n in (("old", 99), ("new", 99), ("worse", 4000)):
            words = ("kernel.ptx", "--block", "256", "--grid", "4", "--param", f"n={n}")
            run_program("bound", *words, "--format", "json", "-o", f"{name}.json")
        run_program("instrument", "kernel.ptx", "-o", "kernel.instr.ptx")
        run_program(
            "instrument", "record", "kernel.instr.ptx", "--launch", "l.toml", "-o", "kernel.bin"
        )
        run_program(
            *(
                "simulate",
                "launch",
                "kernel.ptx",
                "--launch",
                "l.toml",
                "--policy",
                "gto",
                "-o",
                "t.csv",
            )
        )
        yield folder
    outcome.cache_clear()


def test_there_is_a_case_or_a_reason_for_each_option() -> None:
    assert len(PAIRS) > 380
    missing = [pair for pair in PAIRS if pair not in {**CASES, **REASONS} and pair[1] not in SHARED]
    assert missing == []
    assert set(CASES) | set(REASONS) <= set(PAIRS)


@pytest.mark.every(32)
@pytest.mark.parametrize(("command", "option"), [pair for pair in PAIRS if pair not in REASONS])
def test_an_option_counts(command: str, option: str, folder: Path) -> None:
    value, changes = case_of(command, option)
    base = {**base_of(command), **changes}
    typed = {**base, option: value}
    if option == "--output":
        typed.pop("-o", None)
    without = outcome(command, tuple(words_of(base)))
    assert outcome(command, tuple(words_of(typed))) != without
