"""The grammar's tables come from a cache where there is one, and without it all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ptxwcet.ptx.grammar import directive_words, parse_rule, terminal_text

pytestmark = pytest.mark.fast

PROGRAM = """
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile
text = ".version 8.8\\n.target sm_90\\n.entry k() { ret; }\\n"
print(parse_module(SourceFile("k.ptx", text)).kernels[0].name)
"""


def run(cache: Path) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.strip()


def test_the_cache_is_written_and_a_broken_one_is_replaced(tmp_path: Path) -> None:
    assert run(tmp_path) == "k"
    (written,) = (tmp_path / "ptxwcet").iterdir()
    whole = written.read_bytes()
    assert run(tmp_path) == "k"
    assert written.read_bytes() == whole
    written.write_bytes(b"rubbish")
    assert run(tmp_path) == "k"
    assert written.read_bytes()[:64] == whole[:64]


def test_no_cache_folder_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert run(blocked) == "k"


def test_words() -> None:
    assert {".reg", ".entry", ".maxntid", ".branchtargets", ".section"} <= directive_words()
    assert terminal_text("SEMICOLON") == "';'"
    assert terminal_text("NAME") == "a name"


@pytest.mark.parametrize("rule", ["operands", "item", "declaration"])
def test_a_rule_of_one_token_is_still_a_tree(rule: str) -> None:
    text = {"operands": "5", "item": '.pragma "x";', "declaration": ".loc 1 2 3"}[rule]
    assert list(parse_rule(text, rule).scan_values(lambda _: True))
