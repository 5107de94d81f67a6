// Video instructions with byte and half selectors, and their SIMD forms.

extern "C" __global__ void video_scalar(const int* in, int* out) {
  const int a = in[threadIdx.x], b = in[threadIdx.x + 32], c = in[threadIdx.x + 64];
  int r, s = 0;
  asm("vadd.s32.s32.s32 %0, %1.b0, %2.h1;" : "=r"(r) : "r"(a), "r"(b)); s += r;
  asm("vsub.s32.u32.s32.sat %0, %1.b3, %2.b1;" : "=r"(r) : "r"(a), "r"(b)); s ^= r;
  asm("vabsdiff.u32.s32.s32.add %0, %1.h0, %2.h1, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vmin.s32.s32.s32.max %0, %1.b2, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vmax.u32.u32.u32 %0.b1, %1.b2, %2.b0, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vshl.u32.u32.u32.wrap %0, %1, %2.b0;" : "=r"(r) : "r"(a), "r"(b)); s ^= r;
  asm("vshr.s32.s32.u32.clamp %0, %1, %2.b0;" : "=r"(r) : "r"(a), "r"(b)); s += r;
  asm("vmad.s32.s32.u32.shr7 %0, %1.h0, %2.b3, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vset.s32.u32.lt.add %0, %1.b1, %2.b1, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  out[threadIdx.x] = s;
}

extern "C" __global__ void video_simd(const int* in, int* out) {
  const int a = in[threadIdx.x], b = in[threadIdx.x + 32], c = in[threadIdx.x + 64];
  int r, s = 0;
  asm("vadd2.s32.s32.s32.sat %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vsub4.s32.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vmin2.s32.s32.s32 %0.h10, %1.h20, %2.h13, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vmax4.u32.u32.u32 %0.b3210, %1.b7531, %2.b6420, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vavrg2.s32.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vavrg4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vset2.s32.s32.ge %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vset4.u32.u32.ne.add %0.b10, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vabsdiff2.s32.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vmin4.s32.s32.s32.add %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vadd4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  asm("vsub2.s32.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s += r;
  asm("vmax2.s32.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); s ^= r;
  out[threadIdx.x] = s;
}

// The SIMD intrinsics of CUDA.
extern "C" __global__ void intrinsics(const unsigned* in, unsigned* out) {
  const unsigned a = in[threadIdx.x], b = in[threadIdx.x + 32];
  unsigned s = __vadd4(a, b) ^ __vsub2(a, b) ^ __vavgu4(a, b) ^ __vabsdiffs4(a, b);
  s += __vmaxs2(a, b) ^ __vminu4(a, b) ^ __vcmpgts4(a, b) ^ __vsetleu2(a, b) ^ __vsadu4(a, b);
  s += __vaddss4(a, b) ^ __vsubus2(a, b) ^ __vneg4(a) ^ __vabsss2(b) ^ __viaddmax_s16x2(a, b, s);
  out[threadIdx.x] = s;
}
