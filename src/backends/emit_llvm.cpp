// emit_llvm.cpp: lowered IR → LLVM IR, with the stage's dump, its replacement by the option replay, and LLVM's verifier
//
// In:   a lowered module, and the target.
// Out:  a verified LLVM module, with its context, and the artifact's members that code generation determines; no module after an error.
#include "backends/stages.h"
#include "backends/steps.h"
#include "codegen/llvm/emit.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"

namespace qd::backends {

static std::unique_ptr<llvm::Module> emitLlvm(mlir::ModuleOp source, llvm::LLVMContext &ctx, const Target &target,
                                              const TargetOptions &options, Stages &stages, artifact::Artifact &artifact) {
  stages.begin("LLVM IR");
  llvm::StringRef edited = stages.findReplay(".ll");
  // Only dumps need names.
  ctx.setDiscardValueNames(!stages.wantsDumps() && edited.empty());
  codegen::EmitOptions emitOptions{options.fastMath,  options.parallel,   options.lanes, options.blockSize, options.maxThreads,
                                   options.pieceSize, options.lineTables, options.timed, options.stackBytes};
  std::unique_ptr<llvm::Module> module = codegen::emitModule(source, ctx, target.getTraits(), target.getGrid(), emitOptions, artifact);
  if (!module) return nullptr;
  if (!edited.empty()) {
    llvm::SMDiagnostic error;
    module = llvm::parseIRFile(edited, error, ctx);
    if (!module) throw std::runtime_error(edited.str() + ": " + error.getMessage().str());
  }
  std::string problems;
  llvm::raw_string_ostream problemStream(problems);
  if (options.verify && llvm::verifyModule(*module, &problemStream)) throw std::runtime_error("the emitted code is broken: " + problems);
  stages.finish("3_llvm.ll", [&](llvm::raw_ostream &output) { module->print(output, nullptr); });
  return module;
}

Emission::Emission(mlir::ModuleOp source, const Target &target, const TargetOptions &options, Stages &stages, artifact::Artifact &artifact,
                   std::unique_ptr<llvm::DiagnosticHandler> handler)
    : stages(stages), leftovers(options.leftovers), code(std::make_unique<Code>(stages.isAbandoned())) {
  if (handler) code->context.setDiagnosticHandler(std::move(handler));
  code->context.setOptPassGate(code->gate);
  code->module = emitLlvm(source, code->context, target, options, stages, artifact);
}

Emission::~Emission() {
  if (std::unique_ptr<Code> unused = code.take(); leftovers) *leftovers = std::move(unused);
}

bool Emission::finishOptimizing() {
  return stages.finish("3_optimized.ll", [&](llvm::raw_ostream &output) { code->module->print(output, nullptr); });
}

} // namespace qd::backends
