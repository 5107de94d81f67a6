// Eigenvalues of a symmetric tridiagonal matrix by bisection: the number of eigenvalues below x is
// the number of negative pivots of the matrix less x times the unit matrix (a Sturm count).

constexpr int SMALL = 256;    // rows of a matrix that one block holds whole
constexpr int TILE = 128;     // rows of a larger one that are in shared memory together
constexpr int LARGE = 384;    // threads, and most intervals, of the separation
constexpr float LEAST = 1e-20f;

// A pivot, and one more for the count if it is negative. One that is nearly 0 is divided by as if it
// were a little larger, with the sign that it was counted with: the next cannot overflow.
__device__ __forceinline__ float next_pivot(float diagonal, float squared, float x, float pivot,
                                            int &below) {
  const float safe = pivot < 0.0f ? fminf(pivot, -LEAST) : fmaxf(pivot, LEAST);
  const float next = diagonal - x - squared / safe;
  below += next < 0.0f;
  return next;
}

// Whether an interval is wider than wanted: relative to its ends, and absolute near zero.
__device__ __forceinline__ bool is_wide(float left, float right, float precision) {
  return right - left > precision * fmaxf(fmaxf(fabsf(left), fabsf(right)), 0.25f);
}

// A small matrix in one block: thread i halves an interval around eigenvalue number i.
extern "C" __global__ void __launch_bounds__(256)
eigenvalues_1(const float *diagonal, const float *off, float *eigenvalues, int n, float least,
              float most, float precision) {
  __shared__ float rows[SMALL], squares[SMALL];
  const int t = threadIdx.x;
  if (t < n) {
    rows[t] = diagonal[t];
    squares[t] = t > 0 ? off[t - 1] * off[t - 1] : 0.0f;
  }
  __syncthreads();
  if (t >= n) return;
  float left = least, right = most;
#pragma unroll 1
  while (is_wide(left, right, precision)) {
    const float middle = 0.5f * (left + right);
    float pivot = 1.0f;
    int below = 0;
#pragma unroll 1
    for (int row = 0; row < n; row++)
      pivot = next_pivot(rows[row], squares[row], middle, pivot, below);
    if (below > t)
      right = middle;
    else
      left = middle;
  }
  eigenvalues[t] = 0.5f * (left + right);
}

// The count of a larger matrix, by all threads of a block, each for its x, a tile of rows at a
// time; threads without a question only help to load.
__device__ __forceinline__ int count_in_tiles(const float *diagonal, const float *off, int n,
                                              float x, bool asks, float *rows, float *squares) {
  float pivot = 1.0f;
  int below = 0;
#pragma unroll 1
  for (int begin = 0; begin < n; begin += TILE) {
    __syncthreads();
    const int row = begin + threadIdx.x;
    if (threadIdx.x < TILE && row < n) {
      rows[threadIdx.x] = diagonal[row];
      squares[threadIdx.x] = row > 0 ? off[row - 1] * off[row - 1] : 0.0f;
    }
    __syncthreads();
    if (asks) {
      const int held = min(TILE, n - begin);
#pragma unroll 1
      for (int i = 0; i < held; i++)
        pivot = next_pivot(rows[i], squares[i], x, pivot, below);
    }
  }
  return below;
}

// Places of the pieces of all threads behind one another: an inclusive scan in shared memory.
__device__ __forceinline__ int places(int *sums, int pieces) {
  const int t = threadIdx.x;
  sums[t] = pieces;
  __syncthreads();
#pragma unroll 1
  for (int distance = 1; distance < LARGE; distance *= 2) {
    const int before = t >= distance ? sums[t - distance] : 0;
    __syncthreads();
    sums[t] += before;
    __syncthreads();
  }
  return sums[t] - pieces;
}

// A large matrix, first kernel: one block splits the intervals of a list until each holds one
// eigenvalue or is narrower than `gap`. `before` and `after` count the eigenvalues below the ends of
// an interval.
extern "C" __global__ void __launch_bounds__(384)
eigenvalues_2(const float *diagonal, const float *off, float *lefts, float *rights, int *before,
              int *after, int *found, int n, float gap) {
  __shared__ float rows[TILE], squares[TILE], list_left[LARGE], list_right[LARGE];
  __shared__ int list_before[LARGE], list_after[LARGE], sums[LARGE];
  const int t = threadIdx.x;
  int intervals = *found;
  list_left[t] = lefts[t];
  list_right[t] = rights[t];
  list_before[t] = before[t];
  list_after[t] = after[t];
#pragma unroll 1
  while (true) {
    const float left = list_left[t], right = list_right[t];
    const int low = list_before[t], high = list_after[t];
    const bool holds = t < intervals;
    const bool splits = holds && high - low > 1 && right - left > gap;
    if (!__syncthreads_or(splits)) break;
    const float middle = 0.5f * (left + right);
    const int below = count_in_tiles(diagonal, off, n, middle, splits, rows, squares);
    const int between = min(max(below, low), high);  // rounding must not lose an eigenvalue
    const bool left_piece = holds && (!splits || between > low);
    const bool right_piece = splits && between < high;
    int place = places(sums, int(left_piece) + int(right_piece));
    if (left_piece) {
      list_left[place] = left;
      list_right[place] = splits ? middle : right;
      list_before[place] = low;
      list_after[place] = splits ? between : high;
      place++;
    }
    if (right_piece) {
      list_left[place] = middle;
      list_right[place] = right;
      list_before[place] = between;
      list_after[place] = high;
    }
    intervals = sums[LARGE - 1];
    __syncthreads();
  }
  lefts[t] = list_left[t];
  rights[t] = list_right[t];
  before[t] = list_before[t];
  after[t] = list_after[t];
  if (t == 0) *found = intervals;
}

// A large matrix, second kernel: thread i halves the interval that eigenvalue number i lies in.
extern "C" __global__ void __launch_bounds__(128)
eigenvalues_3(const float *diagonal, const float *off, const float *lefts, const float *rights,
              float *eigenvalues, int n, float precision) {
  __shared__ float rows[TILE], squares[TILE];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float left = 0.0f, right = 0.0f;
  if (i < n) {
    left = lefts[i];
    right = rights[i];
  }
#pragma unroll 1
  while (true) {
    const bool halves = is_wide(left, right, precision);
    if (!__syncthreads_or(halves)) break;
    const float middle = 0.5f * (left + right);
    const int below = count_in_tiles(diagonal, off, n, middle, halves, rows, squares);
    if (halves) {
      if (below > i)
        right = middle;
      else
        left = middle;
    }
  }
  if (i < n) eigenvalues[i] = 0.5f * (left + right);
}
