// Loops whose bounds stand in asm comments, and comments that bound nothing.

extern "C" __global__ void csr(const int* row, const float* v, float* y) {
  const int i = threadIdx.x;
  float s = 0;
  for (int j = row[i]; j < row[i + 1]; ++j) {
    asm volatile("// ptxwcet: loop_bound 64");
    s += v[j];
  }
  y[i] = s;
}

extern "C" __global__ void unrolled(const int* row, float* y) {
  const int i = threadIdx.x, m = row[i];
  float s = 0;
#pragma unroll 4
  for (int j = 0; j < m; ++j) {
    asm volatile("/* ptxwcet: loop_bound 66 */");
    s += y[j];
  }
  y[i] = s;
}

extern "C" __global__ void total(const int* row, const float* v, float* y, int n) {
  for (int i = 0; i < n; ++i) {
    float s = 0;
#pragma unroll 1
    for (int j = row[i]; j < row[i + 1]; ++j) {
      asm volatile("// ptxwcet: loop_total 500");
      s += v[j];
    }
    y[i] = s;
  }
}

extern "C" __global__ void inner_gone(const int* next, float* y) {
  int i = threadIdx.x;
#pragma unroll 1
  while (i != -1) {
    for (int k = 0; k < 4; ++k) {
      asm volatile("// ptxwcet: loop_bound 4");
      y[i + k] *= 0.5f;
    }
    i = next[i];
  }
}

extern "C" __global__ void both(const int* next, float* y) {
  int i = threadIdx.x;
#pragma unroll 1
  while (i != -1) {
    asm volatile("// ptxwcet: loop_bound 100");
    for (int k = 0; k < 4; ++k) {
      asm volatile("// ptxwcet: loop_bound 40");
      y[i + k] *= 0.5f;
    }
    i = next[i];
  }
}

extern "C" __global__ void all_gone(float* y) {
  for (int k = 0; k < 4; ++k) {
    asm volatile("// ptxwcet: loop_bound 4");
    y[k] *= 0.5f;
  }
}

extern "C" __global__ void sometimes(const int* next, float* y) {
  int i = threadIdx.x;
#pragma unroll 1
  while (i != -1) {
    if (y[i] < 0) {
      asm volatile("// ptxwcet: loop_bound 4");
      y[i] = 0;
    }
    i = next[i];
  }
}

__device__ __noinline__ float chain(const int* next, int i) {
  float s = 0;
#pragma unroll 1
  while (i != -1) {
    asm volatile("// ptxwcet: loop_bound 9");
    s += i;
    i = next[i];
  }
  return s;
}

extern "C" __global__ void called(const int* next, float* y) {
  const int i = threadIdx.x;
  y[i] = chain(next, i) + chain(next, y[i]);
}

extern "C" __global__ void counted(float* y) {
#pragma unroll 1
  for (int k = 0; k < 40; ++k) {
    asm volatile("// ptxwcet: loop_bound 30");
    y[k] *= 0.5f;
  }
}

extern "C" __global__ void slack(const int* next, float* y) {
  int i = threadIdx.x;
#pragma unroll 1
  while (i != -1) {
    for (int k = 0; k < 4; ++k) {
      asm volatile("// ptxwcet: loop_bound 40");
      y[i + k] *= 0.5f;
    }
    i = next[i];
  }
}
