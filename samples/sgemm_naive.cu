// Tiled matrix product C = A * B in single precision, straight from the definition.
// A is M x K, B is K x N, C is M x N, all row-major; M, N and K are multiples of 32.
// One block of 32 x 32 threads computes one 32 x 32 tile of C. Each step loads one tile of A and of
// B into shared memory, waits, multiplies, and waits again before the tiles are overwritten.
#define TILE 32

extern "C" __global__ void sgemm_naive(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float tileA[TILE][TILE];
  __shared__ float tileB[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (int k = 0; k < K; k += TILE) {
    tileA[ty][tx] = A[row * K + k + tx];
    tileB[ty][tx] = B[(k + ty) * N + col];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += tileA[ty][i] * tileB[i][tx];
    __syncthreads();
  }
  C[row * N + col] = sum;
}
