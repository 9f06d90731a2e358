// target.cpp: the null target, which compiles up to LLVM IR and makes no binary (for tests and dumps)
//
// In:   a lowered module.
// Out:  dumps; an artifact without a binary.
#include "backends/steps.h"

#include "mlir/IR/BuiltinOps.h"

namespace qd::backends::null {
namespace {

class NullTarget : public Target {
public:
  const passes::TargetTraits &getTraits() const override { return traits; }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    artifact.backend = "null";
    return Emission(source, *this, options, stages, artifact).getResult();
  }

private:
  passes::TargetTraits traits;
};

} // namespace

std::unique_ptr<Target> makeTarget(llvm::StringRef /*processor*/) { return std::make_unique<NullTarget>(); }

} // namespace qd::backends::null
