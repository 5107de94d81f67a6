// Bitonic sorting of 32-bit keys, each with a 32-bit value, in three kernels: a chunk in shared
// memory, one step of a merge in global memory, and the rest of that merge in shared memory.

constexpr unsigned THREADS = 256;
constexpr unsigned CHUNK = 2 * THREADS;

struct Pair {
  unsigned key;
  unsigned value;
};

// Puts two pairs into ascending order, or into descending order.
__device__ __forceinline__ void compare_exchange(Pair &first, Pair &second, bool ascending) {
  if ((first.key > second.key) == ascending) {
    const Pair kept = first;
    first = second;
    second = kept;
  }
}

// The first of the two places that thread t of a step compares; the second is `stride` further.
__device__ __forceinline__ unsigned first_place(unsigned t, unsigned stride) {
  return 2 * t - (t & (stride - 1));
}

__device__ __forceinline__ void load_chunk(Pair *pairs, const unsigned *keys,
                                           const unsigned *values, unsigned base) {
  const unsigned t = threadIdx.x;
  pairs[t] = {keys[base + t], values[base + t]};
  pairs[t + THREADS] = {keys[base + t + THREADS], values[base + t + THREADS]};
}

__device__ __forceinline__ void store_chunk(const Pair *pairs, unsigned *keys, unsigned *values,
                                            unsigned base) {
  const unsigned t = threadIdx.x;
  keys[base + t] = pairs[t].key;
  values[base + t] = pairs[t].value;
  keys[base + t + THREADS] = pairs[t + THREADS].key;
  values[base + t + THREADS] = pairs[t + THREADS].value;
}

// Sorts chunks of 512: those of even blocks ascending, of odd blocks descending.
extern "C" __global__ void __launch_bounds__(256)
bitonic_sort_1(const unsigned *keys_in, const unsigned *values_in, unsigned *keys,
               unsigned *values) {
  __shared__ Pair pairs[CHUNK];
  const unsigned t = threadIdx.x, base = blockIdx.x * CHUNK;
  load_chunk(pairs, keys_in, values_in, base);
#pragma unroll 1
  for (unsigned run = 2; run <= CHUNK; run *= 2) {
#pragma unroll 1
    for (unsigned stride = run / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const unsigned place = first_place(t, stride);
      compare_exchange(pairs[place], pairs[place + stride], ((base + place) & run) == 0);
    }
  }
  __syncthreads();
  store_chunk(pairs, keys, values, base);
}

// One step, with a stride of at least a chunk, of the merges of runs of `run` pairs.
extern "C" __global__ void __launch_bounds__(256)
bitonic_sort_2(unsigned *keys, unsigned *values, unsigned run, unsigned stride) {
  const unsigned t = blockIdx.x * THREADS + threadIdx.x;
  const unsigned place = first_place(t, stride), other = place + stride;
  Pair first = {keys[place], values[place]}, second = {keys[other], values[other]};
  compare_exchange(first, second, (place & run) == 0);
  keys[place] = first.key;
  values[place] = first.value;
  keys[other] = second.key;
  values[other] = second.value;
}

// The steps of a merge with strides below a chunk.
extern "C" __global__ void __launch_bounds__(256)
bitonic_sort_3(const unsigned *keys_in, const unsigned *values_in, unsigned *keys,
               unsigned *values, unsigned run) {
  __shared__ Pair pairs[CHUNK];
  const unsigned t = threadIdx.x, base = blockIdx.x * CHUNK;
  load_chunk(pairs, keys_in, values_in, base);
  const bool ascending = (base & run) == 0;
#pragma unroll 1
  for (unsigned stride = CHUNK / 2; stride > 0; stride /= 2) {
    __syncthreads();
    const unsigned place = first_place(t, stride);
    compare_exchange(pairs[place], pairs[place + stride], ascending);
  }
  __syncthreads();
  store_chunk(pairs, keys, values, base);
}
