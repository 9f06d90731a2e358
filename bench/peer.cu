// peer.cu: the n-body and stencil cases of suite.py in CUDA C, the first written in the obvious way, the second with several rows for each
// thread. Prints "name value" lines: G interactions/s and GB/s (8 bytes per point). device.py builds and runs it.
#include <algorithm>
#include <cstdio>
#include <vector>

__global__ void fill(float *x, size_t count) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) x[i] = float(i * 2654435761u % 1000) * 1e-3f;
}

__global__ void attract(const float3 *__restrict__ position, float3 *velocity, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float3 own = position[i], sum = {0, 0, 0};
  for (int j = 0; j < count; ++j) {
    float3 other = position[j];
    float x = other.x - own.x, y = other.y - own.y, z = other.z - own.z;
    float inverse = 1.0f / sqrtf(x * x + y * y + z * z + 1e-4f), weight = inverse * inverse * inverse;
    sum.x += x * weight, sum.y += y * weight, sum.z += z * weight;
  }
  velocity[i].x += sum.x * 1e-3f, velocity[i].y += sum.y * 1e-3f, velocity[i].z += sum.z * 1e-3f;
}

template <int rows> __global__ void average(const float *__restrict__ u, float *w, int side) {
  int inner = side - 2, flat = blockIdx.x * blockDim.x + threadIdx.x, i = flat / inner * rows + 1, j = flat % inner + 1;
#pragma unroll
  for (int k = 0; k < rows; ++k) {
    if (i + k >= side - 1) return;
    const float *at = u + size_t(i + k) * side + j;
    w[at - u] = 0.25f * (at[-side] + at[side] + at[-1] + at[1]);
  }
}

/// Loads and stores four columns of each row by one access; the sides of the array are not updated.
template <int rows> __global__ void averageQuads(const float *__restrict__ u, float *w, int side) {
  int quads = side / 4, flat = blockIdx.x * blockDim.x + threadIdx.x, i = flat / quads * rows + 1, j = flat % quads * 4;
  if (j == 0 || j + 4 == side) return;
  const float *at = u + size_t(i) * side + j;
  float4 row[rows + 2];
#pragma unroll
  for (int k = 0; k < rows + 2; ++k)
    if (i + k - 1 < side) row[k] = *reinterpret_cast<const float4 *>(at + (k - 1) * int64_t(side));
#pragma unroll
  for (int k = 0; k < rows; ++k) {
    if (i + k >= side - 1) return;
    float4 above = row[k], own = row[k + 1], below = row[k + 2];
    float left = at[k * int64_t(side) - 1], right = at[k * int64_t(side) + 4];
    float4 out = {above.x + below.x + left + own.y, above.y + below.y + own.x + own.z, above.z + below.z + own.y + own.w,
                  above.w + below.w + own.z + right};
    out = {0.25f * out.x, 0.25f * out.y, 0.25f * out.z, 0.25f * out.w};
    *reinterpret_cast<float4 *>(w + (at - u) + k * int64_t(side)) = out;
  }
}

/// Median milliseconds of a launch.
template <typename Launch> float measure(Launch launch) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  std::vector<float> times;
  for (int repeat = 0; repeat < 9; ++repeat) {
    float time = 0;
    cudaEventRecord(begin), launch(), cudaEventRecord(end), cudaEventSynchronize(end);
    cudaEventElapsedTime(&time, begin, end);
    times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  return times[4];
}

template <int rows> void measureRows(const float *u, float *w, int side) {
  long long threads = (long long)((side - 2 + rows - 1) / rows) * (side - 2);
  float time = measure([&] { average<rows><<<unsigned((threads + 255) / 256), 256>>>(u, w, side); });
  printf("gbps.stencil_%d_rows_of_%d %.1f\n", rows, side, 8e-6 * side * side / time);
}

template <int rows> void measureQuads(const float *u, float *w, int side) {
  long long threads = (long long)((side - 2 + rows - 1) / rows) * (side / 4);
  float time = measure([&] { averageQuads<rows><<<unsigned((threads + 127) / 128), 128>>>(u, w, side); });
  printf("gbps.stencil_%d_rows_and_4_columns_of_%d %.1f\n", rows, side, 8e-6 * side * side / time);
}

int main() {
  const int side = 16384;
  const size_t count = size_t(side) * side;
  float *u = nullptr, *w = nullptr;
  cudaMalloc(&u, 4 * count), cudaMalloc(&w, 4 * count);
  fill<<<unsigned((count + 255) / 256), 256>>>(u, count);
  for (int bodies : {8192, 32768, 65536}) {
    cudaMemset(w, 0, 12 * size_t(bodies));
    auto *position = reinterpret_cast<float3 *>(u), *velocity = reinterpret_cast<float3 *>(w);
    float time = measure([&] { attract<<<(bodies + 127) / 128, 128>>>(position, velocity, bodies); });
    printf("ginter.nbody_of_%d %.1f\n", bodies, 1e-6 * bodies * bodies / time);
  }
  measureRows<1>(u, w, side), measureRows<4>(u, w, side), measureRows<8>(u, w, side);
  measureQuads<4>(u, w, side), measureQuads<8>(u, w, side);
  return cudaDeviceSynchronize();
}
