// Loops whose limits are reduced over the warp, or come from functions with several returns.

extern "C" __global__ void reduced_max(const int* data, int* out) {
  int n = __reduce_max_sync(0xffffffffu, data[threadIdx.x] & 63);
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void reduced_min(const unsigned* data, unsigned* out) {
  unsigned n = __reduce_min_sync(0xffffffffu, data[threadIdx.x] >> 27);
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void reduced_sum(const unsigned* data, unsigned* out) {
  unsigned n = __reduce_add_sync(0xffffffffu, data[threadIdx.x] & 3u);
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void reduced_or(const unsigned* data, unsigned* out) {
  unsigned n = __reduce_or_sync(0xffffffffu, data[threadIdx.x] & 21u);
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void reduced_and(const unsigned* data, unsigned* out) {
  unsigned n = __reduce_and_sync(0xffffffffu, data[threadIdx.x] & (threadIdx.x == 3 ? 15u : 255u));
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

__device__ __noinline__ int choose(int x) {
  if (x < 0) return 3;
  if (x & 64) return 5;
  return x & 7;
}

extern "C" __global__ void chosen(const int* data, int* out) {
  int n = choose(data[threadIdx.x]), sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

__device__ __noinline__ int looked_up(const int* data, int x) {
  for (int i = 0; i < 10; ++i)
    if (data[i] == x) return i;
  return 20;
}

extern "C" __global__ void found_at(const int* data, int* out) {
  int n = looked_up(data, data[threadIdx.x] * 3), sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

__device__ __noinline__ int kind_of(int x) {
  switch (x & 15) {
    case 0: return 9;
    case 3: return x >> 28 & 7;
    case 7: return 12;
    case 8: case 9: return __popc(x);
    default: return 1;
  }
}

extern "C" __global__ void switched(const int* data, int* out) {
  int n = kind_of(data[threadIdx.x]), sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

__device__ __noinline__ int first_of(const int* data, int x) {
  for (int i = 0; i < 100; ++i)
    if (data[i] == x) return i;
  return -1;
}

extern "C" __global__ void searched(const int* data, int* out) {
  int n = first_of(data, data[threadIdx.x] * 3), sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// 16 threads of 32: the members are those that exist.
extern "C" __global__ void __launch_bounds__(16) reduced_half(const int* data, int* out) {
  int n = __reduce_add_sync(0x0000ffffu, data[threadIdx.x] & 3);
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}
