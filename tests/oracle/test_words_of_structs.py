"""What is said of members of structs, held to executions and to what a compiler lays out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from containment_runs import contained

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.facts.cuda_structs import members_of_parameters
from ptxwcet.flow.facts.parameters import parse_parameters, resolve_arrays, resolve_parameters
from ptxwcet.flow.launch import Launch
from ptxwcet.opened.request import Request
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

HEAD = """.version 8.0
.target sm_86
.address_size 64
.const .align 8 .b8 c_s[16];
.visible .entry k(.param .u64 k_p, .param .align 8 .b8 k_s[24])
{
.reg .pred %p<4>; .reg .b16 %h<2>; .reg .b32 %r<20>; .reg .b64 %rd<6>;
mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [k_p];
"""
LOADS = (
    "ld.param.u32 {a}, [k_s+4];",
    "ld.param.s32 {a}, [k_s+8];",
    "ld.param.v2.u32 {{{a}, {b}}}, [k_s+8];",
    "ld.param.v2.u32 {{{a}, {b}}}, [k_s+16];",
    "ld.param.u64 %rd2, [k_s+8]; cvt.u32.u64 {a}, %rd2;",
    "ld.param.u16 %h1, [k_s+12]; cvt.u32.u16 {a}, %h1;",
    "mov.u64 %rd3, k_s; ld.param.u32 {a}, [%rd3+12];",
    "ld.param.u32 {a}, [k_s+6];",
    "ld.const.u32 {a}, [c_s];",
    "ld.const.v2.u32 {{{a}, {b}}}, [c_s+8];",
    "ld.const.u64 %rd4, [c_s+8]; cvt.u32.u64 {a}, %rd4;",
    "mov.u64 %rd5, c_s; ld.const.u32 {a}, [%rd5+4];",
)
LOOP = """mov.u32 {i}, 0;
L{n}: add.s32 {i}, {i}, 1; setp.{compare} %p1, {i}, {a}; @%p1 bra L{n};
"""


def program(chance: random.Random) -> str:
    lines = []
    for number in range(chance.randint(1, 3)):
        a, b = f"%r{4 + 4 * number}", f"%r{5 + 4 * number}"
        lines.append(chance.choice(LOADS).format(a=a, b=b))
        bound = chance.choice([a, b]) if "v2" in lines[-1] else a
        if chance.random() < 0.3:
            lines.append(f"min.s32 {bound}, {bound}, 9;")
        if chance.random() < 0.3:
            lines.append(f"add.s32 {bound}, {bound}, %r1;")
        compare = chance.choice(["lt.s32", "lt.u32"])
        lines.append(LOOP.format(i=f"%r{6 + 4 * number}", n=number, a=bound, compare=compare))
    return HEAD + "\n".join(lines) + "ret;\n}\n"


@pytest.mark.parametrize("part", range(2))
def test_words_contain_executions(part: int) -> None:
    chance, codes = random.Random(part), []
    for number in range(12):
        text = program(chance)
        kernel = parse_module(SourceFile("k.ptx", text)).kernels[0]
        values: dict[str, int | float] = {}
        ranges: dict[str, tuple[int, int]] = {}
        words = {f"k_s+{offset}" for offset in (4, 8, 12, 16, 20)} | {"c_s+0", "c_s+8", "c_s+12"}
        words -= {"k_s+8"} if ".u64 %rd2" in text else set()  # words of other widths
        words -= {"k_s+12"} if ".u16" in text else set()
        words -= {"c_s+8"} if ".u64 %rd4" in text else set()
        for word in sorted(words):
            low = chance.randint(-2, 9)
            if chance.random() < 0.5:
                values[word] = low
            else:
                ranges[word] = low, low + chance.randint(1, 4)
        launch = Launch((32, 1, 1), parameters=values, ranges=ranges)
        result = contained(kernel, launch, seed=number, executions=4, steps=60)
        assert result.wrong == "", text
        codes.append(result.code)
    assert codes.count(None) > 2


SOURCE = """
struct Inner { unsigned char kind; float2 place; };
struct __align__(16) Outer {
  const float *data, scale;  // scale is no pointer
  Inner parts[2];
  unsigned long long int most = 3;
  short3 small;
};
typedef struct { int n; } Named;
__global__ void k(const Outer o, Named named, int3 size) {}
"""
PLACES = {  # as nvcc 13.0 lays them out: asked with offsetof
    ("data", 0),
    ("scale", 8),
    ("parts[0].kind", 16),
    ("parts[0].place.x", 24),
    ("parts[1].kind", 32),
    ("parts[1].place.y", 44),
    ("most", 48),
    ("small.x", 56),
    ("small.z", 60),
}


def test_layouts_are_those_of_the_compiler() -> None:
    members = members_of_parameters(SOURCE, "k", [64, 4, 12])
    assert {(path[1:], offset) for offset, (path, _) in members[0].items()} >= PLACES
    assert members[1] == {0: (".n", 4)}
    assert members[2] == {0: (".x", 4), 4: (".y", 4), 8: (".z", 4)}


@pytest.mark.parametrize(
    "change",
    [
        ("short3 small", "short3 small : 3"),
        ("short3 small", "Unknown small"),
        ("short3 small", "short3 small; int f() const"),
        ("short3 small", "long small"),
        ("short3 small", "short3 small[N]"),
        ("struct Inner {", "#pragma pack(1)\nstruct Inner {"),
        ("float2 place; };", "float2 place; };\nstruct Outer { double a[8]; };"),
        ("__global__", "__global__ void k(Named o, Named named, int3 size);\n__global__"),
    ],
)
def test_what_is_not_clear_has_no_names(change: tuple[str, str]) -> None:
    assert change[0] in SOURCE
    assert 0 not in members_of_parameters(SOURCE.replace(*change, 1), "k", [64, 4, 12])
    assert 0 not in members_of_parameters(SOURCE, "k", [72, 4, 12])


CUDA = """struct Size { int height, width; };
__global__ void k(float* p, Size size) {}
"""
TEXT = (
    HEAD.replace("k_s[24]", "k_s[8]")
    + """ld.param.u32 %r2, [k_s+4]; mov.u32 %r3, 0;
AGAIN: add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r2; @%p1 bra AGAIN;
ret;
}
"""
)


@pytest.mark.parametrize("named", ["size.width", "size+4", "k_s+4", "1+4"])
def test_names_of_words(tmp_path: Path, named: str) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    path.with_suffix(".cu").write_text(CUDA)

    def cycles(*stated: str, **more: str) -> int | tuple[str, str, str]:
        answer = bound_file(Request(str(path), block="32", parameters=stated, **more))
        if answer.answered:
            return answer.answered[0].worst.bound.cycles
        first = answer.refused[0].diagnostics[0]
        return first.code, " ".join(first.notes), first.help or ""

    open_one = cycles()
    assert isinstance(open_one, tuple)
    assert "it depends on parameter size.width" in open_one[1]
    assert "give --param size.width=VALUE" in open_one[2]
    five, seven = cycles(f"{named}=5"), cycles(f"{named}=7")
    assert isinstance(five, int)
    assert isinstance(seven, int)
    assert five < seven
    assert cycles(f"{named}=2..7") == seven
    wrong = cycles("size.height=5")
    assert isinstance(wrong, tuple)
    assert wrong[0] == "PW213"
    launch = tmp_path / "k.toml"
    launch.write_text(
        'kernel = "k"\ngrid = 1\nblock = 32\n[arguments]\n'
        'size = { dtype = "int32", values = [9, 5] }\n'
    )
    given = str(launch)
    assert cycles(launch_file=given) == five
    assert cycles(f"{named}=5", launch_file=given) == five
    assert cycles(f"{named}=1..7", launch_file=given) == five
    with pytest.raises(PtxwcetError, match="0x5 there") as contradiction:
        cycles(f"{named}=7", launch_file=given)
    assert contradiction.value.diagnostics[0].code == "PW426"


@pytest.mark.parametrize("said", ["align:16", "bytes:64"])
def test_of_pointers_in_structs_nothing_is_said(said: str) -> None:
    kernel = parse_module(SourceFile("k.ptx", HEAD + "ld.param.u64 %rd2, [k_s+8]; ret;\n}\n"))
    fact = parse_parameters([f"k_s+8={said}"])
    with pytest.raises(PtxwcetError, match="no parameter of its own"):
        resolve_parameters(kernel.kernels[0], fact, None)
    with pytest.raises(PtxwcetError, match=r"k_s\+8 is no pointer"):
        resolve_arrays(kernel.kernels[0], fact, None)


VECTORS = """
char2 2 2, char4 4 4, uchar3 3 1, short2 4 4, short4 8 8, ushort3 6 2, int1 4 4, int2 8 8,
uint4 16 16, float3 12 4, float4 16 16, double2 16 16, double3 24 8, double4 32 16,
longlong2 16 16, longlong4 32 16, ulonglong3 24 8, dim3 12 4
"""  # sizes and alignments as nvcc 13.0 has them: asserted with sizeof and alignof


def test_vectors_are_aligned_as_the_compiler_does() -> None:
    for row in VECTORS.split(","):
        name, size, alignment = row.split()
        source = f"struct S {{ char first; {name} v; }}; __global__ void k(S s) {{}}"
        whole = -(-(int(alignment) + int(size)) // int(alignment)) * int(alignment)
        assert members_of_parameters(source, "k", [whole])[0][int(alignment)][0] == ".v.x"


KERNEL = "__global__ void k(P p, int *o) { *o = p.w; }"
OTHERS = (
    "#ifdef A\nstruct alignas(8) P { int h; int w; };\n#else\nSTRUCT\n#endif\nKERNEL",
    '#ifdef A\n#include "p.h"\n#else\nSTRUCT\n#endif\nKERNEL',
    "struct alignas(8) P { int h; int w; };\nnamespace a { STRUCT }\nKERNEL",
    "namespace a { class P { public: int h; int w; }; }\nSTRUCT\nusing a::P; KERNEL",
    "struct A { struct P { int h; int w; P() {} }; };\nSTRUCT\nnamespace a { KERNEL }",
    "typedef struct { struct { int h; } x; int w; } P;\nnamespace a { STRUCT }\nKERNEL",
    "struct Q { short h, v, w, x; };\ntypedef Q P;\nnamespace a { STRUCT }\nKERNEL",
    "STRUCT\ntemplate <typename P> KERNEL",
    "#define w v, w\n#define int short\nSTRUCT\nKERNEL",
    "struct P { float f; char a[0]; char w; char h; };\nKERNEL",
    "struct P { char a[02]; char w; char h; float f; };\nKERNEL",
)


@pytest.mark.parametrize("text", OTHERS)
def test_structs_of_which_something_else_may_be_meant_have_no_members(text: str) -> None:
    """A struct of the same name and size, read instead of the one that is compiled, gives members
    the places of others."""
    plain = "struct P { int w; int h; };"
    source = text.replace("STRUCT", plain).replace("KERNEL", KERNEL)
    assert members_of_parameters(f"{plain}\n{KERNEL}", "_Z1k1PPi", (8, 8))
    assert not members_of_parameters(source, "_Z1k1PPi", (8, 8))


def test_other_names_beside_a_struct_do_not_hide_it() -> None:
    text = """typedef struct P P;
    enum class Mode : int { A, B };
    #ifdef X
    int z;
    #endif
    struct P { int w; int h; };
    struct P make(struct P q) { return q; }
    class R { public: P p; };
    template <class T> T f(P p) { return T(); }
    """
    assert members_of_parameters(text + KERNEL, "_Z1k1PPi", (8, 8))


def test_words_over_one_another_have_values_that_agree() -> None:
    """Nothing is bounded of what no execution begins with: 0x300000002 has 3 in its upper word."""
    loads = "ld.param.u64 %rd2, [k_s+8]; ld.param.u32 %r2, [k_s+12]; ret;\n}\n"
    kernel = parse_module(SourceFile("k.ptx", HEAD + loads)).kernels[0]
    both = parse_parameters(["1+8=0x300000002", "1+12=3"])
    assert len(resolve_parameters(kernel, both, None).values) == 2
    with pytest.raises(PtxwcetError, match="byte 12 of k_s is given twice"):
        resolve_parameters(kernel, parse_parameters(["1+12=2", "1+8=0x300000002"]), None)
