// read_options.h: option values from a Python dict, for both modules.
#pragma once

#include "support/error.h"
#include "support/options.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

namespace qd::bindings {

/// `options` with the values that the dict names (None: as it is). Throws support::Error that names the option.
inline support::Options readOptions(support::Options options, nanobind::dict given) {
  for (auto [key, value] : given) {
    auto name = nanobind::cast<std::string>(key);
    int row = support::Options::find(name);
    if (row < 0) throw support::Error(support::ErrorKind::Key, "there is no option " + name);
    if (!value.is_none()) options.set(row, nanobind::cast<support::OptionValue>(value));
  }
  return options;
}

} // namespace qd::bindings
