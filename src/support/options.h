// options.h: the option values of the current runtime. options.def lists the options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace qd::support {

using OptionValue = std::variant<bool, int64_t, double, std::string>;

enum class OptionKey { NoKey, Key, Accepted };
enum class OptionScope { Everywhere, KeywordOnly, NoConfig };

struct OptionRow {
  const char *name;
  std::string_view kind; ///< "bool", "int", "float", "text", "datatype", or the legal words separated by |
  OptionValue defaultValue;
  OptionKey key;
  OptionScope scope;
  const char *doc;
};

const std::vector<OptionRow> &getOptionRows();

enum class Option {
#define QD_OPTION(name, kind, default_, key, scope, doc) name,
#include "support/options.def"
#undef QD_OPTION
};

/// Values of all options, indexed by Option; starts with the defaults.
class Options {
public:
  Options();
  const OptionValue &get(Option option) const { return values[size_t(option)]; }
  bool getBool(Option option) const { return std::get<bool>(get(option)); }
  int64_t getInt(Option option) const { return std::get<int64_t>(get(option)); }
  double getFloat(Option option) const { return std::get<double>(get(option)); }
  const std::string &getText(Option option) const { return std::get<std::string>(get(option)); }

  /// Index of a row by name, -1 when there is none.
  static int find(std::string_view name);
  /// Sets a value that `_base/options.py` has validated; throws Error (Type) only for a value of another type.
  void set(int row, OptionValue value);
  /// The options that compiled code depends on, as text.
  std::string describeKey() const;

private:
  std::vector<OptionValue> values;
};

} // namespace qd::support
