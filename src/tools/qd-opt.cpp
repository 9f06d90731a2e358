// qd-opt: reads qd IR, runs passes by name, and prints the resulting IR or the code that a target generates from it
//
//   qd-opt kernel.mlir --qd-split-tasks
//   qd-opt kernel.mlir --pipeline --emit=llvm                                    all passes, then LLVM IR before optimization
//   qd-opt kernel.mlir --pipeline --emit=asm --target=x64 --cpu=skylake-avx512
//   qd-opt kernel.mlir --pipeline --emit=binary -o kernel.so --times
#include "backends/stages.h"
#include "backends/target.h"
#include "ir/dialect.h"
#include "passes/pipeline.h"
#include "tools/test_passes.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/ToolUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
namespace cl = llvm::cl;

namespace {

struct Arguments {
  cl::opt<std::string> input{cl::Positional, cl::desc("<file>"), cl::init("-")};
  cl::opt<bool> pipeline{"pipeline", cl::desc("Run all passes, as the compiler does")};
  cl::opt<bool> debug{"debug-checks", cl::desc("With --pipeline: as for debug=True")};
  cl::opt<bool> splitInput{"split-input-file", cl::desc("Process the parts between // ----- lines separately")};
  cl::opt<bool> verifyDiagnostics{"verify-diagnostics", cl::desc("Compare errors with expected-error comments")};
  cl::opt<std::string> emit{"emit", cl::desc("Print a later stage instead of IR: llvm, optimized, asm, object, binary")};
  cl::opt<std::string> output{"o", cl::desc("Where to write"), cl::init("-")};
  cl::opt<std::string> target{"target", cl::desc("A backend of backends.def, x64 or arm64"), cl::init("cpu")};
  cl::opt<std::string> cpu{"cpu", cl::desc("Processor of the target, as LLVM names it")};
  cl::opt<int> lanes{"lanes", cl::desc("Lanes of parallel loops; 0: chosen for each"), cl::init(0)};
  cl::opt<int> pieceSize{"piece-size", cl::desc("Operations after which long code continues in another function; 0: none"), cl::init(0)};
  cl::opt<bool> lineTables{"line-tables", cl::desc("Keep the lines of the source")};
  cl::opt<bool> strictMath{"strict-math", cl::desc("As for fast_math=False")};
  cl::opt<bool> times{"times", cl::desc("Print what each stage took")};
  PassPipelineCLParser passes{"", "Passes to run, in this order"};
};

LogicalResult transform(ModuleOp module, const Arguments &arguments) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  auto report = [&](const Twine &message) { return emitError(module.getLoc(), message), failure(); };
  if (failed(arguments.passes.addToPipeline(manager, report)) || failed(manager.run(module))) return failure();
  if (!arguments.pipeline) return success();
  qd::passes::PipelineOptions options;
  options.debug = options.checkBounds = arguments.debug;
  options.verify = true;
  return qd::passes::run(module, qd::passes::TargetTraits(), options);
}

/// Generates code and prints the stage that --emit names.
LogicalResult emit(ModuleOp module, const Arguments &arguments, llvm::raw_ostream &output) {
  std::unique_ptr<qd::backends::Target> target = qd::backends::findTarget(arguments.target, arguments.cpu);
  if (!target) return module.emitError("no such target: ") << arguments.target;
  qd::backends::TargetOptions options;
  options.lanes = arguments.lanes;
  options.pieceSize = arguments.pieceSize;
  options.lineTables = arguments.lineTables;
  options.fastMath = !arguments.strictMath;
  // Copied, because lld resets all command-line options.
  bool wantsBinary = arguments.emit == "binary", wantsTimes = arguments.times;
  qd::backends::Stages stages("kernel", "", arguments.emit, &output);
  qd::artifact::Artifact artifact;
  LogicalResult result = target->emit(module, options, stages, artifact);
  if (wantsBinary) output << llvm::StringRef(reinterpret_cast<const char *>(artifact.binary.data()), artifact.binary.size());
  if (wantsTimes) stages.printTimes(llvm::errs());
  return result;
}

LogicalResult process(std::unique_ptr<llvm::MemoryBuffer> buffer, const Arguments &arguments, llvm::raw_ostream &output) {
  DialectRegistry registry;
  registry.insert<qd::ir::QdDialect>();
  MLIRContext ctx(registry, MLIRContext::Threading::DISABLED);
  ctx.printOpOnDiagnostic(false);
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  auto run = [&]() -> LogicalResult {
    OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(*sources, ParserConfig(&ctx));
    if (!module || failed(transform(*module, arguments))) return failure();
    if (!arguments.emit.empty()) return emit(*module, arguments, output);
    module->print(output);
    output << '\n';
    return success();
  };
  if (!arguments.verifyDiagnostics) {
    SourceMgrDiagnosticHandler handler(*sources, &ctx);
    return run();
  }
  SourceMgrDiagnosticVerifierHandler handler(*sources, &ctx);
  // The result is ignored: the comments list the expected errors.
  (void)run();
  return handler.verify();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  qd::passes::registerPasses();
  qd::tools::registerTestPasses();
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  Arguments arguments;
  cl::ParseCommandLineOptions(argc, argv, "Quadrants IR tool\n");

  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(arguments.input, &message);
  if (!buffer) {
    llvm::errs() << message << '\n';
    return 1;
  }
  std::unique_ptr<llvm::ToolOutputFile> output = openOutputFile(arguments.output, &message);
  if (!output) {
    llvm::errs() << message << '\n';
    return 1;
  }
  output->keep();
  auto perPart = [&](std::unique_ptr<llvm::MemoryBuffer> part, llvm::raw_ostream &stream) {
    return process(std::move(part), arguments, stream);
  };
  llvm::StringRef marker = arguments.splitInput ? kDefaultSplitMarker : "";
  return failed(splitAndProcessBuffer(std::move(buffer), perPart, output->os(), marker, marker));
}
