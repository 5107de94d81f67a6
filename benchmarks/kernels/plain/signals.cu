// Filters, transforms and decoders of signals.

// Samples that are stretched, filtered and thinned in one pass.
extern "C" __global__ void stretch_filter(const float* in, int n, const float* taps, int per_phase,
                                          int up, int down, float* out, int out_n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < out_n; i += gridDim.x * blockDim.x) {
    int x = (i * down) / up, phase = (i * down) % up;
    int tap = phase * per_phase, k = x - per_phase + 1;
    if (k < 0) tap -= k, k = 0;
    float sum = 0.0f;
    for (; k <= x && k < n; ++k) sum += in[k] * taps[tap++];
    out[i] = sum;
  }
}

// A transform of a block's samples, first in reversed order of their bits.
extern "C" __global__ void transform_two(float2* data, int n, int bits, float sign) {
  extern __shared__ float2 work[];
  float2* mine = data + (size_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int r = 0;
    for (int b = 0; b < bits; ++b) r |= (i >> b & 1) << (bits - 1 - b);
    work[r] = mine[i];
  }
  __syncthreads();
  for (int length = 2; length <= n; length <<= 1) {
    float step = sign * 6.2831853f / length;
    for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
      int group = i / (length / 2), k = i % (length / 2), a = group * length + k;
      float s, c;
      __sincosf(step * k, &s, &c);
      float2 u = work[a], v = work[a + length / 2];
      float2 w = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
      work[a] = make_float2(u.x + w.x, u.y + w.y);
      work[a + length / 2] = make_float2(u.x - w.x, u.y - w.y);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) mine[i] = work[i];
}

// The same four at a time, between two buffers that change places.
extern "C" __global__ void transform_four(const float2* in, float2* out, int n) {
  extern __shared__ float2 buffers[];
  float2 *from = buffers, *to = buffers + n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) from[i] = in[(size_t)blockIdx.x * n + i];
  __syncthreads();
  int groups = n / 4, stride = 1;
  while (groups >= 1) {
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
      int p = i / stride, q = i % stride;
      float angle = -6.2831853f * p / (4 * groups);
      float2 a = from[q + stride * p], b = from[q + stride * (p + groups)];
      float2 c = from[q + stride * (p + 2 * groups)], d = from[q + stride * (p + 3 * groups)];
      float2 ac = make_float2(a.x + c.x, a.y + c.y), bd = make_float2(b.x + d.x, b.y + d.y);
      float2 am = make_float2(a.x - c.x, a.y - c.y), bm = make_float2(b.y - d.y, d.x - b.x);
      float s, co;
      __sincosf(angle, &s, &co);
      float2 e = make_float2(am.x + bm.x, am.y + bm.y), f = make_float2(am.x - bm.x, am.y - bm.y);
      to[q + stride * 4 * p] = make_float2(ac.x + bd.x, ac.y + bd.y);
      to[q + stride * (4 * p + 1)] = make_float2(e.x * co - e.y * s, e.x * s + e.y * co);
      to[q + stride * (4 * p + 2)] = make_float2(ac.x - bd.x, ac.y - bd.y);
      to[q + stride * (4 * p + 3)] = make_float2(f.x * co - f.y * s, f.x * s + f.y * co);
    }
    __syncthreads();
    float2* kept = from;
    from = to;
    to = kept;
    groups /= 4;
    stride *= 4;
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[(size_t)blockIdx.x * n + i] = from[i];
}

// Power at frequencies, of samples at uneven times.
extern "C" __global__ void uneven_power(const float* times, const float* values, int n,
                                        const float* frequencies, int count, float* power) {
  for (int f = blockIdx.x * blockDim.x + threadIdx.x; f < count; f += gridDim.x * blockDim.x) {
    float w = frequencies[f], xc = 0, xs = 0, cc = 0, ss = 0, cs = 0;
    for (int i = 0; i < n; ++i) {
      float s, c;
      sincosf(w * times[i], &s, &c);
      xc += values[i] * c, xs += values[i] * s;
      cc += c * c, ss += s * s, cs += c * s;
    }
    float tau = atan2f(2.0f * cs, cc - ss) / (2.0f * w), st, ct;
    sincosf(w * tau, &st, &ct);
    float c2 = ct * ct * cc + 2 * ct * st * cs + st * st * ss;
    float s2 = ct * ct * ss - 2 * ct * st * cs + st * st * cc;
    float a = ct * xc + st * xs, b = ct * xs - st * xc;
    power[f] = 0.5f * (a * a / c2 + b * b / s2);
  }
}

// Sections of second order as a pipeline over the threads of a block.
extern "C" __global__ void section_pipeline(float* signals, int n, const float* sections,
                                            int count, int threads) {
  extern __shared__ float passed[];
  int section = threadIdx.x;
  float* x = signals + (size_t)blockIdx.x * n;
  float z0 = 0.0f, z1 = 0.0f;
  const float* k = sections + section * 6;
  passed[section] = 0.0f;
  __syncthreads();
  for (int i = 0; i < n + count - 1; ++i) {
    float value = 0.0f;
    int at = i - section;
    if (section < count && at >= 0 && at < n) {
      float input = section == 0 ? x[i] : passed[section - 1];
      value = k[0] * input + z0;
      z0 = k[1] * input - k[4] * value + z1;
      z1 = k[2] * input - k[5] * value;
      if (section == count - 1) x[at] = value;
    }
    __syncthreads();
    passed[section] = value;
    __syncthreads();
  }
}

// Detections over the mean of cells around, without the nearest.
extern "C" __global__ void cell_average(const float* power, int ranges, int guard, int train,
                                        float factor, unsigned char* detected) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= ranges) return;
  const float* line = power + (size_t)blockIdx.y * ranges;
  float sum = 0.0f;
  int used = 0;
  for (int d = -guard - train; d <= guard + train; ++d) {
    if (d >= -guard && d <= guard) continue;
    int at = r + d;
    if (at < 0 || at >= ranges) continue;
    sum += line[at];
    ++used;
  }
  detected[(size_t)blockIdx.y * ranges + r] = used > 0 && line[r] > factor * sum / used;
}

enum Edge { kFull, kSame, kValid };

// Correlation of two images, as large as the mode says.
extern "C" __global__ void correlate_2d(const float* a, int ah, int aw, const float* b, int bh,
                                        int bw, int mode, float* out, int oh, int ow) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= ow || y >= oh) return;
  int x0, y0;
  switch (mode) {
    case kFull:
      x0 = x - bw + 1, y0 = y - bh + 1;
      break;
    case kSame:
      x0 = x - bw / 2, y0 = y - bh / 2;
      break;
    default:
      x0 = x, y0 = y;
  }
  float sum = 0.0f;
  for (int j = max(0, -y0); j < min(bh, ah - y0); ++j)
    for (int i = max(0, -x0); i < min(bw, aw - x0); ++i)
      sum += a[(y0 + j) * aw + x0 + i] * b[j * bw + i];
  out[y * ow + x] = sum;
}

// Two series compared along the diagonals of their table.
extern "C" __global__ void warp_distance(const float* a, int n, const float* b, int m, int window,
                                         float* distance) {
  extern __shared__ float diagonals[];
  float *before = diagonals, *last = diagonals + n, *now = diagonals + 2 * n;
  for (int d = 0; d < n + m - 1; ++d) {
    int low = max(0, d - m + 1), high = min(d, n - 1);
    for (int i = low + (int)threadIdx.x; i <= high; i += blockDim.x) {
      int j = d - i;
      float best = 1e30f;
      if (abs(i - j) <= window) {
        float up = i > 0 ? last[i - 1] : 1e30f, left = j > 0 ? last[i] : 1e30f;
        float corner = i > 0 && j > 0 ? before[i - 1] : d == 0 ? 0.0f : 1e30f;
        best = fminf(fminf(up, left), corner) + fabsf(a[i] - b[j]);
      }
      now[i] = best;
    }
    __syncthreads();
    float* kept = before;
    before = last;
    last = now;
    now = kept;
  }
  if (threadIdx.x == 0) *distance = last[n - 1];
}

// The likeliest states behind what was seen, then back along them.
extern "C" __global__ void likeliest_path(const int* seen, int n, const float* move,
                                          const float* emit, int states, int symbols,
                                          unsigned char* came, int* path) {
  extern __shared__ float score[];
  int s = threadIdx.x;
  if (s < states) score[s] = emit[s * symbols + seen[0]];
  __syncthreads();
  for (int t = 1; t < n; ++t) {
    float best = -1e30f;
    int from = 0;
    if (s < states)
      for (int k = 0; k < states; ++k) {
        float x = score[k] + move[k * states + s];
        if (x > best) best = x, from = k;
      }
    __syncthreads();
    if (s < states) {
      score[s] = best + emit[s * symbols + seen[t]];
      came[t * states + s] = from;
    }
    __syncthreads();
  }
  if (s == 0) {
    int at = 0;
    for (int k = 1; k < states; ++k)
      if (score[k] > score[at]) at = k;
    for (int t = n - 1; t >= 0; --t) {
      path[t] = at;
      if (t > 0) at = came[t * states + at];
    }
  }
}

// Medians of a window that slides, kept sorted.
extern "C" __global__ void sliding_median(const float* in, float* out, int n, int half) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float window[33];
  int count = 0;
  for (int k = max(i - half, 0); k <= min(i + half, n - 1); ++k) {
    float x = in[k];
    int at = count++;
    while (at > 0 && window[at - 1] > x) {
      window[at] = window[at - 1];
      --at;
    }
    window[at] = x;
  }
  out[i] = window[count / 2];
}

// Greatest common divisors of lengths, to find a rate that suits both.
extern "C" __global__ void common_rates(const int2* rates, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int a = abs(rates[i].x), b = abs(rates[i].y);
  while (b != 0) {
    int r = a % b;
    a = b;
    b = r;
  }
  out[i] = a;
}
