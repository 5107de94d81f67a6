// Directives: launch bounds, registers, variables with initialisers of every kind, shared memory.

struct Node { int key; const Node* next; float weight; };
struct Table { const int* numbers; const char* name; short counts[3]; unsigned char flags; };

__device__ int numbers[5] = {1, -2, 3};
__device__ int one = 0x7fffffff;
__device__ const Node tail = {3, nullptr, 0.25f};
__device__ Node middle = {1, &tail, 1.5f};
__device__ Node nodes[2] = {{1, &middle, 1.5f}, {2, &tail, -2.5f}};
__constant__ Table tables[2] = {{numbers + 2, "first", {1, 2, 3}, 7}, {&one, "second", {4}, 255}};
__constant__ double ratios[3] = {0.1, -1e300, 3.0};
__device__ float grid_of[2][3] = {{1.0f, 2.0f}, {3.0f}};
__device__ __managed__ int managed_counter = 5;
__device__ void* address_of_one = &one;
__constant__ unsigned short halves[] = {1, 65535, 7};
static __device__ long long internal = -9;
__device__ volatile unsigned char byte_flag = 200;
extern __shared__ double dynamic[];

extern "C" __global__ void __launch_bounds__(256, 2) bounded(float* out) {
  out[threadIdx.x] = nodes[threadIdx.x & 1].next->weight + grid_of[1][threadIdx.x % 3];
}

extern "C" __global__ void __launch_bounds__(128) at_most(int* out) {
  out[threadIdx.x] = tables[threadIdx.x & 1].numbers[1] + tables[1].name[threadIdx.x & 3] + tables[0].counts[2];
}

extern "C" __global__ void __maxnreg__(40) registers(double* out) {
  double v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = out[threadIdx.x + i] * ratios[i % 3];
#pragma unroll
  for (int i = 0; i < 8; ++i) out[threadIdx.x + i] = v[7 - i] + halves[i % 3];
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 2, 1) __launch_bounds__(64) clustered(int* out) {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out[threadIdx.x] = rank;
}
#endif

struct Parameters { int n; float scale[4]; char tag; double offset; };
extern "C" __global__ void structures(const __grid_constant__ Parameters p, int* out, Parameters q, char c, short s, bool b) {
  const Parameters* address = &p;
  out[threadIdx.x] = address->n + (int)p.scale[threadIdx.x & 3] + q.tag + (int)q.offset + c + s + b;
}

extern "C" __global__ void shared_kinds(double* out, int n) {
  __shared__ char bytes[13];
  __shared__ alignas(16) float matrix[4][5];
  bytes[threadIdx.x % 13] = (char)n;
  matrix[threadIdx.x % 4][threadIdx.x % 5] = (float)n;
  dynamic[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = dynamic[n] + bytes[n % 13] + matrix[n % 4][n % 5];
  managed_counter += one;
  internal -= byte_flag;
  if (address_of_one == nullptr) numbers[threadIdx.x % 5] = 0;
}

extern "C" __global__ void empty_body() {}

template <typename T, int N>
__global__ void templated(T* data) {
#pragma unroll
  for (int i = 0; i < N; ++i) data[i * N + threadIdx.x] += (T)i;
}
template __global__ void templated<short, 3>(short*);
template __global__ void templated<double, 2>(double*);
