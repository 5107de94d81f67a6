"""``ptxwcet check --cache``: the bytes are those without it, whatever fails."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import zlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from places import SAMPLES
from programs import Ended, run_program

from ptxwcet.commands.bound import answers
from ptxwcet.commands.bound.answers import KeptAnswer, answer_kernel
from ptxwcet.commands.check import study
from ptxwcet.commands.check.study import answer_keyed
from ptxwcet.opened.inputs import Inputs
from ptxwcet.opened.request import Request
from ptxwcet.report.reading import NotAReport
from ptxwcet.support import answer_store
from ptxwcet.support.answer_store import STORE

FORKS = pytest.mark.skipif(
    multiprocessing.get_start_method() != "fork", reason="the processes have not what is patched"
)
FORMATS = ("text", "json", "sarif", "junit", "github")
PLAN = """
machines = ["orin-ecrts2025-16sm", "ampere-realistic"]
[[check]]
files = "v.ptx"
block = 256
grid = 64
params = {{ n = 16384 }}
budget = "{budget}"
[[check]]
files = "letter.ptx"
block = 64
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "v.ptx").write_bytes((SAMPLES / "vector_add.ptx").read_bytes())
    (tmp_path / "v.cu").write_bytes((SAMPLES / "vector_add.cu").read_bytes())
    (tmp_path / "letter.ptx").write_text("a letter\n")
    return written(tmp_path / "plan.toml")


def written(path: Path, budget: str = "2 ms") -> Path:
    path.write_text(PLAN.format(budget=budget))
    return path


def checked(plan: Path, *options: object, form: str = "json") -> Ended:
    return run_program("check", plan, "--workers", 1, "--format", form, *options)


def kept(folder: Path) -> dict[str, bytes]:
    with sqlite3.connect(folder / STORE) as base:
        return dict(base.execute("SELECT key, answer FROM answers").fetchall())


def refuse_to_analyse(monkeypatch: pytest.MonkeyPatch) -> None:
    def analysed(*_: object) -> Any:
        raise AssertionError("it is analysed again")

    monkeypatch.setattr(study, "answer_keyed", analysed)


def test_the_same_bytes_cold_and_warm(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ("--cache", plan.with_name("kept"))
    without = checked(plan)
    assert without.code == 1
    assert checked(plan, *cache) == without
    refuse_to_analyse(monkeypatch)
    for form in FORMATS:
        assert checked(plan, *cache, form=form) == checked(plan, form=form), form


def test_another_budget_finds_the_answers(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ("--cache", plan.with_name("kept"))
    checked(plan, *cache)
    refuse_to_analyse(monkeypatch)
    over = written(plan, "1 us")
    assert checked(over, *cache) == checked(over)
    assert '"PW520"' in checked(over, *cache).out


def test_a_changed_kernel_is_analysed_again(plan: Path) -> None:
    cache = ("--cache", plan.with_name("kept"))
    checked(plan, *cache)
    before = kept(plan.with_name("kept"))
    kernel = plan.with_name("v.ptx")
    kernel.write_text(kernel.read_text() + "// changed\n")
    assert checked(plan, *cache) == checked(plan)
    after = kept(plan.with_name("kept"))
    assert len(before) == 4
    assert len(after.keys() - before.keys()) == 2  # on two machines


def test_a_file_that_changes_meanwhile_is_not_kept(plan: Path) -> None:
    request = Request(str(plan.with_name("v.ptx")), ("vector_add",), "256", parameters=("n=9",))
    keyed = Inputs().keyed(request)
    assert answer_keyed(keyed).is_of_key
    source = plan.with_name("v.cu")
    source.unlink()
    found = answer_keyed(keyed)
    assert (found.kept, found.is_of_key) == (answer_kernel(request), False)
    # what is asked for and not in the key: the same
    fewer = Inputs().keyed(request)
    fewer = replace(fewer, files=tuple(row for row in fewer.files if row[0] != str(source)))
    assert not answer_keyed(fewer).is_of_key


def test_what_cannot_be_read_is_refused_as_without_cache_and_not_kept(plan: Path) -> None:
    plan.with_name("v.cu").unlink()
    plan.with_name("v.cu").mkdir()
    assert checked(plan, "--cache", plan.with_name("kept")) == checked(plan)
    assert len(kept(plan.with_name("kept"))) == 2  # the letter's


@FORKS
@pytest.mark.parametrize("error", [MemoryError, ZeroDivisionError])
def test_what_says_more_of_the_computer_is_not_kept(
    error: type[Exception], plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> Any:
        raise error

    folder = plan.with_name("kept")
    with monkeypatch.context() as patched:
        patched.setattr(answers, "bound_file", failing)
        assert '"PW901"' in checked(plan, "--cache", folder).out
    assert len(kept(folder)) == 2  # the letter's
    with monkeypatch.context() as patched:
        patched.setattr(answers, "bound_file", lambda *_: os._exit(9))
        assert '"PW902"' in checked(plan, "--cache", folder).out
    assert len(kept(folder)) == 2  # the letter's
    assert checked(plan, "--cache", folder) == checked(plan)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"no zlib",
        zlib.compress(b"no JSON"),
        zlib.compress(b"[1]"),
        zlib.compress(b'{"a": 1}'),
        zlib.compress(b"[" * 100_000),
    ],
)
@pytest.mark.parametrize("has_digest", [False, True])
def test_entries_that_are_no_answers_count_as_missing(
    blob: bytes, has_digest: bool, plan: Path
) -> None:
    folder = plan.with_name("kept")
    checked(plan, "--cache", folder)
    before = kept(folder)
    with sqlite3.connect(folder / STORE) as base:
        for key in before:
            digest = answer_store._digest(key, blob) if has_digest else ""
            row = (blob, digest, key)
            base.execute("UPDATE answers SET answer = ?, answer_digest = ? WHERE key = ?", row)
    base.close()
    assert checked(plan, "--cache", folder) == checked(plan)
    assert kept(folder).keys() == before.keys()
    assert blob not in kept(folder).values()


def test_answers_with_other_numbers_count_as_missing(plan: Path) -> None:
    """What somebody has changed is analysed again: numbers, the key, the row of a sweep."""
    folder = plan.with_name("kept")
    right = checked(plan, "--cache", folder)
    before = kept(folder)
    # two that differ: what is kept of the letter is the same for both machines
    one, other = (
        next(key for key, blob in before.items() if (b'"cycles": ' in zlib.decompress(blob)) is has)
        for has in (True, False)
    )
    for changed in (
        {
            key: zlib.compress(zlib.decompress(blob).replace(b'"cycles": ', b'"cycles": 1'))
            for key, blob in before.items()
        },
        {one: before[other], other: before[one]},
    ):
        with sqlite3.connect(folder / STORE) as base:
            for key, blob in changed.items():
                base.execute("UPDATE answers SET answer = ? WHERE key = ?", (blob, key))
        base.close()
        assert kept(folder) != before
        assert checked(plan, "--cache", folder) == right
        assert kept(folder) == before


def test_what_is_no_kept_answer() -> None:
    refusal = answer_kernel(Request("nowhere.ptx", ("k",))).to_json()
    assert KeptAnswer.from_json(refusal | {"answer": refusal["answer"] | _JSON}) is not None
    for data in (None, {}, refusal | {"answer": refusal["answer"] | {"diagnostics": []}}):
        with pytest.raises(NotAReport):
            KeptAnswer.from_json(data)


_JSON = {"diagnostics": [dict.fromkeys(("file", "line", "column", "help")) | {"notes": []}]}
_JSON["diagnostics"][0] |= {"code": "PW1", "severity": "error", "message": ""}


def spoil_other_file(folder: Path) -> None:
    (folder / STORE).write_text("no database " * 1000)


def spoil_cut(folder: Path) -> None:
    data = (folder / STORE).read_bytes()
    (folder / STORE).write_bytes(data[: len(data) // 2])


def spoil_layout(folder: Path) -> None:
    with sqlite3.connect(folder / STORE) as base:
        base.execute("PRAGMA user_version = 77")
    base.close()


def spoil_tables(folder: Path) -> None:
    with sqlite3.connect(folder / STORE) as base:
        base.execute("DROP TABLE answers")
        base.execute("CREATE TABLE answers (other TEXT)")
    base.close()


def spoil_folder(folder: Path) -> None:
    (folder / STORE).unlink()
    (folder / STORE).mkdir()


@pytest.mark.parametrize(
    "spoil", [spoil_other_file, spoil_cut, spoil_layout, spoil_tables, spoil_folder]
)
def test_a_store_that_cannot_be_used(spoil: Any, plan: Path) -> None:
    folder = plan.with_name("kept")
    checked(plan, "--cache", folder)
    spoil(folder)
    ended = checked(plan, "--cache", folder)
    assert (ended.code, ended.out) == (2, "")
    assert "error[PW825]: cannot use the answers kept in" in ended.err


def test_folders_that_cannot_be_used(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(plan, "--cache", plan).code == 2  # a file
    ended = checked(plan, "--cache", plan / "below")
    assert (ended.code, "is a file" in ended.err) == (2, True)
    monkeypatch.setattr(sqlite3, "connect", _read_only(sqlite3.connect))
    ended = checked(plan, "--cache", plan.with_name("kept"))
    assert (ended.code, "readonly database" in ended.err) == (2, True)


def _read_only(connect: Any) -> Any:
    def connected(path: Path, **options: Any) -> Any:
        connect(path).execute("PRAGMA user_version = 0")
        path.touch()
        return connect(f"file:{path}?mode=ro", uri=True, **options)

    return connected


def test_a_full_disk(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = plan.with_name("kept")
    connect: Any = sqlite3.connect

    def small(*arguments: Any, **options: Any) -> Any:
        base = connect(*arguments, **options)
        base.execute("PRAGMA max_page_count = 4")
        return base

    monkeypatch.setattr(sqlite3, "connect", small)
    ended = checked(plan, "--cache", folder)
    assert (ended.code, ended.out) == (2, "")
    assert "PW825" in ended.err
    assert "full" in ended.err
    monkeypatch.undo()
    assert checked(plan, "--cache", folder) == checked(plan)


def test_others_that_open_the_store_in_the_same_moment_are_waited_for(
    plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite waits for writers, but not for who turns its mode on."""
    refusals = [sqlite3.SQLITE_BUSY] * 2

    class Busy(sqlite3.Connection):
        def execute(self, text: str, *rest: Any) -> sqlite3.Cursor:
            if "journal_mode" in text and refusals:
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = refusals.pop()
                raise error
            return super().execute(text, *rest)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Busy))
    folder = plan.with_name("kept")
    assert checked(plan, "--cache", folder) == checked(plan)
    refusals.append(sqlite3.SQLITE_READONLY)
    assert "PW825" in checked(plan, "--cache", folder).err


@FORKS
def test_several_checks_at_once_on_one_store(plan: Path) -> None:
    with ProcessPoolExecutor(4) as pool:
        ended = list(pool.map(_checked, [plan] * 4))
    assert ended == [checked(plan)] * 4
    assert len(kept(plan.with_name("kept"))) == 4


def _checked(plan: Path) -> Ended:
    return checked(plan, "--cache", plan.with_name("kept"))
