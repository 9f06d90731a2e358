// target.h: the compile half of a backend: lowered IR → binary. The run half is device.cpp of the same folder.
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

/// Keeps what partitions of kernels were compiled to, under what they were compiled from. Used from several threads.
class ObjectStore {
public:
  virtual ~ObjectStore() = default;
  virtual std::optional<llvm::SmallVector<char, 0>> find(llvm::StringRef source) = 0;
  virtual void publish(llvm::StringRef source, llvm::ArrayRef<char> object) = 0;
};

struct TargetOptions {
  bool fastMath = true;
  bool parallel = true;
  bool verify = false;            ///< LLVM's verifier on what the emitter made
  int optLevel = 1;               ///< 0 compiles fastest
  unsigned threads = 1;           ///< that may compile partitions of one kernel
  int lanes = 0;                  ///< lanes of every parallel loop; 0: chosen for each loop
  int blockSize = 128;            ///< threads of a block where the loop does not say; targets with grids
  int maxThreads = 1024;          ///< of a block
  int64_t pieceSize = 0;          ///< operations of a function, roughly; 0: any number
  bool lineTables = false;        ///< the lines of the user's source are in the binary
  std::string replay;             ///< .ll file that takes the place of the emitted LLVM IR, or .s file of what is made of it for a GPU
  ObjectStore *objects = nullptr; ///< null: nothing is kept
};

class Target {
public:
  virtual ~Target() = default;
  virtual const passes::TargetTraits &getTraits() const = 0;
  /// Fills in what the artifact has after code generation: backend, binary, sites, scratchBytes, results, hasPrint. Errors are diagnostics
  /// of the module's context. Success without a binary means that `stages` stopped.
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

/// "cpu" (this processor), "x64" or "arm64" (some processor of that kind), "cuda", "null"; `cpu`, or what follows the name after a colon
/// ("cuda:sm_90"), names the processor as LLVM does. Null for any other name.
std::unique_ptr<Target> findTarget(llvm::StringRef name, llvm::StringRef cpu = "");

} // namespace qd::backends
