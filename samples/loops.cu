// One shape of counted loop a kernel. All bounds follow from the parameters and the launch.
#define KEEP _Pragma("unroll 1")
#define KERNEL(name, ...) extern "C" __global__ void name(float* data, __VA_ARGS__)

KERNEL(loop_up, int n) { float s = 0; KEEP for (int i = 0; i < n; ++i) s += data[i]; data[0] = s; }
KERNEL(loop_down, int n) { float s = 0; KEEP for (int i = n; i > 0; --i) s += data[i]; data[0] = s; }
KERNEL(loop_strided, int n) { float s = 0; KEEP for (int i = 3; i < n; i += 7) s += data[i]; data[0] = s; }
KERNEL(loop_shifted, int n) { float s = 0; KEEP for (int d = n; d > 0; d >>= 1) s += data[d]; data[0] = s; }
KERNEL(loop_multiplied, unsigned n) {
  float s = 0;
  KEEP for (unsigned i = 1; i < n; i *= 3) s += data[i];
  data[0] = s;
}
KERNEL(loop_while, int n) {
  float s = 0;
  int i = 0;
  KEEP while (i != n) { s += data[i]; ++i; }
  data[0] = s;
}
KERNEL(loop_do_while, int n) {
  float s = 0;
  int i = 0;
  KEEP do { s += data[i]; i += 2; } while (i < n);
  data[0] = s;
}
KERNEL(loop_unrolled, int n) {
  float s = 0;
#pragma unroll 4
  for (int i = 0; i < n; ++i) s = s * 0.5f + data[i];
  data[0] = s;
}
KERNEL(loop_nested, int n, int m) {
  float s = 0;
  KEEP for (int i = 0; i < n; ++i) { KEEP for (int j = 0; j < m; ++j) s += data[i * m + j]; }
  data[0] = s;
}
KERNEL(loop_triangular, int n) {
  float s = 0;
  KEEP for (int i = 0; i < n; ++i) { KEEP for (int j = i; j < n; ++j) s += data[i * n + j]; }
  data[0] = s;
}
KERNEL(loop_step, int n, int step) { float s = 0; KEEP for (int i = 0; i < n; i += step) s += data[i]; data[0] = s; }
KERNEL(loop_unsigned, unsigned n) { float s = 0; KEEP for (unsigned i = 0; i < n; ++i) s += data[i]; data[0] = s; }
KERNEL(loop_wide, long long n) { float s = 0; KEEP for (long long i = 0; i < n; ++i) s += data[i]; data[0] = s; }
KERNEL(loop_block_stride, int n) {
  KEEP for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] *= 2.0f;
}
KERNEL(loop_threads, int n) {
  float s = 0;
  KEEP for (int i = 0; i < (int)threadIdx.x; ++i) s += data[i];
  data[n] = s;
}
// The early exit depends on data: refused without --loop-bound.
KERNEL(loop_break, int n) {
  int i = 0;
  KEEP for (; i < n; ++i) if (data[i] < 0.0f) break;
  data[0] = i;
}
