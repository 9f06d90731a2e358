// steps.h: the steps from emitted LLVM IR to machine code that targets share. A failure here is a bug of ours: a std::runtime_error.
#pragma once

#include "backends/leak_on_cancel.h"
#include "backends/stages.h"
#include "backends/target.h"
#include "support/emergency_pool.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <atomic>
#include <stdexcept>

namespace qd::backends {

/// Makes LLVM skip all optional passes once the compile is abandoned or memory ran out. An LLVMContext refers to it.
class CancelGate final : public llvm::OptPassGate {
public:
  explicit CancelGate(const std::atomic<bool> &isAbandoned) : isAbandoned(isAbandoned) {}
  bool isEnabled() const override { return isAbandoned.load(std::memory_order_relaxed) || memory.ranOut(); }
  bool shouldRunPass(llvm::StringRef, llvm::StringRef) const override { return !isEnabled(); }

private:
  const std::atomic<bool> &isAbandoned;
  support::MemoryWatch memory;
};

/// What the `emit` of each target begins with: a module in LLVM IR, emitted or read from its replacement, and its context.
class Emission {
public:
  Emission(mlir::ModuleOp source, const Target &target, const TargetOptions &options, Stages &stages, artifact::Artifact &artifact,
           std::unique_ptr<llvm::DiagnosticHandler> handler = nullptr);
  ~Emission();

  /// Whether there is nothing to go on with: after an error, or because the stages stop here.
  bool isOver() const { return !code->module || stages.isStopped(); }
  mlir::LogicalResult getResult() const { return mlir::success(bool(code->module)); }
  llvm::Module &getModule() const { return *code->module; }
  CancelGate &getGate() { return code->gate; }
  /// Ends the stage after which the module is selected. False if compilation stops there.
  bool finishOptimizing();

private:
  struct Code : Leftovers {
    CancelGate gate;
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module;
    explicit Code(const std::atomic<bool> &isAbandoned) : gate(isAbandoned) {}
  };

  Stages &stages;
  std::unique_ptr<Leftovers> *leftovers;
  LeakOnCancel<Code> code;
};

/// Computes sine and cosine of one angle by one routine.
void pairSines(llvm::Module &module);
/// Links the routines of the device library that the module calls. `locals`: the address space to which their locals are moved.
void linkDeviceLibrary(llvm::Module &module, unsigned locals = 0);
/// Marks the parts of its routines that are rarely needed to be inlined, as long as they do not add too many instructions.
void inlineRareParts(llvm::Module &module);

/// Optimizes IR before instruction selection.
void optimize(llvm::Module &module, llvm::TargetMachine &machine, int optLevel);
/// The same for a target without a code generator of LLVM. `isGpu`: loops whose length is not known are unrolled, too.
void optimize(llvm::Module &module, const llvm::TargetIRAnalysis &costs, bool isGpu, int optLevel);

/// Registers analyses of LLVM that have no arguments.
template <typename... Analyses, typename Manager> void registerAnalyses(Manager &manager) {
  (manager.registerPass([] { return Analyses(); }), ...);
}

/// Replaces generic pointers by those of the address space to which they point.
void inferAddressSpaces(llvm::Module &module, const llvm::TargetIRAnalysis &costs);
/// Raises the alignment of accesses to what is known of their addresses, so that the code generator of a GPU joins neighboring ones.
void inferAlignments(llvm::Module &module, const llvm::TargetIRAnalysis &costs);

/// Makes the functions of a module ones for this machine, and takes over its triple and data layout.
void setMachine(llvm::Module &module, const llvm::TargetMachine &machine);

using Object = llvm::SmallVector<char, 0>;

/// One of LLVM's code generators, for one compile at a time.
class CodeGenerator {
public:
  /// `device` and `features` in LLVM's words. The triple's target must be registered.
  CodeGenerator(const llvm::Triple &triple, llvm::StringRef device, llvm::StringRef features, int optLevel);
  ~CodeGenerator();
  CodeGenerator(const CodeGenerator &) = delete;
  CodeGenerator &operator=(const CodeGenerator &) = delete;

  llvm::TargetMachine &operator*() const;
  llvm::TargetMachine *operator->() const { return &**this; }
  /// Selects instructions; this changes the module.
  Object emit(llvm::Module &module, llvm::CodeGenFileType type);

private:
  class Passes;
  struct Parts;
  struct Kept;
  std::string key;
  std::unique_ptr<Parts> parts;
  int exceptions = std::uncaught_exceptions();
  support::MemoryWatch memory;
};

/// Links all objects to one shared library, by lld inside the process. `flags`: further words of lld's command line.
std::vector<uint8_t> linkSharedLibrary(llvm::ArrayRef<Object> objects, llvm::ArrayRef<std::string> flags);

/// Returns the value, or throws LLVM's error as an exception.
template <typename T> T take(llvm::Expected<T> result) {
  if (!result) throw std::runtime_error(llvm::toString(result.takeError()));
  return std::move(*result);
}

} // namespace qd::backends
