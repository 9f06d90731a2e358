// disk_cache.h: compiled kernels on disk, for all processes of one user.
//
// Under a key lie any number of variants: artifacts that were compiled from the same code for other values of what the code looked at.
// A file is written once, under another name, and renamed: it is whole or it is not there. What is read is verified by its digest before
// anything is believed. Nothing here throws: a cache that does not work is one log line and a miss.
#pragma once

#include "artifact/artifact.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/options.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace qd::artifact {

enum class CleaningPolicy { Never, Version, Lru, Fifo };

struct DiskCacheOptions {
  std::string folder;
  int64_t maxBytes = 0;
  double cleaningFactor = 0.25; ///< part of maxBytes that a clean makes free
  CleaningPolicy policy = CleaningPolicy::Lru;
};

/// Held while a kernel is compiled, so that processes that want the same one wait for it. Released with the process at the latest.
using CompileLock = support::File;

class DiskCache {
public:
  explicit DiskCache(DiskCacheOptions options);
  /// Leaves the folder within its limit.
  ~DiskCache();
  DiskCache(const DiskCache &) = delete;

  /// Calls `visit` with the variants of a key, last used first, until it returns true.
  void find(const support::Digest &key, const std::function<bool(Artifact &&)> &visit);
  /// Adds a variant.
  void publish(const support::Digest &key, const Artifact &artifact);
  /// Tries to become the one that compiles the key; empty when another thread or process is at it.
  /// Where there is no folder to coordinate in, everybody may compile.
  std::optional<CompileLock> tryLock(const support::Digest &key);

private:
  void clean();
  void warnOnce(const std::string &problem, int error);

  DiskCacheOptions options;
  support::File root; ///< the folder; empty when it cannot be used
  bool hasWarned = false, hasCleaned = false;
  int published = 0; ///< since the last clean
};

/// The values of the options offline_cache_*; without a path quadrants/qdcache in $XDG_CACHE_HOME or ~/.cache.
DiskCacheOptions readCacheOptions(const support::Options &options);

} // namespace qd::artifact
