// Clusters, tensor memory access, transaction barriers, warpgroup products, register hand-over.
#include <cuda/ptx>
#include <cuda/barrier>
#include <cuda.h>
namespace ptx = cuda::ptx;

__device__ __forceinline__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ bool elected() {
  unsigned chosen;
  asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
  return chosen != 0;
}

// Producer warp and consumer warps over a ring of stages, tiles fetched by the copy engine.
extern "C" __global__ void __launch_bounds__(256) tma_pipeline(const __grid_constant__ CUtensorMap map, float* out, int tiles) {
  constexpr int stages = 3;
  __shared__ alignas(128) float tile[stages][64 * 32];
  __shared__ alignas(8) uint64_t full[stages], empty[stages];
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map));
    for (int s = 0; s < stages; ++s) {
      ptx::mbarrier_init(&full[s], 1);
      ptx::mbarrier_init(&empty[s], 7);
    }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (warp == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (elected()) {
      for (int i = 0; i < tiles; ++i) {
        const int s = i % stages, round = i / stages;
        while (!ptx::mbarrier_try_wait_parity(&empty[s], (round & 1) ^ 1)) {}
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[s], sizeof(tile[0]));
        const int at[2] = {i * 32, (int)blockIdx.x * 64};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, tile[s], &map, at, &full[s]);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
    float sum = 0.0f;
    for (int i = 0; i < tiles; ++i) {
      const int s = i % stages;
      while (!ptx::mbarrier_try_wait_parity(ptx::sem_acquire, ptx::scope_cta, &full[s], (i / stages) & 1)) {}
      for (int j = threadIdx.x - 32; j < 64 * 32; j += 224) sum += tile[s][j];
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&empty[s]);
    }
    atomicAdd(out, sum);
  }
}

extern "C" __global__ void bulk_copies(const __grid_constant__ CUtensorMap map, float* global, const float* source) {
  __shared__ alignas(128) float buffer[1024];
  __shared__ alignas(8) uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_proxy_async(ptx::space_shared);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, buffer, source, 1024u, &bar);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 1024);
    while (!ptx::mbarrier_try_wait_parity(&bar, 0u, 1000u)) {}
    const int at[3] = {1, 2, 3};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &map, at, buffer);
    ptx::cp_reduce_async_bulk_tensor(ptx::space_global, ptx::space_shared, ptx::op_add, &map, at, buffer);
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, global, buffer, 512u);
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, global + 512, buffer, 512u);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" ::"l"(__cvta_generic_to_global(source)));
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %1, %1}];" ::"l"(&map), "r"(5));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
                 " [%0], [%1, {%2, %2, %2, %2}], [%3], {%4, %4}, %5, %6;"
                 ::"r"(shared_address(buffer)), "l"(&map), "r"(0), "r"(shared_address(&bar)), "h"((short)1), "h"((short)3), "l"(0ull));
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2,%2,%2,%2,%2}], [%3];"
                 ::"r"(shared_address(buffer)), "l"(&map), "r"(0), "r"(shared_address(&bar)));
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(shared_address(&bar)));
  }
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) clusters(int* out, const int* in) {
  __shared__ int values[64];
  __shared__ alignas(8) uint64_t bar;
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 4);
  values[threadIdx.x % 64] = in[threadIdx.x];
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  unsigned rank, other, remote_bar;
  int v;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(shared_address(values)), "r"(rank ^ 1));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote_bar) : "r"(shared_address(&bar)), "r"(0));
  asm volatile("ld.shared::cluster.s32 %0, [%1+8];" : "=r"(v) : "r"(other));
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_bar));
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 16;" ::"r"(shared_address(&bar)));
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [%0], {%1, %1}, [%2];" ::"r"(other), "r"(v), "r"(remote_bar));
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(other), "r"(v), "r"(remote_bar));
  asm volatile("atom.shared::cluster.add.s32 %0, [%1], 3;" : "=r"(v) : "r"(other));
  asm volatile("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.s32 %0, 1, %0, p; }" : "+r"(v) : "l"(values));
  asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(other));
  asm volatile("barrier.cluster.arrive.relaxed;\n\tbarrier.cluster.wait;");
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
  out[threadIdx.x] = v + rank;
}

extern "C" __global__ void __launch_bounds__(128) warpgroup(float* out, unsigned long long a, unsigned long long b, int k) {
  float d[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) d[i] = 0.0f;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int i = 0; i < k; ++i) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
        " %16, %17, p, 1, 1, 0, 1;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a + 2 * i), "l"(b + 2 * i), "r"(i));
  }
  asm volatile("wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 1;\n\twgmma.wait_group.sync.aligned 0;" ::: "memory");
  unsigned r0 = threadIdx.x, r1 = 1, r2 = 2, r3 = 3;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e5m2 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},"
      " {%16,%17,%18,%19}, %20, p, 1, -1;\n}\n"
      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "r"(r0), "r"(r1), "r"(r2), "r"(r3), "l"(b), "r"(k));
#pragma unroll
  for (int i = 0; i < 16; ++i) out[threadIdx.x * 16 + i] = d[i];
}

extern "C" __global__ void multimem_and_maps(float* multicast, float* out, unsigned char* map, const unsigned char* staged) {
  float a, b, c, d;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(multicast));
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(multicast), "f"(a), "f"(b), "f"(c), "f"(d));
  asm volatile("multimem.red.release.gpu.global.add.f32 [%0], %1;" ::"l"(multicast + 4), "f"(a));
  asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(out));
  asm volatile("tensormap.replace.tile.rank.global.b1024.b32 [%0], 2;" ::"l"(map));
  asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 0, %1;" ::"l"(map), "r"(64));
  asm volatile("fence.proxy.tensormap::generic.release.gpu;\n\tfence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map));
  asm volatile("fence.proxy.alias;\n\tfence.acq_rel.cluster;\n\tfence.sc.sys;\n\tmembar.gl;");
  asm volatile("discard.global.L2 [%0], 128;\n\tapplypriority.global.L2::evict_normal [%0], 128;" ::"l"(staged));
  out[threadIdx.x] = a + b + c + d;
}
