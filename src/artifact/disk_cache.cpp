// disk_cache.cpp: reads, writes and cleans the files of the disk cache
//
// In:   a key (the digest of the code and the scope of the cache) and artifacts.
// Out:  the variants under a key, verified; a lock for the process that compiles it.
#include "artifact/disk_cache.h"

#include "support/error.h"
#include "support/log.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace qd::artifact {

namespace fs = std::filesystem;

// Version of the entry format; another version uses another folder.
static constexpr const char *kFolder = "/kernels-1";
static constexpr uint64_t kMagic = 0x31454e4c4b5144ffull;
static constexpr int64_t kMaxEntryBytes = int64_t(1) << 30;
// Entries that were used within this time are not marked as used again, so that a warm start only reads.
static constexpr time_t kTouchInterval = 3600;

namespace {

/// The end of every entry. The digest covers all bytes before it and the key, so that an entry under a wrong name is invalid.
struct Footer {
  uint64_t magic;
  uint64_t bytes;
  support::Digest digest;
};

support::Digest computeEntryDigest(const std::vector<uint8_t> &bytes, size_t size, const support::Digest &key) {
  support::Digest both[2] = {support::computeDigest(bytes.data(), size), key};
  return support::computeDigest(both, sizeof both);
}

struct Entry {
  std::string path; ///< from the folder of the cache
  struct stat status;

  std::string_view getName() const { return std::string_view(path).substr(path.rfind('/') + 1); }
  bool operator<(const Entry &other) const {
    const timespec &mine = status.st_mtim, &others = other.status.st_mtim;
    return std::tie(mine.tv_sec, mine.tv_nsec) < std::tie(others.tv_sec, others.tv_nsec);
  }
};

/// Not std::filesystem: its iterators end the process when they cannot allocate memory for a path.
void addEntries(std::vector<Entry> &entries, int root, const std::string &folder, std::string_view prefix) {
  struct Close {
    void operator()(DIR *stream) const { closedir(stream); }
  };
  support::File file(openat(root, folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::unique_ptr<DIR, Close> stream(fdopendir(file.get()));
  if (stream) (void)file.release();
  while (const dirent *item = stream ? readdir(stream.get()) : nullptr) {
    std::string_view name = item->d_name;
    Entry entry{folder + "/" + item->d_name, {}};
    if (name == "." || name == ".." || !name.starts_with(prefix) ||
        fstatat(dirfd(stream.get()), item->d_name, &entry.status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISDIR(entry.status.st_mode))
      addEntries(entries, root, entry.path, prefix);
    else if (S_ISREG(entry.status.st_mode))
      entries.push_back(std::move(entry));
  }
}

/// The files below a folder whose names begin with `prefix`, least recently used first.
std::vector<Entry> listEntries(const support::File &root, const std::string &folder, std::string_view prefix) {
  std::vector<Entry> entries;
  addEntries(entries, root.get(), folder, prefix);
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// Reads and verifies an entry; empty when it is damaged.
std::optional<Artifact> readEntry(const support::File &file, const support::Digest &key) {
  struct stat status;
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_size > kMaxEntryBytes)
    return std::nullopt;
  std::vector<uint8_t> bytes = file.readAll();
  Footer footer;
  if (bytes.size() < sizeof footer) return std::nullopt;
  size_t size = bytes.size() - sizeof footer;
  memcpy(&footer, bytes.data() + size, sizeof footer);
  if (footer.magic != kMagic || footer.bytes != size || footer.digest != computeEntryDigest(bytes, size, key)) return std::nullopt;
  try {
    return deserialize(bytes.data(), size);
  } catch (const support::Error &) { return std::nullopt; }
}

} // namespace

static std::string getDefaultFolder() {
  // Locations that the system defines, not options of this package.
  if (const char *cache = getenv("XDG_CACHE_HOME"); cache && *cache) return std::string(cache) + "/quadrants/qdcache";
  const char *home = getenv("HOME");
  if (!home || !*home) {
    const passwd *user = getpwuid(geteuid());
    home = user ? user->pw_dir : "/nonexistent";
  }
  return std::string(home) + "/.cache/quadrants/qdcache";
}

DiskCacheOptions readCacheOptions(const support::Options &values) {
  using support::Option;
  static const std::map<std::string_view, CleaningPolicy> kPolicies = {
      {"never", CleaningPolicy::Never}, {"version", CleaningPolicy::Version}, {"lru", CleaningPolicy::Lru}, {"fifo", CleaningPolicy::Fifo}};
  const std::string &folder = values.getText(Option::offline_cache_file_path);
  return {folder.empty() ? getDefaultFolder() : folder, values.getInt(Option::offline_cache_max_size_of_files),
          values.getFloat(Option::offline_cache_cleaning_factor), kPolicies.at(values.getText(Option::offline_cache_cleaning_policy))};
}

DiskCache::DiskCache(DiskCacheOptions wanted) : options(std::move(wanted)) {
  std::error_code error;
  fs::create_directories(options.folder, error); // opening it reports the error
  std::string path = options.folder + kFolder;
  mkdir(path.c_str(), 0700);
  support::File folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status;
  if (!folder || fstat(folder.get(), &status) != 0) warnOnce("cannot be opened", errno);
  // Code is loaded from here, so no other user may be able to write it.
  else if (status.st_uid != geteuid() || ((status.st_mode & 077) && fchmod(folder.get(), 0700) != 0 && (status.st_mode & 022)))
    warnOnce("is not private to this user", EPERM);
  else
    root = std::move(folder);
}

DiskCache::~DiskCache() {
  try {
    if (published > 0 && held > options.maxBytes) clean();
  } catch (const std::bad_alloc &) {} // the next process cleans
}

void DiskCache::warnOnce(const std::string &problem, int error) {
  if (!std::exchange(hasWarned, true))
    support::log(support::LogLevel::Warn,
                 "the cache folder " + options.folder + " " + problem + ": " + strerror(error) + "; kernels are compiled without it");
}

void DiskCache::find(const support::Digest &key, const std::function<bool(Artifact &&)> &visit) {
  if (!root) return;
  std::string name = support::toHex(key);
  std::vector<Entry> variants = listEntries(root, name.substr(0, 2), name);
  std::reverse(variants.begin(), variants.end());
  for (const Entry &variant : variants) {
    support::File file(openat(root.get(), variant.path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) continue; // another process has removed it
    std::optional<Artifact> artifact = readEntry(file, key);
    if (!artifact) {
      support::log(support::LogLevel::Warn, "the cached kernel " + std::string(variant.getName()) + " is damaged and is compiled again");
      unlinkat(root.get(), variant.path.c_str(), 0);
    } else if (visit(std::move(*artifact))) {
      bool isOld = time(nullptr) - variant.status.st_mtime > kTouchInterval;
      if (options.policy == CleaningPolicy::Lru && isOld) futimens(file.get(), nullptr);
      return;
    }
  }
}

std::string DiskCache::publish(const support::Digest &key, const Artifact &artifact, const std::string &replaced) {
  if (!root) return {};
  std::vector<uint8_t> bytes = serialize(artifact);
  Footer footer{kMagic, bytes.size(), computeEntryDigest(bytes, bytes.size(), key)};
  std::string name = support::toHex(key), folder = name.substr(0, 2);
  mkdirat(root.get(), folder.c_str(), 0700);
  static std::atomic<unsigned> counter{0};
  // A folder may be shared by hosts, whose processes have equal numbers: random bits tell them apart.
  static const uint64_t token = [] {
    uint64_t bits = 0;
    return getentropy(&bits, sizeof bits) == 0 ? bits : uint64_t(time(nullptr));
  }();
  std::string temporary = folder + "/new." + std::to_string(token) + "." + std::to_string(getpid()) + "." + std::to_string(counter++);
  support::File file(openat(root.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  // The name of a variant is its digest: two processes that compiled the same code write the same file.
  std::string path = folder + "/" + name + "." + support::toHex(footer.digest).substr(0, 16);
  if (!file || !file.write(bytes.data(), bytes.size()) || !file.write(&footer, sizeof footer) ||
      renameat(root.get(), temporary.c_str(), root.get(), path.c_str()) != 0) {
    warnOnce("cannot be written", errno);
    unlinkat(root.get(), temporary.c_str(), 0);
    return {};
  }
  if (!replaced.empty() && replaced != path) unlinkat(root.get(), replaced.c_str(), 0);
  support::log(support::LogLevel::Debug, "cache: " + (artifact.kernel.empty() ? "a partition" : "kernel " + artifact.kernel) +
                                             " is stored as " + options.folder + kFolder + "/" + path + ", " +
                                             std::to_string(bytes.size()) + " bytes");
  ++published;
  held += int64_t(bytes.size() + sizeof footer);
  // The first publication removes what earlier processes left; later ones clean only at intervals, because a clean reads the status of
  // every entry.
  if (!hasCleaned || published == 16) clean();
  return path;
}

std::optional<CompileLock> DiskCache::tryLock(const support::Digest &key) {
  if (!root) return CompileLock();
  CompileLock file(openat(root.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Locks one byte of one file per key. The open file owns the lock: it also excludes other threads, and nothing needs to be removed later.
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  memcpy(&range.l_start, key.data(), sizeof range.l_start);
  range.l_start &= (int64_t(1) << 62) - 1;
  range.l_len = 1;
  if (file && fcntl(file.get(), F_OFD_SETLK, &range) != 0 && (errno == EAGAIN || errno == EACCES)) return std::nullopt;
  return file; // without locks in the file system, every process may compile
}

void DiskCache::clean() {
  published = 0;
  hasCleaned = true;
  if (options.policy == CleaningPolicy::Never) return;
  std::vector<Entry> entries;
  held = 0;
  for (Entry &entry : listEntries(root, ".", "")) {
    if (entry.getName() == "lock") continue;
    if (!entry.getName().starts_with("new.")) {
      held += entry.status.st_size;
      entries.push_back(std::move(entry));
    } else if (time(nullptr) - entry.status.st_mtime > kTouchInterval) {
      unlinkat(root.get(), entry.path.c_str(), 0); // its writer was killed
    }
  }
  if (options.policy == CleaningPolicy::Version || held <= options.maxBytes) return;
  auto wanted = int64_t(double(options.maxBytes) * (1 - std::clamp(options.cleaningFactor, 0.0, 1.0)));
  const int64_t before = held;
  for (const Entry &entry : entries) {
    if (held <= wanted) break;
    unlinkat(root.get(), entry.path.c_str(), 0);
    held -= entry.status.st_size;
  }
  support::log(support::LogLevel::Debug, "cache: " + options.folder + " held " + std::to_string(before) + " bytes, more than " +
                                             std::to_string(options.maxBytes) + "; " + std::to_string(held) + " are left");
}

} // namespace qd::artifact
