// Each block adds 2 x blockDim.x elements: two loads a thread, then a tree in shared memory.
extern "C" __global__ void reduce_sum(const float *in, float *out, int N) {
  extern __shared__ float partial[];
  const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + t;
  float sum = 0.0f;
  if (i < N) sum += in[i];
  if (i + blockDim.x < N) sum += in[i + blockDim.x];
  partial[t] = sum;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) partial[t] += partial[t + s];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = partial[0];
}
