#include "support/options.h"

#include "support/error.h"

namespace qd::support {

namespace {
// Kinds are written without quotes in options.def where they are one of ours.
constexpr std::string_view Bool = "bool", Int = "int", Float = "float", Text = "text", DataType = "datatype";

OptionValue makeDefault(bool value) { return value; }
OptionValue makeDefault(int value) { return int64_t(value); }
OptionValue makeDefault(double value) { return value; }
OptionValue makeDefault(const char *value) { return std::string(value); }

bool isOneOf(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    size_t end = words.find('|');
    if (words.substr(0, end) == word) return true;
    if (end == std::string_view::npos) return false;
    words.remove_prefix(end + 1);
  }
  return false;
}

bool isLegalDataType(std::string_view option, std::string_view value) {
  if (option == "default_fp") return isOneOf("f16|f32|f64", value);
  return isOneOf(option == "default_ip" ? "i32|i64" : "u32|u64", value);
}
} // namespace

const std::vector<OptionRow> &getOptionRows() {
  static const auto *rows = new std::vector<OptionRow>{
#define QD_OPTION(name, kind, default_, key, scope, doc)                                                                                   \
  OptionRow{#name, kind, makeDefault(default_), OptionKey::key, OptionScope::scope, doc},
#include "support/options.def"
#undef QD_OPTION
  };
  return *rows;
}

Options::Options() {
  for (const OptionRow &row : getOptionRows()) values.push_back(row.defaultValue);
}

int Options::find(std::string_view name) {
  const std::vector<OptionRow> &rows = getOptionRows();
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name) return int(i);
  return -1;
}

void Options::set(int index, OptionValue value) {
  const OptionRow &row = getOptionRows()[size_t(index)];
  std::string name = row.name;
  // A whole number is a fine float, and a truth value a fine number; nothing else converts by itself.
  if (row.kind == Float && std::holds_alternative<int64_t>(value)) value = double(std::get<int64_t>(value));
  if (row.kind == Int && std::holds_alternative<bool>(value)) value = int64_t(std::get<bool>(value));
  if (row.kind == Bool && std::holds_alternative<int64_t>(value) && uint64_t(std::get<int64_t>(value)) <= 1)
    value = std::get<int64_t>(value) == 1;
  if (value.index() != row.defaultValue.index()) {
    std::string_view wanted = row.defaultValue.index() == 3 ? std::string_view("str") : row.kind;
    throw Error(ErrorKind::Type, "option '" + name + "' takes a value of type " + std::string(wanted));
  }
  if (auto *text = std::get_if<std::string>(&value)) {
    if (row.kind == DataType && !isLegalDataType(name, *text))
      throw Error(ErrorKind::Value, "option '" + name + "' cannot be '" + *text + "'");
    if (row.kind.find('|') != std::string_view::npos && !isOneOf(row.kind, *text))
      throw Error(ErrorKind::Value, "option '" + name + "' cannot be '" + *text + "'; legal values: " + std::string(row.kind));
  }
  values[size_t(index)] = std::move(value);
}

std::string Options::describeKey() const {
  std::string text;
  const std::vector<OptionRow> &rows = getOptionRows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].key == OptionKey::NoKey) continue;
    text.append(rows[i].name).append("=");
    std::visit(
        [&](const auto &value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
            text.append(value);
          else
            text.append(std::to_string(value));
        },
        values[i]);
    text.append("\n");
  }
  return text;
}

} // namespace qd::support
