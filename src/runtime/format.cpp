// format.cpp: numbers as text, with the specs of C's printf and the parts of Python's that it lacks:
// [[fill]<>=^][flags - + space # 0][width][,][.precision][type]. A spec that does not suit the type converts the value.
#include "runtime/format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace qd::runtime {

using support::ScalarType;

namespace {

struct Spec {
  char fill = ' ', align = 0, sign = 0, type = 0;
  bool alternate = false, zero = false, group = false;
  int width = 0, precision = -1;
};

int parseNumber(std::string_view &text) {
  int number = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    number = std::min(number * 10 + (text[0] - '0'), 10000);
    text.remove_prefix(1);
  }
  return number;
}

Spec parseSpec(std::string_view text) {
  Spec spec;
  auto isAlign = [](char c) { return c == '<' || c == '>' || c == '=' || c == '^'; };
  if (text.size() >= 2 && isAlign(text[1])) {
    spec.fill = text[0];
    spec.align = text[1];
    text.remove_prefix(2);
  } else if (!text.empty() && isAlign(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  for (; !text.empty(); text.remove_prefix(1)) {
    char c = text[0];
    if (c == '-')
      spec.align = '<';
    else if (c == '+' || (c == ' ' && spec.sign != '+'))
      spec.sign = c;
    else if (c == '#')
      spec.alternate = true;
    else if (c == '0')
      spec.zero = true;
    else if (c != ' ')
      break;
  }
  spec.width = parseNumber(text);
  if (!text.empty() && text[0] == ',') {
    spec.group = true;
    text.remove_prefix(1);
  }
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    spec.precision = parseNumber(text);
  }
  if (!text.empty()) spec.type = text[0];
  return spec;
}

std::string groupDigits(const std::string &digits) {
  size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string text;
  for (size_t i = 0; i < whole; ++i) {
    if (i && (whole - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text + digits.substr(whole);
}

/// Puts sign, prefix and digits together at the wanted width.
std::string pad(const Spec &spec, const std::string &sign, std::string digits, bool mayFillWithZeros) {
  if (spec.group) digits = groupDigits(digits);
  size_t size = sign.size() + digits.size();
  size_t missing = size_t(spec.width) > size ? size_t(spec.width) - size : 0;
  if (spec.align == '<') return sign + digits + std::string(missing, spec.fill);
  if (spec.align == '^') return std::string(missing / 2, spec.fill) + sign + digits + std::string(missing - missing / 2, spec.fill);
  if (spec.align == '=' || (spec.zero && !spec.align && mayFillWithZeros))
    return sign + std::string(missing, spec.align ? spec.fill : '0') + digits;
  return std::string(missing, spec.fill) + sign + digits;
}

std::string getSign(const Spec &spec, bool isNegative) {
  if (isNegative) return "-";
  return spec.sign ? std::string(1, spec.sign) : "";
}

std::string formatInteger(const Spec &spec, uint64_t bits, bool isSigned) {
  bool isNegative = isSigned && int64_t(bits) < 0;
  uint64_t magnitude = isNegative ? 0 - bits : bits;
  unsigned base = 10;
  std::string prefix;
  if (spec.type == 'x' || spec.type == 'X')
    base = 16, prefix = spec.type == 'x' ? "0x" : "0X";
  else if (spec.type == 'o')
    base = 8, prefix = "0";
  else if (spec.type == 'b')
    base = 2, prefix = "0b";
  std::string digits;
  do digits.insert(digits.begin(), (spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[magnitude % base]);
  while (magnitude /= base);
  if (spec.precision > int(digits.size())) digits.insert(0, size_t(spec.precision) - digits.size(), '0');
  return pad(spec, getSign(spec, isNegative) + (spec.alternate ? prefix : ""), digits, spec.precision < 0);
}

std::string formatFloat(const Spec &spec, double value) {
  char type = spec.type && std::string_view("eEfFgGaA").find(spec.type) != std::string_view::npos ? spec.type : 'f';
  char format[8] = {'%', '.', '*', type, 0};
  char plain[8] = {'%', type, 0};
  char alternate[8] = {'%', '#', '.', '*', type, 0};
  char text[512];
  double magnitude = std::fabs(value);
  int precision = std::min(spec.precision, 100);
  if (precision < 0)
    snprintf(text, sizeof text, plain, magnitude);
  else
    snprintf(text, sizeof text, spec.alternate ? alternate : format, precision, magnitude);
  return pad(spec, getSign(spec, std::signbit(value) && !std::isnan(value)), text, std::isfinite(value));
}

std::string formatScalar(const Spec &spec, ScalarType type, uint64_t bits) {
  bool wantsFloat = spec.type && std::string_view("eEfFgGaA").find(spec.type) != std::string_view::npos;
  if (support::isFloat(type)) {
    auto value = std::bit_cast<double>(bits);
    bool wantsInteger = spec.type && std::string_view("diuxXob").find(spec.type) != std::string_view::npos;
    if (!wantsInteger || !(std::fabs(value) < 9.2e18)) return formatFloat(spec, value);
    return formatInteger(spec, uint64_t(int64_t(value)), true);
  }
  if (wantsFloat) return formatFloat(spec, support::isSigned(type) ? double(int64_t(bits)) : double(bits));
  if (support::isSigned(type) && (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b' || spec.type == 'u')) {
    // Bit patterns of the type's own width.
    size_t width = getByteSize(type) * 8;
    return formatInteger(spec, width == 64 ? bits : bits & ((uint64_t(1) << width) - 1), false);
  }
  return formatInteger(spec, bits, support::isSigned(type));
}

} // namespace

std::string formatSite(const artifact::Site &site, const uint64_t *values) {
  std::string text;
  for (const artifact::Site::Piece &piece : site.pieces) {
    if (!piece.isOperand) {
      text += piece.text;
      continue;
    }
    Spec spec = parseSpec(piece.text);
    const layout::ValueType &type = piece.type;
    if (type.rank == 0) {
      text += formatScalar(spec, type.scalar, *values++);
      continue;
    }
    text += '[';
    for (int row = 0; row < type.rows; ++row) {
      text += row ? ", " : "";
      text += type.rank == 2 ? "[" : "";
      for (int column = 0; column < type.columns; ++column) {
        text += column ? ", " : "";
        text += formatScalar(spec, type.scalar, *values++);
      }
      text += type.rank == 2 ? "]" : "";
    }
    text += ']';
  }
  return text;
}

size_t countValues(const artifact::Site &site) {
  size_t count = 0;
  for (const artifact::Site::Piece &piece : site.pieces)
    if (piece.isOperand) count += size_t(piece.type.componentCount());
  return count;
}

} // namespace qd::runtime
