// What a block reduces at a barrier, and loops that all of its warps leave together for it.
#define KERNEL extern "C" __global__ void

KERNEL any_left(int* a, const int* b, int most) {
  int t = threadIdx.x, left = b[t];
  for (int i = 0; i < most; ++i) {
    left = left > i ? left - 3 : left;
    if (!__syncthreads_or(left > i)) break;
  }
  a[t] = left;
}
KERNEL all_done(int* a, const int* b, int most) {
  int t = threadIdx.x, left = b[t];
  for (int i = 0; i < most; ++i) {
    left -= i + (t & 3);
    __syncthreads();
    if (__syncthreads_and(left < 0)) break;
  }
  a[t] = left;
}
KERNEL counted(int* a, const int* b, int most) {
  int t = threadIdx.x, left = b[t], sum = 0;
  for (int i = 0; i < most; ++i) {
    int above = __syncthreads_count(left > i);
    sum += above;
    __syncthreads();
    if (above < 5) break;
  }
  a[t] = sum;
}
