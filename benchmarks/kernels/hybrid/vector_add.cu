// The sum of two vectors, an element a thread.

extern "C" __global__ void __launch_bounds__(256)
vector_add(const float *a, const float *b, float *c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
