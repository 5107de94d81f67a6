// Line information of inlined functions (inlined_at), two levels deep and within a template.

template <typename T>
__device__ __forceinline__ T clamp(T v, T low, T high) {
  return v < low ? low
                 : v > high ? high : v;
}

struct Filter {
  float gain;
  __device__ __forceinline__ float apply(float v) const {
    const float scaled = v * gain;
    return clamp(scaled, -1.0f, 1.0f);
  }
};

extern "C" __global__ void filter(float* data, int* codes, int n, float gain) {
  const Filter f{gain};
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    data[i] = f.apply(data[i]);
    codes[i] = clamp(codes[i], 0, 255);
  }
}
