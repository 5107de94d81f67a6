// Relocatable device code: external functions and variables, weak and common symbols.

extern __device__ float outside(float a, int b);
extern __device__ int outside_table[16];
extern __constant__ float outside_weights[4];
__device__ float visible_total;
__device__ __attribute__((weak)) int replaceable(int v) { return v + 1; }
static __device__ __noinline__ int hidden(int v) { return v * 31 + 7; }
__device__ int visible(int v) { return hidden(v) ^ replaceable(v); }
typedef int (*Callback)(int);

extern "C" __global__ void linked(float* out, Callback callback) {
  const int t = threadIdx.x;
  visible_total = outside(out[t], visible(t));
  out[t] = outside_table[t & 15] + outside_weights[t & 3] + callback(t);
}
