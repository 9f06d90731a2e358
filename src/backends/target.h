// target.h: the compiling half of a backend: lowered IR → binary. The running half is device.cpp in the same folder.
#pragma once

#include "artifact/artifact.h"
#include "passes/target_traits.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <optional>

namespace mlir {
class ModuleOp;
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

struct TargetOptions {
  bool fastMath = true;
  bool parallel = true;
  bool verify = false;            ///< run LLVM's verifier on the emitted IR
  int optLevel = 1;               ///< 0 compiles fastest
  unsigned threads = 1;           ///< maximum number of threads that compile partitions of one kernel
  int lanes = 0;                  ///< lanes of every parallel loop; 0: chosen for each loop
  int blockSize = 128;            ///< threads per block if the loop sets no size; targets with grids
  int maxThreads = 1024;          ///< per block
  int64_t pieceSize = 0;          ///< approximate number of operations per function; 0: unlimited
  bool lineTables = false;        ///< include the lines of the user's source in the binary
  std::string replay;             ///< .ll file that replaces the emitted LLVM IR, or (GPUs) .s file that replaces the generated assembly
  ObjectStore *objects = nullptr; ///< null: nothing is stored
};

class Target {
public:
  virtual ~Target() = default;
  virtual const passes::TargetTraits &getTraits() const = 0;
  /// Sets the artifact's members that code generation produces: backend, binary, sites, scratchBytes, results, hasPrint. Errors are
  /// diagnostics of the module's context. Success without a binary means that `stages` stopped.
  virtual mlir::LogicalResult emit(mlir::ModuleOp module, const TargetOptions &options, Stages &stages,
                                   artifact::Artifact &artifact) const = 0;
};

namespace null {
/// Compiles up to LLVM IR and makes no binary.
std::unique_ptr<Target> makeTarget();
} // namespace null

namespace cuda {
/// PTX for a device of this compute capability: "sm_90".
std::unique_ptr<Target> makeTarget(llvm::StringRef capability);
} // namespace cuda

/// Target for "cpu" (this processor), "x64" or "arm64" (another processor of this architecture), "cuda" or "null". `cpu`, or the text after
/// a colon in the name ("cuda:sm_90"), is LLVM's name of the processor. Null for any other name.
std::unique_ptr<Target> findTarget(llvm::StringRef name, llvm::StringRef cpu = "");

} // namespace qd::backends
