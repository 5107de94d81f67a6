// Divisions of 32 bits: what ptxas makes of them is a reciprocal and corrections.
#define KERNEL extern "C" __global__ void

KERNEL unsigned_ones(const unsigned* a, const unsigned* b, unsigned* out) {
  unsigned t = threadIdx.x, n = a[t], d = b[t];
  out[t] = n / d;
  out[t + 256] = d % n;
}
KERNEL signed_ones(const int* a, const int* b, int* out) {
  int t = threadIdx.x, n = a[t], d = b[t];
  out[t] = n / d;
  out[t + 256] = d % n;
}
// by a parameter in a loop, of a constant, by the size of the block
KERNEL others(const unsigned* a, unsigned* out, unsigned d, int times) {
  unsigned t = threadIdx.x, n = a[t], sum = 0;
#pragma unroll 1
  for (int i = 0; i < times; ++i) {
    unsigned q = n / d;
    sum += q * 3 + n % d;
    n = n * 5 + i;
  }
  out[t] = sum;
  out[t + 256] = 1000000u / (a[t] | 1) + a[t] / blockDim.x;
}
// Euclid's algorithm
KERNEL divisor(const int* a, const int* b, int* out) {
  int t = threadIdx.x, n = a[t], d = b[t];
  while (d) {
    int rest = n % d;
    n = d;
    d = rest;
  }
  out[t] = n;
}
