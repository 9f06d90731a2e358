// options.cpp: the table of options and their values
//
// In:   the rows of options.def.
// Out:  defaults, values by index or name, and the part of the cache key that options contribute.
#include "support/options.h"

#include "support/error.h"

#include <sstream>

namespace qd::support {

// The kinds that options.def writes without quotes.
static constexpr std::string_view Bool = "bool", Int = "int", Float = "float", Text = "text", DataType = "datatype";

const std::vector<OptionRow> &getOptionRows() {
  static const auto *rows = new std::vector<OptionRow>{
#define QD_OPTION(name, kind, default_, key, scope, doc)                                                                                   \
  OptionRow{#name, kind, OptionValue(default_), OptionKey::key, OptionScope::scope, doc},
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
  if (value.index() != row.defaultValue.index())
    throw Error(ErrorKind::Type, "option '" + std::string(row.name) + "' has a value of another type than its default");
  values[size_t(index)] = std::move(value);
}

std::string Options::describeKey() const {
  std::ostringstream text;
  const std::vector<OptionRow> &rows = getOptionRows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].key != OptionKey::Key) continue;
    std::visit([&](const auto &value) { text << rows[i].name << '=' << value << '\n'; }, values[i]);
  }
  return text.str();
}

} // namespace qd::support
