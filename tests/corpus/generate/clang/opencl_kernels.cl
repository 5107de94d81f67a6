// OpenCL C for clang's NVPTX backend: another code generator's habits.
__kernel void vector_add(__global const float* a, __global const float* b, __global float* c, int n) {
  int i = __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
  if (i < n) c[i] = a[i] + b[i];
}

__kernel void tile_sum(__global const int* in, __global int* out, __local int* tile) {
  int t = __nvvm_read_ptx_sreg_tid_x();
  tile[t] = in[t];
  __nvvm_bar_sync(0);
  for (int d = 128; d > 0; d >>= 1) {
    if (t < d) tile[t] += tile[t + d];
    __nvvm_bar_sync(0);
  }
  if (t == 0) out[0] = tile[0];
}

__attribute__((noinline)) int classify(int v) {
  switch (v & 15) {
    case 0: return 3;
    case 1: return v * 5;
    case 3: return v / 3;
    case 4: return v ^ 77;
    case 7: return v % 9;
    case 8: return -v;
    case 12: return v << 2;
    default: return v;
  }
}

__kernel void switches(__global int* data, __global double* values, __global float4* vectors) {
  int t = __nvvm_read_ptx_sreg_tid_x();
  data[t] = classify(data[t]);
  values[t] = values[t] * 0.5 + (double)data[t];
  vectors[t] = vectors[t].yxwz * 2.0f;
}
