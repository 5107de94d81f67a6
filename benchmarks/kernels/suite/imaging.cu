// Image processing.
#define RADIUS 4
#define BLOCK_X 16
#define BLOCK_Y 8

__constant__ float kernel_weights[2 * RADIUS + 1];

// rows of a separable filter: a block loads its pixels and both margins
extern "C" __global__ void convolve_rows(const float* __restrict__ in, float* __restrict__ out, int width, int height) {
  __shared__ float line[BLOCK_Y][BLOCK_X + 2 * RADIUS];
  int x0 = blockIdx.x * BLOCK_X - RADIUS, y = blockIdx.y * BLOCK_Y + threadIdx.y;
  for (int i = threadIdx.x; i < BLOCK_X + 2 * RADIUS; i += BLOCK_X)
    line[threadIdx.y][i] = y < height && x0 + i >= 0 && x0 + i < width ? in[y * width + x0 + i] : 0.0f;
  __syncthreads();
  int x = blockIdx.x * BLOCK_X + threadIdx.x;
  if (x >= width || y >= height) return;
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k <= 2 * RADIUS; ++k) sum += kernel_weights[k] * line[threadIdx.y][threadIdx.x + k];
  out[y * width + x] = sum;
}

extern "C" __global__ void convolve_2d(const float* __restrict__ in, const float* __restrict__ mask, float* __restrict__ out,
                                       int width, int height, int size) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int r = size / 2;
  float sum = 0.0f;
  for (int j = -r; j <= r; ++j)
    for (int i = -r; i <= r; ++i) {
      int px = min(max(x + i, 0), width - 1), py = min(max(y + j, 0), height - 1);
      sum += in[py * width + px] * mask[(j + r) * size + i + r];
    }
  out[y * width + x] = sum;
}

extern "C" __global__ void sobel(const unsigned char* __restrict__ in, unsigned char* __restrict__ out, int width, int height, int pitch) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x > width - 2 || y > height - 2) return;
  const unsigned char* p = in + y * pitch + x;
  int gx = p[1 - pitch] + 2 * p[1] + p[1 + pitch] - p[-1 - pitch] - 2 * p[-1] - p[-1 + pitch];
  int gy = p[pitch - 1] + 2 * p[pitch] + p[pitch + 1] - p[-pitch - 1] - 2 * p[-pitch] - p[-pitch + 1];
  int value = (int)sqrtf((float)(gx * gx + gy * gy));
  out[y * pitch + x] = value > 255 ? 255 : value;
}

extern "C" __global__ void median_3x3(const unsigned char* __restrict__ in, unsigned char* __restrict__ out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  unsigned char v[9];
  int n = 0;
  for (int j = -1; j <= 1; ++j)
    for (int i = -1; i <= 1; ++i) {
      int px = x + i, py = y + j;
      v[n++] = px >= 0 && px < width && py >= 0 && py < height ? in[py * width + px] : 0;
    }
  for (int i = 0; i < 5; ++i) {
    int least = i;
    for (int j = i + 1; j < 9; ++j)
      if (v[j] < v[least]) least = j;
    unsigned char keep = v[i];
    v[i] = v[least];
    v[least] = keep;
  }
  out[y * width + x] = v[4];
}

extern "C" __global__ void bilateral(const float* __restrict__ in, float* __restrict__ out, int width, int height, int radius,
                                     float space, float range) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float centre = in[y * width + x], sum = 0.0f, weight = 0.0f;
  for (int py = max(y - radius, 0); py <= min(y + radius, height - 1); ++py)
    for (int px = max(x - radius, 0); px <= min(x + radius, width - 1); ++px) {
      float value = in[py * width + px], d = value - centre;
      float w = __expf(-((px - x) * (px - x) + (py - y) * (py - y)) * space - d * d * range);
      sum += w * value;
      weight += w;
    }
  out[y * width + x] = sum / weight;
}

// equalisation: the table is made again in each block from the histogram, then applied
extern "C" __global__ void equalise(const unsigned char* __restrict__ in, unsigned char* __restrict__ out,
                                    const unsigned* __restrict__ histogram, int pixels) {
  __shared__ unsigned table[256];
  int t = threadIdx.x;
  table[t] = histogram[t];
  __syncthreads();
  for (int d = 1; d < 256; d <<= 1) {
    unsigned add = t >= d ? table[t - d] : 0;
    __syncthreads();
    table[t] += add;
    __syncthreads();
  }
  for (int i = blockIdx.x * 256 + t; i < pixels; i += gridDim.x * 256) out[i] = (unsigned char)(table[in[i]] * 255u / pixels);
}

// integral image, rows: a block a row, carried from tile to tile
extern "C" __global__ void integral_rows(const unsigned char* __restrict__ in, unsigned* __restrict__ out, int width) {
  __shared__ unsigned of_warp[2];
  unsigned carry = 0;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int base = 0; base < width; base += 64) {
    int x = base + threadIdx.x;
    unsigned value = x < width ? in[blockIdx.x * width + x] : 0;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      unsigned left = __shfl_up_sync(0xffffffffu, value, d);
      if (lane >= d) value += left;
    }
    if (lane == 31) of_warp[warp] = value;
    __syncthreads();
    if (warp == 1) value += of_warp[0];
    if (x < width) out[blockIdx.x * width + x] = carry + value;
    carry += of_warp[0] + of_warp[1];
    __syncthreads();
  }
}

// erosion by a structuring element given as a mask; stops at the first black pixel
extern "C" __global__ void erode(const unsigned char* __restrict__ in, const unsigned char* __restrict__ element,
                                 unsigned char* __restrict__ out, int width, int height, int ew, int eh) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  unsigned char result = 255;
  for (int j = 0; j < eh && result; ++j)
    for (int i = 0; i < ew; ++i) {
      int px = x + i - ew / 2, py = y + j - eh / 2;
      if (!element[j * ew + i] || px < 0 || py < 0 || px >= width || py >= height) continue;
      if (in[py * width + px] == 0) {
        result = 0;
        break;
      }
    }
  out[y * width + x] = result;
}

extern "C" __global__ void julia(unsigned char* out, int width, int height, float cx, float cy, float scale, int most) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float zx = scale * (x - width / 2), zy = scale * (y - height / 2);
  int n = 0;
  while (zx * zx + zy * zy < 4.0f && n < most) {
    float t = zx * zx - zy * zy + cx;
    zy = 2.0f * zx * zy + cy;
    zx = t;
    ++n;
  }
  out[y * width + x] = (unsigned char)n;
}

__constant__ float cosines[64];

// forward transform of 8 x 8 pixels, a thread a coefficient
extern "C" __global__ void dct_8x8(const float* __restrict__ in, float* __restrict__ out, int stride) {
  __shared__ float block[8][8];
  __shared__ float half[8][8];
  int tx = threadIdx.x, ty = threadIdx.y;
  int at = (blockIdx.y * 8 + ty) * stride + blockIdx.x * 8 + tx;
  block[ty][tx] = in[at];
  __syncthreads();
  float sum = 0.0f;
  for (int k = 0; k < 8; ++k) sum += cosines[ty * 8 + k] * block[k][tx];
  half[ty][tx] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int k = 0; k < 8; ++k) sum += half[ty][k] * cosines[tx * 8 + k];
  out[at] = sum;
}

extern "C" __global__ void resize_bilinear(const uchar4* __restrict__ in, uchar4* __restrict__ out, int iw, int ih, int ow, int oh) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < ow && y < oh) {
    float fx = (x + 0.5f) * iw / ow - 0.5f, fy = (y + 0.5f) * ih / oh - 0.5f;
    int x0 = max((int)floorf(fx), 0), y0 = max((int)floorf(fy), 0);
    int x1 = min(x0 + 1, iw - 1), y1 = min(y0 + 1, ih - 1);
    float ax = fmaxf(fx - x0, 0.0f), ay = fmaxf(fy - y0, 0.0f);
    uchar4 a = in[y0 * iw + x0], b = in[y0 * iw + x1], c = in[y1 * iw + x0], d = in[y1 * iw + x1];
    uchar4 r;
    r.x = (1 - ay) * ((1 - ax) * a.x + ax * b.x) + ay * ((1 - ax) * c.x + ax * d.x);
    r.y = (1 - ay) * ((1 - ax) * a.y + ax * b.y) + ay * ((1 - ax) * c.y + ax * d.y);
    r.z = (1 - ay) * ((1 - ax) * a.z + ax * b.z) + ay * ((1 - ax) * c.z + ax * d.z);
    r.w = 255;
    out[y * ow + x] = r;
  }
}
