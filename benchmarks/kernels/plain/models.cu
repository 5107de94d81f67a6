// Weights in few bits, attention over ragged lengths, choices among tokens.

#include <cuda_fp16.h>

struct Q6 {
  unsigned char low[128];
  unsigned char high[64];
  signed char scales[16];
  half d;
};

struct Q8 {
  half d;
  signed char bits[32];
};

// Super-blocks of 256 numbers in 6 bits each.
extern "C" __global__ void unpack_q6(const Q6* in, float* out, int blocks) {
  int b = blockIdx.x;
  if (b >= blocks) return;
  int t = threadIdx.x, ip = t / 32, il = t % 32, is = 8 * ip + il / 16;
  float* y = out + b * 256 + 128 * ip + il;
  float d = __half2float(in[b].d);
  const unsigned char* ql = in[b].low + 64 * ip + il;
  unsigned char qh = in[b].high[32 * ip + il];
  const signed char* sc = in[b].scales + is;
  y[0] = d * sc[0] * ((int)((ql[0] & 15) | ((qh & 3) << 4)) - 32);
  y[32] = d * sc[2] * ((int)((ql[32] & 15) | (((qh >> 2) & 3) << 4)) - 32);
  y[64] = d * sc[4] * ((int)((ql[0] >> 4) | (((qh >> 4) & 3) << 4)) - 32);
  y[96] = d * sc[6] * ((int)((ql[32] >> 4) | ((qh >> 6) << 4)) - 32);
}

// Rows of 8-bit blocks times a vector of such blocks, as integers.
extern "C" __global__ void dot_q8(const Q8* matrix, const Q8* vector, float* out, int columns,
                                  int rows) {
  const int blocks = columns / 32;
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int b = threadIdx.x / 8; b < blocks; b += 4) {
    const Q8 *x = matrix + row * blocks + b, *y = vector + b;
    int part = 0;
    for (int k = 0; k < 4; ++k)
      part += x->bits[(threadIdx.x % 8) * 4 + k] * y->bits[(threadIdx.x % 8) * 4 + k];
    sum += part * __half2float(x->d) * __half2float(y->d);
  }
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x == 0) out[row] = sum;
}

// Attention over keys in pages; how long each sequence is stands in memory.
extern "C" __global__ void __launch_bounds__(128)
    paged_attention(float* out, const float* q, const float* keys, const float* values,
                    const int* tables, const int* lengths, int most_pages, float scale) {
  extern __shared__ float scores[];
  __shared__ float reduced[8];
  const int page = 16, width = 64;
  int sequence = blockIdx.y, head = blockIdx.x, heads = gridDim.x;
  int length = lengths[sequence], pages = (length + page - 1) / page;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float most = -1e30f;
  for (int p = warp; p < pages; p += 4) {
    int physical = tables[sequence * most_pages + p];
    for (int t = lane / 2; t < page; t += 16) {
      const float* k = keys + ((physical * heads + head) * page + t) * width;
      float dot = 0.0f;
      for (int i = lane % 2; i < width; i += 2)
        dot += k[i] * q[(sequence * heads + head) * width + i];
      dot = (dot + __shfl_xor_sync(0xffffffffu, dot, 1)) * scale;
      int at = p * page + t;
      if (lane % 2 == 0) scores[at] = at < length ? dot : 0.0f;
      if (at < length) most = fmaxf(most, dot);
    }
  }
  for (int d = 16; d > 0; d >>= 1) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, d));
  if (lane == 0) reduced[warp] = most;
  __syncthreads();
  most = fmaxf(fmaxf(reduced[0], reduced[1]), fmaxf(reduced[2], reduced[3]));
  float sum = 0.0f;
  for (int i = threadIdx.x; i < length; i += 128) {
    float e = __expf(scores[i] - most);
    scores[i] = e;
    sum += e;
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane == 0) reduced[4 + warp] = sum;
  __syncthreads();
  sum = reduced[4] + reduced[5] + reduced[6] + reduced[7];
  if (threadIdx.x < width) {
    float acc = 0.0f;
    for (int p = 0; p < pages; ++p) {
      int physical = tables[sequence * most_pages + p];
      int n = min(page, length - p * page);
      for (int t = 0; t < n; ++t)
        acc += scores[p * page + t] *
               values[((physical * heads + head) * page + t) * width + threadIdx.x];
    }
    out[(sequence * heads + head) * width + threadIdx.x] = acc / (sum + 1e-6f);
  }
}

// Attention in tiles, of sequences one after another between sums of their lengths.
extern "C" __global__ void ragged_attention(const float* q, const float* k, const float* v,
                                            const int* sums, float* out, int causal) {
  __shared__ float tile_k[32][33], tile_v[32][33];
  int start = sums[blockIdx.y], end = sums[blockIdx.y + 1], length = end - start;
  int row = blockIdx.x * 32 + threadIdx.y, lane = threadIdx.x;
  if (blockIdx.x * 32 >= length) return;
  float query = row < length ? q[(start + row) * 32 + lane] : 0.0f;
  float most = -1e30f, sum = 0.0f, acc = 0.0f;
  int last = causal ? min(length, (int)(blockIdx.x + 1) * 32) : length;
  for (int t = 0; t < last; t += 32) {
    int at = t + threadIdx.y;
    tile_k[threadIdx.y][lane] = at < length ? k[(start + at) * 32 + lane] : 0.0f;
    tile_v[threadIdx.y][lane] = at < length ? v[(start + at) * 32 + lane] : 0.0f;
    __syncthreads();
    int n = min(32, last - t);
    for (int j = 0; j < n; ++j) {
      if (causal && t + j > row) break;
      float dot = query * tile_k[j][lane];
      for (int d = 16; d > 0; d >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, d);
      float top = fmaxf(most, dot), e = __expf(dot - top), keep = __expf(most - top);
      sum = sum * keep + e;
      acc = acc * keep + e * tile_v[j][lane];
      most = top;
    }
    __syncthreads();
  }
  if (row < length) out[(start + row) * 32 + lane] = acc / sum;
}

struct Strides {
  int rank;
  int extent[5];
  int from[5];
  int to[5];
};

// A tensor in another order of its axes, which a struct describes.
extern "C" __global__ void permute(const float* in, float* out, Strides s, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    int rest = i, from = 0, to = 0;
    for (int k = s.rank - 1; k >= 0; --k) {
      int at = rest % s.extent[k];
      rest /= s.extent[k];
      from += at * s.from[k];
      to += at * s.to[k];
    }
    out[to] = in[from];
  }
}

struct Convolution {
  int channels, height, width;
  int kernel_h, kernel_w;
  int stride, padding, dilation;
  int out_h, out_w;
};

// Patches of an image as columns; all sizes in one struct.
extern "C" __global__ void patches(const float* in, float* columns, Convolution c) {
  int total = c.channels * c.out_h * c.out_w;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += blockDim.x * gridDim.x) {
    int x = i % c.out_w, y = i / c.out_w % c.out_h, channel = i / (c.out_w * c.out_h);
    float* out = columns + ((size_t)channel * c.kernel_h * c.kernel_w * c.out_h + y) * c.out_w + x;
    for (int ky = 0; ky < c.kernel_h; ++ky)
      for (int kx = 0; kx < c.kernel_w; ++kx) {
        int iy = y * c.stride - c.padding + ky * c.dilation;
        int ix = x * c.stride - c.padding + kx * c.dilation;
        *out = iy >= 0 && ix >= 0 && iy < c.height && ix < c.width
                   ? in[(channel * c.height + iy) * c.width + ix]
                   : 0.0f;
        out += c.out_h * c.out_w;
      }
  }
}

// Tokens of each expert, in blocks that are filled up.
extern "C" __global__ void align_experts(const int* experts, int tokens, int count, int size,
                                         int* order, int* owners, int* total) {
  __shared__ int counts[65];
  __shared__ int sums[65];
  if (threadIdx.x <= count && threadIdx.x < 65) counts[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < tokens; i += blockDim.x) atomicAdd(&counts[experts[i] + 1], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    sums[0] = 0;
    for (int e = 1; e <= count; ++e)
      sums[e] = sums[e - 1] + (counts[e] + size - 1) / size * size;
    *total = sums[count];
  }
  __syncthreads();
  if (threadIdx.x < count)
    for (int i = sums[threadIdx.x]; i < sums[threadIdx.x + 1]; i += size)
      owners[i / size] = threadIdx.x;
  __syncthreads();
  for (int i = threadIdx.x; i < tokens; i += blockDim.x)
    order[atomicAdd(&sums[experts[i]], 1)] = i;
}

// The k-th largest of a row, a digit of 8 bits at a time.
extern "C" __global__ void __launch_bounds__(256)
    radix_select(const unsigned* rows, int width, int k, unsigned* found) {
  __shared__ int counts[256];
  __shared__ unsigned prefix;
  __shared__ int left;
  const unsigned* row = rows + (size_t)blockIdx.x * width;
  if (threadIdx.x == 0) prefix = 0, left = k;
  unsigned mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += 256)
      if ((row[i] & mask) == prefix) atomicAdd(&counts[row[i] >> shift & 255], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      while (digit > 0 && left > counts[digit]) left -= counts[digit--];
      prefix |= (unsigned)digit << shift;
    }
    mask |= 255u << shift;
    __syncthreads();
  }
  if (threadIdx.x == 0) found[blockIdx.x] = prefix;
}

// The least probability of which those above sum up to p, between two bounds that come closer.
extern "C" __global__ void __launch_bounds__(128)
    nucleus_limit(const float* probabilities, int vocabulary, float p, float* limit) {
  __shared__ float parts[4];
  const float* row = probabilities + (size_t)blockIdx.x * vocabulary;
  float low = 0.0f, high = 1.0f;
  while (high - low > 1e-6f) {
    float middle = 0.5f * (low + high), sum = 0.0f;
    for (int i = threadIdx.x; i < vocabulary; i += 128)
      if (row[i] > middle) sum += row[i];
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = parts[0] + parts[1] + parts[2] + parts[3];
    if (sum < p)
      high = middle;
    else
      low = middle;
    __syncthreads();
  }
  if (threadIdx.x == 0) limit[blockIdx.x] = low;
}

// Draws a token, and again among the likelier ones until it is one of the k first.
extern "C" __global__ void __launch_bounds__(128)
    draw_top_k(const float* probabilities, const float* uniform, int vocabulary, int k, int rounds,
               int* tokens) {
  __shared__ int chosen, above;
  __shared__ float mass;
  const float* row = probabilities + (size_t)blockIdx.x * vocabulary;
  float pivot = 0.0f;
  int round = 0, left;
  if (threadIdx.x == 0) mass = 1.0f;
  do {
    if (threadIdx.x == 0) {
      float sum = 0.0f, u = uniform[blockIdx.x * rounds + round] * mass;
      chosen = vocabulary - 1;
      for (int i = 0; i < vocabulary; ++i) {
        if (row[i] > pivot) sum += row[i];
        if (sum > u) {
          chosen = i;
          break;
        }
      }
      above = 0;
      mass = 0.0f;
    }
    __syncthreads();
    pivot = row[chosen];
    for (int i = threadIdx.x; i < vocabulary; i += 128)
      if (row[i] > pivot) atomicAdd(&above, 1), atomicAdd(&mass, row[i]);
    __syncthreads();
    left = above;
    __syncthreads();
  } while (left >= k && ++round < rounds);
  if (threadIdx.x == 0) tokens[blockIdx.x] = chosen;
}

// Sums of embeddings between offsets, the last up to the end.
extern "C" __global__ void embedding_bags(const float* table, const int* indices,
                                          const int* offsets, int bags, int count, int width,
                                          float* out) {
  int bag = blockIdx.x * blockDim.y + threadIdx.y;
  if (bag >= bags) return;
  int from = offsets[bag], to = bag + 1 < bags ? offsets[bag + 1] : count;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = 0.0f;
    for (int k = from; k < to; ++k) sum += table[(size_t)indices[k] * width + i];
    out[bag * width + i] = to > from ? sum / (to - from) : 0.0f;
  }
}

// Follows a tree of drafts as far as the model agrees.
extern "C" __global__ void verify_drafts(const int* drafts, const int* targets,
                                         const int* first_child, const int* next_sibling,
                                         int nodes, int* accepted, int* length) {
  if (threadIdx.x != 0) return;
  int base = blockIdx.x * nodes, node = 0, n = 0;
  for (int step = 1; step < nodes; ++step) {
    int child = first_child[base + node];
    while (child != -1 && drafts[base + child] != targets[base + node])
      child = next_sibling[base + child];
    if (child == -1) break;
    node = child;
    accepted[base + n++] = child;
  }
  length[blockIdx.x] = n;
}

// Rows sorted by their keys, padded to a power of two.
extern "C" __global__ void sort_rows(const float* rows, int* order, int columns, int padded) {
  extern __shared__ int indices[];
  const float* row = rows + (size_t)blockIdx.x * columns;
  int c = threadIdx.x;
  if (c >= padded) return;
  indices[c] = c;
  __syncthreads();
  for (int k = 2; k <= padded; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      int other = c ^ j;
      if (other > c) {
        bool up = (c & k) == 0;
        int a = indices[c], b = indices[other];
        if (b >= columns ? false : a >= columns ? up : up ? row[a] > row[b] : row[a] < row[b]) {
          indices[c] = b;
          indices[other] = a;
        }
      }
      __syncthreads();
    }
  if (c < columns) order[blockIdx.x * columns + c] = indices[c];
}

struct Signals {
  volatile int* flags[8];
};

// Sums of the buffers of all devices, once each has said that it is there.
extern "C" __global__ void all_reduce(Signals signals, const float* const* buffers, float* out,
                                      int ranks, int rank, int round, int count) {
  if (threadIdx.x < ranks) {
    signals.flags[threadIdx.x][blockIdx.x * 8 + rank] = round;
    while (signals.flags[rank][blockIdx.x * 8 + threadIdx.x] != round) {
    }
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float sum = 0.0f;
    for (int r = 0; r < ranks; ++r) sum += buffers[r][i];
    out[i] = sum;
  }
}
