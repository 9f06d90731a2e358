// interleave.h: conversion between arrays of elements with adjacent components and one array per component
#pragma once

#include <cstddef>
#include <cstdint>

namespace qd::runtime {

/// Whether the functions below support elements of that many components, of `size` bytes each.
constexpr bool canInterleave(int64_t components, size_t size) { return components >= 2 && components <= 64 && (size == 4 || size == 8); }

/// Stores `count` elements one after the other. Component arrays begin `apart` bytes from each other. With `isPastCaches` the stores bypass
/// the caches.
void interleave(unsigned char *to, const unsigned char *from, size_t size, int64_t components, int64_t apart, int64_t count,
                bool isPastCaches);

/// The inverse of `interleave`.
void deinterleave(unsigned char *to, const unsigned char *from, size_t size, int64_t components, int64_t apart, int64_t count,
                  bool isPastCaches);

} // namespace qd::runtime
