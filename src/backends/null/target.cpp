#include "backends/target.h"
#include "backends/stages.h"
#include "codegen/llvm/emit.h"

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
    std::unique_ptr<llvm::Module> module =
        codegen::emitModule(source, ctx, traits, {options.fastMath, options.parallel, options.lanes}, artifact);
    if (!module) return mlir::failure();
    artifact.backend = "null";
    stages.finish("3_llvm.ll", [&](llvm::raw_ostream &output) { module->print(output, nullptr); });
    return mlir::success();
  }

private:
  passes::TargetTraits traits;
};

} // namespace

std::unique_ptr<Target> makeTarget() { return std::make_unique<NullTarget>(); }

} // namespace qd::backends::null
