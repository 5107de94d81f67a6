// Four transposes of a matrix whose sides are multiples of 32: a block of 32 x 8 threads moves a
// tile of 32 x 32 elements, a thread four of them.

constexpr int TILE = 32;
constexpr int ROWS = 8;

// Without shared memory: reads along rows, writes along columns.
extern "C" __global__ void __launch_bounds__(256)
matrix_transpose_1(const float *in, float *out, int width, int height) {
  const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
#pragma unroll 1
  for (int i = 0; i < TILE; i += ROWS) out[x * height + y + i] = in[(y + i) * width + x];
}

// Through a tile in shared memory: both accesses of global memory run along rows. The columns of
// the tile lie in one bank.
extern "C" __global__ void __launch_bounds__(256)
matrix_transpose_2(const float *in, float *out, int width, int height) {
  __shared__ float tile[TILE][TILE];
  const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
  const int x = threadIdx.x, y = threadIdx.y;
#pragma unroll 1
  for (int i = 0; i < TILE; i += ROWS) tile[y + i][x] = in[(top + y + i) * width + left + x];
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < TILE; i += ROWS) out[(left + y + i) * height + top + x] = tile[x][y + i];
}

// The same with a column of padding: no two lanes of a warp meet in a bank.
extern "C" __global__ void __launch_bounds__(256)
matrix_transpose_3(const float *in, float *out, int width, int height) {
  __shared__ float tile[TILE][TILE + 1];
  const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
  const int x = threadIdx.x, y = threadIdx.y;
#pragma unroll 1
  for (int i = 0; i < TILE; i += ROWS) tile[y + i][x] = in[(top + y + i) * width + left + x];
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < TILE; i += ROWS) out[(left + y + i) * height + top + x] = tile[x][y + i];
}

// The same with the four rows of a thread written out: its loads do not wait for one another.
extern "C" __global__ void __launch_bounds__(256)
matrix_transpose_4(const float *in, float *out, int width, int height) {
  __shared__ float tile[TILE][TILE + 1];
  const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
  const int x = threadIdx.x, y = threadIdx.y;
  float held[TILE / ROWS];
#pragma unroll
  for (int i = 0; i < TILE / ROWS; i++) held[i] = in[(top + y + i * ROWS) * width + left + x];
#pragma unroll
  for (int i = 0; i < TILE / ROWS; i++) tile[y + i * ROWS][x] = held[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < TILE / ROWS; i++)
    out[(left + y + i * ROWS) * height + top + x] = tile[x][y + i * ROWS];
}
