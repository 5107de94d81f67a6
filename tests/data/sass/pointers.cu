// Numbers of 64 bits, pointers and small parameters: what pairs of instructions make of them.
typedef unsigned long long u64;
typedef long long s64;
#define KERNEL extern "C" __global__ void

// a pointer that goes down, one that some lanes move, two that change places
KERNEL down(int* a, const int* b, int n) {
  const int* p = b + n + 64 + threadIdx.x;
  int s = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    s += *p;
    p -= 1 + (i & 1);
  }
  a[threadIdx.x] = s;
}
KERNEL moved(int* a, const int* b, int n) {
  const int* p = b;
  int s = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    if ((i * threadIdx.x) & 2) p += 3;
    s += *p;
  }
  a[threadIdx.x] = s;
}
KERNEL swapped(int* a, int* b, int* c, int n) {
  int *x = a + threadIdx.x, *y = b + threadIdx.x, *z = c + threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    *z = *x + *y;
    int* t = x;
    x = y;
    y = z;
    z = t;
    if (i == 3) x += 2;
  }
}

// counters, sums and shifts of 64 bits
KERNEL counted(s64* a, const s64* b, s64 n, s64 step) {
  s64 s = 0, j = threadIdx.x;
#pragma unroll 1
  for (s64 i = n - 1 - (s64)threadIdx.x; i >= 0; i -= 7) {
    s += b[i] + b[j & 31] + ((const int4*)b)[(j >> 2) & 7].x;
    j += step;
  }
  a[threadIdx.x] = s;
}
KERNEL sums(u64* a, const u64* b, u64 x, int n) {
  u64 s = b[threadIdx.x], t = b[threadIdx.x + 1], u = x;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    u64 z = s + t + u, w = s - t - u;
    s = z + w - 3;
    t = w - z + x;
    u = (s << 3) - u + b[s >> 33 & 15] + b[(t << 5 ^ u >> 40) & 15] + (u64)(unsigned)t * (unsigned)x;
  }
  a[threadIdx.x] = s ^ t ^ u;
}

// small parameters side by side, unaligned pairs of words, scaled places
struct Parts {
  short n;
  unsigned char m, l;
  int k;
  s64 far;
};
KERNEL parts(int* a, const short* b, Parts p, unsigned char u, signed char v, unsigned short w) {
  int s = 0;
#pragma unroll 1
  for (int i = 0; i < p.n; ++i) s += b[i * p.m + threadIdx.x] + b[p.far - (s64)i * p.l];
  for (int i = w; i > v; i -= 9) s ^= a[i & 63] + u;
  a[threadIdx.x] = s * p.k;
}
KERNEL scaled(int* a, const int* b, int n, int step) {
  int s = 0;
  const int* p = b + 400 - threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    int j = (i * step + (int)threadIdx.x) % 50;
    s += b[j] + b[50 - j] + ((const short*)b)[j] + ((const char*)b)[j] + p[-i * step];
  }
  a[threadIdx.x] = s;
}

// shared memory in several widths, and atomics
KERNEL shared(int4* a, const int4* b, int n) {
  __shared__ int4 t[64];
  __shared__ short u[64];
  __shared__ int v[8];
  int x = threadIdx.x, s = 0;
  t[x] = b[x];
  u[x] = x * 7;
  if (x < 8) v[x] = 0;
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    int4 w = t[(x + i) & 31];
    s += w.x + w.w + u[(x * i) & 31];
    if (x & 1) atomicAdd(&v[i & 7], s & 3);
  }
  __syncthreads();
  a[x] = make_int4(s, v[x & 7], n, 1);
}
