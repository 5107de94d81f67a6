// Loops with strides, windows and skips whose limits are known, as nvcc -O3 unrolls them.

extern "C" __global__ void strided(const int* data, int* out, int n, int m) {
  int length = min(data[blockIdx.x], n), sum = 0;
  for (int i = threadIdx.x; i < length; i += 32) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void strided_third(const int* data, int* out, int n, int m) {
  int length = min(data[blockIdx.x], n), sum = 0;
  for (int i = threadIdx.x; i < length; i += 3) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void strided_by(const int* data, int* out, int n, int m) {
  int length = min(data[blockIdx.x], n), sum = 0;
  for (int i = threadIdx.x; i < length; i += m) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

// The same: with a stride of half the limit there are two iterations, less than the unrolled four.
extern "C" __global__ void strided_far(const int* data, int* out, int n, int m) {
  int length = min(data[blockIdx.x], n), sum = 0;
  for (int i = threadIdx.x; i < length; i += 10 * m) sum += data[i] * i;
  out[threadIdx.x] = sum;
}

extern "C" __global__ void lowered(const unsigned* data, int* out, unsigned n, int m) {
  unsigned x = min(data[threadIdx.x], n), sum = 0;
  while (x >= 7) {
    x -= 7;
    sum += x;
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void skipping(const int* data, int* out, int n, int m) {
  int i = 0, sum = 0;
  while (i < n) {
    int step = data[i];
    if (step > 0 && step < 9) {
      i += step;
      sum += step;
    } else {
      ++i;
      sum -= 1;
    }
  }
  out[threadIdx.x] = sum;
}

extern "C" __global__ void cases(const int* data, int* out, int n, int m) {
  int count, sum = 0;
  switch (data[threadIdx.x]) {
    case 0: count = 3; break;
    case 1: count = 9; break;
    case 2: count = 27; break;
    default: count = 1;
  }
  for (int i = 0; i < count; ++i) sum += data[i * 3 + threadIdx.x];
  out[threadIdx.x] = sum;
}

extern "C" __global__ void packets(const unsigned char* data, int* out, int n, int m) {
  int i = 0, k = 0;
  while (i + 4 <= n) {
    int length = data[i] | data[i + 1] << 8;
    if (length < 4 || i + length > n) break;
    out[k++] = i;
    i += length;
  }
}

extern "C" __global__ void lowest_bits(const int* data, int* out, int n, int m) {
  int sum = 0;
  for (int i = (data[threadIdx.x] & 31) + 1; i <= n; i += i & -i) sum += data[i];
  out[threadIdx.x] = sum;
}

extern "C" __global__ void window(const int* data, int* out, int n, int m) {
  int x = data[threadIdx.x], sum = 0;
  for (int y = max(x - m, 0); y <= min(x + m, n - 1); ++y) sum += data[y] * y;
  out[threadIdx.x] = sum;
}

// Each warp of the block has a row of its own, of which the limit knows nothing.
extern "C" __global__ void causal(const int* data, int* out, int n, int m) {
  int length = data[blockIdx.x + 1] - data[blockIdx.x], row = blockIdx.x * 32 + threadIdx.y;
  if (blockIdx.x * 32 >= length) return;
  int sum = 0, last = m ? min(length, (int)(blockIdx.x + 1) * 32) : length;
  for (int tile = 0; tile < last; tile += 32) {
    if (data[tile] > row) sum += 1;
    for (int j = 0; j < min(32, last - tile); ++j) {
      if (m && tile + j > row) break;
      sum += data[tile + j] * row;
    }
  }
  out[row] = sum;
}
