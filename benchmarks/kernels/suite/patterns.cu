// Ways to share work that many programs use: queues, compaction, last block, votes, groups.
#include <cooperative_groups.h>
#include <mma.h>

namespace cg = cooperative_groups;

// the last block to finish adds what all have written
__device__ unsigned finished_blocks;
extern "C" __global__ void reduce_last_block(const float* __restrict__ in, volatile float* partial, float* out, int n) {
  __shared__ float sums[64];
  __shared__ bool last;
  int t = threadIdx.x;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  sums[t] = sum;
  __syncthreads();
  for (int half = 32; half > 0; half >>= 1) {
    if (t < half) sums[t] += sums[t + half];
    __syncthreads();
  }
  if (t == 0) {
    partial[blockIdx.x] = sums[0];
    __threadfence();
    unsigned ticket = atomicInc(&finished_blocks, gridDim.x);
    last = ticket == gridDim.x - 1;
  }
  __syncthreads();
  if (last) {
    sum = 0.0f;
    for (int i = t; i < gridDim.x; i += blockDim.x) sum += partial[i];
    sums[t] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half >>= 1) {
      if (t < half) sums[t] += sums[t + half];
      __syncthreads();
    }
    if (t == 0) {
      *out = sums[0];
      finished_blocks = 0;
    }
  }
}

// blocks take rows from a queue until it is empty
extern "C" __global__ void persistent_rows(const float* __restrict__ in, float* __restrict__ out, int* next_row, int rows, int cols) {
  __shared__ int row;
  __shared__ float sums[64];
  while (true) {
    if (threadIdx.x == 0) row = atomicAdd(next_row, 1);
    __syncthreads();
    if (row >= rows) break;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += in[row * cols + c];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
      sum = sums[threadIdx.x] + sums[threadIdx.x + 32];
      for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
      if (threadIdx.x == 0) out[row] = sum;
    }
    __syncthreads();
  }
}

// keeps what is positive; a warp asks for room once
extern "C" __global__ void compact_positive(const int* __restrict__ in, int* __restrict__ out, int* size, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  bool keep = i < n && in[i] > 0;
  unsigned mask = __ballot_sync(0xffffffffu, keep);
  int base = 0;
  if (lane == 0 && mask) base = atomicAdd(size, __popc(mask));
  base = __shfl_sync(0xffffffffu, base, 0);
  if (keep) out[base + __popc(mask & ((1u << lane) - 1))] = in[i];
}

// walks on until no thread of the warp wants to
extern "C" __global__ void warp_votes(const int* __restrict__ next, int* __restrict__ end, int n, int most) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int at = i < n ? i : 0;
  for (int step = 0; step < most; ++step) {
    int to = next[at];
    if (!__any_sync(0xffffffffu, to != at)) break;
    at = to;
  }
  if (i < n) end[i] = at;
}

// set bits of a mask, one after the other
extern "C" __global__ void bit_lists(const unsigned* __restrict__ masks, unsigned char* __restrict__ lists, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned mask = masks[i];
  int k = 0;
  while (mask) {
    lists[i * 32 + k++] = __ffs(mask) - 1;
    mask &= mask - 1;
  }
}

extern "C" __global__ void list_lengths(const int* __restrict__ head, const int* __restrict__ next, int* __restrict__ length, int lists) {
  int l = blockIdx.x * blockDim.x + threadIdx.x;
  if (l >= lists) return;
  int count = 0;
  for (int node = head[l]; node != -1; node = next[node]) ++count;
  length[l] = count;
}

// sets joined with path halving
__device__ int find_root(int* parent, int x) {
  while (parent[x] != x) {
    int up = parent[parent[x]];
    parent[x] = up;
    x = up;
  }
  return x;
}

extern "C" __global__ void union_edges(int* parent, const int2* __restrict__ edges, int count) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= count) return;
  int a = find_root(parent, edges[e].x), b = find_root(parent, edges[e].y);
  while (a != b) {
    if (a < b) {
      int keep = a;
      a = b;
      b = keep;
    }
    int seen = atomicCAS(&parent[a], a, b);
    if (seen == a) break;
    a = find_root(parent, seen);
    b = find_root(parent, b);
  }
}

// keys put into a table of open addressing
extern "C" __global__ void hash_insert(const int* __restrict__ keys, int* table, unsigned capacity, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned slot = (unsigned)keys[i] * 2654435761u % capacity;
  for (unsigned probe = 0; probe < capacity; ++probe) {
    int seen = atomicCAS(&table[slot], -1, keys[i]);
    if (seen == -1 || seen == keys[i]) return;
    slot = slot + 1 == capacity ? 0 : slot + 1;
  }
}

// a template instance a size; groups of eight lanes
template <unsigned SIZE>
__device__ float group_sum(cg::thread_block_tile<SIZE> group, float value) {
  for (int offset = group.size() / 2; offset > 0; offset /= 2) value += group.shfl_down(value, offset);
  return value;
}

extern "C" __global__ void __launch_bounds__(128) group_rows(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<8> group = cg::tiled_partition<8>(block);
  for (int row = blockIdx.x * (blockDim.x / 8) + group.meta_group_rank(); row < rows; row += gridDim.x * (blockDim.x / 8)) {
    float sum = 0.0f;
    for (int c = group.thread_rank(); c < cols; c += group.size()) sum += in[row * cols + c];
    sum = group_sum(group, sum);
    if (group.thread_rank() == 0) out[row] = sum;
  }
}

// tensor cores, a warp a tile
extern "C" __global__ void gemm_wmma(const half* __restrict__ a, const half* __restrict__ b, float* __restrict__ c, int n, int k) {
  using namespace nvcuda;
  int tile = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, tiles = n / 16;
  if (tile >= tiles * tiles) return;
  int row = tile / tiles * 16, col = tile % tiles * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int p = 0; p < k; p += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::load_matrix_sync(left, a + row * k + p, k);
    wmma::load_matrix_sync(right, b + p * n + col, n);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}

// four at a time as a vector, the rest one by one
extern "C" __global__ void scale_vectors(float* data, int n, float factor) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  float4* quads = reinterpret_cast<float4*>(data);
  for (int i = t; i < n / 4; i += all) {
    float4 q = quads[i];
    q.x *= factor, q.y *= factor, q.z *= factor, q.w *= factor;
    quads[i] = q;
  }
  for (int i = n / 4 * 4 + t; i < n; i += all) data[i] *= factor;
}

__constant__ int window_radius;

// the radius is a constant that the host sets
extern "C" __global__ void moving_average(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int d = -window_radius; d <= window_radius; ++d) sum += in[min(max(i + d, 0), n - 1)];
  out[i] = sum / (2 * window_radius + 1);
}

// tiles whose last one is shorter
extern "C" __global__ void pair_counts(const float* __restrict__ x, int* __restrict__ close, int n, float limit) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x, count = 0;
  float mine = i < n ? x[i] : 0.0f;
  for (int t = 0; t < (n + 63) / 64; ++t) {
    int j = t * 64 + threadIdx.x;
    if (j < n) tile[threadIdx.x] = x[j];
    __syncthreads();
    int size = min(64, n - t * 64);
    for (int k = 0; k < size; ++k) count += fabsf(tile[k] - mine) < limit;
    __syncthreads();
  }
  if (i < n) close[i] = count;
}

// two ends meet
extern "C" __global__ void reverse_rows(int* data, int rows, int cols) {
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    int* row = data + r * cols;
    for (int i = threadIdx.x, j = cols - 1 - threadIdx.x; i < j; i += blockDim.x, j -= blockDim.x) {
      int keep = row[i];
      row[i] = row[j];
      row[j] = keep;
    }
  }
}

// solutions of n queens below a first row that the thread is given, by a stack of bit masks
extern "C" __global__ void queens(int n, int* __restrict__ solutions) {
  int first = blockIdx.x * blockDim.x + threadIdx.x;
  if (first >= n) return;
  unsigned full = (1u << n) - 1, column[12], left[12], right[12], open[12];
  int row = 1, found = 0;
  column[1] = 1u << first;
  left[1] = (1u << first) << 1;
  right[1] = (1u << first) >> 1;
  open[1] = full & ~(column[1] | left[1] | right[1]);
  while (row > 0) {
    if (open[row] == 0) {
      --row;
      continue;
    }
    unsigned bit = open[row] & -open[row];
    open[row] ^= bit;
    if (row == n - 1) {
      ++found;
      continue;
    }
    column[row + 1] = column[row] | bit;
    left[row + 1] = (left[row] | bit) << 1;
    right[row + 1] = (right[row] | bit) >> 1;
    ++row;
    open[row] = full & ~(column[row] | left[row] | right[row]);
  }
  solutions[first] = found;
}

// game of life on a torus, several generations in one block
extern "C" __global__ void life(unsigned char* cells, int width, int height, int generations) {
  extern __shared__ unsigned char board[];
  unsigned char *now = board, *then = board + width * height;
  for (int i = threadIdx.x; i < width * height; i += blockDim.x) now[i] = cells[i];
  __syncthreads();
  for (int g = 0; g < generations; ++g) {
    for (int i = threadIdx.x; i < width * height; i += blockDim.x) {
      int x = i % width, y = i / width, count = 0;
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
          if (dx || dy) count += now[(y + dy + height) % height * width + (x + dx + width) % width];
      then[i] = count == 3 || (count == 2 && now[i]);
    }
    __syncthreads();
    unsigned char* swap = now;
    now = then;
    then = swap;
  }
  for (int i = threadIdx.x; i < width * height; i += blockDim.x) cells[i] = now[i];
}

// a search tree of several keys a node: a block a query, threads compare keys
extern "C" __global__ void tree_search(const int* __restrict__ keys, const int* __restrict__ children, int height, const int* __restrict__ queries,
                                       int* __restrict__ leaf) {
  __shared__ int node;
  __shared__ int chosen;
  int t = threadIdx.x;
  if (t == 0) node = 0;
  __syncthreads();
  for (int level = 0; level < height; ++level) {
    int low = keys[node * 33 + t], high = keys[node * 33 + t + 1];
    if (low <= queries[blockIdx.x] && queries[blockIdx.x] < high) chosen = children[node * 32 + t];
    __syncthreads();
    if (t == 0) node = chosen;
    __syncthreads();
  }
  if (t == 0) leaf[blockIdx.x] = node;
}

// a cell's outline moves until it settles or the block has tried often enough
extern "C" __global__ void relax_until(float* values, int most, float tolerance) {
  __shared__ float v[66];
  __shared__ int settled;
  int t = threadIdx.x;
  v[t + 1] = values[blockIdx.x * 64 + t];
  if (t == 0) {
    v[0] = v[65] = 0.0f;
    settled = 0;
  }
  __syncthreads();
  int round = 0;
  while (!settled && round < most) {
    float value = 0.5f * v[t + 1] + 0.25f * (v[t] + v[t + 2]);
    int moved = __syncthreads_count(fabsf(value - v[t + 1]) > tolerance);
    v[t + 1] = value;
    if (t == 0 && moved == 0) settled = 1;
    round++;
    __syncthreads();
  }
  values[blockIdx.x * 64 + t] = v[t + 1];
}
