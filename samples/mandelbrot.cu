// Escape times of the Mandelbrot set. The inner loop ends when the point escapes: how often it runs
// depends on data, but never more than `most` times, which is what bounds it.
extern "C" __global__ void mandelbrot(int* out, int width, float x0, float y0, float step, int most) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const float cr = x0 + x * step, ci = y0 + y * step;
  float zr = 0.0f, zi = 0.0f;
  int count = 0;
#pragma unroll 1
  while (count < most && zr * zr + zi * zi < 4.0f) {
    const float next = zr * zr - zi * zi + cr;
    zi = 2.0f * zr * zi + ci;
    zr = next;
    ++count;
  }
  out[y * width + x] = count;
}
