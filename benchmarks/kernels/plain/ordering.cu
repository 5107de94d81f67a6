// Sorting, searching, scans: counts in shared and local memory, votes, other threads.

// Counts of 4-bit digits of a block's keys.
extern "C" __global__ void digit_counts(const unsigned* keys, unsigned* counts, int n, int shift) {
  __shared__ unsigned mine[16];
  if (threadIdx.x < 16) mine[threadIdx.x] = 0;
  __syncthreads();
  int first = blockIdx.x * blockDim.x * 8;
  for (int k = 0; k < 8; ++k) {
    int i = first + k * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(mine + (keys[i] >> shift & 15), 1u);
  }
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = mine[threadIdx.x];
}

// Sorts a block's keys bit by bit.
extern "C" __global__ void split_sort(unsigned* keys, int bits) {
  __shared__ unsigned kept[256];
  __shared__ int sums[8];
  unsigned key = keys[blockIdx.x * 256 + threadIdx.x];
  for (int bit = 0; bit < bits; ++bit) {
    unsigned zeros = __ballot_sync(0xffffffffu, !(key >> bit & 1));
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = __popc(zeros);
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < 8; ++w) {
      if (w < threadIdx.x / 32) before += sums[w];
      all += sums[w];
    }
    before += __popc(zeros & ((1u << threadIdx.x % 32) - 1));
    int place = key >> bit & 1 ? all + threadIdx.x - before : before;
    kept[place] = key;
    __syncthreads();
    key = kept[threadIdx.x];
    __syncthreads();
  }
  keys[blockIdx.x * 256 + threadIdx.x] = key;
}

// Copies the keys of each bucket; how many there are was counted in shared memory.
extern "C" __global__ void bucket_sums(const int* keys, int* sums) {
  __shared__ int counts[8], rows[8][64];
  if (threadIdx.x < 8) counts[threadIdx.x] = 0;
  __syncthreads();
  int key = keys[blockIdx.x * 64 + threadIdx.x];
  int bucket = key & 7;
  int place = atomicAdd(&counts[bucket], 1);
  rows[bucket][place & 63] = key;
  __syncthreads();
  if (threadIdx.x < 8) {
    int sum = 0, count = min(counts[threadIdx.x], 64);
    for (int i = 0; i < count; ++i) sum += rows[threadIdx.x][i];
    sums[blockIdx.x * 8 + threadIdx.x] = sum;
  }
}

// The first element that is not less, by halving.
extern "C" __global__ void lower_bounds(const float* sorted, int n, const float* wanted, int* out,
                                        int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int low = 0, high = n;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (sorted[middle] < wanted[i])
      low = middle + 1;
    else
      high = middle;
  }
  out[i] = low;
}

// The same between the offsets of a row.
extern "C" __global__ void find_edges(const int* offsets, const int* targets, const int2* edges,
                                      int count, int* found) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int low = offsets[edges[i].x], high = offsets[edges[i].x + 1];
  while (low < high) {
    int middle = (low + high) >> 1;
    if (targets[middle] < edges[i].y)
      low = middle + 1;
    else
      high = middle;
  }
  found[i] = low;
}

// Sums up to each element, up and down a tree.
extern "C" __global__ void tree_scan(const int* in, int* out, int n) {
  extern __shared__ int tree[];
  int me = threadIdx.x, offset = 1;
  tree[2 * me] = 2 * me < n ? in[2 * me] : 0;
  tree[2 * me + 1] = 2 * me + 1 < n ? in[2 * me + 1] : 0;
  for (int d = blockDim.x; d > 0; d >>= 1) {
    __syncthreads();
    if (me < d) tree[offset * (2 * me + 2) - 1] += tree[offset * (2 * me + 1) - 1];
    offset *= 2;
  }
  if (me == 0) tree[2 * blockDim.x - 1] = 0;
  for (int d = 1; d <= blockDim.x; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (me < d) {
      int a = offset * (2 * me + 1) - 1, b = offset * (2 * me + 2) - 1, t = tree[a];
      tree[a] = tree[b];
      tree[b] += t;
    }
  }
  __syncthreads();
  if (2 * me < n) out[2 * me] = tree[2 * me];
  if (2 * me + 1 < n) out[2 * me + 1] = tree[2 * me + 1];
}

// Sums over all blocks, each of which waits for the one before it.
extern "C" __global__ void chained_scan(const int* in, int* out, volatile int* ready,
                                        volatile int* sums) {
  __shared__ int before;
  int i = blockIdx.x * blockDim.x + threadIdx.x, all = __syncthreads_count(in[i] & 1);
  if (threadIdx.x == 0) {
    int sum = 0;
    if (blockIdx.x > 0) {
      while (ready[blockIdx.x - 1] == 0) {
      }
      sum = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = sum + all;
    __threadfence();
    ready[blockIdx.x] = 1;
    before = sum;
  }
  __syncthreads();
  out[i] = before;
}

// A heap's element down to its place.
extern "C" __global__ void sift_down(int* heaps, int n) {
  int* heap = heaps + (blockIdx.x * blockDim.x + threadIdx.x) * n;
  int value = heap[0], at = 0;
  while (2 * at + 1 < n) {
    int child = 2 * at + 1;
    if (child + 1 < n && heap[child + 1] > heap[child]) ++child;
    if (heap[child] <= value) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = value;
}

// A quicksort of 64 elements with a stack of its own.
extern "C" __global__ void quick_sort(int* all) {
  int* a = all + (blockIdx.x * blockDim.x + threadIdx.x) * 64;
  int stack[32], top = 0;
  stack[top++] = 0;
  stack[top++] = 63;
  while (top > 0) {
    int high = stack[--top], low = stack[--top];
    int pivot = a[high], i = low;
    for (int j = low; j < high; ++j)
      if (a[j] < pivot) {
        int t = a[i];
        a[i] = a[j];
        a[j] = t;
        ++i;
      }
    a[high] = a[i];
    a[i] = pivot;
    if (i - low > 1 && top < 31) {
      stack[top++] = low;
      stack[top++] = i - 1;
    }
    if (high - i > 1 && top < 31) {
      stack[top++] = i + 1;
      stack[top++] = high;
    }
  }
}

// A bitonic network in shared memory.
extern "C" __global__ void bitonic(float* all, int n) {
  __shared__ float kept[512];
  int me = threadIdx.x;
  for (int i = me; i < n; i += blockDim.x) kept[i] = all[blockIdx.x * n + i];
  for (int size = 2; size <= n; size <<= 1)
    for (int stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      int i = 2 * me - (me & (stride - 1));
      bool up = (me & (size / 2)) == 0;
      float a = kept[i], b = kept[i + stride];
      if (a > b == up) kept[i] = b, kept[i + stride] = a;
    }
  __syncthreads();
  for (int i = me; i < n; i += blockDim.x) all[blockIdx.x * n + i] = kept[i];
}

// Where a diagonal crosses two sorted lists, then a merge of 8 elements a thread.
extern "C" __global__ void merge_path(const int* a, int n, const int* b, int m, int* out) {
  int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  if (diagonal >= n + m) return;
  int low = max(0, diagonal - m), high = min(diagonal, n);
  while (low < high) {
    int middle = (low + high) / 2;
    if (a[middle] <= b[diagonal - 1 - middle])
      low = middle + 1;
    else
      high = middle;
  }
  int i = low, j = diagonal - low;
  for (int k = 0; k < 8 && diagonal + k < n + m; ++k)
    out[diagonal + k] = j >= m || (i < n && a[i] <= b[j]) ? a[i++] : b[j++];
}

// Neighbours are swapped until no thread of the block has anything to do, n rounds at most.
extern "C" __global__ void exchange_sort(int* all, int n) {
  extern __shared__ int kept[];
  int me = threadIdx.x;
  kept[me] = all[blockIdx.x * blockDim.x + me];
  __syncthreads();
  int swapped = 1;
  for (int round = 0; round < n && swapped; ++round) {
    int mine = 0;
    for (int odd = 0; odd < 2; ++odd) {
      int i = 2 * me + odd;
      if (i + 1 < blockDim.x && kept[i] > kept[i + 1]) {
        int t = kept[i];
        kept[i] = kept[i + 1];
        kept[i + 1] = t;
        mine = 1;
      }
      __syncthreads();
    }
    swapped = __syncthreads_or(mine);
  }
  all[blockIdx.x * blockDim.x + me] = kept[me];
}

// A table with open places, at most 32 of which are tried.
extern "C" __global__ void insert_keys(const unsigned* keys, int count, unsigned* table,
                                       unsigned mask, int* lost) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned key = keys[i], at = key * 2654435761u & mask;
  for (int probe = 0; probe < 32; ++probe) {
    unsigned old = atomicCAS(table + at, 0xffffffffu, key);
    if (old == 0xffffffffu || old == key) return;
    at = (at + 1) & mask;
  }
  atomicAdd(lost, 1);
}

// Elements above a limit, without holes.
extern "C" __global__ void compact(const float* in, int n, float limit, float* out, int* counter) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  bool keep = i < n && in[i] > limit;
  unsigned votes = __ballot_sync(0xffffffffu, keep);
  int base = 0;
  if (lane == 0 && votes) base = atomicAdd(counter, __popc(votes));
  base = __shfl_sync(0xffffffffu, base, 0);
  if (keep) out[base + __popc(votes & ((1u << lane) - 1))] = in[i];
}
