// One thread an element; the result goes to an array of its own.
extern "C" __global__ void saxpy(const float *A, const float *B, float *C, float a, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) C[i] = a * A[i] + B[i];
}
