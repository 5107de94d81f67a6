// Instantiates the device algorithms of Thrust and CUB for several types, for their kernels' PTX.
#include <thrust/device_vector.h>
#include <thrust/inner_product.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#ifndef TYPE
#define TYPE float
#endif
#ifndef PART
#define PART 0
#endif

using Vector = thrust::device_vector<TYPE>;

struct Positive {
  __host__ __device__ bool operator()(TYPE x) const { return x > TYPE(0); }
};
struct Square {
  __host__ __device__ TYPE operator()(TYPE x) const { return x * x + TYPE(1); }
};

TYPE use(Vector& a, Vector& b, thrust::device_vector<int>& keys) {
  Vector c(a.size() + b.size());
#if PART == 0
  thrust::sort(a.begin(), a.end());
  thrust::stable_sort_by_key(a.begin(), a.end(), keys.begin());
  thrust::sort(b.begin(), b.end(), thrust::greater<TYPE>());
  return a[0];
#elif PART == 1
  thrust::inclusive_scan(a.begin(), a.end(), c.begin());
  thrust::exclusive_scan_by_key(keys.begin(), keys.end(), a.begin(), c.begin());
  thrust::transform(a.begin(), a.end(), c.begin(), Square());
  thrust::unique(a.begin(), a.end());
  thrust::partition(b.begin(), b.end(), Positive());
  return thrust::reduce(a.begin(), a.end()) + thrust::inner_product(a.begin(), a.end(), b.begin(), TYPE(0));
#else
  thrust::merge(a.begin(), a.end(), b.begin(), b.end(), c.begin());
  thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), c.begin());
  thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), c.begin());
  thrust::reduce_by_key(keys.begin(), keys.end(), a.begin(), keys.begin(), c.begin());
  return *thrust::max_element(a.begin(), a.end());
#endif
}
