__constant__ unsigned char three[3] = {1, 2, 3};
__constant__ unsigned char one = 4;
__constant__ short half = 5;
__constant__ signed char last[2] = {5, 6};
extern "C" __global__ void counted(float* out) {
  float s = out[0];
#pragma unroll 1
  for (int i = 0; i < three[0]; ++i) s += out[i];
#pragma unroll 1
  for (int i = 0; i < three[2]; ++i) s *= out[i];
#pragma unroll 1
  for (int i = 0; i < one; ++i) s -= out[i];
#pragma unroll 1
  for (int i = 0; i < half; ++i) s = out[i] - s;
#pragma unroll 1
  for (int i = 0; i < last[1]; ++i) s = out[i] + 3 * s;
  out[threadIdx.x] = s;
}
