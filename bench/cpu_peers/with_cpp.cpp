// with_cpp.cpp: the works in C++ with OpenMP. with_cpp.py compiles it to a library and calls it.
#include <cmath>
#include <cstdint>

namespace {

constexpr int kMandelbrotRounds = MANDELBROT_ROUNDS, kWalkEnd = WALK_END;
constexpr float kKeplerTolerance = KEPLER_TOLERANCE;

template <class T> void mapNumbers(int64_t n, T *y, const T *x) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = std::exp(-x[i]) + std::log(x[i]);
}

template <class T> void attract(int64_t n, T *acceleration, const T *x, const T *y, const T *z) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    T ax = 0, ay = 0, az = 0;
    for (int64_t j = 0; j < n; ++j) {
      T dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      T inverse = 1 / std::sqrt(dx * dx + dy * dy + dz * dz + T(1e-4)), weight = inverse * inverse * inverse;
      ax += dx * weight, ay += dy * weight, az += dz * weight;
    }
    acceleration[i] = ax, acceleration[n + i] = ay, acceleration[2 * n + i] = az;
  }
}

template <class T> void countCollatz(int64_t n, int32_t *steps, const T *start) {
#pragma omp parallel for schedule(dynamic, 1024)
  for (int64_t i = 0; i < n; ++i) {
    T x = start[i];
    int32_t count = 0;
    for (; x > 1; ++count) x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    steps[i] = count;
  }
}

template <class T> void countMandelbrot(int64_t n, int32_t *rounds, const T *a, const T *b) {
#pragma omp parallel for schedule(dynamic, 1024)
  for (int64_t i = 0; i < n; ++i) {
    T x = a[i], y = b[i];
    int32_t count = 0;
    for (; x * x + y * y < 4 && count < kMandelbrotRounds; ++count) {
      T next = x * x - y * y + a[i];
      y = 2 * x * y + b[i];
      x = next;
    }
    rounds[i] = count;
  }
}

template <class T> void gather(int64_t n, T *y, const T *table, const int32_t *index) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = table[index[i]];
}

} // namespace

extern "C" {

void map_f32(int64_t n, float *y, const float *x) { mapNumbers(n, y, x); }
void map_f64(int64_t n, double *y, const double *x) { mapNumbers(n, y, x); }
void nbody_f32(int64_t n, float *to, const float *x, const float *y, const float *z) { attract(n, to, x, y, z); }
void nbody_f64(int64_t n, double *to, const double *x, const double *y, const double *z) { attract(n, to, x, y, z); }
void collatz_u32(int64_t n, int32_t *steps, const uint32_t *start) { countCollatz(n, steps, start); }
void collatz_i64(int64_t n, int32_t *steps, const int64_t *start) { countCollatz(n, steps, start); }
void mandelbrot_f32(int64_t n, int32_t *rounds, const float *a, const float *b) { countMandelbrot(n, rounds, a, b); }
void mandelbrot_f64(int64_t n, int32_t *rounds, const double *a, const double *b) { countMandelbrot(n, rounds, a, b); }
void gather_f32(int64_t n, float *y, const float *table, const int32_t *index) { gather(n, y, table, index); }
void gather_f64(int64_t n, double *y, const double *table, const int32_t *index) { gather(n, y, table, index); }
void gather_far_f32(int64_t n, float *y, const float *table, const int32_t *index) { gather(n, y, table, index); }

void softplus_f32(int64_t n, float *y, const float *x) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = std::log(1 + std::exp(x[i])) * std::exp(-0.5f * x[i]);
}

void kepler_f32(int64_t n, float *result, const float *anomaly, const float *eccentricity) {
#pragma omp parallel for schedule(dynamic, 1024)
  for (int64_t i = 0; i < n; ++i) {
    float angle = anomaly[i], change = 1;
    for (int round = 0; std::fabs(change) > kKeplerTolerance && round < 50; ++round) {
      change = (angle - eccentricity[i] * std::sin(angle) - anomaly[i]) / (1 - eccentricity[i] * std::cos(angle));
      angle -= change;
    }
    result[i] = angle;
  }
}

void search_f32(int64_t n, int32_t *found, const float *numbers, const float *key, int64_t count) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    int32_t low = 0, high = int32_t(count);
    while (low < high) {
      int32_t middle = (low + high) / 2;
      if (numbers[middle] < key[i])
        low = middle + 1;
      else
        high = middle;
    }
    found[i] = low;
  }
}

void walk_i32(int64_t n, int32_t *steps, const int32_t *next, const int32_t *first) {
#pragma omp parallel for schedule(dynamic, 1024)
  for (int64_t i = 0; i < n; ++i) {
    int32_t x = first[i], count = 0;
    for (; x >= kWalkEnd; ++count) x = next[x];
    steps[i] = count;
  }
}

void interpolate_f32(int64_t n, float *y, const float *curve, const float *at, int64_t count) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    float x = at[i] * float(count - 1);
    auto k = int32_t(x);
    y[i] = curve[k] + (x - float(k)) * (curve[k + 1] - curve[k]);
  }
}

void stencil_f32(int64_t n, float *y, const float *x) {
#pragma omp parallel for
  for (int64_t i = 1; i < n - 1; ++i)
    for (int64_t j = 1; j < n - 1; ++j)
      for (int64_t k = 1; k < n - 1; ++k) {
        const float *at = x + (i * n + j) * n + k;
        y[(i * n + j) * n + k] = at[-n * n] + at[n * n] + at[-n] + at[n] + at[-1] + at[1];
      }
}

void filter_f32(int64_t n, float *y, const float *x, const float *weights) {
#pragma omp parallel for
  for (int64_t i = 0; i < n - 4; ++i)
    for (int64_t j = 0; j < n - 4; ++j) {
      float total = 0;
      for (int k = 0; k < 5; ++k)
        for (int l = 0; l < 5; ++l) total += x[(i + k) * n + j + l] * weights[5 * k + l];
      y[i * n + j] = total;
    }
}

void product_f32(int64_t n, float *c, const float *a, const float *b) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = 0;
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  }
}

void softmax_f32(int64_t n, float *y, const float *x, int64_t stride) {
#pragma omp parallel for
  for (int64_t i = 0; i < 2048; ++i) {
    float most = x[i * stride], total = 0;
    for (int64_t j = 0; j < n; ++j) most = std::fmax(most, x[i * stride + j]);
    for (int64_t j = 0; j < n; ++j) total += y[i * n + j] = std::exp(x[i * stride + j] - most);
    for (int64_t j = 0; j < n; ++j) y[i * n + j] /= total;
  }
}

void row_sums_f64(int64_t n, double *y, const double *x, int64_t columns) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {
    double total = 0;
    for (int64_t j = 0; j < columns; ++j) total += x[i * columns + j];
    y[i] = total;
  }
}

void running_f32(int64_t n, float *y, const float *x, int64_t rows) {
#pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    float total = 0;
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = total += x[i * n + j];
  }
}

void lengths_f32(int64_t n, float *y, const float *x) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) y[i] = std::sqrt(x[3 * i] * x[3 * i] + x[3 * i + 1] * x[3 * i + 1] + x[3 * i + 2] * x[3 * i + 2]);
}

void bins_f32(int64_t n, float *y, const float *x, const int32_t *index, int64_t count) {
  for (int64_t i = 0; i < n; ++i) y[i] = 0;
#pragma omp parallel for reduction(+ : y[ : n])
  for (int64_t i = 0; i < count; ++i) y[index[i]] += x[i];
}

void pairs_f32(int64_t n, float *y, const float *x) {
#pragma omp parallel for
  for (int64_t j = 0; j < n; ++j) {
    float total = 0;
    for (int64_t i = 0; i < n; ++i) {
      float d = x[i] - x[j];
      total += 1 / (1 + d * d);
    }
    y[j] = total;
  }
}

} // extern "C"
