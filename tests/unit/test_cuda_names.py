import pytest

from ptxwcet.flow.facts.cuda_loops import parameter_names, source_name

pytestmark = pytest.mark.fast

SOURCE = """
// __global__ void commented(int a);
#define N 3
extern "C" __global__ void __launch_bounds__(256, 2) sgemm(const float* __restrict__ A, /* b */
    const float *B, float* C, int M, unsigned int K = 4) { }
template <typename T, int W> __global__ void tpl(T (&x)[4], const T *y, Pair<int, float> z);
namespace a { __global__ void inner(void) {} __global__ void twice(int p); }
__global__ void twice(int q, int r);
"""


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        ("sgemm", ("A", "B", "C", "M", "K")),
        ("_Z5sgemmPKfS0_Pfij", ("A", "B", "C", "M", "K")),
        ("_Z3tplIfLi4EEvRAT__fPKS_4PairIifE", ("x", "y", "z")),
        ("_ZN1a5innerEv", ()),
        ("twice", None),
        ("commented", None),
        ("absent", None),
    ],
)
def test_names_of_parameters(kernel: str, names: tuple[str, ...] | None) -> None:
    assert parameter_names(SOURCE, kernel) == names


def test_source_names() -> None:
    assert source_name("plain") == "plain"
    assert source_name("_ZN3abc4defgIiEEvv") == "defg"
    assert source_name("_Z99short") == "_Z99short"
