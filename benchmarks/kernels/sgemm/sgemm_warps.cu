// The two SGEMM versions of the samples for blocks of 4, 8, 16 and 32 warps: 32 x W threads compute
// W rows and 32 columns of C, in steps of 32 along K. Each thread loads one element of A's tile and
// 32 / W of B's. M is a multiple of W; N and K are multiples of 32.
#define TILE 32

template <int W>
__device__ __forceinline__ void naive(const float* A, const float* B, float* C, int N, int K) {
  __shared__ float tileA[W][TILE];
  __shared__ float tileB[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * W + ty, col = blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (int k = 0; k < K; k += TILE) {
    tileA[ty][tx] = A[row * K + k + tx];
#pragma unroll
    for (int j = 0; j < TILE; j += W) tileB[ty + j][tx] = B[(k + ty + j) * N + col];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += tileA[ty][i] * tileB[i][tx];
    __syncthreads();
  }
  C[row * N + col] = sum;
}

template <int W>
__device__ __forceinline__ void double_buffered(const float* A, const float* B, float* C, int N, int K) {
  __shared__ float tileA[2][W][TILE];
  __shared__ float tileB[2][TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * W + ty, col = blockIdx.x * TILE + tx;
  tileA[0][ty][tx] = A[row * K + tx];
#pragma unroll
  for (int j = 0; j < TILE; j += W) tileB[0][ty + j][tx] = B[(ty + j) * N + col];
  __syncthreads();
  float sum = 0.0f;
  int buffer = 0;
  for (int k = TILE; k < K; k += TILE) {
    const float nextA = A[row * K + k + tx];
    float nextB[TILE / W];
#pragma unroll
    for (int j = 0; j < TILE / W; ++j) nextB[j] = B[(k + ty + j * W) * N + col];
#pragma unroll
    for (int i = 0; i < TILE; ++i) sum += tileA[buffer][ty][i] * tileB[buffer][i][tx];
    buffer ^= 1;
    tileA[buffer][ty][tx] = nextA;
#pragma unroll
    for (int j = 0; j < TILE / W; ++j) tileB[buffer][ty + j * W][tx] = nextB[j];
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TILE; ++i) sum += tileA[buffer][ty][i] * tileB[buffer][i][tx];
  C[row * N + col] = sum;
}

#define KERNELS(W)                                                                                   \
  extern "C" __global__ void naive_##W(const float* A, const float* B, float* C, int N, int K) {     \
    naive<W>(A, B, C, N, K);                                                                         \
  }                                                                                                  \
  extern "C" __global__ void double_buffered_##W(const float* A, const float* B, float* C, int N,    \
                                                 int K) {                                            \
    double_buffered<W>(A, B, C, N, K);                                                               \
  }

KERNELS(4)
KERNELS(8)
KERNELS(16)
KERNELS(32)
