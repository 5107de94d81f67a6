"""``ptxwcet instrument``, ``instrument record`` and ``instrument import``, end to end."""

import json
from pathlib import Path

import pytest
from places import SAMPLES
from programs import run_program

from ptxwcet.trace.files import read_trace

pytestmark = pytest.mark.fast

SCAN = str(SAMPLES / "scan.ptx")
LAUNCH = ("--launch", str(SAMPLES / "launches/scan.toml"), "--source", str(SAMPLES / "scan.cu"))


def test_from_ptx_to_a_trace(tmp_path: Path) -> None:
    out, dump = tmp_path / "scan.instr.ptx", tmp_path / "scan.bin"
    code, text, err = run_program("instrument", SCAN, "-o", out)
    assert (code, err) == (0, "")
    assert text.splitlines() == [
        f"written    {out}, {tmp_path / 'scan.instr.json'}",
        "kernel     scan: points at 6 blocks and 1 end, 179 instructions added",
        "added      to each kernel: registers 2 .pred, 4 .b32, 4 .b64 (2 .b32 are live between "
        "points), 39 instructions at its entry",
        "           to each point: 20 instructions, no branch",
        "           parameters at the end: .u64 ptxwcet_buffer, .u64 ptxwcet_chunks",
        "total      7 points, 179 instructions",
    ]
    code, text, err = run_program("instrument", "record", out, *LAUNCH, "-o", dump)
    assert (code, err) == (0, "")
    assert text == f"{dump}: {dump.stat().st_size:,} bytes of scan\n"
    sidecar = tmp_path / "scan.instr.json"
    for name in ("t.csv", "t.npz"):
        trace = tmp_path / name
        code, text, err = run_program("instrument", "import", sidecar, dump, dump, "-o", trace)
        assert (code, err) == (0, "")
        assert text == (
            f"{trace}: 194 events of scan in 2 runs on 1 multiprocessor, times in instructions\n"
        )
        found = read_trace(trace)
        assert (len(found), found.runs.tolist()) == (194, [0, 97])
        assert [point.label for point in found.ipoints][-1] == "end"
    code, text, err = run_program("hybrid", SCAN, "--trace", tmp_path / "t.csv")
    assert (code, err) == (0, "")
    assert "2 runs, 1 multiprocessor, 8 warps, 194 events" in text
    assert "times in instructions by emulator" in text
    assert "loop $L__BB0_2 (scan.cu:9), at most 6 iterations an entry" in text


def test_json_is_the_description(tmp_path: Path) -> None:
    out, sidecar = tmp_path / "a.ptx", tmp_path / "a.json"
    arguments = ("-o", out, "--at", "$L__BB0_2,every-block")
    assert run_program("instrument", SCAN, *arguments)[0] == 2
    arguments = ("-o", out, "--at", "$L__BB0_2", "--format", "json")
    code, text, _ = run_program("instrument", SCAN, *arguments)
    assert code == 0
    data = json.loads(text)
    assert data == json.loads(sidecar.read_text())
    (kernel,) = data["kernels"]
    assert [point["label"] for point in kernel["points"]] == ["entry", "$L__BB0_2", "end"]
    added = kernel["added"]
    assert added["instructions"] == 39 + 20 * 3
    assert (added["inserted_points"], added["registers"]["b32"]) == (3, 4)
    code, text, _ = run_program("instrument", SCAN, "-o", out, "--at", "every-block")
    assert "points at 6 blocks" in text


def test_files_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "scan.ptx"
    path.write_text(Path(SCAN).read_text())
    code, _, err = run_program("instrument", path, "-o", path)
    assert (code, "would replace" in err) == (2, True)
    assert path.read_text() == Path(SCAN).read_text()
    code, _, err = run_program("instrument", path, "-o", tmp_path / "o.json")
    assert (code, "would write the same file" in err) == (2, True)


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.symlink_to("/dev/null")
    code, _, err = run_program("instrument", SCAN, "-o", nowhere)
    assert (code, err) == (0, "")
    assert nowhere.is_symlink()


def test_problems_are_diagnostics(tmp_path: Path) -> None:
    out, dump = tmp_path / "k.ptx", tmp_path / "k.bin"
    code, _, err = run_program("instrument", SCAN, "-o", out, "--at", "nowhere")
    assert (code, out.exists()) == (2, False)
    assert "error[PW651]: no block 'nowhere' that is reached in scan" in err
    code, _, err = run_program("instrument", SCAN, "-o", tmp_path / "none" / "k.ptx")
    assert code == 2
    assert "there is no folder" in err
    assert run_program("instrument", SCAN, "-o", out)[0] == 0
    described = tmp_path / "k.json"
    kept = described.read_text()
    described.unlink()
    code, _, err = run_program("instrument", "record", out, *LAUNCH, "-o", dump)
    assert (code, f"cannot read '{described}'" in err) == (1, True)
    described.write_text(kept)
    out.write_text(out.read_text() + "\n")
    code, _, err = run_program("instrument", "record", out, *LAUNCH, "-o", dump)
    assert (code, dump.exists()) == (1, False)
    assert f"error[PW653]: '{out}' is not the file that" in err
    code, _, err = run_program("instrument", "import", tmp_path / "k.json", out, "-o", "t.csv")
    assert (code, "error[PW654]" in err) == (1, True)


def test_nothing_is_given_in_vain(tmp_path: Path) -> None:
    arguments = (*LAUNCH, "-o", tmp_path / "k.bin", "--device", "gpu")
    code, _, err = run_program("instrument", "record", SCAN, *arguments, "--max-instructions", "5")
    assert (code, "nothing counts on a GPU" in err) == (2, True)
    assert run_program("instrument", SCAN, "-o", tmp_path / "k.ptx")[0] == 0
    limit = (*arguments[:-2], "--max-instructions", "5")
    code, _, err = run_program("instrument", "record", tmp_path / "k.ptx", *limit)
    assert (code, "error[PW411]" in err) == (1, True)


def test_a_run_with_findings_is_no_recording(tmp_path: Path) -> None:
    """The launch file leaves a part of the input out: the kernel reads outside of its array."""
    launch = tmp_path / "scan.toml"
    text = (SAMPLES / "launches/scan.toml").read_text()
    launch.write_text(text.replace("in = { shape = 128", "in = { shape = 64"))
    out, dump = tmp_path / "k.ptx", tmp_path / "k.bin"
    assert run_program("instrument", SCAN, "-o", out)[0] == 0
    arguments = ("--launch", launch, *LAUNCH[2:], "-o", dump)
    code, _, err = run_program("instrument", "record", out, *arguments)
    assert (code, dump.exists()) == (1, False)
    assert "error[PW430]" in err


def test_wrong_results_are_said_and_the_dump_is_kept(tmp_path: Path) -> None:
    launch = tmp_path / "scan.toml"
    text = (SAMPLES / "launches/scan.toml").read_text()
    launch.write_text(text.replace("start = 1, step = 1", "start = 2, step = 1"))
    out, dump = tmp_path / "k.ptx", tmp_path / "k.bin"
    assert run_program("instrument", SCAN, "-o", out)[0] == 0
    code, _, err = run_program(
        "instrument", "record", out, "--launch", launch, *LAUNCH[2:], "-o", dump
    )
    assert (code, dump.exists(), "error[PW428]" in err) == (1, True, True)


def test_cuda_names_come_from_the_source_beside(tmp_path: Path) -> None:
    out, dump = tmp_path / "k.ptx", tmp_path / "k.bin"
    assert run_program("instrument", SCAN, "-o", out)[0] == 0
    assert run_program("instrument", "record", out, *LAUNCH[:2], "-o", dump)[0] == 1
    (tmp_path / "scan.cu").write_text((SAMPLES / "scan.cu").read_text())
    assert run_program("instrument", "record", out, *LAUNCH[:2], "-o", dump)[0] == 0
