// Compiled with -G: debug sections and locations of inlined functions.
__device__ __forceinline__ float blend(float a, float b) { return a * 0.25f + b * 0.75f; }

extern "C" __global__ void debug_kernel(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = blend(in[i], in[n - 1 - i]);
}
