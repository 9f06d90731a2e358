// double_routines.h: f64 in integers, printed into kernels that need it
//
// Some functions of the device library compute parts of an f32 result in f64. All operations are rounded once, to nearest even, also
// denormal ones; NaN are one NaN. An addition is a fused product with 1. `join` rounds a number of 128 bits, times a power of two.
#pragma once

namespace qd::backends::metal {

constexpr char kDoubleRoutines[] =
    R"(constant ulong kSign = 0x8000000000000000ul, kInfinity = 0x7ff0000000000000ul, kNan = 0x7ff8000000000000ul;

bool double_isnan(ulong a) { return (a & ~kSign) > kInfinity; }

uint count_zeros(ulong a) { return a >> 32 ? clz(uint(a >> 32)) : 32u + clz(uint(a)); }

ulong join(ulong high, ulong low, int exponent, int fraction_bits, int most) {
  if (high == 0ul) { high = low; low = 0ul; exponent -= 64; }
  if (high == 0ul) return 0ul;
  uint zeros = count_zeros(high);
  if (zeros) { high = high << zeros | low >> (64u - zeros); low <<= zeros; }
  int biased = exponent - int(zeros) + 127 + (most >> 1);
  if (biased >= most) return ulong(most) << fraction_bits;
  int drop = 63 - fraction_bits + (biased < 1 ? 1 - biased : 0);
  ulong kept = drop < 64 ? high >> drop : 0ul;
  ulong rest = drop < 64 ? high << (64 - drop) : drop == 64 ? high : 1ul;
  if (rest > kSign || (rest == kSign && (low != 0ul || (kept & 1ul)))) ++kept;
  return biased < 1 ? kept : (ulong(biased - 1) << fraction_bits) + kept;
}

int get_exponent(ulong a) { int own = int(a >> 52) & 2047; return own ? own : 1; }
ulong get_fraction(ulong a) { return (a & 0xffffffffffffful) | (a & kInfinity ? 0x10000000000000ul : 0ul); }

ulong double_fma(ulong a, ulong b, ulong c) {
  ulong sign = (a ^ b) & kSign, size_a = a & ~kSign, size_b = b & ~kSign, size_c = c & ~kSign;
  if (double_isnan(a) || double_isnan(b) || double_isnan(c)) return kNan;
  if (size_a == kInfinity || size_b == kInfinity) {
    bool is_nan = size_a == 0ul || size_b == 0ul || (size_c == kInfinity && (c & kSign) != sign);
    return is_nan ? kNan : sign | kInfinity;
  }
  if (size_c == kInfinity) return c;
  if (size_a == 0ul || size_b == 0ul) return size_c ? c : c & sign;
  ulong x = get_fraction(a), y = get_fraction(b), x_low = x & 0xfffffffful, y_low = y & 0xfffffffful;
  ulong low = x_low * y_low, cross = (x >> 32) * y_low + (low >> 32), middle = x_low * (y >> 32) + (cross & 0xfffffffful);
  ulong high = (x >> 32) * (y >> 32) + (cross >> 32) + (middle >> 32);
  low = middle << 32 | (low & 0xfffffffful);
  int exponent = get_exponent(a) + get_exponent(b) - 2150;
  if (size_c == 0ul) return sign | join(high, low, exponent, 52, 2047);
  // Both below 2^126; the one with the smaller exponent moves right, and its lost bits stay as the last one.
  high = high << 20 | low >> 44;
  low <<= 20;
  exponent -= 20;
  ulong other_high = get_fraction(c) << 9, other_low = 0ul, other_sign = c & kSign;
  int other_exponent = get_exponent(c) - 1148;
  if (exponent < other_exponent) {
    ulong kept = high; high = other_high; other_high = kept;
    kept = low; low = other_low; other_low = kept;
    kept = sign; sign = other_sign; other_sign = kept;
    int own = exponent; exponent = other_exponent; other_exponent = own;
  }
  int distance = exponent - other_exponent;
  if (distance > 127) distance = 127;
  if (distance >= 64) { other_low = other_high | (other_low ? 1ul : 0ul); other_high = 0ul; distance -= 64; }
  if (distance) {
    ulong lost = other_low << (64 - distance);
    other_low = other_low >> distance | other_high << (64 - distance) | (lost ? 1ul : 0ul);
    other_high >>= distance;
  }
  if (sign == other_sign) {
    low += other_low;
    high += other_high + (low < other_low ? 1ul : 0ul);
  } else {
    if (high < other_high || (high == other_high && low < other_low)) {
      ulong kept = high; high = other_high; other_high = kept;
      kept = low; low = other_low; other_low = kept;
      sign = other_sign;
    }
    high -= other_high + (low < other_low ? 1ul : 0ul);
    low -= other_low;
    if (high == 0ul && low == 0ul) return 0ul;
  }
  return sign | join(high, low, exponent, 52, 2047);
}

ulong double_add(ulong a, ulong b) { return double_fma(a, 0x3ff0000000000000ul, b); }
ulong double_multiply(ulong a, ulong b) { return double_fma(a, b, (a ^ b) & kSign); }

ulong double_divide(ulong a, ulong b) {
  ulong sign = (a ^ b) & kSign, x = get_fraction(a), y = get_fraction(b), quotient = 0ul;
  bool is_infinite_a = (a & ~kSign) == kInfinity, is_infinite_b = (b & ~kSign) == kInfinity;
  bool is_zero_a = (a & ~kSign) == 0ul, is_zero_b = (b & ~kSign) == 0ul;
  if (double_isnan(a) || double_isnan(b) || (is_infinite_a && is_infinite_b) || (is_zero_a && is_zero_b)) return kNan;
  if (is_infinite_a || is_zero_b) return sign | kInfinity;
  if (is_infinite_b || is_zero_a) return sign;
  uint zeros_a = count_zeros(x), zeros_b = count_zeros(y);
  x <<= zeros_a - 11u;
  y <<= zeros_b - 11u;
  for (int i = 0; i < 63; ++i) {
    quotient <<= 1;
    if (x >= y) { x -= y; quotient |= 1ul; }
    x <<= 1;
  }
  int exponent = get_exponent(a) - int(zeros_a) - get_exponent(b) + int(zeros_b);
  return sign | join(quotient, x ? 1ul : 0ul, exponent - 126, 52, 2047);
}

// 1: equal, 2: greater, 4: less, 8: with NaN.
int double_relation(ulong a, ulong b) {
  if (double_isnan(a) || double_isnan(b)) return 8;
  long x = a & kSign ? -long(a & ~kSign) : long(a), y = b & kSign ? -long(b & ~kSign) : long(b);
  return x < y ? 4 : x > y ? 2 : 1;
}

ulong double_from_float(float value) {
  uint bits = as_type<uint>(value), exponent = bits >> 23 & 255u, fraction = bits & 0x7fffffu;
  ulong sign = ulong(bits >> 31) << 63;
  if (exponent == 255u) return fraction ? kNan : sign | kInfinity;
  return sign | join(0ul, ulong(exponent ? fraction | 0x800000u : fraction), int(exponent ? exponent : 1u) - 150, 52, 2047);
}
float double_to_float(ulong a) {
  uint sign = uint(a >> 63) << 31;
  if (double_isnan(a)) return as_type<float>(0x7fc00000u);
  if ((a & ~kSign) == kInfinity) return as_type<float>(sign | 0x7f800000u);
  return as_type<float>(sign | uint(join(0ul, get_fraction(a), get_exponent(a) - 1075, 23, 255)));
}
ulong double_from_unsigned(ulong a) { return join(0ul, a, 0, 52, 2047); }
ulong double_from_signed(long a) { return a < 0 ? kSign | double_from_unsigned(-ulong(a)) : double_from_unsigned(ulong(a)); }
ulong double_to_integer(ulong a) {
  int shift = get_exponent(a) - 1075;
  ulong size = shift > 11 ? 0ul : shift >= 0 ? get_fraction(a) << shift : shift > -64 ? get_fraction(a) >> -shift : 0ul;
  return a & kSign ? -size : size;
}

)";

} // namespace qd::backends::metal
