// profiler_ranges.cpp: finds the functions of NVTX and ROCTX, without their headers and libraries
//
// In:   NVTX_INJECTION64_PATH, which tools such as Nsight Systems set, or AMD's library of markers.
// Out:  two functions, or none.
// Here: NVTX has no library. A tool gets a table of pointers from the program and writes the addresses of its functions to them.
#include "runtime/profiler_ranges.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>

namespace qd::runtime {

namespace {

using Function = void (*)();

/// The positions in NVTX's first module of the functions that are used, and the number of functions in it.
enum : unsigned { kRangePush = 9, kRangePop = 11, kFunctionCount = 15 };
enum : uint32_t { kFirstModule = 1, kCallbackTable = 1, kVersionTable = 3, kVersion = 3 };

Function functions[kFunctionCount + 1];

int getFunctions(uint32_t module, Function ***result, unsigned *count) {
  static Function *table[kFunctionCount + 2]; // begins and ends with null
  for (unsigned i = 1; i <= kFunctionCount; ++i) table[i] = &functions[i];
  bool isKnown = module == kFirstModule;
  if (result) *result = isKnown ? table : nullptr;
  if (count) *count = isKnown ? kFunctionCount + 2 : 0;
  return isKnown;
}

const void *getTable(uint32_t number) {
  static const struct {
    size_t size = sizeof(*this);
    decltype(&getFunctions) get = getFunctions;
  } callbacks;
  static const struct {
    size_t size = sizeof(*this);
    uint32_t version = kVersion, reserved = 0;
    void (*setToolVersion)(uint32_t) = [](uint32_t) {};
  } versions;
  return number == kCallbackTable ? static_cast<const void *>(&callbacks) : number == kVersionTable ? &versions : nullptr;
}

Ranges findRanges() {
  Ranges result;
  const char *path = getenv("NVTX_INJECTION64_PATH");
  if (void *tool = path && *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : nullptr) {
    auto *initialize = reinterpret_cast<int (*)(decltype(&getTable))>(dlsym(tool, "InitializeInjectionNvtx2"));
    if (initialize && initialize(getTable)) {
      result.push = reinterpret_cast<decltype(result.push)>(functions[kRangePush]);
      result.pop = reinterpret_cast<decltype(result.pop)>(functions[kRangePop]);
    }
  }
  for (const char *name : {"librocprofiler-sdk-roctx.so.1", "libroctx64.so.4"}) {
    void *library = result.push ? nullptr : dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library) continue;
    result.push = reinterpret_cast<decltype(result.push)>(dlsym(library, "roctxRangePushA"));
    result.pop = reinterpret_cast<decltype(result.pop)>(dlsym(library, "roctxRangePop"));
  }
  return result.push && result.pop ? result : Ranges();
}

} // namespace

const Ranges &Ranges::get() {
  static const Ranges ranges = findRanges();
  return ranges;
}

} // namespace qd::runtime
