// builder.cpp: the kernel itself
//
// In:   the source of a kernel and a Session.
// Out:  one qd.kernel with all its statements; funcs that it calls are emitted by builders of their own (calls/functions.cpp).
#include "frontend/builder.h"

using namespace mlir;

namespace qd::frontend {

FunctionPart::FunctionPart(FunctionBuilder &function)
    : function(function), context(function.context), session(context.session), builder(context.builder), scopes(context.scopes),
      nesting(context.nesting), emitter(function.emitter), conversions(function.conversions) {}

FunctionBuilder::FunctionBuilder(Session &session, nb::object source, PythonObject function, FunctionContext *caller)
    : context(session, source, std::move(function), caller) {
  syntax.collectAssignments();
  session.current = &context; // last, because no destructor resets it if the constructor throws
}

void FunctionBuilder::buildKernel() {
  Session &session = context.session;
  OpBuilder &builder = context.builder;
  const FunctionSource &source = context.source;
  const auto &names = session.python.names;
  context.results.types = session.request.results ? nb::borrow(session.request.results) : nb::none();
  OpBuilder atModule = OpBuilder::atBlockEnd(session.module->getBody());
  std::vector<Type> results = signature.listResultTypes();
  auto typeAttributes = llvm::map_to_vector(results, [](Type type) -> Attribute { return TypeAttr::get(type); });
  ++session.functions.symbolCounts[source.name]; // a func may have the kernel's name
  ir::KernelOp kernel = ir::KernelOp::create(atModule, context.loc(), llvm::StringRef(source.name), uint32_t(0), uint32_t(0),
                                             atModule.getArrayAttr(typeAttributes));
  kernel.getBody().emplaceBlock();
  context.body = std::make_shared<Body>();
  context.body->entry = &kernel.getBody().front();
  builder.setInsertionPointToStart(context.body->entry);
  context.role.isKernelLevel = true;
  context.scopes.push();
  signature.bindKernelParameters();
  context.scopes.push();
  if (session.hasCheckpoints()) checkpoints.begin();
  statements.visitBody(getAttribute(source.tree, names.body));
  session.throwMistakes();
  if (!context.results.types.is_none() && !context.isTerminated) {
    context.node = source.tree;
    context.cachedLoc = {};
    session.fail(error::kSyntax, "Kernel has a return type but does not have a return statement" +
                                     llvm::Twine(context.results.returns.empty() ? "" : " on every path"));
  }
  if (session.checkpoints) checkpoints.finish();
  context.scopes.pop();
  context.scopes.pop();
  kernel.setArgumentBytes(session.artifact.argumentBytes);
  // A container that is reached by two paths may overlap other inputs.
  for (auto [op, input] : session.tensorArguments)
    if (session.tracker.getInput(input).mayAlias) op.setField(false);
}

} // namespace qd::frontend
