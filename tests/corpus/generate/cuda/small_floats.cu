// Conversions between float and the 8-, 6- and 4-bit floating types.
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

extern "C" __global__ void fp8(const float4* in, __nv_fp8x4_e4m3* a, __nv_fp8x2_e5m2* b, float4* out) {
  const float4 v = in[threadIdx.x];
  a[threadIdx.x] = __nv_fp8x4_e4m3(v);
  b[threadIdx.x] = __nv_fp8x2_e5m2(make_float2(v.x, v.y));
  const float4 back = (float4)a[threadIdx.x + 1];
  const __half2 h = (__half2)__nv_cvt_fp8x2_to_halfraw2(b[threadIdx.x + 1].__x, __NV_E5M2);
  out[threadIdx.x] = make_float4(back.x, back.y, __low2float(h), __high2float(h));
}

extern "C" __global__ void fp6_fp4(const float2* in, __nv_fp6x2_e2m3* a, __nv_fp4x2_e2m1* b, float2* out) {
  const float2 v = in[threadIdx.x];
  a[threadIdx.x] = __nv_fp6x2_e2m3(v);
  b[threadIdx.x] = __nv_fp4x2_e2m1(v);
  const float2 x = (float2)a[threadIdx.x + 1], y = (float2)b[threadIdx.x + 1];
  out[threadIdx.x] = make_float2(x.x + y.y, x.y - y.x);
}
