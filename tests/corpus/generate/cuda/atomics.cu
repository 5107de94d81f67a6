// Atomic operations and reductions: types, spaces, scopes, orders, vectors.
#include <cuda/atomic>

extern "C" __global__ void global_atomics(int* i, unsigned* u, unsigned long long* w, float* f, double* d, long long* l) {
  const int t = threadIdx.x;
  int s = atomicAdd(i, t) + atomicSub(i + 1, t) + atomicMin(i + 2, t) + atomicMax(i + 3, t) + atomicExch(i + 4, t);
  s += atomicAnd(i + 5, t) + atomicOr(i + 6, t) + atomicXor(i + 7, t) + atomicCAS(i + 8, t, 5);
  s += atomicInc(u, 17) + atomicDec(u + 1, 17) + (int)atomicAdd(f, 1.5f) + (int)atomicAdd(d, 2.5);
  s += (int)atomicAdd(w, 3ull) + (int)atomicCAS(w + 1, 1ull, 2ull) + (int)atomicMax(w + 2, 9ull) + (int)atomicMin(l, -5ll);
  s += (int)atomicExch(f + 1, 2.0f) + atomicCAS((unsigned short*)u + 5, (unsigned short)1, (unsigned short)2);
  s += atomicAdd_block(i + 9, 1) + atomicAdd_system(i + 10, 2);
  i[t + 32] = s;
}

extern "C" __global__ void reductions(int* i, float* f, unsigned long long* w) {
  __shared__ int bins[64];
  __shared__ float most;
  bins[threadIdx.x % 64] = 0;
  most = 0.0f;
  __syncthreads();
  atomicAdd(bins + (i[threadIdx.x] & 63), 1);
  atomicMax((int*)&most, __float_as_int(f[threadIdx.x]));
  atomicInc((unsigned*)bins + 7, 100);
  __syncthreads();
  atomicAdd(i + threadIdx.x % 64, bins[threadIdx.x % 64]);
  atomicOr(w, 1ull << (threadIdx.x % 64));
  atomicAdd(f, most);
}

extern "C" __global__ void scoped(int* counter, unsigned long long* wide, double* real, int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_block> b(*counter);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> d(*wide);
  cuda::atomic_ref<double, cuda::thread_scope_system> r(*real);
  int s = b.fetch_add(1, cuda::memory_order_relaxed) + b.exchange(5, cuda::memory_order_acq_rel);
  unsigned long long expected = 3;
  while (!d.compare_exchange_weak(expected, expected * 2 + 1, cuda::memory_order_acquire)) s += 1;
  r.fetch_add(0.5, cuda::memory_order_release);
  s += (int)d.fetch_max(77) + b.fetch_and(15, cuda::memory_order_acquire);
  out[threadIdx.x] = s;
}

extern "C" __global__ void explicit_forms(int* p, float* f, int* out) {
  const size_t g = __cvta_generic_to_global(p), h = __cvta_generic_to_global(f);
  int r;
  asm volatile("atom.relaxed.cta.global.inc.u32 %0, [%1], 12;" : "=r"(r) : "l"(g));
  asm volatile("red.release.gpu.global.add.s32 [%0+4], %1;" ::"l"(g), "r"(r));
  asm volatile("red.global.and.b32 [%0+8], %1;" ::"l"(g), "r"(r));
  asm volatile("atom.global.exch.b64 _, [%0+16], 5;" ::"l"(g));
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(h), "f"(1.0f));
  asm volatile("{ .reg .b128 a, b; mov.b128 a, {%1, %1}; atom.relaxed.sys.global.exch.b128 b, [%0], a; }" ::"l"(g), "l"(g));
  asm volatile("{ .reg .f32 a, b; atom.global.v2.f32.add {a, b}, [%0], {%1, %1}; }" ::"l"(h), "f"(2.0f));
#endif
  out[threadIdx.x] = r;
}
