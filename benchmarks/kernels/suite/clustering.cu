// Clustering and nearest neighbours.

extern "C" __global__ void kmeans_assign(const float* __restrict__ points, const float* __restrict__ centres,
                                         int* __restrict__ member, int* changed, int count, int features, int clusters) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= count) return;
  int nearest = -1;
  float least = 3.4e38f;
  for (int c = 0; c < clusters; ++c) {
    float distance = 0.0f;
    for (int f = 0; f < features; ++f) {
      float d = points[f * count + p] - centres[c * features + f];
      distance += d * d;
    }
    if (distance < least) {
      least = distance;
      nearest = c;
    }
  }
  if (member[p] != nearest) {
    member[p] = nearest;
    atomicAdd(changed, 1);
  }
}

// sums and sizes of clusters, first in shared memory
extern "C" __global__ void kmeans_update(const float* __restrict__ points, const int* __restrict__ member, float* sums, int* sizes,
                                         int count, int features, int clusters) {
  extern __shared__ float of_block[];
  int* members = (int*)(of_block + features * clusters);
  for (int i = threadIdx.x; i < features * clusters; i += blockDim.x) of_block[i] = 0.0f;
  for (int i = threadIdx.x; i < clusters; i += blockDim.x) members[i] = 0;
  __syncthreads();
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < count) {
    int c = member[p];
    atomicAdd(&members[c], 1);
    for (int f = 0; f < features; ++f) atomicAdd(&of_block[c * features + f], points[f * count + p]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < features * clusters; i += blockDim.x) atomicAdd(&sums[i], of_block[i]);
  for (int i = threadIdx.x; i < clusters; i += blockDim.x)
    if (members[i]) atomicAdd(&sizes[i], members[i]);
}

struct Place {
  float latitude, longitude;
};

extern "C" __global__ void nearest_neighbour(const Place* __restrict__ places, float* __restrict__ distance, int count, Place from) {
  int i = blockDim.x * (gridDim.x * blockIdx.y + blockIdx.x) + threadIdx.x;
  if (i < count) {
    float dx = from.latitude - places[i].latitude, dy = from.longitude - places[i].longitude;
    distance[i] = sqrtf(dx * dx + dy * dy);
  }
}

// the k nearest points of each query, kept in a sorted list of its own
extern "C" __global__ void k_nearest(const float2* __restrict__ points, const float2* __restrict__ queries, int* __restrict__ found,
                                     int count, int asked, int k) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= asked) return;
  float distance[8];
  int index[8];
  for (int i = 0; i < k; ++i) {
    distance[i] = 1e30f;
    index[i] = -1;
  }
  float2 at = queries[q];
  for (int p = 0; p < count; ++p) {
    float dx = points[p].x - at.x, dy = points[p].y - at.y, d = dx * dx + dy * dy;
    if (d >= distance[k - 1]) continue;
    int slot = k - 1;
    while (slot > 0 && distance[slot - 1] > d) {
      distance[slot] = distance[slot - 1];
      index[slot] = index[slot - 1];
      slot--;
    }
    distance[slot] = d;
    index[slot] = p;
  }
  for (int i = 0; i < k; ++i) found[q * k + i] = index[i];
}

// what opening a centre would gain: each point may move to it; its coordinates lie in shared memory
extern "C" __global__ void opening_gain(const float* __restrict__ coordinates, const float* __restrict__ cost,
                                        const int* __restrict__ centre_of, float* lower, char* moves, int count, int dimensions,
                                        int candidate, int centres) {
  extern __shared__ float centre[];
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0)
    for (int d = 0; d < dimensions; ++d) centre[d] = coordinates[d * count + candidate];
  __syncthreads();
  if (p >= count) return;
  float distance = 0.0f;
  for (int d = 0; d < dimensions; ++d) {
    float delta = coordinates[d * count + p] - centre[d];
    distance += delta * delta;
  }
  float gain = distance - cost[p];
  float* row = lower + (size_t)p * (centres + 1);
  if (gain < 0.0f) {
    moves[p] = 1;
    row[centres] = gain;
  } else {
    row[centre_of[p]] = -gain;
  }
}

// a point climbs to the mean of its neighbourhood until it stands still
extern "C" __global__ void mean_shift(const float2* __restrict__ points, float2* __restrict__ modes, int count, float radius,
                                      int most, float still) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= count) return;
  float2 at = points[p];
  for (int step = 0; step < most; ++step) {
    float sx = 0.0f, sy = 0.0f, weight = 0.0f;
    for (int i = 0; i < count; ++i) {
      float dx = points[i].x - at.x, dy = points[i].y - at.y, d2 = dx * dx + dy * dy;
      if (d2 > radius * radius) continue;
      float w = expf(-0.5f * d2);
      sx += w * points[i].x;
      sy += w * points[i].y;
      weight += w;
    }
    float nx = sx / weight, ny = sy / weight;
    float moved = fabsf(nx - at.x) + fabsf(ny - at.y);
    at = make_float2(nx, ny);
    if (moved < still) break;
  }
  modes[p] = at;
}
