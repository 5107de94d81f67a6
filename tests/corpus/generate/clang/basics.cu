// What clang makes of common kernels: loops, a jump table, calls, vectors, shared and local memory.
#include "cuda.h"

typedef float float4v __attribute__((ext_vector_type(4)));
typedef _Float16 half2v __attribute__((ext_vector_type(2)));
__constant__ float weights[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
__device__ int counters[3] = {7, 8};
__device__ int* pointers[2] = {&counters[1], counters};

extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* y) {
  for (int i = CTAID * NTID + TID; i < n; i += NTID * __nvvm_read_ptx_sreg_nctaid_x()) y[i] += a * x[i];
}

extern "C" __global__ void __launch_bounds__(128) reduce(const float4v* in, float* out, int n) {
  __shared__ float partial[128];
  float sum = 0;
  for (int i = TID; i < n; i += 128) sum += in[i].x + in[i].y * in[i].z - in[i].w;
  partial[TID] = sum;
  BARRIER();
  for (int d = 64; d; d >>= 1) {
    if (TID < d) partial[TID] += partial[TID + d];
    BARRIER();
  }
  if (TID == 0) out[CTAID] = partial[0];
}

extern "C" __global__ void convolve(const float* in, float* out, int width, int height) {
  const int x = CTAID * NTID + TID, y = __nvvm_read_ptx_sreg_ctaid_y();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 9; ++i) sum += weights[i] * in[(y + i / 3) * width + x + i % 3];
  out[y * width + x] = sum / 16.0f;
}

__device__ __attribute__((noinline)) int fold(int v, int* rest) { *rest = v % 13; return v / 13; }
__device__ __attribute__((noinline)) int collatz(int v) { return v <= 1 ? 0 : 1 + collatz(v & 1 ? 3 * v + 1 : v / 2); }

extern "C" __global__ void jump(int* out, int op) {
  int v = TID, rest = 0;
  switch (op) {
    case 0: v += 3; break;
    case 1: v *= out[3]; break;
    case 2: v = fold(v, &rest); break;
    case 3: v = ~v; break;
    case 4: v = collatz(v); break;
    case 5: v = __builtin_popcount(v); break;
    case 6: v = *pointers[v & 1]; break;
    case 7: v = __builtin_bitreverse32(v); break;
    case 8: __builtin_trap();
  }
  out[TID] = v + rest;
}

extern "C" __global__ void locals(int* out, const unsigned char* order, int n) {
  int stack[32];
  for (int i = 0; i < 32; ++i) stack[i] = i * i;
  for (int i = 0; i < n; ++i) stack[order[i] & 31] ^= stack[(order[i] + 1) & 31];
  out[TID] = stack[TID & 31];
}

extern "C" __global__ void types(half2v* h, double* d, long long* l, unsigned short* s, __bf16* b) {
  h[TID] = h[TID] * h[TID + 1] + h[TID + 2];
  d[TID] = __builtin_sqrt(d[TID]) / d[TID + 1];
  l[TID] = l[TID] / 7 + (l[TID + 1] >> 3) * (long long)d[TID];
  s[TID] = (unsigned short)(s[TID] * 5 + (unsigned short)h[TID].x);
  b[TID] = b[TID] * b[TID + 1];
}

extern "C" __global__ void atomics(int* counts, float* sums, unsigned long long* wide) {
  __shared__ int bins[32];
  bins[TID & 31] = 0;
  BARRIER();
  __atomic_fetch_add(&bins[counts[TID] & 31], 1, __ATOMIC_RELAXED);
  BARRIER();
  __atomic_fetch_max(counts, bins[TID & 31], __ATOMIC_ACQ_REL);
  sums[TID + 1] = __nvvm_atom_add_gen_f(sums, 1.5f);
  unsigned long long old = 3;
  while (!__atomic_compare_exchange_n(wide, &old, old + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) ;
  __nvvm_membar_gl();
}

extern "C" __global__ void shuffles(int* out, float x) {
  int v = TID;
  for (int d = 16; d; d >>= 1) v += __nvvm_shfl_sync_bfly_i32(-1, v, d, 31);
  v += __nvvm_vote_ballot_sync(-1, v > 5) + (__nvvm_match_any_sync_i32(-1, v) & 3);
  out[TID] = v + (int)__nvvm_ex2_approx_ftz_f(x) + (int)__nvvm_sin_approx_f(x);
}
