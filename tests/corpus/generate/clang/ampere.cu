// Tensor cores, asynchronous copies and barriers through clang's builtins.
#include "cuda.h"

extern "C" __global__ void wmma(const int* a, const int* b, float* c, int k) {
  int x[8], y[8];
  float sum[8] = {};
  for (int i = 0; i < k; ++i) {
    __hmma_m16n16k16_ld_a(x, a + 128 * i, 16, 0);
    __hmma_m16n16k16_ld_b(y, b + 128 * i, 16, 1);
    __hmma_m16n16k16_mma_f32f32(sum, x, y, sum, 1, 0);
  }
  __hmma_m16n16k16_st_c_f32(c, sum, 16, 0);
}

extern "C" __global__ void copies(const __attribute__((address_space(1))) void* in, int* out, int n) {
  __shared__ int tile[2][64];
  typedef __attribute__((address_space(3))) void* shared;
  for (int i = 0; i < n; ++i) {
    __nvvm_cp_async_cg_shared_global_16((shared)&tile[i & 1][TID & ~3], in);
    __nvvm_cp_async_ca_shared_global_4((shared)&tile[i & 1][TID], in);
    __nvvm_cp_async_commit_group();
    __nvvm_cp_async_wait_group(1);
    BARRIER();
    out[TID] += tile[i & 1][63 - TID];
  }
  __nvvm_cp_async_wait_all();
}

extern "C" __global__ void barriers(int* out) {
  __shared__ long barrier;
  typedef __attribute__((address_space(3))) long* shared;
  if (TID == 0) __nvvm_mbarrier_init_shared((shared)&barrier, NTID);
  BARRIER();
  const long long token = __nvvm_mbarrier_arrive_shared((shared)&barrier);
  while (!__nvvm_mbarrier_test_wait_shared((shared)&barrier, token)) ;
  out[TID] = __nvvm_redux_sync_add(TID, -1) + __nvvm_mbarrier_pending_count(token);
  __nvvm_bar_warp_sync(-1);
}
