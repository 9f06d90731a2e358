// test_passes.cpp: passes for tests/ir
//
// In:   a module.
// Out:  the results of an analysis as the attributes `test.read`, `test.written` and `test.bounds`, or the transformed module.
// Here: the compiler runs these analyses and transformations only as parts of its passes.
#include "tools/test_passes.h"

#include "artifact/artifact.h"
#include "ir/dialect.h"
#include "passes/accessed_regions.h"
#include "passes/autodiff/remove_dead.h"
#include "passes/launch_exprs.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;

namespace qd::tools {

namespace {

/// A launch expression in infix notation; arguments are named by their offsets.
std::string print(const artifact::LaunchExpr &number) {
  using Kind = artifact::LaunchExpr::Step::Kind;
  if (!number.isKnown()) return "?";
  SmallVector<std::string> stack;
  for (const artifact::LaunchExpr::Step &step : number.steps) {
    if (step.kind == Kind::Constant || step.kind == Kind::Argument) {
      stack.push_back((step.kind == Kind::Argument ? "arg" : "") + std::to_string(step.value));
      continue;
    }
    std::string right = stack.pop_back_val(), left = stack.pop_back_val();
    static constexpr const char *kNames[] = {"+", "-", "*", "/", "min", "max"};
    stack.push_back("(" + left + " " + kNames[int(step.kind) - int(Kind::Add)] + " " + right + ")");
  }
  return stack.back();
}

std::string print(const artifact::Region &region) {
  if (region.isEmpty) return "nothing";
  if (region.axes.empty()) return "anything";
  std::string text;
  for (const artifact::Region::Axis &axis : region.axes) text += (text.empty() ? "" : ", ") + print(axis.first) + " to " + print(axis.last);
  return text;
}

template <typename Derived> struct TestPass : PassWrapper<Derived, OperationPass<ModuleOp>> {
  StringRef getArgument() const override { return Derived::kName; }
  StringRef getDescription() const override { return "for tests"; }
};

struct RemoveDead : TestPass<RemoveDead> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RemoveDead)
  static constexpr const char *kName = "test-remove-dead";
  void runOnOperation() override { passes::removeDead(getOperation()); }
};

struct LaunchExpressions : TestPass<LaunchExpressions> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LaunchExpressions)
  static constexpr const char *kName = "test-launch-expressions";
  void runOnOperation() override {
    getOperation().walk([](ir::ForOp loop) {
      std::string text;
      for (auto [lower, upper] : llvm::zip(loop.getLower(), loop.getUpper()))
        text += (text.empty() ? "" : ", ") + print(passes::findLaunchExpr(lower)) + " to " + print(passes::findLaunchExpr(upper));
      loop->setAttr("test.bounds", StringAttr::get(loop.getContext(), text));
    });
  }
};

struct AccessedRegions : TestPass<AccessedRegions> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AccessedRegions)
  static constexpr const char *kName = "test-accessed-regions";
  void runOnOperation() override {
    artifact::Artifact artifact;
    SmallVector<ir::TensorArgumentOp> arguments;
    getOperation().walk([&](ir::TensorArgumentOp argument) {
      artifact::Input input;
      input.kind = artifact::Input::Kind::Tensor;
      input.offset = argument.getOffset();
      input.isWritten = true;
      artifact.inputs.push_back(input);
      arguments.push_back(argument);
    });
    passes::findAccessedRegions(getOperation(), artifact);
    for (auto [argument, input] : llvm::zip(arguments, artifact.inputs)) {
      argument->setAttr("test.read", StringAttr::get(&getContext(), print(input.read)));
      argument->setAttr("test.written", StringAttr::get(&getContext(), print(input.written)));
    }
  }
};

} // namespace

void registerTestPasses() {
  PassRegistration<RemoveDead>();
  PassRegistration<LaunchExpressions>();
  PassRegistration<AccessedRegions>();
}

} // namespace qd::tools
