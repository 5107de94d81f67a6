// Stencils on regular grids.
#define SIDE 16
#define STEPS 2

struct Extent {
  int nx, ny, nz;
};

// temperatures of a chip: STEPS time steps in shared memory before the result is written
extern "C" __global__ void hotspot(const float* __restrict__ power, const float* __restrict__ in, float* __restrict__ out,
                                   int rows, int cols, float rx, float ry, float rz, float step, float ambient) {
  __shared__ float now[SIDE][SIDE];
  __shared__ float heat[SIDE][SIDE];
  __shared__ float next[SIDE][SIDE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int inner = SIDE - 2 * STEPS;
  int x = blockIdx.x * inner - STEPS + tx, y = blockIdx.y * inner - STEPS + ty;
  bool inside = x >= 0 && x < cols && y >= 0 && y < rows;
  if (inside) {
    now[ty][tx] = in[y * cols + x];
    heat[ty][tx] = power[y * cols + x];
  }
  __syncthreads();
  int west = max(tx - 1, tx - x), east = min(tx + 1, tx + cols - 1 - x);
  int north = max(ty - 1, ty - y), south = min(ty + 1, ty + rows - 1 - y);
  bool computed = false;
  for (int s = 0; s < STEPS; ++s) {
    computed = false;
    if (tx > s && tx < SIDE - 1 - s && ty > s && ty < SIDE - 1 - s && inside) {
      computed = true;
      float t = now[ty][tx];
      next[ty][tx] = t + step * (heat[ty][tx] + (now[south][tx] + now[north][tx] - 2.0f * t) * ry +
                                 (now[ty][east] + now[ty][west] - 2.0f * t) * rx + (ambient - t) * rz);
    }
    __syncthreads();
    if (s == STEPS - 1) break;
    if (computed) now[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (computed) out[y * cols + x] = next[ty][tx];
}

extern "C" __global__ void stencil_7_point(const float* __restrict__ in, float* __restrict__ out, Extent extent,
                                           float c0, float c1) {
  const int nx = extent.nx, ny = extent.ny, nz = extent.nz;
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < 1 || j < 1 || i >= nx - 1 || j >= ny - 1) return;
  size_t plane = (size_t)nx * ny, at = plane + (size_t)j * nx + i;
  float below = in[at - plane], here = in[at];
  for (int k = 1; k < nz - 1; ++k) {
    float above = in[at + plane];
    out[at] = c1 * (above + below + in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx]) - c0 * here;
    below = here;
    here = above;
    at += plane;
  }
}

// a rod in one block: all time steps between barriers, two buffers
extern "C" __global__ void heat_1d(float* rod, int n, int steps, float r) {
  extern __shared__ float buffer[];
  float *a = buffer, *b = buffer + n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = rod[i];
  __syncthreads();
  for (int t = 0; t < steps; ++t) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      float left = i > 0 ? a[i - 1] : a[i], right = i < n - 1 ? a[i + 1] : a[i];
      b[i] = a[i] + r * (left - 2.0f * a[i] + right);
    }
    __syncthreads();
    float* swap = a;
    a = b;
    b = swap;
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) rod[i] = a[i];
}

// speckle reduction, first half: diffusion coefficients
extern "C" __global__ void srad_coefficients(const float* __restrict__ image, float* __restrict__ c, float* dn, float* ds,
                                             float* dw, float* de, int rows, int cols, float q0) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  int at = row * cols + col;
  float j = image[at];
  float north = (row == 0 ? j : image[at - cols]) - j, south = (row == rows - 1 ? j : image[at + cols]) - j;
  float west = (col == 0 ? j : image[at - 1]) - j, east = (col == cols - 1 ? j : image[at + 1]) - j;
  float g2 = (north * north + south * south + west * west + east * east) / (j * j);
  float l = (north + south + west + east) / j;
  float num = 0.5f * g2 - 0.0625f * l * l, den = 1.0f + 0.25f * l;
  float q = num / (den * den);
  float coefficient = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));
  if (coefficient < 0.0f)
    coefficient = 0.0f;
  else if (coefficient > 1.0f)
    coefficient = 1.0f;
  c[at] = coefficient;
  dn[at] = north;
  ds[at] = south;
  dw[at] = west;
  de[at] = east;
}

extern "C" __global__ void srad_update(float* image, const float* c, const float* dn, const float* ds, const float* dw,
                                       const float* de, int rows, int cols, float lambda) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && col < cols) {
    int at = row * cols + col;
    float cs = row < rows - 1 ? c[at + cols] : c[at], ce = col < cols - 1 ? c[at + 1] : c[at];
    float d = c[at] * dn[at] + cs * ds[at] + c[at] * dw[at] + ce * de[at];
    image[at] += 0.25f * lambda * d;
  }
}

// wave equation of fourth order in space, a halo of two in shared memory
extern "C" __global__ void wave_2d(const float* __restrict__ before, const float* __restrict__ now,
                                   float* __restrict__ after, const float* __restrict__ speed, int n) {
  __shared__ float tile[SIDE + 4][SIDE + 4];
  int x0 = blockIdx.x * SIDE - 2, y0 = blockIdx.y * SIDE - 2;
  for (int e = threadIdx.y * SIDE + threadIdx.x; e < (SIDE + 4) * (SIDE + 4); e += SIDE * SIDE) {
    int x = x0 + e % (SIDE + 4), y = y0 + e / (SIDE + 4);
    tile[e / (SIDE + 4)][e % (SIDE + 4)] = x >= 0 && y >= 0 && x < n && y < n ? now[y * n + x] : 0.0f;
  }
  __syncthreads();
  int x = x0 + 2 + threadIdx.x, y = y0 + 2 + threadIdx.y;
  if (x >= n || y >= n) return;
  int tx = threadIdx.x + 2, ty = threadIdx.y + 2;
  float laplace = -5.0f * tile[ty][tx];
#pragma unroll
  for (int k = 1; k <= 2; ++k) {
    float weight = k == 1 ? 4.0f / 3.0f : -1.0f / 12.0f;
    laplace += weight * (tile[ty][tx - k] + tile[ty][tx + k] + tile[ty - k][tx] + tile[ty + k][tx]);
  }
  int at = y * n + x;
  after[at] = 2.0f * now[at] - before[at] + speed[at] * laplace;
}

// Gauss-Seidel in two colours until a block's change is small, or for a number of sweeps
extern "C" __global__ void red_black(float* grid, const float* __restrict__ rhs, int n, int sweeps, float tolerance) {
  int row = threadIdx.y + 1, col = threadIdx.x + 1;
  bool inner = row < n - 1 && col < n - 1;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    int moving = 0;
    for (int colour = 0; colour < 2; ++colour) {
      if (inner && ((row + col) & 1) == colour) {
        int at = row * n + col;
        float value = 0.25f * (grid[at - 1] + grid[at + 1] + grid[at - n] + grid[at + n] - rhs[at]);
        moving |= fabsf(value - grid[at]) > tolerance;
        grid[at] = value;
      }
      __syncthreads();
    }
    if (!__syncthreads_or(moving)) break;
  }
}
