"""Measurement files: what is read, and one clear diagnostic for what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from refusals import refusal_of, refusals_of

from ptxwcet.trace.measurements import Measurements, ReadOptions, TimeUnit, read_measurements

pytestmark = pytest.mark.fast

CYCLES = ReadOptions(TimeUnit.CYCLES)
NOTHING = ReadOptions()


def read(folder: Path, text: str | bytes, options: ReadOptions = NOTHING) -> Measurements:
    path = folder / "times.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_measurements([str(path)], options)


def labelled(found: Measurements) -> dict[str, list[float]]:
    return {row.label: row.times.tolist() for row in found.conditions}


@pytest.mark.parametrize(
    "text",
    [
        "time_cycles\n3\n4.5\n",
        "cycles\n3\n4.5",
        "\ufeffcycles\r\n3\r\n4.5\r\n",
        "# a comment\n\ncycles\n# another\n3\n\n 4.5 \n",
        "cycles,note\n3,a\n4.5,b\n",
        "note;cycles\na;3\nb;4.5\n",
        "note\tcycles\na\t3\nb\t4.5\n",
        "note cycles\na   3\nb 4.5\n",
        "Time,Unit\n3,cycles\n4.5,cycles\n",
        '"cycles"\n3\n4.5\n',
        "cycles\n3e0\n0.45e1\n",
    ],
)
def test_text_columns(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert found.unit is TimeUnit.CYCLES
    assert labelled(found) == {"times": [3, 4.5]}


def test_plain_numbers_with_a_stated_unit(tmp_path: Path) -> None:
    found = read(tmp_path, "3\n4\n", ReadOptions(TimeUnit.NANOSECONDS))
    assert (found.unit, labelled(found)) == (TimeUnit.NANOSECONDS, {"times": [3, 4]})


def test_labels_part_conditions_in_order(tmp_path: Path) -> None:
    text = "condition,ns\nVOR-8,5\nVOR-1,2\nVOR-8,6\n"
    assert labelled(read(tmp_path, text)) == {"VOR-8": [5, 6], "VOR-1": [2]}
    options = ReadOptions(TimeUnit.CYCLES, column="2", condition_column="1")
    assert labelled(read(tmp_path, "a,1\nb,2\n", options)) == {"a": [1], "b": [2]}


def test_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asarray([3, 4], np.uint32))
    found = read_measurements([str(tmp_path / "a.npy")], CYCLES)
    assert labelled(found) == {"a": [3, 4]}


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.zeros((2, 2)), "PW701"),
        (np.asarray(["a"]), "PW701"),
        (np.asarray([1 + 2j]), "PW701"),
        (np.asarray([1.0, np.nan]), "PW704"),
        (np.asarray([1, -2]), "PW704"),
        (np.asarray([1.0, 1e308]), "PW704"),
    ],
)
def test_arrays_that_are_no_times(tmp_path: Path, array: np.ndarray, code: str) -> None:
    np.save(tmp_path / "a.npy", array)
    assert [
        one.code for one in refusals_of(read_measurements, [str(tmp_path / "a.npy")], CYCLES)
    ] == [code]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("cycles\n3\nabc\n", "PW702", 3),
        ("cycles\n3\n1_000\n", "PW702", 3),
        ("cycles\n3\n0x10\n", "PW702", 3),
        ("cycles,a\n3,x\n4\n", "PW702", 3),
        ("cycles,a\n3,x\n4,5,6\n", "PW702", 3),
        ("cycles,a\n3,x\n,y\n", "PW702", 3),
        ("12x\n3\n", "PW702", 1),
        ("condition,cycles\na\x1b[1m,3\n", "PW702", 2),
        ("condition,cycles\n,3\n", "PW702", 2),
        ("cycles\n3\nnan\n", "PW704", 3),
        ("cycles\n3\ninf\n", "PW704", 3),
        ("cycles\n3\n1e308\n", "PW704", 3),
        ("cycles\n3\n-4\n", "PW704", 3),
        ("cycles\n0\n", "PW704", 2),
        ("time,unit\n3,cycles\n4,ns\n", "PW703", 3),
        ("time,unit\n3,us\n", "PW703", 2),
        ("run,sm,start,end\n0,0,1,x\n", "PW708", 2),
        ("run,sm,start,end\n0,0,1,4294967296\n", "PW708", 2),
        ("run,sm,start,end\n0,0,1,2\n0,0,1,2\n", "PW708", 3),
        ("run,sm,start,end\n0,0,-1,2\n", "PW708", 2),
    ],
)
def test_the_line_at_fault_is_named(tmp_path: Path, text: str, code: str, line: int) -> None:
    (one,) = refusals_of(read, tmp_path, text)
    assert one.code == code
    assert one.span is not None
    assert one.span.line == line
    assert one.help


@pytest.mark.parametrize(
    ("text", "code", "options"),
    [
        ("3\n4\n", "PW703", NOTHING),
        ("cycles\n3\n", "PW703", ReadOptions(TimeUnit.NANOSECONDS)),
        ("", "PW705", NOTHING),
        ("cycles\n", "PW705", NOTHING),
        ("run,sm,start,end\n", "PW705", NOTHING),
        ("a,b\n3,4\n", "PW707", CYCLES),
        ("cycles,ns\n3,4\n", "PW707", NOTHING),
        ("3,4\n", "PW707", CYCLES),
        ("a,b\n3,4\n", "PW707", ReadOptions(TimeUnit.CYCLES, column="c")),
        ("a,b\n3,4\n", "PW707", ReadOptions(TimeUnit.CYCLES, column="3")),
        ("run,sm,end\n0,0,1\n", "PW707", NOTHING),
        (b"\xff\xfe\x00", "PW701", NOTHING),
        (b"\x93NUMPY\x01", "PW701", CYCLES),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, text: str | bytes, code: str, options: ReadOptions
) -> None:
    assert [one.code for one in refusals_of(read, tmp_path, text, options)] == [code]


def test_no_file(tmp_path: Path) -> None:
    assert refusal_of(read_measurements, [str(tmp_path / "none.csv")], CYCLES).code == "PW701"


def test_files_must_agree(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("cycles\n3\n")
    (tmp_path / "b.csv").write_text("ns\n3\n")
    (tmp_path / "c.csv").write_text("condition,cycles\na,3\n")
    for other, code in (("b.csv", "PW703"), ("c.csv", "PW707")):
        assert (
            refusal_of(
                read_measurements, [str(tmp_path / "a.csv"), str(tmp_path / other)], ReadOptions()
            ).code
            == code
        )


def test_clock_pairs_by_equation_1(tmp_path: Path) -> None:
    """Four runs on two SMs: one ordinary, two with an overflow, one with an idle SM."""
    text = (
        "run,sm,start_cycle,stop_cycle\n"
        "a,0,100,400\na,1,90,380\n"
        "b,0,4294967200,50\nb,1,4294967210,60\n"
        "c,0,4294967000,4294967290\nc,1,3,200\n"
        "d,0,10,30\nd,1,4294967295,0\n"
    )
    (found,) = read(tmp_path, text).conditions
    assert found.times.tolist() == [310, 20]
    assert found.discarded == 2
    wide = text.replace("4294967", "18446744069414584")
    (found,) = read(tmp_path, text, ReadOptions(counter_bits=64)).conditions
    assert len(wide) > len(text)
    assert found.times.tolist()[0] == 310


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("cycles,conditon\n3,a\n", "condition"),
        ("cycles,units\n3,ns\n", "unit"),
        ("run,sm,start,end,conditions\n0,0,3,5,a\n", "condition"),
    ],
)
def test_columns_that_are_misspelt(tmp_path: Path, text: str, meant: str) -> None:
    found = refusal_of(read, tmp_path, text)
    assert (found.code, f"did you mean {meant}?" in str(found.help)) == ("PW707", True)
