"""Plans of checks: which jobs they make, and every mistake with its place and a remedy."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from places import SAMPLES
from programs import run_program
from refusals import refusals_of

from ptxwcet.claims import Guarantee
from ptxwcet.commands.check.study import Plan, read_plan
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

ONE = '[[check]]\nfiles = "{samples}/vector_add.ptx"\nblock = 256\nparams = { n = 1000 }\n'
LOOPS = '[[check]]\nfiles = "{samples}/loops.ptx"\nblock = "64"\n'


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "ptxwcet.toml"
    path.write_text(text.replace("{samples}", str(SAMPLES)))
    return str(path)


def plan_of(tmp_path: Path, text: str) -> Plan:
    return read_plan(written(tmp_path, text))


def test_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES)
    jobs = read_plan("ptxwcet.toml").jobs
    assert [job.request.path for job in jobs] == [
        "sgemm_naive.ptx",
        "transpose_naive.ptx",
        "transpose_tiled.ptx",
        *["loops.ptx"] * 4,
    ]
    assert [(job.number, job.line) for job in jobs[:3]] == [(1, 6), (2, 11), (2, 11)]
    assert {job.checks.required for job in jobs} == {Guarantee.SAFE_BOUND}
    first, last = jobs[0], jobs[-1]
    assert first.request.kernels == ()  # the launch file says which
    assert first.request.machine == "orin-ecrts2025-16sm"
    assert last.request.kernels == ("loop_down",)
    assert last.request.parameters == ("n=1000",)
    assert last.checks.budget is not None
    assert last.checks.budget.of == "block"
    assert last.checks.budget.cycles(930) == 250_000


def test_all_kernels_of_a_file_and_names_as_people_say_them(tmp_path: Path) -> None:
    jobs = plan_of(tmp_path, LOOPS).jobs
    assert len({job.request.kernels for job in jobs}) == len(jobs) == 16
    (job,) = plan_of(tmp_path, LOOPS + 'kernels = "loop_up"').jobs
    assert job.request.kernels == ("loop_up",)


def test_a_table_says_more_than_the_top(tmp_path: Path) -> None:
    top = 'machines = "orin-ecrts2025-16sm"\nrequire = "estimate"\n'
    own = 'machines = ["orin-ecrts2025"]\nrequire = "safe-bound"\n'
    inherited, other = plan_of(tmp_path, top + ONE + LOOPS + own).jobs[:2]
    assert inherited.request.machine == "orin-ecrts2025-16sm"
    assert inherited.checks.required is Guarantee.ESTIMATE
    assert other.request.machine == "orin-ecrts2025"
    assert other.checks.required is Guarantee.SAFE_BOUND


def test_a_file_that_cannot_be_read_is_no_mistake_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "letter.ptx").write_text("a letter\n")
    (job,) = plan_of(tmp_path, '[[check]]\nfiles = "*.ptx"\nkernels = "k"\n').jobs
    assert job.request.kernels == ("k",)


MISTAKES = [
    ("", "PW572", "a plan has a table [[check]]", None, "for example"),
    ("check = 1\n", "PW572", "a plan has a table [[check]]", 1, "for example"),
    ("[[check]\n", "PW570", "not TOML", 1, ""),
    ("machine = 'x'\n" + ONE, "PW571", "unknown key 'machine'", 1, "did you mean machines?"),
    (ONE + "bugdet = 3\n", "PW571", "check 1: unknown key 'bugdet'", 5, "did you mean budget?"),
    ("[[check]]\nblock = 1\n", "PW572", "check 1: files is missing", 1, "for example"),
    ("[[check]]\nfiles = []\n", "PW572", "files is a text or a list of texts", 2, ""),
    ("[[check]]\nfiles = [1]\n", "PW572", "files is a text or a list of texts", 2, ""),
    ("[[check]]\nfiles = 'none/*.ptx'\n", "PW573", "no file matches 'none/*.ptx'", 2, "relative"),
    ("[[check]]\nfiles = 'gone.ptx'\n", "PW573", "no file 'gone.ptx'", 2, "relative to"),
    ('[[check]]\nfiles = "a\\u0000*"\n', "PW573", "no file matches", 2, ""),
    (ONE + "facts = 'gone.toml'\n", "PW573", "no file 'gone.toml'", 5, ""),
    (ONE + "kernels = 'vector_ad'\n", "PW208", "has a kernel 'vector_ad'", 5, "mean vector_add?"),
    (ONE + "machines = 'orin'\n", "PW301", "no machine 'orin'", 5, "known machines: a100"),
    (ONE + "block = true\n", "PW570", "not TOML", 5, ""),
    ("[[check]]\nblock = true\nfiles = 'x'\n", "PW572", "block is a text", 2, ""),
    (ONE + "registers = 0\n", "PW572", "registers is a whole number from 1", 5, ""),
    (ONE + "budget = 'grid: 9'\n", "PW572", "or block:2000us", 5, ""),
    (ONE + "require = 'safe'\n", "PW572", "require is 'safe-bound' or 'estimate'", 5, ""),
    (ONE + "budget = nan\n", "PW572", "budget is a number of cycles, or a text", 5, ""),
    (ONE + "budget = 2.5\n", "PW572", "budget is a number of cycles, or a text", 5, ""),
    (ONE + "budget = -1\n", "PW572", "'-1' is no budget", 5, ""),
    (ONE + "budget = 0\n", "PW572", "'0' is no budget", 5, ""),
    (ONE + "budget = '2 h'\n", "PW572", "'2 h' is no budget", 5, ""),
    (ONE + ONE, "PW574", "vector_add of {samples}/vector_add.ptx is checked twice", 6, "check 1"),
    (ONE + "kernels = ['vector_add', 'vector_add']\n", "PW574", "is checked twice", 2, "check 1"),
]


@pytest.mark.parametrize(("text", "code", "message", "line", "remedy"), MISTAKES)
def test_mistakes(
    text: str, code: str, message: str, line: int | None, remedy: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    found = refusals_of(read_plan, path)[0]
    assert found.code == code, found
    assert message.replace("{samples}", str(SAMPLES)) in found.message
    assert (None if found.span is None else found.span.line) == line
    assert remedy in (found.help or "")
    ended = run_program("check", path)
    assert (ended.code, ended.out) == (2, "")


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, ONE + "bugdet = 3\nregisters = 0\n" + LOOPS + "budget = 0\n")
    assert [one.code for one in refusals_of(read_plan, path)] == ["PW571", "PW572", "PW572"]


def test_a_malformed_machine_file_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("schema = 1\n")
    path = written(tmp_path, ONE + 'machines = "mine.toml"\n')
    assert {one.code[:3] for one in refusals_of(read_plan, path)} == {"PW3"}


@pytest.mark.parametrize("seed", range(5))
def test_damaged_plans_give_diagnostics(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    text = (SAMPLES / "ptxwcet.toml").read_text(encoding="utf-8")
    for _ in range(40):
        place = rng.randrange(len(text))
        put = rng.choice(('"', "[", "=", "0", "{", "\n", "x", ","))
        with pytest.raises(PtxwcetError):  # there are none of its files here
            read_plan(written(tmp_path, text[:place] + put + text[place + 1 :]))


@pytest.mark.parametrize("files", ["link/../k.ptx", "link/../*.ptx", "./below/../link/../k.ptx"])
def test_the_folder_above_a_link_is_that_of_what_it_leads_to(files: str, tmp_path: Path) -> None:
    """Which is not the folder that the link is in: another kernel may lie there."""
    (tmp_path / "below").mkdir()
    (tmp_path / "elsewhere" / "folder").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "folder")
    (tmp_path / "k.ptx").write_bytes((SAMPLES / "vector_add.ptx").read_bytes())
    meant = tmp_path / "elsewhere" / "k.ptx"
    meant.write_bytes((SAMPLES / "sgemm_naive.ptx").read_bytes())
    (job,) = plan_of(tmp_path, f'[[check]]\nfiles = "{files}"\nblock = 256\n').jobs
    assert Path(job.request.path).samefile(meant)
    (job,) = plan_of(tmp_path, '[[check]]\nfiles = "below/../k.ptx"\nblock = 256\n').jobs
    assert job.request.path == str(tmp_path / "k.ptx")


def test_bounds_are_said_of_those_kernels_that_have_the_loop(tmp_path: Path) -> None:
    bounds = 'loop_bounds = { "$L__BB1_2" = 9, "$L__BB0_2" = 8, "$L__BB99_9" = 7, "" = 6 }\n'
    jobs = {job.request.kernels[0]: job.request for job in plan_of(tmp_path, LOOPS + bounds).jobs}
    first, second, *others = jobs.values()
    of_none = ("$L__BB99_9=7", "=6")  # refused where they are said
    assert first.loop_bounds == ("$L__BB0_2=8", *of_none)
    assert second.loop_bounds == ("$L__BB1_2=9", *of_none)
    assert {one.loop_bounds for one in others} == {of_none}
    (alone,) = plan_of(tmp_path, LOOPS + 'kernels = "loop_up"\n' + bounds).jobs
    assert len(alone.request.loop_bounds) == 4
