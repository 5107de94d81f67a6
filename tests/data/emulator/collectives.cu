// Kernels whose threads work together: votes, matches, reductions, barriers of all kinds, atomics,
// tables, packed halves, tensor cores. Executed by tests/oracle/test_emulator_programs.py.
// nvcc -ptx -arch=sm_86 collectives.cu
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

// Keeps the elements that are not negative, in order, block by block.
extern "C" __global__ void compact(const int* in, int* out, int* counts, int n) {
  __shared__ int before[32];
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, lane = t % 32, warp = t / 32;
  const int value = i < n ? in[i] : -1;
  const unsigned kept = __ballot_sync(0xffffffffu, value >= 0);
  if (lane == 0) before[warp] = __popc(kept);
  __syncthreads();
  if (t == 0) {
    int sum = 0;
    for (int w = 0; w < (blockDim.x + 31) / 32; ++w) {
      const int count = before[w];
      before[w] = sum;
      sum += count;
    }
    counts[blockIdx.x] = sum;
  }
  __syncthreads();
  const int place = before[warp] + __popc(kept & ((1u << lane) - 1));
  if (value >= 0) out[blockIdx.x * blockDim.x + place] = value;
}

// Sorts a block's keys bit by bit: a stable split for each bit, counted with reducing barriers.
extern "C" __global__ void split_sort(unsigned* data) {
  __shared__ unsigned keys[1024];
  __shared__ int zeros[32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
  unsigned key = data[blockIdx.x * blockDim.x + t];
  for (int bit = 0; bit < 32; ++bit) {
    const bool one = key >> bit & 1;
    const int all_zeros = __syncthreads_count(!one);
    const unsigned mine = __ballot_sync(0xffffffffu, !one);
    if (lane == 0) zeros[warp] = __popc(mine);
    __syncthreads();
    int left = __popc(mine & ((1u << lane) - 1));
    for (int w = 0; w < warps; ++w) left += w < warp ? zeros[w] : 0;
    keys[one ? all_zeros + (t - left) : left] = key;
    __syncthreads();
    key = keys[t];
    __syncthreads();
  }
  data[blockIdx.x * blockDim.x + t] = key;
}

// Adds each group of equal keys of a warp with one atomic operation.
extern "C" __global__ void grouped_count(const int* keys, int* counts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned active = __ballot_sync(0xffffffffu, i < n);
  if (i < n) {
    const unsigned same = __match_any_sync(active, keys[i]);
    if (__ffs(same) - 1 == (int)(threadIdx.x % 32)) atomicAdd(&counts[keys[i]], __popc(same));
  }
}

// Whole-warp reductions of integers.
extern "C" __global__ void reductions(const int* in, int* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, value = in[t];
  int equal;
  const unsigned all = __match_all_sync(0xffffffffu, value / 1000, &equal);
  out[6 * t] = __reduce_add_sync(0xffffffffu, value);
  out[6 * t + 1] = __reduce_min_sync(0xffffffffu, value);
  out[6 * t + 2] = (int)__reduce_xor_sync(0xffffffffu, (unsigned)value);
  out[6 * t + 3] = equal ? (int)all : -7;
  out[6 * t + 4] = __shfl_xor_sync(0xffffffffu, value, 5, 8);
  out[6 * t + 5] = __any_sync(0xffffffffu, value == 3) + 2 * __all_sync(0xffffffffu, value > 3);
}

// The first half of the warps fills a buffer that the second half uses, through two named barriers.
extern "C" __global__ void hand_over(const float* in, float* out, int rounds) {
  __shared__ float buffer[512];
  const int half = blockDim.x / 2, t = threadIdx.x;
  float sum = 0.0f;
  for (int r = 0; r < rounds; ++r) {
    if (t < half) {
      if (r > 0) asm volatile("bar.sync 2, %0;" ::"r"((int)blockDim.x) : "memory");
      buffer[t] = in[r * half + t];
      asm volatile("bar.arrive 1, %0;" ::"r"((int)blockDim.x) : "memory");
    } else {
      asm volatile("bar.sync 1, %0;" ::"r"((int)blockDim.x) : "memory");
      sum += buffer[half - 1 - (t - half)];
      if (r + 1 < rounds) asm volatile("bar.arrive 2, %0;" ::"r"((int)blockDim.x) : "memory");
    }
  }
  if (t >= half) out[t - half] = sum;
}

// A compare-and-swap loop: lanes of a warp leave it one by one.
extern "C" __global__ void swap_add(const double* in, double* total) {
  unsigned long long* place = (unsigned long long*)total;
  unsigned long long old = *place, seen;
  do {
    seen = old;
    old = atomicCAS(place, seen, __double_as_longlong(__longlong_as_double(seen) + in[threadIdx.x]));
  } while (old != seen);
}

// A dense switch: nvcc makes a table of it.
extern "C" __global__ void dispatch(const int* code, int* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  int x = t;
  switch (code[t]) {
    case 0: x = x * 3 + 1; break;
    case 1: x = x ^ 0x55; break;
    case 2: x = x - 7 * code[t + 1]; break;
    case 3: x = __brev(x); break;
    case 4: x = x / 3; break;
    case 5: x += 11;
    case 6: x = x * x; break;
    case 7: x = ~x; break;
    case 8: x = __byte_perm(x, 0x01020304, 0x5140); break;
    default: x = -1;
  }
  out[t] = x;
}

extern "C" __global__ void half_axpy(const __half2* x, const __half2* y, __half2* out, float a) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  out[t] = __hfma2(__float2half2_rn(a), x[t], __hmax2(y[t], __float2half2_rn(-0.5f)));
}

extern "C" __global__ void brain_dot(const __nv_bfloat16* x, const __nv_bfloat16* y, float* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  __nv_bfloat162 sum = __float2bfloat162_rn(0.0f);
  for (int i = 0; i < 4; ++i)
    sum = __hfma2(((const __nv_bfloat162*)x)[4 * t + i], ((const __nv_bfloat162*)y)[4 * t + i], sum);
  out[t] = __low2float(sum) + __high2float(sum);
}

// C = A B, 16 x 16 x K, one warp, half precision in and single precision out.
extern "C" __global__ void tensor_product(const __half* a, const __half* b, float* c, int k) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(left, a + i, k);
    wmma::load_matrix_sync(right, b + i, k);
    wmma::mma_sync(sum, left, right, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] *= 2.0f;
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

// Sum over a block through an mbarrier in shared memory instead of __syncthreads.
extern "C" __global__ void memory_barrier_sum(const int* in, int* out, int rounds) {
  __shared__ unsigned long long barrier;
  __shared__ int values[2][256];
  const unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
  const int t = threadIdx.x;
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"((int)blockDim.x));
  __syncthreads();
  int sum = 0;
  for (int r = 0; r < rounds; ++r) {
    values[r & 1][t] = in[r * blockDim.x + t];
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    unsigned done = 0;
    while (!done)
      asm volatile(
          "{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
          : "=r"(done) : "r"(at), "l"(state) : "memory");
    sum += values[r & 1][(t + 1) % blockDim.x];
  }
  out[t] = sum;
}
