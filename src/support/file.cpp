// file.cpp: reads and writes through file descriptors
//
// In:   a descriptor or bytes.
// Out:  all bytes read or written, with interrupted system calls continued.
#include "support/file.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace qd::support {

bool File::write(const void *data, size_t size) const {
  const char *bytes = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t written = ::write(descriptor, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= size_t(written);
  }
  return true;
}

std::vector<uint8_t> File::readAll() const {
  struct stat status;
  // One byte more than the file has, so that the end is found without more memory. Files of the system have no size before they are read.
  std::vector<uint8_t> bytes(fstat(descriptor, &status) == 0 && status.st_size > 0 ? size_t(status.st_size) + 1 : 4096);
  size_t size = 0;
  for (ssize_t count = 1; count > 0 || (count < 0 && errno == EINTR); size += size_t(std::max<ssize_t>(count, 0))) {
    if (size == bytes.size()) bytes.resize(2 * size);
    count = read(descriptor, bytes.data() + size, bytes.size() - size);
  }
  bytes.resize(size);
  return bytes;
}

void File::close() {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

File makeMemoryFile(const void *data, size_t size) {
  File file(memfd_create("quadrants", MFD_CLOEXEC));
  return file && file.write(data, size) ? std::move(file) : File();
}

} // namespace qd::support
