// emit_llvm.cpp: lowered IR → LLVM IR, with the stage's dump, its replacement by the option replay, and LLVM's verifier
#include "backends/stages.h"
#include "backends/steps.h"
#include "codegen/llvm/emit.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"

namespace qd::backends {

std::unique_ptr<llvm::Module> emitLlvm(mlir::ModuleOp source, llvm::LLVMContext &ctx, const passes::TargetTraits &traits,
                                       const TargetOptions &options, Stages &stages, artifact::Artifact &artifact) {
  stages.begin("LLVM IR");
  bool isReplayed = llvm::StringRef(options.replay).ends_with(".ll");
  // Only dumps need names.
  ctx.setDiscardValueNames(!stages.wantsDumps() && !isReplayed);
  codegen::EmitOptions emitOptions{options.fastMath,   options.parallel,  options.lanes,     options.blockSize,
                                   options.maxThreads, options.pieceSize, options.lineTables};
  std::unique_ptr<llvm::Module> module = codegen::emitModule(source, ctx, traits, emitOptions, artifact);
  if (!module) return nullptr;
  if (isReplayed) {
    llvm::SMDiagnostic error;
    module = llvm::parseIRFile(options.replay, error, ctx);
    if (!module) throw std::runtime_error(options.replay + ": " + error.getMessage().str());
  }
  std::string problems;
  llvm::raw_string_ostream problemStream(problems);
  if (options.verify && llvm::verifyModule(*module, &problemStream)) throw std::runtime_error("the emitted code is broken: " + problems);
  stages.finish("3_llvm.ll", [&](llvm::raw_ostream &output) { module->print(output, nullptr); });
  return module;
}

} // namespace qd::backends
