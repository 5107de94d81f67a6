// Roots, integrals, eigenvalues, random numbers.

// Newton's method from many starts
extern "C" __global__ void newton_roots(const double* __restrict__ start, double* __restrict__ root, int* __restrict__ steps, int count,
                                        int most, double epsilon) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  double x = start[i], change;
  int it = 0;
  do {
    double f = x * x * x - 2.0 * x - 5.0, slope = 3.0 * x * x - 2.0;
    change = f / slope;
    x -= change;
  } while (fabs(change) > epsilon && ++it < most);
  root[i] = x;
  steps[i] = it;
}

// number of eigenvalues of a tridiagonal matrix below x, by the signs of a sequence
__device__ __noinline__ int below(const float* diagonal, const float* side, int n, float x) {
  int count = 0;
  float q = 1.0f;
  for (int i = 0; i < n; ++i) {
    float s = i > 0 ? side[i - 1] : 0.0f;
    q = diagonal[i] - x - (q != 0.0f ? s * s / q : fabsf(s) / 1e-7f);
    count += q < 0.0f;
  }
  return count;
}

// each thread closes in on one eigenvalue
extern "C" __global__ void bisect_eigenvalues(const float* __restrict__ diagonal, const float* __restrict__ side, float* __restrict__ value,
                                              int n, float low, float high, float width) {
  int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= n) return;
  float a = low, b = high;
  while (b - a > width) {
    float middle = 0.5f * (a + b);
    if (below(diagonal, side, n, middle) > k)
      b = middle;
    else
      a = middle;
  }
  value[k] = 0.5f * (a + b);
}

// Simpson's rule, intervals halved on a stack where the estimate is rough
extern "C" __global__ void adaptive_integral(const float2* __restrict__ ranges, float* __restrict__ result, int count, float tolerance) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float left[12], right[12], sum = 0.0f;
  int top = 0;
  left[0] = ranges[i].x;
  right[0] = ranges[i].y;
  while (top >= 0) {
    float a = left[top], b = right[top], h = 0.5f * (b - a), m = a + h;
    float fa = 1.0f / (1.0f + a * a), fm = 1.0f / (1.0f + m * m), fb = 1.0f / (1.0f + b * b);
    float f1 = 1.0f / (1.0f + (a + 0.5f * h) * (a + 0.5f * h)), f2 = 1.0f / (1.0f + (m + 0.5f * h) * (m + 0.5f * h));
    float rough = h / 3.0f * (fa + 4.0f * fm + fb), fine = h / 6.0f * (fa + 4.0f * f1 + 2.0f * fm + 4.0f * f2 + fb);
    if (fabsf(fine - rough) < tolerance || top >= 10) {
      sum += fine;
      --top;
    } else {
      right[top] = m;
      ++top;
      left[top] = m;
      right[top] = b;
    }
  }
  result[i] = sum;
}

// a fixed number of steps of a fourth-order method, with the library's tangent
extern "C" __global__ void runge_kutta(float2* state, int count, int steps, float h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float2 y = state[i];
  for (int s = 0; s < steps; ++s) {
    float k1 = y.y, l1 = -sinf(y.x);
    float k2 = y.y + 0.5f * h * l1, l2 = -sinf(y.x + 0.5f * h * k1);
    float k3 = y.y + 0.5f * h * l2, l3 = -sinf(y.x + 0.5f * h * k2);
    float k4 = y.y + h * l3, l4 = -sinf(y.x + h * k3);
    y.x += h / 6.0f * (k1 + 2.0f * k2 + 2.0f * k3 + k4);
    y.y += h / 6.0f * (l1 + 2.0f * l2 + 2.0f * l3 + l4);
  }
  state[i] = y;
}

// a low-discrepancy sequence: bits of the index choose directions
extern "C" __global__ void sobol_points(const unsigned* __restrict__ directions, float* __restrict__ out, int points, int dimensions) {
  int d = blockIdx.y;
  __shared__ unsigned v[32];
  if (threadIdx.x < 32) v[threadIdx.x] = directions[d * 32 + threadIdx.x];
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < points; i += gridDim.x * blockDim.x) {
    unsigned gray = i ^ i >> 1, x = 0;
    for (unsigned k = 0; k < 32 - __clz(gray); ++k)
      if (gray >> k & 1) x ^= v[k];
    out[d * points + i] = x * 2.3283064e-10f;
  }
}

// counter-based random numbers: rounds of multiplications
extern "C" __global__ void philox(uint4* __restrict__ out, int count, unsigned key0, unsigned key1) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
    uint4 c = make_uint4(i, 0, 0, 0);
    unsigned k0 = key0, k1 = key1;
#pragma unroll 1
    for (int round = 0; round < 10; ++round) {
      unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
      c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    out[i] = c;
  }
}

// powers of a polynomial by repeated squaring, degree by clz
extern "C" __global__ void polynomial(const float* __restrict__ x, const float* __restrict__ coefficient, float* __restrict__ y, int n,
                                      int degree, unsigned exponent) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = 0.0f;
  for (int d = degree; d >= 0; d--) value = value * x[i] + coefficient[d];
  float power = 1.0f;
  for (int bit = 31 - __clz(exponent); bit >= 0; --bit) {
    power *= power;
    if (exponent >> bit & 1) power *= value;
  }
  y[i] = power;
}

// series summed with a floating-point counter
extern "C" __global__ void trapezoids(const float* __restrict__ scale, float* __restrict__ out, int n, float from, float to, float h) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (float x = from; x < to; x += h) sum += h * scale[i] * x * x;
  out[i] = sum;
}

// conjugate gradients on a small dense system in one block, until the residual is small
extern "C" __global__ void conjugate_gradient(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ x, int most,
                                              float tolerance) {
  __shared__ float p[32];
  int t = threadIdx.x;
  float mine = 0.0f, r = b[t];
  float rr = r * r;
  for (int o = 16; o > 0; o >>= 1) rr += __shfl_xor_sync(0xffffffffu, rr, o);
  p[t] = r;
  __syncthreads();
  for (int it = 0; it < most && rr > tolerance; ++it) {
    float ap = 0.0f;
    for (int j = 0; j < 32; ++j) ap += a[t * 32 + j] * p[j];
    float pap = p[t] * ap;
    for (int o = 16; o > 0; o >>= 1) pap += __shfl_xor_sync(0xffffffffu, pap, o);
    float alpha = rr / pap;
    mine += alpha * p[t];
    r -= alpha * ap;
    float next = r * r;
    for (int o = 16; o > 0; o >>= 1) next += __shfl_xor_sync(0xffffffffu, next, o);
    float direction = r + next / rr * p[t];
    __syncthreads();
    p[t] = direction;
    rr = next;
    __syncthreads();
  }
  x[t] = mine;
}
