// C = A * B, row-major, M x N x K, one variant for each set of the macros below. A block computes a tile of
// TM x TN elements of C in steps of TK along K; a thread RM x RN of them, rows ty, ty + TM / RM, ... and columns
// tx, tx + TN / RN, ... Launch: blocks of (TN / RN) x (TM / RM) threads, a grid of (N / TN) x (M / TM) blocks.
//
// Contract: M, N and K are multiples of TM, TN and TK, so that no access needs a guard.
//
// STAGES 1: one pair of tiles in shared memory, two barriers a step. STAGES 2: two pairs; the next tiles travel
// through registers while these are multiplied, one barrier a step.
#if !defined(TM) || !defined(TN) || !defined(TK) || !defined(RM) || !defined(RN) || !defined(STAGES)
#error "TM, TN, TK, RM, RN and STAGES say which variant is meant: see build.py"
#endif

constexpr int TX = TN / RN, TY = TM / RM, THREADS = TX * TY;
constexpr int LOADS_A = TM * TK / THREADS, LOADS_B = TK * TN / THREADS;
// Rows of A's tile begin in different banks, so that the threads of a warp that have different rows do not wait
// for each other.
constexpr int ROW_A = TK + 1;

static_assert(TM % RM == 0 && TN % RN == 0, "a thread computes RM x RN elements of the tile");
static_assert(STAGES == 1 || STAGES == 2, "one or two pairs of tiles");
static_assert(TM * TK % THREADS == 0 && TK * TN % THREADS == 0, "each thread loads as much of the tiles as any other");

extern "C" __global__ void __launch_bounds__(THREADS)
    sgemm(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  __shared__ float tileA[STAGES][TM][ROW_A];
  __shared__ float tileB[STAGES][TK][TN];
  const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * TX + tx;
  const int row = blockIdx.y * TM, column = blockIdx.x * TN;
  float sums[RM][RN] = {};
  float nextA[LOADS_A], nextB[LOADS_B];

  const auto fetch = [&](int k) {
#pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
      const int element = thread + i * THREADS;
      nextA[i] = A[(row + element / TK) * K + k + element % TK];
    }
#pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
      const int element = thread + i * THREADS;
      nextB[i] = B[(k + element / TN) * N + column + element % TN];
    }
  };
  const auto place = [&](int stage) {
#pragma unroll
    for (int i = 0; i < LOADS_A; ++i) {
      const int element = thread + i * THREADS;
      tileA[stage][element / TK][element % TK] = nextA[i];
    }
#pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
      const int element = thread + i * THREADS;
      tileB[stage][element / TN][element % TN] = nextB[i];
    }
  };
  const auto multiply = [&](int stage) {
#pragma unroll
    for (int k = 0; k < TK; ++k) {
      float a[RM], b[RN];
#pragma unroll
      for (int i = 0; i < RM; ++i) a[i] = tileA[stage][ty + i * TY][k];
#pragma unroll
      for (int j = 0; j < RN; ++j) b[j] = tileB[stage][k][tx + j * TX];
#pragma unroll
      for (int i = 0; i < RM; ++i)
#pragma unroll
        for (int j = 0; j < RN; ++j) sums[i][j] += a[i] * b[j];
    }
  };

#if STAGES == 1
#pragma unroll 1
  for (int k = 0; k < K; k += TK) {
    fetch(k);
    place(0);
    __syncthreads();
    multiply(0);
    __syncthreads();
  }
#else
  fetch(0);
  place(0);
  __syncthreads();
  int stage = 0;
#pragma unroll 1
  for (int k = TK; k < K; k += TK) {
    fetch(k);
    multiply(stage);
    stage ^= 1;
    place(stage);
    __syncthreads();
  }
  multiply(stage);
#endif

#pragma unroll
  for (int i = 0; i < RM; ++i)
#pragma unroll
    for (int j = 0; j < RN; ++j) C[(row + ty + i * TY) * N + column + tx + j * TX] = sums[i][j];
}
