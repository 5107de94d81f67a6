// Functions that stay functions: not inlined, recursive, called through pointers and virtual
// tables, with structures and arrays as arguments; the runtime's printf, malloc and assert.
#undef NDEBUG
#include <cassert>
#include <cstdio>
#include <cstdlib>

struct Pair { float a; int b; };
struct Big { double values[6]; char tag; };

__device__ __noinline__ float square_sum(float a, float b) { return a * a + b * b; }

__device__ __noinline__ Pair swap_pair(Pair p, short delta) {
  Pair q;
  q.a = (float)p.b + delta;
  q.b = (int)p.a - delta;
  return q;
}

__device__ __noinline__ Big scale(const Big& in, double factor) {
  Big out = in;
  for (int i = 0; i < 6; ++i) out.values[i] *= factor;
  out.tag ^= 1;
  return out;
}

__device__ __noinline__ void no_result(int* out, long long v) { *out = (int)(v >> 7); }

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ int is_odd(int n);
__device__ __noinline__ int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ __noinline__ int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }

typedef float (*Binary)(float, float);
__device__ float plus(float a, float b) { return a + b; }
__device__ float minus(float a, float b) { return a - b; }
__device__ float hypotenuse(float a, float b) { return sqrtf(square_sum(a, b)); }
__device__ Binary table[3] = {plus, minus, hypotenuse};
__constant__ Binary fixed_table[2] = {minus, plus};

class Shape {
 public:
  __device__ virtual float area() const = 0;
  __device__ virtual void grow(float by) { (void)by; }
  __device__ virtual ~Shape() {}
};
class Disc : public Shape {
  float radius;
 public:
  __device__ explicit Disc(float r) : radius(r) {}
  __device__ float area() const override { return 3.14159265f * radius * radius; }
  __device__ void grow(float by) override { radius += by; }
};
class Box : public Shape {
  float w, h;
 public:
  __device__ Box(float w, float h) : w(w), h(h) {}
  __device__ float area() const override { return w * h; }
};

extern "C" __global__ void direct_calls(float* out, Pair p, Big big) {
  const int t = threadIdx.x;
  Pair q = swap_pair(p, (short)t);
  Big scaled = scale(big, q.a);
  int low;
  no_result(&low, (long long)q.b * t);
  out[t] = square_sum(q.a, q.b) + (float)scaled.values[t % 6] + scaled.tag + low;
}

extern "C" __global__ void recursion(int* out, unsigned m) {
  out[threadIdx.x] = ackermann(m, threadIdx.x) + is_even(threadIdx.x);
}

extern "C" __global__ void indirect_calls(float* out, int which) {
  const float v = out[threadIdx.x];
  out[threadIdx.x] = table[which](v, 2.0f) + fixed_table[which & 1](v, 3.0f);
}

extern "C" __global__ void virtual_calls(float* out, int which) {
  Shape* shape;
  if (which) shape = new Disc(out[0]); else shape = new Box(out[1], out[2]);
  if (shape == nullptr) return;
  shape->grow(1.0f);
  out[threadIdx.x] = shape->area();
  delete shape;
}

extern "C" __global__ void runtime_calls(int* out, int n) {
  assert(n > 0 && "a positive count");
  int* scratch = (int*)malloc(n * sizeof(int));
  if (scratch == nullptr) {
    printf("block %d: no memory for %d integers\n", blockIdx.x, n);
    return;
  }
  for (int i = 0; i < n; ++i) scratch[i] = i * out[i];
  printf("%c %s %f %lld\n", 'x', "a \"quoted\" string\t", 1.5, (long long)scratch[n - 1]);
  out[threadIdx.x] = scratch[n / 2];
  free(scratch);
}

extern "C" __global__ void dynamic_stack(int* out, int n) {
  int* scratch = (int*)__builtin_alloca(n * sizeof(int));
  for (int i = 0; i < n; ++i) scratch[(i * 7) % n] = out[i];
  out[threadIdx.x] = scratch[threadIdx.x % n];
}
