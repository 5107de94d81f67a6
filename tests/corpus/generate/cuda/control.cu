// Control flow: loops of many shapes, early exits, short circuits, goto, unrolling, predication.

extern "C" __global__ void collatz(const unsigned* in, unsigned* out, unsigned limit) {
  unsigned v = in[threadIdx.x], steps = 0;
  while (v > 1 && steps < limit) {
    v = v & 1 ? 3 * v + 1 : v >> 1;
    ++steps;
  }
  out[threadIdx.x] = steps;
}

extern "C" __global__ void search(const int* keys, int n, int wanted, int* found) {
  int low = 0, high = n;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (keys[middle] == wanted) { *found = middle; return; }
    if (keys[middle] < wanted) low = middle + 1; else high = middle;
  }
  *found = -1;
}

extern "C" __global__ void triangle(const float* a, float* x, int n) {
  for (int i = 0; i < n; ++i) {
    float s = x[i];
    for (int j = 0; j < i; ++j) s -= a[i * n + j] * x[j];
    x[i] = s / a[i * n + i];
    for (int j = n - 1; j > i; --j) x[j] += s;
  }
}

extern "C" __global__ void leave_two_loops(const int* grid, int w, int h, int* out) {
  int x = 0, y = 0;
  for (y = 0; y < h; ++y)
    for (x = threadIdx.x; x < w; x += blockDim.x) {
      const int v = grid[y * w + x];
      if (v < 0) goto found;
      if (v == 0) continue;
      if (v > 1000 && (v & 3) == 1 || v == 17) break;
    }
found:
  out[threadIdx.x] = y * w + x;
}

// Two ways into a loop.
extern "C" __global__ void two_entries(int* out, int n, int where) {
  int i = 0;
  if (where > 3) goto middle;
top:
  out[i] += 1;
middle:
  out[i] *= 3;
  if (++i < n) goto top;
}

extern "C" __global__ void unrolled(const float* in, float* out, int n) {
  float s = 0.0f;
#pragma unroll 8
  for (int i = 0; i < n; ++i) s += in[i] * s;
#pragma unroll 1
  for (int i = 1; i < n; i *= 2) s -= in[i];
#pragma unroll
  for (int i = 0; i < 12; ++i) s *= in[i];
  out[threadIdx.x] = s;
}

extern "C" __global__ void merge(const int* a, const int* b, int* out, int na, int nb) {
  int i = 0, j = 0, k = 0;
  while (i < na && j < nb) out[k++] = a[i] <= b[j] ? a[i++] : b[j++];
  while (i < na) out[k++] = a[i++];
  while (j < nb) out[k++] = b[j++];
  __syncthreads();
  for (;;) {
    const int old = atomicAdd(out, -1);
    if (old <= 0) break;
    if (old == 12345) __trap();
  }
}

extern "C" __global__ void guarded(int* a, int n) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  int v = a[t];
  if (v > 0) v += 3;
  if (v & 1) a[t] = v;
  if (threadIdx.x == 0) asm volatile("exit;");
  a[t + n] = v > 5 ? v : -v;
}
