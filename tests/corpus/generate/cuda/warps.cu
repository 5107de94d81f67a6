// Warp-wide operations, named barriers, sleeping.

extern "C" __global__ void warp_operations(const int* in, int* out, float x) {
  const int v = in[threadIdx.x];
  const unsigned active = __activemask();
  int s = __shfl_sync(active, v, 3) + __shfl_up_sync(active, v, 1) + __shfl_down_sync(active, v, 2, 16);
  s += __shfl_xor_sync(0xffffffffu, v, 16, 8);
  s += (int)__shfl_sync(active, (double)v, 5) + (int)__shfl_sync(active, (long long)v, 1);
  s += __any_sync(active, v > 0) + __all_sync(active, v < 9) + __uni_sync(active, v == 2) + __popc(__ballot_sync(active, v & 1));
  s += __match_any_sync(active, v);
  int all;
  s += __match_all_sync(active, (long long)v, &all) + all;
#if __CUDA_ARCH__ >= 800
  s += __reduce_add_sync(active, v) + __reduce_min_sync(active, v) + __reduce_max_sync(active, (unsigned)v);
  s ^= __reduce_xor_sync(active, (unsigned)v) & __reduce_or_sync(active, (unsigned)v) ^ __reduce_and_sync(active, (unsigned)v);
#endif
#if __CUDA_ARCH__ >= 1000
  float least;
  asm("redux.sync.min.abs.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(x), "r"(active));
  s += (int)least;
#endif
  int y;
  asm volatile("{ .reg .pred p; shfl.sync.idx.b32 %0|p, %1, 2, 31, -1; @!p mov.u32 %0, %1; }" : "=r"(y) : "r"(v));
  asm volatile("{ .reg .pred p; setp.gt.f32 p, %1, 0f00000000; vote.sync.ballot.b32 %0, !p, -1; }" : "=r"(s) : "f"(x));
  __syncwarp();
  __syncwarp(0x0000ffffu);
  out[threadIdx.x] = s + y;
}

extern "C" __global__ void block_barriers(const int* in, int* out) {
  const int v = in[threadIdx.x];
  int s = __syncthreads_count(v > 0) + __syncthreads_and(v > 1) + __syncthreads_or(v > 2);
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    asm volatile("bar.arrive 2, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(2), "r"(128) : "memory");
  }
  asm volatile("barrier.sync 3;");
  asm volatile("barrier.cta.sync.aligned 4, %0;" ::"r"(blockDim.x));
  asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; bar.red.and.pred q, 5, p; barrier.red.popc.u32 %0, 6, 128, !q; }"
               : "+r"(s) : "r"(v));
  __nanosleep(s);
  out[threadIdx.x] = s;
}
