// Loop bounds that come through calls, aggregates and constants.

struct Tile {
  int rows, columns;
  short step;
  unsigned char shift;
};

struct Extent {
  int low, high;
};

__constant__ int counts[4] = {3, 0, 7, 2};
__constant__ unsigned char small[5] = {1, 200, 3};
__constant__ int radius;

__device__ __noinline__ float sum(const float* in, int n, int stride) {
  float total = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) total += in[i * stride];
  return total;
}

__device__ __noinline__ int share(int n, int part) { return (n + 3) / 4 + (part == 3 ? 2 : 0); }

__device__ __noinline__ Extent middle(Extent all, int cut) {
  Extent inner;
  inner.low = all.low + cut;
  inner.high = all.high - cut;
  return inner;
}

__device__ __noinline__ float twice(const float* in, int n) {
  return sum(in, n, 1) + sum(in, 2 * n, 1);
}

// The bound is an argument.
extern "C" __global__ void argument(const float* in, float* out, int n) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum(in, n, 2);
}

// The bound is a result, and differs from block to block.
extern "C" __global__ void result(const float* in, float* out, int n) {
  int count = share(n, blockIdx.x);
  float total = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) total += in[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// Each lane passes a bound of its own.
extern "C" __global__ void lanes(const float* in, float* out, int n) {
  int t = threadIdx.x;
  float total = 0;
  if (t < n) total = sum(in, t % 5, 1);
  out[blockIdx.x * blockDim.x + t] = total;
}

// A triangle: the argument grows from call to call.
extern "C" __global__ void triangle(const float* in, float* out, int n) {
  float total = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) total += sum(in, i, 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// A function that calls another one twice.
extern "C" __global__ void nested(const float* in, float* out, int n) {
  out[blockIdx.x * blockDim.x + threadIdx.x] = twice(in, n);
}

// An aggregate passed and returned by value.
extern "C" __global__ void by_value(const float* in, float* out, Extent all, int cut) {
  Extent inner = middle(all, cut);
  float total = 0;
#pragma unroll 1
  for (int i = inner.low; i < inner.high; ++i) total += in[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// The members of an aggregate parameter, of several widths.
extern "C" __global__ void members(const float* in, float* out, Tile tile) {
  float total = 0;
#pragma unroll 1
  for (int r = 0; r < tile.rows; ++r)
#pragma unroll 1
    for (int c = 0; c < tile.columns >> tile.shift; c += tile.step) total += in[r * 4 + c];
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// An array inside of an aggregate, with an index.
struct Levels {
  int count[6];
};

extern "C" __global__ void levels(const float* in, float* out, const __grid_constant__ Levels sizes,
                                  int most) {
  float total = 0;
#pragma unroll 1
  for (int l = 0; l < most; ++l)
#pragma unroll 1
    for (int i = 0; i < sizes.count[l]; ++i) total += in[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

// Constant memory: a scalar that the host sets, tables with and without an index of the lane's own.
extern "C" __global__ void constants(const float* in, float* out) {
  int t = threadIdx.x;
  float total = 0;
#pragma unroll 1
  for (int i = -radius; i <= radius; ++i) total += in[i + 8];
#pragma unroll 1
  for (int l = 0; l < 4; ++l)
#pragma unroll 1
    for (int i = 0; i < counts[l]; ++i) total += in[i];
#pragma unroll 1
  for (int i = 0; i < counts[t & 3]; ++i) total += in[i + t];
#pragma unroll 1
  for (int i = 0; i < small[1]; i += small[2] + 40) total += in[i % 8];
  out[blockIdx.x * blockDim.x + t] = total;
}
