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
