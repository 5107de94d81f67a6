// Sorts one number a thread within a block of a power of two of threads (bitonic network).
// Which of two numbers is kept is a select, so that no branch depends on the data.
extern "C" __global__ void bitonic_sort(int* data) {
  __shared__ int keys[1024];
  const unsigned t = threadIdx.x, offset = blockIdx.x * blockDim.x;
  keys[t] = data[offset + t];
  __syncthreads();
  for (unsigned size = 2; size <= blockDim.x; size <<= 1) {
    for (unsigned stride = size >> 1; stride > 0; stride >>= 1) {
      const unsigned partner = t ^ stride;
      const int mine = keys[t], theirs = keys[partner];
      const bool ascending = (t & size) == 0, lower = t < partner;
      const int least = min(mine, theirs), most = max(mine, theirs);
      __syncthreads();
      keys[t] = ascending == lower ? least : most;
      __syncthreads();
    }
  }
  data[offset + t] = keys[t];
}
