// Tensor cores: the wmma interface, mma.sync of every operand type, sparse, and matrix moves.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_half(const half* a, const half* b, float* c, int k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(x, a + i, k);
    wmma::load_matrix_sync(y, b + i, k);
    wmma::mma_sync(sum, x, y, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = fmaxf(sum.x[i], 0.0f);
  wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

extern "C" __global__ void wmma_bytes(const signed char* a, const signed char* b, int* c) {
  __shared__ int tile[256];
  wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 32, 8, 16, int> sum;
  wmma::load_matrix_sync(sum, c, 8, wmma::mem_row_major);
  wmma::load_matrix_sync(x, a, 16);
  wmma::load_matrix_sync(y, b, 16);
  wmma::mma_sync(sum, x, y, sum, true);
  wmma::store_matrix_sync(tile, sum, 8, wmma::mem_row_major);
  __syncthreads();
  c[threadIdx.x] = tile[threadIdx.x];
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void wmma_ampere(const __nv_bfloat16* a, const float* b, const double* d, float* c, double* e) {
  wmma::fragment<wmma::matrix_a, 8, 32, 16, __nv_bfloat16, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 8, 32, 16, __nv_bfloat16, wmma::row_major> y;
  wmma::fragment<wmma::accumulator, 8, 32, 16, float> sum;
  wmma::fill_fragment(sum, 1.0f);
  wmma::load_matrix_sync(x, a, 16);
  wmma::load_matrix_sync(y, a + 128, 32);
  wmma::mma_sync(sum, x, y, sum);
  wmma::store_matrix_sync(c, sum, 32, wmma::mem_row_major);
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> u;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> v;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> t;
  wmma::fill_fragment(t, 0.0f);
  wmma::load_matrix_sync(u, b, 8);
  wmma::load_matrix_sync(v, b + 128, 8);
  for (int i = 0; i < u.num_elements; ++i) u.x[i] = wmma::__float_to_tf32(u.x[i]);
  wmma::mma_sync(t, u, v, t);
  wmma::store_matrix_sync(c + 256, t, 16, wmma::mem_col_major);
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> p;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> q;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> r;
  wmma::fill_fragment(r, 0.0);
  wmma::load_matrix_sync(p, d, 4);
  wmma::load_matrix_sync(q, d + 32, 4);
  wmma::mma_sync(r, p, q, r);
  wmma::store_matrix_sync(e, r, 8, wmma::mem_row_major);
}

extern "C" __global__ void mma_ampere(const unsigned* in, float* out, int* counts, double* wide) {
  const int t = threadIdx.x;
  unsigned a0 = in[t], a1 = in[t + 32], a2 = in[t + 64], a3 = in[t + 96], b0 = in[t + 128], b1 = in[t + 160];
  float c0 = 0, c1 = 0, c2 = 0, c3 = 0;
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  asm volatile("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6,%7}, {%0,%1,%2,%3}, %8, 0x1;"
               : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(b0), "r"(b1), "r"(a3));
  out[t] = c0 + c1 + c2 + c3;
  int d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  asm volatile("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  counts[t] = d0 + d1 + d2 + d3;
  double e0 = wide[0], e1 = wide[1];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+d"(e0), "+d"(e1) : "d"(wide[2]), "d"(wide[3]));
  wide[t] = e0 + e1;
}
#endif

extern "C" __global__ void matrix_moves(const half* in, unsigned* out) {
  __shared__ half tile[16][24];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i / 16][i % 16] = in[i];
  __syncwarp();
  const unsigned address = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x % 16][(threadIdx.x / 16) * 8]);
  unsigned r0, r1, r2, r3, t0, t1;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(address));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2+16];" : "=r"(t0), "=r"(t1) : "r"(address));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(t0));
  unsigned c0 = 0, c1 = 0;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
               : "+r"(c0), "+r"(c1) : "r"(r0), "r"(r1), "r"(t0));
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(address), "r"(c0), "r"(c1));
#endif
  out[threadIdx.x] = c0 ^ c1 ^ r2 ^ r3 ^ t1;
}
