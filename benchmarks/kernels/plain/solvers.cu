// Iterations that converge, tables of constants, and waiting.

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

struct Layer {
  int inputs, outputs;
  int weights;
  int activation;
};

__constant__ Layer layers[8];
__constant__ int layer_count;
__constant__ int radius_of_level[4];
__constant__ float taps[64];

// A small network, whose layers stand in constant memory.
extern "C" __global__ void small_network(const float* weights, const float* in, float* out,
                                         int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float a[32], b[32] = {};
  for (int i = 0; i < layers[0].inputs && i < 32; ++i) a[i] = in[row * 32 + i];
  for (int l = 0; l < layer_count; ++l) {
    for (int o = 0; o < layers[l].outputs; ++o) {
      float sum = 0.0f;
      for (int i = 0; i < layers[l].inputs; ++i)
        sum += weights[layers[l].weights + o * layers[l].inputs + i] * a[i & 31];
      b[o & 31] = layers[l].activation == 1 ? fmaxf(sum, 0.0f) : tanhf(sum);
    }
    for (int o = 0; o < 32; ++o) a[o] = b[o];
  }
  out[row] = a[0];
}

// A blur whose radius depends on the level, by a table in constant memory.
extern "C" __global__ void level_blur(const float* in, float* out, int width, int level) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= width) return;
  int r = radius_of_level[level];
  float sum = 0.0f;
  for (int k = -r; k <= r; ++k) sum += in[min(max(x + k, 0), width - 1)] * taps[k + r];
  out[x] = sum;
}

// Roots by Newton's method, until the step is small.
extern "C" __global__ void newton_roots(const float* in, float* out, int n, float small) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = in[i], x = a > 1.0f ? a : 1.0f, step;
  do {
    step = (x * x * x - a) / (3.0f * x * x);
    x -= step;
  } while (fabsf(step) > small * fabsf(x));
  out[i] = x;
}

// Roots between two bounds that are halved.
extern "C" __global__ void halved_roots(const float* in, float* out, int n, float small) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float low = 0.0f, high = in[i];
  while (high - low > small) {
    float middle = (low + high) * 0.5f;
    if (middle * middle * middle + middle < in[i])
      low = middle;
    else
      high = middle;
  }
  out[i] = low;
}

// Conjugate gradients in a block, while the rest is large and rounds are left.
extern "C" __global__ void gradients(const float* a, const float* b, float* x, int n, int rounds,
                                     float small) {
  __shared__ float p[128], sums[128];
  int t = threadIdx.x;
  float r = t < n ? b[t] : 0.0f, mine = 0.0f;
  p[t] = r;
  sums[t] = r * r;
  __syncthreads();
  for (int d = 64; d > 0; d >>= 1) {
    if (t < d) sums[t] += sums[t + d];
    __syncthreads();
  }
  float rest = sums[0];
  __syncthreads();
  int k = 0;
  while (rest > small && k < rounds) {
    float q = 0.0f;
    if (t < n)
      for (int j = 0; j < n; ++j) q += a[t * n + j] * p[j];
    sums[t] = p[t] * q;
    __syncthreads();
    for (int d = 64; d > 0; d >>= 1) {
      if (t < d) sums[t] += sums[t + d];
      __syncthreads();
    }
    float alpha = rest / sums[0];
    __syncthreads();
    mine += alpha * p[t];
    r -= alpha * q;
    sums[t] = r * r;
    __syncthreads();
    for (int d = 64; d > 0; d >>= 1) {
      if (t < d) sums[t] += sums[t + d];
      __syncthreads();
    }
    float next = sums[0];
    p[t] = r + next / rest * p[t];
    rest = next;
    ++k;
    __syncthreads();
  }
  if (t < n) x[t] = mine;
}

// Sweeps over a plate until no block has moved by much; all blocks wait for each other.
extern "C" __global__ void settle_plate(float* from, float* to, int width, int height,
                                        float small, float* moved) {
  cg::grid_group grid = cg::this_grid();
  float most;
  do {
    if (grid.thread_rank() == 0) *moved = 0.0f;
    grid.sync();
    for (int i = grid.thread_rank(); i < width * height; i += grid.size()) {
      int x = i % width, y = i / width;
      if (x == 0 || y == 0 || x == width - 1 || y == height - 1) continue;
      float next = 0.25f * (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]);
      atomicMax((int*)moved, __float_as_int(fabsf(next - from[i])));
      to[i] = next;
    }
    grid.sync();
    float* kept = from;
    from = to;
    to = kept;
    most = *(volatile float*)moved;
    grid.sync();
  } while (most > small);
}

// Two phases of a launch with a barrier of one's own between them.
extern "C" __global__ void own_barrier(const float* in, float* middle, float* out, int n,
                                       unsigned* arrived) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    middle[i] = in[i] * in[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*(volatile unsigned*)arrived < gridDim.x) {
    }
    __threadfence();
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = middle[n - 1 - i];
}

// A lock with tickets.
extern "C" __global__ void ticket_lock(unsigned* next, volatile unsigned* serving, float* sum,
                                       const float* in) {
  if (threadIdx.x == 0) {
    unsigned mine = atomicAdd(next, 1u);
    while (*serving != mine) {
    }
    *sum += in[blockIdx.x];
    __threadfence();
    *serving = mine + 1;
  }
}

// Waits for a number of cycles, as tests of schedulers do.
extern "C" __global__ void wait_cycles(long long cycles, int* out) {
  long long start = clock64();
  while (clock64() - start < cycles) {
  }
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

// Least distances, of floats that atomics do not know.
extern "C" __global__ void least_floats(const float* in, const int* bins, float* least, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int* at = (int*)&least[bins[i]];
  int old = *at, expected;
  do {
    expected = old;
    if (__int_as_float(expected) <= in[i]) break;
    old = atomicCAS(at, expected, __float_as_int(in[i]));
  } while (old != expected);
}

// Products, by compare and swap.
extern "C" __global__ void multiply_into(double* product, const double* in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned long long* at = (unsigned long long*)product;
    unsigned long long old = *at, expected;
    do {
      expected = old;
      double next = __longlong_as_double(expected) * in[i];
      old = atomicCAS(at, expected, (unsigned long long)__double_as_longlong(next));
    } while (old != expected);
  }
}

// Sums of all blocks before, of which each has either its own sum or that of all up to it.
extern "C" __global__ void look_back(const int* in, int* out, volatile int2* states, int n) {
  __shared__ int sums[128];
  __shared__ int before;
  int i = blockIdx.x * 128 + threadIdx.x, mine = i < n ? in[i] : 0;
  sums[threadIdx.x] = mine;
  __syncthreads();
  for (int d = 1; d < 128; d <<= 1) {
    int add = threadIdx.x >= d ? sums[threadIdx.x - d] : 0;
    __syncthreads();
    sums[threadIdx.x] += add;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    int total = sums[127], sum = 0;
    states[blockIdx.x].y = total;
    __threadfence();
    states[blockIdx.x].x = blockIdx.x == 0 ? 2 : 1;
    for (int b = (int)blockIdx.x - 1; b >= 0; --b) {
      int kind;
      do kind = states[b].x;
      while (kind == 0);
      sum += states[b].y;
      if (kind == 2) break;
    }
    states[blockIdx.x].y = sum + total;
    __threadfence();
    states[blockIdx.x].x = 2;
    before = sum;
  }
  __syncthreads();
  if (i < n) out[i] = before + sums[threadIdx.x];
}

// Rows of different work, which blocks take from a queue.
extern "C" __global__ void work_queue(const float* rows, const int* starts, int count, int* next,
                                      float* out) {
  __shared__ int row;
  while (true) {
    if (threadIdx.x == 0) row = atomicAdd(next, 1);
    __syncthreads();
    if (row >= count) break;
    float sum = 0.0f;
    for (int k = starts[row] + (int)threadIdx.x; k < starts[row + 1]; k += blockDim.x)
      sum += rows[k];
    atomicAdd(&out[row], sum);
    __syncthreads();
  }
}

// The k-th smallest of a few numbers that a thread owns, by partitions.
extern "C" __global__ void quick_select(float* numbers, int n, int k, int sets, float* out) {
  int set = blockIdx.x * blockDim.x + threadIdx.x;
  if (set >= sets) return;
  float* a = numbers + set * n;
  int low = 0, high = n - 1;
  while (low < high) {
    float pivot = a[(low + high) / 2];
    int i = low, j = high;
    while (i <= j) {
      while (a[i] < pivot) ++i;
      while (a[j] > pivot) --j;
      if (i <= j) {
        float kept = a[i];
        a[i++] = a[j];
        a[j--] = kept;
      }
    }
    if (k <= j)
      high = j;
    else if (k >= i)
      low = i;
    else
      break;
  }
  out[set] = a[k];
}

// A pass of a sort: digits counted, summed and scattered by one block.
extern "C" __global__ void __launch_bounds__(256)
    sort_pass(const unsigned* in, unsigned* out, int n, int shift) {
  __shared__ int counts[16][256];
  for (int d = 0; d < 16; ++d) counts[d][threadIdx.x] = 0;
  int each = (n + 255) / 256, from = threadIdx.x * each, to = min(from + each, n);
  for (int i = from; i < to; ++i) ++counts[in[i] >> shift & 15][threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int d = 0; d < 16; ++d)
      for (int t = 0; t < 256; ++t) {
        int c = counts[d][t];
        counts[d][t] = sum;
        sum += c;
      }
  }
  __syncthreads();
  for (int i = from; i < to; ++i) out[counts[in[i] >> shift & 15][threadIdx.x]++] = in[i];
}

// Means of clusters: the nearest centre of each point, then sums.
extern "C" __global__ void nearest_centres(const float* points, const float* centres, int n,
                                           int k, int dimensions, int* owner, float* sums,
                                           int* counts) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float best = 1e30f;
  int mine = 0;
  for (int c = 0; c < k; ++c) {
    float d = 0.0f;
    for (int j = 0; j < dimensions; ++j) {
      float x = points[i * dimensions + j] - centres[c * dimensions + j];
      d += x * x;
      if (d > best) break;
    }
    if (d < best) best = d, mine = c;
  }
  owner[i] = mine;
  atomicAdd(&counts[mine], 1);
  for (int j = 0; j < dimensions; ++j)
    atomicAdd(&sums[mine * dimensions + j], points[i * dimensions + j]);
}
