// target.cpp: the CPU target: lowered IR → LLVM IR → shared library
#include "backends/cpu/target.h"

#include "backends/cpu/abandonable.h"
#include "backends/cpu/object.h"
#include "backends/cpu/optimise.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/processor.h"
#include "backends/stages.h"
#include "codegen/llvm/emit.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <stdexcept>

namespace qd::backends::cpu {
namespace {

class CpuTarget : public Target {
public:
  explicit CpuTarget(Processor processor) : processor(std::move(processor)) {}

  const passes::TargetTraits &getTraits() const override { return processor.traits; }

  mlir::LogicalResult emit(mlir::ModuleOp source, const TargetOptions &options, Stages &stages,
                           artifact::Artifact &artifact) const override {
    Abandonable ownedContext(std::make_unique<llvm::LLVMContext>());
    llvm::LLVMContext &ctx = *ownedContext;
    // Names are for people who read dumps.
    ctx.setDiscardValueNames(!stages.isWatched() && options.replay.empty());
    codegen::Emission emission = codegen::emitModule(source, ctx, processor.traits, {options.fastMath, options.parallel, options.lanes});
    if (!emission.module) return mlir::failure();
    if (!options.replay.empty() && mlir::failed(replay(source, options.replay, ctx, emission.module))) return mlir::failure();
    Abandonable ownedModule(std::move(emission.module));
    llvm::Module &module = *ownedModule;
    std::string problems;
    llvm::raw_string_ostream problemStream(problems);
    if (options.verify && llvm::verifyModule(module, &problemStream)) throw std::runtime_error("the emitted code is broken: " + problems);
    artifact.sites = std::move(emission.sites);
    artifact.scratchBytes = emission.scratchBytes;
    artifact.results = std::move(emission.results);
    artifact.resultBytes = emission.resultBytes;
    artifact.hasPrint = emission.hasPrint;
    if (!stages.finish("3_llvm.ll", [&](llvm::raw_ostream &output) { module.print(output, nullptr); })) return mlir::success();

    Abandonable machine(makeTargetMachine(processor, options.optLevel));
    setProcessor(module, processor, *machine);
    if (llvm::Error error = linkDeviceLibrary(module, emission.devlibLanes)) return source.emitError(llvm::toString(std::move(error)));
    setProcessor(module, processor, *machine);
    stages.finish("device library");
    // Who looks at the stages sees the module in one piece.
    unsigned parts = stages.isWatched() ? 1 : choosePartCount(module, options.threads);
    auto objects = parts > 1 ? compileParts(module, processor, options.optLevel, parts) : compileWhole(module, *machine, options, stages);
    if (!objects) return source.emitError(llvm::toString(objects.takeError()));
    if (stages.isStopped()) return mlir::success();
    auto library = linkSharedLibrary(*objects);
    if (!library) return source.emitError(llvm::toString(library.takeError()));
    stages.finish(parts > 1 ? "parts and lld" : "lld");
    artifact.backend = "cpu";
    artifact.binary = std::move(*library);
    return mlir::success();
  }

private:
  /// One object of the whole module, all stages dumped. None when the stages stop.
  llvm::Expected<std::vector<Object>> compileWhole(llvm::Module &module, llvm::TargetMachine &machine, const TargetOptions &options,
                                                   Stages &stages) const {
    std::vector<Object> objects;
    optimise(module, machine, options.optLevel);
    if (!stages.finish("3_optimised.ll", [&](llvm::raw_ostream &output) { module.print(output, nullptr); })) return objects;
    if (stages.wants("asm")) {
      auto assembly = emitAssembly(module, options);
      if (!assembly) return assembly.takeError();
      if (!stages.finish("4_asm.s", [&](llvm::raw_ostream &output) { output << getText(*assembly); })) return objects;
    }
    auto object = emitObject(module, machine, OutputKind::Object);
    if (!object) return object.takeError();
    (void)stages.finish("4_object.o", [&](llvm::raw_ostream &output) { output << getText(*object); });
    objects.push_back(std::move(*object));
    return objects;
  }

  static llvm::StringRef getText(const Object &object) { return {object.data(), object.size()}; }

  /// Instruction selection changes the module, so it gets a copy here.
  llvm::Expected<Object> emitAssembly(const llvm::Module &module, const TargetOptions &options) const {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    return emitObject(*copy, *makeTargetMachine(processor, options.optLevel), OutputKind::Assembly);
  }

  static mlir::LogicalResult replay(mlir::ModuleOp source, const std::string &path, llvm::LLVMContext &ctx,
                                    std::unique_ptr<llvm::Module> &module) {
    llvm::SMDiagnostic error;
    module = llvm::parseIRFile(path, error, ctx);
    if (!module) return source.emitError(path + ": " + error.getMessage());
    return mlir::success();
  }

  Processor processor;
};

} // namespace

std::unique_ptr<Target> makeTarget(Processor processor) { return std::make_unique<CpuTarget>(std::move(processor)); }

} // namespace qd::backends::cpu
