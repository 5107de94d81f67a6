// Searches, merges and digits: loops that data end, and that fall towards an end all the same.

extern "C" {

__global__ void upper_bound_unsigned(const unsigned* keys, unsigned n, const unsigned* q, unsigned* out, unsigned m) {
  unsigned t = blockIdx.x*blockDim.x+threadIdx.x;
  if (t >= m) return;
  unsigned lo = 0, hi = n, x = q[t];
  while (lo < hi) { unsigned mid = lo + (hi-lo)/2; if (keys[mid] <= x) lo = mid+1; else hi = mid; }
  out[t] = lo;
}

__global__ void lower_bound_length(const int* keys, int n, const int* q, int* out, int m) {
  int t = blockIdx.x*blockDim.x+threadIdx.x;
  if (t >= m) return;
  int first = 0, len = n, x = q[t];
  while (len > 0) { int half = len >> 1; int mid = first+half; if (keys[mid] < x) { first = mid+1; len = len-half-1; } else len = half; }
  out[t] = first;
}

__global__ void find_exact(const int* keys, int n, const int* q, int* out, int m) {
  int t = blockIdx.x*blockDim.x+threadIdx.x;
  if (t >= m) return;
  int lo = 0, hi = n-1, x = q[t], r = -1;
  while (lo <= hi) { int mid = (lo+hi)/2; int v = keys[mid]; if (v == x) { r = mid; break; } if (v < x) lo = mid+1; else hi = mid-1; }
  out[t] = r;
}

__global__ void ternary_peak(const float* f, int n, int* out) {
  int base = (blockIdx.x*blockDim.x+threadIdx.x)*n;
  int lo = 0, hi = n-1;
  while (hi - lo > 2) { int a = lo+(hi-lo)/3, b = hi-(hi-lo)/3; if (f[base+a] < f[base+b]) lo = a+1; else hi = b-1; }
  out[blockIdx.x*blockDim.x+threadIdx.x] = lo;
}

__global__ void intersect(const int* a, int na, const int* b, int nb, int* out) {
  int t = blockIdx.x*blockDim.x+threadIdx.x;
  const int* pa = a + t*na; const int* pb = b + t*nb;
  int i = 0, j = 0, c = 0;
  while (i < na && j < nb) { if (pa[i] == pb[j]) { c++; i++; j++; } else if (pa[i] < pb[j]) i++; else j++; }
  out[t] = c;
}

__global__ void merge_while(const int* a, const int* b, int* o, int n) {
  int t = blockIdx.x*blockDim.x+threadIdx.x;
  int i = t*n, j = t*n, k = 2*t*n, e = t*n+n;
  while (i < e && j < e) o[k++] = a[i] <= b[j] ? a[i++] : b[j++];
  while (i < e) o[k++] = a[i++];
  while (j < e) o[k++] = b[j++];
}

__global__ void count_digits(const unsigned* x, int* r, int n) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= n) return;
  unsigned v = x[t]; int c = 0;
  do { v /= 10; c++; } while (v);
  r[t] = c;
}

__global__ void gcd_rows(const int* a, const int* b, int* g, int n) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= n) return;
  int x = a[t], y = b[t];
  while (y != 0) { int r = x % y; x = y; y = r; }
  g[t] = x;
}

__global__ void fenwick_sum(const int* tree, const int* q, int* r, int n, int m) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= m) return;
  int i = min(max(q[t],0), n), s = 0;
  while (i > 0) { s += tree[i]; i -= i & -i; }
  r[t] = s;
}

__global__ void fenwick_add(int* tree, const int* q, int n, int m) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= m) return;
  int i = min(max(q[t],1), n);
  while (i <= n) { atomicAdd(&tree[i], 1); i += i & -i; }
}

__global__ void clamped_neighbours(const int* count, const int* list, const float* x, float* y, int n, int most) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= n) return;
  int c = min(count[t], most);
  float s = 0;
  for (int j = 0; j < c; j++) s += x[list[t*most+j]];
  y[t] = s;
}

__global__ void quantiles(const float* cdf, const float* q, int* out, int n, int m) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= m) return;
  int l = -1, r = n; 
  while (r - l > 1) { int mid = l + ((r - l) >> 1); if (cdf[mid] <= q[t]) l = mid; else r = mid; }
  out[t] = r;
}

__global__ void kd_descend(const float* split, const float* q, int* leaf, int n, int nodes) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= n) return;
  int k = 0; float x = q[t];
  while (k < nodes) k = 2*k + 1 + (x > split[k]);
  leaf[t] = k;
}

__global__ void integer_root(const int* x, int* out, int n) {
  int t = blockIdx.x*blockDim.x+threadIdx.x; if (t >= n) return;
  int v = min(max(x[t], 0), 65535), lo = 0, hi = 256;
  while (lo + 1 < hi) { int m = (lo + hi) / 2; if (m * m <= v) lo = m; else hi = m; }
  out[t] = lo;
}

}
