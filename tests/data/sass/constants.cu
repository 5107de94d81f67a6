__constant__ int limits[4] = {3, 5, 7, 9};
__constant__ int n;
__constant__ unsigned char bytes[4];
__constant__ short pair[2] = {4, 2};
__device__ float table[16];
extern "C" __global__ void counted(float* out) {
  float s = table[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; ++i) s += out[i];
#pragma unroll 1
  for (int i = 0; i < limits[2]; ++i) s *= out[i];
#pragma unroll 1
  for (int i = 0; i < bytes[1]; ++i) s -= out[i];
#pragma unroll 1
  for (int i = 0; i < pair[1]; ++i) s = out[i] - s;
  out[threadIdx.x] = s;
}
