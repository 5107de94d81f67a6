// Transfers of control that machine code has: an indexed branch, calls, exits, lanes that part and
// meet. Compiled with build.sh, which writes the files beside it.

extern "C" __global__ void chosen(int* a, int k) {
  int v = a[threadIdx.x];
  switch (k) {
    case 0: v += 3; break;
    case 1: v *= a[7]; break;
    case 2: v ^= 5; a[3] = 2; break;
    case 3: v = v / k; break;
    case 4: v -= a[9]; break;
    case 5: v <<= k; break;
    case 6: v = __shfl_xor_sync(~0u, v, 1); a[1] = v; break;
    case 7: a[2] = v * v; v = a[5]; break;
  }
  a[threadIdx.x] = v;
}

__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ __launch_bounds__(128) void calls(int* a) {
  a[threadIdx.x] = fibonacci(a[threadIdx.x]);
}

extern "C" __global__ void parted(float* a, int n) {
  __shared__ float t[32];
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 32) {
    if (a[i] > 0) t[threadIdx.x & 31] = a[i] * 2; else a[i] = 1;
    __syncwarp();
  }
  __syncthreads();
  a[0] = t[3];
}

extern "C" __device__ __noinline__ int through(int (*f)(int), int n) { return f(n); }

extern "C" __global__ void unknown(int* a) {
  a[0] = through(threadIdx.x ? fibonacci : (int (*)(int))a[1], a[2]);
}
