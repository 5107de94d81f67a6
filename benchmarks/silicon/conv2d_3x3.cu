// Nine taps, the weights from global memory too; threads near the right and lower edge leave.
extern "C" __global__ void conv2d_3x3(const float *in, const float *weights, float *out, int rows, int columns) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= columns - 2 || y >= rows - 2) return;
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < 3; ++j)
#pragma unroll
    for (int i = 0; i < 3; ++i) sum += in[(y + j) * columns + x + i] * weights[3 * j + i];
  out[y * columns + x] = sum;
}
