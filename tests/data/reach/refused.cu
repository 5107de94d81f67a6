// Near misses: what the limit may be is not known, or the language leaves it undefined.

// Nothing is known of the numbers.
extern "C" __global__ void reduced_data(const int* data, int* out) {
  int n = __reduce_max_sync(0xffffffffu, data[threadIdx.x]);
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// Of lanes 16 to 31, which are no members, the result is undefined.
extern "C" __global__ void no_members(const int* data, int* out) {
  int n = __reduce_max_sync(0x0000ffffu, data[threadIdx.x] & 63);
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// Who the members are depends on data.
extern "C" __global__ void open_members(const int* data, int* out) {
  int n = __reduce_max_sync(data[0], data[threadIdx.x] & 63);
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// Both sides wait for the members: a lane of one finds the numbers of the other.
extern "C" __global__ void both_sides(const int* data, int* out) {
  int x = data[threadIdx.x], sum = 0, n;
  if (x & 1) {
    n = __reduce_max_sync(0xffffffffu, x & 63);
    for (int i = 0; i < n; ++i) sum += data[i] * i;
  } else {
    out[threadIdx.x + 64] = __reduce_max_sync(0xffffffffu, x);
  }
  out[threadIdx.x] = sum;
}

// One return gives what is loaded.
__device__ __noinline__ int open_return(const int* data, int x) {
  if (x < 0) return 3;
  if (x & 64) return data[x];
  return x & 7;
}

extern "C" __global__ void opened(const int* data, int* out) {
  int n = open_return(data, data[threadIdx.x]), sum = 0;
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// A lane that waits at the first reduction may find the numbers of those at the second.
extern "C" __global__ void first_apart(const int* data, int* out) {
  int x = data[threadIdx.x], sum = 0;
  if (x & 1) out[threadIdx.x + 64] = __reduce_max_sync(0xffffffffu, x);
  int n = __reduce_max_sync(0xffffffffu, x & 63);
  for (int i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// The sum goes round.
extern "C" __global__ void reduced_large(const unsigned* data, unsigned* out) {
  unsigned n = __reduce_add_sync(0xffffffffu, data[threadIdx.x] >> 4);
  unsigned sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += data[i] * i;
  out[threadIdx.x] = sum;
}
