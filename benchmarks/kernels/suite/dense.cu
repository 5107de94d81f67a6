// Dense linear algebra: products, factorisation steps and solves, as a first version of each is written.
#define TILE 16

extern "C" __global__ void gemm_naive(int m, int n, int k, float alpha, const float* __restrict__ a,
                                      const float* __restrict__ b, float beta, float* c) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || col >= n) return;
  float sum = 0.0f;
  for (int p = 0; p < k; ++p) sum += a[row * k + p] * b[p * n + col];
  c[row * n + col] = alpha * sum + beta * c[row * n + col];
}

extern "C" __global__ void gemm_tiled(int m, int n, int k, const float* __restrict__ a,
                                      const float* __restrict__ b, float* __restrict__ c) {
  __shared__ float left[TILE][TILE];
  __shared__ float right[TILE][TILE + 1];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (int base = 0; base < k; base += TILE) {
    left[ty][tx] = row < m && base + tx < k ? a[row * k + base + tx] : 0.0f;
    right[ty][tx] = col < n && base + ty < k ? b[(base + ty) * n + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int p = 0; p < TILE; ++p) sum += left[ty][p] * right[p][tx];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

extern "C" __global__ void gemv_rows(const double* __restrict__ a, const double* __restrict__ x,
                                     double* __restrict__ y, long long rows, long long cols) {
  long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    double sum = 0.0;
    for (long long j = 0; j < cols; ++j) sum += a[row * cols + j] * x[j];
    y[row] = sum;
  }
}

extern "C" __global__ void gemv_warp(const float* __restrict__ a, const float* __restrict__ x,
                                     float* __restrict__ y, int rows, int cols) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (warp >= rows) return;
  float sum = 0.0f;
  for (int j = lane; j < cols; j += 32) sum += a[(size_t)warp * cols + j] * x[j];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (lane == 0) y[warp] = sum;
}

// c = a a^T, lower triangle only
extern "C" __global__ void syrk_lower(const float* __restrict__ a, float* __restrict__ c, int n, int k) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < n && j <= i) {
    float sum = c[i * n + j];
    for (int p = 0; p < k; ++p) sum += a[i * k + p] * a[j * k + p];
    c[i * n + j] = sum;
  }
}

// second half of atax: y = a^T t, a thread a column
extern "C" __global__ void atax_columns(const float* __restrict__ a, const float* __restrict__ t,
                                        float* __restrict__ y, int rows, int cols) {
  for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < cols; j += gridDim.x * blockDim.x) {
    float sum = 0.0f;
    for (int i = 0; i < rows; i++) sum = fmaf(a[i * cols + j], t[i], sum);
    y[j] = sum;
  }
}

// one block, the whole matrix: right-looking elimination without pivots, in shared memory
extern "C" __global__ void lu_block(float* matrix, int stride) {
  __shared__ float tile[TILE][TILE];
  int t = threadIdx.x;
  for (int i = 0; i < TILE; ++i) tile[i][t] = matrix[i * stride + t];
  __syncthreads();
  for (int p = 0; p < TILE - 1; ++p) {
    if (t > p) {
      for (int q = 0; q < p; ++q) tile[t][p] -= tile[t][q] * tile[q][p];
      tile[t][p] /= tile[p][p];
    }
    __syncthreads();
    if (t > p) {
      for (int q = 0; q < p + 1; ++q) tile[p + 1][t] -= tile[p + 1][q] * tile[q][t];
    }
    __syncthreads();
  }
  for (int i = 1; i < TILE; ++i) matrix[i * stride + t] = tile[i][t];
}

extern "C" __global__ void gauss_multipliers(const float* __restrict__ a, float* __restrict__ m, int n, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n - 1 - step) return;
  int row = i + step + 1;
  m[row * n + step] = a[row * n + step] / a[step * n + step];
}

extern "C" __global__ void gauss_update(float* a, float* b, const float* m, int n, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n - 1 - step || j >= n - step) return;
  float factor = m[(i + 1 + step) * n + step];
  a[(i + 1 + step) * n + (j + step)] -= factor * a[step * n + (j + step)];
  if (j == 0) b[i + 1 + step] -= factor * b[step];
}

// one block factors an n x n matrix with n threads; the pivot column goes through shared memory
extern "C" __global__ void cholesky_block(float* a, int n) {
  extern __shared__ float column[];
  int row = threadIdx.x;
  for (int k = 0; k < n; ++k) {
    if (row == k) column[k] = sqrtf(a[k * n + k]);
    __syncthreads();
    if (row > k && row < n) column[row] = a[row * n + k] / column[k];
    __syncthreads();
    if (row >= k && row < n) a[row * n + k] = column[row];
    if (row > k && row < n) {
      for (int j = k + 1; j <= row; ++j) a[row * n + j] -= column[row] * column[j];
    }
    __syncthreads();
  }
}

// l x = b by columns: one block, thread i owns x[i]
extern "C" __global__ void forward_substitution(const float* __restrict__ l, const float* __restrict__ b,
                                                float* __restrict__ x, int n) {
  __shared__ float solved;
  int i = threadIdx.x;
  float rest = i < n ? b[i] : 0.0f;
  for (int j = 0; j < n; ++j) {
    if (i == j) {
      solved = rest / l[j * n + j];
      x[j] = solved;
    }
    __syncthreads();
    if (i > j && i < n) rest -= l[i * n + j] * solved;
    __syncthreads();
  }
}

// a thread solves a triangular system of its own right-hand side
extern "C" __global__ void solve_many(const float* __restrict__ u, float* rhs, int n, int systems) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= systems) return;
  for (int i = n - 1; i >= 0; --i) {
    float value = rhs[i * systems + s];
    for (int j = i + 1; j < n; ++j) value -= u[i * n + j] * rhs[j * systems + s];
    rhs[i * systems + s] = value / u[i * n + i];
  }
}

template <int SIZE>
__device__ __forceinline__ float norm_of(const float (&v)[SIZE]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < SIZE; ++i) sum += v[i] * v[i];
  return sqrtf(sum);
}

// power iteration on a small matrix a thread, until the vector settles
extern "C" __global__ void power_iteration(const float* __restrict__ matrices, float* values, int count,
                                           int most, float tolerance) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= count) return;
  const float* a = matrices + id * 9;
  float v[3] = {1.0f, 0.5f, 0.25f}, last = 0.0f, value = 0.0f;
  for (int it = 0; it < most; ++it) {
    float w[3];
    for (int i = 0; i < 3; ++i) w[i] = a[3 * i] * v[0] + a[3 * i + 1] * v[1] + a[3 * i + 2] * v[2];
    value = norm_of(w);
    for (int i = 0; i < 3; ++i) v[i] = w[i] / value;
    if (fabsf(value - last) < tolerance) break;
    last = value;
  }
  values[id] = value;
}
