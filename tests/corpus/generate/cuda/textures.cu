// Texture and surface objects: fetches of every dimension, gathers, levels, gradients, layers.

extern "C" __global__ void fetches(cudaTextureObject_t line, cudaTextureObject_t plane,
                                   cudaTextureObject_t volume, cudaTextureObject_t cube, float4* out) {
  const float x = threadIdx.x / 64.0f, y = blockIdx.x / 64.0f, z = x * y;
  float4 sum = tex1D<float4>(line, x);
  const float4 a = tex2D<float4>(plane, x, y), b = tex3D<float4>(volume, x, y, z);
  const float4 c = texCubemap<float4>(cube, x, y, z);
  const float d = tex2DLod<float>(plane, x, y, 1.5f) + tex1Dfetch<float>(line, threadIdx.x);
  const float2 dx = make_float2(0.01f, 0.0f), dy = make_float2(0.0f, 0.01f);
  const float4 e = tex2DGrad<float4>(plane, x, y, dx, dy);
  const float4 f = tex3DLod<float4>(volume, x, y, z, 2.0f);
  sum.x += a.x + b.y + c.z + d + e.w + f.x;
  sum.y += a.y * b.x - c.w;
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void layers(cudaTextureObject_t lines, cudaTextureObject_t planes,
                                  cudaTextureObject_t cubes, int layer, int4* out) {
  const float x = threadIdx.x / 64.0f, y = blockIdx.x / 64.0f;
  const int4 a = tex1DLayered<int4>(lines, x, layer), b = tex2DLayered<int4>(planes, x, y, layer);
  const uint4 c = texCubemapLayered<uint4>(cubes, x, y, 0.5f, layer);
  const uchar4 d = tex2DLayeredLod<uchar4>(planes, x, y, layer, 1.0f);
  out[threadIdx.x] = make_int4(a.x + b.x, a.y - b.y, (int)c.z, (int)d.w);
}

extern "C" __global__ void gathers(cudaTextureObject_t plane, float4* out) {
  const float x = threadIdx.x / 64.0f, y = blockIdx.x / 64.0f;
  const float4 r = tex2Dgather<float4>(plane, x, y, 0), g = tex2Dgather<float4>(plane, x, y, 1);
  const float4 b = tex2Dgather<float4>(plane, x, y, 2), a = tex2Dgather<float4>(plane, x, y, 3);
  out[threadIdx.x] = make_float4(r.x + g.y, b.z, a.w, r.w);
}

extern "C" __global__ void surfaces(cudaSurfaceObject_t line, cudaSurfaceObject_t plane,
                                    cudaSurfaceObject_t volume, cudaSurfaceObject_t layered) {
  const int x = threadIdx.x, y = blockIdx.x;
  const float v = surf2Dread<float>(plane, x * 4, y);
  const float2 w = surf1Dread<float2>(line, x * 8, cudaBoundaryModeClamp);
  const uchar4 p = surf3Dread<uchar4>(volume, x * 4, y, 3, cudaBoundaryModeZero);
  surf2Dwrite<float>(v + w.x, plane, x * 4, y);
  surf1Dwrite<float2>(make_float2(w.y, v), line, x * 8);
  surf3Dwrite<uchar4>(make_uchar4(p.w, p.x, p.y, p.z), volume, x * 4, y, 3);
  surf2DLayeredwrite<short2>(make_short2((short)x, (short)y), layered, x * 4, y, 1);
}

extern "C" __global__ void queries(cudaTextureObject_t texture, cudaSurfaceObject_t surface, int* out) {
  asm("txq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(texture));
  asm("txq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(texture));
  asm("txq.num_mipmap_levels.b32 %0, [%1];" : "=r"(out[2]) : "l"(texture));
  asm("suq.width.b32 %0, [%1];" : "=r"(out[3]) : "l"(surface));
  asm("suq.channel_order.b32 %0, [%1];" : "=r"(out[4]) : "l"(surface));
  asm volatile("sured.b.add.2d.u32.trap [%0, {%1, %2}], %3;" ::"l"(surface), "r"(out[5]), "r"(out[6]), "r"(1));
  asm volatile("sust.p.2d.v4.b32.trap [%0, {%1, %2}], {%3, %4, %3, %4};" ::"l"(surface), "r"(out[5]),
               "r"(out[6]), "r"(out[7]), "r"(out[8]));
}
