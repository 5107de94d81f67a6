// Totals: what loops and functions do in a whole run, all entries or calls together.

// Rows of a sparse matrix, one row after the other: the sum of all rows is known.
extern "C" __global__ void rows(const int* start, const int* value, int* out, int n) {
  int sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
#pragma unroll 1
    for (int j = start[i]; j < start[i + 1]; ++j) sum += value[j];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A search in each round, left in the middle of its body.
extern "C" __global__ void searches(const int* value, int* out, int n, int m) {
  int found = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
#pragma unroll 1
    for (int j = 0; j < m; ++j) {
      if (value[i * m + j] < 0) break;
      found += value[i * m + j] * j;
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = found;
}

// Each thread has a row of its own in each round, and some threads end early.
extern "C" __global__ void own_rows(const int* start, const int* value, int* out, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (start[t] < 0) return;
  int sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
#pragma unroll 1
    for (int j = start[i + t]; j < start[i + t + 1]; ++j) sum += value[j];
  }
  out[t] = sum;
}

// Rounds with a barrier in each, and rounds within them.
extern "C" __global__ void levels(const int* start, const int* value, int* out, int n) {
  __shared__ int shared[1024];
  int sum = 0;
#pragma unroll 1
  for (int level = 0; level < n; ++level) {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
#pragma unroll 1
      for (int j = start[4 * level + i]; j < start[4 * level + i + 1]; ++j) sum += value[j];
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    sum = shared[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__device__ __noinline__ int refine(const int* value, int from) {
  int best = 0;
#pragma unroll 1
  for (int k = 0; k < 8; ++k) best = max(best, value[(from * 13 + k) & 255] * k + best / 3);
  return best;
}

// A function that is called in few of the rounds.
extern "C" __global__ void calls(const int* value, int* out, int n) {
  int sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    if (value[i] > 100) sum += refine(value, i);
  }
  if (value[n] > 0) sum += refine(value, sum & 127);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
