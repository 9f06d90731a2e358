// strip_asserts.cpp: removes the assertions that have no effect outside debug mode
#include "ir/attributes.h"
#include "ir/dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace qd::passes {
#define GEN_PASS_DEF_STRIPASSERTS
#include "passes/passes.h.inc"

namespace {

struct StripAssertsPass : impl::StripAssertsBase<StripAssertsPass> {
  void runOnOperation() override {
    getOperation().walk([](ir::AssertOp op) {
      if (!op->hasAttr(ir::kAlways)) op.erase();
    });
  }
};

} // namespace

} // namespace qd::passes
