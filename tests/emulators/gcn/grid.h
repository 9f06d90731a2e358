// grid.h: what the machine (machine.cpp) and the driver (fake_hip.cpp) know of each other
#pragma once

#include "machine.h"

#include <algorithm>
#include <string>
#include <vector>

/// An entry of a code object, from its descriptor.
struct Kernel {
  std::string name;
  u64 entry = 0;
  u32 ldsBytes = 0, scratchBytes = 0, argumentBytes = 0, rsrc2 = 0, properties = 0;
  size_t explicitBytes = 0; ///< of arguments that the program passes
};

/// A loaded code object.
struct Code {
  char *memory = nullptr;
  size_t size = 0;
  bool isGfx12 = false, writesBack = false, acquires = false; ///< its processor, and what it has (scopes.h)
  std::vector<Op> ops;
  std::vector<int> places; ///< for each word of the memory, the record of the instruction there, or -1
  std::vector<std::string> texts;
  std::vector<Kernel> kernels;
  u64 base() const { return reinterpret_cast<u64>(memory); }
  const Op *find(u64 pc) const {
    if (pc / 4 >= places.size() || places[pc / 4] < 0) return nullptr;
    return &ops[size_t(places[pc / 4])];
  }
  /// Says on stderr what a wave has stopped for; an address of 0 is none.
  void report(const Wave &w, const char *reason, u64 address) const;
};

bool isDeviceMemory(u64 at, size_t size);
/// Memory that kernels may access while this object lives.
struct DeviceRange {
  DeviceRange(void *begin, size_t size);
  ~DeviceRange();
  u64 begin;
};
u64 codeBase(const Wave *w);
/// Runs an instruction, whose registers may be indexed.
int step(Wave *w, const Op *op);
/// Runs a grid; returns a status of HIP.
int launchGrid(const Code &code, const Kernel &kernel, const void *arguments, size_t bytes, unsigned blocks, unsigned threads,
               unsigned sharedBytes, bool together);
