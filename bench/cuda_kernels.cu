// cuda_kernels.cu: the kernels of cuda_kernels.py in CUDA C, each written in the obvious way from the same text. cuda_kernels.py builds and
// loads them.
#define ENTRY extern "C" __global__ void

ENTRY chain(const float *__restrict__ x, float *__restrict__ y, float a, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  y[i] = 0;
#pragma unroll
  for (int k = 0; k < 256; ++k) y[i] = y[i] * a + x[i];
}

ENTRY multiply(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
  __shared__ float left[16][16], right[16][16];
  int row = threadIdx.y, column = threadIdx.x, i = blockIdx.y * 16 + row, j = blockIdx.x * 16 + column;
  float total = 0;
  for (int step = 0; step < n / 16; ++step) {
    left[row][column] = a[i * n + step * 16 + column];
    right[row][column] = b[(step * 16 + row) * n + j];
    __syncthreads();
    for (int k = 0; k < 16; ++k) total += left[row][k] * right[k][column];
    __syncthreads();
  }
  c[i * n + j] = total;
}

/// Tiles of 32x32 elements through shared memory; blocks of 32x8 threads.
ENTRY transpose_tiles(const float *__restrict__ a, float *__restrict__ b, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) tile[threadIdx.y + k][threadIdx.x] = a[size_t(y + k) * n + x];
  __syncthreads();
  x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8) b[size_t(y + k) * n + x] = tile[threadIdx.x][threadIdx.y + k];
}

ENTRY diffuse(const double *__restrict__ a, double *__restrict__ b, double c, int n) {
  int k = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, i = blockIdx.z;
  if (i < 1 || j < 1 || k < 1 || i >= n - 1 || j >= n - 1 || k >= n - 1) return;
  int at = (i * n + j) * n + k;
  double around = a[at - n * n] + a[at + n * n] + a[at - n] + a[at + n] + a[at - 1] + a[at + 1];
  b[at] = a[at] + c * (around - 6.0 * a[at]);
}

ENTRY normalize(const float *__restrict__ a, float *__restrict__ b, int rows, int columns) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  a += size_t(row) * columns, b += size_t(row) * columns;
  float largest = a[0], total = 0;
  for (int j = lane; j < columns; j += 32) largest = fmaxf(largest, a[j]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  for (int j = lane; j < columns; j += 32) total += b[j] = expf(a[j] - largest);
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
  for (int j = lane; j < columns; j += 32) b[j] /= total;
}

ENTRY escape_(const float *__restrict__ x, int *__restrict__ y, int limit, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float re = 0, im = 0;
  int steps = 0;
  while (re * re + im * im < 4.0f && steps < limit) {
    float next = re * re - im * im + x[i];
    im = 2.0f * re * im + 0.3f;
    re = next;
    ++steps;
  }
  y[i] = steps;
}

ENTRY scatter_add(const int *__restrict__ index, float *__restrict__ total, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) atomicAdd(&total[index[i]], 1.0f);
}

ENTRY double_positive(const float *__restrict__ x, float *__restrict__ y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && x[i] > 0) y[i] = 2 * x[i];
}

ENTRY exponential(const float *__restrict__ a, float *__restrict__ b, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) b[i] = expf(-a[i]);
}

ENTRY gather_read(const int *__restrict__ index, const float *__restrict__ x, float *__restrict__ y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[index[i]];
}

struct alignas(16) Matrix {
  float at[4][4];
};

ENTRY multiply_small(const Matrix *__restrict__ a, const Matrix *__restrict__ b, Matrix *__restrict__ c, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  Matrix left = a[i], right = b[i], product;
  for (int r = 0; r < 4; ++r)
    for (int s = 0; s < 4; ++s) {
      float sum = 0;
      for (int k = 0; k < 4; ++k) sum += left.at[r][k] * right.at[k][s];
      product.at[r][s] = sum;
    }
  c[i] = product;
}

ENTRY block_sums(const float *__restrict__ x, float *__restrict__ y) {
  __shared__ float part[256];
  int thread = threadIdx.x;
  part[thread] = x[blockIdx.x * 256 + thread];
  __syncthreads();
  for (int width = 128; width > 0; width /= 2) {
    if (thread < width) part[thread] += part[thread + width];
    __syncthreads();
  }
  if (thread == 0) y[blockIdx.x] = part[0];
}

ENTRY factorize(const float *__restrict__ a, float *__restrict__ factor, int n, int worlds) {
  int w = blockIdx.x * blockDim.x + threadIdx.x;
  if (w >= worlds) return;
  a += w * n * n, factor += w * n * n;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j <= i; ++j) {
      float total = a[i * n + j];
      for (int k = 0; k < j; ++k) total -= factor[i * n + k] * factor[j * n + k];
      factor[i * n + j] = i == j ? sqrtf(total) : total / factor[j * n + j];
    }
}

ENTRY relax(const float *__restrict__ f, float *__restrict__ g, float rate, int n) {
  constexpr float weights[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
  constexpr int steps[9][2] = {{0, 0}, {1, 0}, {0, 1}, {-1, 0}, {0, -1}, {1, 1}, {-1, 1}, {-1, -1}, {1, -1}};
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
  if (i < 1 || j < 1 || i >= n - 1 || j >= n - 1) return;
  float parts[9], density = 0, across = 0, along = 0;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    parts[k] = f[((i - steps[k][0]) * n + j - steps[k][1]) * 9 + k];
    density += parts[k], across += steps[k][0] * parts[k], along += steps[k][1] * parts[k];
  }
  across /= density, along /= density;
  float square = across * across + along * along;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    float product = steps[k][0] * across + steps[k][1] * along;
    float rest = weights[k] * density * (1 + 3 * product + 4.5f * product * product - 1.5f * square);
    g[(i * n + j) * 9 + k] = parts[k] + rate * (rest - parts[k]);
  }
}

ENTRY sample(int *grid, float2 *points, int n, int wanted) {
  int filled = 1, first = 0;
  unsigned state = 12345;
  float radius = 1.4142135f / n;
  points[0] = {0.5f, 0.5f};
  grid[n / 2 * n + n / 2] = 0;
  while (first < filled && first < wanted) {
    float2 center = points[first++];
    for (int trial = 0; trial < 40; ++trial) {
      state = state * 1664525u + 1013904223u;
      float angle = float(state >> 8) * (6.2831853f / 16777216.0f);
      state = state * 1664525u + 1013904223u;
      float far = (1.0f + float(state >> 8) / 16777216.0f) * radius;
      float2 at = {center.x + cosf(angle) * far, center.y + sinf(angle) * far};
      int x = int(floorf(at.x * n)), y = int(floorf(at.y * n));
      if (x < 0 || x >= n || y < 0 || y >= n) continue;
      bool isFree = true;
      for (int i = max(0, x - 2); i < min(n, x + 3); ++i)
        for (int j = max(0, y - 2); j < min(n, y + 3); ++j)
          if (grid[i * n + j] != -1) {
            float2 other = points[grid[i * n + j]];
            float dx = other.x - at.x, dy = other.y - at.y;
            if (sqrtf(dx * dx + dy * dy) < radius - 1e-6f) isFree = false;
          }
      if (isFree && filled < wanted) points[filled] = at, grid[x * n + y] = filled++;
    }
  }
}
