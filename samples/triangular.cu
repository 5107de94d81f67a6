// Triangular loops: inner trip counts that grow with the outer counter.

// Column t of X = inverse(L) * B for a lower-triangular n x n matrix L with a unit diagonal: forward
// substitution, one column of B a thread.
extern "C" __global__ void triangular_solve(const float* L, float* B, int n) {
  const int columns = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < n; ++i) {
    float value = B[i * columns + t];
#pragma unroll 1
    for (int j = 0; j < i; ++j) value -= L[i * n + j] * B[j * columns + t];
    B[i * columns + t] = value;
  }
}

// Row sums of the lower triangle, added up by every thread for its own vector; unrolled as the
// compiler likes.
extern "C" __global__ void triangular_sum(const float* L, const float* x, float* out, int n) {
  float total = 0.0f;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) total += L[i * n + j] * x[j];
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
