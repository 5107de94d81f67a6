"""Launches one after the other: their sum, what it rests on, and what is refused."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import jsonschema
import pytest

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.claims import Guarantee
from ptxwcet.cli.main import main
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.commands.sequence.study import bound_sequence
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

SAMPLES = Path(__file__).parents[2] / "samples"
MANY = "orin-ecrts2025-16sm"
ONE = 'file = "{samples}/vector_add.ptx"\nblock = "256"\ngrid = "8"\nregisters = 16\n'


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out), pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue()


def written(tmp_path: Path, *launches: str) -> str:
    path = tmp_path / "frame.toml"
    text = "".join(f"[[launch]]\n{one}\n" for one in launches)
    path.write_text(text.replace("{samples}", str(SAMPLES)))
    return str(path)


def problem(path: str) -> tuple[str, str, int | None]:
    with pytest.raises(PtxwcetError) as caught:
        bound_sequence(path)
    found = caught.value.diagnostics[0]
    return found.code, found.message, None if found.span is None else found.span.line


def test_keys_of_all_launches_stand_at_the_top(tmp_path: Path) -> None:
    """As in plans of checks and sweeps; what a launch says itself counts more."""
    path = Path(written(tmp_path, ONE))
    for top, told in (
        ("arch = 86\n", "arch is a text"),
        ("machine_code = 1\n", "machine_code is true or false"),
        ('archh = "sm_86"\n', "unknown key archh"),
    ):
        path.write_text(top + Path(written(tmp_path, ONE)).read_text())
        assert problem(str(path)) == ("PW550", told, 1)
    written(tmp_path, ONE)
    path.write_text('arch = "sm_86"\n' + path.read_text())  # PTX has no use for it
    assert bound_sequence(str(path), MANY).claim.cycles > 0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the PATH")
def test_the_architecture_at_the_top_is_that_of_all_cuda_source(tmp_path: Path) -> None:
    launch = 'file = "{samples}/saxpy.cu"\nblock = "64"\ngrid = "4"\nparams = { n = 256 }\n'
    path = Path(written(tmp_path, launch, launch + 'arch = "sm_80"\n'))
    assert problem(str(path))[0] == "PW120"  # the first one has none
    path.write_text('arch = "sm_86"\n' + path.read_text())
    of_ptx = bound_sequence(str(path), MANY).claim
    if shutil.which("nvdisasm") is not None:
        path.write_text("machine_code = true\n" + path.read_text())
        of_code = bound_sequence(str(path), "jetson-agx-orin").claim
        keys = {one.key for one in of_code.assumptions}
        assert "machine-code-is-executed" in keys
        assert of_code.cycles != of_ptx.cycles


def test_the_sum_of_the_sample() -> None:
    bound = bound_sequence(str(SAMPLES / "frame.toml"), MANY)
    sgemm, histogram = bound.launches
    assert (sgemm.times, sgemm.bound.claim.cycles) == (2, 8_556_928)
    assert bound.claim.cycles == 2 * 8_556_928 + histogram.bound.claim.cycles
    assert bound.claim.guarantee is Guarantee.SAFE_BOUND
    keys = [one.key for one in bound.claim.assumptions]
    assert "launches-in-order" in keys
    assert "registers-per-thread" in keys
    request = Request(
        str(SAMPLES / "histogram.ptx"),
        ("histogram",),
        "256",
        "8",
        ("n=100000",),
        machine=MANY,
        gpu=GridWishes(registers=8),
    )
    (alone,) = bound_file(request).answered
    assert isinstance(alone.launch_bound, LaunchBound)
    assert alone.launch_bound.claim.cycles == histogram.bound.claim.cycles


def test_many_repetitions_cost_nothing(tmp_path: Path) -> None:
    once = bound_sequence(written(tmp_path, ONE)).claim
    assert "launches-in-order" not in {one.key for one in once.assumptions}
    many = bound_sequence(written(tmp_path, ONE + "times = 1000000000\n", ONE))
    assert many.claim.cycles == 1_000_000_001 * once.cycles
    assert many.launches[0].row is many.launches[1].row


def test_launches_of_one_stream_only(tmp_path: Path) -> None:
    path = written(tmp_path, ONE + 'stream = "a"\n', ONE + 'stream = "b"\n')
    assert problem(path) == (
        "PW551",
        "launches of 2 streams may overlap: their bounds do not add up",
        13,
    )
    assert problem(written(tmp_path, ONE + 'stream = "a"\n', ONE))[0] == "PW551"
    assert bound_sequence(written(tmp_path, ONE + 'stream = "a"\n', ONE + 'stream = "a"\n'))


@pytest.mark.parametrize(
    ("launch", "message", "line"),
    [
        (ONE + "times = 0\n", "launch 1: times is a whole number from 1 to", 6),
        (ONE + "times = true\n", "launch 1: times is a whole number from 1 to", 6),
        (ONE + 'tims = "2"\n', "launch 1: unknown key tims", 6),
        ('grid = "8"\n', "launch 1: file is missing", 1),
        ("file = 8\n", "launch 1: file is a text", 2),
        (ONE + "params = { n = [1] }\n", "launch 1: params is a table", 6),
        ('file = "{samples}/loops.ptx"\nblock = "64"\n', "has 16 kernels", 1),
        ('file = "{samples}/scan.ptx"\nblock = "64"\n', "the grid of kernel scan is not known", 1),
    ],
)
def test_malformed_launches(launch: str, message: str, line: int, tmp_path: Path) -> None:
    code, found, place = problem(written(tmp_path, launch))
    assert code == "PW550"
    assert message in found
    assert place == line


def test_files_that_are_no_sequences(tmp_path: Path) -> None:
    path = tmp_path / "frame.toml"
    for text in ("", "launch = 1", "[launch]\nfile = 'k'", "other = 1", "[[launch", "launch = [1]"):
        path.write_text(text)
        assert problem(str(path))[0] == "PW550"
    assert problem(str(tmp_path))[0] == "PW550"
    path.write_text("[[launch]]\nfile = 'missing.ptx'\n")
    assert problem(str(path))[0] == "PW112"


def test_every_launch_without_a_bound_says_why(tmp_path: Path) -> None:
    broken = 'file = "{samples}/saxpy.ptx"\nblock = "64"\ngrid = "4"\n'
    large = ONE.replace("16", "255").replace('"256"', '"1024"')
    with pytest.raises(PtxwcetError) as caught:
        bound_sequence(written(tmp_path, broken, ONE, large))
    assert [one.code for one in caught.value.diagnostics] == ["PW203", "PW316"]


@pytest.mark.parametrize("seed", range(20))
def test_damaged_files_give_diagnostics(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = (SAMPLES / "frame.toml").read_text(encoding="utf-8")
    path = tmp_path / "frame.toml"
    for _ in range(20):
        place = rng.randrange(len(text))
        damaged = (
            text[:place] + rng.choice(('"', "[", "=", "0", "{", "\n", "x")) + text[place + 1 :]
        )
        path.write_text(damaged.replace("sgemm_naive", "none").replace("histogram.ptx", "none"))
        with pytest.raises(PtxwcetError):
            bound_sequence(str(path))


@pytest.mark.parametrize("name", ["frame.toml", "kernel.ptx", "launch.toml", "kernel.cu"])
def test_no_output_replaces_what_is_read(name: str, tmp_path: Path) -> None:
    for copied, source in (
        ("kernel.ptx", "saxpy.ptx"),
        ("kernel.cu", "saxpy.cu"),
        ("launch.toml", "launches/saxpy.toml"),
    ):
        (tmp_path / copied).write_bytes((SAMPLES / source).read_bytes())
    frame = tmp_path / "frame.toml"
    frame.write_text('[[launch]]\nfile = "kernel.ptx"\nlaunch = "launch.toml"\n')
    before = (tmp_path / name).read_bytes()
    assert run("sequence", str(frame), "-o", str(tmp_path / name))[0] == 2
    assert (tmp_path / name).read_bytes() == before
    assert run("sequence", str(frame), "-o", str(tmp_path / "report.txt"))[0] == 0


def test_the_command() -> None:
    frame = str(SAMPLES / "frame.toml")
    code, text = run("sequence", frame, "--machine", MANY)
    assert code == 0
    assert "SEQUENCE   <= 17,1" in text
    assert "2 x    8,556,928" in text
    assert "each launch starts when the one before it has ended" in text
    code, text = run("sequence", frame, "--machine", MANY, "--format", "json")
    data = json.loads(text)
    jsonschema.Draft202012Validator(schema_of("sequence")).validate(data)
    assert sum(row["total_cycles"] for row in data["launches"]) == data["cycles"]
    cycles = data["cycles"]
    assert run("sequence", frame, "--machine", MANY, "-q")[1] == f"{frame} {cycles} safe-bound\n"
    assert run("sequence", frame, "--machine", MANY, "-q", "--budget", str(cycles))[0] == 0
    code, text = run("sequence", frame, "--machine", MANY, "-q", "--budget", str(cycles - 1))
    assert code == 1
    assert "PW520" in text


def test_an_estimate_is_no_proof_of_a_budget() -> None:
    frame = ("sequence", str(SAMPLES / "frame.toml"), "--machine", "rtx3070-gpgpusim", "-q")
    code, out = run(*frame)
    assert (code, out.split()[-1]) == (0, "estimate")
    code, out = run(*frame, "--budget", "1000 ms")
    assert (code, "PW521" in out, "PW520" in out) == (1, True, False)
    assert run(*frame, "--budget", "1000 ms", "--require", "estimate")[0] == 0
    assert run(*frame, "--budget", "1 ms", "--require", "estimate")[0] == 1


def test_launches_that_might_start_early_are_taken_not_to(tmp_path: Path) -> None:
    """Kernels with griddepcontrol are named in what the sum rests on; of one launch alone not."""
    for told, ordering in (("", ""), ("vector_add", "griddepcontrol.launch_dependents;\n")):
        text = (SAMPLES / "vector_add.ptx").read_text()
        text = re.sub(r"(\n\s*ret;)", rf"\n{ordering}\1", text)
        text = re.sub(r"\.target sm_\d+", ".target sm_90", text)
        (tmp_path / "add.ptx").write_text(text)
        one = ONE.replace("{samples}/vector_add.ptx", "add.ptx")
        twice = bound_sequence(written(tmp_path, one, ONE)).claim
        found = [each.text for each in twice.assumptions if each.key == "no-programmatic-launch"]
        assert [each.endswith(f": {told}") for each in found] == [True] * bool(told)
        assert "launches-in-order" in {each.key for each in twice.assumptions}
        alone = bound_sequence(written(tmp_path, one)).claim
        assert "no-programmatic-launch" not in {each.key for each in alone.assumptions}
