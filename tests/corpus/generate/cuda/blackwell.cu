// Tensor memory and fifth-generation tensor products, packed float arithmetic, wide loads, launch control.
#include <cuda/ptx>
namespace ptx = cuda::ptx;

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void __launch_bounds__(128) tensor_memory(float* out, unsigned long long a, unsigned long long b, unsigned description) {
  __shared__ unsigned base;
  __shared__ alignas(8) uint64_t done;
  if (threadIdx.x < 32) {
    ptx::tcgen05_alloc(ptx::cta_group_1, &base, 128);
    ptx::tcgen05_relinquish_alloc_permit(ptx::cta_group_1);
  }
  if (threadIdx.x == 0) ptx::mbarrier_init(&done, 1);
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();
  const unsigned memory = base;
  if (threadIdx.x == 0) {
    for (int k = 0; k < 4; ++k) ptx::tcgen05_mma(ptx::kind_f16, ptx::cta_group_1, memory, a + 2 * k, b + 2 * k, description, k > 0);
    ptx::tcgen05_cp_128x256b(ptx::cta_group_1, memory + 64, a);
    asm volatile("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%0], %1, %2, %3, [%4], [%5], 1;"
                 ::"r"(memory), "l"(a), "l"(b), "r"(description), "r"(memory + 64), "r"(memory + 72));
    asm volatile("tcgen05.mma.ws.cta_group::1.kind::tf32 [%0], [%1], %2, %3, 0;" ::"r"(memory), "r"(memory + 32), "l"(b), "r"(description));
    ptx::tcgen05_commit(ptx::cta_group_1, &done);
    asm volatile("tcgen05.shift.cta_group::1.down [%0];" ::"r"(memory));
  }
  while (!ptx::mbarrier_try_wait_parity(&done, 0)) {}
  unsigned v[8];
  ptx::tcgen05_ld_32x32b(*(unsigned(*)[8])v, memory);
  ptx::tcgen05_wait_ld();
  for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = __uint_as_float(v[i]);
  ptx::tcgen05_st_32x32b(memory + 8, *(const unsigned(*)[8])v);
  ptx::tcgen05_wait_st();
  unsigned w;
  asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x1.b32 {%0}, [%1], 8;" : "=r"(w) : "r"(memory));
  asm volatile("tcgen05.wait::ld.sync.aligned;");
  out[threadIdx.x] += w;
  __syncthreads();
  if (threadIdx.x < 32) ptx::tcgen05_dealloc(ptx::cta_group_1, memory, 128);
}

extern "C" __global__ void packed(float2* v, const float* wide, float* out) {
  float2 a = v[threadIdx.x];
  unsigned long long x = *(unsigned long long*)&a, y, z;
  asm("add.rn.f32x2 %0, %1, %1;" : "=l"(y) : "l"(x));
  asm("fma.rn.ftz.f32x2 %0, %1, %2, %1;" : "=l"(z) : "l"(x), "l"(y));
  asm("mul.rn.f32x2 %0, %1, %0;" : "+l"(z) : "l"(x));
  v[threadIdx.x] = *(float2*)&z;
  float r[8];
  asm volatile("ld.global.L1::no_allocate.L2::evict_first.v8.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3]), "=f"(r[4]), "=f"(r[5]), "=f"(r[6]), "=f"(r[7]) : "l"(wide));
  float m;
  asm("max.NaN.f32 %0, %1, %2, %3;" : "=f"(m) : "f"(r[0]), "f"(r[1]), "f"(r[2]));
  asm("add.f32.bf16 %0, %1, %0;" : "+f"(m) : "h"((short)3));
  asm volatile("st.global.v8.b32 [%0], {%1,%1,%2,%2,%3,%3,%4,%4};" ::"l"(out), "r"(1), "r"(2), "r"(3), "r"(4));
  out[threadIdx.x] = m + r[3] + r[4] + r[5] + r[6] + r[7];
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) launch_control(int* out) {
  __shared__ alignas(16) uint4 answer;
  __shared__ alignas(8) uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                 ::"r"(shared_address(&answer)), "r"(shared_address(&bar)));
    ptx::mbarrier_arrive_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &bar, 16);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  int x, y, z;
  asm volatile("{\n.reg .pred p;\n.reg .b128 r;\nld.shared.b128 r, [%3];\n"
               "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r;\n"
               "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0,%1,%2,_}, r;\n"
               "@!p mov.u32 %0, -1;\n}"
               : "=r"(x), "=r"(y), "=r"(z) : "r"(shared_address(&answer)));
  asm volatile("st.bulk.weak.shared::cta [%0], 16, 0;" ::"r"(shared_address(&answer)));
  out[threadIdx.x] = x + y + z;
}
