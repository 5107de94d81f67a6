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

// --- products -----------------------------------------------------------------------------------

__device__ __forceinline__ uint64_t described(const void *tile) {
  // no swizzle: core matrices of 8 x 16 bytes, 128 bytes apart along k, 1024 along the rows
  uint64_t at = (shared_address(tile) & 0x3FFFF) >> 4;
  return at | (uint64_t)(128 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32;
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

// A tile of C, 64 x 64, is the sum over k of products of tiles of A and B, which lie in memory as
// the products want them. A warp has the engine copy them into a ring of four stages, a warpgroup
// multiplies.
extern "C" __global__ void __launch_bounds__(160)
    gemm(const uint16_t *a, const uint16_t *b, float *c, int tiles) {
  extern __shared__ __align__(128) unsigned char ring[];
  __shared__ uint64_t full[4], empty[4];
  const int bytes = 64 * 64 * 2;
  if (threadIdx.x == 128)
    for (int s = 0; s < 4; ++s) {
      init(&full[s], 1);
      init(&empty[s], 4);
    }
  ready();
  int s = 0, parity = 0;
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128)
      for (int i = 0; i < tiles; ++i) {
        wait(&empty[s], parity ^ 1);
        arrive_expecting(&full[s], 2 * bytes);
        copy_in(ring + 2 * s * bytes, a + (blockIdx.y * tiles + i) * 4096, bytes, &full[s]);
        copy_in(ring + (2 * s + 1) * bytes, b + (blockIdx.x * tiles + i) * 4096, bytes, &full[s]);
        if (++s == 4) {
          s = 0;
          parity ^= 1;
        }
      }
  } else {
    float d[32] = {};
    for (int i = 0; i < tiles; ++i) {
      wait(&full[s], parity);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int k = 0; k < 4; ++k)
        multiply(d, described(ring + 2 * s * bytes + 256 * k),
                 described(ring + (2 * s + 1) * bytes + 256 * k));
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (threadIdx.x % 32 == 0) arrive(&empty[s]);
      if (++s == 4) {
        s = 0;
        parity ^= 1;
      }
    }
    int row = 16 * (threadIdx.x / 32) + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
    float *to = c + (blockIdx.y * 64 + row) * gridDim.x * 64 + blockIdx.x * 64 + column;
    for (int n = 0; n < 8; ++n)
      for (int half = 0; half < 2; ++half) {
        to[half * 8 * gridDim.x * 64 + 8 * n] = d[4 * n + 2 * half];
        to[half * 8 * gridDim.x * 64 + 8 * n + 1] = d[4 * n + 2 * half + 1];
      }
  }
}
