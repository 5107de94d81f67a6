// Prefix sums of a long array in three kernels: sums within blocks, sums of the blocks' totals,
// and their addition to the blocks.

constexpr int THREADS = 256;

// Inclusive sums within a block, a pair of elements a thread: sums of pairs are added over growing
// distances, from one half of a buffer into the other.
extern "C" __global__ void __launch_bounds__(256)
scan_1(const int *data, int *sums, int *totals) {
  __shared__ int buffer[2 * THREADS];
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  const int2 pair = reinterpret_cast<const int2 *>(data)[i];
  int from = 0, own = pair.x + pair.y;
#pragma unroll 1
  for (int distance = 1; distance < THREADS; distance *= 2) {
    buffer[from + t] = own;
    __syncthreads();
    if (t >= distance) own += buffer[from + t - distance];
    from = THREADS - from;
  }
  reinterpret_cast<int2 *>(sums)[i] = make_int2(own - pair.y, own);
  if (t == THREADS - 1) totals[blockIdx.x] = own;
}

// Exclusive sums of rows of 512 totals, a row a block, with work in proportion to the elements: up
// a tree of sums and down again.
extern "C" __global__ void __launch_bounds__(256)
scan_2(int *totals) {
  __shared__ int tree[2 * THREADS];
  const int t = threadIdx.x;
  int *row = totals + blockIdx.x * 2 * THREADS;
  tree[t] = row[t];
  tree[t + THREADS] = row[t + THREADS];
  int distance = 1;
#pragma unroll 1
  for (int active = THREADS; active > 0; active /= 2) {
    __syncthreads();
    if (t < active) tree[2 * distance * (t + 1) - 1] += tree[distance * (2 * t + 1) - 1];
    distance *= 2;
  }
  if (t == 0) tree[2 * THREADS - 1] = 0;
#pragma unroll 1
  for (int active = 1; active <= THREADS; active *= 2) {
    distance /= 2;
    __syncthreads();
    if (t < active) {
      const int low = distance * (2 * t + 1) - 1, high = 2 * distance * (t + 1) - 1;
      const int left = tree[low];
      tree[low] = tree[high];
      tree[high] += left;
    }
  }
  __syncthreads();
  row[t] = tree[t];
  row[t + THREADS] = tree[t + THREADS];
}

// Adds the sum of all earlier blocks: one thread reads it for its block.
extern "C" __global__ void __launch_bounds__(256)
scan_3(int *sums, const int *totals) {
  __shared__ int earlier;
  const int t = threadIdx.x, i = blockIdx.x * THREADS + t;
  if (t == 0) earlier = totals[blockIdx.x];
  __syncthreads();
  int2 pair = reinterpret_cast<int2 *>(sums)[i];
  pair.x += earlier;
  pair.y += earlier;
  reinterpret_cast<int2 *>(sums)[i] = pair;
}
