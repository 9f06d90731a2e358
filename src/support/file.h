// file.h: open files and pipes, closed when their owner goes
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace qd::support {

/// Owns a descriptor of the system; empty when opening it failed.
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
  /// A path under which this process can open it again, or reach what lies below a folder.
  std::string getPath() const { return "/proc/self/fd/" + std::to_string(descriptor); }
  /// Writes all bytes; false, with errno set, where that fails.
  bool write(const void *data, size_t size) const;
  /// All bytes up to the end, or to an error.
  std::vector<uint8_t> readAll() const;
  void close();

private:
  int descriptor;
};

/// A file without a name, in memory, that holds the bytes; empty, with errno set, where there is no room for it.
File makeMemoryFile(const void *data, size_t size);

} // namespace qd::support
