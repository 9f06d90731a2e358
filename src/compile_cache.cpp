// compile_cache.cpp: the disk caches that a running compilation uses
//
// In:   the frontend's module, or the bitcode of a partition.
// Out:  code of an earlier compilation, or nothing; compiled code is published under the same key.
// Here: launches look up whole kernels before the compiler is loaded (launch/specialize.cpp). These two caches serve what that cannot find.
#include "compile_cache.h"

#include "compile_options.h"
#include "ir/attributes.h"
#include "ir/dialect.h"

#include "llvm/Support/raw_ostream.h"

namespace qd {

static support::Digest computeKey(mlir::ModuleOp module, llvm::StringRef scope, const support::Options &options) {
  std::string text = scope.str();
  llvm::raw_string_ostream output(text);
  // Texts of failed checks contain source locations; if accesses or results are checked, every operation has such a text.
  passes::PipelineOptions checks = makePipelineOptions(options);
  bool wantsLocations =
      checks.checkBounds || checks.checkNans || checks.checkRaces || !options.getText(support::Option::line_tables).empty();
  module.print(output, wantsLocations ? mlir::OpPrintingFlags().enableDebugInfo() : mlir::OpPrintingFlags());
  module.walk([&](mlir::Operation *op) {
    if (mlir::isa<ir::PrintOp, ir::AssertOp>(op) || op->hasAttr(ir::kChecked)) output << op->getLoc();
  });
  return support::computeDigest(text);
}

CodeCache::CodeCache(mlir::ModuleOp module, llvm::StringRef scope, const support::Options &options)
    : cache(artifact::readCacheOptions(options)), key(computeKey(module, scope, options)) {}

/// Copies what the passes have found out about the inputs of the cached code.
static void copyFindings(const std::vector<artifact::Input> &from, std::vector<artifact::Input> &to) {
  for (size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
    to[i].isUnaliased = from[i].isUnaliased;
    to[i].isLoaded = from[i].isLoaded;
    to[i].isWritten = from[i].isWritten;
    to[i].read = from[i].read;
    to[i].written = from[i].written;
    to[i].manyAxes = from[i].manyAxes;
    to[i].fewAxes = from[i].fewAxes;
  }
}

bool CodeCache::find(artifact::Artifact &artifact) {
  bool isFound = false;
  cache.find(key, [&](artifact::Artifact &&found) {
    std::swap(artifact.kernel, found.kernel);
    copyFindings(found.inputs, artifact.inputs);
    std::swap(artifact.inputs, found.inputs);
    std::swap(artifact.dependencies, found.dependencies);
    artifact = std::move(found);
    return isFound = true;
  });
  return isFound;
}

/// Options of a cache that is never cleaned here: the kernel is published directly after its partitions, and cleans it for all of them.
static artifact::DiskCacheOptions readUncleanedOptions(const support::Options &options) {
  artifact::DiskCacheOptions result = artifact::readCacheOptions(options);
  result.policy = artifact::CleaningPolicy::Never;
  return result;
}

DiskObjects::DiskObjects(llvm::StringRef scope, const support::Options &options)
    : scope(support::computeDigest(scope)), cache(readUncleanedOptions(options)) {}

std::optional<llvm::SmallVector<char, 0>> DiskObjects::find(llvm::StringRef source) {
  std::lock_guard<std::mutex> lock(mutex);
  std::optional<llvm::SmallVector<char, 0>> object;
  cache.find(makeKey(source), [&](artifact::Artifact &&found) {
    object.emplace(found.binary.begin(), found.binary.end());
    return true;
  });
  return object;
}

void DiskObjects::publish(llvm::StringRef source, llvm::ArrayRef<char> object) {
  artifact::Artifact entry;
  entry.binary.assign(object.begin(), object.end());
  std::lock_guard<std::mutex> lock(mutex);
  cache.publish(makeKey(source), entry);
}

support::Digest DiskObjects::makeKey(llvm::StringRef source) const {
  support::Digest both[2] = {scope, support::computeDigest(source)};
  return support::computeDigest(both, sizeof both);
}

} // namespace qd
