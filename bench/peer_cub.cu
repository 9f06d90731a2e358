// Times of CUB's algorithms on one GPU, for bench/algorithms.py: `algorithm.type.log2(elements) seconds`, medians of whole calls.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cub/cub.cuh>
#include <functional>
#include <vector>

template <class T> T *allocate(size_t count) {
  void *memory;
  cudaMalloc(&memory, count * sizeof(T) + 16);
  return static_cast<T *>(memory);
}

/// Fills memory with numbers without a pattern.
template <class T> __global__ void fill(T *out, int count, int runs) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    uint64_t x = (runs ? i / runs : i) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
    out[i] = T(int64_t(x ^ (x >> 29)));
  }
}

struct KeepLowestBit {
  __device__ void operator()(int &flag) const { flag &= 1; }
};

using Call = std::function<void(void *, size_t &)>;

void measure(const char *name, const char *type, int size, const Call &call, const std::function<void()> &restore = {}) {
  size_t bytes = 0;
  call(nullptr, bytes);
  void *room = allocate<char>(bytes);
  std::vector<double> times;
  for (int round = 0; round < (size > 22 ? 12 : 100); ++round) {
    if (restore) restore();
    cudaDeviceSynchronize();
    auto begin = std::chrono::steady_clock::now();
    call(room, bytes);
    cudaDeviceSynchronize();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  printf("%s.%s.%d %.4g\n", name, type, size, times[times.size() / 2]);
  cudaFree(room);
}

template <class T> void run(const char *type, int size) {
  int n = 1 << size;
  T *in = allocate<T>(n), *out = allocate<T>(n);
  int *flags = allocate<int>(n), *keys = allocate<int>(n), *keysOut = allocate<int>(n), *count = allocate<int>(1);
  fill<<<1024, 256>>>(in, n, 0);
  fill<<<1024, 256>>>(flags, n, 0);
  cub::DeviceFor::ForEachN(flags, n, KeepLowestBit());
  fill<<<1024, 256>>>(keys, n, 4);
  measure("scan", type, size, [&](void *room, size_t &bytes) { cub::DeviceScan::ExclusiveSum(room, bytes, in, out, n); });
  measure("reduce", type, size, [&](void *room, size_t &bytes) { cub::DeviceReduce::Sum(room, bytes, in, out, n); });
  measure("select", type, size, [&](void *room, size_t &bytes) { cub::DeviceSelect::Flagged(room, bytes, in, flags, out, count, n); });
  measure("by_key", type, size, [&](void *room, size_t &bytes) {
    cub::DeviceReduce::ReduceByKey(room, bytes, keys, keysOut, in, out, count, ::cuda::std::plus<>{}, n);
  });
  measure("sort", type, size, [&](void *room, size_t &bytes) { cub::DeviceRadixSort::SortKeys(room, bytes, in, out, n); });
  measure("sort_pairs", type, size,
          [&](void *room, size_t &bytes) { cub::DeviceRadixSort::SortPairs(room, bytes, in, out, keys, keysOut, n); });
  for (void *memory : {(void *)in, (void *)out, (void *)flags, (void *)keys, (void *)keysOut, (void *)count}) cudaFree(memory);
}

int main() {
  for (int size : {10, 16, 20, 26}) {
    run<int>("i32", size);
    run<float>("f32", size);
    run<int64_t>("i64", size);
  }
}
