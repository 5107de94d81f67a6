// The double-buffered matrix product with asynchronous copies: cp.async moves the next pair of tiles
// from global to shared memory without passing through registers.
#include <cuda_pipeline.h>
#define TILE 32

extern "C" __global__ void sgemm_cp_async(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float tileA[2][TILE][TILE];
  __shared__ float tileB[2][TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  __pipeline_memcpy_async(&tileA[0][ty][tx], &A[row * K + tx], sizeof(float));
  __pipeline_memcpy_async(&tileB[0][ty][tx], &B[ty * N + col], sizeof(float));
  __pipeline_commit();
  float sum = 0.0f;
  int buffer = 0;
  for (int k = TILE; k < K; k += TILE) {
    __pipeline_wait_prior(0);
    __syncthreads();
    __pipeline_memcpy_async(&tileA[buffer ^ 1][ty][tx], &A[row * K + k + tx], sizeof(float));
    __pipeline_memcpy_async(&tileB[buffer ^ 1][ty][tx], &B[(k + ty) * N + col], sizeof(float));
    __pipeline_commit();
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += tileA[buffer][ty][i] * tileB[buffer][i][tx];
    buffer ^= 1;
  }
  __pipeline_wait_prior(0);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < TILE; ++i) sum += tileA[buffer][ty][i] * tileB[buffer][i][tx];
  C[row * N + col] = sum;
}
