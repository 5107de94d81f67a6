"""Mangled names as people wrote them: against c++filt's answers, on random names, in a file.

``mangled.tsv`` has names of kernels that nvcc 13.0 made of templates, lambdas, packs, CUB and
Thrust, and functions of two C++ libraries, each with what GNU c++filt 2.40 makes of it.
"""

from __future__ import annotations

import re

import pytest
from effort import counted
from hypothesis import given, settings
from hypothesis import strategies as st
from places import DATA
from thoroughness import drawn

from ptxwcet.support.demangling import (
    demangle,
    names_meant,
    readable_names,
    source_name,
)

TABLE = DATA / "names" / "mangled.tsv"
ROWS = [tuple(line.split("\t")) for line in TABLE.read_text(encoding="utf-8").splitlines()]
OTHERWISE = {
    "_Z4matsILi2ELi3EEvP3MatIXT_EXT0_EEPS0_IXT0_EXT_EES0_IXplT_T0_ELi2EE": (
        "mats<2, 3>(Mat<2, 3>*, Mat<3, 2>*, Mat<2 + 3, 2>)"
    ),
    "_Z5sizedILi4EEvRAT__iSt17integral_constantIiXplmlT_Li2ELi1EEE": (
        "sized<4>(int (&)[4], std::integral_constant<int, (4 * 2) + 1>)"
    ),
    "_Z5callsIXadL_Z6calleeiEEEvi": "calls<&callee(int)>(int)",
    "_Z5callsIXadL_ZN1q5innerEiEEEvi": "calls<&q::inner(int)>(int)",
    "_Z4nullILDnEEvi": "null<nullptr>(int)",
    "_Z10restrictedPfPrPi": "restricted(float*, int* __restrict__*)",
    "_Z3abiB5cxx11Pi": "abi(int*)",
}
"""Names that are spelled in another way than c++filt does."""
_WORDS = "unsigned|signed|long|short|int|char|double"
_QUALIFIER = re.compile(r"(?<=[\w>}]) ((?:const|volatile)(?: volatile| const)*)(?!\w)")


def _start_of_type(text: str, end: int) -> int:
    """Where a type begins that ends at ``end``: past brackets, scopes, words of builtin types."""
    place = end
    while place > 0:
        letter = text[place - 1]
        words = re.match(rf"({_WORDS})\b", text[place:])
        if letter in ">)}":
            depth = 0
            while depth or place == end or text[place] not in "<({":
                depth += (text[place - 1] in ">)}") - (text[place - 1] in "<({")
                place -= 1
                if not depth:
                    break
        elif (
            letter.isalnum()
            or letter in "_:$#"
            or (letter == " " and words and re.search(rf"\b({_WORDS})$", text[: place - 1]))
        ):
            place -= 1
        else:
            break
    return place


def const_first(text: str) -> str:
    """``float const*`` as ``const float*``."""
    text = text.replace("> >", ">>").replace("> >", ">>")
    at = 0
    while (match := _QUALIFIER.search(text, at)) is not None:
        begin = _start_of_type(text, match.start())
        head = f"{text[:begin]}{match.group(1)} {text[begin : match.start()]}"
        text, at = head + text[match.end() :], len(head)
    return text


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(("mangled", "reference"), ROWS, ids=range(len(ROWS)))
def test_a_name_says_what_the_reference_says(mangled: str, reference: str) -> None:
    found = demangle(mangled)
    assert found is not None
    whole = squeezed(found.spellings[-1])
    if mangled in OTHERWISE:
        assert found.spellings[-1] == OTHERWISE[mangled]
        return
    wanted = squeezed(const_first(reference))
    if found.parameters is None:  # a part of them is not spelled out
        assert f"{whole}(" in wanted
    else:  # c++filt puts the result of a template before it
        assert wanted.removesuffix("const") == whole or found.arguments
        assert wanted.removesuffix("const").endswith(whole)


def test_most_names_are_known_whole() -> None:
    partly = [name for name, _ in ROWS if (found := demangle(name)) and found.parameters is None]
    assert len(partly) < len(ROWS) / 20


def test_what_is_printed_names_one_kernel() -> None:
    names = [name for name, _ in ROWS] + ["sobel", "plain", "_Z4plainPf", "_ZN1a5plainEPf"]
    shown = readable_names(names)
    assert len(set(shown.values())) == len(shown)
    for name, text in shown.items():
        assert names_meant(text, names) == (name,), text
        assert names_meant(text.replace(", ", ","), names) == (name,), text


TAG = "cw51cXTLSUwv1sDUaKthqaNgoKmjgOR3W3CwAkMXLaJtQYkOIgxJU0gCqOkEJoHkbttqdVhoqlspQ_3d_3d"
NUMBA = (
    f"_ZN8__main__3addB2v1B{len(TAG)}{TAG}E5ArrayIfLi1E1C7mutable7alignedE"
    "5ArrayIdLi2E1A7mutable7alignedE5ArrayIxLi3E1F8readonly7alignedEixb"
)


@pytest.mark.parametrize(
    ("mangled", "spellings"),
    [
        ("_Z5sobelPKfPfii", ("sobel", "sobel(const float*, float*, int, int)")),
        (
            "_ZN1a1kIfLi4EEEvPT_",
            ("a::k", "a::k<float, 4>", "a::k<float, 4>(float*)"),
        ),
        (
            NUMBA,
            (
                "__main__.add",
                "__main__.add(float32[::1], float64[:, :], int64[::1, :, :], int32, int64, bool)",
            ),
        ),
        (
            "_ZN6cudapy3mod4make12_3clocals_3e5innerB2v2B3abcEi",
            ("mod.make.<locals>.inner", "mod.make.<locals>.inner(int32)"),
        ),
        ("_ZN3mod1kB2v1Ei", ("mod::k", "mod::k(int)")),  # one tag may be C++'s
        ("_ZL6kernelPi", ("kernel", "kernel(int*)")),
        ("_Z3fooIiEvDTplfp_Li1EE", ("foo", "foo<int>")),
        ("_Z3fooIXspT_EEvi", ("foo",)),
        ("_ZN40_GLOBAL__N__800f1eea_8_names_cu_9b2577596hiddenEPii",
         ("(anonymous namespace)::hidden", "(anonymous namespace)::hidden(int*, int)")),
    ],
)  # fmt: skip
def test_spellings(mangled: str, spellings: tuple[str, ...]) -> None:
    found = demangle(mangled)
    assert found is not None
    assert found.spellings == spellings


@pytest.mark.parametrize(
    "text",
    ["", "k", "_Z", "_Z99short", "_Z3k#!i", "_Z1k\u00e9", "_ZN1a", "_Z1kS5_", "_ZZ", "_Z0i",
     "_Z1k)", "_ZN1aEE", "_Z3foovE", "_ZTV3foo", "_ZN1aIiEIiEE", "_R3foo", "__Z1kv"],
)  # fmt: skip
def test_what_is_no_name_stays(text: str) -> None:
    assert demangle(text) is None
    assert source_name(text) == text
    assert readable_names([text]) == {text: text}


def test_a_parameter_of_one_template_is_not_that_of_another() -> None:
    """S1_ is T_ there: of f inside, of k in its own parameters, where it is not known."""
    inside = "_Z1kIZ1fIiEvPT_EUlvE_EvS1_S2_"
    found = demangle(inside)
    assert found is not None
    assert found.parameters is None
    assert found.arguments == "<f<int>(int*)::{lambda()#1}>"


def test_overloads_and_instances_are_told_apart() -> None:
    names = ["_Z4overPi", "_Z4overPf", "_Z1kIiEvPT_", "_Z1kIfEvPT_", "_Z5sobelPKfPfii", "other"]
    assert list(readable_names(names).values()) == [
        "over(int*)", "over(float*)", "k<int>", "k<float>", "sobel", "other",
    ]  # fmt: skip
    assert names_meant("over", names) == tuple(names[:2])
    assert names_meant("k<float>", names) == (names[3],)
    assert names_meant("sobel(const float*,float*, int,int)", names) == (names[4],)
    assert names_meant("k<double>", names) == ()


def test_long_arguments_are_left_out_where_they_are_not_needed() -> None:
    deep = "_Z1kI" + "3BoxI" * 20 + "i" + "E" * 20 + "EvT_"
    assert readable_names([deep]) == {deep: "k"}
    assert readable_names([deep, "_Z1kIiEvT_"])[deep].startswith("k<Box<Box<")


@pytest.mark.parametrize(
    "text",
    ["_Z1f" + "P" * 16_000 + "i", "_Z1f" + "S_" * 8_000, "_ZN" + "1a" * 8_000 + "Ev",
     "_Z1f" + "1aI" * 5_000, "_Z1fI" + "J" * 16_000, "_Z1f" + "ZL" * 8_000,
     "_Z1f" + "Z1gvE" * 3_000,
     "_Z1f1aIiE" + "1aIS1_S1_E1aIS2_S2_E1aIS3_S3_E1aIS4_S4_E1aIS5_S5_E1aIS6_S6_E" * 200,
     "_Z1fIiE" + "vT_S1_" * 2_500, "_Z" + "9" * 16_000, "_Z1fILi" + "9" * 16_000 + "EEvv"],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_effort_is_limited(text: str) -> None:
    found, calls = counted(lambda: demangle(text))
    assert calls < 1_000_000
    assert found is None or len(found.spellings[-1]) < 1_000_000


TEXTS = st.text(alphabet="_ZNESTIJLXKPRAFMDUB0123456789abcdfijlmnvxypt", max_size=60)


@settings(max_examples=drawn(300), deadline=None)
@given(TEXTS)
def test_any_text_has_an_answer(text: str) -> None:
    name = "_Z" + text
    demangle(name)
    assert set(readable_names([name])) == {name}


@settings(max_examples=drawn(300), deadline=None)
@given(st.sampled_from(ROWS), st.integers(2, 200), st.integers(0, 3), TEXTS)
def test_any_change_of_a_name_has_an_answer(
    row: tuple[str, str], at: int, gone: int, added: str
) -> None:
    name = row[0][:at] + added + row[0][at + gone :]
    demangle(name)
    assert set(readable_names([name, row[0]])) == {name, row[0]}


PLAIN = st.sampled_from([("i", "int"), ("f", "float"), ("y", "unsigned long long"), ("Dh", "half")])
IDENTIFIERS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda word: not word.startswith("_GLOBAL_")
)


def _pointers(inner: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
    constant = inner.map(lambda one: (f"K{one[0]}", _constant(one[1])))
    named = st.tuples(IDENTIFIERS, inner).map(
        lambda two: (f"{len(two[0])}{two[0]}I{two[1][0]}E", f"{two[0]}<{two[1][1]}>")
    )
    return inner.map(lambda one: (f"P{one[0]}", f"{one[1]}*")) | constant | named


def _constant(text: str) -> str:
    if text.startswith("const ") and not text.endswith("*"):
        return text
    if text.endswith("const") and text.partition("<")[0] == text:
        return text
    return f"{text} const" if text.endswith("*") else f"const {text}"


TYPES = st.recursive(PLAIN, _pointers, max_leaves=4).filter(lambda one: "KK" not in one[0])


@settings(max_examples=drawn(200), deadline=None)
@given(st.lists(IDENTIFIERS, min_size=1, max_size=3), st.lists(TYPES, min_size=1, max_size=4))
def test_a_name_that_was_made_is_read(scopes: list[str], types: list[tuple[str, str]]) -> None:
    body = "".join(f"{len(word)}{word}" for word in scopes)
    mangled = f"_ZN{body}E" if len(scopes) > 1 else f"_Z{body}"
    found = demangle(mangled + "".join(code for code, _ in types))
    assert found is not None
    shown = ", ".join(text for _, text in types)
    assert found.spellings[-1] == f"{'::'.join(scopes)}({shown})"
