__global__ void sobel(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  for (int y = 1; y < height - 1; ++y)
    if (x > 0 && x < width - 1)
      out[y * width + x] = in[(y - 1) * width + x] - in[(y + 1) * width + x];
}
template <typename T, int N> __global__ void scale(T* p, T by) {
  for (int i = 0; i < N; ++i) p[threadIdx.x + i * 256] *= by;
}
template __global__ void scale<float, 4>(float*, float);
template __global__ void scale<double, 8>(double*, double);
namespace { __global__ void hidden(int* p, int n) { for (int i = 0; i < n; i++) p[i * 32 + threadIdx.x] += n; } }
void go() { hidden<<<1, 1>>>(nullptr, 3); }
