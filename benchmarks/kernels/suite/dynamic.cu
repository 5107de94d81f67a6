// Dynamic programming.
#define WIDTH 16

// one tile of a global alignment, anti-diagonal by anti-diagonal; the border is given in matrix
extern "C" __global__ void needleman_wunsch(const int* __restrict__ similarity, int* matrix, int cols, int penalty,
                                            int diagonal) {
  __shared__ int score[WIDTH + 1][WIDTH + 1];
  __shared__ int reference[WIDTH][WIDTH];
  int bx = blockIdx.x, by = diagonal - bx, t = threadIdx.x;
  int corner = by * WIDTH * cols + bx * WIDTH;
  for (int i = 0; i < WIDTH; ++i) reference[i][t] = similarity[corner + (i + 1) * cols + t + 1];
  if (t == 0) score[0][0] = matrix[corner];
  score[0][t + 1] = matrix[corner + t + 1];
  score[t + 1][0] = matrix[corner + (t + 1) * cols];
  __syncthreads();
  for (int d = 0; d < WIDTH; ++d) {
    if (t <= d) {
      int x = t + 1, y = d - t + 1;
      score[y][x] = max(score[y - 1][x - 1] + reference[y - 1][x - 1],
                        max(score[y][x - 1] - penalty, score[y - 1][x] - penalty));
    }
    __syncthreads();
  }
  for (int d = WIDTH - 2; d >= 0; --d) {
    if (t <= d) {
      int x = t + WIDTH - d, y = WIDTH - t;
      score[y][x] = max(score[y - 1][x - 1] + reference[y - 1][x - 1],
                        max(score[y][x - 1] - penalty, score[y - 1][x] - penalty));
    }
    __syncthreads();
  }
  for (int i = 0; i < WIDTH; ++i) matrix[corner + (i + 1) * cols + t + 1] = score[i + 1][t + 1];
}

// cheapest way through a grid, several rows a launch; blocks overlap by the rows that they compute
extern "C" __global__ void pathfinder(int iterations, const int* __restrict__ wall, const int* __restrict__ source,
                                      int* __restrict__ result, int cols, int start, int border) {
  __shared__ int previous[64];
  __shared__ int row[64];
  int t = threadIdx.x, small = 64 - 2 * iterations;
  int first = small * blockIdx.x - border, x = first + t;
  int valid_min = first < 0 ? -first : 0;
  int valid_max = first + 63 > cols - 1 ? 63 - (first + 63 - cols + 1) : 63;
  int west = max(t - 1, valid_min), east = min(t + 1, valid_max);
  bool valid = t >= valid_min && t <= valid_max;
  if (x >= 0 && x < cols) previous[t] = source[x];
  __syncthreads();
  bool computed = false;
  for (int i = 0; i < iterations; ++i) {
    computed = false;
    if (t >= i + 1 && t <= 62 - i && valid) {
      computed = true;
      int best = min(previous[west], min(previous[t], previous[east]));
      row[t] = best + wall[cols * (start + i) + x];
    }
    __syncthreads();
    if (i == iterations - 1) break;
    if (computed) previous[t] = row[t];
    __syncthreads();
  }
  if (computed) result[x] = row[t];
}

// length of the longest common subsequence, one block, thread j owns column j
extern "C" __global__ void lcs_wavefront(const char* __restrict__ a, const char* __restrict__ b, int n, int m, int* length) {
  extern __shared__ int diagonals[];
  int* two_back = diagonals;
  int* one_back = diagonals + m + 1;
  int* now = diagonals + 2 * (m + 1);
  int j = threadIdx.x;
  for (int i = j; i < 3 * (m + 1); i += blockDim.x) diagonals[i] = 0;
  __syncthreads();
  for (int d = 0; d < n + m - 1; ++d) {
    int i = d - j;
    if (j < m && i >= 0 && i < n) {
      if (a[i] == b[j])
        now[j + 1] = two_back[j] + 1;
      else
        now[j + 1] = max(one_back[j], one_back[j + 1]);
    }
    __syncthreads();
    int* oldest = two_back;
    two_back = one_back;
    one_back = now;
    now = oldest;
  }
  if (j == m - 1) *length = one_back[m];
}

// 0/1 knapsack: items in turn, a thread owns capacities in steps of the block
extern "C" __global__ void knapsack(const int* __restrict__ weight, const int* __restrict__ profit, int items, int capacity,
                                    int* best) {
  __shared__ int table[2][256];
  int from = 0;
  for (int c = threadIdx.x; c <= capacity; c += blockDim.x) table[0][c] = 0;
  __syncthreads();
  for (int i = 0; i < items; ++i) {
    int w = weight[i], p = profit[i];
    for (int c = threadIdx.x; c <= capacity; c += blockDim.x) {
      int value = table[from][c];
      if (c >= w) {
        int other = table[from][c - w] + p;
        if (other > value) value = other;
      }
      table[from ^ 1][c] = value;
    }
    __syncthreads();
    from ^= 1;
  }
  if (threadIdx.x == 0) *best = table[from][capacity];
}

// all pairs of shortest paths, one step of Floyd and Warshall
extern "C" __global__ void floyd_warshall(unsigned* distance, int n, int k) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || j >= n) return;
  unsigned through = distance[i * n + k] + distance[k * n + j];
  if (through < distance[i * n + j]) distance[i * n + j] = through;
}

// edit distance of many short pairs, a thread a pair, one row in local memory
extern "C" __global__ void edit_distance(const char* __restrict__ words, const int* __restrict__ lengths, int count, int* result) {
  int pair = blockIdx.x * blockDim.x + threadIdx.x;
  if (pair >= count) return;
  const char *a = words + pair * 32, *b = a + 16;
  int n = lengths[2 * pair], m = lengths[2 * pair + 1];
  int row[17];
  for (int j = 0; j <= m; ++j) row[j] = j;
  for (int i = 1; i <= n; ++i) {
    int corner = row[0];
    row[0] = i;
    for (int j = 1; j <= m; ++j) {
      int change = corner + (a[i - 1] != b[j - 1]);
      corner = row[j];
      row[j] = min(change, min(row[j], row[j - 1]) + 1);
    }
  }
  result[pair] = row[m];
}
