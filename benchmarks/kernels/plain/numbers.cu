// Linear algebra, integers, signals.

struct Section {
  float b[3], a[2];
};

__constant__ float response[64];
__constant__ Section sections[4];

// A lower triangle against a right side, row by row.
extern "C" __global__ void forward_solve(const float* matrix, const float* right, float* out,
                                         int n) {
  __shared__ float x[64];
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x == 0) {
      float sum = right[blockIdx.x * n + i];
      for (int j = 0; j < i; ++j) sum -= matrix[(blockIdx.x * n + i) * n + j] * x[j];
      x[i] = sum / matrix[(blockIdx.x * n + i) * n + i];
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = x[i];
}

// Sums over the pairs behind a thread's own row.
extern "C" __global__ void pair_sums(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int j = i + 1; j < n; ++j) sum += x[i] * x[j];
  if (i < n) out[i] = sum;
}

// Triples i < j < k, a thread an i.
extern "C" __global__ void triple_count(const int* x, int* out, int n) {
  int i = threadIdx.x, count = 0;
  for (int j = i + 1; j < n; ++j)
    for (int k = j + 1; k < n; ++k) count += (x[i] + x[j] + x[k]) == 0;
  out[i] = count;
}

// A small matrix of each thread into its triangular root.
extern "C" __global__ void cholesky(float* all, int n, int count) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= count) return;
  float* a = all + (size_t)t * n * n;
  for (int j = 0; j < n; ++j) {
    float d = a[j * n + j];
    for (int k = 0; k < j; ++k) d -= a[j * n + k] * a[j * n + k];
    d = sqrtf(d);
    a[j * n + j] = d;
    for (int i = j + 1; i < n; ++i) {
      float s = a[i * n + j];
      for (int k = 0; k < j; ++k) s -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = s / d;
    }
  }
}

// Integer roots by Newton's step.
extern "C" __global__ void integer_roots(const unsigned* in, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = in[i];
  if (v < 2) {
    out[i] = v;
    return;
  }
  unsigned x = v / 2, y = (x + v / x) / 2;
  while (y < x) {
    x = y;
    y = (x + v / x) / 2;
  }
  out[i] = x;
}

// Common divisors by shifts and differences.
extern "C" __global__ void binary_gcd(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned u = a[i], v = b[i];
  if (u == 0 || v == 0) {
    out[i] = u | v;
    return;
  }
  int shift = __ffs(u | v) - 1;
  u >>= __ffs(u) - 1;
  while (v != 0) {
    v >>= __ffs(v) - 1;
    if (u > v) {
      unsigned t = u;
      u = v;
      v = t;
    }
    v -= u;
  }
  out[i] = u << shift;
}

// Powers by squaring.
extern "C" __global__ void powers(const unsigned* base, const unsigned* exponent, unsigned* out,
                                  int n, unsigned modulus) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long b = base[i] % modulus, r = 1;
  for (unsigned e = exponent[i]; e > 0; e >>= 1) {
    if (e & 1) r = r * b % modulus;
    b = b * b % modulus;
  }
  out[i] = r;
}

// Rows of a sparse matrix, each cut at 64 elements.
extern "C" __global__ void sparse_rows(const int* offsets, const int* columns, const float* values,
                                       const float* x, float* y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  int begin = offsets[row], count = min(offsets[row + 1] - begin, 64);
  float sum = 0.0f;
  for (int k = 0; k < count; ++k) sum += values[begin + k] * x[columns[begin + k]];
  y[row] = sum;
}

// The same, a warp a row.
extern "C" __global__ void sparse_warps(const int* offsets, const int* columns, const float* values,
                                        const float* x, float* y, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = offsets[row] + lane; k < offsets[row + 1]; k += 32) sum += values[k] * x[columns[k]];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (lane == 0) y[row] = sum;
}

// Rows padded to a width, whose ends are marked by a column of -1.
extern "C" __global__ void padded_rows(const int* columns, const float* values, const float* x,
                                       float* y, int rows, int width) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  const int* end = columns + (size_t)(row + 1) * width;
  const float* value = values + (size_t)row * width;
  for (const int* c = columns + (size_t)row * width; c != end && *c >= 0; ++c, ++value)
    sum += *value * x[*c];
  y[row] = sum;
}

// A filter with a finite response that the host has stored.
extern "C" __global__ void fir(const float* in, float* out, int n, int length) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < length && k <= i; ++k) sum += response[k] * in[i - k];
  out[i] = sum;
}

// Second-order sections one after the other, a thread a channel.
extern "C" __global__ void biquads(const float* in, float* out, int samples, int channels,
                                   int count) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float state[4][2] = {};
  for (int t = 0; t < samples; ++t) {
    float x = in[t * channels + c];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      if (s >= count) break;
      float y = sections[s].b[0] * x + state[s][0];
      state[s][0] = sections[s].b[1] * x - sections[s].a[0] * y + state[s][1];
      state[s][1] = sections[s].b[2] * x - sections[s].a[1] * y;
      x = y;
    }
    out[t * channels + c] = x;
  }
}

// Resampling by a ratio of whole numbers.
extern "C" __global__ void resample(const float* in, const float* filter, float* out, int n, int up,
                                    int down, int phase_length) {
  int count = n * up / down;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    int place = i * down, phase = place % up, x = place / up;
    int stop = min(phase_length, x + 1);
    float sum = 0.0f;
    for (int k = 0; k < stop; ++k) sum += filter[phase * phase_length + k] * in[x - k];
    out[i] = sum;
  }
}

// Peaks that are higher than all within an order on both sides.
extern "C" __global__ void find_peaks(const float* in, int* out, int n, int order) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float mine = in[i];
  bool peak = true;
  for (int k = 1; k <= order && peak; ++k) {
    int left = i - k < 0 ? 0 : i - k, right = i + k >= n ? n - 1 : i + k;
    peak = mine > in[left] && mine > in[right];
  }
  out[i] = peak;
}

// Steps until they are small, 50 at most.
extern "C" __global__ void kepler(const float* anomaly, const float* eccentricity, float* out,
                                  int n, float tolerance) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float m = anomaly[i], e = eccentricity[i], x = m;
  for (int k = 0; k < 50; ++k) {
    float step = (x - e * __sinf(x) - m) / (1.0f - e * __cosf(x));
    x -= step;
    if (fabsf(step) < tolerance) break;
  }
  out[i] = x;
}

// Power iteration of a block until the value stands still.
extern "C" __global__ void power_iteration(const float* matrix, float* out, int n, int most,
                                           float tolerance) {
  __shared__ float x[64], y[64];
  __shared__ float norm;
  int me = threadIdx.x;
  x[me] = 1.0f;
  float last = 0.0f;
  __syncthreads();
  for (int k = 0; k < most; ++k) {
    float sum = 0.0f;
    for (int j = 0; j < n; ++j) sum += matrix[me * n + j] * x[j];
    y[me] = sum;
    __syncthreads();
    if (me == 0) {
      float squares = 0.0f;
      for (int j = 0; j < n; ++j) squares += y[j] * y[j];
      norm = sqrtf(squares);
    }
    __syncthreads();
    x[me] = y[me] / norm;
    float now = norm;
    __syncthreads();
    if (fabsf(now - last) < tolerance) break;
    last = now;
  }
  if (me == 0) out[blockIdx.x] = last;
}
