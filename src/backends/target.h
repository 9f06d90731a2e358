// target.h: the compiling half of a backend: lowered IR → binary. The running half is device.cpp in the same folder.
#pragma once

#include "artifact/artifact.h"
#include "passes/target_traits.h"
#include "support/options.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>

namespace mlir {
class ModuleOp;
}

namespace qd::codegen {
class GridTarget;
}

namespace qd::backends {

class Stages;

/// Stores compiled partitions of kernels; the key is their LLVM bitcode. Several threads use it.
class ObjectStore {
public:
  virtual ~ObjectStore() = default;
  virtual std::optional<llvm::SmallVector<char, 0>> find(llvm::StringRef source) = 0;
  virtual void publish(llvm::StringRef source, llvm::ArrayRef<char> object) = 0;
};

/// What a compile has built on its way. It takes a while to destroy, which no caller waits for.
struct Leftovers {
  virtual ~Leftovers() = default;
};

struct TargetOptions {
  bool fastMath = true;
  bool parallel = true;
  bool verify = false;                             ///< run LLVM's verifier on the emitted IR
  int optLevel = 1;                                ///< 0 compiles fastest
  unsigned threads = 1;                            ///< maximum number of threads that compile partitions of one kernel
  int lanes = 0;                                   ///< lanes of every parallel loop; 0: chosen for each loop
  int blockSize = 128;                             ///< threads per block if the loop sets no size; targets with grids
  int maxThreads = INT32_MAX;                      ///< per block, if the target allows more
  int64_t pieceSize = 0;                           ///< approximate number of operations per function; 0: unlimited
  bool lineTables = false;                         ///< include the lines of the user's source in the binary
  bool timed = false;                              ///< kernels report the end of each task to the profiler
  int64_t stackBytes = 0;                          ///< of each thread, which recursive calls check; 0: they do not. Targets with grids
  std::string symbol;                              ///< another name of the entry; targets without grids
  ObjectStore *objects = nullptr;                  ///< null: nothing is stored
  std::unique_ptr<Leftovers> *leftovers = nullptr; ///< gets what can be destroyed later; null: it is destroyed at once
};

class Target {
public:
  virtual ~Target() = default;
  virtual const passes::TargetTraits &getTraits() const = 0;
  /// The instructions for grids of threads; null exactly if the traits say that there are no grids.
  virtual const codegen::GridTarget *getGrid() const { return nullptr; }
  /// Bytes of a thread's stack, where recursive calls of a grid are to be checked and the stack grows down; else 0.
  virtual int64_t getStackBytes(const support::Options &) const { return 0; }
  /// Of exported files, and whether their code is text.
  virtual const char *getFileSuffix() const { return ".so"; }
  virtual bool isText() const { return false; }
  /// Sets the artifact's members that code generation produces: backend, binary, sites, scratchBytes, results, hasPrint. Errors are
  /// diagnostics of the module's context. Success without a binary means that `stages` stopped.
  virtual mlir::LogicalResult emit(mlir::ModuleOp module, const TargetOptions &options, Stages &stages,
                                   artifact::Artifact &artifact) const = 0;
};

/// Target of a backend by its name in backends.def ("cpu" is this processor), or "x64" or "arm64": another processor of this architecture.
/// `processor`, or the text after a colon in the name, is LLVM's name of the processor. Null for any other name.
std::unique_ptr<Target> findTarget(llvm::StringRef name, llvm::StringRef processor = "");

} // namespace qd::backends
