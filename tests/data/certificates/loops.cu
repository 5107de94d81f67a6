// Loops that data end, each bounded by a certificate. Compiled by build.sh.
#define KERNEL extern "C" __global__ void

KERNEL digits(int *out, const int *in) {
  int x = in[threadIdx.x], count = 0;
  while (x) { x /= 10; count++; }
  out[threadIdx.x] = count;
}
KERNEL digits_long(int *out, const long long *in) {
  long long x = in[threadIdx.x]; int count = 0;
  while (x) { x /= 10; count++; }
  out[threadIdx.x] = count;
}
KERNEL thirds(int *out, const int *in) {
  int x = in[threadIdx.x], sum = 0;
  while (x) { sum += x % 3; x /= 3; }
  out[threadIdx.x] = sum;
}
KERNEL ffs_and(int *out, const unsigned *in) {
  unsigned x = in[threadIdx.x]; int sum = 0;
  while (x) { int b = __ffs(x) - 1; sum += out[b]; x &= ~(1u << b); }
  out[threadIdx.x] = sum;
}
KERNEL ffs_minus(int *out, const unsigned *in) {
  unsigned x = in[threadIdx.x]; int sum = 0;
  while (x) { int b = __ffs(x) - 1; sum += out[b]; x -= 1u << b; }
  out[threadIdx.x] = sum;
}
KERNEL ffs_xor(int *out, const unsigned *in) {
  unsigned x = in[threadIdx.x]; int sum = 0;
  while (x) { int b = __ffs(x) - 1; sum += out[b]; x ^= 1u << b; }
  out[threadIdx.x] = sum;
}
KERNEL clz_and(int *out, const unsigned *in) {
  unsigned x = in[threadIdx.x]; int sum = 0;
  while (x) { int b = 31 - __clz(x); sum += out[b]; x &= ~(1u << b); }
  out[threadIdx.x] = sum;
}
KERNEL clz_minus(int *out, const unsigned *in) {
  unsigned x = in[threadIdx.x]; int sum = 0;
  while (x) { int b = 31 - __clz(x); sum += out[b]; x -= 1u << b; }
  out[threadIdx.x] = sum;
}
KERNEL ffs_long(int *out, const unsigned long long *in) {
  unsigned long long x = in[threadIdx.x]; int sum = 0;
  while (x) { int b = __ffsll(x) - 1; sum += out[b]; x &= ~(1ull << b); }
  out[threadIdx.x] = sum;
}
KERNEL sift_down(int *a, int n) {
  int i = 0;
  while (2 * i + 1 < n) {
    int child = 2 * i + 1;
    if (child + 1 < n && a[child + 1] > a[child]) child++;
    if (a[i] >= a[child]) break;
    int t = a[i]; a[i] = a[child]; a[child] = t;
    i = child;
  }
}
KERNEL doubled(int *out, int n) {
  int sum = 0;
  for (int i = 1; i < n; i *= 2) sum += out[i];
  out[0] = sum;
}
KERNEL shifted(unsigned *out, unsigned n) {
  unsigned sum = 0;
  for (unsigned i = 1; i < n; i <<= 1) sum += out[i];
  out[0] = sum;
}
KERNEL doubled_from_data(int *out, const int *in, int n) {
  int sum = 0;
  for (int i = (in[0] & 15) + 1; i < n; i *= 2) sum += out[i];
  out[0] = sum;
}
KERNEL averages(int *out, const int *in) {
  int x = in[0] & 1023, y = in[1] & 1023, count = 0;
  while (x < y) { x = (x + y + 1) / 2; count += out[x]; }
  out[0] = count;
}
KERNEL short_counter(int *out, const short *in, const int *data) {
  short n = in[threadIdx.x]; int sum = 0, k = 0;
  while (n > 0) { sum += data[k]; n -= 1 + (data[k++] & 3); }
  out[threadIdx.x] = sum;
}
KERNEL unsigned_short_counter(int *out, const unsigned short *in, const int *data) {
  unsigned short n = in[threadIdx.x]; int sum = 0, k = 0;
  while (n > 4) { sum += data[k]; n -= 1 + (data[k++] & 3); }
  out[threadIdx.x] = sum;
}
KERNEL root(volatile unsigned *p) { unsigned n = p[0]; if (n < 2 || n > 4000000000u) return; unsigned x = n / 2, y = (x + n / x) / 2; while (y < x) { x = y; y = (x + n / x) / 2; } p[1] = x; }
KERNEL root_signed(volatile int *p) { int n = p[0]; if (n <= 1 || n > 1000000) return; int x = n, y = (x + 1) / 2; while (y < x) { x = y; y = (x + n / x) / 2; } p[1] = x; }
KERNEL common_swapped(volatile unsigned *p) { unsigned a = p[0], b = p[1]; if (a == 0 || b == 0) return; a >>= __ffs(a) - 1; while (b != 0) { b >>= __ffs(b) - 1; if (a > b) { unsigned t = a; a = b; b = t; } b -= a; p[3] = b; } p[2] = a; }
KERNEL lower_by_test(volatile unsigned *p) { unsigned x, y = p[0] & 1023; do { x = y; y = p[1]; } while (y < x); p[2] = x; }
