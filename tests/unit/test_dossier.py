"""``ptxwcet report dossier``: what an assessor asks for, as data and as a page."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import shutil
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attack_summaries
import jsonschema
import numpy as np
import pytest
from places import PACKAGE, ROOT, SAMPLES
from programs import run_program
from sass_listings import listing

from ptxwcet.claims import AssumptionState
from ptxwcet.cli.output import json_text
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.bound.report import Report
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.bound.text import render_text
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.dossier.page import render_dossier
from ptxwcet.dossier.report import (
    Circumstances,
    DossierKernel,
    DossierReport,
    SelfTestPart,
    build_dossier,
)
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.opening import files_of, read_module
from ptxwcet.opened.request import Request
from ptxwcet.report.reading import read_as
from ptxwcet.support import installation
from ptxwcet.support.installation import Digest, describe_installation
from ptxwcet.validate import path_selftest, selftest
from ptxwcet.validate.attack import Tally
from ptxwcet.validate.attack_rows import attack_rows
from ptxwcet.validate.generator import FAMILIES
from ptxwcet.validate.grids import GridTally
from ptxwcet.validate.selftest import SelfTest, SelfTestReport, build_selftest_report

SAXPY = (SAMPLES / "saxpy.ptx", "--block", "256", "--grid", "4", "--param", "n=1000")
MADE = Circumstances("ptxwcet report dossier", datetime(2026, 1, 2, tzinfo=UTC), ())
OTHER = "the self-test is of another installation"
PATHS = path_selftest.PathSelfTest(16, 16, 128, ())
NO_TEST = SelfTestPart("none", None, (), None)
BITS = (
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 data)\n{\n"
    ".reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<9>;\n"
    "ld.param.u64 %d1, [data]; ld.global.u32 %r1, [%d1];\n"
    "L: add.s32 %r2, %r1, -1; and.b32 %r1, %r1, %r2; setp.ne.s32 %p1, %r1, 0; @%p1 bra L;\n"
    "ret;\n}\n"
)


@pytest.fixture(autouse=True)
def _same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")


def a_self_test(cases: int) -> SelfTest:
    """A self-test of this installation that took no time."""
    versions, digests = describe_installation()
    return SelfTest(
        tuple(versions.items()),
        tuple(Digest(*one) for one in digests.items()),
        *(1, cases, (("paper example 1", ()),), (("SAFE >= run of a policy", 7 * cases),)),
        *(((FAMILIES[0].name, Tally()),), GridTally(), 0, ()),
    )


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved result of the self-test."""
    path = tmp_path_factory.mktemp("selftest") / "selftest.json"
    path.write_text(json_text(build_selftest_report(a_self_test(12), PATHS)))
    jsonschema.Draft202012Validator(schema_of("selftest")).validate(json.loads(path.read_text()))
    return path


def written(path: Path, *arguments: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, data of the dossier and messages."""
    ended = run_program("report", "dossier", *arguments, "-o", path)
    data = json.loads(path.read_text())
    jsonschema.Draft202012Validator(schema_of("dossier")).validate(data)
    return ended.code, data, ended.err


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- what is in it --------------------------------------------------------------------------------


def test_the_claim_is_that_of_the_main_command(tmp_path: Path, tested: Path) -> None:
    code, data, error = written(tmp_path / "d.json", *SAXPY, "--selftest", tested)
    assert (code, error, data["outcome"], data["findings"]) == (0, "", "bounded", [])
    (kernel,) = data["kernels"]
    (bound,) = json.loads(run_program(*SAXPY, "--format", "json").out)["kernels"]
    assert kernel["bound"] == bound
    block, launch = kernel["claims"]
    assert (block["of"], block["cycles"]) == ("block", bound["bound_cycles"])
    assert (launch["of"], launch["cycles"]) == ("launch", bound["launch"]["cycles"])
    assert block["guarantee"] == launch["guarantee"] == "safe-bound"
    assert "docs/methods/safe.md, Theorem (SAFE)" in block["citations"]
    assert launch["citations"] == ["docs/methods/grid.md, G1 to G3"]
    assert "n=1000" in block["statement"]
    assert "Proved under the assumptions below." in launch["statement"]


def test_the_ledger_has_all_that_bounds_rest_on(tmp_path: Path) -> None:
    _, data, _ = written(tmp_path / "d.json", *SAXPY, "--machine", "titan-v", "--selftest", "none")
    (kernel,) = data["kernels"]
    ledger = {(row["key"], row["text"]): row for row in kernel["ledger"]}
    for of, rows in (
        ("block", kernel["bound"]["assumptions"]),
        ("launch", kernel["bound"]["launch"]["assumptions"]),
    ):
        for row in rows:
            entry = ledger[row["key"], row["text"]]
            assert of in entry["of"]
            assert entry["evidence"] == row["source"]
    states = {key: row["state"] for (key, _), row in ledger.items()}
    assert states["ptx-is-executed"] == "doubtful"
    assert data["outcome"] == "estimated"
    assert data["findings"] == [
        f"the bound of the {of} of kernel saxpy is an estimate" for of in ("block", "launch")
    ]
    assert "An estimate" in kernel["claims"][0]["statement"]
    made_true = AssumptionState.BY_DEFINITION
    expected = {one.key for one in load_machine("titan-v").satisfies if one.state is made_true}
    assert {row["key"] for row in data["by_definition"]} == expected


def test_every_input_is_named_with_its_digest(tmp_path: Path) -> None:
    ptx = Path(shutil.copy(SAMPLES / "histogram.ptx", tmp_path))
    launch = tmp_path / "launch.toml"
    numbers = tmp_path / "in.npy"
    np.save(numbers, np.zeros(1000, np.uint8))
    launch.write_text(
        'kernel = "histogram"\nblock = 256\ngrid = 4\n[arguments]\nin = { file = "in.npy" }\n'
        'bins = { shape = 256, dtype = "uint32", init = "zeros" }\nn = 1000\n'
    )
    facts = tmp_path / "facts.toml"
    facts.write_text(f'ptx = "sha256:{sha256(ptx)}"\n')
    code, data, error = written(
        tmp_path / "d.json",
        *(ptx, "--launch", launch, "--facts", facts, "--source", SAMPLES / "histogram.cu"),
        *("--machine", "orin-ecrts2025-memory", "--selftest", "none"),
    )
    assert code == 0, error
    models = PACKAGE / "machine/models"
    expected = {
        "PTX": ptx,
        "machine": models / "orin-ecrts2025-memory.toml",
        "extended machine": models / "orin-ecrts2025.toml",
        "CUDA source": SAMPLES / "histogram.cu",
        "launch file": launch,
        "facts": facts,
        "launch data": numbers,
    }
    assert {row["what"]: row["sha256"] for row in data["files"]} == {
        what: sha256(path) for what, path in expected.items()
    }
    assert f"--launch {launch}" in data["command"]
    assert data["sources_sha256"] == installation.describe_sources()
    assert {"ptxwcet", "Python", "numpy", "lark"} <= {row["name"] for row in data["versions"]}


def test_what_the_ptx_was_made_from_is_named(tmp_path: Path) -> None:
    cuda = tmp_path / "k.cu"
    cuda.write_text("// CUDA\n")
    request = Request(str(cuda), block="32", text=BITS)
    files = {one.what: one.sha256 for one in files_of(request, bound_file(request))}
    assert files["PTX"] == hashlib.sha256(BITS.encode()).hexdigest()
    assert files["what the PTX was made or taken from"] == sha256(cuda)


def test_equal_input_gives_equal_bytes(tmp_path: Path, tested: Path) -> None:
    texts = []
    for _ in range(2):
        run_program("report", "dossier", *SAXPY, "--selftest", tested, "-o", tmp_path)
        texts += [(tmp_path / f"dossier.{form}").read_text() for form in ("html", "json")]
    assert texts[:2] == texts[2:]
    assert "1970-01-01 00:00:00 UTC" in texts[0]
    assert json.loads(texts[1])["made"] == "1970-01-01T00:00:00+00:00"


def test_the_attacks_are_those_of_the_project() -> None:
    summary = (PACKAGE / "validate/attacks.json").read_text(encoding="utf-8")
    made = attack_summaries.summary_text(ROOT / "docs/experiments")
    assert made == summary, "python benchmarks/attack_summaries.py makes it anew"
    assert list(attack_summaries.names_of(ROOT / "docs/experiments")) == sorted(
        attack_summaries.ATTACKS
    )
    for row in attack_rows():
        assert sha256(ROOT / row.experiment) == row.sha256
        assert row.exceeded == 0 < row.runs
    whole = {row.experiment: row for row in attack_rows()}
    page = (ROOT / "docs/experiments/attack-grid.md").read_text()
    assert f"{whole['docs/experiments/attack-grid.json'].runs:,} runs of grids" in page


# --- what is wrong --------------------------------------------------------------------------------


def test_a_refused_kernel_is_refused_in_it(tmp_path: Path) -> None:
    loops = (SAMPLES / "loops.ptx", "--block", "64", "--selftest", "none")
    code, data, error = written(tmp_path / "d.json", *loops, "-k", "loop_nested")
    assert (code, data["outcome"]) == (1, "refused")
    assert data["findings"] == ["kernel loop_nested is refused [PW203]"]
    assert "error[PW203]" in error
    assert data["kernels"][0]["status"] == "refused"
    page = tmp_path / "d.html"
    ended = run_program(
        "report",
        "dossier",
        *loops,
        "-k",
        "loop_nested",
        "-k",
        "loop_up",
        "--param",
        "n=9",
        "-o",
        page,
    )
    assert (ended.code, ended.out) == (1, f"{page}: refused\n")
    html = page.read_text()
    assert "Refused: there is no bound, and nothing is claimed." in html
    assert "PW203" in html
    assert "2. Kernel loop_nested" in html


def test_a_bound_over_its_budget_fails(tmp_path: Path) -> None:
    code, data, error = written(tmp_path / "d.json", *SAXPY, "--budget", "10", "--selftest", "none")
    assert (code, data["outcome"]) == (1, "failed")
    assert "error[PW520]" in error
    assert "PW590" not in error
    assert "budget" in data["findings"][0]
    estimated = (*SAXPY, "--machine", "titan-v", "--require", "safe-bound", "--selftest", "none")
    code, other, error = written(tmp_path / "d.json", *estimated)
    assert (code, other["outcome"]) == (1, "failed")
    assert "error[PW521]" in error
    assert "--budget '10 cycles' " in data["command"]


def dossier_of(report: Report, request: Request) -> DossierReport:
    machine = load_machine(request.machine)
    return build_dossier(report, read_module(request), machine, NO_TEST, MADE, ())


def test_of_machine_code_no_word_is_of_ptx() -> None:
    sizes = tuple(f"{number}=32" for number in (3, 4, 5))
    request = Request(
        *("k.cu", (), "16x16", None, sizes), text=listing("sgemm_naive_86"), is_code=True
    )
    report = build_report(bound_file(request), explain=True)
    found = dossier_of(report, request)
    assert "the machine code that was given" in found.limits[0]
    assert not any("PTX" in limit or "ptx" in limit for limit in found.limits)
    assert "ptx-is-executed" not in {row.key for row in found.by_definition}
    (kernel,) = found.kernels
    assert isinstance(kernel, DossierKernel)
    lower = kernel.bound.bounds[-1]
    assert lower.note.startswith("what waits of machine code is charged the most")
    assert kernel.bound.explanation is not None
    assert {row.place[:2] for row in kernel.bound.explanation.ptx_lines} == {"0x"}
    shown = render_text(report).text
    assert "instructions that pay most" in shown
    assert "PTX line" not in shown


def test_certificates_are_checked_again(tmp_path: Path) -> None:
    path = tmp_path / "bits.ptx"
    path.write_text(BITS)
    request = Request(str(path), block="32")
    report = build_report(bound_file(request))
    right = dossier_of(report, request)
    assert right.outcome == "bounded"
    (kernel,) = right.kernels
    assert isinstance(kernel, DossierKernel)
    assert [(one.block, one.verdict) for one in kernel.certificates] == [("L", "confirmed")]
    (row,) = report.kernels
    (loop,) = row.loops  # type: ignore[union-attr]
    (certificate,) = loop.certificates
    smaller = dataclasses.replace(certificate, iterations=certificate.iterations - 1)
    tampered = dataclasses.replace(loop, iterations=smaller.iterations, certificates=(smaller,))
    kernels = (dataclasses.replace(row, loops=(tampered,)),)
    wrong = dossier_of(dataclasses.replace(report, kernels=kernels), request)
    assert wrong.outcome == "failed"
    assert wrong.findings[0].startswith("the certificate of the loop at L of kernel k is not")
    assert "checked again for this dossier" in render_dossier(wrong)


@pytest.mark.parametrize(
    ("key", "value", "finding"),
    [
        ("passed", False, "the self-test failed"),
        (
            "sha256",
            {"sources": "0" * 64},
            "the self-test is of another installation: other sources",
        ),
        (
            "versions",
            {"python": "2.7"},
            "the self-test is of another installation: python 2.7, here",
        ),
    ],
)
def test_a_self_test_that_does_not_count(
    key: str, value: Any, finding: str, tmp_path: Path, tested: Path
) -> None:
    data = json.loads(tested.read_text())
    data[key] = data[key] | value if isinstance(value, dict) else value
    del data["digest"]  # as of a version without digests, which would refuse the change
    file = tmp_path / "other.json"
    file.write_text(json.dumps(data))
    code, found, error = written(tmp_path / "d.json", *SAXPY, "--selftest", file)
    assert (code, found["outcome"]) == (1, "failed")
    assert found["findings"][0].startswith(finding)
    assert f"error[PW590]: {finding}" in error
    assert found["self_test"]["file"] == {
        "what": "self-test",
        "name": "other.json",
        "sha256": sha256(file),
    }


def test_the_self_test_is_run_unless_it_is_given(
    tmp_path: Path, tested: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def run(seed: int, *, cases: int) -> SelfTest:
        seen.append((seed, cases))
        return a_self_test(cases)

    monkeypatch.setattr(selftest, "run_selftest", run)
    monkeypatch.setattr(path_selftest, "run_path_selftest", lambda _: PATHS)
    code, data, _ = written(tmp_path / "d.json", *SAXPY, "--cases", "7")
    assert (code, seen) == (0, [(1, 7)])
    assert data["self_test"]["origin"] == "run"
    assert data["self_test"]["result"]["random_cases"] == 7
    _, data, _ = written(tmp_path / "d.json", *SAXPY, "--selftest", tested)
    assert (data["self_test"]["origin"], len(seen)) == ("read", 1)
    assert read_as(SelfTestReport, data["self_test"]["result"]).passed
    _, data, _ = written(tmp_path / "d.json", *SAXPY, "--selftest", "none")
    assert data["self_test"] == {"origin": "none", "file": None, "differs": [], "result": None}
    page = tmp_path / "d.html"
    run_program("report", "dossier", *SAXPY, "--selftest", "none", "-o", page)
    assert "No self-test was run or read" in page.read_text()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 1}', "[" * 100_000])
def test_a_file_that_is_no_self_test_is_usage(text: str, tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    ended = run_program("report", "dossier", *SAXPY, "--selftest", file, "-o", tmp_path / "d.html")
    assert ended.code == 2
    assert "error[PW591]" in ended.err
    assert not (tmp_path / "d.html").exists()


# --- where it goes --------------------------------------------------------------------------------


def test_the_form_is_that_of_the_name_or_the_option(tmp_path: Path) -> None:
    def forms(*options: str) -> dict[str, str]:
        for path in tmp_path.iterdir():
            path.unlink()
        ended = run_program("report", "dossier", *SAXPY, "--selftest", "none", *options)
        assert ended.code == 0, ended.err
        return {
            path.name: "json" if path.read_text().startswith("{") else "html"
            for path in tmp_path.iterdir()
        }

    target = str(tmp_path)
    assert forms("-o", target) == {"dossier.html": "html", "dossier.json": "json"}
    assert forms("-o", target, "--format", "json") == {"dossier.json": "json"}
    assert forms("-o", f"{target}/a.json") == {"a.json": "json"}
    assert forms("-o", f"{target}/a.htm") == {"a.htm": "html"}
    assert forms("-o", f"{target}/a.htm", "--format", "json") == {"a.htm": "json"}


def test_nothing_is_replaced(tmp_path: Path) -> None:
    facts = tmp_path / "dossier.json"
    facts.write_text("")
    ended = run_program(
        "report", "dossier", *SAXPY, "--selftest", "none", "--facts", facts, "-o", tmp_path
    )
    assert ended.code == 2
    assert "would replace" in ended.err
    ended = run_program(
        "report", "dossier", *SAXPY, "--selftest", "none", "-o", tmp_path / "no" / "d.html"
    )
    assert ended.code == 2


# --- the page -------------------------------------------------------------------------------------


class Checker(HTMLParser):
    """What a page would load, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "object", "img", "base", "a")
        assert not any(key.startswith("on") or key in ("src", "href") for key, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of(html: str) -> str:
    assert "url(" not in html
    assert "@import" not in html
    checker = Checker()
    checker.feed(html)
    return " ".join(checker.text.split())


def test_the_page_says_what_the_data_say(tmp_path: Path, tested: Path) -> None:
    run_program("report", "dossier", *SAXPY, "--selftest", tested, "-o", tmp_path)
    data = json.loads((tmp_path / "dossier.json").read_text())
    text = text_of((tmp_path / "dossier.html").read_text())
    (kernel,) = data["kernels"]
    for claim in kernel["claims"]:
        assert f"{claim['cycles']:,} cycles" in text
        assert claim["statement"] in text
        assert "; ".join(claim["citations"]) in text
    for row in (*kernel["ledger"], *data["by_definition"]):
        assert row["text"] in text
        assert row["state"] in text
        assert row["evidence"] in text
    for row in (*data["files"], *data["attacks"]):
        assert row["sha256"] in text
    for one in (*data["limits"], data["command"].replace("dossier.json", "dossier.html")):
        assert " ".join(one.split()) in text
    assert all(f"{row['name']} {row['version']}" in text for row in data["versions"])
    assert "which an earlier run of the self-test wrote: passed, 0 violations" in text


def test_names_are_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "<b>evil<script>"
    folder.mkdir()
    path = folder / "k<i>.ptx"
    path.write_text(BITS)
    page = tmp_path / "d.html"
    run_program("report", "dossier", path, "--block", "32", "--selftest", "none", "-o", page)
    assert "k<i>.ptx" in text_of(page.read_text())


def test_data_are_read_back_as_they_were(tmp_path: Path, tested: Path) -> None:
    """Mappings, too."""
    data = json.loads(tested.read_text())
    again = json.loads(json.dumps(dataclasses.asdict(read_as(SelfTestReport, data))))
    assert again == {key: one for key, one in data.items() if key != "digest"}
    broken = copy.deepcopy(again)
    broken["checks"]["SAFE >= run of a policy"] = "many"
    with pytest.raises(ValueError, match=r"checks\.SAFE >= run of a policy is not a whole number"):
        read_as(SelfTestReport, broken)
    broken["checks"] = []
    with pytest.raises(ValueError, match="checks: no object"):
        read_as(SelfTestReport, broken)
