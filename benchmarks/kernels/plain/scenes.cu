// Splats, rays, and code that waits.

struct Splat {
  float2 mean;
  float3 conic;
  float opacity;
};

// How many tiles a splat covers; its radius is rounded up from a float.
extern "C" __global__ void splat_tiles(const float2* means, const float* radii, int count,
                                       int tiles_x, int tiles_y, int* covered) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float r = radii[i] / 16.0f, x = means[i].x / 16.0f, y = means[i].y / 16.0f;
  int x0 = min(max((int)(x - r), 0), tiles_x), x1 = min(max((int)(x + r + 1.0f), 0), tiles_x);
  int y0 = min(max((int)(y - r), 0), tiles_y), y1 = min(max((int)(y + r + 1.0f), 0), tiles_y);
  covered[i] = (x1 - x0) * (y1 - y0);
}

// Keys for each tile that a splat covers.
extern "C" __global__ void splat_keys(const float2* means, const float* radii, const int* offsets,
                                      int count, int tiles_x, int tiles_y,
                                      unsigned long long* keys) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float r = radii[i] / 16.0f, cx = means[i].x / 16.0f, cy = means[i].y / 16.0f;
  int x0 = min(max((int)(cx - r), 0), tiles_x), x1 = min(max((int)(cx + r + 1.0f), 0), tiles_x);
  int y0 = min(max((int)(cy - r), 0), tiles_y), y1 = min(max((int)(cy + r + 1.0f), 0), tiles_y);
  int at = i == 0 ? 0 : offsets[i - 1];
  for (int y = y0; y < y1; ++y)
    for (int x = x0; x < x1; ++x) keys[at++] = (unsigned long long)(y * tiles_x + x) << 32 | i;
}

// The pixels of a tile, front to back, in batches, until the whole block is opaque.
extern "C" __global__ void __launch_bounds__(256)
    splat_pixels(const int2* ranges, const int* order, const Splat* splats, const float* colours,
                 float* out, int width, int height) {
  __shared__ Splat batch[256];
  __shared__ float colour[256];
  int me = threadIdx.y * 16 + threadIdx.x;
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  int2 range = ranges[blockIdx.y * gridDim.x + blockIdx.x];
  int rounds = (range.y - range.x + 255) / 256, left = range.y - range.x;
  bool done = x >= width || y >= height;
  float light = 1.0f, sum = 0.0f;
  for (int r = 0; r < rounds; ++r, left -= 256) {
    if (__syncthreads_count(done) == 256) break;
    int k = range.x + r * 256 + me;
    if (k < range.y) {
      batch[me] = splats[order[k]];
      colour[me] = colours[order[k]];
    }
    __syncthreads();
    for (int j = 0; !done && j < min(256, left); ++j) {
      float dx = batch[j].mean.x - x, dy = batch[j].mean.y - y;
      float3 c = batch[j].conic;
      float power = -0.5f * (c.x * dx * dx + c.z * dy * dy) - c.y * dx * dy;
      if (power > 0.0f) continue;
      float alpha = fminf(0.99f, batch[j].opacity * __expf(power));
      if (alpha < 1.0f / 255.0f) continue;
      if (light * (1.0f - alpha) < 0.0001f) {
        done = true;
        continue;
      }
      sum += colour[j] * alpha * light;
      light *= 1.0f - alpha;
    }
  }
  if (x < width && y < height) out[y * width + x] = sum;
}

// A volume along rays, with a limit of steps.
extern "C" __global__ void march(const float* volume, int3 size, const float3* starts,
                                 const float3* directions, float* out, int rays, int most,
                                 float step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rays) return;
  float3 p = starts[i], d = directions[i];
  float sum = 0.0f, light = 1.0f;
  for (int k = 0; k < most && light > 0.01f; ++k) {
    int x = (int)p.x, y = (int)p.y, z = (int)p.z;
    if (x < 0 || y < 0 || z < 0 || x >= size.x || y >= size.y || z >= size.z) break;
    float a = volume[(z * size.y + y) * size.x + x] * step;
    sum += a * light;
    light *= 1.0f - a;
    p.x += d.x * step;
    p.y += d.y * step;
    p.z += d.z * step;
  }
  out[i] = sum;
}

// Steps whose number is a distance over a step, of which the launch knows both.
extern "C" __global__ void fixed_march(const float* line, float* out, int n, float length,
                                       float step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int steps = (int)ceilf(length / step);
  float sum = 0.0f;
  for (int k = 0; k < steps; ++k) sum += line[(i + k) % n];
  out[i] = sum * step;
}

// Walks down a tree of boxes with a stack in local memory.
extern "C" __global__ void tree_hits(const float4* boxes, const int2* children, int nodes,
                                     const float2* points, int* hits, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int stack[32], top = 0, found = 0;
  float2 p = points[i];
  stack[top++] = 0;
  for (int visited = 0; top > 0 && visited < nodes; ++visited) {
    int node = stack[--top];
    float4 b = boxes[node];
    if (p.x < b.x || p.y < b.y || p.x > b.z || p.y > b.w) continue;
    int2 c = children[node];
    if (c.x < 0) {
      ++found;
    } else if (top < 31) {
      stack[top++] = c.x;
      stack[top++] = c.y;
    }
  }
  hits[i] = found;
}

// A lock that is tried with longer and longer sleeps, 16 times at most.
extern "C" __global__ void add_locked(int* lock, float* sum, const float* in) {
  if (threadIdx.x != 0) return;
  unsigned wait = 8;
  for (int k = 0; k < 16; ++k) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *sum += in[blockIdx.x];
      __threadfence();
      atomicExch(lock, 0);
      return;
    }
    __nanosleep(wait);
    if (wait < 256) wait *= 2;
  }
}

// Samples a counter with pauses of a fixed length.
extern "C" __global__ void sample_counter(volatile int* counter, int* out, int samples) {
  for (int k = 0; k < samples; ++k) {
    out[k] = counter[0];
    __nanosleep(100);
  }
}

// Waits for a flag that the host or another kernel sets.
extern "C" __global__ void wait_flag(volatile int* flag, const float* in, float* out) {
  if (threadIdx.x == 0)
    while (flag[0] == 0) {
    }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
}

// The last block of a launch adds up what all have left.
extern "C" __global__ void last_block_sum(const float* in, float* parts, unsigned* arrived,
                                          float* out, int n) {
  __shared__ float sums[128];
  __shared__ bool last;
  float sum = 0.0f;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) sum += in[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int d = 64; d > 0; d >>= 1) {
    if (threadIdx.x < d) sums[threadIdx.x] += sums[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sums[0];
    __threadfence();
    last = atomicAdd(arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float all = 0.0f;
    for (int b = 0; b < gridDim.x; ++b) all += parts[b];
    out[0] = all;
  }
}
