// Half, bfloat and packed arithmetic.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void half_arithmetic(__half* v, const __half2* w, __half2* out, int n) {
  const __half a = v[threadIdx.x], b = v[threadIdx.x + 1];
  __half s = __hadd(__hmul(a, b), __hfma(a, b, a));
  s = __hsub(__hmax(s, a), __hmin(s, b));
  s = __hdiv(s, hsqrt(b));
  s = hexp(s) + hlog2(a) + hrcp(b) + __habs(s) - hsin(a);
  if (__hlt(a, b) || __hisnan(s)) s = __hneg(s);
  if (a == b) s = __int2half_rn(n);
  v[threadIdx.x] = s;
  __half2 p = w[threadIdx.x], q = w[threadIdx.x + 1];
  p = __hfma2_sat(p, q, __half2half2(s));
  p = __hadd2(p, __hmul2(q, h2rcp(p)));
  p = __hmax2(p, __lowhigh2highlow(q));
  p = h2exp2(p);
  if (__hbgt2(p, q)) p = __hneg2(p);
  p = __hcmadd(p, q, __hgt2(p, q));
  out[threadIdx.x] = __hfma2_relu(p, q, p);
}

extern "C" __global__ void half_conversions(const float* in, __half* h, __nv_bfloat16* b, float* out) {
  const float x = in[threadIdx.x], y = in[threadIdx.x + 1];
  h[threadIdx.x] = __float2half_rz(x);
  b[threadIdx.x] = __float2bfloat16(y);
  const __half2 p = __floats2half2_rn(x, y);
  const __nv_bfloat162 q = __floats2bfloat162_rn(x, y);
  out[threadIdx.x] = __low2float(p) * __high2float(p) + __low2float(q) - __high2float(q) +
                     (float)__half2int_rd(h[0]) + (float)__half2ull_rn(h[1]) + __half2float(__ushort2half_rn(3));
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void bfloat_arithmetic(__nv_bfloat16* v, __nv_bfloat162* w) {
  const __nv_bfloat16 a = v[threadIdx.x], b = v[threadIdx.x + 1];
  v[threadIdx.x] = __hfma(a, b, __hmul(a, a)) - __hmax(a, b) / b + hsqrt(a);
  __nv_bfloat162 p = w[threadIdx.x];
  p = __hfma2(p, p, w[1]);
  p = __hadd2(p, __hmin2_nan(p, w[2]));
  w[threadIdx.x] = __hmul2(p, h2exp(p));
}
#endif

extern "C" __global__ void half_atomics(__half2* sums, __nv_bfloat162* others, __half* one) {
  atomicAdd(sums, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(others, __floats2bfloat162_rn(1.0f, 2.0f));
  atomicAdd(one + threadIdx.x, __float2half(0.5f));
}
