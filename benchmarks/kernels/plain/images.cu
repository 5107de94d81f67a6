// Filters with borders, windows, tables of constants, textures and surfaces.

__constant__ float taps[31];
__constant__ unsigned char structuring[49];

__device__ int reflected(int i, int n) {
  if (i < 0) i = -i - 1;
  if (i >= n) i = 2 * n - 1 - i;
  return min(max(i, 0), n - 1);
}

// A row of a separable filter, mirrored at the border.
extern "C" __global__ void blur_rows(const float* in, float* out, int width, int height,
                                     int radius) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  for (int k = -radius; k <= radius; ++k)
    sum += taps[k + radius] * in[y * width + reflected(x + k, width)];
  out[y * width + x] = sum;
}

// A column of it through shared memory, with an apron.
extern "C" __global__ void blur_columns(const float* in, float* out, int width, int height) {
  __shared__ float tile[16 + 2 * 7][17];
  int x = blockIdx.x * 16 + threadIdx.x, y0 = blockIdx.y * 16 - 7;
  for (int row = threadIdx.y; row < 16 + 14; row += 16) {
    int y = min(max(y0 + row, 0), height - 1);
    tile[row][threadIdx.x] = x < width ? in[y * width + x] : 0.0f;
  }
  __syncthreads();
  int y = blockIdx.y * 16 + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
  for (int k = 0; k < 15; ++k) sum += taps[k] * tile[threadIdx.y + k][threadIdx.x];
  out[y * width + x] = sum;
}

// The middle of the values around a pixel, by insertion into a small array.
extern "C" __global__ void median_5(const unsigned char* in, unsigned char* out, int width,
                                    int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  unsigned char sorted[25];
  int n = 0;
  for (int dy = -2; dy <= 2; ++dy)
    for (int dx = -2; dx <= 2; ++dx) {
      int u = min(max(x + dx, 0), width - 1), v = min(max(y + dy, 0), height - 1);
      unsigned char value = in[v * width + u];
      int k = n++;
      while (k > 0 && sorted[k - 1] > value) {
        sorted[k] = sorted[k - 1];
        --k;
      }
      sorted[k] = value;
    }
  out[y * width + x] = sorted[12];
}

// Weights by distance and by difference.
extern "C" __global__ void bilateral(const float* in, float* out, int width, int height, int radius,
                                     float space, float range) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float centre = in[y * width + x], sum = 0.0f, weights = 0.0f;
  for (int v = max(y - radius, 0); v <= min(y + radius, height - 1); ++v)
    for (int u = max(x - radius, 0); u <= min(x + radius, width - 1); ++u) {
      float d = in[v * width + u] - centre;
      float w = __expf(space * ((u - x) * (u - x) + (v - y) * (v - y)) + range * d * d);
      sum += w * in[v * width + u];
      weights += w;
    }
  out[y * width + x] = sum / weights;
}

// Erosion by an element whose size and shape are constants of the launch.
extern "C" __global__ void erode(const unsigned char* in, unsigned char* out, int width, int height,
                                 int size) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int least = 255, half = size / 2;
  for (int v = 0; v < size; ++v)
    for (int u = 0; u < size; ++u) {
      int px = x + u - half, py = y + v - half;
      if (!structuring[v * size + u] || px < 0 || py < 0 || px >= width || py >= height) continue;
      least = min(least, (int)in[py * width + px]);
    }
  out[y * width + x] = least;
}

// A blur as wide as the depth says, at most 16 pixels: the count comes from floats.
extern "C" __global__ void depth_blur(const float* in, const float* depth, float* out, int width,
                                      float scale) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  int radius = (int)fminf(fmaxf(scale * depth[y * width + x], 0.0f), 16.0f);
  float sum = 0.0f;
  for (int k = -radius; k <= radius; ++k) sum += in[y * width + min(max(x + k, 0), width - 1)];
  out[y * width + x] = sum / (2 * radius + 1);
}

// Counts of grey values, in shared memory first.
extern "C" __global__ void histogram_256(const float* in, int count, float low, float scale,
                                         unsigned* bins) {
  __shared__ unsigned mine[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    int bin = (int)((in[i] - low) * scale);
    atomicAdd(mine + min(max(bin, 0), 255), 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(bins + i, mine[i]);
}

// Sums along a row, 32 pixels at a time with a carry.
extern "C" __global__ void integral_rows(const int* in, int* out, int width, int height) {
  int y = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (y >= height) return;
  int carry = 0;
  for (int x0 = 0; x0 < width; x0 += 32) {
    int x = x0 + lane, sum = x < width ? in[y * width + x] : 0;
    for (int d = 1; d < 32; d <<= 1) {
      int other = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum += other;
    }
    sum += carry;
    if (x < width) out[y * width + x] = sum;
    carry = __shfl_sync(0xffffffffu, sum, 31);
  }
}

// The cheapest seam, row by row, in one block.
extern "C" __global__ void seam_costs(const int* energy, int* cost, int width, int height) {
  for (int y = 0; y < height; ++y) {
    for (int x = threadIdx.x; x < width; x += blockDim.x) {
      int best = 0;
      if (y > 0) {
        const int* above = cost + (y - 1) * width;
        best = above[x];
        if (x > 0) best = min(best, above[x - 1]);
        if (x + 1 < width) best = min(best, above[x + 1]);
      }
      cost[y * width + x] = best + energy[y * width + x];
    }
    __syncthreads();
  }
}

// Scaling with grey borders and normalisation, as before a detector.
extern "C" __global__ void letterbox(const uchar3* in, float* out, int in_width, int in_height,
                                     int width, int height, float scale, float2 shift) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float u = (x - shift.x) * scale, v = (y - shift.y) * scale;
  float3 c = make_float3(114.0f, 114.0f, 114.0f);
  if (u > -1.0f && u < in_width && v > -1.0f && v < in_height) {
    int x0 = max((int)floorf(u), 0), y0 = max((int)floorf(v), 0);
    int x1 = min(x0 + 1, in_width - 1), y1 = min(y0 + 1, in_height - 1);
    float a = u - floorf(u), b = v - floorf(v);
    uchar3 p = in[y0 * in_width + x0], q = in[y0 * in_width + x1];
    uchar3 r = in[y1 * in_width + x0], s = in[y1 * in_width + x1];
    c.x = (1 - b) * ((1 - a) * p.x + a * q.x) + b * ((1 - a) * r.x + a * s.x);
    c.y = (1 - b) * ((1 - a) * p.y + a * q.y) + b * ((1 - a) * r.y + a * s.y);
    c.z = (1 - b) * ((1 - a) * p.z + a * q.z) + b * ((1 - a) * r.z + a * s.z);
  }
  int area = width * height, at = y * width + x;
  out[at] = c.x / 255.0f;
  out[at + area] = c.y / 255.0f;
  out[at + 2 * area] = c.z / 255.0f;
}

// A perspective warp that reads a texture.
extern "C" __global__ void warp_texture(cudaTextureObject_t image, float* out, int width,
                                        int height, float3 a, float3 b, float3 c) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float w = 1.0f / (c.x * x + c.y * y + c.z);
  out[y * width + x] =
      tex2D<float>(image, (a.x * x + a.y * y + a.z) * w, (b.x * x + b.y * y + b.z) * w);
}

// Stereo matching over disparities, from two textures.
extern "C" __global__ void match_textures(cudaTextureObject_t left, cudaTextureObject_t right,
                                          int* out, int width, int height, int most, int radius) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  unsigned best = 0xffffffffu;
  int where = 0;
  for (int d = 0; d < most; ++d) {
    unsigned cost = 0;
    for (int v = -radius; v <= radius; ++v)
      for (int u = -radius; u <= radius; ++u) {
        int a = tex2D<unsigned char>(left, x + u, y + v);
        int b = tex2D<unsigned char>(right, x + u - d, y + v);
        cost += abs(a - b);
      }
    if (cost < best) best = cost, where = d;
  }
  out[y * width + x] = where;
}

// A table in a linear texture, and a surface that is rewritten.
extern "C" __global__ void tone_surface(cudaSurfaceObject_t image, cudaTextureObject_t table,
                                        int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  uchar4 p = surf2Dread<uchar4>(image, x * 4, y);
  p.x = tex1Dfetch<unsigned char>(table, p.x);
  p.y = tex1Dfetch<unsigned char>(table, p.y);
  p.z = tex1Dfetch<unsigned char>(table, p.z);
  surf2Dwrite(p, image, x * 4, y);
}
