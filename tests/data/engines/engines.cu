// Tensor copies, arrivals of small copies, warpgroups that hand registers over. See build.sh.
#include <cstdint>
#include <cuda.h>

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void init(uint64_t *barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}

__device__ __forceinline__ void arrive(uint64_t *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ __forceinline__ void arrive_expecting(uint64_t *barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void wait(uint64_t *barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred P1;\n"
      "LAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
      "@P1 bra DONE;\n"
      "bra LAB_WAIT;\n"
      "DONE:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void copy_box(void *to, const void *map, int x, int y,
                                         uint64_t *barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ void copy_box_out(const void *map, int x, int y, const void *from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group 0;" ::"l"(map),
      "r"(x), "r"(y), "r"(shared_address(from))
      : "memory");
}

__device__ __forceinline__ void ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
}

// One thread has the engine load boxes of 64 x 4 floats, three warps add them up: four stages.
template <int KERNEL>  // so that each kernel has variables of its own
__device__ __forceinline__ void ring(const void *map, float *out, int tiles) {
  __shared__ alignas(128) float stage[4][256];
  __shared__ uint64_t full[4], empty[4];
  if (threadIdx.x == 0)
    for (int s = 0; s < 4; ++s) {
      init(&full[s], 1);
      init(&empty[s], 3);
    }
  ready();
  int s = 0, parity = 0;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      for (int i = 0; i < tiles; ++i) {
        wait(&empty[s], parity ^ 1);
        arrive_expecting(&full[s], 1024);
        copy_box(stage[s], map, 0, 4 * i, &full[s]);
        if (++s == 4) {
          s = 0;
          parity ^= 1;
        }
      }
  } else {
    float sum = 0;
    int t = threadIdx.x - 32;
    for (int i = 0; i < tiles; ++i) {
      wait(&full[s], parity);
      for (int k = t; k < 256; k += 96) sum += stage[s][k];
      __syncwarp();
      if (t % 32 == 0) arrive(&empty[s]);
      if (++s == 4) {
        s = 0;
        parity ^= 1;
      }
    }
    out[blockIdx.x * 96 + t] = sum;
  }
}

extern "C" __global__ void tensor_ring(const __grid_constant__ CUtensorMap in, float *out,
                                       int tiles) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&in) : "memory");
  ring<0>(&in, out, tiles);
}

// The map lies in memory.
extern "C" __global__ void tensor_ring_by_pointer(const CUtensorMap *in, float *out, int tiles) {
  ring<1>(in, out, tiles);
}

struct Problem {
  int x;
  CUtensorMap maps[2];
  int y;
};

// A box in, doubled, and out again by another map; both lie in a struct.
extern "C" __global__ void there_and_back(const __grid_constant__ Problem problem) {
  __shared__ alignas(128) float box[1024];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, 1);
  ready();
  if (threadIdx.x == 0) {
    arrive_expecting(&full, 4096);
    copy_box(box, &problem.maps[0], problem.x, problem.y, &full);
  }
  wait(&full, 0);
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) box[i] *= 2;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) copy_box_out(&problem.maps[1], problem.x, problem.y, box);
}

// Which of two maps it is depends on data.
extern "C" __global__ void either(const __grid_constant__ CUtensorMap a,
                                  const __grid_constant__ CUtensorMap b, const int *which) {
  __shared__ alignas(128) float box[1024];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, 1);
  ready();
  if (threadIdx.x == 0) {
    arrive_expecting(&full, 4096);
    copy_box(box, *which ? &a : &b, 0, 0, &full);
  }
  wait(&full, 0);
}

__device__ __forceinline__ void copy_word(void *to, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}

__device__ __forceinline__ void arrive_behind_copies(uint64_t *barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                   shared_address(barrier))
               : "memory");
}

// Each thread of a warp copies two words of a tile, and has the mbarrier told when they are there.
extern "C" __global__ void small_ring(const float *in, float *out, int tiles) {
  __shared__ alignas(128) float stage[2][64];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0)
    for (int s = 0; s < 2; ++s) {
      init(&full[s], 32);
      init(&empty[s], 32);
    }
  __syncthreads();
  int s = 0, parity = 0;
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles; ++i) {
      wait(&empty[s], parity ^ 1);
      for (int k = threadIdx.x; k < 64; k += 32) copy_word(&stage[s][k], in + i * 64 + k);
      arrive_behind_copies(&full[s]);
      if (++s == 2) {
        s = 0;
        parity ^= 1;
      }
    }
  } else {
    float sum = 0;
    int t = threadIdx.x - 32;
    for (int i = 0; i < tiles; ++i) {
      wait(&full[s], parity);
      for (int k = t; k < 64; k += 32) sum += stage[s][k];
      arrive(&empty[s]);
      if (++s == 2) {
        s = 0;
        parity ^= 1;
      }
    }
    out[blockIdx.x * 32 + t] = sum;
  }
}

// The number of arrivals that are expected grows first: not followed.
extern "C" __global__ void small_copies_counted(const float *in, float *out) {
  __shared__ float stage[32];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, 32);
  __syncthreads();
  copy_word(&stage[threadIdx.x], in + threadIdx.x);
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(shared_address(&full)));
  arrive(&full);
  wait(&full, 0);
  out[threadIdx.x] = stage[31 - threadIdx.x];
}

__device__ __forceinline__ void copy_tile(void *to, const void *from, int bytes, uint64_t *barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// A warpgroup that loads gives up registers, two that compute take them.
extern "C" __global__ void __launch_bounds__(384, 1)
    specialised(const float *in, float *out, int tiles) {
  __shared__ alignas(128) float stage[2][256];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0)
    for (int s = 0; s < 2; ++s) {
      init(&full[s], 1);
      init(&empty[s], 256);
    }
  __syncthreads();
  int s = 0, parity = 0;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int i = 0; i < tiles; ++i) {
        wait(&empty[s], parity ^ 1);
        arrive_expecting(&full[s], 1024);
        copy_tile(stage[s], in + i * 256, 1024, &full[s]);
        if (++s == 2) {
          s = 0;
          parity ^= 1;
        }
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float sum = 0;
    int t = threadIdx.x - 128;
    for (int i = 0; i < tiles; ++i) {
      wait(&full[s], parity);
      sum += stage[s][t];
      arrive(&empty[s]);
      if (++s == 2) {
        s = 0;
        parity ^= 1;
      }
    }
    out[blockIdx.x * 256 + t] = sum;
  }
}

// Nobody gives up what is taken.
extern "C" __global__ void __launch_bounds__(128, 1) takes_alone(float *out) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  out[threadIdx.x] = 1;
}

// It is given up by a half of a warp, as is known of no kernel that does anything defined.
extern "C" __global__ void __launch_bounds__(256, 1) half_a_warp(float *out) {
  if (threadIdx.x < 112) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  if (threadIdx.x >= 128) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  out[threadIdx.x] = 1;
}

// A tile of 64 columns of 16-bit numbers, in rows of 128 bytes, swizzled as its tensor map says.
__device__ __forceinline__ uint64_t described(const void *tile) {
  uint64_t at = (shared_address(tile) & 0x3FFFF) >> 4;
  return at | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

__device__ __forceinline__ void multiply(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b));
}

// A tile of C, 128 x 64, is the sum over k of products of boxes of A, 128 x 64, and B, 64 x 64
// (transposed). A warpgroup gives up registers and has the engine copy the boxes into a ring of
// four stages, two take registers and multiply.
extern "C" __global__ void __launch_bounds__(384, 1)
    tensor_gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                float *c, int tiles) {
  extern __shared__ __align__(1024) unsigned char ring[];
  __shared__ uint64_t full[4], empty[4];
  const int bytes = 64 * 64 * 2;
  if (threadIdx.x == 0)
    for (int s = 0; s < 4; ++s) {
      init(&full[s], 1);
      init(&empty[s], 8);
    }
  ready();
  int s = 0, parity = 0;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int i = 0; i < tiles; ++i) {
        wait(&empty[s], parity ^ 1);
        arrive_expecting(&full[s], 3 * bytes);
        copy_box(ring + 3 * s * bytes, &a, 64 * i, 128 * blockIdx.y, &full[s]);
        copy_box(ring + (3 * s + 2) * bytes, &b, 64 * i, 64 * blockIdx.x, &full[s]);
        if (++s == 4) {
          s = 0;
          parity ^= 1;
        }
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    int group = threadIdx.x / 128 - 1;
    float d[32] = {};
    for (int i = 0; i < tiles; ++i) {
      wait(&full[s], parity);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int k = 0; k < 4; ++k)
        multiply(d, described(ring + (3 * s + group) * bytes + 32 * k),
                 described(ring + (3 * s + 2) * bytes + 32 * k));
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (threadIdx.x % 32 == 0) arrive(&empty[s]);
      if (++s == 4) {
        s = 0;
        parity ^= 1;
      }
    }
    int t = threadIdx.x % 128;
    int row = 64 * group + 16 * (t / 32) + t % 32 / 4, column = 2 * (t % 4);
    float *to = c + (blockIdx.y * 128 + row) * gridDim.x * 64 + blockIdx.x * 64 + column;
    for (int n = 0; n < 8; ++n)
      for (int half = 0; half < 2; ++half) {
        to[half * 8 * gridDim.x * 64 + 8 * n] = d[4 * n + 2 * half];
        to[half * 8 * gridDim.x * 64 + 8 * n + 1] = d[4 * n + 2 * half + 1];
      }
  }
}
