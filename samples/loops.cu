// One shape of counted loop a kernel. All bounds follow from the parameters and the launch.
#define KEEP _Pragma("unroll 1")

extern "C" __global__ void loop_up(float* data, int n) {
  float s = 0;
  KEEP for (int i = 0; i < n; ++i) s += data[i];
  data[0] = s;
}

extern "C" __global__ void loop_down(float* data, int n) {
  float s = 0;
  KEEP for (int i = n; i > 0; --i) s += data[i];
  data[0] = s;
}

extern "C" __global__ void loop_strided(float* data, int n) {
  float s = 0;
  KEEP for (int i = 3; i < n; i += 7) s += data[i];
  data[0] = s;
}

extern "C" __global__ void loop_shifted(float* data, int n) {
  float s = 0;
  KEEP for (int d = n; d > 0; d >>= 1) s += data[d];
  data[0] = s;
}

extern "C" __global__ void loop_multiplied(float* data, unsigned n) {
  float s = 0;
  KEEP for (unsigned i = 1; i < n; i *= 3) s += data[i];
  data[0] = s;
}

extern "C" __global__ void loop_while(float* data, int n) {
  float s = 0;
  int i = 0;
  KEEP while (i != n) { s += data[i]; ++i; }
  data[0] = s;
}

extern "C" __global__ void loop_do_while(float* data, int n) {
  float s = 0;
  int i = 0;
  KEEP do { s += data[i]; i += 2; } while (i < n);
  data[0] = s;
}

extern "C" __global__ void loop_unrolled(float* data, int n) {
  float s = 0;
#pragma unroll 4
  for (int i = 0; i < n; ++i) s = s * 0.5f + data[i];
  data[0] = s;
}

extern "C" __global__ void loop_nested(float* data, int n, int m) {
  float s = 0;
  KEEP for (int i = 0; i < n; ++i) { KEEP for (int j = 0; j < m; ++j) s += data[i * m + j]; }
  data[0] = s;
}

extern "C" __global__ void loop_triangular(float* data, int n) {
  float s = 0;
  KEEP for (int i = 0; i < n; ++i) { KEEP for (int j = i; j < n; ++j) s += data[i * n + j]; }
  data[0] = s;
}

extern "C" __global__ void loop_step(float* data, int n, int step) {
  float s = 0;
  KEEP for (int i = 0; i < n; i += step) s += data[i];
  data[0] = s;
}

extern "C" __global__ void loop_unsigned(float* data, unsigned n) {
  float s = 0;
  KEEP for (unsigned i = 0; i < n; ++i) s += data[i];
  data[0] = s;
}

extern "C" __global__ void loop_wide(float* data, long long n) {
  float s = 0;
  KEEP for (long long i = 0; i < n; ++i) s += data[i];
  data[0] = s;
}

extern "C" __global__ void loop_block_stride(float* data, int n) {
  KEEP for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] *= 2.0f;
}

extern "C" __global__ void loop_threads(float* data, int n) {
  float s = 0;
  KEEP for (int i = 0; i < (int)threadIdx.x; ++i) s += data[i];
  data[n] = s;
}
// The early exit depends on data: refused without --loop-bound.
extern "C" __global__ void loop_break(float* data, int n) {
  int i = 0;
  KEEP for (; i < n; ++i) if (data[i] < 0.0f) break;
  data[0] = i;
}
