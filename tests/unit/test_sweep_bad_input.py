"""``ptxwcet sweep`` with schedulers, workers, folders and files that are not what they should be.

Never a traceback, a run without end, or a unit without a row.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback import (
    PATIENCE,
    Loopback,
    answers_in,
    await_that,
    cells_of,
    environment,
    loopback,
    send,
)
from places import PACKAGE, ROOT, SAMPLES
from programs import Ended, run_program

from ptxwcet.opened.inputs import Inputs
from ptxwcet.support.version import VERSION
from ptxwcet.sweeps import engine, sweep_run
from ptxwcet.sweeps.cell import close_cells

PLAN = """
machines = ["titan-v"]
{limits}
[[sweep]]
files = "{files}"
block = {blocks}
grid = "100"
params = {{ n = 3200 }}
registers = 12
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    for name in ("saxpy.ptx", "saxpy.cu"):  # the source names the parameters
        shutil.copy(SAMPLES / name, tmp_path)
    return write_plan(tmp_path)


def write_plan(
    folder: Path, files: str = "saxpy.ptx", blocks: str = "[32, 64]", limits: str = ""
) -> Path:
    path = folder / "sweep.toml"
    path.write_text(PLAN.format(files=files, blocks=blocks, limits=limits))
    return path


def swept(plan: Path, *options: object) -> Ended:
    return run_program("sweep", plan, "-o", plan.parent / "out", "--workers", 2, *options)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_plain(plan: Path) -> None:
    assert swept(plan)[::2] == (0, "")
    assert [row["outcome"] for row in rows(plan.parent / "out")] == ["bounded", "bounded"]


# --- schedulers and workers


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def asked_at(plan: Path, address: str) -> Ended:
    folder = plan.parent / "out"
    return run_program("sweep", plan, "-o", folder, "--workers", address)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://127.0.0.1:1", "Timed out trying to connect"),
        ("tcp://127.0.0.1", "missing port number"),
        ("foo://127.0.0.1:8", "unknown address scheme 'foo'"),
        ("inproc://127.0.0.1/1/2", "inproc address"),
        ("tls://127.0.0.1:1", "TLS expects"),
        ("tcp://no.such.host.invalid:8786", "Timed out trying to connect"),
    ],
)
def test_no_scheduler(plan: Path, address: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.CONNECT_SECONDS < 8  # with the time of starting, less than ten
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 2.0)
    ended = asked_at(plan, address)
    assert ended.code == 2
    assert ended.err.startswith(f"error[PW820]: no scheduler answers at '{address}': ")
    assert why in ended.err
    assert swept(plan).code == 0, "the folder is as free as before"


def test_nobody_speaks(
    plan: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 2.0)
    ended = asked_at(plan, f"tcp://127.0.0.1:{listener.getsockname()[1]}")
    assert (ended.code, "error[PW820]" in ended.err) == (2, True)
    assert "it takes the call, and says nothing" in ended.err


@pytest.mark.every(2)
@pytest.mark.parametrize("text", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 4096, b"\0" * 64])
def test_something_else_answers(
    plan: Path, listener: socket.socket, text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 2.0)
    answering = """\
import socket, sys
server = socket.socket(fileno=int(sys.argv[1]))
while True:
    call, _ = server.accept()
    try:
        call.sendall(bytes.fromhex(sys.argv[2]))
        call.close()
    except OSError:
        pass
"""
    number = listener.fileno()
    command = [sys.executable, "-c", answering, str(number), text.hex()]
    with subprocess.Popen(command, pass_fds=[number]) as process:
        ended = asked_at(plan, f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        process.kill()
    assert ended.code == 2
    assert ended.err.startswith("error[PW820]: ")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with loopback(tmp_path_factory.mktemp("cluster"), workers=0) as started:
        yield started


def test_no_workers(plan: Path, cluster: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 2.0)
    ended = asked_at(plan, cluster.address)
    assert ended.code == 1
    assert f"error[PW822]: the scheduler at {cluster.address} has no workers" in ended.err


def older(folder: Path, version: str = VERSION) -> dict[str, str]:
    """The environment of a worker with another ptxwcet: another version, or other sources."""
    other = folder / f"other-{version}"
    shutil.copytree(PACKAGE, other / "ptxwcet", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "grammar", other / "grammar")
    mark = other / "ptxwcet" / "support" / "version.py"
    text = mark.read_text()
    mark.write_text(text.replace(f'"{VERSION}"', f'"{version}"') + "\n# another\n")
    path = os.pathsep.join([str(other), environment()["PYTHONPATH"]])
    return {**environment(), "PYTHONPATH": path}


@pytest.mark.parametrize("version", ["0.0.1", VERSION], ids=["version", "sources"])
def test_workers_of_another_version(plan: Path, cluster: Loopback, version: str) -> None:
    worker = cluster.add_worker(older(plan.parent, version))
    ended = asked_at(plan, cluster.address)
    end_worker(cluster, worker)
    assert ended.code == 1
    assert "error[PW821]: the worker at tcp://" in ended.err
    if version == VERSION:
        assert "has another installation: sources " in ended.err
    else:
        assert f"ptxwcet 0.0.1 there, {VERSION} here" in ended.err


def end_worker(cluster: Loopback, worker: subprocess.Popen[bytes]) -> None:
    """Ends a worker, and waits until the scheduler knows."""
    worker.terminate()
    worker.wait()
    cluster.workers.remove(worker)


@pytest.mark.thorough
@pytest.mark.parametrize("has_campaigns", [True, False])
def test_a_worker_of_another_version_joins_later(
    plan: Path, cluster: Loopback, has_campaigns: bool
) -> None:
    """One that knows of campaigns is refused; one that is too old ends at its first batch."""
    env = older(plan.parent, "0.0.1")
    if not has_campaigns:
        shutil.rmtree(plan.parent / "other-0.0.1" / "ptxwcet" / "sweeps")
    good = cluster.add_worker()
    write_plan(plan.parent, blocks=str(list(range(1, 60))))
    command = [sys.executable, "-m", "ptxwcet", "sweep", "-q", str(plan)]
    options = ["-o", str(plan.parent / "out"), "--workers", cluster.address]
    with subprocess.Popen(
        [*command, *options], stderr=subprocess.PIPE, env=environment(), text=True
    ) as client:
        try:
            await_that(lambda: answers_in(plan.parent / "out") > 0, "an answer")
            held = cells_of(good.pid)
            send(signal.SIGSTOP, held)
            bad = cluster.add_worker(env)
            if not has_campaigns:
                await_that(lambda: bad.poll() is not None, "it ends")
                send(signal.SIGCONT, held)
            _, err = client.communicate(timeout=PATIENCE)
        finally:
            client.kill()
    send(signal.SIGCONT, held)  # a worker ends when its threads do
    for worker in (good, bad):
        end_worker(cluster, worker)
    assert "Traceback" not in err
    if not has_campaigns:
        assert (client.returncode, len(rows(plan.parent / "out"))) == (0, 59)
        return
    assert client.returncode == 1
    assert "error[PW821]: the worker at tcp://" in err
    assert f"ptxwcet 0.0.1 there, {VERSION} here" in err


# --- the output folder


def foreign(out: Path) -> None:
    out.mkdir()
    (out / "thesis.tex").write_text("")


def of_another_plan(out: Path) -> None:
    out.mkdir()
    (out / "plan.json").write_text(json.dumps({"plan": "other.toml", "sha256": "00"}))


def no_json(out: Path) -> None:
    out.mkdir()
    (out / "plan.json").write_text("no JSON")


def nested(out: Path) -> None:
    out.mkdir()
    (out / "plan.json").write_text("[" * 200_000)


def other_json(out: Path) -> None:
    out.mkdir()
    (out / "plan.json").write_text("[1, 2]")


def not_text(out: Path) -> None:
    out.mkdir()
    (out / "plan.json").write_bytes(b"\xff\xfe\0")


def folder_for_plan(out: Path) -> None:
    (out / "plan.json").mkdir(parents=True)


@pytest.mark.every(3)
@pytest.mark.parametrize("resume", [(), ("--resume",)], ids=["fresh", "resume"])
@pytest.mark.parametrize(
    ("made", "why"),
    [
        (foreign, "holds other files"),
        (of_another_plan, "holds results of another plan"),
        (no_json, "cannot read"),
        (nested, "cannot read"),
        (other_json, "cannot read"),
        (not_text, "cannot read"),
        (folder_for_plan, "cannot read"),
    ],
)
def test_folders_of_others(
    plan: Path, made: Callable[[Path], None], why: str, resume: tuple[str, ...]
) -> None:
    made(plan.parent / "out")
    before = sorted((plan.parent / "out").iterdir())
    ended = swept(plan, *resume)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error[PW823]: ")
    assert why in ended.err
    assert sorted((plan.parent / "out").iterdir()) == before


def test_a_file_in_its_place(plan: Path) -> None:
    (plan.parent / "out").write_text("")
    ended = swept(plan)
    assert (ended.code, "is a file" in ended.err) == (2, True)


def test_a_file_above_it(plan: Path) -> None:
    ended = run_program("sweep", plan, "-o", plan / "out")
    assert (ended.code, "is a file" in ended.err) == (2, True)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="a folder that takes no files")
def test_a_folder_that_takes_no_files(plan: Path) -> None:
    for folder in ("/proc/self/fdinfo/out", "/proc/out"):
        ended = run_program("sweep", plan, "-o", folder)
        assert (ended.code, ended.err.startswith("error[PW823]: ")) == (2, True)


def test_resume_where_nothing_is(plan: Path) -> None:
    ended = swept(plan, "--resume")
    assert (ended.code, "; 2 analysed now" in ended.out) == (0, True)


def test_a_second_run_needs_resume(plan: Path) -> None:
    assert swept(plan).code == 0
    again = swept(plan)
    assert (again.code, "error[PW823]" in again.err, "--resume" in again.err) == (2, True, True)
    resumed = swept(plan, "--resume")
    assert (resumed.code, "; 0 analysed now" in resumed.out) == (0, True)


def test_equal_units_are_analysed_once(plan: Path) -> None:
    write_plan(plan.parent, blocks='["64", "64x1", "64x1x1", 64, 64]')
    ended = swept(plan)
    assert ended.out.startswith("5 units: 5 bounded")
    tables = rows(plan.parent / "out")
    assert len({row["cycles"] for row in tables}) == 1
    analysed = len({row["key"] for row in tables})
    assert f"; {analysed} analysed now" in ended.out


# --- files that change


def test_a_changed_kernel(plan: Path) -> None:
    other = plan.parent / "other.ptx"
    shutil.copy(SAMPLES / "transpose_naive.ptx", other)
    write_plan(plan.parent, files="*.ptx", blocks="[32, 64, 128]")
    assert "; 6 analysed now" in swept(plan).out
    other.write_text(other.read_text() + "\n// another comment\n")
    before = rows(plan.parent / "out")
    assert "; 3 analysed now" in swept(plan, "--resume").out
    after = rows(plan.parent / "out")
    changed = [one["file"] for one, two in zip(before, after, strict=True) if one != two]
    assert changed == [str(other)] * 3


@pytest.mark.parametrize("change", ["vanish", "change", "folder"])
def test_files_that_change_meanwhile(
    plan: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest is of what was there; before the contents are sent they are something else."""
    file = plan.parent / "saxpy.ptx"
    supplied = Inputs.supplied

    def changing(inputs: Inputs, keyed: object) -> object:
        inputs._contents.clear()  # as if many others had been read since
        if file.is_file():
            file.unlink()
        if change == "change":
            file.write_text("// nothing\n")
        elif change == "folder":
            file.mkdir(exist_ok=True)
        return supplied(inputs, keyed)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep_run.Inputs, "supplied", changing)
    ended = swept(plan)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.startswith("2 units: 0 bounded, 0 refused, 2 failed; 0 analysed now")
    for row in rows(plan.parent / "out"):
        assert (row["outcome"], row["code"]) == ("failed", "PW804")
        assert "saxpy.ptx cannot be read, or is not as it was" in row["message"]
    monkeypatch.undo()
    if change == "folder":
        file.rmdir()
    shutil.copy(SAMPLES / "saxpy.ptx", file)
    assert swept(plan, "--resume").out.startswith("2 units: 2 bounded")


def test_limits_of_the_plan(plan: Path) -> None:
    write_plan(plan.parent, limits="[limits]\nmemory_mib = 100", blocks="[32, 32, 64]")
    ended = swept(plan)
    assert ended.code == 1
    assert ended.out.startswith("3 units: 0 bounded, 0 refused, 3 failed")
    # PW901: where memory ends in a library, that may make another error of it
    assert {row["code"] for row in rows(plan.parent / "out")} <= {"PW801", "PW802", "PW901"}


# --- the store


def test_two_runs_on_one_folder(plan: Path) -> None:
    write_plan(plan.parent, blocks=str(list(range(32, 1024, 128))))
    command = [sys.executable, "-m", "ptxwcet", "sweep", "-q", str(plan), "--resume"]
    both = [
        subprocess.Popen(
            [*command, "-o", str(plan.parent / "out"), "--workers", "1"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        said, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert said.startswith("8 units: 8 bounded, 0 refused")
    assert len(rows(plan.parent / "out")) == 8


@pytest.mark.parametrize("kept", [b"no SQLite at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_store_that_is_none(plan: Path, kept: bytes) -> None:
    assert swept(plan).code == 0
    clear_store(plan.parent / "out")
    (plan.parent / "out" / "answers.sqlite").write_bytes(kept)
    ended = swept(plan, "--resume")
    assert (ended.code, ended.err.startswith("error[PW825]: ")) == (2, True)
    assert "delete the file" in ended.err


def test_a_store_cut_off(plan: Path) -> None:
    """At every page: refused, or analysed again, and then the tables are as they were."""
    write_plan(plan.parent, blocks="[32, 64, 128, 256]")
    assert swept(plan).code == 0
    out = plan.parent / "out"
    store, before = out / "answers.sqlite", (out / "results.csv").read_bytes()
    whole = store.read_bytes()
    for size in (0, 100, 4096, 4097, len(whole) // 2, len(whole) - 1):
        clear_store(out)
        store.write_bytes(whole[:size])
        (out / "results.csv").unlink()
        ended = swept(plan, "--resume")
        if ended.code == 0:
            assert (out / "results.csv").read_bytes() == before
        else:
            assert ended.err.startswith("error[PW825]: ")
            (out / "results.csv").write_bytes(before)


def clear_store(out: Path) -> None:
    for path in out.glob("answers.sqlite*"):
        path.unlink()


@pytest.mark.every(2)
@pytest.mark.parametrize("row", ["no JSON", "", "[" * 100_000, b"\xff\xfe"])
def test_entries_that_cannot_be_read(plan: Path, row: str | bytes) -> None:
    assert swept(plan).code == 0
    out = plan.parent / "out"
    before = (out / "results.csv").read_bytes()
    with sqlite3.connect(out / "answers.sqlite") as store:
        store.execute("UPDATE answers SET summary = ?", (row,))
    store.close()
    ended = swept(plan, "--resume")
    assert (ended.code, "; 2 analysed now" in ended.out) == (0, True)
    assert (out / "results.csv").read_bytes() == before


def test_a_store_of_a_later_layout(plan: Path) -> None:
    assert swept(plan).code == 0
    with sqlite3.connect(plan.parent / "out" / "answers.sqlite") as store:
        store.execute("PRAGMA user_version = 99")
    store.close()
    ended = swept(plan, "--resume")
    assert (ended.code, "error[PW825]" in ended.err) == (2, True)


_FULL = """\
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from ptxwcet.cli.main import main
main(sys.argv[2:])
"""


@pytest.mark.every(4)
@pytest.mark.skipif(sys.platform == "win32", reason="limits of files")
@pytest.mark.parametrize("most", [10, 5_000, 40_000])
def test_a_full_disk(plan: Path, most: int) -> None:
    """Files that cannot grow: of the plan's mark, of the store, of a table."""
    write_plan(plan.parent, blocks=str(list(range(32, 1024, 64))))
    out = plan.parent / "out"
    command = [sys.executable, "-c", _FULL, str(most), "sweep", "-q", str(plan), "-o", str(out)]
    ended = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout) == (2 if "PW825" in ended.stderr else 1, "")
    said = ("error[PW233]: cannot write", "error[PW825]: cannot use", "ptxwcet: cannot write")
    assert ended.stderr.startswith(said)
    assert "Traceback" not in ended.stderr
    assert swept(plan, "--resume").out.startswith("16 units: 16 bounded, 0 refused, 0 failed")


# --- what Dask would say


def test_a_large_file(plan: Path) -> None:
    """Dask warns of graphs above 10 MB: nobody can do anything about it."""
    file = plan.parent / "saxpy.ptx"
    file.write_text(file.read_text() + "// a comment\n" * 1_000_000)
    ended = swept(plan)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("2 units: 2 bounded")


def test_nothing_listens_elsewhere(plan: Path) -> None:
    """An embedded run opens no port that another computer could reach."""
    with engine.embedded_cluster(1) as started:
        assert started.threads() == 1
        numbers = []
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):  # that of the folder itself
                numbers.append(os.readlink(f"/proc/self/fd/{name}"))
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                address, state, number = (line.split()[column] for column in (1, 3, 9))
                if state == "0A" and f"socket:[{number}]" in numbers:
                    assert address.startswith("0100007F:")
    close_cells()
