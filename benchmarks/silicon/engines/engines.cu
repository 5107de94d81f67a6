// Microbenchmarks of what runs beside the warps of an sm_90 SM: mbarriers, bulk copies, tensor
// copies, products of warpgroups, registers handed over, named barriers. See engines.py.
//
// All have one signature. A kernel repeats its experiment `reps` times; each warp writes what it read
// from %clock64, less the clock of the block when the repetition began, to a slot of its own.
#include <cstdint>
#include <cuda.h>

typedef unsigned long long u64;
typedef unsigned int u32;

constexpr int SLOTS = 64;

#define BENCH(name)                                                                              \
  extern "C" __global__ void name(u64 *out, int reps, int a, int b, int c, int d, int e, int f,   \
                                  const unsigned char *src, unsigned char *dst, u64 span,        \
                                  const __grid_constant__ CUtensorMap map)

extern __shared__ __align__(1024) unsigned char room[];

__device__ __forceinline__ u32 at(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}

// All warps of the block begin a repetition together, with one clock.
__device__ __forceinline__ u64 begin() {
  __shared__ u64 clock_of_block;
  __syncthreads();
  if (threadIdx.x == 0) clock_of_block = now();
  __syncthreads();
  return clock_of_block;
}

__device__ __forceinline__ void note(u64 *out, int reps, int rep, int slot, u64 cycles) {
  out[((u64)blockIdx.x * reps + rep) * SLOTS + slot] = cycles;
}

// By one lane of each warp.
#define NOTE(slot, cycles)                                                                       \
  do {                                                                                           \
    if (threadIdx.x % 32 == 0) note(out, reps, rep, slot, cycles);                               \
  } while (0)

__device__ __forceinline__ void spin_until(u64 t) {
  while (now() < t) {
  }
}

__device__ __forceinline__ void init(u64 *bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}

__device__ __forceinline__ void inval(u64 *bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(at(bar)) : "memory");
}

__device__ __forceinline__ void ready() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  __syncthreads();
}

__device__ __forceinline__ void arrive(u64 *bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}

__device__ __forceinline__ void arrive_expecting(u64 *bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void expect(u64 *bar, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(bytes)
               : "memory");
}

// As CUTLASS writes it.
__device__ __forceinline__ void wait_try(u64 *bar, int parity) {
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
      "@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}" ::"r"(at(bar)),
      "r"(parity)
      : "memory");
}

// As a loop of C++ does it.
__device__ __forceinline__ void wait_test(u64 *bar, int parity) {
  u32 over;
  do {
    asm volatile(
        "{\n.reg .pred P1;\nmbarrier.test_wait.parity.shared::cta.b64 P1, [%1], %2;\n"
        "selp.b32 %0, 1, 0, P1;\n}"
        : "=r"(over)
        : "r"(at(bar)), "r"(parity)
        : "memory");
  } while (!over);
}

__device__ __forceinline__ void wait_for(int kind, u64 *bar, int parity) {
  if (kind)
    wait_test(bar, parity);
  else
    wait_try(bar, parity);
}

__device__ __forceinline__ void copy_in(u32 to, const void *from, int bytes, u64 *bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          to),
      "l"(from), "r"(bytes), "r"(at(bar))
      : "memory");
}

__device__ __forceinline__ void copy_out(void *to, u32 from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}

// --- single instructions, n in a row ------------------------------------------------------------

enum { ARRIVE, ARRIVE_TX, EXPECT, INIT, INVAL, TEST, TRY, ELECT, FENCE_ASYNC, FENCE_INIT, FENCE_CTA,
       FENCE_GPU, SYNC_ALL, DEPENDENTS, GRID_WAIT, WG_FENCE, WG_COMMIT, WG_WAIT, BULK_COMMIT,
       BULK_WAIT, BULK_WAIT_READ, COPY_COMMIT, COPY_WAIT, NOINC, NOTHING, SYNC_WARP, STORE_FENCE };

template <int OP>
__device__ __forceinline__ void one(u64 *bar, int i, unsigned char *dst) {
  if (OP == ARRIVE) arrive(bar);
  if (OP == ARRIVE_TX) arrive_expecting(bar, 16);
  if (OP == EXPECT) expect(bar, 16);
  if (OP == INIT) init(bar + 1 + i % 64, 7);
  if (OP == INVAL) inval(bar + 1 + i % 64);
  if (OP == TEST) wait_test(bar, 1);
  if (OP == TRY) wait_try(bar, 1);
  if (OP == ELECT)
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\n@p st.volatile.shared.u32 [%0], 1;\n}" ::"r"(
        at(bar + 70)));
  if (OP == FENCE_ASYNC) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (OP == FENCE_INIT) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  if (OP == FENCE_CTA) asm volatile("fence.acq_rel.cta;" ::: "memory");
  if (OP == FENCE_GPU) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  if (OP == STORE_FENCE) {
    *(volatile int *)(dst + ((blockIdx.x * 1024 + threadIdx.x) * 16 + i) * 128) = i;
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
  if (OP == SYNC_ALL) asm volatile("bar.sync 0;" ::: "memory");
  if (OP == SYNC_WARP) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
  if (OP == DEPENDENTS) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (OP == GRID_WAIT) asm volatile("griddepcontrol.wait;" ::: "memory");
  if (OP == WG_FENCE) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if (OP == WG_COMMIT) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  if (OP == WG_WAIT) asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  if (OP == BULK_COMMIT) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  if (OP == BULK_WAIT) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  if (OP == BULK_WAIT_READ) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  if (OP == COPY_COMMIT) asm volatile("cp.async.commit_group;" ::: "memory");
  if (OP == COPY_WAIT) asm volatile("cp.async.wait_group 0;" ::: "memory");
  if (OP == NOINC)
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(bar)) : "memory");
}

// a: lanes that execute it. slot w: cycles from before the first to behind the last.
template <int OP, int N>
__device__ __forceinline__ void row(u64 *out, int reps, int a, unsigned char *dst) {
  __shared__ u64 bar[72];
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0)
      for (int i = 0; i < 65; ++i) init(&bar[i], 1 << 19);
    ready();
    begin();
    bool in = threadIdx.x % 32 < a;
    u64 t0 = now();
    if (in) {
#pragma unroll
      for (int i = 0; i < N; ++i) one<OP>(bar, i, dst);
    }
    u64 t1 = now();
    __syncthreads();
    NOTE(threadIdx.x / 32, t1 - t0);
    __syncthreads();
    if (threadIdx.x == 0 && OP != INVAL)
      for (int i = 0; i < 65; ++i) inval(&bar[i]);
  }
}

#define ROW(name, op)                                                                            \
  BENCH(row_##name##_1) { row<op, 1>(out, reps, a, dst); }                                       \
  BENCH(row_##name##_4) { row<op, 4>(out, reps, a, dst); }                                       \
  BENCH(row_##name##_16) { row<op, 16>(out, reps, a, dst); }                                     \
  BENCH(row_##name##_64) { row<op, 64>(out, reps, a, dst); }

ROW(nothing, NOTHING)
ROW(arrive, ARRIVE)
ROW(arrive_tx, ARRIVE_TX)
ROW(expect, EXPECT)
ROW(init, INIT)
ROW(inval, INVAL)
ROW(test, TEST)
ROW(try, TRY)
ROW(noinc, NOINC)
ROW(fence_async, FENCE_ASYNC)
ROW(fence_init, FENCE_INIT)
ROW(fence_cta, FENCE_CTA)
ROW(fence_gpu, FENCE_GPU)
ROW(bulk_commit, BULK_COMMIT)
ROW(bulk_wait, BULK_WAIT)
ROW(bulk_wait_read, BULK_WAIT_READ)
ROW(copy_commit, COPY_COMMIT)
ROW(copy_wait, COPY_WAIT)
ROW(dependents, DEPENDENTS)
ROW(grid_wait, GRID_WAIT)

// The same for what all lanes of a warp execute.
template <int OP, int N>
__device__ __forceinline__ void row_of_all(u64 *out, int reps, unsigned char *dst) {
  __shared__ u64 bar[72];
  for (int rep = 0; rep < reps; ++rep) {
    begin();
    u64 t0 = now();
#pragma unroll
    for (int i = 0; i < N; ++i) one<OP>(bar, i, dst);
    u64 t1 = now();
    NOTE(threadIdx.x / 32, t1 - t0);
  }
}

#define ALL(name, op)                                                                            \
  BENCH(row_##name##_1) { row_of_all<op, 1>(out, reps, dst); }                                   \
  BENCH(row_##name##_4) { row_of_all<op, 4>(out, reps, dst); }                                   \
  BENCH(row_##name##_16) { row_of_all<op, 16>(out, reps, dst); }

ALL(elect, ELECT)
ALL(sync_all, SYNC_ALL)
ALL(sync_warp, SYNC_WARP)
ALL(wg_fence, WG_FENCE)
ALL(wg_commit, WG_COMMIT)
ALL(wg_wait, WG_WAIT)
ALL(store_fence, STORE_FENCE)

// --- from the last arrival until a warp goes on -------------------------------------------------

// a: 0 try_wait, 1 test_wait. b: lanes that wait. c, d: the arrivals come c .. c + d cycles behind the
// beginning. e: warps that arrive, by one lane each, one after the other f cycles apart. The others
// wait, and warp 0 does when it has arrived. slots w: before; 32 + w: behind.
BENCH(wake) {
  __shared__ u64 bar;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) init(&bar, e);
    ready();
    u64 base = begin(), t0, t1;
    if (warp < e) {
      spin_until(base + c + (d ? (u32)(rep * 2654435761u >> 8) % d : 0) + f * warp);
      __syncwarp();
      t0 = now();
      if (lane == 0) arrive(&bar);
      if (warp == 0) {
        if (lane < b) wait_for(a, &bar, 0);
      }
      t1 = now();
    } else {
      t0 = now();
      if (lane < b) wait_for(a, &bar, 0);
      t1 = now();
    }
    __syncthreads();
    NOTE(warp, t0 - base);
    NOTE(32 + warp, t1 - base);
    if (threadIdx.x == 0) inval(&bar);
  }
}

// A ping-pong of two warps, c times: warp 0 arrives at one mbarrier, warp d at the other. slot w: all.
BENCH(ping_pong) {
  __shared__ u64 bar[2];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) {
      init(&bar[0], 1);
      init(&bar[1], 1);
    }
    ready();
    begin();
    u64 t0 = now();
    if (warp == 0)
      for (int i = 0; i < c; ++i) {
        if (lane == 0) arrive(&bar[0]);
        wait_for(a, &bar[1], i & 1);
      }
    if (warp == d)
      for (int i = 0; i < c; ++i) {
        wait_for(a, &bar[0], i & 1);
        if (lane == 0) arrive(&bar[1]);
      }
    u64 t1 = now();
    NOTE(warp, t1 - t0);
    __syncthreads();
    if (threadIdx.x == 0) {
      inval(&bar[0]);
      inval(&bar[1]);
    }
  }
}

// Polls that are told no. slots 0 .. 15: when warp 0 has the answer of each; 32 .. 47: of warp 4, if any.
// a: 0 try_wait, 1 test_wait, 2 try_wait with a limit of c ns. b: lanes that ask.
BENCH(polls) {
  __shared__ u64 bar;
  __shared__ int sink;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) init(&bar, 1);
    ready();
    u64 base = begin();
    for (int i = 0; i < 16; ++i) {
      if (lane < b) {
        if (a == 0)
          asm volatile(
              "{\n.reg .pred P1;\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], 0;\n"
              "@P1 st.volatile.shared.u32 [%1], 1;\n}" ::"r"(at(&bar)),
              "r"(at(&sink))
              : "memory");
        if (a == 1)
          asm volatile(
              "{\n.reg .pred P1;\nmbarrier.test_wait.parity.shared::cta.b64 P1, [%0], 0;\n"
              "@P1 st.volatile.shared.u32 [%1], 1;\n}" ::"r"(at(&bar)),
              "r"(at(&sink))
              : "memory");
        if (a == 2)
          asm volatile(
              "{\n.reg .pred P1;\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], 0, %2;\n"
              "@P1 st.volatile.shared.u32 [%1], 1;\n}" ::"r"(at(&bar)),
              "r"(at(&sink)), "r"(c)
              : "memory");
      }
      u64 t = now();
      if (warp == 0) NOTE(i, t - base);
      if (warp == 4) NOTE(32 + i, t - base);
    }
    __syncthreads();
    if (threadIdx.x == 0) inval(&bar);
  }
}

// How often a warp asks that is told no. Warp 0 lets the phase be over c cycles behind the beginning,
// and until then, each d cycles (e: 0 does nothing, 1 arrives there, of many arrivals, 2 at another
// mbarrier whose phase is over each time, 3 copies 1 KB to another one, 4 to this one, 5 stores beside
// it). a: 0 try_wait, 1 test_wait; b: lanes that ask. slots: w rounds, 32 + w cycles.
BENCH(rounds) {
  __shared__ u64 bar, other;
  __shared__ volatile u32 beside;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int many = 1 << 19;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) {
      init(&bar, many);
      init(&other, 1);
    }
    ready();
    u64 base = begin(), t0 = now();
    u32 n = 0;
    if (warp == 0) {
      if (lane == 0) {
        u64 next = base + d;
        int count = many, parity = 0;
        while (now() < base + c) {
          if (now() < next) continue;
          next += d;
          if (e == 1) {
            arrive(&bar);
            --count;
          }
          if (e == 2) arrive(&other);
          if (e == 3) {
            arrive_expecting(&other, 1024);
            copy_in(at(room), src, 1024, &other);
            wait_try(&other, parity);
            parity ^= 1;
          }
          if (e == 4) {
            arrive_expecting(&bar, 1024);
            copy_in(at(room), src, 1024, &bar);
            --count;
          }
          if (e == 5) beside = n++;
        }
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(at(&bar)), "r"(count)
                     : "memory");
        n = 0;
      }
      __syncwarp();
    } else if (lane < b) {
      if (a == 0)
        asm volatile(
            "{\n.reg .pred P1;\nLAB_WAIT:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 P1, [%1], 0;\n"
            "@P1 bra DONE;\nadd.u32 %0, %0, 1;\nbra LAB_WAIT;\nDONE:\n}"
            : "+r"(n)
            : "r"(at(&bar))
            : "memory");
      else
        asm volatile(
            "{\n.reg .pred P1;\nLAB_WAIT:\n"
            "mbarrier.test_wait.parity.shared::cta.b64 P1, [%1], 0;\n"
            "@P1 bra DONE;\nadd.u32 %0, %0, 1;\nbra LAB_WAIT;\nDONE:\n}"
            : "+r"(n)
            : "r"(at(&bar))
            : "memory");
    }
    u64 t1 = now();
    __syncthreads();
    NOTE(warp, n);
    NOTE(32 + warp, t1 - t0);
    if (threadIdx.x == 0) {
      inval(&bar);
      inval(&other);
    }
  }
}

// What polls take of others: warp 0 does 64 loads of shared memory in a chain while the others poll
// an mbarrier (a: 0 try_wait, 1 test_wait, 2 nothing), which warp 0 opens in the end. slot 0.
BENCH(beside_polls) {
  __shared__ u64 bar;
  __shared__ u32 chain[32];
  int warp = threadIdx.x / 32;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) init(&bar, 1);
    if (threadIdx.x < 32) chain[threadIdx.x] = at(&chain[threadIdx.x]);
    ready();
    u64 base = begin();
    if (warp == 0) {
      spin_until(base + 3000);
      u32 p = at(&chain[threadIdx.x]);
      u64 t0 = now();
#pragma unroll
      for (int i = 0; i < 64; ++i) asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(p)::"memory");
      if (p == 1) dst[0] = 1;
      u64 t1 = now();
      NOTE(0, t1 - t0);
      if (threadIdx.x == 0) arrive(&bar);
    } else if (a < 2) {
      wait_for(a, &bar, 0);
    }
    __syncthreads();
    if (threadIdx.x == 0) inval(&bar);
  }
}

// --- barriers of the block, named barriers ------------------------------------------------------

// The last warp comes c .. c + d cycles late. a: 0 bar.sync 0, 1 bar.sync 1, n, 2 the first e warps
// only arrive (bar.arrive 1, n), warp 0 the last of them.
BENCH(opens) {
  int warp = threadIdx.x / 32, last = a == 2 ? 0 : blockDim.x / 32 - 1, n = blockDim.x;
  for (int rep = 0; rep < reps; ++rep) {
    u64 base = begin(), t0, t1;
    if (warp == last) {
      spin_until(base + c + (d ? (u32)(rep * 2654435761u >> 8) % d : 0));
      __syncwarp();
    }
    t0 = now();
    if (a == 0) asm volatile("bar.sync 0;" ::: "memory");
    if (a == 1) asm volatile("bar.sync 1, %0;" ::"r"(n) : "memory");
    if (a == 2) {
      if (warp < e)
        asm volatile("bar.arrive 1, %0;" ::"r"(n) : "memory");
      else
        asm volatile("bar.sync 1, %0;" ::"r"(n) : "memory");
    }
    t1 = now();
    NOTE(warp, t0 - base);
    NOTE(32 + warp, t1 - base);
  }
}

// --- bulk copies --------------------------------------------------------------------------------

__device__ __forceinline__ void copy_box(u32 to, const void *map, int x, int y, u64 *bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(at(bar))
      : "memory");
}

__device__ __forceinline__ void copy_box_out(const void *map, int x, int y, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
                   map),
               "r"(x), "r"(y), "r"(from)
               : "memory");
}

// b copies of a bytes, one behind the other, d bytes apart in memory and e in shared memory, where the
// first begins at f; c: 0 the same each time, 1 others each time. slots: 0 all are issued, 1 all have
// come.
BENCH(bulk_in) {
  __shared__ u64 bar;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) init(&bar, 1);
    ready();
    begin();
    if (threadIdx.x == 0) {
      u64 first = ((u64)(c ? rep * gridDim.x : 0) + blockIdx.x) * b;
      const unsigned char *from = src + first * d % span;
      u32 to = at(room) + f;
      u64 t0 = now();
      arrive_expecting(&bar, a * b);
      for (int i = 0; i < b; ++i) copy_in(to + i * e, from + (u64)i * d, a, &bar);
      u64 t1 = now();
      wait_try(&bar, 0);
      u64 t2 = now();
      NOTE(0, t1 - t0);
      NOTE(1, t2 - t0);
      inval(&bar);
    }
  }
}

// The same by f lanes of a warp at once, one copy each.
BENCH(bulk_in_lanes) {
  __shared__ u64 bar;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) init(&bar, 1);
    ready();
    begin();
    if (threadIdx.x < f) {
      u64 first = ((u64)(c ? rep * gridDim.x : 0) + blockIdx.x) * f;
      const unsigned char *from = src + first * d % span + (u64)threadIdx.x * d;
      u32 to = at(room) + threadIdx.x * e;
      u64 t0 = now();
      if (threadIdx.x == 0) arrive_expecting(&bar, a * f);
      copy_in(to, from, a, &bar);
      u64 t1 = now();
      wait_try(&bar, 0);
      u64 t2 = now();
      NOTE(0, t1 - t0);
      NOTE(1, t2 - t0);
    }
    __syncthreads();
    if (threadIdx.x == 0) inval(&bar);
  }
}

// A ring of b stages of a bytes, f copies in all; c as above; d bytes apart; span is a power of 2.
// slot 0: all.
BENCH(bulk_stream) {
  __shared__ u64 bar[16];
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0)
      for (int s = 0; s < b; ++s) init(&bar[s], 1);
    ready();
    begin();
    if (threadIdx.x == 0) {
      u64 first = ((u64)(c ? rep * gridDim.x : 0) + blockIdx.x) * f;
      u64 t0 = now();
      int parity = 0, s = 0;
      for (int i = 0; i < f + b; ++i) {
        if (i >= b) {
          wait_try(&bar[s], parity ^ 1);
        }
        if (i < f) {
          arrive_expecting(&bar[s], a);
          copy_in(at(room) + s * a, src + ((first + i) * d & (span - 1)), a, &bar[s]);
        }
        if (++s == b) s = 0, parity ^= 1;
      }
      u64 t1 = now();
      NOTE(0, t1 - t0);
      for (int s = 0; s < b; ++s) inval(&bar[s]);
    }
  }
}

// slots: 0 issued, 1 committed, 2 read, 3 written.
BENCH(bulk_out) {
  for (int rep = 0; rep < reps; ++rep) {
    begin();
    if (threadIdx.x == 0) {
      u64 first = ((u64)(c ? rep * gridDim.x : 0) + blockIdx.x) * b;
      unsigned char *to = dst + first * d % span;
      u32 from = at(room) + f;
      u64 t0 = now();
      for (int i = 0; i < b; ++i) copy_out(to + (u64)i * d, from + i * e, a);
      u64 t1 = now();
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      u64 t2 = now();
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      u64 t3 = now();
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      u64 t4 = now();
      NOTE(0, t1 - t0);
      NOTE(1, t2 - t0);
      NOTE(2, t3 - t0);
      NOTE(3, t4 - t0);
    }
  }
}

// b boxes of a bytes and c rows, at column f, down a tensor; d rows in all before it begins anew
// (0: the same each time); e: the map is in memory (at dst). slots: 0 issued, 1 come.
__device__ __forceinline__ void boxes_in(u64 *out, int reps, int a, int b, int c, int d, int e, int f,
                                         const CUtensorMap &map, unsigned char *dst) {
  __shared__ u64 bar;
  const void *from = e ? (const void *)dst : (const void *)&map;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) init(&bar, 1);
    ready();
    begin();
    if (threadIdx.x == 0) {
      int y = ((d ? rep * gridDim.x : 0) + blockIdx.x) * b * c;
      if (d) y %= d;
      u32 to = at(room);
      u64 t0 = now();
      arrive_expecting(&bar, a * b);
      for (int i = 0; i < b; ++i) copy_box(to + i * ((a + 1023) & ~1023), from, f, y + i * c, &bar);
      u64 t1 = now();
      wait_try(&bar, 0);
      u64 t2 = now();
      NOTE(0, t1 - t0);
      NOTE(1, t2 - t0);
      inval(&bar);
    }
  }
}

// A box that is not defined stops a process: under a name of its own.
BENCH(tensor_in) { boxes_in(out, reps, a, b, c, d, e, f, map, dst); }
BENCH(tensor_in_at) { boxes_in(out, reps, a, b, c, d, e, f, map, dst); }
BENCH(tensor_in_halves) { boxes_in(out, reps, a, b, c, d, e, f, map, dst); }
BENCH(tensor_in_words) { boxes_in(out, reps, a, b, c, d, e, f, map, dst); }
BENCH(tensor_in_swizzled) { boxes_in(out, reps, a, b, c, d, e, f, map, dst); }
BENCH(tensor_in_memory) { boxes_in(out, reps, a, b, c, d, e, f, map, dst); }

// slots as bulk_out.
BENCH(tensor_out) {
  for (int rep = 0; rep < reps; ++rep) {
    begin();
    if (threadIdx.x == 0) {
      int y = ((d ? rep * gridDim.x : 0) + blockIdx.x) * b * c;
      if (d) y %= d;
      u32 from = at(room);
      u64 t0 = now();
      for (int i = 0; i < b; ++i) copy_box_out(&map, f, y + i * c, from + i * ((a + 1023) & ~1023));
      u64 t1 = now();
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      u64 t2 = now();
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      u64 t3 = now();
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      u64 t4 = now();
      NOTE(0, t1 - t0);
      NOTE(1, t2 - t0);
      NOTE(2, t3 - t0);
      NOTE(3, t4 - t0);
    }
  }
}

// Each of 32 lanes copies a times 16 bytes (b = 1: 4 bytes); c: 0 the same lines, 1 others. Then e: 0
// cp.async.mbarrier.arrive.noinc and a wait, 1 commit_group and wait_group 0. d bytes between lanes.
// slots: w copies issued, 8 + w the rest is issued, 16 + w over.
BENCH(small) {
  __shared__ u64 bar;
  int warp = threadIdx.x / 32;
  for (int rep = 0; rep < reps; ++rep) {
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    ready();
    begin();
    u64 first = ((u64)(c ? rep * gridDim.x : 0) + blockIdx.x) * blockDim.x + threadIdx.x;
    const unsigned char *from = src + first * d * (a ? a : 1) % span;
    u32 to = at(room) + threadIdx.x * 64;
    u64 t0 = now();
    if (b)
      for (int i = 0; i < a; ++i)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + 16 * i), "l"(from + i * d)
                     : "memory");
    else
      for (int i = 0; i < a; ++i)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * i), "l"(from + i * d)
                     : "memory");
    u64 t1 = now(), t2;
    if (e) {
      asm volatile("cp.async.commit_group;" ::: "memory");
      t2 = now();
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    } else {
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at(&bar)) : "memory");
      t2 = now();
      wait_try(&bar, 0);
    }
    u64 t3 = now();
    NOTE(warp, t1 - t0);
    NOTE(16 + warp, t2 - t0);
    NOTE(32 + warp, t3 - t0);
    __syncthreads();
    if (threadIdx.x == 0) inval(&bar);
  }
}

// --- registers that are handed over -------------------------------------------------------------

// The first warpgroup gives up registers a cycles behind the beginning, the others take some b behind
// it. slots: w before, 32 + w behind. Once a launch.
extern "C" __global__ void __launch_bounds__(384, 1)
    registers(u64 *out, int reps, int a, int b, int c, int d, int e, int f,
              const unsigned char *src, unsigned char *dst, u64 span,
              const __grid_constant__ CUtensorMap map) {
  int warp = threadIdx.x / 32, rep = 0;
  u64 base = begin(), t0, t1;
  if (threadIdx.x < 128) {
    spin_until(base + a);
    __syncwarp();
    t0 = now();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    t1 = now();
  } else {
    spin_until(base + b);
    __syncwarp();
    t0 = now();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    t1 = now();
  }
  NOTE(warp, t0 - base);
  NOTE(32 + warp, t1 - base);
}

// What takes that wait for registers take of others: the first warpgroup does a * 64 additions of f32,
// of eight independent chains, then gives up registers. b: 1 the others take some meanwhile, 0 they
// wait at a barrier first. slot w: cycles of the additions. Once a launch.
extern "C" __global__ void __launch_bounds__(384, 1)
    beside_takes(u64 *out, int reps, int a, int b, int c, int d, int e, int f,
                 const unsigned char *src, unsigned char *dst, u64 span,
                 const __grid_constant__ CUtensorMap map) {
  int warp = threadIdx.x / 32, rep = 0;
  u64 base = begin(), t0 = 0, t1 = 0;
  if (threadIdx.x < 128) {
    float x[8], y = c;
    for (int i = 0; i < 8; ++i) x[i] = c + i;
    spin_until(base + 1000);
    __syncwarp();
    t0 = now();
#pragma unroll 1
    for (int i = 0; i < a; ++i)
#pragma unroll
      for (int j = 0; j < 64; ++j) asm volatile("add.f32 %0, %0, %1;" : "+f"(x[j % 8]) : "f"(y));
    t1 = now();
    for (int i = 0; i < 8; ++i)
      if (x[i] == 12345.f) dst[i] = 1;
    if (!b) asm volatile("bar.sync 1, 384;" ::: "memory");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    if (!b) asm volatile("bar.sync 1, 384;" ::: "memory");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  }
  NOTE(warp, t1 - t0);
}

// --- mma.sync -----------------------------------------------------------------------------------

// 64 products of m16n8k16, in a chain (a = 0) or four chains. slot w.
template <bool BF16>
__device__ __forceinline__ void products(u64 *out, int reps, int a, unsigned char *dst) {
  float d[4][4] = {};
  u32 x = threadIdx.x;
  for (int rep = 0; rep < reps; ++rep) {
    begin();
    u64 t0, t1;
#define MMA(k, type)                                                                             \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, "   \
               "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"                                   \
               : "+f"(d[k][0]), "+f"(d[k][1]), "+f"(d[k][2]), "+f"(d[k][3])                      \
               : "r"(x))
#define MMA_OF(k)                                                                                \
  do {                                                                                           \
    if (BF16)                                                                                    \
      MMA(k, "bf16");                                                                            \
    else                                                                                         \
      MMA(k, "f16");                                                                             \
  } while (0)
    if (a == 0) {
      t0 = now();
#pragma unroll
      for (int i = 0; i < 64; ++i) MMA_OF(0);
      if (d[0][0] == 12345.f) dst[0] = 1;
      t1 = now();
    } else {
      t0 = now();
#pragma unroll
      for (int i = 0; i < 64; ++i) MMA_OF(i % 4);
      if (d[0][0] + d[1][0] + d[2][0] + d[3][0] == 12345.f) dst[0] = 1;
      t1 = now();
    }
    NOTE(threadIdx.x / 32, t1 - t0);
  }
}
BENCH(mma_f16) { products<false>(out, reps, a, dst); }
BENCH(mma_bf16) { products<true>(out, reps, a, dst); }

// --- products of warpgroups: generated, see engines.py ------------------------------------------

__device__ __forceinline__ u64 described(u32 place, int swizzled) {
  u64 d = (place & 0x3FFFF) >> 4;
  return swizzled ? d | (u64)1 << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62
                  : d | (u64)(128 >> 4) << 16 | (u64)(1024 >> 4) << 32;
}

// a: warpgroups that multiply; warps behind them load from shared memory (b = 1) or copy to it
// (b = 2) until they are done. c: swizzled. d: a warpgroup is so many cycles later than the one
// before. slots: w before, 16 + w when all is issued, 32 + w when all is done; 48 what the others did.
#define PRODUCTS(COUNT, MULTIPLY)                                                                \
  __shared__ volatile int done;                                                                  \
  __shared__ u64 bar;                                                                            \
  int warp = threadIdx.x / 32;                                                                   \
  if (threadIdx.x == 0) done = 0;                                                                \
  u32 place = at(room);                                                                          \
  u64 from_a = described(place, c), from_b = described(place + 65536, c);                        \
  for (int rep = 0; rep < reps; ++rep) {                                                         \
    if (b == 2 && threadIdx.x == 0) init(&bar, 1);                                               \
    if (b == 2) ready();                                                                         \
    u64 base = begin();                                                                          \
    if (warp < 4 * a) {                                                                          \
      if (b) spin_until(base + 2000);                                                            \
      asm volatile("bar.sync 1, %0;" ::"r"(a * 128) : "memory");                                 \
      if (d) spin_until(base + 1000 + d * (warp / 4));                                           \
      __syncwarp();                                                                              \
      u64 t0 = now();                                                                            \
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                    \
      _Pragma("unroll") for (int i = 0; i < COUNT; ++i) { MULTIPLY; }                            \
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                             \
      u64 t1 = now();                                                                            \
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");                             \
      u64 t2 = now();                                                                            \
      NOTE(warp, t0 - base);                                                                     \
      NOTE(16 + warp, t1 - base);                                                                \
      NOTE(32 + warp, t2 - base);                                                                \
      if (b && threadIdx.x == 0) done = rep + 1;                                                 \
    } else if (b == 1) {                                                                         \
      u32 x = 0, y, z, w, p = place + 16 * (threadIdx.x % 128), n = 0;                           \
      while (done <= rep) {                                                                      \
        _Pragma("unroll") for (int i = 0; i < 8; ++i) {                                          \
          asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"                       \
                       : "=r"(x), "=r"(y), "=r"(z), "=r"(w)                                      \
                       : "r"(p + 2048 * i));                                                     \
        }                                                                                        \
        n += 8;                                                                                  \
      }                                                                                          \
      NOTE(48, n);                                                                               \
    } else if (b == 2 && threadIdx.x == 128 * a) {                                               \
      int parity = 0, n = 0;                                                                     \
      while (done <= rep) {                                                                      \
        arrive_expecting(&bar, 65536);                                                           \
        for (int i = 0; i < 4; ++i)                                                              \
          copy_in(place + 131072 + 16384 * i, src + 16384 * i, 16384, &bar);                     \
        wait_try(&bar, parity);                                                                  \
        parity ^= 1;                                                                             \
        ++n;                                                                                     \
      }                                                                                          \
      NOTE(48, n);                                                                               \
      inval(&bar);                                                                               \
    }                                                                                            \
    if (b) __syncthreads();                                                                      \
  }

#include "products.inc"

// Does a warp run ahead of the others of its warpgroup? One warp (a) comes b cycles late, before the
// fence (c = 0), behind it (1), between two products (2), behind them (3).
// slots: w before, 4 + w behind the fence, 8 + w behind the first product, 12 + w behind the second,
// 16 + w behind the commit, 20 + w behind the wait.
BENCH(holds) {
  int warp = threadIdx.x / 32;
  float x[8], y[8];
  for (int i = 0; i < 8; ++i) x[i] = y[i] = 0;
  u64 from_a = described(at(room), 0), from_b = described(at(room) + 65536, 0);
  for (int rep = 0; rep < reps; ++rep) {
    u64 base = begin();
    u64 late = warp == a ? base + 200 + b : 0;
    if (c == 0) spin_until(late);
    u64 t0 = now();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    u64 t1 = now();
    if (c == 1) spin_until(late);
    MULTIPLY_TWICE_FIRST(x)
    u64 t2 = now();
    if (c == 2) spin_until(late);
    MULTIPLY_TWICE_FIRST(y)
    u64 t3 = now();
    if (c == 3) spin_until(late);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    u64 t4 = now();
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    u64 t5 = now();
    NOTE(warp, t0 - base);
    NOTE(4 + warp, t1 - base);
    NOTE(8 + warp, t2 - base);
    NOTE(12 + warp, t3 - base);
    NOTE(16 + warp, t4 - base);
    NOTE(20 + warp, t5 - base);
  }
  if (a == -7)
    for (int i = 0; i < 8; ++i) ((float *)dst)[threadIdx.x] += x[i] + y[i];
}

// The same without a fence between: warp a sleeps b ns between two products of one chain, with no
// branch there. slots: w before, 4 + w behind the first product, 8 + w behind the sleep, 12 + w behind
// the second product, 16 + w behind the commit, 20 + w behind the wait.
BENCH(holds_straight) {
  int warp = threadIdx.x / 32;
  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = 0;
  u64 from_a = described(at(room), 0), from_b = described(at(room) + 65536, 0);
  u32 sleep = warp == a ? b : 0;
  for (int rep = 0; rep < reps; ++rep) {
    u64 base = begin();
    u64 t0 = now();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    MULTIPLY_TWICE_FIRST(x)
    u64 t1 = now();
    asm volatile("nanosleep.u32 %0;" ::"r"(sleep) : "memory");
    u64 t2 = now();
    MULTIPLY_TWICE_FIRST(x)
    u64 t3 = now();
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    u64 t4 = now();
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    u64 t5 = now();
    NOTE(warp, t0 - base);
    NOTE(4 + warp, t1 - base);
    NOTE(8 + warp, t2 - base);
    NOTE(12 + warp, t3 - base);
    NOTE(16 + warp, t4 - base);
    NOTE(20 + warp, t5 - base);
  }
  if (a == -7)
    for (int i = 0; i < 8; ++i) ((float *)dst)[threadIdx.x] += x[i];
}

// Spins for a million cycles, to bring the clock up.
BENCH(warm) {
  u64 t0 = now();
  spin_until(t0 + a);
  for (int rep = 0; rep < reps; ++rep) NOTE(0, now() - t0);
}
