// Simulation of fields and particles.

#define Q 9
__constant__ int lattice_x[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int lattice_y[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ float lattice_weight[Q] = {4.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};

// one step of a lattice Boltzmann method in two dimensions: pull, bounce at walls, relax
extern "C" __global__ void lattice_step(const float* __restrict__ in, float* __restrict__ out, const unsigned char* __restrict__ wall,
                                        int width, int height, float omega) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  int cells = width * height, at = y * width + x;
  float f[Q], density = 0.0f, ux = 0.0f, uy = 0.0f;
  const int opposite[Q] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
  for (int q = 0; q < Q; ++q) {
    int fx = (x - lattice_x[q] + width) % width, fy = (y - lattice_y[q] + height) % height;
    int from = fy * width + fx;
    f[q] = wall[from] ? in[opposite[q] * cells + at] : in[q * cells + from];
    density += f[q];
    ux += lattice_x[q] * f[q];
    uy += lattice_y[q] * f[q];
  }
  if (wall[at]) {
    for (int q = 0; q < Q; ++q) out[q * cells + at] = in[q * cells + at];
    return;
  }
  ux /= density;
  uy /= density;
  float square = 1.5f * (ux * ux + uy * uy);
  for (int q = 0; q < Q; ++q) {
    float cu = 3.0f * (lattice_x[q] * ux + lattice_y[q] * uy);
    float rest = lattice_weight[q] * density * (1.0f + cu + 0.5f * cu * cu - square);
    out[q * cells + at] = f[q] + omega * (rest - f[q]);
  }
}

// a sum of waves at each point, with the library's sine and cosine
extern "C" __global__ void fourier_sum(const float* __restrict__ points, const float4* __restrict__ waves, float2* __restrict__ out,
                                       int points_count, int waves_count) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= points_count) return;
  float re = 0.0f, im = 0.0f, x = points[p];
  for (int w = 0; w < waves_count; ++w) {
    float s, c;
    sincosf(waves[w].x * x + waves[w].y, &s, &c);
    re += waves[w].z * c - waves[w].w * s;
    im += waves[w].z * s + waves[w].w * c;
  }
  out[p] = make_float2(re, im);
}

struct Box {
  int first, count, neighbours;
  int neighbour[8];
};

// forces between particles of a box and of its neighbours, a block a box
extern "C" __global__ void box_forces(const Box* __restrict__ boxes, const float4* __restrict__ particles, float4* __restrict__ force,
                                      float a2) {
  __shared__ float4 near[32];
  const Box& home = boxes[blockIdx.x];
  int t = threadIdx.x;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4 me = t < home.count ? particles[home.first + t] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int k = 0; k < 1 + home.neighbours; ++k) {
    const Box& other = boxes[k == 0 ? blockIdx.x : home.neighbour[k - 1]];
    if (t < other.count) near[t] = particles[other.first + t];
    __syncthreads();
    if (t < home.count) {
      for (int j = 0; j < other.count; ++j) {
        float dx = me.x - near[j].x, dy = me.y - near[j].y, dz = me.z - near[j].z;
        float e = __expf(-a2 * (dx * dx + dy * dy + dz * dz));
        sum.x += near[j].w * e * dx;
        sum.y += near[j].w * e * dy;
        sum.z += near[j].w * e * dz;
        sum.w += near[j].w * e;
      }
    }
    __syncthreads();
  }
  if (t < home.count) force[home.first + t] = sum;
}

// short-range potential on a grid: atoms in bins around the point, those too far are skipped
extern "C" __global__ void cutoff_potential(const float4* __restrict__ atoms, const int* __restrict__ bin_start, int bins,
                                            float* __restrict__ potential, int points, float spacing, float cutoff2) {
  int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= points) return;
  float x = p * spacing, energy = 0.0f;
  int home = min((int)x, bins - 1);
  for (int b = max(home - 1, 0); b <= min(home + 1, bins - 1); ++b)
    for (int i = bin_start[b]; i < bin_start[b + 1]; ++i) {
      float dx = atoms[i].x - x, r2 = dx * dx + atoms[i].y * atoms[i].y + atoms[i].z * atoms[i].z;
      if (r2 >= cutoff2) continue;
      float s = 1.0f - r2 / cutoff2;
      energy += atoms[i].w * rsqrtf(r2) * s * s;
    }
  potential[p] = energy;
}

// particles move through cells until the time of the step is used up
extern "C" __global__ void track_particles(float2* positions, const float* __restrict__ velocity, int count, int cells, float time) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float x = positions[i].x, left = time;
  int cell = (int)x;
  while (left > 0.0f && cell >= 0 && cell < cells) {
    float v = velocity[cell], to_edge = v > 0.0f ? cell + 1 - x : x - cell;
    float needed = to_edge / fmaxf(fabsf(v), 1e-6f);
    if (needed > left) {
      x += v * left;
      break;
    }
    left -= needed;
    x = v > 0.0f ? cell + 1 : cell;
    cell += v > 0.0f ? 1 : -1;
  }
  positions[i] = make_float2(x, left);
}

// finite differences in time domain along x with tiles that move through z in registers
extern "C" __global__ void fdtd_3d(const float* __restrict__ in, float* __restrict__ out, int nx, int ny, int nz) {
  __shared__ float tile[8 + 4][16 + 4];
  int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 8 + ty;
  int pitch = nx + 4, plane = pitch * (ny + 4);
  const float* column = in + (y + 2) * pitch + x + 2;
  float behind[2], ahead[2], here;
  here = column[2 * plane];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    behind[r] = column[(1 - r) * plane];
    ahead[r] = column[(3 + r) * plane];
  }
  for (int z = 0; z < nz; ++z) {
    if (z > 0) {
      behind[1] = behind[0];
      behind[0] = here;
      here = ahead[0];
      ahead[0] = ahead[1];
      ahead[1] = column[(z + 4) * plane];
    }
    __syncthreads();
    tile[ty + 2][tx + 2] = here;
    if (ty < 2) {
      tile[ty][tx + 2] = column[(z + 2) * plane - 2 * pitch];
      tile[ty + 10][tx + 2] = column[(z + 2) * plane + 8 * pitch];
    }
    if (tx < 2) {
      tile[ty + 2][tx] = column[(z + 2) * plane - 2];
      tile[ty + 2][tx + 18] = column[(z + 2) * plane + 16];
    }
    __syncthreads();
    float sum = 0.5f * here;
#pragma unroll
    for (int r = 1; r <= 2; ++r)
      sum += 0.25f / r * (behind[r - 1] + ahead[r - 1] + tile[ty + 2 - r][tx + 2] + tile[ty + 2 + r][tx + 2] + tile[ty + 2][tx + 2 - r] + tile[ty + 2][tx + 2 + r]);
    out[(z + 2) * plane + (y + 2) * pitch + x + 2] = sum;
  }
}

// layers of a neural network forward: products of a tile, summed over its rows by a power of two
extern "C" __global__ void layer_forward(const float* __restrict__ input, const float* __restrict__ weights, float* __restrict__ partial,
                                         int hidden) {
  __shared__ float node[16];
  __shared__ float product[16][16];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * 16 + ty;
  if (tx == 0) node[ty] = input[row];
  __syncthreads();
  product[ty][tx] = weights[row * hidden + tx] * node[ty];
  __syncthreads();
  for (int i = 1; i <= 4; ++i) {
    int step = (int)__powf(2.0f, (float)i);
    if (ty % step == 0) product[ty][tx] += product[ty + step / 2][tx];
    __syncthreads();
  }
  if (ty == 0) partial[blockIdx.y * hidden + tx] = product[0][tx];
}
