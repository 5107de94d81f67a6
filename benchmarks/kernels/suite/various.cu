// Physics, finance, text, hashing and others.

#define BODIES 32

extern "C" __global__ void nbody_tile(const float4* __restrict__ bodies, float4* __restrict__ acceleration, int count, float soft) {
  __shared__ float4 tile[BODIES];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = i < count ? bodies[i] : make_float4(0, 0, 0, 0);
  float ax = 0.0f, ay = 0.0f, az = 0.0f;
  for (int base = 0; base < count; base += BODIES) {
    int j = base + threadIdx.x;
    tile[threadIdx.x] = j < count ? bodies[j] : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < BODIES; ++k) {
      float dx = tile[k].x - me.x, dy = tile[k].y - me.y, dz = tile[k].z - me.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + soft);
      float s = tile[k].w * inverse * inverse * inverse;
      ax += dx * s;
      ay += dy * s;
      az += dz * s;
    }
    __syncthreads();
  }
  if (i < count) acceleration[i] = make_float4(ax, ay, az, 0.0f);
}

__device__ __forceinline__ unsigned next_random(unsigned long long& state) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(state >> 33);
}

// pi by counting, and points of the disc found by rejection
extern "C" __global__ void monte_carlo(unsigned long long* states, float2* __restrict__ points, unsigned* inside, int count, int trials) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= count) return;
  unsigned long long state = states[id];
  unsigned hits = 0;
  for (int i = 0; i < trials; ++i) {
    float x = next_random(state) * 4.6566129e-10f, y = next_random(state) * 4.6566129e-10f;
    if (x * x + y * y <= 1.0f) hits++;
  }
  float x, y;
  do {
    x = 2.0f * (next_random(state) * 4.6566129e-10f) - 1.0f;
    y = 2.0f * (next_random(state) * 4.6566129e-10f) - 1.0f;
  } while (x * x + y * y > 1.0f);
  points[id] = make_float2(x, y);
  atomicAdd(inside, hits);
  states[id] = state;
}

__device__ __forceinline__ float normal_cdf(float d) {
  float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float tail = 0.39894228f * expf(-0.5f * d * d) *
               (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0.0f ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(float* __restrict__ call, float* __restrict__ put, const float* __restrict__ price,
                                         const float* __restrict__ strike, const float* __restrict__ years, float rate,
                                         float volatility, int options) {
  const int step = blockDim.x * gridDim.x;
  for (int o = blockIdx.x * blockDim.x + threadIdx.x; o < options; o += step) {
    float root = sqrtf(years[o]);
    float d1 = (logf(price[o] / strike[o]) + (rate + 0.5f * volatility * volatility) * years[o]) / (volatility * root);
    float d2 = d1 - volatility * root;
    float c1 = normal_cdf(d1), c2 = normal_cdf(d2), discount = expf(-rate * years[o]);
    call[o] = price[o] * c1 - strike[o] * discount * c2;
    put[o] = strike[o] * discount * (1.0f - c2) - price[o] * (1.0f - c1);
  }
}

extern "C" __global__ void collatz(const unsigned* __restrict__ start, int* __restrict__ steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    unsigned v = start[i];
    int count = 0;
    while (v > 1) {
      v = v & 1 ? 3 * v + 1 : v >> 1;
      ++count;
    }
    steps[i] = count;
  }
}

extern "C" __global__ void binary_search(const int* __restrict__ sorted, int n, const int* __restrict__ keys, int* __restrict__ place, int asked) {
  for (int q = blockIdx.x * blockDim.x + threadIdx.x; q < asked; q += gridDim.x * blockDim.x) {
    int key = keys[q], low = 0, high = n;
    while (low < high) {
      int middle = (low + high) / 2;
      if (sorted[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    place[q] = low < n && sorted[low] == key ? low : -1;
  }
}

// first letters where a pattern occurs, the pattern in shared memory
extern "C" __global__ void string_match(const char* __restrict__ text, int length, const char* __restrict__ pattern, int m, int* found) {
  __shared__ char wanted[32];
  if (threadIdx.x < m) wanted[threadIdx.x] = pattern[threadIdx.x];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > length - m) return;
  int k = 0;
  while (k < m && text[i + k] == wanted[k]) ++k;
  found[i] = k == m;
}

// checksum of a record a thread; the table is made by the block first
extern "C" __global__ void crc32_records(const unsigned char* __restrict__ data, const int* __restrict__ length, int stride, int records,
                                         unsigned* __restrict__ crc) {
  __shared__ unsigned table[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    unsigned c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  __syncthreads();
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= records) return;
  unsigned c = 0xffffffffu;
  const int n = min(length[r], stride);
  for (int i = 0; i < n; ++i) c = table[(c ^ data[r * stride + i]) & 255u] ^ (c >> 8);
  crc[r] = ~c;
}

// open addressing: probe until the key or an empty slot is met
extern "C" __global__ void hash_probe(const int2* __restrict__ slots, unsigned mask, const int* __restrict__ keys, int* __restrict__ values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int key = keys[i];
  unsigned slot = (unsigned)key * 2654435761u & mask;
  int value = -1;
  while (slots[slot].x != -1) {
    if (slots[slot].x == key) {
      value = slots[slot].y;
      break;
    }
    slot = (slot + 1) & mask;
  }
  values[i] = value;
}

__device__ __forceinline__ unsigned rotate(unsigned v, int n) { return v >> n | v << (32 - n); }

// rounds of a hash in the manner of SHA-2, message schedule in local memory
extern "C" __global__ void hash_rounds(const unsigned* __restrict__ words, unsigned* __restrict__ digest, int messages, int rounds) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= messages) return;
  unsigned w[16], a = 0x6a09e667u, b = 0xbb67ae85u, c = 0x3c6ef372u, d = 0xa54ff53au;
#pragma unroll
  for (int i = 0; i < 16; ++i) w[i] = words[id * 16 + i];
  for (int r = 0; r < rounds; ++r) {
    unsigned s = w[r & 15];
    if (r >= 16) {
      unsigned old = w[(r + 1) & 15], recent = w[(r + 14) & 15];
      s += (rotate(old, 7) ^ rotate(old, 18) ^ old >> 3) + w[(r + 9) & 15] + (rotate(recent, 17) ^ rotate(recent, 19) ^ recent >> 10);
      w[r & 15] = s;
    }
    unsigned mix;
    switch ((r >> 2) & 3) {
      case 0: mix = (b & c) | (~b & d); break;
      case 1: mix = b ^ c ^ d; break;
      case 2: mix = (b & c) | (b & d) | (c & d); break;
      default: mix = b + (c ^ d);
    }
    unsigned next = d + mix + s + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22));
    d = c;
    c = b;
    b = rotate(a, 5);
    a = next;
  }
  digest[id] = a ^ b ^ c ^ d;
}

struct Sphere {
  float x, y, z, radius;
};

__device__ __noinline__ float hit(const Sphere& s, float dx, float dy) {
  float b = dx * s.x + dy * s.y + s.z, c = s.x * s.x + s.y * s.y + s.z * s.z - s.radius * s.radius;
  float disc = b * b - c * (dx * dx + dy * dy + 1.0f);
  return disc < 0.0f ? -1.0f : b - sqrtf(disc);
}

// nearest sphere along a ray through each pixel, with a few mirror bounces
extern "C" __global__ void ray_spheres(const Sphere* __restrict__ spheres, int count, int width, int height, int bounces, int* __restrict__ image) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float dx = (x - width / 2) * 0.05f, dy = (y - height / 2) * 0.05f;
  int code = 0;
  for (int bounce = 0; bounce < bounces; ++bounce) {
    float nearest = 1e30f;
    int which = -1;
    for (int s = 0; s < count; ++s) {
      float t = hit(spheres[s], dx, dy);
      if (t > 0.0f && t < nearest) {
        nearest = t;
        which = s;
      }
    }
    if (which < 0) break;
    code = code * 8 + which + 1;
    dx = -dx + 0.3f * spheres[which].x;
    dy = -dy + 0.3f * spheres[which].y;
  }
  image[y * width + x] = code;
}

// radix-2 transform of 64 points in shared memory
extern "C" __global__ void fft_shared(float2* data, const float2* __restrict__ twiddle, int direction) {
  __shared__ float2 v[64];
  int t = threadIdx.x, base = blockIdx.x * 64;
  for (int i = t; i < 64; i += 32) v[__brev(i) >> 26] = data[base + i];
  __syncthreads();
  for (int half = 1; half < 64; half <<= 1) {
    int k = t & (half - 1), at = ((t - k) << 1) + k;
    float2 w = twiddle[k * (32 / half)];
    if (direction < 0) w.y = -w.y;
    float2 a = v[at], b = v[at + half];
    float2 p = make_float2(b.x * w.x - b.y * w.y, b.x * w.y + b.y * w.x);
    v[at] = make_float2(a.x + p.x, a.y + p.y);
    v[at + half] = make_float2(a.x - p.x, a.y - p.y);
    __syncthreads();
  }
  for (int i = t; i < 64; i += 32) data[base + i] = v[i];
}

// a small virtual machine a thread: registers of bytecode
extern "C" __global__ void interpreter(const int* __restrict__ code, int length, const int* __restrict__ in, int* __restrict__ out, int n, int fuel) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int accumulator = in[i], saved = 0, pc = 0;
  while (pc < length && fuel-- > 0) {
    int word = code[pc++], operand = word >> 3;
    switch (word & 7) {
      case 0: accumulator += operand; break;
      case 1: accumulator *= operand; break;
      case 2: saved = accumulator; break;
      case 3: accumulator -= saved; break;
      case 4: if (accumulator < 0) pc = operand; break;
      case 5: accumulator ^= saved << (operand & 7); break;
      case 6: accumulator >>= operand & 3; break;
      default: pc = length;
    }
  }
  out[i] = accumulator;
}

// greatest common divisors and modular powers: two data loops one after the other
extern "C" __global__ void number_theory(const unsigned* __restrict__ a, const unsigned* __restrict__ b, unsigned modulus, unsigned* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = a[i], y = b[i];
  while (y != 0) {
    unsigned rest = x % y;
    x = y;
    y = rest;
  }
  unsigned long long power = 1, base = x % modulus;
  for (unsigned e = b[i]; e != 0; e >>= 1) {
    if (e & 1) power = power * base % modulus;
    base = base * base % modulus;
  }
  out[i] = (unsigned)power;
}
