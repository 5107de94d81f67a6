// Inline assembly whose blocks declare the same labels and registers again and again: right only
// when labels and registers belong to their { } block.

__device__ __forceinline__ void wait_parity(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      "  .reg .pred p;\n"
      "LAB_WAIT:\n"
      "  mbarrier.test_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "  @p bra DONE;\n"
      "  bra LAB_WAIT;\n"
      "DONE:\n"
      "}\n" ::"r"(barrier), "r"(parity)
      : "memory");
}

__device__ __forceinline__ unsigned saturating_count(unsigned value, unsigned limit) {
  unsigned result;
  asm volatile(
      "{\n"
      "  .reg .pred p, q;\n"
      "  .reg .u32 t<3>;\n"
      "  mov.u32 t0, 0;\n"
      "  mov.u32 t1, %1;\n"
      "AGAIN:\n"
      "  setp.ge.u32 p, t0, %2;\n"
      "  @p bra DONE;\n"
      "  {\n"
      "    .reg .u32 t1, p;\n"
      "    shl.b32 t1, t0, 1;\n"
      "    or.b32 p, t1, 1;\n"
      "    mov.u32 t0, p;\n"
      "  }\n"
      "  setp.eq.u32 q, t1, 0;\n"
      "  @!q sub.u32 t1, t1, 1;\n"
      "  @!q bra AGAIN;\n"
      "DONE:\n"
      "  mov.u32 %0, t0;\n"
      "}\n"
      : "=r"(result)
      : "r"(value), "r"(limit));
  return result;
}

extern "C" __global__ void wait_twice(unsigned* out, int stages) {
  __shared__ alignas(8) unsigned long long barriers[4];
  const unsigned base = (unsigned)__cvta_generic_to_shared(barriers);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(base + 8 * i), "r"(blockDim.x));
  }
  __syncthreads();
  for (int s = 0; s < stages; ++s) {
    const unsigned barrier = base + 8 * (s % 4);
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(barrier));
    wait_parity(barrier, (s / 4) & 1);
  }
  wait_parity(base, 0);
  wait_parity(base + 8, 1);
  out[threadIdx.x] = saturating_count(threadIdx.x, 100) + saturating_count(blockIdx.x, 7);
}

// A lock by compare and swap, released by an exchange.
extern "C" __global__ void spin_lock(unsigned* lock, unsigned* counter) {
  if (threadIdx.x % 32 == 0) {
    asm volatile(
        "{\n"
        "  .reg .pred p;\n"
        "  .reg .b32 old;\n"
        "LAB_WAIT:\n"
        "  atom.acquire.gpu.global.cas.b32 old, [%0], 0, 1;\n"
        "  setp.ne.b32 p, old, 0;\n"
        "  @p nanosleep.u32 20;\n"
        "  @p bra LAB_WAIT;\n"
        "}\n" ::"l"(__cvta_generic_to_global(lock))
        : "memory");
    *counter += 1;
    asm volatile("st.release.gpu.global.u32 [%0], 0;" ::"l"(__cvta_generic_to_global(lock)) : "memory");
  }
}

// An instruction spread over lines, several on one line, comments in between.
extern "C" __global__ void layout(int* out) {
  int a = threadIdx.x, b;
  asm volatile("{ .reg .pred /* a predicate */ p; setp.gt.s32 p, %1, 3; @ !\tp\tadd.s32 %0, %1, 1; @p\n"
               "    add // two lines\n"
               "      .s32 %0,\n"
               "      %1,\n"
               "      2; }"
               : "=r"(b)
               : "r"(a));
  out[a] = b;
}
