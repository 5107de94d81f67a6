// Constructs of real PTX, one kernel each: what compilers emit for them is what the parser must take.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdio.h>

namespace cg = cooperative_groups;

__device__ int counters[4] = {1, 2, 3};
__device__ float* pointer_to_data;
__constant__ double table[8];
__device__ int* const alias_of_counters = &counters[1];
__managed__ int managed_total;

// Inline assembly that repeats its labels in every copy of its block.
__device__ __forceinline__ void spin(unsigned* flag) {
  asm volatile(
      "{\n\t.reg .pred p;\n\t.reg .b32 seen;\n\tLAB_WAIT:\n\tld.acquire.gpu.global.u32 seen, [%0];\n\t"
      "setp.eq.u32 p, seen, 0;\n\t@p bra LAB_WAIT;\n\tbra DONE;\n\tDONE:\n\t}" ::"l"(flag)
      : "memory");
}
extern "C" __global__ void scoped_labels(unsigned* flags) {
  spin(flags);
  spin(flags + 1);
  spin(flags + 2);
}

// A dense switch becomes an indexed branch.
extern "C" __global__ void dense_switch(int* data) {
  int v = data[threadIdx.x];
  switch (v) {
    case 0: v = data[7] * 3; break;
    case 1: v = data[6] - v; break;
    case 2: v ^= data[5]; break;
    case 3: v = data[4] / (v + 1); break;
    case 4: v = __popc(v) + data[9]; break;
    case 5: v = min(v, data[3]); break;
    case 6: v = data[2] << 3; break;
    case 7: v = data[1] % 11; break;
    case 8: v = abs(data[8]); break;
    default: v = -1;
  }
  data[threadIdx.x] = v;
}

typedef float (*Operation)(float, float);
__device__ __noinline__ float plus(float a, float b) { return a + b; }
__device__ __noinline__ float times(float a, float b) { return a * b; }
__device__ Operation operations[2] = {plus, times};
extern "C" __global__ void indirect_calls(float* data, int which) {
  data[threadIdx.x] = operations[which](data[threadIdx.x], 2.0f) + plus(data[0], 1.0f);
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

extern "C" __global__ void prints(int n) {
  if (threadIdx.x < n) printf("thread %d of %d: %f\n", threadIdx.x, n, 1.5 * n);
  int* memory = (int*)malloc(16);
  if (memory) memory[0] = n;
  free(memory);
}

extern "C" __global__ void vector_accesses(const float4* a, float4* b, const short2* c, double2* d) {
  float4 v = a[threadIdx.x];
  v.x += v.y * v.z + v.w;
  b[threadIdx.x] = v;
  const short2 s = c[threadIdx.x];
  d[threadIdx.x] = make_double2(s.x, s.y);
}

extern "C" __global__ void halves(const half2* a, half2* b, const __nv_bfloat162* c, __nv_bfloat162* d) {
  const int i = threadIdx.x;
  b[i] = __hfma2(a[i], a[i + 1], __hmul2(a[i + 2], a[i + 3]));
  d[i] = __hadd2(c[i], c[i + 1]);
  if (__hlt(__low2half(a[i]), __high2half(a[i]))) b[i + 1] = h2exp2(a[i]);
}

extern "C" __global__ void double_precision(const double* a, double* b) {
  const double x = a[threadIdx.x];
  b[threadIdx.x] = sqrt(x) / (x + table[threadIdx.x & 7]) + fma(x, x, 0x1.8p1) - rsqrt(x);
}

extern "C" __global__ void single_precision(const float* a, float* b) {
  const float x = a[threadIdx.x], y = a[threadIdx.x + 32];
  b[threadIdx.x] = sinf(x) + __expf(y) + x / y + __fdividef(y, x) + sqrtf(x) + __frcp_rz(y) + tanhf(x) +
                   __log2f(y) + fmodf(x, y) + rintf(x);
}

extern "C" __global__ void integers(const unsigned* a, unsigned* b, const long long* c, long long* d) {
  const unsigned x = a[threadIdx.x], y = a[threadIdx.x + 32];
  b[threadIdx.x] = __byte_perm(x, y, 0x6543) + __brev(x) + __clz(y) + __ffs(x) + __umulhi(x, y) + __sad(x, y, 1u) +
                   __funnelshift_l(x, y, 5) + __mul24(x, y) + (x / 7u) + (y % (x + 1)) + ((x >> 3) & 31u);
  d[threadIdx.x] = c[threadIdx.x] / (c[threadIdx.x + 1] + 3) + __mulhi((int)x, (int)y) + (long long)__dp4a((int)x, (int)y, 7);
  asm("vadd.u32.u32.u32.sat %0, %1.b0, %2.h1;" : "=r"(b[64]) : "r"(x), "r"(y));
  asm("vset4.u32.u32.ge %0, %1, %2, %3;" : "=r"(b[65]) : "r"(x), "r"(y), "r"(x));
  asm("bfi.b32 %0, %1, %2, 4, 8;" : "=r"(b[66]) : "r"(x), "r"(y));
  asm("{ .reg .pred p, q; setp.lt.and.u32 p|q, %1, %2, 1; selp.u32 %0, 3, 5, q; }" : "=r"(b[67]) : "r"(x), "r"(y));
}

extern "C" __global__ void warp_operations(int* data) {
  const unsigned all = 0xffffffffu;
  const int x = data[threadIdx.x];
  int y = __shfl_xor_sync(all, x, 5) + __shfl_up_sync(all, x, 1, 16) + __ballot_sync(all, x > 3);
  y += __any_sync(all, x) ? __match_any_sync(__activemask(), x) : 0;
  __syncwarp();
  data[threadIdx.x] = y + __syncthreads_count(x > 0) + __syncthreads_or(y);
}

extern "C" __global__ void atomics(int* a, float* f, unsigned long long* w, double* d) {
  __shared__ int local[4];
  if (threadIdx.x < 4) local[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&local[threadIdx.x & 3], 2);
  atomicMax(&a[0], local[0]);
  atomicCAS(&a[1], 3, 4);
  atomicExch(&f[0], 1.0f);
  atomicAdd(&f[1], 2.0f);
  atomicAdd(&d[0], 2.0);
  atomicMin(&w[0], 5ull);
  atomicInc((unsigned*)&a[2], 9u);
  __threadfence_system();
}

extern "C" __global__ void __launch_bounds__(128, 4) launch_bounds(int* a) { a[threadIdx.x] = managed_total; }
extern "C" __global__ void __launch_bounds__(256) cooperative(int* a, int n) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
  int v = a[block.thread_rank()];
  for (int i = tile.size() / 2; i > 0; i /= 2) v += tile.shfl_down(v, i);
  block.sync();
  if (tile.thread_rank() == 0) a[n] = v + alias_of_counters[0] + counters[2];
}

extern "C" __global__ void local_arrays(int* out, int n) {
  int stack[64];
  for (int i = 0; i < 64; ++i) stack[i] = i * n;
  int s = 0;
  for (int i = 0; i < n; ++i) s += stack[(s + i * 7) & 63];
  out[threadIdx.x] = s;
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = s;
  __syncthreads();
  out[threadIdx.x + 64] = dynamic[n & 31];
}

extern "C" __global__ void textures(cudaTextureObject_t t, cudaSurfaceObject_t s, float4* out) {
  const float4 a = tex2D<float4>(t, threadIdx.x + 0.5f, 1.5f), b = tex1Dfetch<float4>(t, threadIdx.x);
  float4 c;
  surf2Dread(&c, s, threadIdx.x * 16, 2);
  out[threadIdx.x] = make_float4(a.x + b.y, a.z, b.w, c.x);
  surf2Dwrite(a, s, threadIdx.x * 16, 3);
}

extern "C" __global__ void clocks(long long* out, unsigned* ids) {
  out[0] = clock64();
  unsigned sm, lane;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  ids[threadIdx.x] = sm + lane;
  __nanosleep(100);
  out[1] = clock64();
}
