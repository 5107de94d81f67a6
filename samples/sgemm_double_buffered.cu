// Tiled matrix product with double buffering: while a pair of tiles is multiplied, the next pair is
// already on its way from global memory into registers. One barrier a step.
// Shapes and launch as in sgemm_naive.cu: multiples of 32, blocks of 32 x 32 threads.
#define TILE 32

extern "C" __global__ void sgemm_double_buffered(const float* A, const float* B, float* C, int M, int N,
                                                 int K) {
  __shared__ float tileA[2][TILE][TILE];
  __shared__ float tileB[2][TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  tileA[0][ty][tx] = A[row * K + tx];
  tileB[0][ty][tx] = B[ty * N + col];
  __syncthreads();
  float sum = 0.0f;
  int buffer = 0;
  for (int k = TILE; k < K; k += TILE) {
    const float nextA = A[row * K + k + tx];
    const float nextB = B[(k + ty) * N + col];
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += tileA[buffer][ty][i] * tileB[buffer][i][tx];
    buffer ^= 1;
    tileA[buffer][ty][tx] = nextA;
    tileB[buffer][ty][tx] = nextB;
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TILE; ++i) sum += tileA[buffer][ty][i] * tileB[buffer][i][tx];
  C[row * N + col] = sum;
}
