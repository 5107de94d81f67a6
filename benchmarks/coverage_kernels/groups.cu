// Cooperative groups, barriers and pipelines of libcu++, small floats, tensor cores.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>
namespace cg = cooperative_groups;

template <int N, class T>
__device__ T group_work(T value) {
  auto tile = cg::tiled_partition<N>(cg::this_thread_block());
  T sum = cg::reduce(tile, value, cg::plus<T>());
  T most = cg::reduce(tile, value, cg::greater<T>());
  return sum + most + cg::inclusive_scan(tile, value) + cg::exclusive_scan(tile, value);
}
template <class T>
__global__ void groups(T* data) {
  T value = data[threadIdx.x];
  value += group_work<4>(value) + group_work<16>(value) + group_work<32>(value);
  auto active = cg::coalesced_threads();
  data[threadIdx.x] = value + cg::reduce(active, value, cg::plus<T>());
}
template __global__ void groups<int>(int*);
template __global__ void groups<float>(float*);
template __global__ void groups<double>(double*);
template __global__ void groups<unsigned long long>(unsigned long long*);

__global__ void pipelined(const float4* in, float4* out, int steps) {
  __shared__ float4 stage[2][256];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int i = 0; i < steps; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, stage[i & 1], in + i * 256, sizeof(float4) * 256, pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    block.sync();
    float4 v = stage[i & 1][255 - threadIdx.x];
    out[i * 256 + threadIdx.x] = v;
    pipe.consumer_release();
  }
}
__global__ void barriers(int* data) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    auto token = bar.arrive();
    data[threadIdx.x] += i;
    bar.wait(std::move(token));
  }
}
__global__ void atomics(int* i, float* f, unsigned long long* u) {
  cuda::atomic_ref<int, cuda::thread_scope_device> a(*i);
  a.fetch_add(3, cuda::std::memory_order_acq_rel);
  a.fetch_max(threadIdx.x);
  cuda::atomic_ref<float, cuda::thread_scope_block> b(*f);
  b.fetch_add(1.5f);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> c(*u);
  unsigned long long seen = c.load();
  while (!c.compare_exchange_weak(seen, seen * 3 + 1)) {
  }
}
__global__ void small_floats(const float* in, __nv_fp8_e4m3* a, __nv_fp8_e5m2* b, __half* h, __nv_bfloat16* g) {
  const int t = threadIdx.x;
  a[t] = __nv_fp8_e4m3(in[t]);
  b[t] = __nv_fp8_e5m2(in[t]);
  h[t] = hexp(__float2half(in[t])) + hsin(__float2half(float(a[t]))) * hrcp(__float2half(in[t]));
  g[t] = hlog(__float2bfloat16(in[t])) + hsqrt(__float2bfloat16(float(b[t])));
}
template <int M, int N, int K, class T, class S>
__global__ void product(const T* a, const T* b, S* c, int lda) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, M, N, K, S> sum;
  wmma::fill_fragment(sum, S(0));
  for (int i = 0; i < lda; i += K) {
    wmma::load_matrix_sync(left, a + i, lda);
    wmma::load_matrix_sync(right, b + i, lda);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}
template __global__ void product<16, 16, 16, __half, float>(const __half*, const __half*, float*, int);
template __global__ void product<16, 16, 16, __half, __half>(const __half*, const __half*, __half*, int);
template __global__ void product<32, 8, 16, signed char, int>(const signed char*, const signed char*, int*, int);
template __global__ void product<8, 32, 16, unsigned char, int>(const unsigned char*, const unsigned char*, int*, int);
