// Graphs in compressed adjacency form.

struct Node {
  int first;
  int degree;
};

extern "C" __global__ void bfs_frontier(const Node* __restrict__ nodes, const int* __restrict__ edges, char* mask,
                                        char* updating, const char* visited, int* cost, int count) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id < count && mask[id]) {
    mask[id] = 0;
    for (int e = nodes[id].first; e < nodes[id].first + nodes[id].degree; e++) {
      int other = edges[e];
      if (!visited[other]) {
        cost[other] = cost[id] + 1;
        updating[other] = 1;
      }
    }
  }
}

extern "C" __global__ void sssp_relax(const int* __restrict__ start, const int* __restrict__ target,
                                      const int* __restrict__ weight, int* distance, int* changed, int count) {
  int node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node >= count) return;
  int mine = distance[node];
  if (mine == 0x7fffffff) return;
  for (int e = start[node]; e < start[node + 1]; ++e) {
    int reached = mine + weight[e];
    if (reached < distance[target[e]]) {
      atomicMin(&distance[target[e]], reached);
      *changed = 1;
    }
  }
}

extern "C" __global__ void pagerank_pull(const int* __restrict__ start, const int* __restrict__ source,
                                         const int* __restrict__ degree, const double* __restrict__ rank,
                                         double* __restrict__ next, int count, double damping) {
  int node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node < count) {
    double sum = 0.0;
    for (int e = start[node]; e < start[node + 1]; ++e) {
      int from = source[e];
      if (degree[from] > 0) sum += rank[from] / degree[from];
    }
    next[node] = (1.0 - damping) / count + damping * sum;
  }
}

// labels of connected components: the smaller label crosses every edge, then chains are shortened
extern "C" __global__ void label_edges(const int* __restrict__ from, const int* __restrict__ to, int edges, int* label) {
  for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < edges; e += gridDim.x * blockDim.x) {
    int a = label[from[e]], b = label[to[e]];
    if (a == b) continue;
    int high = a > b ? a : b, low = a > b ? b : a;
    atomicMin(&label[high], low);
  }
}

extern "C" __global__ void label_jump(int* label, int count) {
  int node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node >= count) return;
  int root = label[node];
  while (root != label[root]) root = label[root];
  label[node] = root;
}

__device__ __noinline__ bool contains(const int* sorted, int low, int high, int key) {
  while (low < high) {
    int middle = low + (high - low) / 2;
    int value = sorted[middle];
    if (value == key) return true;
    if (value < key)
      low = middle + 1;
    else
      high = middle;
  }
  return false;
}

// triangles of an oriented graph: for each edge, the shorter list's members are looked up in the other
extern "C" __global__ void triangle_count(const int* __restrict__ start, const int* __restrict__ target, int count,
                                          unsigned long long* triangles) {
  int node = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned long long found = 0;
  if (node < count) {
    for (int e = start[node]; e < start[node + 1]; ++e) {
      int other = target[e];
      for (int f = start[other]; f < start[other + 1]; ++f)
        if (contains(target, start[node], start[node + 1], target[f])) ++found;
    }
  }
  if (found) atomicAdd(triangles, found);
}

// a block works on one queue in shared memory until it is empty
extern "C" __global__ void bfs_block(const int* __restrict__ start, const int* __restrict__ target, int* level, int root) {
  __shared__ int queue[2][128];
  __shared__ int size[2];
  int side = 0;
  if (threadIdx.x == 0) {
    queue[0][0] = root;
    size[0] = 1;
    level[root] = 0;
  }
  __syncthreads();
  for (int depth = 1; size[side] > 0; ++depth) {
    if (threadIdx.x == 0) size[side ^ 1] = 0;
    __syncthreads();
    for (int q = threadIdx.x; q < size[side]; q += blockDim.x) {
      int node = queue[side][q];
      for (int e = start[node]; e < start[node + 1]; ++e)
        if (atomicCAS(&level[target[e]], -1, depth) == -1)
          queue[side ^ 1][atomicAdd(&size[side ^ 1], 1)] = target[e];
    }
    __syncthreads();
    side ^= 1;
  }
}
