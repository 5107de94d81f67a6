"""Names that come from files never steer a terminal or a document: no output has them raw."""

from __future__ import annotations

import json
import tomllib
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from places import ROOT, SAMPLES
from programs import Ended, run_program

from ptxwcet.cli.output import echo
from ptxwcet.support.diagnostics import Diagnostic
from ptxwcet.support.printable import printable, printable_line, printable_picture
from ptxwcet.support.source import SourceFile, Span

NASTY = (
    "\x1b[2J\x1b]0;owned\x07",  # escape sequences
    "\x9b31m",  # a control sequence in one character
    "a\rb\x08\x7f",
    "\u202egnp.exe\u2066x\u2069",  # bidirectional controls
    "zero\u200bwidth\ufeff",
    "line\u2028separator\u2029",
    "tag\U000e0041",
)
BAD = "".join(NASTY)


def raw(text: str) -> set[str]:
    """The characters of a text that no terminal should get."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {
        *"\n\t"
    }


@pytest.mark.parametrize("name", NASTY)
def test_what_is_shown_is_the_character_in_json(name: str) -> None:
    shown = printable(name)
    assert raw(shown) == set()
    assert json.loads(f'"{shown}"') == name
    assert raw(printable_picture(name)) == set()


def test_layout_stays_and_names_have_none() -> None:
    assert printable("a\n\tb\u00e9\u4e2d\U0001f600") == "a\n\tb\u00e9\u4e2d\U0001f600"
    assert printable_line("a\nerror: forged\tx") == "a\\u000aerror: forged\\u0009x"
    assert printable("\udc80") == "\\udc80"


def test_diagnostics() -> None:
    text = SourceFile(f"{BAD}.ptx", f"x {BAD} y\n")
    rows = Diagnostic("PW101", f"'{BAD}\nerror: forged'", Span(text, 2, 9), (BAD,), BAD).render()
    assert raw(rows) == set()
    assert not any(row.startswith("error: forged") for row in rows.splitlines())


def test_echo(capsys: pytest.CaptureFixture[str]) -> None:
    echo(BAD)
    echo(BAD, err=True)
    shown = capsys.readouterr()
    assert raw(shown.out + shown.err) == set()


def call(*arguments: object) -> Ended:
    ended = run_program(*arguments)
    assert raw(ended.out) == set()
    assert raw(ended.err) == set()
    assert "PW901" not in ended.err
    return ended


def test_nothing_in_the_commands_prints_past_echo() -> None:
    for path in (ROOT / "ptxwcet" / "cli").glob("*.py"):
        if path.name != "output.py":
            text = path.read_text()
            rest = text.replace('click.echo("\\r', "")  # the progress line: ours alone
            assert "click.echo(" not in rest, path.name
            assert "print(" not in rest.replace("fingerprint(", ""), path.name


@pytest.fixture
def ptx(tmp_path: Path) -> Path:
    """saxpy in a file, with a source file, of nasty names; comments and strings are nasty, too."""
    path = tmp_path / f"k{BAD}.ptx".replace("\r", "")
    text = (SAMPLES / "saxpy.ptx").read_text()
    text += f'\n.file 1 "{BAD.replace(chr(0x2028), "")}.cu"\n// {BAD}\n'
    text = text.replace("{\n", f"{{\n// {BAD}\n.loc 1 3 0\n", 1)
    path.write_text(text, encoding="utf-8", newline="")
    path.with_suffix(".cu").write_text(f"// {BAD}\n" * 20, encoding="utf-8")
    return path


LAUNCH = ("--block", "64", "--grid", "1")
N = ("--param", "0=100")


@pytest.mark.parametrize(
    "words",
    [
        ("bound", *LAUNCH, *N, "--explain"),
        ("bound", *LAUNCH, *N, "--explain", "--format", "json"),
        ("bound", *LAUNCH, "--symbolic", "0=1..9", "--format", "json"),
        ("bound", *LAUNCH, "--param", f"{BAD}=1"),
        ("bound", *LAUNCH, "-k", BAD),
        ("bound", *LAUNCH, "--loop-bound", f"{BAD}=3"),
        ("bound", "--block", BAD),
        ("bound", *LAUNCH, "--machine", BAD),
        ("bound", *LAUNCH, "--policy", BAD),
        ("bound", *LAUNCH, f"--{BAD}"),
        ("facts", *LAUNCH),
        ("cfg",),
        ("cfg", *LAUNCH, *N, "--format", "text"),
        ("annotate", "phases", *LAUNCH, *N),
        ("simulate", *LAUNCH, *N, "--policy", "lrr", "--format", "json"),
        ("makespan", *LAUNCH, *N, "--load-store", "1", "--cores", "1", "--format", "json"),
        ("explain",),
    ],
    ids=lambda words: ascii("_".join(words))[:40],
)
def test_commands(words: tuple[str, ...], ptx: Path) -> None:
    _, out, _ = call(words[0], ptx, *words[1:])
    if "json" in words and out:
        json.loads(out)


def test_json_keeps_the_name(ptx: Path) -> None:
    _, out, _ = call(ptx, *LAUNCH, *N, "--format", "json")
    assert json.loads(out)["file"] == str(ptx)


def test_a_template_with_nasty_source_lines_is_toml(tmp_path: Path, ptx: Path) -> None:
    out = tmp_path / "facts.toml"
    call("facts", ptx, *LAUNCH, "-o", out)
    text = out.read_text()
    assert raw(text) == set()
    tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        'kernel = "{}"\ngrid = 1\nblock = 32\n',
        'kernel = "saxpy"\ngrid = "{}"\nblock = 32\n',
        'kernel = "saxpy"\ngrid = 1\nblock = 32\n"{}" = 3\n',
        'kernel = "saxpy"\ngrid = 1\nblock = 32\n[arguments]\n"{}" = 3\n',
        'kernel = "saxpy"\ngrid = 1\nblock = 32\n[arguments]\nx = {{ file = "{}.npy" }}\n',
        "# {}\n= 1\n",
    ],
)
def test_launch_files(text: str, tmp_path: Path, ptx: Path) -> None:
    launch = tmp_path / "l.toml"
    escaped = json.dumps(BAD)[1:-1].replace("\\udb40\\udc41", "\\U000e0041")
    launch.write_text(text.format(escaped), encoding="utf-8")
    code, _, err = call("run", ptx, "--launch", launch)
    assert code != 0
    assert "error[" in err


@pytest.mark.parametrize("form", ["dot", "svg"])
def test_graphs(form: str, tmp_path: Path, ptx: Path) -> None:
    out = tmp_path / f"g.{form}"
    if call("cfg", ptx, *LAUNCH, *N, "-o", out)[0] == 0:
        assert raw(out.read_text(encoding="utf-8")) == set()


def test_pages_and_pictures_of_measurements(tmp_path: Path) -> None:
    """Labels of such characters are refused (PW702); the name of the file is on the page."""
    random = np.random.default_rng(3)
    rows = [f"A,{time:.0f}" for time in 1000 + random.gamma(9, 100, 1000)]
    times = tmp_path / f"t{BAD}.csv"
    times.write_text("\n".join(("condition,cycles", *rows)) + "\n")
    page, plots, saved = tmp_path / "p.html", tmp_path / "plots", tmp_path / "out.json"
    options = ("--format", "html", "-o", page, "--picture", plots / "p.svg", "--force")
    call("pwcet", times, *options)
    _, out, _ = call("pwcet", times, "--format", "json", "--force")
    saved.write_text(out)
    json.loads(out)
    written = [path for path in (page, *plots.glob("*")) if path.exists()]
    assert len(written) > 1
    for path in written:
        assert raw(path.read_text(encoding="utf-8")) == set(), path


def test_file_names_that_are_no_unicode(tmp_path: Path) -> None:
    """Bytes of a name in another encoding: what is written as JSON has them as an escape."""
    path = tmp_path / "k\udcff.ptx"
    try:
        path.write_text((SAMPLES / "saxpy.ptx").read_text())
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    path.with_suffix(".cu").write_text((SAMPLES / "saxpy.cu").read_text())
    code, out, _ = call(path, *LAUNCH, *N, "--format", "json")
    assert (code, json.loads(out)["file"]) == (0, str(path))
    side, lines = tmp_path / "o.json", tmp_path / "p.jsonl"
    assert call("instrument", path, "-o", tmp_path / "o.ptx")[0] == 0
    assert json.loads(side.read_text())["source"] == path.name
    launch = SAMPLES / "launches" / "saxpy.toml"
    assert call("run", path, "--launch", launch, "--paths", lines)[0] == 0
    assert str(path) in [json.loads(row).get("file") for row in lines.read_text().splitlines()]
    assert call("facts", path, *LAUNCH, "-o", tmp_path / "f.toml")[0] in (0, 1)
