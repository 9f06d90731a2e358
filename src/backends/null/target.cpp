// target.cpp: the null target, which compiles up to LLVM IR and makes no binary (for tests and dumps)
//
// In:   a lowered module.
// Out:  dumps; an artifact without a binary.
#include "backends/steps.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace qd::backends::null {
namespace {

class NullTarget : public Target {
public:
  const passes::TargetTraits &getTraits() const override { return traits; }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    llvm::LLVMContext ctx;
    if (!emitLlvm(source, ctx, *this, options, stages, artifact)) return mlir::failure();
    artifact.backend = "null";
    return mlir::success();
  }

private:
  passes::TargetTraits traits;
};

} // namespace

std::unique_ptr<Target> makeTarget(llvm::StringRef /*processor*/) { return std::make_unique<NullTarget>(); }

} // namespace qd::backends::null
