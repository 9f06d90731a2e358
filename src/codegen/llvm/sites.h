// sites.h: prints, assertions and checks
#pragma once

#include "codegen/llvm/launch_access.h"
#include "codegen/llvm/value_map.h"

namespace qd::codegen {

class Sites : EmitterPart {
public:
  Sites(LaneBuilder &in, LaunchAccess &launch, ValueMap &values) : EmitterPart(in), launch(launch), values(values) {}

  void emitPrint(ir::PrintOp op);
  void emitAssert(ir::AssertOp op);
  void emitClaim(ir::ClaimOp op);
  /// Ends the launch if `failing` holds, with the message of the site of `op`; `failing` is uniform.
  void failWhen(llvm::Value *failing, const llvm::Twine &name, mlir::Operation *op);

  llvm::SmallVector<mlir::Operation *, 4> inlinedCalls; ///< calls whose functions are being inlined, outermost first

private:
  llvm::Value *packOperands(mlir::ValueRange operands, llvm::Value *lane);
  void callSite(ApiField field, int site, mlir::ValueRange operands, llvm::Value *lane);

  LaunchAccess &launch;
  ValueMap &values;
};

} // namespace qd::codegen
