// Six sums of integers, a partial sum a block of 256 threads, each faster than the one before.

constexpr int THREADS = 256;

// Neighbours first; which threads add is found with a remainder, so that warps fall apart.
extern "C" __global__ void __launch_bounds__(256)
reduction_1(const int *data, int *sums, int n) {
  __shared__ int part[THREADS];
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  part[t] = i < n ? data[i] : 0;
  __syncthreads();
#pragma unroll 1
  for (unsigned distance = 1; distance < THREADS; distance *= 2) {
    if (unsigned(t) % (2 * distance) == 0) part[t] += part[t + distance];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

// Neighbours first; the first threads add, so that whole warps are idle, with bank conflicts.
extern "C" __global__ void __launch_bounds__(256)
reduction_2(const int *data, int *sums, int n) {
  __shared__ int part[THREADS];
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  part[t] = i < n ? data[i] : 0;
  __syncthreads();
#pragma unroll 1
  for (int distance = 1; distance < THREADS; distance *= 2) {
    const int place = 2 * distance * t;
    if (place < THREADS) part[place] += part[place + distance];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

// Half the elements onto the other half.
extern "C" __global__ void __launch_bounds__(256)
reduction_3(const int *data, int *sums, int n) {
  __shared__ int part[THREADS];
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  part[t] = i < n ? data[i] : 0;
  __syncthreads();
#pragma unroll 1
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

// The sum of the two elements that a thread loads.
__device__ __forceinline__ int first_sum(const int *data, int n) {
  const int i = blockIdx.x * 2 * THREADS + threadIdx.x;
  int sum = i < n ? data[i] : 0;
  if (i + THREADS < n) sum += data[i + THREADS];
  return sum;
}

// The first addition while loading: half the blocks.
extern "C" __global__ void __launch_bounds__(256)
reduction_4(const int *data, int *sums, int n) {
  __shared__ int part[THREADS];
  const int t = threadIdx.x;
  part[t] = first_sum(data, n);
  __syncthreads();
#pragma unroll 1
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

// The last six steps concern one warp: they need no barrier of the block.
__device__ __forceinline__ void finish_in_warp(volatile int *part, int t) {
  int sum = part[t] + part[t + 32];
#pragma unroll
  for (int half = 16; half > 0; half /= 2) {
    part[t] = sum;
    __syncwarp();
    sum += part[t + half];
    __syncwarp();
  }
  if (t == 0) part[0] = sum;
}

// Unrolled in the last warp.
extern "C" __global__ void __launch_bounds__(256)
reduction_5(const int *data, int *sums, int n) {
  __shared__ int part[THREADS];
  const int t = threadIdx.x;
  part[t] = first_sum(data, n);
  __syncthreads();
#pragma unroll 1
  for (int half = THREADS / 2; half > 32; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t < 32) finish_in_warp(part, t);
  if (t == 0) sums[blockIdx.x] = part[0];
}

// Unrolled altogether, for this size of block.
extern "C" __global__ void __launch_bounds__(256)
reduction_6(const int *data, int *sums, int n) {
  __shared__ int part[THREADS];
  const int t = threadIdx.x;
  part[t] = first_sum(data, n);
  __syncthreads();
  if (t < 128) part[t] += part[t + 128];
  __syncthreads();
  if (t < 64) part[t] += part[t + 64];
  __syncthreads();
  if (t < 32) finish_in_warp(part, t);
  if (t == 0) sums[blockIdx.x] = part[0];
}
