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

// A step of 0 stays where it is.
extern "C" __global__ void open_stride(const int* data, int* out) {
  int sum = 0;
  for (unsigned i = threadIdx.x; i < 100; i += data[i]) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// As long a step as this goes round to where it was.
extern "C" __global__ void skipping_round(const int* data, int* out) {
  int i = -5, sum = 0;
  while (i < 100) {
    sum += data[i];
    i += max(1, data[i]);
  }
  out[threadIdx.x] = sum;
}

// Nothing says that a step is not negative.
extern "C" __global__ void skipping_back(const int* data, int* out) {
  int i = 0, sum = 0;
  while (i < 100) {
    int step = data[i];
    i += step < 9 ? step : 1;
    sum += step;
  }
  out[threadIdx.x] = sum;
}

// A packet may be empty.
extern "C" __global__ void empty_packets(const unsigned char* data, int* out) {
  int i = 0, k = 0;
  while (i + 4 <= 100) {
    int length = data[i] | data[i + 1] << 8;
    if (i + length > 100) break;
    out[k++ & 31] = i;
    i += length;
  }
}

// The lowest bit of the lowest number is itself: twice that is 0, to which nothing is added.
extern "C" __global__ void lowest_of_all(const int* data, int* out) {
  int sum = 0;
  for (int i = data[threadIdx.x] & 31; i <= 100; i += i & -i) sum += data[i & 31];
  out[threadIdx.x] = sum;
}
