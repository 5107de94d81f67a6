// Flows, molecules, gridding, networks.

__device__ __forceinline__ void flux(float density, float3 momentum, float energy, float3 normal, float factor, float& d, float3& m, float& e) {
  float3 v = make_float3(momentum.x / density, momentum.y / density, momentum.z / density);
  float pressure = 0.4f * (energy - 0.5f * density * (v.x * v.x + v.y * v.y + v.z * v.z));
  float through = v.x * normal.x + v.y * normal.y + v.z * normal.z;
  d += factor * density * through;
  m.x += factor * (momentum.x * through + pressure * normal.x);
  m.y += factor * (momentum.y * through + pressure * normal.y);
  m.z += factor * (momentum.z * through + pressure * normal.z);
  e += factor * (energy + pressure) * through;
}

// an unstructured flow: four neighbours a cell, walls and far field are negative numbers
extern "C" __global__ void cell_fluxes(int cells, const int* __restrict__ neighbour, const float* __restrict__ normals, const float* __restrict__ state,
                                       const float* __restrict__ far_state, float* __restrict__ fluxes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= cells) return;
  float own = state[i], energy = state[i + 4 * cells], d = 0.0f, e = 0.0f;
  float3 own_m = make_float3(state[i + cells], state[i + 2 * cells], state[i + 3 * cells]), m = make_float3(0, 0, 0);
#pragma unroll 1
  for (int j = 0; j < 4; j++) {
    int other = neighbour[i + j * cells];
    float3 normal = make_float3(normals[i + (j * 3) * cells], normals[i + (j * 3 + 1) * cells], normals[i + (j * 3 + 2) * cells]);
    if (other >= 0) {
      float3 om = make_float3(state[other + cells], state[other + 2 * cells], state[other + 3 * cells]);
      flux(own, own_m, energy, normal, 0.5f, d, m, e);
      flux(state[other], om, state[other + 4 * cells], normal, 0.5f, d, m, e);
    } else if (other == -1) {
      m.x += normal.x * energy;
      m.y += normal.y * energy;
      m.z += normal.z * energy;
    } else if (other == -2) {
      flux(far_state[0], make_float3(far_state[1], far_state[2], far_state[3]), far_state[4], normal, 1.0f, d, m, e);
    }
  }
  fluxes[i] = d;
  fluxes[i + cells] = m.x;
  fluxes[i + 2 * cells] = m.y;
  fluxes[i + 3 * cells] = m.z;
  fluxes[i + 4 * cells] = e;
}

// Lennard-Jones forces from a list of neighbours
extern "C" __global__ void lennard_jones(const float4* __restrict__ position, float4* __restrict__ force, const int* __restrict__ neighbours, int per_atom,
                                         int atoms, float cutoff2, float a, float b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= atoms) return;
  float4 me = position[i], sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  int j = 0;
  while (j < per_atom) {
    float4 other = position[neighbours[j * atoms + i]];
    float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z, r2 = dx * dx + dy * dy + dz * dz;
    if (r2 < cutoff2 && r2 > 0.0f) {
      float r2i = 1.0f / r2, r6i = r2i * r2i * r2i, f = r2i * r6i * (a * r6i - b);
      sum.x += dx * f;
      sum.y += dy * f;
      sum.z += dz * f;
    }
    j++;
  }
  force[i] = sum;
}

// samples spread on a grid: each point of a row gathers from sorted bins between two borders
extern "C" __global__ void grid_samples(const float2* __restrict__ samples, const int* __restrict__ bin_end, int bins, float* __restrict__ grid, int points,
                                        int points_per_bin, float width) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= points) return;
  int bin = p / points_per_bin, low = bin > 0 ? bin - 1 : 0, high = bin + 1 < bins ? bin + 1 : bins - 1;
  float at = (p + 0.5f) / points_per_bin, sum = 0.0f;
  int begin = low > 0 ? bin_end[low - 1] : 0;
  for (int s = begin; s < bin_end[high]; ++s) {
    float d = fabsf(samples[s].x - at);
    if (d < width) sum += samples[s].y * (1.0f - d / width);
  }
  grid[p] = sum;
}

// a sum of any number of elements by a block: odd rests are added apart
extern "C" __global__ void reduce_any(const float* __restrict__ in, float* __restrict__ out, int n) {
  __shared__ float partial[64];
  int t = threadIdx.x, id = blockIdx.x * 64 + t;
  int filled = n - (int)blockIdx.x * 64;
  if (filled > 64) filled = 64;
  if (id < n) partial[t] = in[id];
  __syncthreads();
  if (filled == 64) {
    for (int i = 2; i <= 64; i = 2 * i) {
      if ((t + 1) % i == 0) partial[t] += partial[t - i / 2];
      __syncthreads();
    }
    if (t == 63) out[blockIdx.x] = partial[t];
  } else {
    int power = 0;
    for (int i = 2; i <= 64; i = 2 * i)
      if (filled >= i) power = i;
    for (int i = 2; i <= power; i = 2 * i) {
      if ((t + 1) % i == 0 && t < power) partial[t] += partial[t - i / 2];
      __syncthreads();
    }
    if (t == power - 1) {
      float sum = partial[t];
      for (int i = power; i < filled; i++) sum += partial[i];
      out[blockIdx.x] = sum;
    }
  }
}

// batch normalisation of a channel: two passes of sums in the block
extern "C" __global__ void batch_normalise(const float* __restrict__ in, float* __restrict__ out, int batch, int channels, int pixels, float epsilon) {
  __shared__ float sums[32];
  int c = blockIdx.x, t = threadIdx.x;
  float sum = 0.0f, square = 0.0f;
  for (int b = 0; b < batch; ++b)
    for (int p = t; p < pixels; p += blockDim.x) {
      float v = in[(b * channels + c) * pixels + p];
      sum += v;
      square += v * v;
    }
  for (int pass = 0; pass < 2; ++pass) {
    float value = pass == 0 ? sum : square;
    for (int o = 16; o > 0; o >>= 1) value += __shfl_xor_sync(0xffffffffu, value, o);
    if ((t & 31) == 0) sums[t >> 5] = value;
    __syncthreads();
    value = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) value += sums[w];
    if (pass == 0)
      sum = value;
    else
      square = value;
    __syncthreads();
  }
  float n = (float)batch * pixels, mean = sum / n, scale = rsqrtf(square / n - mean * mean + epsilon);
  for (int b = 0; b < batch; ++b)
    for (int p = t; p < pixels; p += blockDim.x) out[(b * channels + c) * pixels + p] = (in[(b * channels + c) * pixels + p] - mean) * scale;
}

// convolution layer with stride and padding, a thread an output
extern "C" __global__ void convolution_layer(const float* __restrict__ in, const float* __restrict__ weights, float* __restrict__ out, int channels, int height,
                                             int width, int filters, int size, int stride, int padding, int out_height, int out_width) {
  int total = filters * out_height * out_width;
  for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < total; index += blockDim.x * gridDim.x) {
    int x = index % out_width, y = index / out_width % out_height, f = index / out_width / out_height;
    int y0 = y * stride - padding, x0 = x * stride - padding;
    int y1 = min(y0 + size, height), x1 = min(x0 + size, width);
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c)
      for (int py = max(y0, 0); py < y1; ++py)
        for (int px = max(x0, 0); px < x1; ++px) sum += in[(c * height + py) * width + px] * weights[((f * channels + c) * size + py - y0) * size + px - x0];
    out[index] = sum;
  }
}

// pooling: the largest of a window and where it is
extern "C" __global__ void max_pool(const float* __restrict__ in, float* __restrict__ out, int* __restrict__ where, int count, int height, int width, int size,
                                    int stride, int pooled_height, int pooled_width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int pw = i % pooled_width, ph = i / pooled_width % pooled_height, n = i / pooled_width / pooled_height;
  int h0 = ph * stride, w0 = pw * stride, h1 = min(h0 + size, height), w1 = min(w0 + size, width);
  float best = -3.4e38f;
  int place = -1;
  const float* slice = in + n * height * width;
  for (int h = h0; h < h1; ++h)
    for (int w = w0; w < w1; ++w)
      if (slice[h * width + w] > best) {
        place = h * width + w;
        best = slice[place];
      }
  out[i] = best;
  where[i] = place;
}

// softmax of rows, a warp a row, in three passes
extern "C" __global__ void softmax_rows(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
  if (row >= rows) return;
  const float* x = in + (size_t)row * cols;
  float best = -1e30f, sum = 0.0f;
  for (int c = lane; c < cols; c += 32) best = fmaxf(best, x[c]);
  for (int m = 16; m >= 1; m >>= 1) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, m));
  for (int c = lane; c < cols; c += 32) sum += expf(x[c] - best);
  for (int m = 16; m >= 1; m >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, m);
  for (int c = lane; c < cols; c += 32) out[(size_t)row * cols + c] = expf(x[c] - best) / sum;
}

// weights of a network change by gradients with momentum
extern "C" __global__ void adjust_weights(const float* __restrict__ delta, const float* __restrict__ layer, float* weights, float* old, int hidden) {
  int tx = threadIdx.x, ty = threadIdx.y, by = blockIdx.y;
  int index = (hidden + 1) * (16 * by + ty + 1) + tx + 1, column = tx + 1, row = 16 * by + ty + 1;
  float change = 0.3f * delta[column] * layer[row] + 0.3f * old[index];
  weights[index] += change;
  old[index] = change;
  __syncthreads();
  if (ty == 0 && by == 0) {
    change = 0.3f * delta[column] + 0.3f * old[column];
    weights[column] += change;
    old[column] = change;
  }
}

// attention of a query to all keys, softmax carried along from tile to tile
extern "C" __global__ void attention_tiles(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ out, int n,
                                           float scale) {
  __shared__ float keys[16][17];
  __shared__ float values[16][17];
  int t = threadIdx.x, row = blockIdx.x * 16 + t;
  float query[16], sum[16], weight = 0.0f, top = -1e30f;
#pragma unroll
  for (int d = 0; d < 16; ++d) {
    query[d] = row < n ? q[row * 16 + d] : 0.0f;
    sum[d] = 0.0f;
  }
  for (int base = 0; base < n; base += 16) {
    for (int d = 0; d < 16; ++d) {
      keys[d][t] = base + d < n ? k[(base + d) * 16 + t] : 0.0f;
      values[d][t] = base + d < n ? v[(base + d) * 16 + t] : 0.0f;
    }
    __syncthreads();
    int limit = min(16, n - base);
    for (int j = 0; j < limit; ++j) {
      float score = 0.0f;
#pragma unroll
      for (int d = 0; d < 16; ++d) score += query[d] * keys[j][d];
      score *= scale;
      float higher = fmaxf(top, score), old = expf(top - higher), now = expf(score - higher);
      weight = weight * old + now;
#pragma unroll
      for (int d = 0; d < 16; ++d) sum[d] = sum[d] * old + now * values[j][d];
      top = higher;
    }
    __syncthreads();
  }
  if (row < n)
    for (int d = 0; d < 16; ++d) out[row * 16 + d] = sum[d] / weight;
}
