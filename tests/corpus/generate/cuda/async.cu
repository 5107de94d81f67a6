// Asynchronous copies to shared memory: groups, barriers of the standard library, a pipeline.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

extern "C" __global__ void copy_groups(const float4* in, float4* out, int n) {
  __shared__ float4 stage[3][128];
  for (int s = 0; s < 2; ++s) {
    __pipeline_memcpy_async(&stage[s][threadIdx.x], in + s * 128 + threadIdx.x, 16);
    __pipeline_commit();
  }
  float4 sum = make_float4(0, 0, 0, 0);
  for (int i = 0; i < n; ++i) {
    if (i + 2 < n) __pipeline_memcpy_async(&stage[(i + 2) % 3][threadIdx.x], in + (i + 2) * 128 + threadIdx.x, 16, 4);
    __pipeline_commit();
    __pipeline_wait_prior(2);
    __syncthreads();
    const float4 v = stage[i % 3][127 - threadIdx.x];
    sum.x += v.x; sum.y -= v.y; sum.z *= v.z; sum.w = fmaxf(sum.w, v.w);
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void copy_forms(const int* in, int* out, int valid) {
  extern __shared__ int buffer[];
  const unsigned to = (unsigned)__cvta_generic_to_shared(buffer + 4 * threadIdx.x);
  const size_t from = __cvta_generic_to_global(in + 4 * threadIdx.x);
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 0.5;" : "=l"(policy));
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(to), "l"(from));
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(policy));
  asm volatile("cp.async.ca.shared.global [%0+4], [%1+4], 8, %2;" ::"r"(to + 4), "l"(from + 4), "r"(valid));
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }"
               ::"r"(to), "l"(from), "r"(valid));
  asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;\n\tcp.async.wait_all;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = buffer[threadIdx.x ^ 1];
}

extern "C" __global__ void barriers(const int* in, int* out, int rounds) {
  __shared__ int tile[256];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  if (threadIdx.x == 0) init(&ready, blockDim.x);
  __syncthreads();
  int sum = 0;
  for (int r = 0; r < rounds; ++r) {
    cuda::memcpy_async(tile + threadIdx.x, in + r * blockDim.x + threadIdx.x, sizeof(int), ready);
    auto token = ready.arrive();
    sum += r;
    ready.wait(std::move(token));
    sum += tile[255 - threadIdx.x];
    ready.arrive_and_wait();
  }
  if (threadIdx.x == 3) ready.arrive_and_drop();
  out[threadIdx.x] = sum;
}

extern "C" __global__ void group_copy(const double* in, double* out) {
  __shared__ double tile[128];
  const auto block = cg::this_thread_block();
  cg::memcpy_async(block, tile, in + blockIdx.x * 128, sizeof(tile));
  cg::wait(block);
  out[block.thread_rank()] = tile[block.size() - 1 - block.thread_rank()];
}
