// What the names of parameters and members are, only the compiler knows.
#ifdef __CUDACC__
#define KERNEL extern "C" __global__ void __launch_bounds__(128)
#endif
#define PARAMETERS(type) int n, type *out
enum Mode { FAST, SLOW };
enum class Kind : short { ROW, COLUMN };
constexpr int COUNT = 3;
using Long = long;
typedef struct {
    float scale = 1.0f;
    Mode mode;
    Kind kind;
    int steps[COUNT];
    unsigned long last;
    Long unused;
} Config;
namespace grids {
template <class T>
struct Pair {
    T low, high;
    Config inner[2];
    alignas(16) int limit;
};
}  // namespace grids
struct Base {
    int first, twice;
};
struct Derived : Base {
    int own, twice;
    unsigned flag : 3;
    struct {
        int deep;
    } nested;
#if COUNT_IS_UNKNOWN
    int left_out;
#endif
    __device__ int sum() const { return own + first; }
};
KERNEL macro(PARAMETERS(float)) {
    for (int i = 0; i < n; i++) out[i] = 1;
}
KERNEL config(Config cfg, float *out) {
    for (int i = 0; i < cfg.steps[2]; i++) out[i] = cfg.scale;
}
KERNEL pair(grids::Pair<double> p, double *out) {
    for (int i = 0; i < p.limit + p.inner[1].steps[0]; i++) out[i] = p.high;
}
KERNEL derived(const __grid_constant__ Derived d, int *out) {
    for (int i = 0; i < d.own + d.first + d.nested.deep; i++) out[i] = d.twice;
}
template <class T>
__global__ void instance(T t, int m, int *out) {
    for (int i = 0; i < m; i++) out[i] = t.mode;
}
template __global__ void instance<Config>(Config, int, int *);
