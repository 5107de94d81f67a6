// Prices of European call and put options by the formula of Black and Scholes.

// The distribution function of the standard normal distribution, from that of the error.
__device__ __forceinline__ float normal_below(float x) {
  return 0.5f * erfcf(-0.70710678f * x);
}

// Each thread prices options a grid apart, so that the number of options is free.
extern "C" __global__ void __launch_bounds__(256)
black_scholes(const float *spot, const float *strike, const float *years, float *call, float *put,
              float rate, float volatility, int n) {
  const int apart = gridDim.x * blockDim.x;
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += apart) {
    const float s = spot[i], k = strike[i], t = years[i];
    const float spread = volatility * sqrtf(t);
    const float upper = (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / spread;
    const float lower = upper - spread;
    const float discounted = k * expf(-rate * t);
    call[i] = s * normal_below(upper) - discounted * normal_below(lower);
    put[i] = discounted * normal_below(-lower) - s * normal_below(-upper);
  }
}
