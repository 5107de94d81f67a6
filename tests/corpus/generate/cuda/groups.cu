// Cooperative groups: tiles, coalesced groups, partitions, a grid-wide barrier.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int* in, int* out) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  int v = in[block.thread_rank()];
  for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
  v += cg::reduce(tile, v, cg::plus<int>());
  v += cg::inclusive_scan(tile, v);
  if (tile.any(v > 3)) v = tile.ballot(v & 1);
  if (v % 3 == 0) {
    const auto some = cg::coalesced_threads();
    v += some.shfl(v, 0) + some.size();
    if (some.thread_rank() == 0) atomicAdd(out, (int)some.size());
  }
  out[block.thread_rank()] = v;
}

extern "C" __global__ void grid_barrier(float* a, float* b, int rounds) {
  const auto grid = cg::this_grid();
  for (int r = 0; r < rounds; ++r) {
    for (unsigned long long i = grid.thread_rank(); i < 4096; i += grid.size()) b[i] = a[4095 - i] * 0.5f;
    grid.sync();
    float* swap = a; a = b; b = swap;
  }
}
