// with_statements.cpp: `with` statements of kernels: blocks that do not wait for each other
//
// In:   the syntax node of a `with` statement.
// Out:  the ops of its body with the attribute kStreamBlock.
// Here: each block of qd.stream_parallel() and each section of qd.graph.parallel_context() gets a number. Tasks with different numbers may
//       run concurrently if their contexts are the same; tasks before and after the statement are ordered with all of them. Blocks inside
//       of a block or section get its number, so they run in order.
#include "frontend/builder.h"
#include "ir/attributes.h"

using namespace mlir;

namespace qd::frontend {

static constexpr llvm::StringLiteral kContext = "qd.graph.parallel_context()", kSection = "qd.graph.parallel()";

void WithStatements::visitWith(nb::handle at) {
  nb::object items = getAttribute(at, names().items);
  if (nb::len(items) != 1) fail(error::kSyntax, "'with' in Quadrants kernels only supports a single context manager");
  if (!getAttribute(nb::object(items[0]), nb::str("optional_vars")).is_none())
    fail(error::kSyntax, "'with ... as ...' is not supported in Quadrants kernels");
  nb::object call = getAttribute(nb::object(items[0]), nb::str("context_expr"));
  At here(context, call);
  if (kindOf(call) != NodeKind::Call) fail(error::kSyntax, "'with' in Quadrants kernels requires a call expression");
  nb::object callee = syntax().resolveCallee(getAttribute(call, names().func));
  std::string name = syntax().builtinName(callee);
  if (name == "stream_parallel") return visitStreamBlock(at, call);
  if (name == "checkpoint") return checkpoints().visitCheckpoint(at, call);
  if (name == "graph_parallel_context") return visitSections(at, call);
  if (name == "graph_parallel") return visitSection(at, call);
  fail(error::kSyntax, "'with' in Quadrants kernels only supports qd.stream_parallel(), qd.checkpoint(), " + kContext + " and " + kSection);
}

void WithStatements::visitBranch(nb::handle at) {
  mlir::Block &block = *builder.getInsertionBlock();
  Operation *before = block.empty() ? nullptr : &block.back();
  statements().visitBlock(getAttribute(at, names().body));
  int64_t context = nesting.sections == Sections::None ? 0 : contextCount;
  IntegerAttr number = builder.getI64IntegerAttr(context << 32 | ++blockCount);
  for (auto op = before ? std::next(before->getIterator()) : block.begin(); op != block.end(); ++op) op->setAttr(ir::kStreamBlock, number);
}

void WithStatements::visitStreamBlock(nb::handle at, nb::handle call) {
  requirePlainContext(call, "qd.stream_parallel()");
  if (nesting.runtimeDepth != 0)
    fail(error::kSyntax, "qd.stream_parallel() stands at the top of a kernel, not inside of 'if', 'for' or 'while'");
  Enter inside(context);
  nesting.isInStreamBlock = true;
  visitBranch(at);
}

void WithStatements::requirePlainContext(nb::handle call, llvm::StringRef name) {
  if (!context.isInKernel()) fail(error::kSyntax, name + " can only be used inside @qd.kernel, not @qd.func");
  if (nb::len(getAttribute(call, names().args)) + nb::len(getAttribute(call, names().keywords)) != 0)
    fail(error::kSyntax, name + " takes no arguments");
  nb::object callee = getAttribute(call, names().func);
  std::string spelled = toText(getAttribute(callee, kindOf(callee) == NodeKind::Name ? names().id : names().attr)).str();
  if (llvm::StringRef(spelled).starts_with("graph_"))
    session.warn("qd." + spelled + "() is deprecated and will be removed; use " + name + " instead.", PyExc_DeprecationWarning);
}

void WithStatements::visitSections(nb::handle at, nb::handle call) {
  requirePlainContext(call, kContext);
  if (!nb::cast<bool>(getAttribute(nb::borrow(session.request.source), names().is_graph)))
    fail(error::kSyntax, kContext + " requires @qd.kernel(graph=True)");
  if (nesting.sections != Sections::None || nesting.isInStreamBlock) fail(error::kSyntax, kContext + " regions cannot be nested");
  if (nesting.runtimeDepth != 0)
    fail(error::kSyntax, kContext + " must be at the kernel top level or directly in the body of qd.graph.do_while(), not inside of 'if', "
                                    "'for' or 'while'");
  Enter inside(context);
  nesting.sections = Sections::Around;
  ++contextCount;
  statements().visitBlock(getAttribute(at, names().body));
}

void WithStatements::visitSection(nb::handle at, nb::handle call) {
  requirePlainContext(call, kSection);
  if (nesting.sections == Sections::Inside) fail(error::kSyntax, kSection + " sections cannot be nested");
  if (nesting.sections == Sections::None)
    fail(error::kSyntax, kSection + " can only be used directly inside a qd.graph.parallel_context() block");
  Enter inside(context);
  nesting.sections = Sections::Inside;
  visitBranch(at);
}

void WithStatements::requireSection(nb::handle statement) {
  auto isCallOf = [&](nb::object call, llvm::StringRef name) {
    return kindOf(call) == NodeKind::Call && syntax().builtinName(syntax().resolveCallee(getAttribute(call, names().func))) == name;
  };
  switch (kindOf(statement)) {
  case NodeKind::Pass:
  case NodeKind::With: return;
  case NodeKind::For:
    if (isCallOf(getAttribute(statement, names().iter), "static")) return;
    break;
  case NodeKind::If:
    if (isCallOf(getAttribute(statement, names().test), "static")) return;
    break;
  case NodeKind::Expr:
    if (kindOf(getAttribute(statement, names().value)) == NodeKind::Constant) return;
    break;
  default: break;
  }
  fail(error::kSyntax, kContext + " may contain only 'with " + kSection + ":' blocks, and static loops and branches around them");
}

} // namespace qd::frontend
