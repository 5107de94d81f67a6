// Kernels that leave something open: loops on data, on parameters, barriers behind a parameter.

// A loop over the entries of a row, unrolled by the compiler.
extern "C" __global__ void csr(const int* row, const float* v, float* y) {
  const int i = threadIdx.x;
  float s = 0;
  for (int j = row[i]; j < row[i + 1]; ++j) s += v[j];
  y[i] = s;
}

// A linked list.
extern "C" __global__ void chase(const int* next, int* y) {
  int i = threadIdx.x;
  do {
    y[i] += 1;
    i = next[i];
  } while (i >= 0);
}

// The outer loop is a parameter's, the inner one data's.
extern "C" __global__ void rows(const int* row, const float* v, float* y, int count) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    float s = 0;
#pragma unroll 1
    for (int j = row[i]; j < row[i + 1]; ++j) s += v[j];
    y[i] = s;
  }
}

// A parameter decides whether all threads wait.
extern "C" __global__ void barrier(const int* next, int* y, int mode) {
  int i = threadIdx.x;
#pragma unroll 1
  while (next[i] > 0) i = next[i] + 1;
  if (mode == 3) {
    y[i] = 1;
    __syncthreads();
  }
  y[i + 1] = 2;
}

__device__ __noinline__ int follow(const int* next, int i) {
#pragma unroll 1
  while (next[i] > 0) i = next[i] + 1;
  return i;
}

// A loop of a function that is called twice.
extern "C" __global__ void twice(const int* next, int* y) {
  y[threadIdx.x] = follow(next, threadIdx.x) + follow(next, y[threadIdx.x]);
}

// Whether a part of a warp waits depends on data.
extern "C" __global__ void part(int* y) {
  if (y[threadIdx.x] > 0) {
    __syncthreads();
    y[threadIdx.x] = 1;
  } __threadfence_block();
}

// Some values of the parameter make it wrong, others do not.
extern "C" __global__ void part_of_some(int* y, int mode, int spare) {
  if (spare > 3) y[2] = 5;
  if (mode > 1000) {
    __syncthreads();
    if (y[threadIdx.x] > 0) {
      __syncthreads();
      y[threadIdx.x] = 1;
    }
  }
  y[1] = 2;
}

// Alone, the second loop would be asked for; the value that the first one needs decides both.
extern "C" __global__ void settled(int* y, unsigned count) {
#pragma unroll 1
  for (unsigned k = 0; k < count; ++k) y[k] += 1;
#pragma unroll 1
  for (unsigned k = 1; k < count; k *= 3) y[k] += 1;
}

// The second loop is not reached with every value of the parameter.
extern "C" __global__ void reached(const int* next, int* y, int count) {
  int i = threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < count; ++k) y[k] += 1;
  if (count > 1000) {
#pragma unroll 1
    while (next[i] > 0) i = next[i] + 1;
  }
  y[i] = 2;
}

// As above, with the first values that one would try among the wrong ones.
extern "C" __global__ void part_of_others(int* y, int mode) {
  if (mode < 1000) {
    __syncthreads();
    if (y[threadIdx.x] > 0) {
      __syncthreads();
      y[threadIdx.x] = 1;
    }
  }
  y[1] = 2;
}

// A part of a warp waits: no answer helps.
extern "C" __global__ void part_for_sure(int* y) {
  if (threadIdx.x < 5) {
    __syncthreads();
    y[threadIdx.x] = 1;
  } __threadfence_block();
}

// Two branches on data; only the one before the barrier has to be the same for all.
extern "C" __global__ void agreed(int* y, int* x) {
  if (y[threadIdx.x] > 0) y[threadIdx.x] = x[threadIdx.x] * 3;
  if (x[threadIdx.x] > 7) {
    __syncthreads();
    x[threadIdx.x] = y[threadIdx.x ^ 1];
    __syncthreads();
  }
  y[threadIdx.x] += 1;
}

// Half of the threads run longer than one would assume of a loop on data, which the others have.
extern "C" __global__ void mixed(int* y, const int* x) {
  const int most = threadIdx.x < 32 ? 2000000 : x[threadIdx.x];
#pragma unroll 1
  for (int j = 0; j < most; ++j) y[j] += 1;
}

// What follows depends on the way out of the loop.
extern "C" __global__ void ways_out(int* y, const int* x) {
  int i = threadIdx.x, found = -1;
#pragma unroll 1
  while (x[i] >= 0) {
    if (x[i] == 7) {
      found = i;
      break;
    }
    i += 64;
  }
  if (found >= 0) y[found] = 1;
  else y[0] = i;
}
