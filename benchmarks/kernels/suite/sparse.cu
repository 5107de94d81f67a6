// Sparse matrices: products and sweeps over several formats.

struct Sweep {
  int rows;
  float relaxation;
};

extern "C" __global__ void spmv_csr_scalar(int rows, const int* __restrict__ row_start, const int* __restrict__ column,
                                           const float* __restrict__ value, const float* __restrict__ x,
                                           float* __restrict__ y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float sum = 0.0f;
    int end = row_start[row + 1];
    for (int e = row_start[row]; e < end; ++e) sum += value[e] * __ldg(&x[column[e]]);
    y[row] = sum;
  }
}

extern "C" __global__ void spmv_csr_vector(int rows, const int* __restrict__ row_start, const int* __restrict__ column,
                                           const float* __restrict__ value, const float* __restrict__ x,
                                           float* __restrict__ y) {
  int lane = threadIdx.x & 31;
  int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int e = row_start[row] + lane; e < row_start[row + 1]; e += 32) sum += value[e] * x[column[e]];
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (lane == 0) y[row] = sum;
}

extern "C" __global__ void spmv_ell(int rows, int width, const int* __restrict__ column,
                                    const float* __restrict__ value, const float* __restrict__ x,
                                    float* __restrict__ y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = 0; k < width; ++k) {
    int c = column[k * rows + row];
    if (c < 0) break;
    sum += value[k * rows + row] * x[c];
  }
  y[row] = sum;
}

// jagged diagonals: the number of entries of a row is stored
extern "C" __global__ void spmv_jds(int rows, const int* __restrict__ length, const int* __restrict__ diagonal_start,
                                    const int* __restrict__ column, const float* __restrict__ value,
                                    const int* __restrict__ permutation, const float* __restrict__ x,
                                    float* __restrict__ y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    int count = length[row];
    float sum = 0.0f;
    for (int k = 0; k < count; k++) {
      int at = diagonal_start[k] + row;
      sum += value[at] * x[column[at]];
    }
    y[permutation[row]] = sum;
  }
}

// coordinates sorted by row; a warp walks its share and adds row sums with a segmented scan
extern "C" __global__ void spmv_coo_segmented(int entries, int share, const int* __restrict__ row,
                                              const int* __restrict__ column, const float* __restrict__ value,
                                              const float* __restrict__ x, float* y) {
  __shared__ int rows[64];
  __shared__ float sums[64];
  int lane = threadIdx.x & 31;
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int begin = warp * share, end = min(begin + share, entries);
  for (int base = begin; base < end; base += 32) {
    int n = base + lane;
    int r = n < end ? row[n] : -1;
    float v = n < end ? value[n] * x[column[n]] : 0.0f;
    rows[threadIdx.x] = r;
    sums[threadIdx.x] = v;
    __syncwarp();
    for (int d = 1; d < 32; d *= 2) {
      float left = lane >= d && rows[threadIdx.x - d] == r ? sums[threadIdx.x - d] : 0.0f;
      __syncwarp();
      v += left;
      sums[threadIdx.x] = v;
      __syncwarp();
    }
    if (r >= 0 && (lane == 31 || rows[threadIdx.x + 1] != r)) atomicAdd(&y[r], v);
    __syncwarp();
  }
}

// damped Jacobi; the sizes come in a structure
extern "C" __global__ void jacobi_csr(Sweep sweep, const int* __restrict__ row_start, const int* __restrict__ column,
                                      const float* __restrict__ value, const float* __restrict__ b,
                                      const float* __restrict__ x, float* __restrict__ next) {
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < sweep.rows; row += blockDim.x * gridDim.x) {
    float sum = b[row], diagonal = 1.0f;
    int e = row_start[row];
    const int end = row_start[row + 1];
    while (e < end) {
      int c = column[e];
      if (c == row)
        diagonal = value[e];
      else
        sum -= value[e] * x[c];
      ++e;
    }
    next[row] = x[row] + sweep.relaxation * (sum / diagonal - x[row]);
  }
}

// five diagonals, stored one after the other
extern "C" __global__ void spmv_dia(int n, int diagonals, const int* __restrict__ offset,
                                    const double* __restrict__ value, const double* __restrict__ x,
                                    double* __restrict__ y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  double sum = 0.0;
  for (int d = 0; d < diagonals; ++d) {
    int c = row + offset[d];
    if (c >= 0 && c < n) sum += value[(size_t)d * n + row] * x[c];
  }
  y[row] = sum;
}
