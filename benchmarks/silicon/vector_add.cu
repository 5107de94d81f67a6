// One thread an element.
extern "C" __global__ void vector_add(const float *A, const float *B, float *C, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) C[i] = A[i] + B[i];
}
