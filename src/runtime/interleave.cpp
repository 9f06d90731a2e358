// interleave.cpp: transposes elements and component arrays in registers
//
// In:   elements, or one array per component.
// Out:  the other of the two. Four elements of up to four components are transposed at a time. Further components are handled in groups of
// four; the last group may overlap the one before it and copy some components twice.
#include "runtime/interleave.h"

#include "runtime/copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace qd::runtime {

/// Bytes that are transposed before the next part begins: they fit into the first-level cache.
static constexpr int64_t kTileBytes = 16 << 10;

namespace {

template <typename T> struct Four {
  typedef T Vector __attribute__((vector_size(4 * sizeof(T))));

  static Vector load(const T *from) {
    Vector loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
  }
  static void store(T *to, Vector stored) { memcpy(to, &stored, sizeof stored); }
  static void transpose(Vector (&v)[4]) {
    Vector a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    Vector c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5), d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5), v[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    v[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5), v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
  }
};

/// Copies `taken` of the `all` components of each element, from arrays that begin `apart` numbers from each other.
template <typename T, int taken> void interleaveSome(T *to, const T *from, int64_t all, int64_t apart, int64_t count) {
  using F = Four<T>;
  typename F::Vector v[4];
  int64_t i = 0;
  for (; i + 4 <= count; i += 4, to += 4 * all, from += 4) {
    for (int k = 0; k < taken; ++k) v[k] = F::load(from + k * apart);
    if constexpr (taken == 2) {
      F::store(to, __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5));
      F::store(to + 4, __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7));
    } else if constexpr (taken == 3) {
      auto low = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5), high = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
      F::store(to, __builtin_shufflevector(low, v[2], 0, 1, 4, 2));
      auto middle = __builtin_shufflevector(low, v[2], 3, 5, 3, 5);
      F::store(to + 4, __builtin_shufflevector(middle, high, 0, 1, 4, 5));
      F::store(to + 8, __builtin_shufflevector(high, v[2], 6, 2, 3, 7));
    } else {
      F::transpose(v);
      for (int k = 0; k < 4; ++k) F::store(to + k * all, v[k]);
    }
  }
  for (; i < count; ++i, to += all, ++from)
    for (int k = 0; k < taken; ++k) to[k] = from[k * apart];
}

template <typename T, int taken> void deinterleaveSome(T *to, const T *from, int64_t all, int64_t apart, int64_t count) {
  using F = Four<T>;
  typename F::Vector v[4];
  int64_t i = 0;
  for (; i + 4 <= count; i += 4, from += 4 * all, to += 4) {
    if constexpr (taken == 2) {
      v[2] = F::load(from), v[3] = F::load(from + 4);
      v[0] = __builtin_shufflevector(v[2], v[3], 0, 2, 4, 6), v[1] = __builtin_shufflevector(v[2], v[3], 1, 3, 5, 7);
    } else if constexpr (taken == 3) {
      auto a = F::load(from), b = F::load(from + 4), c = F::load(from + 8);
      auto low = __builtin_shufflevector(a, b, 0, 3, 6, 6), high = __builtin_shufflevector(b, c, 3, 6, 3, 6);
      v[0] = __builtin_shufflevector(low, c, 0, 1, 2, 5);
      v[1] = __builtin_shufflevector(__builtin_shufflevector(a, b, 1, 4, 1, 4), high, 0, 1, 4, 5);
      v[2] = __builtin_shufflevector(__builtin_shufflevector(a, b, 2, 5, 2, 5), c, 0, 1, 4, 7);
    } else {
      for (int k = 0; k < 4; ++k) v[k] = F::load(from + k * all);
      F::transpose(v);
    }
    for (int k = 0; k < taken; ++k) F::store(to + k * apart, v[k]);
  }
  for (; i < count; ++i, from += all, ++to)
    for (int k = 0; k < taken; ++k) to[k * apart] = from[k];
}

/// Calls `visit(size, begin)` for each group of components; the size is a constant.
template <typename Visit> void forEachGroup(int64_t components, Visit visit) {
  if (components == 2) return visit(std::integral_constant<int, 2>(), 0);
  if (components == 3) return visit(std::integral_constant<int, 3>(), 0);
  for (int64_t first = 0; first < components; first += 4) visit(std::integral_constant<int, 4>(), std::min(first, components - 4));
}

template <typename T> void interleaveTile(T *to, const T *from, int64_t components, int64_t apart, int64_t count) {
  forEachGroup(components,
               [&](auto size, int64_t begin) { interleaveSome<T, size()>(to + begin, from + begin * apart, components, apart, count); });
}

template <typename T> void deinterleaveTile(T *to, const T *from, int64_t components, int64_t apart, int64_t count) {
  forEachGroup(components,
               [&](auto size, int64_t begin) { deinterleaveSome<T, size()>(to + begin * apart, from + begin, components, apart, count); });
}

/// Number of elements of a tile.
template <typename T> int64_t getTileLength(int64_t components) {
  return std::max<int64_t>(int64_t(kTileBytes / sizeof(T)) / components & ~int64_t(15), 16);
}

template <typename T>
void interleaveAll(unsigned char *target, const unsigned char *source, int64_t components, int64_t bytesApart, int64_t count,
                   bool isPastCaches) {
  alignas(64) T tile[kTileBytes / sizeof(T)];
  const int64_t most = getTileLength<T>(components), apart = bytesApart / int64_t(sizeof(T));
  auto *to = reinterpret_cast<T *>(target);
  auto *from = reinterpret_cast<const T *>(source);
  for (int64_t i = 0; i < count; i += most) {
    int64_t some = std::min(most, count - i);
    interleaveTile(isPastCaches ? tile : to + i * components, from + i, components, apart, some);
    if (isPastCaches) copyPastCaches(to + i * components, tile, size_t(some * components) * sizeof(T));
  }
  if (isPastCaches) orderStoresPastCaches();
}

template <typename T>
void deinterleaveAll(unsigned char *target, const unsigned char *source, int64_t components, int64_t bytesApart, int64_t count,
                     bool isPastCaches) {
  alignas(64) T tile[kTileBytes / sizeof(T)];
  const int64_t most = getTileLength<T>(components), apart = bytesApart / int64_t(sizeof(T));
  auto *to = reinterpret_cast<T *>(target);
  auto *from = reinterpret_cast<const T *>(source);
  for (int64_t i = 0; i < count; i += most) {
    int64_t some = std::min(most, count - i);
    deinterleaveTile(isPastCaches ? tile : to + i, from + i * components, components, isPastCaches ? most : apart, some);
    // Stores alone leave the memory idle for reads: the elements of the next tile are loaded meanwhile (for nine components 1.3 times as
    // fast).
    const T *next = from + (i + most) * components;
    for (int64_t k = 0; isPastCaches && k < components; ++k)
      copyPastCaches(to + k * apart + i, tile + k * most, size_t(some) * sizeof(T), next + k * most);
  }
  if (isPastCaches) orderStoresPastCaches();
}

} // namespace

void interleave(unsigned char *to, const unsigned char *from, size_t size, int64_t components, int64_t apart, int64_t count,
                bool isPastCaches) {
  size == 4 ? interleaveAll<uint32_t>(to, from, components, apart, count, isPastCaches)
            : interleaveAll<uint64_t>(to, from, components, apart, count, isPastCaches);
}

void deinterleave(unsigned char *to, const unsigned char *from, size_t size, int64_t components, int64_t apart, int64_t count,
                  bool isPastCaches) {
  size == 4 ? deinterleaveAll<uint32_t>(to, from, components, apart, count, isPastCaches)
            : deinterleaveAll<uint64_t>(to, from, components, apart, count, isPastCaches);
}

} // namespace qd::runtime
