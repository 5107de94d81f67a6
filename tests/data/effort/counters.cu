// Narrow counters: the path of a loop is looked for among 256 or 65,536 numbers.

// The counter is a byte and its limit is not known: with 255 it goes round for ever.
extern "C" __global__ void byte_counter(int* out, const int* limits) {
  unsigned char n = limits[threadIdx.x];
  int sum = 0;
  for (unsigned char i = 0; i <= n; i++) sum += out[i];
  out[threadIdx.x] = sum;
}

extern "C" __global__ void byte_limit(int* out, unsigned char n) {
  int sum = 0;
  for (unsigned char i = 0; i < n; i += 3) {
    if (out[i] > 4) sum += i;
  }
  out[threadIdx.x] = sum;
}

// A counter of 16 bits beside what data decide.
extern "C" __global__ void short_beside_data(int* out, const int* data, short n) {
  int found = 0;
  for (short i = 0; i < n; i++) {
    int value = data[i];
    if (value < 0) break;
    if (value & 1) found += i;
    while (value > 3) value >>= 1, found++;
  }
  out[threadIdx.x] = found;
}

extern "C" __global__ void short_until_data(int* out, const int* data) {
  unsigned short i = threadIdx.x;
  int last = 0;
  while (data[i] != last) {
    last = data[i];
    i += last & 1 ? 3 : 5;
  }
  out[threadIdx.x] = i;
}
