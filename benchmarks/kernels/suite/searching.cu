// Texts, codes, tries and trees.

struct TrieNode {
  int child[4];
  int link;
};

// the longest match of each suffix of a query in a trie, with links back
extern "C" __global__ void trie_matches(const TrieNode* __restrict__ nodes, const unsigned char* __restrict__ queries, const int* __restrict__ begin,
                                        unsigned short* __restrict__ depth_found, int count, int least) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= count) return;
  int length = begin[q + 1] - begin[q];
  const unsigned char* text = queries + begin[q];
  for (int start = 0; start <= length - least; ++start) {
    int node = 0, depth = 0;
    while (start + depth < length) {
      int next = nodes[node].child[text[start + depth] & 3];
      if (next == 0) break;
      node = next;
      ++depth;
    }
    depth_found[begin[q] + start] = depth >= least ? depth : 0;
  }
}

// codes of variable length: a block's bits are placed by a scan and put together by atomics
extern "C" __global__ void code_lengths(const unsigned char* __restrict__ symbols, const unsigned* __restrict__ code, const unsigned* __restrict__ code_bits,
                                        unsigned* __restrict__ out, unsigned* __restrict__ bits_of_block) {
  __shared__ unsigned place[64];
  __shared__ unsigned words[64];
  int t = threadIdx.x;
  unsigned symbol = symbols[blockIdx.x * 64 + t], bits = code_bits[symbol];
  place[t] = bits;
  words[t] = 0;
  __syncthreads();
  for (int d = 1; d < 64; d *= 2) {
    unsigned add = t >= d ? place[t - d] : 0;
    __syncthreads();
    place[t] += add;
    __syncthreads();
  }
  unsigned end = place[t], start = end - bits, word = start / 32, offset = start % 32;
  unsigned value = code[symbol];
  if (offset + bits <= 32) {
    atomicOr(&words[word], value << (32 - offset - bits));
  } else {
    unsigned rest = offset + bits - 32;
    atomicOr(&words[word], value >> rest);
    atomicOr(&words[word + 1], value << (32 - rest));
  }
  __syncthreads();
  if (t == 63) bits_of_block[blockIdx.x] = end;
  out[blockIdx.x * 64 + t] = words[t];
}

// decoding bit by bit through a tree of codes
extern "C" __global__ void code_decode(const unsigned* __restrict__ bits, const int* __restrict__ offset, const int2* __restrict__ tree, unsigned char* __restrict__ out,
                                       int streams, int per_stream) {
  int s = blockIdx.x * blockDim.x + threadIdx.x;
  if (s >= streams) return;
  int at = offset[s];
  for (int n = 0; n < per_stream; ++n) {
    int node = 0;
    do {
      int bit = bits[at >> 5] >> (31 - (at & 31)) & 1;
      node = bit ? tree[node].y : tree[node].x;
      ++at;
    } while (node >= 0);
    out[s * per_stream + n] = -node - 1;
  }
}

__constant__ float pivots[31];

// buckets of a hybrid sort: place among pivots by a search of five steps, then a count
extern "C" __global__ void bucket_count(const float* __restrict__ in, int* __restrict__ bucket, unsigned* sizes, int n) {
  __shared__ unsigned own[32];
  for (int b = threadIdx.x; b < 32; b += blockDim.x) own[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    float value = in[i];
    int at = 15, step = 16;
    while (step > 1) {
      step >>= 1;
      at = value < pivots[at] ? at - step : at + step;
    }
    at = value < pivots[at] ? at : at + 1;
    bucket[i] = at << 26 | atomicAdd(&own[at], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 32; b += blockDim.x) atomicAdd(&sizes[b], own[b]);
}

// two-point correlations: products sorted into bins whose edges fall, found by bisection
extern "C" __global__ void angular_histogram(const float4* __restrict__ points, const float* __restrict__ edges, unsigned long long* histogram, int count, int bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float4 a = points[i];
  for (int j = i + 1; j < count; ++j) {
    float dot = a.x * points[j].x + a.y * points[j].y + a.z * points[j].z;
    int low = 0, high = bins;
    while (high > low + 1) {
      int middle = (low + high) / 2;
      if (dot >= edges[middle])
        high = middle;
      else
        low = middle;
    }
    atomicAdd(&histogram[low], 1ull);
  }
}

// range queries on a sorted array by two searches of fixed strides
extern "C" __global__ void range_counts(const int* __restrict__ sorted, int n, const int2* __restrict__ ranges, int* __restrict__ counts, int asked, int top) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= asked) return;
  int first = 0, last = 0;
  for (int stride = top; stride > 0; stride >>= 1) {
    int next = min(first + stride, n);
    if (sorted[next - 1] < ranges[q].x) first = next;
  }
  for (int stride = top; stride > 0; stride >>= 1) {
    int next = min(last + stride, n);
    if (sorted[next - 1] <= ranges[q].y) last = next;
  }
  counts[q] = last - first;
}

// keys tried one after the other until a digest fits; digits count up like a clock
extern "C" __global__ void key_search(unsigned target, int digits, int base, int tries, unsigned* __restrict__ found) {
  unsigned start = (blockIdx.x * blockDim.x + threadIdx.x) * tries;
  unsigned char key[8];
  unsigned rest = start;
  for (int d = 0; d < digits; ++d) {
    key[d] = rest % base;
    rest /= base;
  }
  for (int n = 0; n < tries; ++n) {
    unsigned h = 2166136261u;
    for (int d = 0; d < digits; ++d) h = (h ^ key[d]) * 16777619u;
    if ((h & 0xffffu) == target) {
      *found = start + n;
      return;
    }
    int d = 0;
    bool carry = true;
    while (carry && d < digits) {
      if (++key[d] == base) {
        key[d] = 0;
        d++;
      } else {
        carry = false;
      }
    }
  }
}

// records of a text: commas between numbers; digits to values
extern "C" __global__ void parse_numbers(const char* __restrict__ text, const int* __restrict__ line, int lines, int* __restrict__ sums) {
  int l = blockIdx.x * blockDim.x + threadIdx.x;
  if (l >= lines) return;
  int value = 0, sign = 1, sum = 0;
  for (const char* p = text + line[l]; p < text + line[l + 1]; ++p) {
    char c = *p;
    switch (c) {
      case '-': sign = -1; break;
      case ',':
        sum += sign * value;
        value = 0;
        sign = 1;
        break;
      case ' ':
      case '\n': continue;
      default:
        if (c >= '0' && c <= '9') value = value * 10 + (c - '0');
    }
  }
  sums[l] = sum + sign * value;
}

// a run-length code: each thread that starts a run counts it
extern "C" __global__ void run_lengths(const unsigned char* __restrict__ in, int* __restrict__ length, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int count = 0;
  if (i == 0 || in[i - 1] != in[i]) {
    int j = i;
    do {
      ++count;
      ++j;
    } while (j < n && in[j] == in[i]);
  }
  length[i] = count;
}
