// Warps that meet at mbarriers, and bulk copies that arrive there. See build.sh.
#include <cstdint>

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

// As CUTLASS writes it.
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

// As one writes it in C++.
__device__ __forceinline__ void wait_in_a_loop(uint64_t *barrier, int parity) {
  uint32_t over;
  do {
    asm volatile(
        "{\n"
        ".reg .pred P1;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 P1, [%1], %2;\n"
        "selp.b32 %0, 1, 0, P1;\n"
        "}"
        : "=r"(over)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (!over);
}

__device__ __forceinline__ void copy_in(void *to, const void *from, int bytes, uint64_t *barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ void copy_out(void *to, const void *from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
               "cp.async.bulk.commit_group;\n"
               "cp.async.bulk.wait_group 0;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
}

// A warp loads tiles, three add them up: a ring of four stages, and no engine.
extern "C" __global__ void plain_ring(const float *in, float *out, int tiles) {
  __shared__ float stage[4][32];
  __shared__ uint64_t full[4], empty[4];
  int t = threadIdx.x % 32;
  if (threadIdx.x == 0)
    for (int s = 0; s < 4; ++s) {
      init(&full[s], 32);
      init(&empty[s], 96);
    }
  __syncthreads();
  if (threadIdx.x < 32) {
    int s = 0, parity = 1;
    for (int i = 0; i < tiles; ++i) {
      wait(&empty[s], parity);
      stage[s][t] = in[i * 32 + t];
      arrive(&full[s]);
      if (++s == 4) {
        s = 0;
        parity ^= 1;
      }
    }
  } else {
    float sum = 0;
    int s = 0, parity = 0;
    for (int i = 0; i < tiles; ++i) {
      wait_in_a_loop(&full[s], parity);
      sum += stage[s][t];
      arrive(&empty[s]);
      if (++s == 4) {
        s = 0;
        parity ^= 1;
      }
    }
    out[blockIdx.x * 96 + threadIdx.x - 32] = sum;
  }
}

// One thread has the engine load tiles, three warps add them up: a ring of so many stages.
template <int STAGES>
__device__ __forceinline__ void bulk(const float *in, float *out, int tiles) {
  __shared__ alignas(128) float stage[STAGES][256];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  if (threadIdx.x == 0)
    for (int s = 0; s < STAGES; ++s) {
      init(&full[s], 1);
      init(&empty[s], 3);
    }
  __syncthreads();
  int s = 0, parity = 0;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      for (int i = 0; i < tiles; ++i) {
        wait(&empty[s], parity ^ 1);
        arrive_expecting(&full[s], 1024);
        copy_in(stage[s], in + i * 256, 1024, &full[s]);
        if (++s == STAGES) {
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
      if (++s == STAGES) {
        s = 0;
        parity ^= 1;
      }
    }
    out[blockIdx.x * 96 + t] = sum;
  }
}

extern "C" __global__ void bulk_ring(const float *in, float *out, int tiles) {
  bulk<4>(in, out, tiles);
}

extern "C" __global__ void ring_of_three(const float *in, float *out, int tiles) {
  bulk<3>(in, out, tiles);
}

// One tile in, changed, and out again; dynamic shared memory.
extern "C" __global__ void there_and_back(const float *in, float *out) {
  extern __shared__ float tile[];
  uint64_t *full = (uint64_t *)(tile + 1024);
  if (threadIdx.x == 0) init(full, 1);
  ready();
  if (threadIdx.x == 0) {
    arrive_expecting(full, 4096);
    for (int i = 0; i < 4; ++i)
      copy_in(tile + 256 * i, in + blockIdx.x * 1024 + 256 * i, 1024, full);
  }
  wait(full, 0);
  for (int k = threadIdx.x; k < 1024; k += blockDim.x) tile[k] += 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) copy_out(out + blockIdx.x * 1024, tile, 4096);
}

// The producer does not wait for the consumers: phases may go by that nobody has seen.
extern "C" __global__ void runs_ahead(const float *in, float *out, int tiles) {
  __shared__ float tile[32];
  __shared__ uint64_t full;
  int t = threadIdx.x % 32;
  if (threadIdx.x == 0) init(&full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles; ++i) {
      tile[t] = in[i * 32 + t];
      arrive(&full);
    }
  } else {
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
      wait(&full, i & 1);
      sum += tile[t];
    }
    out[t] = sum;
  }
}

// One warp fewer arrives than is expected.
extern "C" __global__ void too_few(float *out) {
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, 64);
  __syncthreads();
  if (threadIdx.x < 32) arrive(&full);
  if (threadIdx.x >= 32) wait(&full, 0);
  out[threadIdx.x] = 1;
}

// Data say at which mbarrier it arrives, how many bytes come, or which lanes arrive.
extern "C" __global__ void told_by_data(const int *in, float *out, int what) {
  __shared__ alignas(128) float tile[1024];
  __shared__ uint64_t full[4];
  int from_data = in[0];
  if (threadIdx.x == 0)
    for (int s = 0; s < 4; ++s) init(&full[s], 1);
  __syncthreads();
  if (what == 0 && threadIdx.x == 0) arrive(&full[from_data]);
  if (what == 1 && threadIdx.x == 0) {
    arrive_expecting(&full[0], from_data);
    copy_in(tile, in, from_data, &full[0]);
  }
  if (what == 2 && in[threadIdx.x] > 0) arrive(&full[0]);
  if (what == 3) arrive(&full[0]);
  wait(&full[0], 0);
  out[threadIdx.x] = tile[threadIdx.x];
}

// It asks, and does something else if the answer is no.
extern "C" __global__ void asks_once(float *out) {
  __shared__ uint64_t full;
  if (threadIdx.x == 0) init(&full, 1);
  __syncthreads();
  uint32_t over, asked = 0;
  do {
    asm volatile(
        "{\n.reg .pred P1;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 P1, [%1], %2;\n"
        "selp.b32 %0, 1, 0, P1;\n}"
        : "=r"(over)
        : "r"(shared_address(&full)), "r"(0)
        : "memory");
    ++asked;
  } while (!over);
  out[threadIdx.x] = asked;
}
