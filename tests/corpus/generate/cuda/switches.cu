// Dense and sparse switches: trees of branches and, where the compiler likes, tables.

__device__ unsigned state_of_machine[32];

extern "C" __global__ void interpreter(const unsigned char* code, int length, float* stack, float x) {
  float* top = stack + 64 * threadIdx.x;
  float a = x;
  for (int pc = 0; pc < length; ++pc) {
    switch (code[pc]) {
      case 0: a = a + *top; break;
      case 1: a = a - *top; break;
      case 2: a = a * *top; break;
      case 3: *top++ = a; break;
      case 4: a = *--top; break;
      case 5: a = rsqrtf(a); break;
      case 6: a = __sinf(a); break;
      case 7: a = fabsf(a); break;
      case 8: a = __expf(a); pc += 2; break;
      case 9: a = __logf(a); break;
      case 10: pc -= a > 0.0f ? 5 : 0; break;
      case 11: top[1] = top[0]; break;
      case 12: a = __fdividef(a, *top); break;
      case 13: a = fminf(a, *top); break;
      case 14: a = truncf(a); break;
      case 15: *top = a; return;
      default: __trap();
    }
  }
  *top = a;
}

extern "C" __global__ void two_switches(int* out, int selector, int sign) {
  int v = threadIdx.x;
  switch (selector) {
    case 10: v = __popc(v); break;
    case 11: v = __clz(v); break;
    case 12: v = __brev(v); break;
    case 13: v = __ffs(v); break;
    case 14: v = v * v; break;
    case 15: v = v / (sign | 1); break;
    case 16: v = v % (sign | 1); break;
    case 17: v ^= sign; [[fallthrough]];
    case 18: v <<= 3; break;
    case 19: v = atomicAdd(out + 1, v); break;
    default: break;
  }
  switch (sign * 3 + v % 7) {
    case -3: v += 1; break;
    case -2: v *= 3; break;
    case -1: v -= out[7]; break;
    case 0: v = __vadd4(v, selector); break;
    case 1: v = max(v, selector); break;
    case 2: v = __byte_perm(v, selector, 0x3210); break;
    case 3: v = __funnelshift_l(v, selector, 5); break;
    case 4: v = (int)state_of_machine[v & 31]; break;
    case 5: state_of_machine[v & 31] = v; break;
    case 1000: v = 77; break;
  }
  out[threadIdx.x] = v;
}

extern "C" __global__ void sparse(int* out, int key) {
  int v = 0;
  switch (key) {
    case 3: v = out[9]; break;
    case 300: v = out[10] + 5; break;
    case 77777: v = out[11] * 7; break;
    case -40000: v = out[12] >> 1; break;
  }
  out[threadIdx.x] = v;
}
