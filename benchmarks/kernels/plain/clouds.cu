// Points of lidars, boxes, clusters.

struct Grid {
  float3 low;
  float3 size;
  int3 cells;
  int most_points;
};

// Points of each voxel, as many as a voxel holds; the grid comes as one struct.
extern "C" __global__ void fill_voxels(const float4* points, int count, Grid grid, int* held,
                                       float4* voxels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float4 p = points[i];
  int x = (int)floorf((p.x - grid.low.x) / grid.size.x);
  int y = (int)floorf((p.y - grid.low.y) / grid.size.y);
  int z = (int)floorf((p.z - grid.low.z) / grid.size.z);
  if (x < 0 || y < 0 || z < 0 || x >= grid.cells.x || y >= grid.cells.y || z >= grid.cells.z)
    return;
  int voxel = (z * grid.cells.y + y) * grid.cells.x + x;
  int at = atomicAdd(&held[voxel], 1);
  if (at < grid.most_points) voxels[voxel * grid.most_points + at] = p;
}

// Features of pillars: means and offsets of the points that each holds.
extern "C" __global__ void pillar_features(const float4* voxels, const int* held, Grid grid,
                                           int pillars, float* features) {
  int pillar = blockIdx.x * blockDim.x + threadIdx.x;
  if (pillar >= pillars) return;
  int n = held[pillar] < grid.most_points ? held[pillar] : grid.most_points;
  float3 mean = make_float3(0.0f, 0.0f, 0.0f);
  for (int k = 0; k < n; ++k) {
    float4 p = voxels[pillar * grid.most_points + k];
    mean.x += p.x, mean.y += p.y, mean.z += p.z;
  }
  mean.x /= n, mean.y /= n, mean.z /= n;
  for (int k = 0; k < grid.most_points; ++k) {
    float* out = features + (pillar * grid.most_points + k) * 4;
    if (k < n) {
      float4 p = voxels[pillar * grid.most_points + k];
      out[0] = p.x - mean.x, out[1] = p.y - mean.y, out[2] = p.z - mean.z, out[3] = p.w;
    } else {
      out[0] = out[1] = out[2] = out[3] = 0.0f;
    }
  }
}

// A hash table of voxels: a key is put where there is room.
extern "C" __global__ void hash_voxels(const int* keys, int count, int* table, int* values,
                                       int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int key = keys[i];
  unsigned slot = (unsigned)key * 2654435761u % size;
  while (true) {
    int before = atomicCAS(&table[slot], -1, key);
    if (before == -1 || before == key) {
      values[slot] = i;
      break;
    }
    slot = (slot + 1) % size;
  }
}

// Neighbours of a sparse convolution, looked up in that table.
extern "C" __global__ void sparse_neighbours(const int3* places, int count, const int* table,
                                             const int* values, int size, int3 extent,
                                             int* pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int3 p = places[i];
  for (int dz = -1; dz <= 1; ++dz)
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx) {
        int x = p.x + dx, y = p.y + dy, z = p.z + dz, found = -1;
        if (x >= 0 && y >= 0 && z >= 0 && x < extent.x && y < extent.y && z < extent.z) {
          int key = (z * extent.y + y) * extent.x + x;
          unsigned slot = (unsigned)key * 2654435761u % size;
          for (int tries = 0; tries < size && table[slot] != -1; ++tries) {
            if (table[slot] == key) {
              found = values[slot];
              break;
            }
            slot = (slot + 1) % size;
          }
        }
        pairs[((dz + 1) * 9 + (dy + 1) * 3 + dx + 1) * count + i] = found;
      }
}

struct Corner {
  float x, y;
};

// How much two turned rectangles overlap: corners of the common part, sorted by angle.
__device__ float common_area(const float* a, const float* b) {
  Corner pa[4], pb[4], cross[24];
  int n = 0;
  for (int k = 0; k < 4; ++k) {
    float sx = (k == 0 || k == 3) ? -0.5f : 0.5f, sy = k < 2 ? -0.5f : 0.5f;
    float ca = cosf(a[4]), sa = sinf(a[4]), cb = cosf(b[4]), sb = sinf(b[4]);
    pa[k] = {a[0] + sx * a[2] * ca - sy * a[3] * sa, a[1] + sx * a[2] * sa + sy * a[3] * ca};
    pb[k] = {b[0] + sx * b[2] * cb - sy * b[3] * sb, b[1] + sx * b[2] * sb + sy * b[3] * cb};
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      Corner p = pa[i], q = pa[(i + 1) % 4], r = pb[j], s = pb[(j + 1) % 4];
      float d = (q.x - p.x) * (s.y - r.y) - (q.y - p.y) * (s.x - r.x);
      if (fabsf(d) < 1e-6f) continue;
      float t = ((r.x - p.x) * (s.y - r.y) - (r.y - p.y) * (s.x - r.x)) / d;
      float u = ((r.x - p.x) * (q.y - p.y) - (r.y - p.y) * (q.x - p.x)) / d;
      if (t >= 0.0f && t <= 1.0f && u >= 0.0f && u <= 1.0f)
        cross[n++] = {p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)};
    }
  if (n < 3) return 0.0f;
  float cx = 0.0f, cy = 0.0f;
  for (int k = 0; k < n; ++k) cx += cross[k].x, cy += cross[k].y;
  cx /= n, cy /= n;
  for (int i = 0; i < n - 1; ++i)
    for (int j = 0; j < n - 1 - i; ++j) {
      float first = atan2f(cross[j].y - cy, cross[j].x - cx);
      float second = atan2f(cross[j + 1].y - cy, cross[j + 1].x - cx);
      if (first > second) {
        Corner kept = cross[j];
        cross[j] = cross[j + 1];
        cross[j + 1] = kept;
      }
    }
  float area = 0.0f;
  for (int k = 0; k < n; ++k) {
    Corner p = cross[k], q = cross[(k + 1) % n];
    area += p.x * q.y - q.x * p.y;
  }
  return fabsf(area) * 0.5f;
}

// Which turned boxes of a tile each box suppresses.
extern "C" __global__ void __launch_bounds__(64)
    suppress_turned(const float* boxes, int count, float limit, unsigned long long* mask) {
  int rows = min(count - blockIdx.y * 64, 64), columns = min(count - blockIdx.x * 64, 64);
  __shared__ float tile[64 * 5];
  if (threadIdx.x < columns)
    for (int k = 0; k < 5; ++k)
      tile[threadIdx.x * 5 + k] = boxes[(blockIdx.x * 64 + threadIdx.x) * 5 + k];
  __syncthreads();
  if (threadIdx.x < rows) {
    int me = blockIdx.y * 64 + threadIdx.x;
    const float* mine = boxes + me * 5;
    unsigned long long bits = 0;
    int start = blockIdx.x == blockIdx.y ? threadIdx.x + 1 : 0;
    for (int k = start; k < columns; ++k) {
      float common = common_area(mine, tile + k * 5);
      float all = mine[2] * mine[3] + tile[k * 5 + 2] * tile[k * 5 + 3] - common;
      if (common / fmaxf(all, 1e-6f) > limit) bits |= 1ull << k;
    }
    mask[me * ((count + 63) / 64) + blockIdx.x] = bits;
  }
}

// Planes through three points that a generator draws, again if two are the same.
extern "C" __global__ void try_planes(const float4* points, int count, int tries, float near,
                                      int* votes) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= tries) return;
  unsigned state = t * 747796405u + 2891336453u;
  int a, b, c;
  do {
    state = state * 1664525u + 1013904223u;
    a = state % count;
    state = state * 1664525u + 1013904223u;
    b = state % count;
    state = state * 1664525u + 1013904223u;
    c = state % count;
  } while (a == b || b == c || a == c);
  float4 p = points[a], q = points[b], r = points[c];
  float ux = q.x - p.x, uy = q.y - p.y, uz = q.z - p.z;
  float vx = r.x - p.x, vy = r.y - p.y, vz = r.z - p.z;
  float nx = uy * vz - uz * vy, ny = uz * vx - ux * vz, nz = ux * vy - uy * vx;
  float scale = rsqrtf(nx * nx + ny * ny + nz * nz);
  int agreed = 0;
  for (int i = 0; i < count; ++i) {
    float4 s = points[i];
    if (fabsf((s.x - p.x) * nx + (s.y - p.y) * ny + (s.z - p.z) * nz) * scale < near) ++agreed;
  }
  votes[t] = agreed;
}

// The nearest point, in rings of cells around one's own until a ring has one.
extern "C" __global__ void nearest_in_rings(const float2* queries, int count, const int* starts,
                                            const float2* points, int cells, float size,
                                            int* nearest) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float2 q = queries[i];
  int cx = min(max((int)(q.x / size), 0), cells - 1), cy = min(max((int)(q.y / size), 0), cells - 1);
  float best = 1e30f;
  int found = -1;
  for (int ring = 0; ring < cells && found < 0; ++ring)
    for (int y = max(cy - ring, 0); y <= min(cy + ring, cells - 1); ++y)
      for (int x = max(cx - ring, 0); x <= min(cx + ring, cells - 1); ++x) {
        if (abs(x - cx) != ring && abs(y - cy) != ring) continue;
        int cell = y * cells + x;
        for (int k = starts[cell]; k < starts[cell + 1]; ++k) {
          float dx = points[k].x - q.x, dy = points[k].y - q.y, d = dx * dx + dy * dy;
          if (d < best) best = d, found = k;
        }
      }
  nearest[i] = found;
}

// Joins clusters: the root of each, then the larger root under the smaller.
extern "C" __global__ void join_clusters(const int2* edges, int count, int* parent) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int a = edges[i].x, b = edges[i].y;
  bool done = false;
  while (!done) {
    while (parent[a] != a) a = parent[a];
    while (parent[b] != b) b = parent[b];
    if (a == b) return;
    int high = max(a, b), low = min(a, b);
    done = atomicCAS(&parent[high], high, low) == high;
  }
}

// Labels spread inside a block until none changes.
extern "C" __global__ void spread_labels(int* labels, const unsigned char* solid, int width,
                                         int height) {
  __shared__ int tile[18][18];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  bool inside = x < width && y < height && solid[y * width + x];
  tile[threadIdx.y + 1][threadIdx.x + 1] = inside ? labels[y * width + x] : 0x7fffffff;
  if (threadIdx.x == 0) tile[threadIdx.y + 1][0] = tile[threadIdx.y + 1][17] = 0x7fffffff;
  if (threadIdx.y == 0) tile[0][threadIdx.x + 1] = tile[17][threadIdx.x + 1] = 0x7fffffff;
  __syncthreads();
  int changed;
  do {
    int mine = tile[threadIdx.y + 1][threadIdx.x + 1], least = mine;
    if (inside) {
      least = min(least, tile[threadIdx.y][threadIdx.x + 1]);
      least = min(least, tile[threadIdx.y + 2][threadIdx.x + 1]);
      least = min(least, tile[threadIdx.y + 1][threadIdx.x]);
      least = min(least, tile[threadIdx.y + 1][threadIdx.x + 2]);
    }
    __syncthreads();
    if (least < mine) tile[threadIdx.y + 1][threadIdx.x + 1] = least;
    changed = __syncthreads_or(least < mine);
  } while (changed);
  if (inside) labels[y * width + x] = tile[threadIdx.y + 1][threadIdx.x + 1];
}

// The ground along a ray of a scan: as far as it does not rise too fast.
extern "C" __global__ void ground_of_rings(const float2* points, const int* lengths, int rings,
                                           int stride, float slope, unsigned char* ground) {
  int ring = blockIdx.x * blockDim.x + threadIdx.x;
  if (ring >= rings) return;
  float range = 0.0f, height = 0.0f;
  for (int k = 0; k < stride && k < lengths[ring]; ++k) {
    float2 p = points[ring * stride + k];
    bool low = fabsf(p.y - height) < slope * (p.x - range);
    ground[ring * stride + k] = low;
    if (low) range = p.x, height = p.y;
  }
}

// Cells that a beam passes, up to the one that it hits.
extern "C" __global__ void clear_beams(const int2* hits, int beams, int2 origin, int* cells,
                                       int width, int height) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= beams) return;
  int x = origin.x, y = origin.y;
  int x1 = min(max(hits[i].x, 0), width - 1), y1 = min(max(hits[i].y, 0), height - 1);
  int dx = abs(x1 - x), dy = -abs(y1 - y), sx = x < x1 ? 1 : -1, sy = y < y1 ? 1 : -1;
  int error = dx + dy;
  while (true) {
    if (x == x1 && y == y1) break;
    atomicAdd(&cells[y * width + x], -1);
    int twice = 2 * error;
    if (twice >= dy) error += dy, x += sx;
    if (twice <= dx) error += dx, y += sy;
  }
  atomicAdd(&cells[y * width + x], 3);
}

// Tracks and detections, the cheapest first; the block agrees on each.
extern "C" __global__ void assign_tracks(const float* costs, int tracks, int detections,
                                         float limit, int* assigned) {
  __shared__ float best[128];
  __shared__ int place[128];
  __shared__ unsigned char used[128];
  int t = threadIdx.x;
  used[t] = 0;
  if (t < tracks) assigned[t] = -1;
  __syncthreads();
  for (int round = 0; round < min(tracks, detections); ++round) {
    best[t] = limit;
    place[t] = -1;
    if (t < tracks && assigned[t] < 0)
      for (int d = 0; d < detections; ++d)
        if (!used[d] && costs[t * detections + d] < best[t])
          best[t] = costs[t * detections + d], place[t] = t * detections + d;
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d >>= 1) {
      if (t < d && best[t + d] < best[t]) best[t] = best[t + d], place[t] = place[t + d];
      __syncthreads();
    }
    if (place[0] < 0) break;
    if (t == 0) {
      assigned[place[0] / detections] = place[0] % detections;
      used[place[0] % detections] = 1;
    }
    __syncthreads();
  }
}
