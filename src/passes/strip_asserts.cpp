// strip_asserts.cpp: removes the user's assertions, which have no effect outside debug mode
#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace qd::passes {
#define GEN_PASS_DEF_STRIPASSERTS
#include "passes/passes.h.inc"

namespace {

struct StripAssertsPass : impl::StripAssertsBase<StripAssertsPass> {
  void runOnOperation() override {
    getOperation().walk([](ir::AssertOp op) { op.erase(); });
  }
};

} // namespace

} // namespace qd::passes
