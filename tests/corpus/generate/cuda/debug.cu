// Compiled without optimisation and with debug information.

__device__ float smooth(float a, float b) {
  const float mean = 0.5f * (a + b);
  return mean > 0.0f ? mean : -mean;
}

struct Point { float x, y; };

extern "C" __global__ void debug_kernel(const Point* points, float* out, int n) {
  __shared__ float partial[64];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const Point p = points[i];
    sum += smooth(p.x, p.y);
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 1; i < 64; ++i) partial[0] += partial[i];
  out[blockIdx.x] = partial[0];
}
