"""Inputs without an end, of a wrong size or of absurd numbers: a message, soon, never a traceback.

Numbers of 5,000 digits are more than Python turns into an integer by default.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from effort import counted
from parsing import parse_kernel, parse_text
from places import CRASHES, SAMPLES
from programs import run_program
from refusals import refusal_of, refusals_of

from ptxwcet.support import input_files
from ptxwcet.support.array_files import load_array
from ptxwcet.support.source import SourceFile
from ptxwcet.support.toml_places import NotToml, parse_toml

HEADER = ".version 7.5\n.target sm_80\n.address_size 64\n"
DIGITS = "9" * 5000
SOON = 150_000_000  # calls of functions: some seconds


def call(*arguments: object) -> tuple[int, str]:
    ended, calls = counted(lambda: run_program(*arguments))
    assert "PW901" not in ended.err
    assert calls < SOON
    return ended.code, ended.err


# --- numbers and nesting in PTX -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (f".version {DIGITS}.1\n.target sm_80\n.visible .entry k(){{ret;}}", ["PW109"]),
        (f".version 7.{DIGITS}\n.target sm_80\n.visible .entry k(){{ret;}}", ["PW109"]),
        (
            f".version 7.5\n.target sm_80\n.address_size {DIGITS}\n.visible .entry k(){{ret;}}",
            ["PW109"],
        ),
        (".version 7.5\n.target sm_80\n.address_size 48\n.visible .entry k(){ret;}", ["PW109"]),
        (HEADER + f".visible .entry k(){{\n.loc 1 {DIGITS} 3\nret;}}", ["PW107"]),
        (
            HEADER + f".visible .entry k(){{\n.loc 1 {DIGITS} 3\n.loc 1 {DIGITS} 4\nret;}}",
            ["PW107"] * 2,
        ),
        (HEADER + f".visible .entry k(){{\n.reg .b32 %r<{DIGITS}>;\nret;}}", ["PW107"]),
        (HEADER + f".global .u32 a[{DIGITS}];\n.visible .entry k(){{ret;}}", ["PW107"]),
    ],
)
def test_numbers_of_thousands_of_digits(text: str, codes: list[str]) -> None:
    assert [one.code for one in refusals_of(parse_text, text)] == codes


@pytest.mark.parametrize("spelled", ["64", "0x40", "0100", "0b1000000", "64U"])
def test_the_address_size_in_any_spelling(spelled: str) -> None:
    """ptxas takes all of these."""
    text = HEADER.replace("64\n", f"{spelled}\n") + ".visible .entry k(){ret;}"
    assert parse_text(text).address_size == 64


@pytest.mark.parametrize(("number", "name"), [("1", "a.cu"), ("0x1", "a.cu"), (DIGITS, "file 1")])
def test_the_number_of_a_file_in_any_spelling(number: str, name: str) -> None:
    text = f'{HEADER}.visible .entry k(){{\n.loc 1 7 3\nret;}}\n.file {number} "a.cu"\n'
    kernel = parse_kernel(text)
    location = kernel.instructions[0].location
    assert location is not None
    assert (location.file, location.line) == (name, 7)


@pytest.mark.parametrize(
    "value",
    [
        "*".join(["1"] * 20_000),
        "+".join(["1"] * 20_000),
        "-" * 20_000 + "1",
        "(" * 20_000 + "1" + ")" * 20_000,
        "1?1:" * 20_000 + "1",
    ],
    ids=["factors", "terms", "signs", "parentheses", "choices"],
)
def test_long_initialisers(value: str) -> None:
    """ptxas takes the first two; the others exhaust its memory, not ours."""
    text = f"{HEADER}.global .s64 a = {value};\n.visible .entry k(){{ret;}}\n"
    for _ in range(2):  # a second time from the cache of shapes
        assert [row.name for row in parse_text(text).kernels] == ["k"]


def test_shapes_of_deep_directives_are_copied_right() -> None:
    """Two directives of one shape: names and offsets are the second one's."""
    rows = "".join(f".global .s64 name{n} = 1+{n}*(2+{n});\n" for n in (1, 22))
    module = parse_text(f"{HEADER}{rows}.visible .entry k(){{ret;}}\n")
    assert [row.name for row in module.items[:2]] == ["name1", "name22"]
    assert module.items[1].declaration == ".global .s64 name22=1+22*(2+22);"


@pytest.mark.parametrize("name", ["index_on_register", "index_on_register_branch"])
def test_no_index_on_a_register(name: str) -> None:
    """ptxas: "Array indexing on non-array"."""
    for words in (("bound",), ("simulate", "--policy", "lrr"), ("cfg",)):
        code, error = call(words[0], CRASHES / f"{name}.ptx", *words[1:], "--block", 32)
        assert code == 1
        assert "error[PW108]: '%rd1' is no array: it takes no index" in error or (
            "PW108" in error and "no array" in error
        )


@pytest.mark.parametrize(
    ("operand", "code"),
    [
        ("a[0]", None),
        ("a[%r2]", None),
        ("a[%rd1+4]", None),
        ("s[1]", "PW"),
        ("%rd1[0]", "PW108"),
        ("v[0]", "PW108"),
        ("f[0]", "PW108"),
        ("%tid[0]", "PW108"),
        ("a[f]", "PW108"),
        ("[f]", "PW108"),
    ],
)
def test_what_may_be_indexed(operand: str, code: str | None) -> None:
    """As ptxas has it; a name that is not declared is PW104."""
    text = (
        f"{HEADER}.global .u32 a[8];\n.func f(){{ret;}}\n.visible .entry k(){{\n"
        ".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n.reg .v2 .u32 v;\n"
        f"ld.global.u32 %r1, {operand};\nret;}}\n"
    )
    if code is None:
        parse_text(text)
        return
    assert refusal_of(parse_text, text).code.startswith(code)


def test_the_hexadecimal_address_size_of_a_file() -> None:
    assert call(CRASHES / "hex_address_size.ptx", "--block", 32) == (0, "")


# --- TOML -----------------------------------------------------------------------------------------

LAUNCH = 'kernel = "saxpy"\ngrid = 1\nblock = 64\n'
TOML = {
    "key": LAUNCH + ".".join(["a"] * 100_000) + " = 1\n",
    "header": LAUNCH + "[" + ".".join(["a"] * 100_000) + "]\n",
    "quoted": LAUNCH + ".".join(['"a"'] * 100_000) + " = 1\n",
    "spaced": LAUNCH + " . ".join(["a"] * 100_000) + " = 1\n",
    "inline": LAUNCH + "x = { " + ".".join(["a"] * 100_000) + " = 1 }\n",
    "arrays": LAUNCH + "x = " + "[" * 100_000 + "]" * 100_000 + "\n",
    "tables": LAUNCH + "x = " + "{a=" * 100_000 + "1" + "}" * 100_000 + "\n",
    "integer": LAUNCH + f"x = {DIGITS}\n",
    "hexadecimal": LAUNCH + f"x = 0x{DIGITS}\n",
    "negative": LAUNCH + f"x = -{DIGITS}\n",
    "underscores": LAUNCH + "x = " + "_".join(DIGITS) + "\n",
    "float": LAUNCH + f"x = {DIGITS}.5e9\n",
    "keys": LAUNCH + "".join(f"k{n} = 1\n" for n in range(25_000)),
    "open string": LAUNCH + 'x = """' + "a" * 1_000_000,
    "open array": LAUNCH + "x = [" + "1," * 300_000,
    "quotes": LAUNCH + "x = " + '"' * 1_000_001,
    "too large": LAUNCH + "# " + "a" * (5 << 20),
    "empty": "",
}


@pytest.mark.every(3)
@pytest.mark.parametrize("what", TOML)
@pytest.mark.parametrize("kind", ["launch", "facts", "machine"])
def test_toml(kind: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(TOML[what])
    code, error = call(SAMPLES / "saxpy.ptx", "--block", 64, "--param", "n=9", f"--{kind}", path)
    assert code == 1
    assert "error[PW" in error
    assert len(error) < 100_000


@pytest.mark.parametrize(
    "text",
    [
        'a = "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18"\n',
        f"a = '{DIGITS}'\n",
        f"# {'a.' * 30} {DIGITS} {'[' * 100}\na = 1\n",
        f'a = """\n{"[" * 100}\n{"a." * 30}b = {DIGITS}\n"""\n',
        "a = '''\n" + "{" * 100 + "'''\n",
        'a = "\\"" # ' + "[" * 100 + "\n",
        "a.b.c.d = [1, [2, [3]], { e.f = 4 }]\n",
        "a = " + "9" * 19 + "\n",
        "_Z" + "9" * 3000 + "k = 1\n",
        "a = [" + "1, " * 10_000 + "2]\n",
    ],
)
def test_what_is_no_excess(text: str) -> None:
    """Strings and comments are no keys, numbers or brackets; long lists are no nesting."""
    assert parse_toml(SourceFile("x.toml", text))


def test_the_place_of_an_excess() -> None:
    with pytest.raises(NotToml) as found:
        parse_toml(SourceFile("x.toml", f"a = 1\nb = {DIGITS}\n"))
    assert (found.value.span.line, found.value.span.column) == (2, 5)


# --- files ----------------------------------------------------------------------------------------


def test_a_text_over_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxwcet.ptx.reading.MOST_TEXT_BYTES", 1 << 20)
    path = tmp_path / "large.ptx"
    path.write_bytes(b"\n" * ((1 << 20) + 1))
    code, error = call(path, "--block", 32)
    assert (code, "it is larger than 1 MiB" in error) == (1, True)


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert input_files.read_bytes(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than"):
        input_files.read_bytes(path, 4)
    with pytest.raises(OSError, match="zero byte"):
        input_files.read_bytes("a\0b", 4)
    with pytest.raises(IsADirectoryError):
        input_files.read_bytes(tmp_path, 4)
    os.mkfifo(tmp_path / "pipe")
    for one in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            input_files.read_bytes(one, 4)


def npy(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (10,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-5,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 30 + ",), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': 'x', }",
    "{'shape': (1,)}",
    "[" * 3000,
    "(" * 200,
    "",
]


@pytest.mark.parametrize("header", HEADERS, ids=lambda one: one[:60])
def test_headers_of_arrays_that_lie(header: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy(header) + b"\0" * 8)
    with pytest.raises(ValueError):  # noqa: PT011 - the message is NumPy's
        load_array(path)
    text = (SAMPLES / "launches" / "saxpy.toml").read_text()
    launch = tmp_path / "l.toml"
    launch.write_text(_with_file(text))
    code, error = call("run", SAMPLES / "saxpy.ptx", "--launch", launch)
    assert code in (1, 2)
    assert "error[PW4" in error
    code, error = call("pwcet", path, "--unit", "cycles")
    assert (code, "error[PW701]" in error) == (1, True)


def _with_file(text: str) -> str:
    lines = []
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and value.strip().startswith("{"):
            line = f'{name}= {{ file = "x.npy" }}'
        lines.append(line)
    return "\n".join(lines) + "\n"


def test_arrays_are_read_whole(tmp_path: Path) -> None:
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3)), np.array(5)):
        np.save(tmp_path / "x.npy", array)
        found = load_array(tmp_path / "x.npy")
        assert (found == array).all()
        assert (found.shape, found.dtype, type(found)) == (array.shape, array.dtype, np.ndarray)


def test_a_trace_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxwcet.trace.files._MOST_UNPACKED", 1 << 20)
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b"\0" * (2 << 20))
    code, error = call("hybrid", SAMPLES / "saxpy.ptx", "--trace", path)
    assert (code, "unpacks to more than" in error) == (1, True)


@pytest.mark.parametrize("entry", ["header", "steps"])
@pytest.mark.parametrize("header", HEADERS, ids=lambda one: one[:60])
def test_columns_that_lie(entry: str, header: str, tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    column = io.BytesIO()
    np.save(column, np.zeros(1, np.uint8))
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("header", "ipoint", "sm", "warp", "steps", "runs"):
            data = npy(header) + b"\0" * 8 if name == entry else column.getvalue()
            archive.writestr(f"{name}.npy", data)
    code, error = call("hybrid", SAMPLES / "saxpy.ptx", "--trace", path)
    assert (code, "error[PW6" in error) == (1, True)


def test_a_line_of_a_trace_without_end(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    head = "# ptxwcet-trace 1\n# kernel k\n# recorder r\n# clock cycle\n"
    for body in ("9" * (40 << 20), head + "ipoint,sm,warp,cycle\n# run 0\n" + "9" * (40 << 20)):
        path.write_text(body)
        code, error = call("hybrid", SAMPLES / "saxpy.ptx", "--trace", path)
        assert (code, "error[PW6" in error) == (1, True)
        assert len(error) < 10_000


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"schema": ' + DIGITS + "}",
        "{" + '"a":{' * 100_000,
        json.dumps({"schema": 1, "source": "x"}),
        "\x00",
        "",
    ],
    ids=["arrays", "digits", "objects", "short", "zero", "empty"],
)
def test_sidecars(text: str, tmp_path: Path) -> None:
    path, dump = tmp_path / "s.json", tmp_path / "d.bin"
    path.write_text(text)
    dump.write_bytes(b"")
    code, error = call("instrument", "import", path, dump, "-o", tmp_path / "t.csv")
    assert (code, "error[PW652]" in error) == (1, True)


# --- numbers on the command line and in names -----------------------------------------------------


@pytest.mark.parametrize("number", [DIGITS, "0x" + DIGITS, "-" + DIGITS, "1.." + DIGITS])
def test_parameters(number: str) -> None:
    file = SAMPLES / "vector_add.ptx"
    for option in (("--param", f"3={number}"), ("--symbolic", f"3={number}")):
        code, error = call(file, "--block", 32, *option)
        assert (code, "error[PW214]" in error or "error[PW54" in error) == (2, True)


@pytest.mark.parametrize("place", [DIGITS, "\u00b2", "0", "-1"])
def test_places_of_points(place: str, tmp_path: Path) -> None:
    """A superscript two is a digit for Python's isdigit, and no number."""
    out = tmp_path / "o.ptx"
    code, error = call("instrument", SAMPLES / "scan.ptx", "-o", out, f"--at={place}")
    assert (code, "error[PW651]" in error) == (2, True)


@pytest.mark.parametrize("before", ["", "cycles,"])
@pytest.mark.parametrize("name", [DIGITS, "\u0663"])
def test_columns(before: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("condition,cycles,other\nA,5,7\n")
    code, error = call("pwcet", path, "--column", before + name)
    assert (code, "error[PW707]" in error) == (2, True)


def test_clocks_and_stated_bounds(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"run,sm,start,end\n0,0,1,{DIGITS}\n")
    code, error = call("pwcet", path)
    assert (code, "error[PW708]" in error) == (1, True)
    random = np.random.default_rng(3)
    np.savetxt(path, 1000 + random.gamma(9, 100, 1000), "%.0f", header="cycles", comments="")
    assert call("pwcet", path, "--static-bound", f"t={DIGITS}")[0] == 2


def test_a_mangled_name_of_absurd_length(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(f"{HEADER}.visible .entry _Z{DIGITS}k(.param .u32 p){{ret;}}\n")
    path.with_suffix(".cu").write_text("__global__ void k(int n) {}\n")
    code, error = call(path, "--block", 32, "--param", "p=3")
    assert (code, "warning[PW226]" in error, "error" in error) == (0, True, False)
