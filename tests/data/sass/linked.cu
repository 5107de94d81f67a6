// Two files in one: nvcc -dc makes an object of each half, nvlink a program of both.
#ifdef CALLER
extern __device__ int table[4];
__device__ int sum(int count, const int *values);
extern "C" __global__ void linked(int n, int *out) {
    int total = table[n & 3];
    for (int i = 0; i < n; i++) total += sum(i, out);
    out[threadIdx.x] = total;
}
#else
__device__ int table[4] = {1, 2, 3, 4};
__device__ int sum(int count, const int *values) {
    int total = 0;
#pragma unroll 1
    for (int j = 0; j < count; j++) total += values[j];
    return total;
}
#endif
