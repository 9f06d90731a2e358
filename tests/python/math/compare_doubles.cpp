// compare_doubles.cpp: f64 in integers, for devices without it (devlib/doubles.h), against the processor's
#include "devlib/doubles.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

using namespace qd::devlib;

template <class To, class From> static To copyBits(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  memcpy(&result, &value, sizeof result);
  return result;
}
static double toDouble(Bits bits) { return copyBits<double>(bits); }
static Bits takeBits(double value) { return copyBits<Bits>(value); }

static std::mt19937_64 random64(1);

/// Every other number is denormal, special, an integer, or near 1.
static Bits draw() {
  static const Bits kSpecial[] = {0, kSign, kInfinity, kSign | kInfinity, kNan, takeBits(1), 1, 0xffffffffffffful, kInfinity - 1};
  Bits bits = random64();
  switch (random64() % 10) {
  case 0: return bits & ~kInfinity;
  case 1: return kSpecial[bits % 9];
  case 2: return (bits & ~kInfinity) | (1000 + bits % 50) << 52;
  case 3: return takeBits(double(int64_t(bits >> bits % 60)));
  case 4: return (bits & ~kInfinity) | bits % 60 << 52;
  default: return bits;
  }
}

static int wrong = 0;
static void check(const char *operation, Bits a, Bits b, Bits expected, Bits found) {
  if (expected == found || wrong++ > 10) return;
  printf("%s %a %a: %lx instead of %lx\n", operation, toDouble(a), toDouble(b), found, expected);
}
static void check(const char *operation, Bits a, Bits b, double expected, Bits found) {
  check(operation, a, b, std::isnan(expected) ? kNan : takeBits(expected), found);
}

int main() {
  for (int i = 0; i < 1000000; ++i) {
    Bits a = draw(), b = draw(), c = draw();
    double x = toDouble(a), y = toDouble(b);
    if (i % 5 == 0) c = takeBits(-(x * y)) ^ random64() % 4; // all but the last bits cancel
    check("add", a, b, x + y, multiplyAddBits(a, kOne, b));
    check("multiply", a, b, x * y, multiplyAddBits(a, b, (a ^ b) & kSign));
    check("fma", a, b, std::fma(x, y, toDouble(c)), multiplyAddBits(a, b, c));
    if (i % 4 == 0) check("divide", a, b, x / y, divideBits(a, b));
    float narrow = float(x);
    if (!std::isnan(x)) check("to float", a, b, Bits(copyBits<uint32_t>(narrow)), Bits(copyBits<uint32_t>(narrowBits(a))));
    float given = copyBits<float>(uint32_t(b));
    check("from float", b, b, double(given), widenFloat(given));
    check("from unsigned", a, a, double(a), convertUnsigned(a));
    check("from signed", a, a, double(int64_t(a)), convertSigned(int64_t(a)));
    if (std::fabs(x) < 9.2e18) check("to signed", a, a, Bits(int64_t(x)), truncateBits(a));
    if (x >= 0 && x < 1.8e19) check("to unsigned", a, a, Bits(x), truncateBits(a));
    int relation = std::isnan(x) || std::isnan(y) ? 8 : x < y ? 4 : x > y ? 2 : 1;
    check("compare", a, b, Bits(relation), Bits(relateBits(a, b)));
  }
  return wrong ? 1 : 0;
}
