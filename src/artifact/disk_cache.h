// disk_cache.h: compiled kernels on disk, shared by all processes of one user
//
// A key has any number of variants: artifacts that were compiled from the same code for different dependencies. A file is written once,
// under a temporary name, and renamed, so that it is never seen incomplete. Its digest is verified before its contents are used. No
// function throws: a cache that does not work causes one log line and a miss.
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
  double cleaningFactor = 0.25; ///< fraction of maxBytes that a clean frees
  CleaningPolicy policy = CleaningPolicy::Lru;
};

/// Held while a kernel is compiled, so that processes that need the same one wait for it. Released at the latest when the process ends.
using CompileLock = support::File;

class DiskCache {
public:
  explicit DiskCache(DiskCacheOptions options);
  /// Cleans the folder down to its limit, if it is above.
  ~DiskCache();
  DiskCache(const DiskCache &) = delete;

  /// Calls `visit` with the variants of a key, most recently used first, until it returns true.
  void find(const support::Digest &key, const std::function<bool(Artifact &&)> &visit);
  /// Adds a variant, in place of one that was added before. Returns its path in the folder; empty: it could not be written.
  std::string publish(const support::Digest &key, const Artifact &artifact, const std::string &replaced = {});
  /// Tries to lock the key for compilation; empty when another thread or process compiles it. Without a usable folder, every process may
  /// compile.
  std::optional<CompileLock> tryLock(const support::Digest &key);

private:
  void clean();
  void warnOnce(const std::string &problem, int error);

  DiskCacheOptions options;
  support::File root; ///< the folder; empty when it is not usable
  bool hasWarned = false, hasCleaned = false;
  int published = 0; ///< since the last clean
  int64_t held = 0;  ///< bytes that the last clean left, and those published since
};

/// Reads the options offline_cache_*; the default path is quadrants/qdcache in $XDG_CACHE_HOME or ~/.cache.
DiskCacheOptions readCacheOptions(const support::Options &options);

} // namespace qd::artifact
