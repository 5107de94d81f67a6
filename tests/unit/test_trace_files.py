"""Both forms of timed traces: what is written is read again, and what is wrong is named."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refusal_of, refusals_of
from thoroughness import drawn

import ptxwcet.trace.files as csv_reader
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.trace.events import END, Ipoint, TimedTrace, TraceOrigin
from ptxwcet.trace.files import read_trace, write_columns, write_trace

pytestmark = pytest.mark.fast

ORIGIN = TraceOrigin("saxpy", "ab" * 32, "simulator lrr")
IPOINTS = (Ipoint("entry", 21), Ipoint("$L__BB0 2", 45), END)
TEXT = f"""\
# ptxwcet-trace 1
# kernel saxpy
# sha256 {"ab" * 32}
# recorder simulator lrr
# clock cycle
# ipoint 0 21 entry
# ipoint 1 45 $L__BB0 2
# ipoint 2 0 end
ipoint,sm,warp,cycle
# run 0
0,0,0,0
0,0,1,1
2,0,0,60
2,0,1,64
# run 1
0,13,0,5
2,13,0,1000000007
# events 6
"""


def trace(rows: list[tuple[int, int, int, int]], runs: list[int]) -> TimedTrace:
    columns = np.array(rows, np.int64).reshape(-1, 4)
    return TimedTrace(
        ORIGIN,
        IPOINTS,
        columns[:, 0].astype(np.int32),
        columns[:, 1].astype(np.int32),
        columns[:, 2],
        columns[:, 3],
        np.array(runs, np.int64),
    )


def assert_same(one: TimedTrace, other: TimedTrace) -> None:
    assert (one.origin, one.ipoints) == (other.origin, other.ipoints)
    for name in ("ipoint", "sm", "warp", "cycle", "runs"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert mine.dtype == theirs.dtype
        assert mine.tolist() == theirs.tolist()


def refused(path: Path) -> Diagnostic:
    (diagnostic,) = refusals_of(read_trace, path)
    return diagnostic


def refused_text(tmp_path: Path, old: str, new: str) -> Diagnostic:
    assert old in TEXT
    path = tmp_path / "t.csv"
    path.write_text(TEXT.replace(old, new, 1))
    return refused(path)


def test_text_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    found = read_trace(path)
    rows = [(0, 0, 0, 0), (0, 0, 1, 1), (2, 0, 0, 60), (2, 0, 1, 64), (0, 13, 0, 5)]
    assert_same(found, trace([*rows, (2, 13, 0, 1000000007)], [0, 4]))
    assert found.lines is not None
    assert found.lines.tolist() == [11, 12, 13, 14, 16, 17]
    write_trace(found, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == TEXT


def test_text_with_the_line_ends_of_another_system(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TEXT)
    windows = tmp_path / "w.csv"
    windows.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert_same(read_trace(path), read_trace(windows))


ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 2**31 - 1),
        st.integers(0, 10**18 - 1),
        st.integers(0, 10**18 - 1),
    ),
    min_size=1,
    max_size=30,
)


@given(ROWS, st.sets(st.integers(1, 29)), st.integers(20, 60))
@settings(max_examples=drawn(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[int, int, int, int]],
    cuts: set[int],
    chunk: int,
) -> None:
    folder = tmp_path_factory.mktemp("traces")
    one = trace(rows, [0, *sorted(cut for cut in cuts if cut < len(rows))])
    write_trace(one, folder / "t.csv")
    write_columns(one, folder / "t.npz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "_CHUNK_BYTES", chunk)  # rows and comments cut anywhere
        text = read_trace(folder / "t.csv")
    assert_same(text, one)
    assert_same(read_trace(folder / "t.npz"), one)
    lines = (folder / "t.csv").read_text().split("\n")
    assert text.lines is not None
    for line, row in zip(text.lines.tolist(), rows, strict=True):
        assert lines[line - 1] == ",".join(map(str, row))


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "words"),
    [
        ("# ptxwcet-trace 1", "# ptxwcet-trace 2", "PW611", 1, "version"),
        ("# ptxwcet-trace 1", "hello", "PW601", 1, "not a timed trace"),
        ("# clock cycle\n", "", "PW601", 8, "does not say 'clock'"),
        ("# clock cycle", "# clock", "PW601", 5, "KEY VALUE"),
        ("# clock cycle", "# kernel twice", "PW601", 5, "repeated key"),
        ("# ipoint 1 45", "# ipoint 2 45", "PW601", 7, "ipoint 1"),
        ("# ipoint 1 45", "# ipoint 1 x", "PW601", 7, "ipoint 1"),
        ("# run 0\n", "", "PW601", 10, "before '# run 0'"),
        ("# run 1", "# run 2", "PW601", 15, "run 1"),
        ("# run 1", "# running", "PW601", 15, "run N"),
        ("2,0,1,64", "2,0,1", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "2,0,1,64,5", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "2,0,-1,64", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "2,0,,64", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "2,0,1,6.4", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "2,0,1,1234567890123456789", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "2,0,1,64 # end", "PW601", 14, "whole numbers"),
        ("2,0,1,64", "2,2147483648,1,64", "PW601", 14, "too large"),
        ("2,0,1,64", "3,0,1,64", "PW604", 14, "no ipoint 3"),
        ("# events 6\n", "# events 6\n0,0,0,0\n", "PW601", 19, "after '# events'"),
        ("# events 6\n", "# events 6", "PW602", 18, "cut"),
        ("2,13,0,1000000007\n# events 6\n", "2,13,0,1", "PW602", 17, "cut"),
    ],
)
def test_bad_text_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, code: str, line: int, words: str
) -> None:
    diagnostic = refused_text(tmp_path, old, new)
    assert diagnostic.code == code
    assert words in diagnostic.render()
    assert f"t.csv:{line}:1: error" in diagnostic.render()


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("# events 6\n", "", "PW602", "missing"),
        ("# events 6", "# events 7", "PW602", "announces 7"),
        ("# run 1", "# run 1\n# run 2", "PW603", "run 1"),
        ("# events 6", "# run 2\n# events 6", "PW603", "run 2"),
        ("# run 0", "# run 0\n# run 1\n# run 2", "PW601", "runs are numbered"),
    ],
)
def test_bad_text_as_a_whole(tmp_path: Path, old: str, new: str, code: str, words: str) -> None:
    diagnostic = refused_text(tmp_path, old, new)
    assert diagnostic.code == code
    assert words in diagnostic.render()


def test_every_beginning_of_a_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for size in range(len(TEXT)):
        path.write_text(TEXT[:size])
        assert refused(path).code in ("PW601", "PW602", "PW603")


def test_no_events(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TEXT[: TEXT.index("# run 0")] + "# events 0\n")
    assert refused(path).code == "PW603"
    path.write_bytes(b"")
    assert refused(path).code == "PW603"
    write_columns(trace([], []), tmp_path / "t.npz")
    assert refused(tmp_path / "t.npz").code == "PW603"


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.csv").code == "PW600"
    assert refused(tmp_path).code == "PW600"
    for name in ("t.txt", "no/folder.csv", "no/folder.npz"):
        assert refusal_of(write_trace, trace([(0, 0, 0, 0)], [0]), tmp_path / name).code == "PW609"
    assert not list(tmp_path.iterdir())


def archive(path: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    write_columns(trace([(0, 0, 0, 3), (2, 0, 0, 9)], [0]), path)
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(path, **arrays)  # type: ignore[arg-type]


def header(**changes: object) -> np.ndarray:
    known = {
        "ptxwcet-trace": 1,
        "kernel": "k",
        "sha256": "",
        "recorder": "r",
        "clock": "cycle",
        "ipoints": [[1, "entry"], [2, "x"], [0, "end"]],
        "events": 2,
    }
    return np.frombuffer(json.dumps(known | changes).encode(), np.uint8)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"header": header(**{"ptxwcet-trace": 9})}, "PW611"),
        ({"header": header(events=3)}, "PW602"),
        ({"header": header(ipoints=[1])}, "PW601"),
        ({"header": header(ipoints=[])}, "PW604"),
        ({"header": np.frombuffer(b"[]", np.uint8)}, "PW601"),
        ({"header": np.frombuffer(b"{", np.uint8)}, "PW601"),
        ({"steps": np.array([1.5, 2])}, "PW601"),
        ({"steps": np.array([[1], [2]])}, "PW601"),
        ({"steps": np.array([1])}, "PW602"),
        ({"steps": np.array([-4, 2])}, "PW601"),
        ({"warp": np.array([-4, 2])}, "PW601"),
        ({"runs": np.array([1])}, "PW601"),
        ({"runs": np.array([0, 2])}, "PW601"),
        ({"runs": np.array([0, 0])}, "PW601"),
        ({"runs": np.array([], int)}, "PW601"),
        ({"ipoint": np.array([0, 5])}, "PW604"),
        ({"ipoint": np.array([None, 5])}, "PW601"),
    ],
)
def test_bad_columns(tmp_path: Path, change: dict[str, np.ndarray], code: str) -> None:
    path = tmp_path / "t.npz"
    archive(path, lambda arrays: arrays.update(change))
    assert refused(path).code == code


def test_columns_that_are_missing_or_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    archive(path, lambda arrays: arrays.pop("warp"))
    assert refused(path).code == "PW601"
    data = path.read_bytes()
    for size in range(5, len(data), 97):
        path.write_bytes(data[:size])
        assert refused(path).code == "PW601"


@pytest.mark.parametrize("name", ["steps", "warp"])
def test_what_unpacks_to_more_than_memory_is_not_unpacked(name: str, tmp_path: Path) -> None:
    """A megabyte that is gigabytes, and a header that says so of a few bytes."""
    path = tmp_path / "t.npz"
    zeros = np.zeros(1 << 28, np.uint8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        header = io.BytesIO()
        if name == "steps":
            np.lib.format.write_array_header_1_0(
                header, np.lib.format.header_data_from_array_1_0(zeros)
            )
            archive.writestr("steps.npy", header.getvalue() + zeros.tobytes())
        else:
            shape = {"descr": "<i8", "fortran_order": False, "shape": (1 << 40,)}
            np.lib.format.write_array_header_1_0(header, shape)
            archive.writestr("warp.npy", header.getvalue() + bytes(64))
    with pytest.raises(PtxwcetError) as refused:
        read_trace(path)
    (diagnostic,) = refused.value.diagnostics
    assert diagnostic.code == "PW601"
    assert re.search("unpacks to more|shorter than its header", diagnostic.message)
