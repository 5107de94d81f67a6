// What the memory of a GPU, the path of an SM to it and the dispatch of blocks take: see memory.py.
typedef unsigned long long u64;
typedef unsigned int u32;

__device__ __forceinline__ u64 now() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ u64 now_behind(u64 value) {  // the clock once the value is there
  u64 t;
  asm volatile("{.reg .pred q; setp.eq.u64 q, %1, -1; @q trap; mov.u64 %0, %%clock64;}" : "=l"(t) : "l"(value) : "memory");
  return t;
}
__device__ __forceinline__ u32 sm() {
  u32 t;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(t));
  return t;
}

extern "C" __global__ void scatter(u64 *buffer, const u64 *places, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) buffer[places[i]] = places[i + 1];
}

// One lane follows a chain of places, each load timed.
extern "C" __global__ void chase(const u64 *buffer, u64 place, int n, u32 *times) {
  if (threadIdx.x) return;
  for (int i = 0; i < n; i++) {
    u64 next, begin = now();
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(buffer + place) : "memory");
    times[i] = (u32)(now_behind(next) - begin);
    place = next;
  }
}

// Each block runs for 1, 2 or 3 times so many cycles. What it writes is written before that; with
// is_stored each thread ends with a store.
extern "C" __global__ void blocks(u64 cycles, u64 *record, u64 *last, int is_stored) {
  u64 begin = now(), end = begin + cycles * (1 + blockIdx.x % 3);
  if (threadIdx.x % 32 == 0) {
    u64 at = 3 * ((u64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    record[at] = sm();
    record[at + 1] = begin;
    record[at + 2] = end;
  }
  while (now() < end) {}
  if (is_stored) last[(u64)blockIdx.x * blockDim.x + threadIdx.x] = end;
}

enum { LOAD, LOAD_L1, STORE, RED, ATOM };
template <int BYTES, int WHAT> __device__ __forceinline__ void access(char *p, u32 &s) {
  u32 v = 0, w = 0, x = 0, y = 0;
  if (WHAT == LOAD && BYTES == 4) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p));
  if (WHAT == LOAD && BYTES == 16) asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "l"(p));
  if (WHAT == LOAD_L1) asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(p));
  if (WHAT == STORE && BYTES == 4) asm volatile("st.global.u32 [%1], %0;" ::"r"(s), "l"(p));
  if (WHAT == STORE && BYTES == 16) asm volatile("st.global.v4.u32 [%1], {%0, %0, %0, %0};" ::"r"(s), "l"(p));
  if (WHAT == RED) asm volatile("red.global.add.u32 [%1], %0;" ::"r"(s), "l"(p));
  if (WHAT == ATOM) asm volatile("atom.global.add.u32 %0, [%2], %1;" : "=r"(v) : "r"(s), "l"(p));
  s ^= v;
}

// Lanes 'stride' bytes apart, eight accesses 'step' apart, warps 'far', blocks 'farther'. 'zero' is
// 0, which no compiler knows: no access is that of the round before. The cycles of 2 rounds and of 10.
template <int BYTES, int WHAT>
__device__ void rate(char *base, int stride, u64 step, u64 far, u64 farther, u64 zero, u64 *record) {
  char *p = base + blockIdx.x * farther + threadIdx.x / 32 * far + (u64)(threadIdx.x % 32) * stride;
  u32 s = threadIdx.x % 32;
  for (int section = 0; section < 2; section++) {
    __syncthreads();
    u64 begin = now();
    for (int r = 0; r < (section ? 10 : 2); r++, p += zero)
#pragma unroll
      for (int k = 0; k < 8; k++) access<BYTES, WHAT>(p + k * step, s);
    __syncthreads();
    if (s == 0x12345678) begin++;
    if (threadIdx.x == 0) record[2 * blockIdx.x + section] = now() - begin;
  }
}
#define RATE(name, bytes, what)                                                                              \
  extern "C" __global__ void __launch_bounds__(1024)                                                         \
      name(char *base, int stride, u64 step, u64 far, u64 farther, u64 zero, u64 *record) {                 \
    rate<bytes, what>(base, stride, step, far, farther, zero, record);                                       \
  }
RATE(load_4, 4, LOAD) RATE(load_16, 16, LOAD) RATE(load_l1_4, 4, LOAD_L1) RATE(store_4, 4, STORE)
RATE(store_16, 16, STORE) RATE(red_4, 4, RED) RATE(atom_4, 4, ATOM)

// Words of sectors in any order: what 1024 threads of each block read, write or add to.
extern "C" __global__ void scattered(u32 *a, u64 sectors, int n, int what, u64 *record) {
  u64 begin = now(), x = (blockIdx.x * (u64)blockDim.x + threadIdx.x) * 0x9E3779B97F4A7C15ull + 12345;
  u32 sum = 0;
  for (int i = 0; i < n; i++) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    u32 *p = a + (x >> 20) % sectors * 8;
    if (what == 0) sum += __ldcg(p);
    if (what == 1) __stcg(p, (u32)x);
    if (what == 2) atomicAdd(p, (u32)x);
  }
  if (sum == 123456789) a[0] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    record[3 * blockIdx.x] = sm();
    record[3 * blockIdx.x + 1] = begin;
    record[3 * blockIdx.x + 2] = now();
  }
}
