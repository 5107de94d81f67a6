// The product of two matrices, a tile of 16 x 16 elements a block, the factors' tiles in shared
// memory. The sizes are multiples of 16.

constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(256)
matrix_multiply(const float *a, const float *b, float *c, int inner, int columns) {
  __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0.0f;
#pragma unroll 1
  for (int step = 0; step < inner; step += TILE) {
    tile_a[y][x] = a[row * inner + step + x];
    tile_b[y][x] = b[(step + y) * columns + column];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; k++) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  c[row * columns + column] = sum;
}
