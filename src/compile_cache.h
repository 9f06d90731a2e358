// compile_cache.h: what a compilation looks up on disk: code by the frontend's IR, and objects of partitions
#pragma once

#include "artifact/disk_cache.h"
#include "backends/target.h"

#include "mlir/IR/BuiltinOps.h"

#include <mutex>

namespace qd {

/// Caches code on disk for kernels whose compile runs Python code of the user. The launcher cannot compute a key for those, so the key is
/// the frontend's IR. `scope` is the part of all keys that does not depend on the kernel.
class CodeCache {
public:
  CodeCache(mlir::ModuleOp module, llvm::StringRef scope, const support::Options &options);

  /// Takes the code of the artifact from the cache; all other members come from the frontend.
  bool find(artifact::Artifact &artifact);
  void publish(const artifact::Artifact &artifact) { cache.publish(key, artifact); }

private:
  artifact::DiskCache cache;
  support::Digest key;
};

/// Stores the objects of partitions on disk, beside the kernels. After an edit of one task the others' objects are found here.
class DiskObjects : public backends::ObjectStore {
public:
  DiskObjects(llvm::StringRef scope, const support::Options &options);

  std::optional<llvm::SmallVector<char, 0>> find(llvm::StringRef source) override;
  void publish(llvm::StringRef source, llvm::ArrayRef<char> object) override;

private:
  support::Digest makeKey(llvm::StringRef source) const;

  support::Digest scope;
  artifact::DiskCache cache;
  std::mutex mutex;
};

} // namespace qd
