// Warps of one block that meet at named barriers. See build.sh.

__device__ __forceinline__ void arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Two warps load tiles, two add them up: a ring of two stages.
extern "C" __global__ void two_stages(const float *in, float *out, int tiles) {
  __shared__ float stage[2][64];
  int t = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    for (int i = 0; i < tiles; i += 2) {
      meet(3, 128);
      stage[0][t] = in[i * 64 + t];
      arrive(1, 128);
      meet(4, 128);
      stage[1][t] = in[(i + 1) * 64 + t];
      arrive(2, 128);
    }
    meet(3, 128);
    meet(4, 128);
  } else {
    float sum = 0;
    arrive(3, 128);
    arrive(4, 128);
    for (int i = 0; i < tiles; i += 2) {
      meet(1, 128);
      sum += stage[0][t];
      arrive(3, 128);
      meet(2, 128);
      sum += stage[1][t] * stage[1][63 - t];
      arrive(4, 128);
    }
    out[blockIdx.x * 64 + t] = sum;
  }
}

// Two halves of a block, each with a barrier of its own, and one of all at the end.
extern "C" __global__ void halves(const float *in, float *out, int rounds) {
  __shared__ float part[2][64];
  int half = threadIdx.x / 64, t = threadIdx.x % 64;
  float own = in[blockIdx.x * 128 + threadIdx.x];
  if (half == 0) {
    for (int i = 0; i < rounds; ++i) {
      part[0][t] = own;
      meet(1, 64);
      own += part[0][(t + 1) % 64];
      meet(1, 64);
    }
  } else {
    for (int i = 0; i < 2 * rounds; ++i) {
      part[1][t] = own;
      meet(2, 64);
      own *= part[1][(t + 7) % 64];
      meet(2, 64);
    }
  }
  part[half][t] = own;
  __syncthreads();
  out[blockIdx.x * 128 + threadIdx.x] = part[1 - half][t];
}

// One warp loads, three compute: four stages, a batch of tiles in a nest of loops.
template <int S>
__device__ __forceinline__ void stages(const float *in, float *sum, float (*ring)[32], int at) {
  int t = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    meet(8 + S, 128);
    ring[S][t] = in[at + 32 * S + t];
    arrive(1 + S, 128);
  } else {
    meet(1 + S, 128);
    *sum += ring[S][t] * (threadIdx.x / 32);
    arrive(8 + S, 128);
  }
}

extern "C" __global__ void four_stages(const float *in, float *out, int batches, int tiles) {
  __shared__ float ring[4][32];
  float sum = 0;
  if (threadIdx.x < 32) {
    for (int b = 0; b < batches; ++b)
      for (int i = 0; i < tiles; ++i) {
        int at = (b * tiles + i) * 128;
        stages<0>(in, &sum, ring, at);
        stages<1>(in, &sum, ring, at);
        stages<2>(in, &sum, ring, at);
        stages<3>(in, &sum, ring, at);
      }
    meet(8, 128);
    meet(9, 128);
    meet(10, 128);
    meet(11, 128);
  } else {
    arrive(8, 128);
    arrive(9, 128);
    arrive(10, 128);
    arrive(11, 128);
    for (int b = 0; b < batches; ++b) {
      for (int i = 0; i < tiles; ++i) {
        stages<0>(in, &sum, ring, 0);
        stages<1>(in, &sum, ring, 0);
        stages<2>(in, &sum, ring, 0);
        stages<3>(in, &sum, ring, 0);
      }
      out[b * 96 + threadIdx.x - 32] = sum;
    }
  }
}

// The producer does not wait for the consumers: its second arrival may complete the first phase.
extern "C" __global__ void runs_ahead(const float *in, float *out, int tiles) {
  __shared__ float tile[32];
  int t = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < tiles; ++i) {
      tile[t] = in[i * 32 + t];
      arrive(1, 64);
    }
  } else {
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
      meet(1, 64);
      sum += tile[t];
    }
    out[t] = sum;
  }
}

// How often it goes round is told by data.
extern "C" __global__ void told_by_data(const int *in, float *out) {
  if (threadIdx.x < 64) {
    for (int i = in[0]; i > 0; --i) meet(1, 64);
    out[threadIdx.x] = 1;
  }
}

// How many arrive is told by a parameter that is known, or not.
extern "C" __global__ void told_by_parameter(float *out, int threads) {
  if (threadIdx.x < threads) {
    out[threadIdx.x] = 1;
    meet(1, threads);
  }
}
