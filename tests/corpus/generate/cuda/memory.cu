// Loads and stores: vectors, caches, volatile, ordered, constant, local, generic, prefetch, fences.
#include <cuda/atomic>

struct alignas(16) Quad { int v[4]; };
__constant__ float coefficients[64];
__constant__ Quad quads[4] = {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}, {{-1, -2}}, {}};

extern "C" __global__ void vectors(float4* a, const int2* __restrict__ b, uchar4* c, double2* d,
                                   ushort2* e, const longlong2* __restrict__ f) {
  const int t = threadIdx.x;
  float4 v = a[t];
  const int2 w = b[t];
  const uchar4 x = c[t];
  const double2 y = d[t];
  const ushort2 z = e[t];
  const longlong2 l = f[t];
  v.x += w.x;
  v.y *= x.z;
  v.z = (float)y.x;
  v.w -= z.y;
  a[t] = v;
  c[t] = make_uchar4(x.w, x.z, x.y, x.x);
  d[t] = make_double2(y.y, (double)l.x);
  e[t] = make_ushort2(z.y, z.x);
}

extern "C" __global__ void caches(const float* in, float* out, const float4* wide) {
  const int t = threadIdx.x;
  float s = __ldg(in + t) + __ldcg(in + 1 + t) + __ldca(in + 2 + t) + __ldcs(in + 3 + t);
  s += __ldlu(in + 4 + t) + __ldcv(in + 5 + t);
  const float4 q = __ldg(wide + t);
  __stwb(out + t, s);
  __stcg(out + t + 32, q.x);
  __stcs(out + t + 64, q.y);
  __stwt(out + t + 96, q.z);
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(in + 128)));
  asm volatile("prefetchu.L1 [%0];" ::"l"(in + 128));
  asm volatile("ld.global.L2::128B.f32 %0, [%1];" : "=f"(s) : "l"(__cvta_generic_to_global(in)));
  asm volatile("ldu.global.f32 %0, [%1+-4];" : "=f"(s) : "l"(__cvta_generic_to_global(in + 1)));
  out[t] = s;
}

extern "C" __global__ void constants(float* out, int i) {
  float s = 0.0f;
#pragma unroll
  for (int k = 0; k < 8; ++k) s += coefficients[k] * coefficients[(i + k) & 63];
  out[threadIdx.x] = s + (float)quads[i & 3].v[threadIdx.x & 3];
}

extern "C" __global__ void locals(int* out, const int* order, int n) {
  int stack[40];
  short small[7] = {1, 2, 3, 5, 7, 11, 13};
  for (int i = 0; i < n; ++i) stack[order[i]] = i;
  for (int i = 0; i < n; ++i) small[order[i] % 7] += (short)stack[i];
  out[threadIdx.x] = stack[order[threadIdx.x]] + small[order[0] % 7];
}

extern "C" __global__ void generic(int* global, int which, int* out) {
  __shared__ int shared[32];
  int local[8] = {which, 1, 2, 3, 4, 5, 6, 7};
  shared[threadIdx.x & 31] = which;
  __syncwarp();
  int* p = which == 0 ? global : which == 1 ? shared : local;
  p[which & 7] += 5;
  out[0] = p[threadIdx.x & 7] + local[which & 7];
  out[1] = __isGlobal(p) + 2 * __isShared(p) + 4 * __isLocal(p) + 8 * __isConstant(p);
}

extern "C" __global__ void ordered(unsigned* flag, volatile unsigned* data, unsigned* out) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> f(*flag);
  cuda::atomic_ref<unsigned, cuda::thread_scope_system> s(flag[1]);
  if (blockIdx.x == 0) {
    *data = 42;
    f.store(1, cuda::memory_order_release);
  } else {
    while (f.load(cuda::memory_order_acquire) == 0) __nanosleep(100);
    out[0] = *data + s.load(cuda::memory_order_seq_cst);
  }
  s.store(3, cuda::memory_order_relaxed);
  __threadfence_block();
  __threadfence();
  __threadfence_system();
  cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_block);
}
