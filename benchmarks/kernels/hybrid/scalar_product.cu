// Scalar products of many pairs of vectors: a block takes pairs a grid apart.

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(256)
scalar_product(const float *a, const float *b, float *products, int pairs, int elements) {
  __shared__ float sums[THREADS];
  const int t = threadIdx.x;
#pragma unroll 1
  for (int pair = blockIdx.x; pair < pairs; pair += gridDim.x) {
    const float *first = a + pair * elements, *second = b + pair * elements;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = t; i < elements; i += THREADS) sum += first[i] * second[i];
    sums[t] = sum;
#pragma unroll 1
    for (int half = THREADS / 2; half > 0; half /= 2) {
      __syncthreads();
      if (t < half) sums[t] += sums[t + half];
    }
    if (t == 0) products[pair] = sums[0];
    __syncthreads();
  }
}
