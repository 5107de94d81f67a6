// Point clouds, voxels, boxes: counts that another kernel has left in memory.

struct Box {
  float x0, y0, x1, y1;
};

__device__ float overlap(const Box& a, const Box& b) {
  float w = fmaxf(fminf(a.x1, b.x1) - fmaxf(a.x0, b.x0), 0.0f);
  float h = fmaxf(fminf(a.y1, b.y1) - fmaxf(a.y0, b.y0), 0.0f);
  float both = w * h;
  return both / ((a.x1 - a.x0) * (a.y1 - a.y0) + (b.x1 - b.x0) * (b.y1 - b.y0) - both);
}

// Features of pillars to their cells of the canvas; a block a pillar, a thread a channel.
extern "C" __global__ void pillar_scatter(const float* features, const int* cells, const int* used,
                                          float* canvas, int width, int height) {
  int pillar = blockIdx.x;
  if (pillar >= used[0]) return;
  int cell = cells[pillar];
  if (cell < 0 || cell >= width * height) return;
  canvas[threadIdx.x * width * height + cell] = features[pillar * blockDim.x + threadIdx.x];
}

// The mean of the points of a voxel, of which at most 32 are kept.
extern "C" __global__ void voxel_mean(const float4* points, const int* counts, float4* means,
                                      int voxels) {
  int voxel = blockIdx.x * blockDim.x + threadIdx.x;
  if (voxel >= voxels) return;
  int count = min(counts[voxel], 32);
  float4 sum = make_float4(0, 0, 0, 0);
  for (int i = 0; i < count; ++i) {
    float4 p = points[voxel * 32 + i];
    sum.x += p.x;
    sum.y += p.y;
    sum.z += p.z;
    sum.w += p.w;
  }
  float scale = 1.0f / fmaxf(count, 1.0f);
  means[voxel] = make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale);
}

// Puts points into voxels, with a counter that may run over.
extern "C" __global__ void voxelise(const float4* points, int count, float3 low, float3 step,
                                    int3 cells, int* counts, float4* kept, int most) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float4 p = points[i];
    int x = floorf((p.x - low.x) / step.x), y = floorf((p.y - low.y) / step.y);
    int z = floorf((p.z - low.z) / step.z);
    if (x < 0 || x >= cells.x || y < 0 || y >= cells.y || z < 0 || z >= cells.z) continue;
    int voxel = (z * cells.y + y) * cells.x + x;
    int place = atomicAdd(counts + voxel, 1);
    if (place < most) kept[voxel * most + place] = p;
  }
}

// Which of 64 boxes of a column of blocks each box of a row suppresses, as a word of bits.
extern "C" __global__ void suppress_mask(const Box* boxes, int count, float limit,
                                         unsigned long long* mask) {
  __shared__ Box columns[64];
  int row = blockIdx.y, column = blockIdx.x;
  if (row > column) return;
  int rows = min(count - row * 64, 64), width = min(count - column * 64, 64);
  if (threadIdx.x < width) columns[threadIdx.x] = boxes[column * 64 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x >= rows) return;
  Box mine = boxes[row * 64 + threadIdx.x];
  unsigned long long bits = 0;
  for (int i = row == column ? threadIdx.x + 1 : 0; i < width; ++i)
    if (overlap(mine, columns[i]) > limit) bits |= 1ull << i;
  mask[(row * 64 + threadIdx.x) * gridDim.x + column] = bits;
}

// Goes through the masks in one block; the number of boxes is what a kernel before has left.
extern "C" __global__ void suppress_reduce(const unsigned long long* mask, const int* found,
                                           int* kept, int* kept_count) {
  __shared__ unsigned long long removed[16];
  int count = min(max(found[0], 0), 1024), words = (count + 63) / 64;
  if (threadIdx.x < 16) removed[threadIdx.x] = 0;
  __syncthreads();
  int n = 0;
  for (int i = 0; i < count; ++i) {
    if (!(removed[i / 64] >> (i % 64) & 1)) {
      if (threadIdx.x == 0) kept[n] = i;
      ++n;
      __syncthreads();
      if (threadIdx.x < words) removed[threadIdx.x] |= mask[i * words + threadIdx.x];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) kept_count[0] = n;
}

// Each detection against those before it, by distance of centres.
extern "C" __global__ void circle_suppress(const float2* centres, const int* found, float radius,
                                           int* keep) {
  int count = found[0] < 500 ? found[0] : 500;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int good = 1;
  for (int j = 0; j < i; ++j) {
    float dx = centres[i].x - centres[j].x, dy = centres[i].y - centres[j].y;
    if (dx * dx + dy * dy < radius * radius) {
      good = 0;
      break;
    }
  }
  keep[i] = good;
}

// The first points within a radius, until enough are found.
extern "C" __global__ void ball_query(const float3* centres, const float3* points, int* found,
                                      int centre_count, int point_count, int most, float radius) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= centre_count) return;
  float3 c = centres[i];
  int n = 0;
  for (int k = 0; k < point_count && n < most; ++k) {
    float3 p = points[k];
    float d = (p.x - c.x) * (p.x - c.x) + (p.y - c.y) * (p.y - c.y) + (p.z - c.z) * (p.z - c.z);
    if (d >= radius * radius) continue;
    if (n == 0)
      for (int l = 0; l < most; ++l) found[i * most + l] = k;
    found[i * most + n++] = k;
  }
}

// The farthest point from those taken already, again and again.
extern "C" __global__ void farthest_points(const float3* points, float* nearest, int* taken,
                                           int count, int wanted) {
  __shared__ float best[256];
  __shared__ int place[256];
  int last = 0, me = threadIdx.x;
  for (int round = 0; round < wanted; ++round) {
    if (me == 0) taken[round] = last;
    float3 p = points[last];
    float far = -1.0f;
    int at = 0;
    for (int i = me; i < count; i += 256) {
      float dx = points[i].x - p.x, dy = points[i].y - p.y, dz = points[i].z - p.z;
      float d = fminf(nearest[i], dx * dx + dy * dy + dz * dz);
      nearest[i] = d;
      if (d > far) far = d, at = i;
    }
    best[me] = far;
    place[me] = at;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
      if (me < half && best[me + half] > best[me]) {
        best[me] = best[me + half];
        place[me] = place[me + half];
      }
      __syncthreads();
    }
    last = place[0];
    __syncthreads();
  }
}

// Points in polygons, whose corners lie between two offsets.
extern "C" __global__ void in_polygon(const float2* points, int count, const float2* corners,
                                      const int* offsets, int polygons, int* inside) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float2 p = points[i];
  int hit = -1;
  for (int k = 0; k < polygons; ++k) {
    int begin = offsets[k], end = offsets[k + 1];
    bool in = false;
    for (int a = begin, b = end - 1; a < end; b = a++) {
      float2 u = corners[a], v = corners[b];
      if ((u.y > p.y) != (v.y > p.y) && p.x < (v.x - u.x) * (p.y - u.y) / (v.y - u.y) + u.x)
        in = !in;
    }
    if (in) hit = k;
  }
  inside[i] = hit;
}

// The peak in a window around a place that data decide, cut at the borders of the map.
extern "C" __global__ void local_peak(const float* map, const int2* places, int* peaks, int count,
                                      int width, int height, int radius) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int2 at = places[i];
  int x0 = max(at.x - radius, 0), x1 = min(at.x + radius, width - 1);
  int y0 = max(at.y - radius, 0), y1 = min(at.y + radius, height - 1);
  float best = -1e30f;
  int where = -1;
  for (int y = y0; y <= y1; ++y)
    for (int x = x0; x <= x1; ++x)
      if (map[y * width + x] > best) {
        best = map[y * width + x];
        where = y * width + x;
      }
  peaks[i] = where;
}

// Occupied cells along a ray, by the integer line algorithm.
extern "C" __global__ void ray_cells(const short2* ends, int rays, unsigned char* grid, int width,
                                     int height) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rays) return;
  int x = width / 2, y = height / 2;
  int tx = min(max((int)ends[i].x, 0), width - 1), ty = min(max((int)ends[i].y, 0), height - 1);
  int dx = abs(tx - x), dy = abs(ty - y), sx = x < tx ? 1 : -1, sy = y < ty ? 1 : -1;
  int error = dx - dy;
  for (int n = max(dx, dy); n > 0; --n) {
    grid[y * width + x] = 1;
    int twice = 2 * error;
    if (twice > -dy) error -= dy, x += sx;
    if (twice < dx) error += dx, y += sy;
  }
}
