// Compiled by nvcc 13.0: nvcc -ptx -arch=sm_86 -lineinfo -O3 voronoi.cu -o voronoi.ptx
// Voronoi diagram by raster colouring: one thread a pixel, each pixel takes the colour of the
// nearest of `points` seeds. A block is a tile of 32 x 32 pixels; the grid is a row of tiles.
extern "C" __global__ void voronoi(const float *__restrict__ seed_x,
                                   const float *__restrict__ seed_y,
                                   unsigned *__restrict__ colour, int points) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = threadIdx.y;
  const float x = column + 0.5f;
  const float y = row + 0.5f;
  float nearest = 3.402823466e38f;
  int owner = 0;
  for (int k = 0; k < points; ++k) {
    const float dx = seed_x[k] - x;
    const float dy = seed_y[k] - y;
    const float distance = dx * dx + dy * dy;
    if (distance < nearest) {
      nearest = distance;
      owner = k;
    }
  }
  colour[row * gridDim.x * blockDim.x + column] = owner;
}
