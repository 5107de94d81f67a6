// Reductions, scans and histograms.

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(0xffffffffu, value, offset);
  return value;
}

extern "C" __global__ void reduce_tree(const float* __restrict__ in, float* __restrict__ out, unsigned n) {
  extern __shared__ float partial[];
  unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
  float sum = i < n ? in[i] : 0.0f;
  if (i + blockDim.x < n) sum += in[i + blockDim.x];
  partial[t] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 32; half >>= 1) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t < 32) {
    sum = partial[t];
    if (blockDim.x >= 64) sum += partial[t + 32];
    sum = warp_sum(sum);
    if (t == 0) out[blockIdx.x] = sum;
  }
}

// grid stride, then warps, then the first warp
extern "C" __global__ void reduce_grid(const double* __restrict__ in, double* out, size_t n) {
  __shared__ double of_warp[32];
  double sum = 0.0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) sum += in[i];
  sum = warp_sum(sum);
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  if (lane == 0) of_warp[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? of_warp[lane] : 0.0;
    sum = warp_sum(sum);
    if (lane == 0) atomicAdd(out, sum);
  }
}

extern "C" __global__ void dot_product(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, int n) {
  __shared__ float cache[128];
  float sum = 0.0f;
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  while (i < n) {
    sum += x[i] * y[i];
    i += blockDim.x * gridDim.x;
  }
  cache[threadIdx.x] = sum;
  __syncthreads();
  int half = blockDim.x / 2;
  while (half != 0) {
    if (threadIdx.x < half) cache[threadIdx.x] += cache[threadIdx.x + half];
    __syncthreads();
    half /= 2;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = cache[0];
}

// place of the least value of each row, a block a row
extern "C" __global__ void argmin_rows(const float* __restrict__ in, int* __restrict__ place, int cols) {
  __shared__ float value[64];
  __shared__ int index[64];
  const float* row = in + (long)blockIdx.x * cols;
  float best = __int_as_float(0x7f800000);
  int where = -1;
  for (int c = threadIdx.x; c < cols; c += blockDim.x)
    if (row[c] < best) {
      best = row[c];
      where = c;
    }
  value[threadIdx.x] = best;
  index[threadIdx.x] = where;
  for (int stride = 32; stride >= 1; stride /= 2) {
    __syncthreads();
    if (threadIdx.x < stride && value[threadIdx.x + stride] < value[threadIdx.x]) {
      value[threadIdx.x] = value[threadIdx.x + stride];
      index[threadIdx.x] = index[threadIdx.x + stride];
    }
  }
  if (threadIdx.x == 0) place[blockIdx.x] = index[0];
}

extern "C" __global__ void scan_hillis_steele(const int* __restrict__ in, int* __restrict__ out, int n) {
  __shared__ int buffer[2][128];
  int t = threadIdx.x, side = 0;
  buffer[0][t] = t < n ? in[t] : 0;
  __syncthreads();
  for (int distance = 1; distance < n; distance *= 2) {
    int value = buffer[side][t];
    if (t >= distance) value += buffer[side][t - distance];
    side = 1 - side;
    buffer[side][t] = value;
    __syncthreads();
  }
  if (t < n) out[t] = buffer[side][t];
}

// exclusive, two elements a thread, padded against bank conflicts
extern "C" __global__ void scan_blelloch(int* data, int* sums) {
  __shared__ int tree[128 + 4];
  int t = threadIdx.x, base = blockIdx.x * 128, stride = 1;
  tree[t + (t >> 5)] = data[base + t];
  tree[t + 64 + ((t + 64) >> 5)] = data[base + t + 64];
  for (int d = 64; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) {
      int a = stride * (2 * t + 1) - 1, b = stride * (2 * t + 2) - 1;
      tree[b + (b >> 5)] += tree[a + (a >> 5)];
    }
    stride *= 2;
  }
  if (t == 0) {
    sums[blockIdx.x] = tree[127 + 3];
    tree[127 + 3] = 0;
  }
  for (int d = 1; d < 128; d *= 2) {
    stride >>= 1;
    __syncthreads();
    if (t < d) {
      int a = stride * (2 * t + 1) - 1, b = stride * (2 * t + 2) - 1;
      int keep = tree[a + (a >> 5)];
      tree[a + (a >> 5)] = tree[b + (b >> 5)];
      tree[b + (b >> 5)] += keep;
    }
  }
  __syncthreads();
  data[base + t] = tree[t + (t >> 5)];
  data[base + t + 64] = tree[t + 64 + ((t + 64) >> 5)];
}

// sums of segments that are marked by head flags, in one warp by shuffles
extern "C" __global__ void segmented_scan(const int* __restrict__ in, const int* __restrict__ head, int* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  int value = i < n ? in[i] : 0, flag = i < n ? head[i] : 1;
  for (int d = 1; d < 32; d <<= 1) {
    int other = __shfl_up_sync(0xffffffffu, value, d), barrier = __shfl_up_sync(0xffffffffu, flag, d);
    if (lane >= d) {
      if (!flag) value += other;
      flag |= barrier;
    }
  }
  if (i < n) out[i] = value;
}

// a histogram a block in shared memory, added to the global one at the end
extern "C" __global__ void histogram_private(const unsigned char* __restrict__ bytes, int n, unsigned* histogram, int bins) {
  extern __shared__ unsigned own[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) own[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[bytes[i] % bins], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x)
    if (own[b] > 0) atomicAdd(&histogram[b], own[b]);
}

// saturating bins by compare and swap in global memory
extern "C" __global__ void histogram_saturating(const unsigned* __restrict__ data, int n, unsigned* histogram, unsigned most) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned* bin = &histogram[data[i] & 63u];
  unsigned seen = *bin;
  while (seen < most) {
    unsigned before = atomicCAS(bin, seen, seen + 1);
    if (before == seen) break;
    seen = before;
  }
}
