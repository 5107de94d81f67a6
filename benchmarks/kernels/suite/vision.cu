// Computer vision and tracking.

#define CIRCLES 7
#define POINTS 30
__constant__ float circle_sin[POINTS];
__constant__ float circle_cos[POINTS];
__constant__ int circle_x[CIRCLES * POINTS];
__constant__ int circle_y[CIRCLES * POINTS];

// how well circles of several sizes fit the gradient around a pixel: mean over variance along each
extern "C" __global__ void circle_score(const float* __restrict__ grad_x, const float* __restrict__ grad_y, float* __restrict__ score,
                                        int rows, int cols, int margin) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + margin, y = blockIdx.y + margin;
  if (x >= cols - margin || y >= rows - margin) return;
  float best = 0.0f;
  for (int k = 0; k < CIRCLES; ++k) {
    float sum = 0.0f, m2 = 0.0f, mean = 0.0f;
    for (int n = 0; n < POINTS; ++n) {
      int at = (y + circle_y[k * POINTS + n]) * cols + x + circle_x[k * POINTS + n];
      float p = grad_x[at] * circle_cos[n] + grad_y[at] * circle_sin[n];
      sum += p;
      float delta = p - mean;
      mean += delta / (float)(n + 1);
      m2 += delta * (p - mean);
    }
    mean = sum / POINTS;
    float value = mean * mean / (m2 / (POINTS - 1));
    if (value > best) best = value;
  }
  score[y * cols + x] = best;
}

// dilation by a disc, threads in one dimension over a two-dimensional image
extern "C" __global__ void dilate(const float* __restrict__ in, const unsigned char* __restrict__ disc, float* __restrict__ out,
                                  int rows, int cols, int size) {
  int id = blockIdx.x * blockDim.x + threadIdx.x;
  int y = id % rows, x = id / rows;
  if (x >= cols) return;
  int half = size / 2;
  float best = 0.0f;
  for (int i = 0; i < size; i++) {
    int py = y - half + i;
    if (py >= 0 && py < rows) {
      for (int j = 0; j < size; j++) {
        int px = x - half + j;
        if (px >= 0 && px < cols && disc[i * size + j]) {
          float value = in[py * cols + px];
          if (value > best) best = value;
        }
      }
    }
  }
  out[y * cols + x] = best;
}

// a vector field relaxes inside of one block's window until its mean change is small
extern "C" __global__ void relax_field(const float* __restrict__ image, float* field, int rows, int cols, float vx, float vy, float e,
                                       int most, float cutoff) {
  extern __shared__ float now[];
  __shared__ float buffer[64];
  __shared__ int converged;
  int t = threadIdx.x, cells = rows * cols, rounds = (cells + blockDim.x - 1) / blockDim.x;
  float* mine = field + (size_t)blockIdx.x * cells;
  const float* seen = image + (size_t)blockIdx.x * cells;
  for (int r = 0; r < rounds; r++) {
    int at = r * blockDim.x + t;
    if (at < cells) now[at] = mine[at];
  }
  if (t == 0) converged = 0;
  __syncthreads();
  float reciprocal = 1.0f / e;
  int iteration = 0;
  while (!converged && iteration < most) {
    float change = 0.0f;
    for (int r = 0; r < rounds; r++) {
      int at = r * blockDim.x + t, y = at / cols, x = at % cols;
      float value = 0.0f;
      if (at < cells) {
        int north = y == 0 ? 0 : y - 1, south = y == rows - 1 ? y : y + 1, west = x == 0 ? 0 : x - 1, east = x == cols - 1 ? x : x + 1;
        float here = now[at];
        float up = now[north * cols + x] - here, down = now[south * cols + x] - here;
        float left = now[y * cols + west] - here, right = now[y * cols + east] - here;
        value = here + 0.125f * (up * (0.5f + atanf(up * -vy * reciprocal) / 3.1415927f) + down * (0.5f + atanf(down * vy * reciprocal) / 3.1415927f) +
                                 left * (0.5f + atanf(left * -vx * reciprocal) / 3.1415927f) + right * (0.5f + atanf(right * vx * reciprocal) / 3.1415927f));
        value -= 0.2f * seen[at] * (value - seen[at]);
        change += fabsf(value - here);
      }
      __syncthreads();
      if (at < cells) now[at] = value;
      __syncthreads();
    }
    buffer[t] = change;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
      if (t < s) buffer[t] += buffer[t + s];
      __syncthreads();
    }
    if (t == 0 && buffer[0] / cells < cutoff) converged = 1;
    iteration++;
    __syncthreads();
  }
  for (int r = 0; r < rounds; r++) {
    int at = r * blockDim.x + t;
    if (at < cells) mine[at] = now[at];
  }
}

struct Settings {
  int rows, cols;
  int mask_rows, mask_cols;
  int elements;
};
__constant__ Settings settings;

// correlation with a template; sizes lie in constant memory and each thread strides over the results
extern "C" __global__ void correlate(const float* __restrict__ image, const float* __restrict__ mask, float* __restrict__ out) {
  int element = blockIdx.x * blockDim.x + threadIdx.x;
  while (element < settings.elements) {
    int row = (element + 1) % settings.rows - 1, col = (element + 1) / settings.rows;
    if ((element + 1) % settings.rows == 0) {
      row = settings.rows - 1;
      col = col - 1;
    }
    float sum = 0.0f;
    for (int c = 0; c < settings.mask_cols; c++) {
      int x = col - c;
      if (x < 0) break;
      for (int r = 0; r < settings.mask_rows; r++) {
        int y = row - r;
        if (y >= 0) sum += image[x * settings.rows + y] * mask[c * settings.mask_rows + r];
      }
    }
    out[element] = sum;
    element += gridDim.x * blockDim.x;
  }
}

// motion search: sums of absolute differences of 4 x 4 pixels at every offset of a window
extern "C" __global__ void block_motion(const unsigned char* __restrict__ now, const unsigned char* __restrict__ before, unsigned short* __restrict__ sad,
                                        int width, int range) {
  int side = 2 * range + 1, positions = side * side;
  int bx = blockIdx.x * 4, by = blockIdx.y * 4;
  for (int p = threadIdx.x; p < positions; p += blockDim.x) {
    int dx = p % side - range, dy = p / side - range, sum = 0;
    for (int y = 0; y < 4; y++)
#pragma unroll
      for (int x = 0; x < 4; x++) {
        int a = now[(by + y) * width + bx + x];
        int b = before[(by + y + range + dy) * (width + 2 * range) + bx + x + range + dx];
        sum = __sad(a, b, sum);
      }
    sad[(blockIdx.y * gridDim.x + blockIdx.x) * positions + p] = sum;
  }
}

// likelihoods of particles of a tracker, then their maximum in the block
extern "C" __global__ void particle_likelihood(const float2* __restrict__ particles, const int2* __restrict__ offsets, const unsigned char* __restrict__ image,
                                               float* __restrict__ weights, float* __restrict__ best, int count, int offsets_count, int width, int height) {
  __shared__ float buffer[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float likelihood = -1e30f;
  if (i < count) {
    int x = __float2int_rn(particles[i].x), y = __float2int_rn(particles[i].y);
    float sum = 0.0f;
    for (int k = 0; k < offsets_count; ++k) {
      int px = x + offsets[k].x, py = y + offsets[k].y, at = px * height + py;
      if (at >= width * height || at < 0) at = 0;
      float low = image[at] - 100.0f, high = image[at] - 228.0f;
      sum += (low * low - high * high) / 50.0f;
    }
    likelihood = sum / offsets_count;
    weights[i] = expf(likelihood * 0.001f);
  }
  buffer[threadIdx.x] = likelihood;
  __syncthreads();
  for (unsigned s = blockDim.x >> 1; s > 0; s >>= 1) {
    if (threadIdx.x < s) buffer[threadIdx.x] = fmaxf(buffer[threadIdx.x], buffer[threadIdx.x + s]);
    __syncthreads();
  }
  if (threadIdx.x == 0) best[blockIdx.x] = buffer[0];
}

// resampling: the first place of a running sum that reaches a number, searched from the front
extern "C" __global__ void resample(const float* __restrict__ running, const float* __restrict__ wanted, const float* __restrict__ from, float* __restrict__ to,
                                    int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    int index = -1;
    for (int x = 0; x < count; x++) {
      if (running[x] >= wanted[i]) {
        index = x;
        break;
      }
    }
    if (index == -1) index = count - 1;
    to[i] = from[index];
  }
}

// Haar wavelets of a row in one block, level by level in shared memory
extern "C" __global__ void haar_row(const float* __restrict__ in, float* __restrict__ out, int levels) {
  __shared__ float line[128];
  int t = threadIdx.x, base = blockIdx.x * 128, active = 64;
  line[t] = in[base + t];
  line[t + 64] = in[base + t + 64];
  __syncthreads();
  for (int level = 0; level < levels; ++level) {
    float a, b;
    if (t < active) {
      a = line[2 * t];
      b = line[2 * t + 1];
    }
    __syncthreads();
    if (t < active) {
      out[base + active + t] = (a - b) * 0.70710678f;
      line[t] = (a + b) * 0.70710678f;
    }
    __syncthreads();
    active >>= 1;
  }
  if (t < 2 * active) out[base + t] = line[t];
}
