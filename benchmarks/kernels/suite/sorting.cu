// Sorting.

// one step of a bitonic sort in global memory
extern "C" __global__ void bitonic_step(int* data, unsigned n, unsigned distance, unsigned run) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned partner = i ^ distance;
  if (i >= n || partner <= i) return;
  int a = data[i], b = data[partner];
  bool up = (i & run) == 0;
  if ((a > b) == up) {
    data[i] = b;
    data[partner] = a;
  }
}

template <int SIZE>
__device__ void bitonic_merge_shared(int* keys, int* values, unsigned direction) {
  for (unsigned size = 2; size <= SIZE; size <<= 1) {
    unsigned ascending = direction ^ ((threadIdx.x & (size / 2)) != 0);
    for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      unsigned at = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      int a = keys[at], b = keys[at + stride];
      if ((a > b) == ascending) {
        keys[at] = b;
        keys[at + stride] = a;
        int v = values[at];
        values[at] = values[at + stride];
        values[at + stride] = v;
      }
    }
  }
  __syncthreads();
}

// pairs of keys and values, 128 a block
extern "C" __global__ void bitonic_pairs(const int* __restrict__ keys_in, const int* __restrict__ values_in, int* keys_out,
                                         int* values_out, unsigned direction) {
  __shared__ int keys[128];
  __shared__ int values[128];
  int base = blockIdx.x * 128, t = threadIdx.x;
  keys[t] = keys_in[base + t];
  values[t] = values_in[base + t];
  keys[t + 64] = keys_in[base + t + 64];
  values[t + 64] = values_in[base + t + 64];
  bitonic_merge_shared<128>(keys, values, direction);
  keys_out[base + t] = keys[t];
  values_out[base + t] = values[t];
  keys_out[base + t + 64] = keys[t + 64];
  values_out[base + t + 64] = values[t + 64];
}

// odd-even transposition in one block, until a whole round changes nothing
extern "C" __global__ void odd_even(int* data, int n) {
  __shared__ int swapped;
  int t = threadIdx.x;
  do {
    __syncthreads();
    if (t == 0) swapped = 0;
    __syncthreads();
    for (int phase = 0; phase < 2; ++phase) {
      int i = 2 * t + phase;
      if (i + 1 < n && data[i] > data[i + 1]) {
        int keep = data[i];
        data[i] = data[i + 1];
        data[i + 1] = keep;
        swapped = 1;
      }
      __syncthreads();
    }
  } while (swapped);
}

// digits of a block's keys counted in shared memory, then written column by column
extern "C" __global__ void radix_count(const unsigned* __restrict__ keys, int n, int shift, unsigned* __restrict__ counts) {
  __shared__ unsigned bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[(keys[i] >> shift) & 15u], 1u);
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

// stable split of one block by one bit after the other
extern "C" __global__ void radix_split(unsigned* data, int bits) {
  __shared__ unsigned keys[64];
  __shared__ unsigned warp_sums[2];
  int t = threadIdx.x;
  unsigned key = data[blockIdx.x * 64 + t];
  for (int bit = 0; bit < bits; ++bit) {
    unsigned zero = !((key >> bit) & 1u);
    unsigned ballot = __ballot_sync(0xffffffffu, zero);
    unsigned before = __popc(ballot & ((1u << (t & 31)) - 1u));
    if ((t & 31) == 0) warp_sums[t >> 5] = __popc(ballot);
    __syncthreads();
    unsigned zeros = warp_sums[0] + warp_sums[1];
    if (t >= 32) before += warp_sums[0];
    keys[zero ? before : zeros + t - before] = key;
    __syncthreads();
    key = keys[t];
  }
  data[blockIdx.x * 64 + t] = key;
}

// a thread finds where its share of a merge begins and merges that share
extern "C" __global__ void merge_path(const int* __restrict__ a, int na, const int* __restrict__ b, int nb, int* __restrict__ out,
                                      int share) {
  int begin = (blockIdx.x * blockDim.x + threadIdx.x) * share;
  if (begin >= na + nb) return;
  int low = max(0, begin - nb), high = min(begin, na);
  while (low < high) {
    int middle = (low + high) >> 1;
    if (a[middle] <= b[begin - 1 - middle])
      low = middle + 1;
    else
      high = middle;
  }
  int i = low, j = begin - low;
  for (int k = 0; k < share && begin + k < na + nb; ++k) {
    if (j >= nb || (i < na && a[i] <= b[j]))
      out[begin + k] = a[i++];
    else
      out[begin + k] = b[j++];
  }
}

extern "C" __global__ void rank_sort(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float key = in[i];
  int rank = 0;
  for (int j = 0; j < n; ++j) rank += in[j] < key || (in[j] == key && j < i);
  out[rank] = key;
}

// a thread sorts its short row by insertion
extern "C" __global__ void insertion_rows(int* rows, int count, int length) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= count) return;
  int* row = rows + r * length;
  for (int i = 1; i < length; ++i) {
    int key = row[i], j = i - 1;
    while (j >= 0 && row[j] > key) {
      row[j + 1] = row[j];
      --j;
    }
    row[j + 1] = key;
  }
}
