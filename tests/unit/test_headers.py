"""Headers and characters: what ptxas 13.0 takes, and every door with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from programs import run_program

import ptxwcet
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

from cubin import PTXAS, assemble

pytestmark = pytest.mark.fast

BODY = """.visible .entry k()
{
.reg .b32 %r<3>;
mov.u32 %r1,HERE 5;BETWEEN
// LINE
/* BLOCK */
.pragma "nounrollSTRING";
ret;
}
END"""
PLACES = ("HERE", "BETWEEN", "LINE", "BLOCK", "STRING", "END")
VERSIONS = {
    **dict.fromkeys(["7.8", "8.0", "8.5", "8.8", "9.0", "08.5", "8.05"], ""),
    **dict.fromkeys(["8.55", "99.9", "10.0", "8.9", "0.0", "0.9", "1.6", "7.9", "5.2"], "PW109"),
    **dict.fromkeys(["8", "8.", ".5", "8.5a", "8U.5", "v8.5", "8,5"], "PW109 PW101 PW107"),
    **dict.fromkeys(["7.7", "1.0", "5.1"], "PW110"),  # sm_90 is younger
}
TARGETS = {
    **dict.fromkeys(["sm_75", "sm_90", "sm_90a", "sm_80, sm_75", "sm_90, texmode_unified"], ""),
    **dict.fromkeys(["sm_999", "sm_90f", "sm_70a", "sm_73", "debug"], "PW110"),
    **dict.fromkeys(["texmode_unified, sm_90", "sm_90, map_f64_to_f32"], "PW110"),
    **dict.fromkeys(["sm_90, texmode_unified, texmode_independent"], "PW110"),
}


def text_of(version: str = "8.5", target: str = "sm_90", body: str = BODY) -> str:
    for place in PLACES:
        body = body.replace(place, "")
    return f".version {version}\n.target {target}\n.address_size 64\n{body}"


def with_character(character: str, place: str) -> str:
    return text_of(body=BODY.replace(place, character))


def code_of(text: str) -> str:
    """The code of the first error of a text, whose place is told; empty for none."""
    try:
        parse_module(SourceFile("k.ptx", text))
    except PtxwcetError as refused:
        first = refused.diagnostics[0]
        assert first.span is not None
        return first.code
    return ""


@pytest.mark.parametrize(("version", "codes"), VERSIONS.items())
def test_versions(version: str, codes: str) -> None:
    assert code_of(text_of(version)) in (codes.split() or [""])


@pytest.mark.parametrize(("target", "codes"), TARGETS.items())
def test_targets(target: str, codes: str) -> None:
    assert code_of(text_of(target=target)) == codes


def test_a_version_that_may_come_is_answered_with_a_warning() -> None:
    (warning,) = parse_module(SourceFile("k.ptx", "// .version\n" + text_of("9.1"))).warnings
    assert (warning.code, warning.span and warning.span.line) == ("PW114", 2)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("character", "\0\v\f\t\r")
def test_characters(character: str, place: str) -> None:
    is_refused = character == "\0" or (character == "\v" and place in ("HERE", "BETWEEN", "END"))
    assert code_of(with_character(character, place)) == ("PW101" if is_refused else "")


@pytest.mark.skipif(PTXAS is None, reason="no ptxas on PATH: headers are not compared with it")
def test_as_ptxas(tmp_path: Path) -> None:
    texts = [text_of(one) for one in VERSIONS]
    texts += [text_of(target=one) for one in TARGETS if one.startswith("sm_")]
    texts += [with_character(one, place) for one in "\0\v\f" for place in PLACES]
    different = []
    for text in texts:
        refused = isinstance(assemble(text, tmp_path, "k"), str)
        if refused != bool(code_of(text)):
            different.append(text)
    assert different == []


@pytest.mark.parametrize("text", [text_of("8.55"), with_character("\v", "END"), text_of("9.1")])
def test_every_door(text: str, tmp_path: Path) -> None:
    path, plan, sweep = (tmp_path / name for name in ("k.ptx", "check.toml", "sweep.toml"))
    path.write_text(text)
    plan.write_text('require = "estimate"\n[[check]]\nfiles = "k.ptx"\nblock = 32\n')
    sweep.write_text('[[sweep]]\nfiles = "k.ptx"\nblock = 32\n')
    is_newer = ".version 9.1" in text
    code = "PW114" if is_newer else code_of(text)
    out = tmp_path / "out"
    for words in (
        ["bound", str(path), "--block", "32"],
        ["check", str(plan), "--workers", "1"],
        ["sweep", str(sweep), "--workers", "1", "-o", str(out)],
    ):
        ended = run_program(*words)
        table = out / "results.csv"
        said = ended.out + ended.err + (table.read_text() if table.exists() else "")
        assert code in said, (words, said)
        assert is_newer or words[0] == "sweep" or ended.code == 1
    for given in (path, text):
        if is_newer:
            assert ptxwcet.bound(given, block=32).cycles > 0
            continue
        with pytest.raises(PtxwcetError) as refused:
            ptxwcet.bound(given, block=32)
        assert refused.value.diagnostics[0].code in (code, "PW112")
