// Tensor cores and asynchronous copies, from sm_75 up to what the architecture offers.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_product(const half* a, const half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k = 0; k < 4; ++k) {
    wmma::load_matrix_sync(fa, a + 16 * k, 64);
    wmma::load_matrix_sync(fb, b + 16 * k, 64);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

extern "C" __global__ void ldmatrix_mma(const half* a, float* out) {
  __shared__ half tile[16 * 16];
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  unsigned r0, r1, r2, r3;
  const unsigned address = (unsigned)__cvta_generic_to_shared(&tile[(threadIdx.x & 15) * 16]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(address));
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(r0), "r"(r1), "r"(r2));
  out[threadIdx.x * 4] = d0 + d1 + d2 + d3 + __half2float(tile[r3 & 63]);
}

#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
extern "C" __global__ void async_copies(const float4* in, float4* out) {
  __shared__ float4 tile[128];
  const unsigned address = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(in + threadIdx.x));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
  unsigned sum;
  asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(threadIdx.x));
  if (threadIdx.x == 0) out[0].x = sum;
}
#endif

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
extern "C" __global__ void __cluster_dims__(2, 1, 1) bulk_copies(const void* map, const char* in, float* out) {
  __shared__ alignas(128) char tile[2048];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
  const unsigned address = (unsigned)__cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(bar));
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     address), "l"(map), "r"(0), "r"(8), "r"(bar) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(address),
                 "l"(in), "r"(bar) : "memory");
  }
  asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" ::"r"(bar), "r"(0));
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;");
  unsigned remote, rank;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(remote) : "r"(address));
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out[threadIdx.x] = tile[threadIdx.x] + remote + rank;
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;");
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
extern "C" __global__ void warpgroup_product(float* out, unsigned long long da, unsigned long long db) {
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(da), "l"(db), "r"(1));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
#endif
