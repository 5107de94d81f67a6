// Five-point stencil on a shared 32 x 8 tile with a halo of one cell. The grid has one more cell
// around it in memory: in and out are (height + 2) x (width + 2). Sizes are multiples of the block.
#define TX 32
#define TY 8

extern "C" __global__ void stencil_2d(const float* in, float* out, int width) {
  __shared__ float tile[TY + 2][TX + 2];
  const int tx = threadIdx.x, ty = threadIdx.y, pitch = width + 2;
  const int x = blockIdx.x * TX + tx + 1, y = blockIdx.y * TY + ty + 1;
  tile[ty + 1][tx + 1] = in[y * pitch + x];
  if (ty == 0) tile[0][tx + 1] = in[(y - 1) * pitch + x];
  if (ty == TY - 1) tile[TY + 1][tx + 1] = in[(y + 1) * pitch + x];
  if (tx == 0) tile[ty + 1][0] = in[y * pitch + x - 1];
  if (tx == TX - 1) tile[ty + 1][TX + 1] = in[y * pitch + x + 1];
  __syncthreads();
  out[y * pitch + x] = 0.5f * tile[ty + 1][tx + 1] + 0.125f * (tile[ty][tx + 1] + tile[ty + 2][tx + 1] +
                                                               tile[ty + 1][tx] + tile[ty + 1][tx + 2]);
}
