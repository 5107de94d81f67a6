// Functions of the CUDA math library, which compilers expand to long sequences of PTX: bit tricks,
// fused multiply-adds, tables, slow paths in local memory. Compared with other libraries by
// tests/oracle/test_emulator_programs.py.
// nvcc -ptx -arch=sm_86 math_functions.cu
#define UNARY(name, type, expression)                                             \
  extern "C" __global__ void name(const type* in, type* out, int n) {             \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                          \
    if (i < n) { const type x = in[i]; out[i] = expression; }                     \
  }
#define BINARY(name, type, expression)                                            \
  extern "C" __global__ void name(const type* a, const type* b, type* out, int n) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                          \
    if (i < n) { const type x = a[i], y = b[i]; out[i] = expression; }            \
  }
UNARY(f32_sin, float, sinf(x))
UNARY(f32_cos, float, cosf(x))
UNARY(f32_tan, float, tanf(x))
UNARY(f32_exp, float, expf(x))
UNARY(f32_exp2, float, exp2f(x))
UNARY(f32_expm1, float, expm1f(x))
UNARY(f32_log, float, logf(x))
UNARY(f32_log1p, float, log1pf(x))
UNARY(f32_tanh, float, tanhf(x))
UNARY(f32_erf, float, erff(x))
UNARY(f32_cbrt, float, cbrtf(x))
UNARY(f32_asin, float, asinf(x))
UNARY(f32_atan, float, atanf(x))
UNARY(f32_sqrt, float, sqrtf(x))
UNARY(f32_rint, float, rintf(x))
UNARY(f32_floor, float, floorf(x))
UNARY(f32_lgamma, float, lgammaf(x))
BINARY(f32_pow, float, powf(x, y))
BINARY(f32_div, float, x / y)
BINARY(f32_fmod, float, fmodf(x, y))
BINARY(f32_hypot, float, hypotf(x, y))
BINARY(f32_atan2, float, atan2f(x, y))
UNARY(f64_sin, double, sin(x))
UNARY(f64_exp, double, exp(x))
UNARY(f64_log, double, log(x))
UNARY(f64_sqrt, double, sqrt(x))
UNARY(f64_tanh, double, tanh(x))
UNARY(f64_erf, double, erf(x))
UNARY(f64_cbrt, double, cbrt(x))
BINARY(f64_pow, double, pow(x, y))
BINARY(f64_div, double, x / y)
BINARY(f64_fmod, double, fmod(x, y))
BINARY(s64_div, long long, x / y)
BINARY(s64_rem, long long, x % y)
BINARY(u64_div, unsigned long long, x / y)
BINARY(u64_mulhi, unsigned long long, __umul64hi(x, y))
BINARY(s32_div, int, x / y)
BINARY(s32_rem, int, x % y)
