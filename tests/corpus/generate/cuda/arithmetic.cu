// Integer and floating point arithmetic, with the slow paths that the compiler writes out.

extern "C" __global__ void bits(const unsigned* in, unsigned* out, unsigned position, unsigned length) {
  const unsigned a = in[threadIdx.x], b = in[threadIdx.x + 32];
  const unsigned long long wide = ((unsigned long long)a << 32) | b;
  unsigned r, s = __popc(a) + __clz(b) + __ffs(a) + __brev(b) + __popcll(wide) + __clzll(wide);
  s += (unsigned)(__brevll(wide) >> 7) + __ffsll(wide);
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(position), "r"(length)); s ^= r;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(position), "r"(length)); s += r;
  asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(a)); s ^= r;
  asm("fns.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(position), "r"(length)); s += r;
  asm("szext.clamp.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(length)); s ^= r;
  asm("bmsk.wrap.b32 %0, %1, %2;" : "=r"(r) : "r"(position), "r"(length)); s += r;
  asm("cnot.b32 %0, %1;" : "=r"(r) : "r"(b)); s ^= r;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(a), "r"(b), "r"(s)); s += r;
  asm("{ .reg .pred p, q; setp.ne.u32 q, %1, 0; lop3.or.b32 %0|p, %1, %2, %3, 0x1f, q; selp.u32 %0, %0, 7, p; }"
      : "=r"(r) : "r"(a), "r"(b), "r"(s)); s ^= r;
  asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(position)); s += r;
  asm("{ .reg .s64 w; bfe.s64 w, %1, 8, %2; cvt.u32.u64 %0, w; }" : "=r"(r) : "l"(wide), "r"(length)); s ^= r;
  s += __byte_perm(a, b, 0x5140) ^ __funnelshift_rc(a, b, position) ^ __funnelshift_l(b, a, 3);
  s += __dp4a((int)a, (int)b, (int)s) ^ __dp4a(a, b, s) ^ __dp2a_lo((int)a, (int)b, (int)s);
  asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(s)); s += r;
  out[threadIdx.x] = s + __sad((int)a, (int)b, s) + __usad(a, b, s) + __mul24((int)a, (int)b) + __umul24(a, b);
}

extern "C" __global__ void carries(const unsigned* a, const unsigned* b, unsigned* out) {
  unsigned r0, r1, r2, r3;
  asm("add.cc.u32 %0, %4, %6;\n\taddc.cc.u32 %1, %5, %7;\n\taddc.u32 %2, 0, 0;\n\tsub.cc.u32 %3, %4, %7;\n\t"
      "subc.u32 %3, %3, 0;"
      : "=&r"(r0), "=&r"(r1), "=&r"(r2), "=&r"(r3) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
  asm("mad.lo.cc.u32 %0, %2, %3, %0;\n\tmadc.hi.cc.u32 %1, %2, %3, %1;\n\tmadc.lo.u32 %1, %2, %3, %1;"
      : "+r"(r0), "+r"(r1) : "r"(a[2]), "r"(b[2]));
  asm("mad24.hi.u32 %0, %1, %2, %0;" : "+r"(r2) : "r"(r0), "r"(r1));
  asm("mad.hi.sat.s32 %0, %1, %2, %0;" : "+r"(r3) : "r"(r0), "r"(r1));
  asm("add.sat.s32 %0, %1, %0;" : "+r"(r3) : "r"(r0));
  asm("slct.s32.f32 %0, %1, %2, %3;" : "=r"(r2) : "r"(r0), "r"(r1), "f"(__uint_as_float(r2)));
  asm("set.lt.and.s32.u32 %0, %1, %2, 0;" : "=r"(r3) : "r"(r0), "r"(r2));
  out[0] = r0; out[1] = r1; out[2] = r2; out[3] = r3;
}

extern "C" __global__ void divisions(int* a, unsigned* b, long long* c, unsigned long long* d, short* e) {
  const int t = threadIdx.x;
  const int x = a[t], y = a[t + 1];
  a[t] = x / y + x % y + x / 7 + x % 10;
  b[t] = b[t] / b[t + 1] + b[t + 2] % b[t + 3] + b[t + 4] / 641u;
  c[t] = c[t] / c[t + 1] + c[t + 2] % c[t + 3] + __mul64hi(c[t], c[t + 1]);
  d[t] = d[t] / d[t + 1] + d[t + 2] % 1000003u + __umul64hi(d[t], d[t + 1]) + __umulhi(b[t], b[t + 1]);
  e[t] = e[t] / e[t + 1] + (signed char)e[t];
}

extern "C" __global__ void wide_integers(unsigned __int128* v) {
  v[0] = v[1] * v[2] + (v[3] >> 17);
  v[4] = v[1] / v[2];
}

extern "C" __global__ void singles(float* v, float x, float y) {
  float s = x / y + __fdiv_rn(y, x) + __frcp_rn(x) + __fsqrt_rn(y) + rsqrtf(x) + sqrtf(y) + 1.0f / x;
  s += sinf(x) * cosf(y) + tanf(x) + expf(y) + logf(x) + powf(x, y) + tanhf(x) + erff(y) + cbrtf(x);
  s += fmodf(x, y) + fminf(s, x) + fmaxf(s, y) + copysignf(s, x) + truncf(x) + rintf(y) + floorf(s) + ceilf(x);
  s += __fmaf_rz(x, y, s) + __fadd_ru(x, y) + __fmul_rd(x, y) + __saturatef(s) + fdimf(x, y) + ldexpf(x, 3);
  s += isnan(x) ? 1.0f : 0.0f;
  s += isinf(y) ? 2.0f : 0.0f;
  float r;
  asm("{ .reg .pred p, q; testp.subnormal.f32 p, %1; setp.ltu.and.f32 p|q, %1, %2, p; selp.f32 %0, %1, %2, q; }"
      : "=f"(r) : "f"(x), "f"(y));
  asm("tanh.approx.f32 %0, %0;" : "+f"(r));
  asm("copysign.f32 %0, %1, %0;" : "+f"(r) : "f"(s));
#if __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %1, %0;" : "+f"(r) : "f"(s));
#endif
  asm("set.le.f32.f32 %0, %1, %0;" : "+f"(r) : "f"(s));
  v[threadIdx.x] = s + r;
}

extern "C" __global__ void doubles(double* v, double x, double y) {
  double s = x / y + __drcp_rn(x) + sqrt(y) + rsqrt(x) + __fma_rn(x, y, 1e-300) + fabs(x) + x * -y;
  s += sin(x) + exp(y) + log(x) + pow(x, 3.0) + fmin(x, y) + trunc(y) + atan2(x, y) + (x < y ? x : 2.0);
  s += __longlong_as_double(__double_as_longlong(x) ^ 1) + (double)(float)y + (double)(long long)x;
  s += __hiloint2double(__double2hiint(x), __double2loint(y));
  v[threadIdx.x] = s;
}

extern "C" __global__ void conversions(float* f, int* i, long long* l, unsigned char* c, double* d) {
  const int t = threadIdx.x;
  f[t] = __int2float_rz(i[t]) + __uint2float_ru((unsigned)i[t]) + __ll2float_rn(l[t]) + (float)c[t] + (float)d[t];
  i[t] = __float2int_rn(f[t]) + __float2int_ru(f[t]) + __double2int_rz(d[t]) + (int)(signed char)c[t];
  l[t] = __float2ll_rd(f[t]) + __double2ll_rn(d[t]) + (long long)i[t];
  c[t] = (unsigned char)f[t];
  d[t] = (double)i[t] + (double)(unsigned long long)l[t];
  int r;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(r) : "r"(i[t]), "r"(i[t + 1]));
  asm("cvt.sat.u8.s32 %0, %1;" : "=r"(i[t + 2]) : "r"(r));
  asm("cvt.rni.ftz.f32.f32 %0, %1;" : "=f"(f[t + 1]) : "f"(f[t]));
}

// Special registers, clocks, and a vector with a sink.
extern "C" __global__ void special(unsigned long long* out) {
  unsigned r;
  unsigned long long w, s = clock() + clock64();
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(r)); s += r;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(w)); s += w;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%pm0;" : "=r"(r)); s += r;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(w)); s += w;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(r)); s += r;
  asm volatile("mov.u32 %0, %%envreg3;" : "=r"(r)); s += r;
  asm volatile("mov.b64 {%0, _}, %1;" : "=r"(r) : "l"(s)); s += r;
  asm volatile("pmevent 3;");
  if (s == 0) __brkpt();
  out[threadIdx.x] = s;
}
