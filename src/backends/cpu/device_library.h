// device_library.h: a compiled kernel in anonymous memory, where the system gives no file to load it from
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace qd::cpu {

/// A shared library as the linker of kernels makes them: it needs nothing but functions of libc, and has neither constructors nor variables
/// of threads. No page of it is ever both writable and executable.
class MappedLibrary {
public:
  /// Null, with errno set, where there is no memory or the bytes are no such library.
  static std::unique_ptr<MappedLibrary> map(const std::vector<uint8_t> &binary);
  ~MappedLibrary();
  MappedLibrary(const MappedLibrary &) = delete;
  MappedLibrary &operator=(const MappedLibrary &) = delete;

  /// The address of an exported function; null where there is none of that name.
  void *find(const char *name) const;

private:
  MappedLibrary(unsigned char *base, uint64_t bytes) : base(base), bytes(bytes) {}
  bool readSegments(const std::vector<uint8_t> &binary);
  bool readTables();
  bool relocate(uint64_t table, uint64_t size) const;
  bool protect(const std::vector<uint8_t> &binary) const;
  const char *getName(uint32_t offset) const;

  unsigned char *base;
  uint64_t bytes;
  /// Places of tables in the library; 0: it has none.
  uint64_t dynamic = 0, symbols = 0, names = 0, hash = 0;
};

} // namespace qd::cpu
