"""``--link``: places, facts, comments and kept answers of programs of several PTX files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from programs import run_program
from refusals import refusal_of, refusals_of

import ptxwcet
from ptxwcet.ptx.linking import read_program
from ptxwcet.support.source import SourceFile
from ptxwcet.sweeps.sweep_plan import read_sweep_plan

pytestmark = pytest.mark.fast

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
MAIN = f"""{HEAD}.extern .func (.param .b32 r) count(.param .b32 n);
.visible .entry k(.param .u64 p, .param .u32 m)
{{
.reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %d<3>;
.loc 1 4 1
ld.param.u64 %d1, [p];
ld.param.u32 %r3, [m];
mov.u32 %r2, 0;
L:
add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, 4;
.loc 1 5 1
@%p1 bra L;
{{ .param .b32 a; .param .b32 q; st.param.b32 [a], %r3; call (q), count, (a);
ld.param.b32 %r4, [q]; }}
st.global.u32 [%d1], %r4;
ret;
}}
.file 1 "/source/main.cu"
"""
LIBRARY = f"""{HEAD}.visible .func (.param .b32 r) count(.param .b32 n)
{{
.reg .pred %p<2>; .reg .b32 %r<4>;
.loc 1 8 1
ld.param.u32 %r1, [n];
mov.u32 %r2, 0;
L:
add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, %r1;
.loc 1 9 1
@%p1 bra L;
st.param.b32 [r], %r2;
ret;
}}
.file 1 "/source/library.cu"
"""
OPTIONS = ("main.ptx", "--link", "library.ptx", "--block", "32")
LOOP = "count#1:L"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(MAIN, LIBRARY)
    return tmp_path


def write(main: str, *libraries: str) -> None:
    Path("main.ptx").write_text(main)
    for name, text in zip(("library.ptx", "more.ptx"), libraries, strict=False):
        Path(name).write_text(text)


def cycles(*bounds: str) -> int:
    ended = run_program(*OPTIONS, *(word for one in bounds for word in ("--loop-bound", one)), "-q")
    assert (ended.code, ended.err) == (0, "")
    return int(ended.out.split()[1])


def refused(*words: str) -> str:
    ended = run_program(*OPTIONS, *words)
    assert ended.code != 0
    return ended.err


def test_a_refusal_says_the_place_in_the_linked_file() -> None:
    line = LIBRARY[: LIBRARY.index("@%p1")].count("\n") + 1
    said = refused()
    assert f"library.ptx:{line}:1: error[PW203]" in said
    assert f"{line} | @%p1 bra L;" in said
    assert f"the loop at {LOOP}" in said
    write(MAIN, LIBRARY.replace("mov.u32 %r2, 0;", "mov.u32 %r2, %r9;"))
    assert "library.ptx:9:14: error[PW104]" in refused()
    assert "PW220" in (said := run_program("main.ptx", "--block", "32").err)
    assert "--link" in said


def test_loops_of_a_linked_function_are_named_by_label_and_line() -> None:
    seven = cycles(f"{LOOP}=7")
    assert cycles("library.cu:9=7") == seven
    assert cycles(f"{LOOP}=8") > seven
    assert "PW203" in refused("--loop-bound", "L=7")  # that of the kernel
    assert "PW219" in refused("--loop-bound", "9=7")  # line 9 of the kernel's file
    assert "PW219" in refused("--loop-bound", "main.cu:9=7")


def test_two_calls_make_two_loops_of_one_line() -> None:
    call = MAIN[MAIN.index("{ .param .b32 a") : MAIN.index("st.global")]
    write(MAIN.replace(call, call + call), LIBRARY)
    said = refused("--loop-bound", "library.cu:9=7")
    assert "2 loops are at library.cu:9" in said
    assert cycles(f"{LOOP}=7", "count#2:L=3") > 0


def test_one_relative_name_means_two_files() -> None:
    names = '"/source/main.cu"', '"/source/library.cu"'
    write(MAIN.replace(names[0], '"k.cu"'), LIBRARY.replace(names[1], '"k.cu"'))
    assert "PW219" in refused("--loop-bound", "k.cu:9=7")
    assert "PW219" in refused("--loop-bound", "9=7")
    assert cycles("library.ptx::k.cu:9=7") > 0


def test_another_file_of_a_name_has_not_its_lines() -> None:
    write(MAIN.replace("main.cu", "k.cu"), LIBRARY.replace("/source/library.cu", "/other/k.cu"))
    Path("k.cu").write_text("".join(f"line {number}\n" for number in range(1, 20)))
    words = (*OPTIONS, "--param", "m=5", "--format", "json")
    (kernel,) = json.loads(run_program("annotate", *words).out)["kernels"]
    assert [one["name"] for one in kernel["files"]] == ["k.cu"]
    assert kernel["missing"] == ["other/k.cu"]
    paid = {one["text"] for one in kernel["elsewhere"] if one["cycles"]}
    assert "other/k.cu:9" in paid


MARK = "// ptxwcet: loop_bound 7\n"
STEP = "add.u32 %r2, %r2, 1;\n"


def test_comments_are_of_their_own_file() -> None:
    seven = cycles(f"{LOOP}=7")
    write(MAIN, LIBRARY.replace(STEP, MARK + STEP))
    assert cycles() == seven
    # the instructions around the comment stand at the same places of the other text, or one behind
    main = MAIN.replace(STEP, MARK + STEP)
    library = LIBRARY.replace(STEP, " " * len(MARK) + STEP)
    space = main.index(STEP) - library.index(STEP)
    for less in (0, 1):
        write(main, library.replace(HEAD, HEAD + " " * (space - less)))
        assert "PW203" in refused()
    # a kernel of the linked file is not one of the program: its comments concern nobody
    kernel = main[main.index(".visible .entry") : main.index(".file")]
    other = kernel.replace(" k(", " other(")
    write(MAIN, LIBRARY.replace(STEP, MARK + STEP) + other)
    assert cycles() == seven


def test_facts_are_of_all_files() -> None:
    template = run_program("facts", *OPTIONS).out
    Path("facts.toml").write_text(template)
    digest = next(line for line in template.splitlines() if line.startswith("ptx = "))
    Path("facts.toml").write_text(f'{digest}\n[[loop]]\nat = "{LOOP}"\nbound = 7\n')
    ended = run_program(*OPTIONS, "--facts", "facts.toml", "-q")
    assert int(ended.out.split()[1]) == cycles(f"{LOOP}=7")
    write(MAIN, LIBRARY + "\n")
    assert "facts.toml" in refused("--facts", "facts.toml")


def test_kept_answers_are_of_all_files() -> None:
    table = 'block = "32"\nlink = ["library.ptx"]\nparams = { m = 5 }\n'
    Path("ptxwcet.toml").write_text(f'[[check]]\nfiles = "main.ptx"\n{table}')
    words = ("check", "--workers", 1, "--cache", "kept", "--format", "json")

    def found() -> int:
        (row,) = json.loads(run_program(*words).out)["checks"]
        return int(row["answer"]["bound_cycles"])

    first = found()
    assert found() == first
    write(MAIN, LIBRARY.replace("%r2, %r2, 1;", "%r2, %r2, 1;\nadd.u32 %r3, %r2, 1;"))
    assert found() > first
    Path("ptxwcet.toml").write_text(Path("ptxwcet.toml").read_text().replace('["lib', '["no'))
    assert "PW573" in run_program(*words).err
    Path("ptxwcet.toml").write_text("[[check]]\nfiles = 'main.ptx'\nlink = [3]\n")
    assert "PW572" in run_program(*words).err


def test_a_sweep_links_all_files_of_the_key() -> None:
    table = 'files = "main.ptx"\nlink = ["library.ptx"]\nblock = "32"\nparams = { m = [3, 5] }\n'
    Path("sweep.toml").write_text(f"[[sweep]]\n{table}")
    requests = [unit.request for unit in read_sweep_plan("sweep.toml").units()]
    assert [one.links for one in requests] == [("library.ptx",)] * 2
    Path("sweep.toml").write_text("[[sweep]]\n" + table.replace("library", "none"))
    assert refusal_of(read_sweep_plan, "sweep.toml").code == "PW573"
    Path("sweep.toml").write_text("[[sweep]]\n" + table.replace('["library.ptx"]', "3"))
    assert refusal_of(read_sweep_plan, "sweep.toml").code == "PW572"


def test_an_answer_lists_all_files_that_it_rests_on() -> None:
    run_program(
        "report", "dossier", *OPTIONS, "--param", "m=5", "--selftest", "none", "-o", "d.json"
    )
    dossier = json.loads(Path("d.json").read_text())
    files = {one["name"]: (one["what"], one["sha256"]) for one in dossier["files"]}
    assert files["main.ptx"][0] == "PTX"
    assert files["library.ptx"][0] == "linked PTX"
    assert files["main.ptx"][1] != files["library.ptx"][1] != dossier["sha256"]
    (kernel,) = dossier["kernels"]
    rests_on = {one["key"]: one["text"] for one in kernel["bound"]["assumptions"]}
    assert "library.ptx" in rests_on["linked-files"]


def test_lines_of_all_files_add_up_to_the_bound() -> None:
    words = (*OPTIONS, "--param", "m=5", "--ptx", "--format", "json")
    (kernel,) = json.loads(run_program("annotate", *words).out)["kernels"]
    assert [one["name"] for one in kernel["files"]] == ["main.ptx", "library.ptx"]
    lines = [line for file in kernel["files"] for line in file["lines"]]
    paid = sum(line["cycles"] or 0 for line in (*lines, *kernel["elsewhere"]))
    assert paid == kernel["bound"]["bound_cycles"]
    texts = LIBRARY.split("\n")
    second = [line["line"] for line in kernel["files"][1]["lines"] if line["cycles"]]
    assert "@%p1 bra L;" in {texts[number - 1] for number in second}


@pytest.mark.thorough
def test_a_page_shows_the_lines_of_all_files() -> None:
    run_program("report", *OPTIONS, "--param", "m=5", "--no-simulate", "-o", "page.html")
    assert 'data-l="9 of library.ptx"' in Path("page.html").read_text()


def test_certificates_of_linked_loops_are_checked_again() -> None:
    step = "add.s32 %r2, %r1, -1;\nand.b32 %r1, %r1, %r2;\nsetp.ne.s32 %p1, %r1, 0;\n"
    begin, end = LIBRARY.index(STEP), LIBRARY.index(".loc 1 9 1")
    data = MAIN.replace("ld.param.u32 %r3, [m];", "ld.global.u32 %r3, [%d1];")
    write(data, LIBRARY[:begin] + step + LIBRARY[end:])
    run_program(*OPTIONS, "--format", "json", "-o", "r.json")
    assert run_program("validate", "certificates", "r.json", "main.ptx").code == 2
    ended = run_program("validate", "certificates", "r.json", "main.ptx", "--link", "library.ptx")
    assert ended.code == 0
    assert f"k {LOOP}: confirmed" in ended.out


def test_ptxas_is_not_asked_about_a_part() -> None:
    words = (*OPTIONS, "--param", "m=5", "--grid", "9")
    assert "PW327" in run_program(*words, "--registers", "ptxas").err
    Path("info.txt").write_text("ptxas info: Used 9 registers\n")
    assert "PW327" in run_program(*words, "--registers", "info.txt").err
    assert run_program(*words, "--registers", "20").code == 0


# --- names -------------------------------------------------------------------------------------

RUN = 'kernel = "k"\ngrid = 1\nblock = 1\n[arguments]\np = { shape = 1, dtype = "int32", init = '
RUN += '"zeros" }\n'
GET = """.func (.param .b32 r) {name}()
{{
.reg .b32 %r<4>;
{body}
st.param.b32 [r], %r1;
ret;
}}
"""


def get(name: str, body: str, linkage: str = ".visible ") -> str:
    return linkage + GET.format(name=name, body=body)


def call(name: str, into: str) -> str:
    return f"{{ .param .b32 q; call (q), {name}, (); ld.param.b32 {into}, [q]; }}\n"


def declared(*names: str) -> str:
    return "".join(f".extern .func (.param .b32 r) {name}();\n" for name in names)


def kernel(body: str) -> str:
    return (
        ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<5>; .reg .b64 %d<3>;\n"
        f"ld.param.u64 %d1, [p];\n{body}st.global.u32 [%d1], %r1;\nret;\n}}\n"
    )


def stored(main: str, *libraries: str) -> int:
    """What the kernel of a program stores, if its bound is one, too."""
    write(HEAD + main, *(HEAD + one for one in libraries))
    Path("l.toml").write_text(RUN)
    links = ["library.ptx", "more.ptx"][: len(libraries)]
    answer = ptxwcet.run("main.ptx", "l.toml", link=links)
    assert not answer.diagnostics
    assert ptxwcet.bound("main.ptx", launch="l.toml", link=links).cycles > 0
    return int(answer.outputs["p"][0])


def own(value: int) -> str:
    """A function and a variable that each file has for itself."""
    return f".global .align 4 .u32 v = {value};\n" + get("own", "ld.global.u32 %r1, [v];", "")


def test_three_files_have_their_own_functions_and_variables() -> None:
    main = declared("f", "g") + own(1) + kernel(
        call("own", "%r1") + call("f", "%r2") + call("g", "%r3")
        + "mad.lo.u32 %r2, %r2, 10, %r1;\nmad.lo.u32 %r1, %r3, 100, %r2;\n"
    )  # fmt: skip
    libraries = own(2) + get("f", call("own", "%r1")), own(3) + get("g", call("own", "%r1"))
    assert stored(main, *libraries) == 321
    texts = zip("abc", (main, *libraries), strict=True)
    program = read_program(*(SourceFile(name, HEAD + text) for name, text in texts))
    names = {one.name for one in (*program.functions, *program.variables)}
    assert names == {"f", "g", "own", "b::own", "c::own", "v", "b::v", "c::v"}


def test_a_variable_of_the_kernel_hides_none_of_another_file() -> None:
    body = ".shared .align 4 .u32 v;\nmov.u32 %r2, 9;\nst.shared.u32 [v], %r2;\n"
    library = ".global .align 4 .u32 v = 4;\n" + get("f", "ld.global.u32 %r1, [v];")
    assert stored(declared("f") + kernel(body + call("f", "%r1")), library) == 4


def test_a_variable_of_a_function_is_not_that_of_its_file() -> None:
    body = ".shared .align 4 .u32 v;\nmov.u32 %r1, 9;\nst.shared.u32 [v], %r1;\n"
    library = own(4) + get("f", f"{body}ld.shared.u32 %r1, [v];")
    assert stored(own(1) + declared("f") + kernel(call("f", "%r1")), library) == 9


def test_a_linked_function_calls_back() -> None:
    main = declared("f") + get("back", "mov.u32 %r1, 6;") + kernel(call("f", "%r1"))
    assert stored(main, declared("back") + get("f", call("back", "%r1"))) == 6
    circle = declared("f") + get("back", call("f", "%r1")) + kernel(call("f", "%r1"))
    write(HEAD + circle, HEAD + declared("back") + get("f", call("back", "%r1")))
    assert "circle: f -> back -> f" in refused()


def test_an_own_function_stands_for_no_declaration() -> None:
    write(HEAD + declared("own") + kernel(call("own", "%r1")), HEAD + own(3))
    assert "PW220" in refused()
    write(HEAD + own(1) + declared("f") + kernel(call("f", "%r1")),
          HEAD + declared("own") + get("f", call("own", "%r1")))  # fmt: skip
    said = refused()  # not the own one of the other file
    assert "library.ptx" in said
    assert "PW220" in said


def test_an_alias_is_its_files() -> None:
    library = own(5) + "LINKAGE .func (.param .b32 r) f();\n.alias f, own;\n"
    main = own(1) + declared("f") + kernel(call("f", "%r1"))
    assert stored(main, library.replace("LINKAGE", ".visible")) == 5
    main = own(1) + get("f", "mov.u32 %r1, 6;") + kernel(call("f", "%r1"))
    assert stored(main, library.replace("LINKAGE", ".weak")) == 6


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (".address_size 64", ".address_size 32", "addresses of 64 bits and of 32"),
        ("sm_80", "sm_90", None),
        ("sm_80", "sm_100a", None),
        (".version 8.0\n.target sm_80", ".version 7.0\n.target sm_70", None),
        ("sm_80", "sm_80, texmode_independent", "other options of .target"),
        ("sm_80", "sm_80, debug", None),
    ],
)
def test_headers_of_one_program(old: str, new: str, said: str | None) -> None:
    texts = MAIN, LIBRARY.replace(old, new).replace("8.0\n.target sm_100", "8.6\n.target sm_100")
    sources = [SourceFile(*one) for one in zip(("a", "b"), texts, strict=True)]
    if said is None:
        assert len(read_program(*sources).kernels) == 1
        return
    found = refusal_of(read_program, *sources)
    assert (found.code, str(found.span)[:2]) == ("PW122", "b:")
    assert said in found.message


def test_no_gpu_runs_two_of_its_own() -> None:
    names = "sm_90a", "sm_100a", "sm_120"
    texts = [
        f".version 8.7\n.target {name}\n.address_size 64\n.visible .entry k{name}()\n{{\nret;\n}}\n"
        for name in names
    ]
    sources = [SourceFile(*one) for one in zip(names, texts, strict=True)]
    for others in ((0, 1), (0, 2), (1, 2)):
        (found,) = refusals_of(read_program, *(sources[one] for one in others))
        assert found.message == f"no GPU runs both {names[others[0]]} and {names[others[1]]}"
    assert len(refusals_of(read_program, *sources)) == 3


def test_a_file_that_was_not_made_to_be_linked_is_warned_of() -> None:
    table = "const .align 4 .u32 v = 2;\n"
    texts = {"a": f".{table}{kernel('')}", "b": f".visible .{table}", "c": f".{table}"}
    sources = {name: SourceFile(name, HEAD + text) for name, text in texts.items()}
    for first, second, own in (("a", "b", "a"), ("b", "a", "a"), ("c", "a", None)):
        warned = read_program(sources[first], sources[second]).warnings
        assert [(one.code, str(one.span)[0]) for one in warned] == [("PW122", own)] * bool(own)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.thorough
def test_cuda_source_is_compiled_to_be_linked() -> None:
    data = Path(__file__).parents[1] / "data/linking"
    links = data / "library.ptx"
    launch = {"launch": data / "work.toml", "link": links}
    Path("main.cu").write_bytes((data / "main.cu").read_bytes())
    made = ptxwcet.bound("main.cu", arch="sm_80", **launch)
    assert made.cycles == ptxwcet.bound(data / "main.ptx", **launch).cycles
