#include "artifact/disk_cache.h"

#include "support/error.h"
#include "support/log.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace qd::artifact {

// The layout of entries; another number is another folder.
static constexpr const char *kFolder = "kernels-1";
static constexpr uint64_t kMagic = 0x31454e4c4b5144ffull;
static constexpr int64_t kMaxEntryBytes = int64_t(1) << 30;
// Entries that were used within this time are not marked as used again: a warm start only reads.
static constexpr time_t kTouchInterval = 3600;

namespace {

/// The end of every entry: the digest covers all bytes before it and the key, so that an entry under the wrong name is no entry.
struct Footer {
  uint64_t magic;
  uint64_t bytes;
  support::Digest digest;
};

support::Digest computeEntryDigest(const std::vector<uint8_t> &bytes, size_t size, const support::Digest &key) {
  support::Digest both[2] = {support::computeDigest(bytes.data(), size), key};
  return support::computeDigest(both, sizeof both);
}

struct File {
  int number;
  explicit File(int number) : number(number) {}
  File(const File &) = delete;
  ~File() {
    if (number >= 0) close(number);
  }
};

struct Folder {
  DIR *stream;
  explicit Folder(int descriptor) : stream(descriptor >= 0 ? fdopendir(descriptor) : nullptr) {}
  Folder(const Folder &) = delete;
  ~Folder() {
    if (stream) closedir(stream);
  }
};

bool writeAll(int file, const void *data, size_t size) {
  const char *bytes = static_cast<const char *>(data);
  while (size > 0) {
    ssize_t written = write(file, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= size_t(written);
  }
  return true;
}

bool makeFolders(const std::string &path) {
  for (size_t at = 1; at <= path.size(); ++at)
    if ((at == path.size() || path[at] == '/') && mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS &&
        errno != EACCES)
      return false;
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// Reads a whole entry and checks it; empty when it is damaged.
std::vector<uint8_t> readEntry(int file, const support::Digest &key) {
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_size < int64_t(sizeof(Footer)) ||
      status.st_size > kMaxEntryBytes)
    return {};
  std::vector<uint8_t> bytes(size_t(status.st_size));
  for (size_t at = 0; at < bytes.size();) {
    ssize_t count = read(file, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};
    at += size_t(count);
  }
  Footer footer;
  size_t size = bytes.size() - sizeof footer;
  memcpy(&footer, bytes.data() + size, sizeof footer);
  if (footer.magic != kMagic || footer.bytes != size || footer.digest != computeEntryDigest(bytes, size, key)) return {};
  bytes.resize(size);
  return bytes;
}

std::string describeError(const std::string &what) { return what + ": " + strerror(errno); }

} // namespace

CompileLock::~CompileLock() {
  if (file >= 0) close(file); // and with it the lock
}

std::string getDefaultCacheFolder() {
  // The locations that the system defines; not options of ours.
  if (const char *cache = getenv("XDG_CACHE_HOME"); cache && *cache) return std::string(cache) + "/quadrants/qdcache";
  const char *home = getenv("HOME");
  if (!home || !*home) {
    const passwd *user = getpwuid(geteuid());
    home = user ? user->pw_dir : "/nonexistent";
  }
  return std::string(home) + "/.cache/quadrants/qdcache";
}

DiskCache::DiskCache(DiskCacheOptions wanted) : options(std::move(wanted)) {
  if (!makeFolders(options.folder)) {
    warnOnce(describeError("the cache folder " + options.folder + " cannot be made"));
    return;
  }
  File outer(open(options.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (outer.number < 0) {
    warnOnce(describeError("the cache folder " + options.folder + " cannot be opened"));
    return;
  }
  mkdirat(outer.number, kFolder, 0700);
  root = openat(outer.number, kFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (root < 0 || fstat(root, &status) != 0) {
    warnOnce(describeError("the cache folder " + options.folder + "/" + kFolder + " cannot be opened"));
    return;
  }
  // Code is loaded from here: nobody else may be able to write it.
  if (status.st_uid != geteuid() || ((status.st_mode & 077) && fchmod(root, 0700) != 0 && (status.st_mode & 022))) {
    close(root);
    root = -1;
    warnOnce("the cache folder " + options.folder + "/" + kFolder + " is not private to this user and is not used");
  }
}

DiskCache::~DiskCache() {
  if (root >= 0) close(root);
}

void DiskCache::warnOnce(const std::string &message) {
  if (!hasWarned) support::log(support::LogLevel::Warn, message + "; kernels are compiled without it");
  hasWarned = true;
}

void DiskCache::find(const support::Digest &key, const std::function<bool(Artifact &&)> &visit) {
  if (root < 0) return;
  std::string name = support::toHex(key);
  int prefix = openat(root, name.substr(0, 2).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  Folder folder(prefix);
  if (!folder.stream) {
    if (prefix >= 0) close(prefix);
    return;
  }
  struct Variant {
    std::string name;
    timespec used;
  };
  std::vector<Variant> variants;
  while (dirent *entry = readdir(folder.stream))
    if (strncmp(entry->d_name, name.c_str(), name.size()) == 0) {
      struct stat status;
      if (fstatat(prefix, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) variants.push_back({entry->d_name, status.st_mtim});
    }
  std::sort(variants.begin(), variants.end(), [](const Variant &a, const Variant &b) {
    return std::tie(b.used.tv_sec, b.used.tv_nsec) < std::tie(a.used.tv_sec, a.used.tv_nsec);
  });
  for (const Variant &variant : variants) {
    File file(openat(prefix, variant.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.number < 0) continue; // a clean in another process was faster
    std::vector<uint8_t> bytes = readEntry(file.number, key);
    Artifact artifact;
    bool isWhole = !bytes.empty();
    if (isWhole) try {
        artifact = deserialize(bytes.data(), bytes.size());
      } catch (const support::Error &) { isWhole = false; }
    if (!isWhole) {
      support::log(support::LogLevel::Warn, "the cached kernel " + variant.name + " is damaged and is compiled again");
      unlinkat(prefix, variant.name.c_str(), 0);
      continue;
    }
    if (visit(std::move(artifact))) {
      if (options.policy == CleaningPolicy::Lru && time(nullptr) - variant.used.tv_sec > kTouchInterval) futimens(file.number, nullptr);
      return;
    }
  }
}

void DiskCache::publish(const support::Digest &key, const Artifact &artifact) {
  if (root < 0) return;
  std::vector<uint8_t> bytes = serialize(artifact);
  Footer footer{kMagic, bytes.size(), computeEntryDigest(bytes, bytes.size(), key)};
  std::string name = support::toHex(key);
  std::string prefixName = name.substr(0, 2);
  // The name of a variant is its content: two processes that compiled the same write the same file.
  name += "." + support::toHex(footer.digest).substr(0, 16);
  mkdirat(root, prefixName.c_str(), 0700);
  File prefix(openat(root, prefixName.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (prefix.number < 0) return warnOnce(describeError("the cache folder " + options.folder + " cannot be written"));
  static std::atomic<unsigned> counter{0};
  std::string temporary = "new." + std::to_string(getpid()) + "." + std::to_string(counter++);
  {
    unlinkat(prefix.number, temporary.c_str(), 0); // left by a process of the same number that was killed
    File file(openat(prefix.number, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.number < 0) return warnOnce(describeError("the cache folder " + options.folder + " cannot be written"));
    if (!writeAll(file.number, bytes.data(), bytes.size()) || !writeAll(file.number, &footer, sizeof footer)) {
      warnOnce(describeError("a compiled kernel cannot be written to the cache folder " + options.folder));
      unlinkat(prefix.number, temporary.c_str(), 0);
      return;
    }
  }
  if (renameat(prefix.number, temporary.c_str(), prefix.number, name.c_str()) != 0) {
    warnOnce(describeError("the cache folder " + options.folder + " cannot be written"));
    unlinkat(prefix.number, temporary.c_str(), 0);
    return;
  }
  // The first one cleans what earlier processes left; then now and then, because a clean looks at every entry.
  if (published++ % 16 == 0) clean();
}

std::optional<CompileLock> DiskCache::tryLock(const support::Digest &key) {
  if (root < 0) return CompileLock();
  int file = openat(root, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return CompileLock();
  // One byte of one file per key, owned by the open file: threads exclude each other too, and there is nothing to tidy up.
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  memcpy(&range.l_start, key.data(), sizeof range.l_start);
  range.l_start &= (int64_t(1) << 62) - 1;
  range.l_len = 1;
  if (fcntl(file, F_OFD_SETLK, &range) == 0) return CompileLock(file);
  bool isBusy = errno == EAGAIN || errno == EACCES;
  close(file);
  if (isBusy) return std::nullopt;
  return CompileLock(); // a file system without locks
}

void DiskCache::clean() {
  if (options.policy == CleaningPolicy::Never) return;
  struct Entry {
    std::string folder, name;
    int64_t bytes;
    time_t used;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  Folder top(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  while (dirent *item = top.stream ? readdir(top.stream) : nullptr) {
    if (strlen(item->d_name) != 2 || item->d_name[0] == '.') continue;
    std::string name = item->d_name;
    int descriptor = openat(root, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    Folder folder(descriptor);
    while (dirent *file = folder.stream ? readdir(folder.stream) : nullptr) {
      struct stat status;
      if (fstatat(descriptor, file->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) continue;
      if (strncmp(file->d_name, "new.", 4) == 0) {
        if (time(nullptr) - status.st_mtime > kTouchInterval) unlinkat(descriptor, file->d_name, 0); // its writer was killed
        continue;
      }
      entries.push_back({name, file->d_name, status.st_size, options.policy == CleaningPolicy::Fifo ? status.st_ctime : status.st_mtime});
      total += status.st_size;
    }
  }
  if (options.policy == CleaningPolicy::Version || total <= options.maxBytes) return;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.used < b.used; });
  auto wanted = int64_t(double(options.maxBytes) * (1 - std::clamp(options.cleaningFactor, 0.0, 1.0)));
  for (const Entry &entry : entries) {
    if (total <= wanted) break;
    unlinkat(root, (entry.folder + "/" + entry.name).c_str(), 0);
    total -= entry.bytes;
  }
}

} // namespace qd::artifact
