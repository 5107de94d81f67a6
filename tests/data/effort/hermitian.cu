// Complex Hermitian matrix times a vector, of which only one triangle is stored, as linear algebra
// libraries write it: a block owns 16 rows, tests every edge of the matrix, and its loops over 16
// columns are unrolled.
#define BLOCK 16

__device__ inline float2 product(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ inline float2 sum(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ inline float2 conjugate(float2 a) { return make_float2(a.x, -a.y); }

extern "C" __global__ void hermitian(int n, float2 alpha, const float2* a, int lda,
                                     const float2* x, int incx, float2 beta, float2* y, int incy,
                                     int lower) {
  __shared__ float2 tile[BLOCK][BLOCK + 1];
  __shared__ float2 column[BLOCK];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.x * BLOCK + tx;
  int start_x = incx < 0 ? (1 - n) * incx : 0;
  int start_y = incy < 0 ? (1 - n) * incy : 0;
  float2 total = make_float2(0.f, 0.f);
  for (int block = 0; block < (n + BLOCK - 1) / BLOCK; block++) {
    int first = block * BLOCK;
    for (int j = ty; j < BLOCK; j += 4) {
      int col = first + j;
      float2 value = make_float2(0.f, 0.f);
      if (row < n && col < n) {
        bool stored = lower ? row >= col : row <= col;
        if (stored) {
          value = a[row + col * lda];
          if (row == col) value.y = 0.f;
        } else {
          value = conjugate(a[col + row * lda]);
        }
      }
      tile[j][tx] = value;
    }
    if (ty == 0) {
      int at = first + tx;
      column[tx] = at < n ? x[start_x + at * incx] : make_float2(0.f, 0.f);
    }
    __syncthreads();
    int columns = n - first < BLOCK ? n - first : BLOCK;
    if (columns == BLOCK) {
#pragma unroll
      for (int j = 0; j < BLOCK; j++)
        if (j % 4 == ty) total = sum(total, product(tile[j][tx], column[j]));
    } else {
      for (int j = ty; j < columns; j += 4) {
        if (row < n && (lower ? row >= first + j : row <= first + j))
          total = sum(total, product(tile[j][tx], column[j]));
        else if (row < n)
          total = sum(total, product(conjugate(tile[j][tx]), conjugate(column[j])));
      }
    }
    __syncthreads();
  }
  tile[ty][tx] = total;
  __syncthreads();
  if (ty == 0 && row < n) {
    for (int j = 1; j < 4; j++) total = sum(total, tile[j][tx]);
    int at = start_y + row * incy;
    float2 old = beta.x == 0.f && beta.y == 0.f ? make_float2(0.f, 0.f) : product(beta, y[at]);
    y[at] = sum(old, product(alpha, total));
  }
}

// One thread a row, all columns: conditions of the triangle inside of loops that nvcc unrolls.
extern "C" __global__ void hermitian_rows(int n, float2 alpha, const float2* a, int lda,
                                          const float2* x, int incx, float2 beta, float2* y,
                                          int incy, int lower, int from, int to) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 total = make_float2(0.f, 0.f);
  int i0 = from, i1 = to < n ? to : n;
  if (lower) {
    for (int j = i0; j < i1; j++) {
      float2 v = j < i ? a[i + j * lda] : conjugate(a[j + i * lda]);
      if (i == j) v.y = 0.f;
      float2 w = incx > 0 ? x[j * incx] : x[(j - n + 1) * incx];
      total = sum(total, product(v, w));
      if (j > i && w.x == 0.f && w.y == 0.f) continue;
      for (int k = j; k < i1 && k < j + 3; k++) {
        if (k == i) total.x += v.x;
        else if (k < i) total.y += v.y;
        else if (v.x > w.y) total.x -= w.x;
      }
    }
  } else {
    for (int j = i0; j < i1; j++) {
      float2 v = j > i ? a[i + j * lda] : conjugate(a[j + i * lda]);
      if (i == j) v.y = 0.f;
      float2 w = incx > 0 ? x[j * incx] : x[(j - n + 1) * incx];
      total = sum(total, product(v, w));
      if (j < i && w.x == 0.f && w.y == 0.f) continue;
      for (int k = j; k < i1 && k < j + 3; k++) {
        if (k == i) total.x -= v.x;
        else if (k < i) total.y -= v.y;
        else if (v.x > w.y) total.x += w.x;
      }
    }
  }
  float2 old = beta.x == 0.f && beta.y == 0.f ? make_float2(0.f, 0.f) : product(beta, y[i * incy]);
  y[i * incy] = sum(old, product(alpha, total));
}
