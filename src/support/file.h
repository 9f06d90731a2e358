// file.h: open files and pipes, closed by the destructor
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace qd::support {

/// Owns a file descriptor; empty when opening failed.
class File {
public:
  explicit File(int descriptor = -1) : descriptor(descriptor) {}
  File(File &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
  File &operator=(File &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~File() { close(); }

  explicit operator bool() const { return descriptor >= 0; }
  int get() const { return descriptor; }
  int release() { return std::exchange(descriptor, -1); }
  /// A path with which this process can open it again.
  std::string getPath() const { return "/proc/self/fd/" + std::to_string(descriptor); }
  /// Writes all bytes; false, with errno set, on failure.
  bool write(const void *data, size_t size) const;
  /// Reads all bytes up to the end or an error.
  std::vector<uint8_t> readAll() const;
  void close();

private:
  int descriptor;
};

/// An anonymous file in memory with these bytes; empty, with errno set, when memory is insufficient.
File makeMemoryFile(const void *data, size_t size);

} // namespace qd::support
