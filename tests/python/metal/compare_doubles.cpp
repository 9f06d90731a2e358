// compare_doubles.cpp: the routines that Metal's kernels use for f64 (routines.h), against the processor's
#include "metal_stdlib"
#undef device
#undef constant
#undef kernel
#undef threadgroup
#include <cmath>
#include <cstdio>
#include <random>

namespace routines {
using namespace metal;
#define constant static const
#include "routines.h"
} // namespace routines
using namespace routines;

static double toDouble(ulong bits) { return metal::as_type<double>(bits); }
static ulong toBits(double value) { return metal::as_type<ulong>(value); }

static std::mt19937_64 random64(1);

/// Every other number is denormal, special, an integer, or near 1.
static ulong draw() {
  static const ulong kSpecial[] = {0, kSign, kInfinity, kSign | kInfinity, kNan, toBits(1), 1, 0xffffffffffffful, kInfinity - 1};
  ulong bits = random64();
  switch (random64() % 10) {
  case 0: return bits & ~kInfinity;
  case 1: return kSpecial[bits % 9];
  case 2: return (bits & ~kInfinity) | (1000 + bits % 50) << 52;
  case 3: return toBits(double(long(bits >> bits % 60)));
  case 4: return (bits & ~kInfinity) | bits % 60 << 52;
  default: return bits;
  }
}

static int wrong = 0;
static void check(const char *operation, ulong a, ulong b, ulong expected, ulong found) {
  if (expected == found || wrong++ > 10) return;
  printf("%s %a %a: %lx instead of %lx\n", operation, toDouble(a), toDouble(b), found, expected);
}
static void check(const char *operation, ulong a, ulong b, double expected, ulong found) {
  check(operation, a, b, std::isnan(expected) ? kNan : toBits(expected), found);
}

int main() {
  for (int i = 0; i < 1000000; ++i) {
    ulong a = draw(), b = draw(), c = draw();
    double x = toDouble(a), y = toDouble(b);
    if (i % 5 == 0) c = toBits(-(x * y)) ^ random64() % 4; // all but the last bits cancel
    check("add", a, b, x + y, double_add(a, b));
    check("multiply", a, b, x * y, double_multiply(a, b));
    check("fma", a, b, std::fma(x, y, toDouble(c)), double_fma(a, b, c));
    if (i % 4 == 0) check("divide", a, b, x / y, double_divide(a, b));
    float narrow = float(x);
    if (!std::isnan(x)) check("to float", a, b, ulong(metal::as_type<uint>(narrow)), ulong(metal::as_type<uint>(double_to_float(a))));
    float given = metal::as_type<float>(uint(b));
    check("from float", b, b, double(given), double_from_float(given));
    check("from unsigned", a, a, double(a), double_from_unsigned(a));
    check("from signed", a, a, double(long(a)), double_from_signed(long(a)));
    if (std::fabs(x) < 9.2e18) check("to signed", a, a, ulong(long(x)), double_to_integer(a));
    if (x >= 0 && x < 1.8e19) check("to unsigned", a, a, ulong(x), double_to_integer(a));
    int relation = std::isnan(x) || std::isnan(y) ? 8 : x < y ? 4 : x > y ? 2 : 1;
    check("compare", a, b, ulong(relation), ulong(double_relation(a, b)));
  }
  return wrong ? 1 : 0;
}
