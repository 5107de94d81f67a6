// Inclusive prefix sum of one block of up to 1024 numbers (Hillis and Steele), two shared buffers.
extern "C" __global__ void scan(const int* in, int* out) {
  __shared__ int buffer[2][1024];
  const int t = threadIdx.x;
  int current = 0;
  buffer[0][t] = in[blockIdx.x * blockDim.x + t];
  __syncthreads();
  for (int d = 1; d < blockDim.x; d <<= 1) {
    const int other = current ^ 1;
    buffer[other][t] = t >= d ? buffer[current][t] + buffer[current][t - d] : buffer[current][t];
    current = other;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + t] = buffer[current][t];
}
