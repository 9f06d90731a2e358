// strip_asserts.cpp: remove the user's assertions outside debug mode
//
// In:   the frontend's IR.
// Out:  the same without assertions, except those marked kAlways.
// Here: before tasks are split: values that only an assertion uses would otherwise cross tasks.
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
