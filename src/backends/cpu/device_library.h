// device_library.h: loads a compiled kernel into anonymous memory
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace qd::cpu {

/// A shared library from the linker of kernels: it depends on functions of libc only, and has neither constructors nor thread-local
/// variables. No page of it is ever both writable and executable.
class MappedLibrary {
public:
  /// Null, with errno set, if memory runs out or the bytes are no such library.
  static std::unique_ptr<MappedLibrary> map(const std::vector<uint8_t> &binary);
  ~MappedLibrary();
  MappedLibrary(const MappedLibrary &) = delete;
  MappedLibrary &operator=(const MappedLibrary &) = delete;

  /// The address of an exported function; null if there is no function of that name.
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
  /// Addresses of the library's tables; 0: absent.
  uint64_t dynamic = 0, symbols = 0, names = 0, hash = 0;
};

} // namespace qd::cpu
