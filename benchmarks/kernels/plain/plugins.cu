// Layers as plug-ins of an inference engine: dimensions in structs by value, asserts, printf.

#include <cassert>
#include <cstdio>

struct Shape {
  int batch, channels, height, width;
};

struct Convolution {
  Shape in;
  int filters, kernel[2], stride[2], pad[2];
  float slope;
};

struct Activation {
  int kind;
  float alpha, beta;
  int count;
};

struct Levels {
  int count;
  int2 size[4];
  int start[4];
};

__device__ float block_sum(float x) {
  __shared__ float parts[32];
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0.0f;
  for (int i = 0; i < (blockDim.x + 31) / 32; ++i) x += parts[i];
  __syncthreads();
  return x;
}

// A direct convolution; the sizes stand in a struct.
extern "C" __global__ void convolve(const float* in, const float* weights, float* out,
                                    const __grid_constant__ Convolution c) {
  int wide = (c.in.width + 2 * c.pad[1] - c.kernel[1]) / c.stride[1] + 1;
  int high = (c.in.height + 2 * c.pad[0] - c.kernel[0]) / c.stride[0] + 1;
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, f = blockIdx.z;
  if (x >= wide || y >= high) return;
  float sum = 0.0f;
  for (int k = 0; k < c.in.channels; ++k)
    for (int v = 0; v < c.kernel[0]; ++v)
      for (int u = 0; u < c.kernel[1]; ++u) {
        int py = y * c.stride[0] - c.pad[0] + v, px = x * c.stride[1] - c.pad[1] + u;
        if (py < 0 || px < 0 || py >= c.in.height || px >= c.in.width) continue;
        sum += in[(k * c.in.height + py) * c.in.width + px] *
               weights[((f * c.in.channels + k) * c.kernel[0] + v) * c.kernel[1] + u];
      }
  out[(f * high + y) * wide + x] = sum > 0.0f ? sum : c.slope * sum;
}

// One of several functions, as a field says.
extern "C" __global__ void activate(const float* in, float* out, Activation a) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x) {
    float x = in[i];
    switch (a.kind) {
      case 0: x = fmaxf(x, 0.0f); break;
      case 1: x = 1.0f / (1.0f + __expf(-x)); break;
      case 2: x = tanhf(x); break;
      case 3: x = x > 0.0f ? x : a.alpha * (__expf(x) - 1.0f); break;
      case 4: x = a.alpha * x + a.beta; break;
      case 5: x = x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f; break;
      default: x = fminf(fmaxf(x, a.alpha), a.beta);
    }
    out[i] = x;
  }
}

// Mean and deviation of a channel by a block.
extern "C" __global__ void instance_norm(const float* in, float* out, const float* scale,
                                         const float* bias, Shape s, float epsilon) {
  int plane = s.height * s.width;
  const float* from = in + (size_t)blockIdx.x * plane;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < plane; i += blockDim.x) {
    sum += from[i];
    squares += from[i] * from[i];
  }
  float mean = block_sum(sum) / plane;
  float inverse = rsqrtf(block_sum(squares) / plane - mean * mean + epsilon);
  int c = blockIdx.x % s.channels;
  for (int i = threadIdx.x; i < plane; i += blockDim.x)
    out[(size_t)blockIdx.x * plane + i] = (from[i] - mean) * inverse * scale[c] + bias[c];
}

// Samples of four levels around a place that an offset moves.
extern "C" __global__ void deformable_attention(const float* values, const float2* places,
                                                const float* weights, float* out, int queries,
                                                int channels, Levels levels) {
  int query = blockIdx.x, c = threadIdx.x;
  if (query >= queries || c >= channels) return;
  float sum = 0.0f;
  for (int l = 0; l < levels.count; ++l) {
    int w = levels.size[l].x, h = levels.size[l].y;
    const float* map = values + levels.start[l] * channels;
    for (int k = 0; k < 4; ++k) {
      int at = (query * levels.count + l) * 4 + k;
      float u = places[at].x * w - 0.5f, v = places[at].y * h - 0.5f;
      if (u <= -1 || v <= -1 || u >= w || v >= h) continue;
      int x = floorf(u), y = floorf(v);
      float a = u - x, b = v - y, sample = 0.0f;
      if (x >= 0 && y >= 0) sample += (1 - a) * (1 - b) * map[(y * w + x) * channels + c];
      if (x + 1 < w && y >= 0) sample += a * (1 - b) * map[(y * w + x + 1) * channels + c];
      if (x >= 0 && y + 1 < h) sample += (1 - a) * b * map[((y + 1) * w + x) * channels + c];
      if (x + 1 < w && y + 1 < h) sample += a * b * map[((y + 1) * w + x + 1) * channels + c];
      sum += sample * weights[at];
    }
  }
  out[query * channels + c] = sum;
}

// Averages over bins of regions; the number of samples is rounded up from floats, at most 8.
extern "C" __global__ void region_align(const float* map, const float4* regions, float* out,
                                        int count, int width, int height, int bins, float scale) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count * bins * bins) return;
  float4 r = regions[i / (bins * bins)];
  float bin_w = fmaxf((r.z - r.x) * scale, 1.0f) / bins;
  float bin_h = fmaxf((r.w - r.y) * scale, 1.0f) / bins;
  int nx = min((int)ceilf(bin_w), 8), ny = min((int)ceilf(bin_h), 8);
  float x0 = r.x * scale + i % bins * bin_w, y0 = r.y * scale + i / bins % bins * bin_h;
  float sum = 0.0f;
  for (int v = 0; v < ny; ++v)
    for (int u = 0; u < nx; ++u) {
      int x = min(max((int)(x0 + (u + 0.5f) * bin_w / nx), 0), width - 1);
      int y = min(max((int)(y0 + (v + 0.5f) * bin_h / ny), 0), height - 1);
      sum += map[y * width + x];
    }
  out[i] = sum / max(nx * ny, 1);
}

// Boxes from a head of a detector: the best class, a threshold, a counter with a limit.
extern "C" __global__ void decode_head(const float* head, float4* boxes, int* labels, int* counter,
                                       int cells, int classes, int most, float threshold) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= cells) return;
  const float* cell = head + i * (5 + classes);
  if (cell[4] < threshold) return;
  int best = 0;
  float score = cell[5];
  for (int c = 1; c < classes; ++c)
    if (cell[5 + c] > score) score = cell[5 + c], best = c;
  if (score * cell[4] < threshold) return;
  int place = atomicAdd(counter, 1);
  if (place >= most) return;
  boxes[place] = make_float4(cell[0] - cell[2] / 2, cell[1] - cell[3] / 2, cell[0] + cell[2] / 2,
                             cell[1] + cell[3] / 2);
  labels[place] = best;
}

// Rows of a table; an index outside of it is a failed assertion.
extern "C" __global__ void gather_rows(const float* table, const int* indices, float* out, int rows,
                                       int width, int count) {
  int i = blockIdx.x;
  if (i >= count) return;
  int row = indices[i];
  assert(row >= 0 && row < rows);
  for (int k = threadIdx.x; k < width; k += blockDim.x) out[i * width + k] = table[row * width + k];
}

// Adds to rows, and prints what does not fit if it is asked to.
extern "C" __global__ void scatter_rows(const float* in, const int* indices, float* table, int rows,
                                        int count, int verbose) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int row = indices[i];
  if (row < 0 || row >= rows) {
    if (verbose) printf("index %d of element %d is outside\n", row, i);
    return;
  }
  atomicAdd(table + row, in[i]);
}

// Stops the launch where a tensor is not as it was promised.
extern "C" __global__ void unpack_sizes(const int* sizes, int count, float* out, int most) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int size = sizes[i];
  if (size < 0 || size > most) __trap();
  for (int k = 0; k < size; ++k) out[i * most + k] = k;
}

// A layer norm over rows of 8 columns, in which threads without a row leave before the barrier.
extern "C" __global__ void row_norm(const float* in, float* out, int rows) {
  __shared__ float kept[64];
  int row = threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < 8; ++i) sum += in[row * 8 + i];
  kept[row] = sum / 8;
  __syncthreads();
  float mean = kept[row] - kept[0];
  for (int i = 0; i < 8; ++i) out[row * 8 + i] = in[row * 8 + i] - mean;
}
