// peer.cpp: the throughput cases of suite.py written by hand in C++ with OpenMP, for side-by-side ratios.
//
//   clang++ -O3 -march=native -ffast-math -fopenmp peer.cpp -o peer && ./peer 1.0
//
// Prints `name value` lines with the names of suite.py. Buffers are 2 MiB aligned and advised for huge pages, as those of Quadrants are.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sys/mman.h>
#include <vector>

namespace {

double measure(const std::function<void()> &work) {
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) {
    auto begin = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  seconds.erase(seconds.begin(), seconds.begin() + 2);
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

template <typename T> T *allocate(size_t count, T value) {
  size_t bytes = (count * sizeof(T) + (2u << 20) - 1) / (2u << 20) * (2u << 20);
  T *data = static_cast<T *>(std::aligned_alloc(2u << 20, bytes));
  madvise(data, bytes, MADV_HUGEPAGE);
  std::fill_n(data, count, value);
  return data;
}

} // namespace

int main(int argc, char **argv) {
  double scale = argc > 1 ? std::atof(argv[1]) : 1.0;
  const int64_t n = int64_t(32 * (1 << 20) * scale);
  float *x = allocate<float>(n, 0.5f), *y = allocate<float>(n, 0.25f);
  auto report = [](const char *name, double value) { std::printf("%s %.6g\n", name, value); };

  report("gbps.copy_field", 8e-9 * n / measure([&] {
#pragma omp parallel for
                              for (int64_t i = 0; i < n; ++i) y[i] = x[i];
                            }));
  report("gbps.saxpy_field", 12e-9 * n / measure([&] {
#pragma omp parallel for
                               for (int64_t i = 0; i < n; ++i) y[i] = 1.5f * x[i] + y[i];
                             }));
  volatile float sink = 0;
  report("gbps.reduce_field", 4e-9 * n / measure([&] {
                                float sum = 0;
#pragma omp parallel for reduction(+ : sum)
                                for (int64_t i = 0; i < n; ++i) sum += x[i];
                                sink = sum;
                              }));
  report("gelem.transcendental", 1e-9 * n / measure([&] {
#pragma omp parallel for
                                   for (int64_t i = 0; i < n; ++i) y[i] = std::sin(x[i]) * std::exp(-x[i]);
                                 }));

  const int64_t m = int64_t(4096 * std::sqrt(scale)) / 16 * 16;
  float *u = allocate<float>(m * m, 1.0f), *w = allocate<float>(m * m, 0.0f);
  report("gbps.stencil", 8e-9 * m * m / measure([&] {
#pragma omp parallel for
                           for (int64_t i = 1; i < m - 1; ++i)
                             for (int64_t j = 1; j < m - 1; ++j)
                               w[i * m + j] = 0.25f * (u[(i - 1) * m + j] + u[(i + 1) * m + j] + u[i * m + j - 1] + u[i * m + j + 1]);
                         }));

  const int64_t bodies = int64_t(8192 * std::sqrt(scale));
  float *position = allocate<float>(bodies * 3, 0), *velocity = allocate<float>(bodies * 3, 0);
  for (int64_t i = 0; i < bodies * 3; ++i) position[i] = float(std::rand()) / float(RAND_MAX);
  report("ginter.nbody", 1e-9 * bodies * bodies / measure([&] {
#pragma omp parallel for
                           for (int64_t i = 0; i < bodies; ++i) {
                             float ax = 0, ay = 0, az = 0;
                             for (int64_t j = 0; j < bodies; ++j) {
                               float dx = position[3 * j] - position[3 * i], dy = position[3 * j + 1] - position[3 * i + 1];
                               float dz = position[3 * j + 2] - position[3 * i + 2];
                               float inverse = 1.0f / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-4f);
                               float weight = inverse * inverse * inverse;
                               ax += dx * weight, ay += dy * weight, az += dz * weight;
                             }
                             velocity[3 * i] += ax * 1e-3f, velocity[3 * i + 1] += ay * 1e-3f, velocity[3 * i + 2] += az * 1e-3f;
                           }
                         }));

  const int64_t keys = n / 4;
  int32_t *key = allocate<int32_t>(keys, 0), *histogram = allocate<int32_t>(256, 0);
  for (int64_t i = 0; i < keys; ++i) key[i] = std::rand() & 255;
  report("gelem.histogram", 1e-9 * keys / measure([&] {
#pragma omp parallel for reduction(+ : histogram[ : 256])
                              for (int64_t i = 0; i < keys; ++i) ++histogram[key[i]];
                            }));
  return sink == 12345.0f;
}
