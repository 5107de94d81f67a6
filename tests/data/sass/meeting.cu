// Lanes that leave a loop one after the other, and others that part at a branch.
extern "C" __global__ void meeting(int* a, int n) {
  int t = threadIdx.x, sum = 0;
#pragma unroll 1
  for (int i = 0; i <= (t & 7); ++i) sum += a[i * n];
  if (t & 1) {
    for (int i = 0; i < n; ++i) sum += a[i + sum % 2];
  } else {
    a[t] = sum;
  }
  a[t + 64] = sum * sum;
}
