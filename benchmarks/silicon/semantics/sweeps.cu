// What a GPU makes of approximations: of all patterns of single precision, against double precision.
//
// Each kernel leaves a row of counts and of packed extremes (error in the upper half, pattern of the
// operand in the lower), and 16 examples of results of another class than that of the reference.

#include <cstdint>

struct Row {
    unsigned long long inputs, distance[8];       // 0, 1, 2, 3, 4..7, 8..63, 64 and more, class
    unsigned long long furthest;                  // units of the last place, packed
    unsigned long long relative, absolute;        // errors as patterns of floats, packed
    unsigned long long near_relative, near_absolute;  // the same of operands that the manual names
    unsigned long long breaks, first_break;  // neighbours in the wrong order; a complement
    unsigned long long examples;
    unsigned int operand[16], result[16];
};

__device__ float flushed(float x, bool ftz) {
    return ftz && fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x;
}

__device__ int ordinal(float x) {
    int bits = __float_as_int(x);
    return bits < 0 ? int(0x80000000u) - bits : bits;
}

__device__ bool same_class(float a, float b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (signbit(a) != signbit(b)) return false;
    return isinf(a) == isinf(b) && (a == 0) == (b == 0);
}

struct Tally {
    unsigned int distance[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    unsigned long long furthest = 0, relative = 0, absolute = 0, near_relative = 0, near_absolute = 0;
    unsigned int breaks = 0;
    unsigned long long first_break = ~0ull;

    __device__ static void raise(unsigned long long &most, float error, unsigned int pattern) {
        unsigned long long found = (unsigned long long)__float_as_uint(error) << 32 | pattern;
        if (found > most) most = found;
    }

    __device__ void take(Row *row, unsigned int pattern, float result, double exact, bool ftz, bool near) {
        float reference = flushed(float(exact), ftz);
        if (!same_class(result, reference)) {
            distance[7]++;
            unsigned long long place = distance[7] > 1 ? 16 : atomicAdd(&row->examples, 1ull);
            if (place < 16) {
                row->operand[place] = pattern;
                row->result[place] = __float_as_uint(result);
            }
            return;
        }
        if (isnan(result) || isinf(result) || result == 0) {
            distance[0]++;
            return;
        }
        unsigned int far = abs(ordinal(result) - ordinal(reference));
        distance[far < 4 ? far : far < 8 ? 4 : far < 64 ? 5 : 6]++;
        unsigned long long packed = (unsigned long long)far << 32 | pattern;
        if (packed > furthest) furthest = packed;
        double apart = fabs(double(result) - exact);
        raise(absolute, float(apart), pattern);
        raise(relative, float(apart / fabs(exact)), pattern);
        if (near) {
            raise(near_absolute, float(apart), pattern);
            raise(near_relative, float(apart / fabs(exact)), pattern);
        }
    }

    __device__ void leave(Row *row) {
        for (int n = 0; n < 8; n++) atomicAdd(&row->distance[n], (unsigned long long)distance[n]);
        atomicMax(&row->furthest, furthest);
        atomicMax(&row->relative, relative);
        atomicMax(&row->absolute, absolute);
        atomicMax(&row->near_relative, near_relative);
        atomicMax(&row->near_absolute, near_absolute);
        atomicAdd(&row->breaks, (unsigned long long)breaks);
        atomicMax(&row->first_break, ~first_break);
    }
};

// All patterns; `ORDER` is 1 where the function grows, -1 where it falls, 0 where it does neither.
#define UNARY(NAME, PTX, EXACT, FTZ, NEAR, ORDER)                                              \
    __device__ float value_##NAME(float x) {                                                   \
        float y;                                                                               \
        asm volatile(PTX ".f32 %0, %1;" : "=f"(y) : "f"(x));                                   \
        return y;                                                                              \
    }                                                                                          \
    extern "C" __global__ void sweep_##NAME(Row *row) {                                        \
        unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;               \
        unsigned long long each = (1ull << 32) / threads;                                      \
        unsigned long long first = each * (blockIdx.x * blockDim.x + threadIdx.x);             \
        Tally tally;                                                                           \
        float before = __int_as_float(0x7fffffff);                                             \
        for (unsigned long long at = first; at < first + each; at++) {                         \
            unsigned int pattern = (unsigned int)at;                                           \
            float given = __uint_as_float(pattern), y = value_##NAME(given);                   \
            double x = flushed(given, FTZ);                                                    \
            tally.take(row, pattern, y, EXACT, FTZ, NEAR);                                     \
            int order = (pattern >> 31 ? -1 : 1) * (ORDER);                                    \
            if ((pattern & 0x7fffffff) == 0) before = __int_as_float(0x7fffffff);              \
            if (order > 0 ? y < before : order < 0 ? y > before : false) {                     \
                tally.breaks++;                                                                \
                if (pattern < tally.first_break) tally.first_break = pattern;                  \
            }                                                                                  \
            before = y;                                                                        \
        }                                                                                      \
        tally.leave(row);                                                                      \
        if (first == 0) row->inputs = 1ull << 32;                                              \
    }                                                                                          \
    extern "C" __global__ void sample_##NAME(unsigned int *out) {                              \
        unsigned int n = blockIdx.x * blockDim.x + threadIdx.x;                                \
        out[n] = __float_as_uint(value_##NAME(__uint_as_float(n << 18 | (n * 40503u & 0x3ffff)))); \
    }

#define BOTH(NAME, PTX, EXACT, NEAR, ORDER)             \
    UNARY(NAME, PTX, EXACT, false, NEAR, ORDER)         \
    UNARY(NAME##_ftz, PTX ".ftz", EXACT, true, NEAR, ORDER)

const double PI = 3.141592653589793;

BOTH(ex2, "ex2.approx", exp2(x), true, 1)
BOTH(lg2, "lg2.approx", log2(x), x > 0.5 && x < 2, pattern >> 31 ? 0 : 1)
BOTH(sin, "sin.approx", sin(x), fabs(x) <= 2 * PI, 0)
BOTH(cos, "cos.approx", cos(x), fabs(x) <= 2 * PI, 0)
BOTH(rcp, "rcp.approx", 1 / x, true, -1)
BOTH(sqrt, "sqrt.approx", sqrt(x), true, pattern >> 31 ? 0 : 1)
BOTH(rsqrt, "rsqrt.approx", 1 / sqrt(x), true, pattern >> 31 ? 0 : -1)
UNARY(tanh, "tanh.approx", tanh(x), false, true, 1)
BOTH(rcp_rn, "rcp.rn", 1 / x, true, -1)
BOTH(sqrt_rn, "sqrt.rn", sqrt(x), true, pattern >> 31 ? 0 : 1)

// The same within 100 pi, for which the manual has another bound.
#define FAR(NAME, PTX, EXACT)                                                                  \
    extern "C" __global__ void far_##NAME(Row *row) {                                          \
        unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;               \
        unsigned long long each = (1ull << 32) / threads;                                      \
        unsigned long long first = each * (blockIdx.x * blockDim.x + threadIdx.x);             \
        Tally tally;                                                                           \
        for (unsigned long long at = first; at < first + each; at++) {                         \
            float given = __uint_as_float((unsigned int)at), y = value_##NAME(given);          \
            double x = flushed(given, true);                                                   \
            if (fabs(x) <= 100 * PI) tally.take(row, (unsigned int)at, y, EXACT, true, true);  \
        }                                                                                      \
        tally.leave(row);                                                                      \
    }
FAR(sin_ftz, "sin.approx.ftz", sin(x))
FAR(cos_ftz, "cos.approx.ftz", cos(x))

__device__ unsigned long long mixed(unsigned long long z) {
    z += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Quotients of 2^32 pairs; near are divisors for which the manual has a bound.
#define BINARY(NAME, PTX, FTZ)                                                                 \
    extern "C" __global__ void sweep_##NAME(Row *row) {                                        \
        unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;               \
        unsigned long long each = (1ull << 32) / threads;                                      \
        unsigned long long first = each * (blockIdx.x * blockDim.x + threadIdx.x);             \
        Tally tally;                                                                           \
        for (unsigned long long at = first; at < first + each; at++) {                         \
            unsigned long long pair = mixed(at);                                               \
            float a = __uint_as_float((unsigned int)pair), y;                                  \
            float b = __uint_as_float((unsigned int)(pair >> 32));                             \
            if (at % 4 == 1) b = __uint_as_float(__float_as_uint(a) & 0x7f800000 | __float_as_uint(b) & 0x807fffff); \
            asm volatile(PTX ".f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));                   \
            double x = flushed(a, FTZ), d = flushed(b, FTZ);                                   \
            bool near = fabs(d) >= exp2(-126.0) && fabs(d) <= exp2(126.0);                     \
            if (!near) { tally.distance[6] += !same_class(y, flushed(float(x / d), FTZ)); continue; } \
            tally.take(row, (unsigned int)at, y, x / d, FTZ, near);                            \
        }                                                                                      \
        tally.leave(row);                                                                      \
    }
BINARY(div_approx, "div.approx", false)
BINARY(div_approx_ftz, "div.approx.ftz", true)
BINARY(div_full, "div.full", false)
BINARY(div_full_ftz, "div.full.ftz", true)

// Double precision from its upper half; `breaks` counts results whose lower half is not zero.
#define DOUBLE(NAME, PTX, EXACT)                                                               \
    extern "C" __global__ void sweep_##NAME(Row *row) {                                        \
        unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;               \
        unsigned long long each = (1ull << 32) / threads;                                      \
        unsigned long long first = each * (blockIdx.x * blockDim.x + threadIdx.x);             \
        Tally tally;                                                                           \
        for (unsigned long long at = first; at < first + each; at++) {                         \
            unsigned long long low = at % 2 ? mixed(at) >> 32 : 0;                             \
            double x = __longlong_as_double(at << 32 | low), y;                                \
            asm volatile(PTX ".f64 %0, %1;" : "=d"(y) : "d"(x));                               \
            if (fabs(x) < 2.2250738585072014e-308) x = copysign(0.0, x);                       \
            double exact = EXACT;                                                              \
            if (fabs(exact) < 2.2250738585072014e-308) exact = copysign(0.0, exact);           \
            if (__double_as_longlong(y) & 0xffffffff) tally.breaks++;                          \
            bool alike = isnan(y) || isnan(exact) ? isnan(y) && isnan(exact)                   \
                : signbit(y) == signbit(exact) && isinf(y) == isinf(exact) && (y == 0) == (exact == 0); \
            if (!alike) {                                                                      \
                tally.distance[7]++;                                                           \
                unsigned long long place =                                                     \
                    tally.distance[7] > 1 ? 16 : atomicAdd(&row->examples, 1ull);              \
                if (place < 16) {                                                              \
                    row->operand[place] = (unsigned int)at;                                    \
                    row->result[place] = (unsigned int)(__double_as_longlong(y) >> 32);        \
                }                                                                              \
            } else if (isfinite(y) && y != 0) {                                                \
                tally.distance[y == exact ? 0 : 1]++;                                          \
                Tally::raise(tally.relative, float(fabs(y - exact) / fabs(exact)), (unsigned int)at); \
            }                                                                                  \
        }                                                                                      \
        tally.leave(row);                                                                      \
    }
DOUBLE(rcp_double, "rcp.approx.ftz", 1 / x)
DOUBLE(rsqrt_double, "rsqrt.approx.ftz", 1 / sqrt(x))

// Of all patterns of 16 bits.
#define HALF(NAME, PTX)                                                                        \
    extern "C" __global__ void half_##NAME(unsigned short *out) {                              \
        unsigned short n = blockIdx.x * blockDim.x + threadIdx.x, y;                           \
        asm volatile(PTX " %0, %1;" : "=h"(y) : "h"(n));                                       \
        out[n] = y;                                                                            \
    }
HALF(ex2_f16, "ex2.approx.f16")
HALF(ex2_bf16, "ex2.approx.ftz.bf16")
HALF(tanh_f16, "tanh.approx.f16")
HALF(tanh_bf16, "tanh.approx.bf16")
