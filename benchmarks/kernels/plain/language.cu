// Layers of language models.

#include <cuda_fp16.h>

struct Q4 {
  half scale;
  unsigned char bits[16];
};

extern "C" __global__ void rms_norm(const float* in, const float* weight, float* out, int width,
                                    float epsilon) {
  __shared__ float parts[32];
  const float* row = in + (size_t)blockIdx.x * width;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < width; i += blockDim.x) sum += row[i] * row[i];
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0.0f;
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  float scale = rsqrtf(sum / width + epsilon);
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    out[(size_t)blockIdx.x * width + i] = row[i] * scale * weight[i];
}

extern "C" __global__ void rotate(float* q, const int* positions, int heads, int width,
                                  float base) {
  int token = blockIdx.x, position = positions[token];
  for (int i = threadIdx.x; i < heads * width / 2; i += blockDim.x) {
    int head = i / (width / 2), k = i % (width / 2);
    float angle = position * __powf(base, -2.0f * k / width), c, s;
    __sincosf(angle, &s, &c);
    float* at = q + ((size_t)token * heads + head) * width + 2 * k;
    float x = at[0], y = at[1];
    at[0] = x * c - y * s;
    at[1] = x * s + y * c;
  }
}

// Maximum and sum in one pass, a warp a row.
extern "C" __global__ void softmax_rows(const float* in, float* out, int rows, int width) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float most = -INFINITY, sum = 0.0f;
  for (int i = lane; i < width; i += 32) {
    float x = in[row * width + i];
    if (x > most) {
      sum *= __expf(most - x);
      most = x;
    }
    sum += __expf(x - most);
  }
  for (int d = 16; d > 0; d >>= 1) {
    float other = __shfl_xor_sync(0xffffffffu, most, d), add = __shfl_xor_sync(0xffffffffu, sum, d);
    float top = fmaxf(most, other);
    sum = sum * __expf(most - top) + add * __expf(other - top);
    most = top;
  }
  for (int i = lane; i < width; i += 32)
    out[row * width + i] = __expf(in[row * width + i] - most) / sum;
}

// A row of a matrix of 4-bit numbers with a scale for each 32, times a vector.
extern "C" __global__ void matvec_q4(const Q4* matrix, const float* vector, float* out, int rows,
                                     int width) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int b = threadIdx.x; b < width / 32; b += 32) {
    const Q4& block = matrix[row * (width / 32) + b];
    float part = 0.0f;
    for (int i = 0; i < 16; ++i) {
      part += ((block.bits[i] & 15) - 8) * vector[b * 32 + i];
      part += ((block.bits[i] >> 4) - 8) * vector[b * 32 + 16 + i];
    }
    sum += part * __half2float(block.scale);
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (threadIdx.x == 0) out[row] = sum;
}

// A query against the keys so far, of which a length of its own says how many there are.
extern "C" __global__ void decode_attention(const float* q, const float* k, const float* v,
                                            const int* lengths, float* out, int most, int width) {
  extern __shared__ float scores[];
  int sequence = blockIdx.x, length = min(lengths[sequence], most);
  const float* query = q + sequence * width;
  for (int t = threadIdx.x; t < length; t += blockDim.x) {
    float dot = 0.0f;
    for (int i = 0; i < width; ++i) dot += query[i] * k[((size_t)sequence * most + t) * width + i];
    scores[t] = dot * rsqrtf(width);
  }
  __syncthreads();
  float top = -INFINITY, sum = 0.0f;
  for (int t = 0; t < length; ++t) top = fmaxf(top, scores[t]);
  for (int t = 0; t < length; ++t) sum += __expf(scores[t] - top);
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    float value = 0.0f;
    for (int t = 0; t < length; ++t)
      value += __expf(scores[t] - top) * v[((size_t)sequence * most + t) * width + i];
    out[sequence * width + i] = value / sum;
  }
}

// The same with keys in pages, which a table lists; a warp a sequence.
extern "C" __global__ void paged_scores(const float* q, const float* pages, const int* table,
                                        const int* lengths, float* scores, int most_pages) {
  int sequence = blockIdx.x, length = lengths[sequence];
  int pages_used = (length + 15) / 16;
  for (int p = threadIdx.x / 32; p < pages_used; p += blockDim.x / 32) {
    int page = table[sequence * most_pages + p];
    for (int t = 0; t < 16; ++t) {
      float dot = 0.0f;
      for (int i = threadIdx.x % 32; i < 128; i += 32)
        dot += q[sequence * 128 + i] * pages[((size_t)page * 16 + t) * 128 + i];
      for (int d = 16; d > 0; d >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, d);
      if (threadIdx.x % 32 == 0 && p * 16 + t < length)
        scores[(sequence * most_pages + p) * 16 + t] = dot;
    }
  }
}

// The best of a vocabulary for each beam, again and again with the best taken out.
extern "C" __global__ void beam_top(float* scores, int vocabulary, int beams, int* tokens) {
  __shared__ float best[128];
  __shared__ int place[128];
  float* row = scores + (size_t)blockIdx.x * vocabulary;
  for (int k = 0; k < beams; ++k) {
    float most = -INFINITY;
    int at = -1;
    for (int i = threadIdx.x; i < vocabulary; i += blockDim.x)
      if (row[i] > most) most = row[i], at = i;
    best[threadIdx.x] = most;
    place[threadIdx.x] = at;
    __syncthreads();
    for (int d = blockDim.x / 2; d > 0; d >>= 1) {
      if (threadIdx.x < d && best[threadIdx.x + d] > best[threadIdx.x]) {
        best[threadIdx.x] = best[threadIdx.x + d];
        place[threadIdx.x] = place[threadIdx.x + d];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      tokens[blockIdx.x * beams + k] = place[0];
      if (place[0] >= 0) row[place[0]] = -INFINITY;
    }
    __syncthreads();
  }
}

// Takes sorted probabilities until their sum is large enough.
extern "C" __global__ void nucleus(const float* sorted, int* kept, int rows, int vocabulary,
                                   float enough) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  int n = 0;
  while (n < vocabulary && sum < enough) sum += sorted[row * vocabulary + n++];
  kept[row] = n;
}

// The two best experts of a token.
extern "C" __global__ void route_two(const float* logits, int2* experts, float2* weights,
                                     int tokens, int count) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= tokens) return;
  float a = -INFINITY, b = -INFINITY;
  int i = -1, j = -1;
  for (int e = 0; e < count; ++e) {
    float x = logits[t * count + e];
    if (x > a) {
      b = a, j = i;
      a = x, i = e;
    } else if (x > b) {
      b = x, j = e;
    }
  }
  float share = 1.0f / (1.0f + __expf(b - a));
  experts[t] = make_int2(i, j);
  weights[t] = make_float2(share, 1.0f - share);
}

// Scores of tokens that were said already; how many, the sequence says.
extern "C" __global__ void repetition(float* logits, const int* said, const int* lengths,
                                      int vocabulary, int most, float penalty) {
  int length = lengths[blockIdx.x];
  if (length > most) length = most;
  for (int i = threadIdx.x; i < length; i += blockDim.x) {
    int token = said[blockIdx.x * most + i];
    if (token < 0 || token >= vocabulary) continue;
    float* at = logits + (size_t)blockIdx.x * vocabulary + token;
    *at = *at < 0.0f ? *at * penalty : *at / penalty;
  }
}

// A gated unit on pairs, started early by the kernel before.
extern "C" __global__ void gated_early(const half2* gate, const half2* up, half2* out, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cudaGridDependencySynchronize();
  if (i < pairs) {
    float2 g = __half22float2(gate[i]), u = __half22float2(up[i]);
    g.x = g.x / (1.0f + __expf(-g.x)) * u.x;
    g.y = g.y / (1.0f + __expf(-g.y)) * u.y;
    out[i] = __floats2half2_rn(g.x, g.y);
  }
  cudaTriggerProgrammaticLaunchCompletion();
}

// Loss and gradient of the logits of a row.
extern "C" __global__ void cross_entropy(float* logits, const int* targets, float* losses,
                                         int vocabulary, int padded, float scale) {
  __shared__ float shared[1024];
  float* row = logits + (size_t)blockIdx.x * padded;
  float top = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) top = fmaxf(top, row[i]);
  shared[threadIdx.x] = top;
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d /= 2) {
    if (threadIdx.x < d)
      shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + d]);
    __syncthreads();
  }
  top = shared[0];
  __syncthreads();
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) sum += __expf(row[i] - top);
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d /= 2) {
    if (threadIdx.x < d) shared[threadIdx.x] += shared[threadIdx.x + d];
    __syncthreads();
  }
  sum = shared[0];
  int target = targets[blockIdx.x];
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) - row[target] + top;
  __syncthreads();
  for (int i = threadIdx.x; i < padded; i += blockDim.x)
    row[i] = i < vocabulary ? (__expf(row[i] - top) / sum - (i == target)) * scale : 0.0f;
}
