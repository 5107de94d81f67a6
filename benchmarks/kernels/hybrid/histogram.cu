// Histograms of bytes with 64 bins: partial ones, a block each, and their merge.

constexpr int BINS = 64;
constexpr int THREADS = 256;

// The merge: a block adds up one bin of all partial histograms.
extern "C" __global__ void __launch_bounds__(256)
histogram_1(const unsigned *partial, unsigned *histogram, int partials) {
  __shared__ unsigned sums[THREADS];
  const int t = threadIdx.x, bin = blockIdx.x;
  unsigned sum = 0;
#pragma unroll 1
  for (int i = t; i < partials; i += THREADS) sum += partial[i * BINS + bin];
  sums[t] = sum;
#pragma unroll 1
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) sums[t] += sums[t + half];
  }
  if (t == 0) histogram[bin] = sums[0];
}

// A partial histogram: every thread counts in bytes of its own, so that no addition is atomic. A
// thread may take at most 63 words: a counter then stays below 256.
extern "C" __global__ void __launch_bounds__(256)
histogram_2(const unsigned *data, unsigned *partial, int words) {
  __shared__ unsigned counters[BINS * THREADS / 4];
  unsigned char *bytes = reinterpret_cast<unsigned char *>(counters);
  const int t = threadIdx.x;
#pragma unroll 1
  for (int i = t; i < BINS * THREADS / 4; i += THREADS) counters[i] = 0;
  __syncthreads();
#pragma unroll 1
  for (int i = blockIdx.x * THREADS + t; i < words; i += gridDim.x * THREADS) {
    const unsigned word = data[i];
#pragma unroll
    for (int part = 0; part < 4; part++) bytes[(word >> (8 * part + 2) & 63) * THREADS + t]++;
  }
  __syncthreads();
  // Four neighbouring threads share a bin: each adds a quarter of its bytes, a word at a time.
  const int bin = t / 4;
  unsigned sum = 0;
#pragma unroll 1
  for (int i = 0; i < THREADS / 16; i++) {
    const unsigned word = counters[bin * (THREADS / 4) + (t & 3) + 4 * i];
    sum += (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
  }
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  if ((t & 3) == 0) partial[blockIdx.x * BINS + bin] = sum;
}
