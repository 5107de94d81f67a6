// C = A B for square matrices, by tiles of 32 x 32 elements of both.
#define TILE 32
extern "C" __global__ void matmul_tiled(const float *A, const float *B, float *C, int N) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int tile = 0; tile < (N + TILE - 1) / TILE; ++tile) {
    const int k = tile * TILE;
    a[threadIdx.y][threadIdx.x] = row < N && k + threadIdx.x < N ? A[row * N + k + threadIdx.x] : 0.0f;
    b[threadIdx.y][threadIdx.x] = k + threadIdx.y < N && column < N ? B[(k + threadIdx.y) * N + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < N && column < N) C[row * N + column] = sum;
}
