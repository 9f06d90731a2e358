// parts.cpp: the functions of one kernel compiled side by side
//
// LLVM's contexts belong to one thread, so the parts travel as bitcode: every thread reads the module without the bodies of
// functions that another part has. Functions become hidden symbols, which lld joins. What is always inlined, and constants, every part has
// for itself.
#include "backends/abandonable.h"
#include "backends/cpu/steps.h"
#include "support/large_stack.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"

namespace qd::backends::cpu {
namespace {

/// A part of fewer instructions is not worth a thread: reading the module takes as long.
constexpr unsigned kSmallestPart = 1000;

bool isShared(const llvm::Function &function) { return function.isDeclaration() || function.hasFnAttribute(llvm::Attribute::AlwaysInline); }

/// Functions by part: the longest first, each to the part that has least.
llvm::StringMap<unsigned> assignParts(llvm::Module &module, unsigned count) {
  std::vector<std::tuple<unsigned, size_t, llvm::Function *>> functions;
  for (llvm::Function &function : module)
    if (!isShared(function)) functions.push_back({~function.getInstructionCount(), functions.size(), &function});
  llvm::sort(functions);
  std::vector<unsigned> loads(count);
  llvm::StringMap<unsigned> parts;
  for (auto [invertedSize, index, function] : functions) {
    auto least = llvm::min_element(loads);
    *least += ~invertedSize;
    parts[function->getName()] = unsigned(least - loads.begin());
    if (function->hasLocalLinkage()) {
      function->setLinkage(llvm::GlobalValue::ExternalLinkage);
      function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    }
  }
  return parts;
}

Object compilePart(llvm::StringRef bitcode, const llvm::StringMap<unsigned> &parts, unsigned part, const Processor &processor, int optLevel,
                   AbandonGate &gate) {
  Abandonable ctx(std::make_unique<llvm::LLVMContext>());
  ctx->setOptPassGate(gate);
  ctx->setDiscardValueNames(true);
  // Lazily: bodies that another part has are never read.
  Abandonable module(take(llvm::getLazyBitcodeModule({bitcode, "part"}, *ctx)));
  for (llvm::Function &function : *module)
    if (!isShared(function) && parts.lookup(function.getName()) != part) function.deleteBody();
  if (llvm::Error error = module->materializeAll()) throw std::runtime_error(llvm::toString(std::move(error)));
  Abandonable machine(makeTargetMachine(processor, optLevel));
  optimise(*module, *machine, optLevel);
  if (gate.isEnabled()) return {};
  return emitObject(*module, *machine, llvm::CodeGenFileType::ObjectFile);
}

} // namespace

unsigned choosePartCount(const llvm::Module &module, unsigned threads) {
  unsigned total = 0, largest = 0;
  for (const llvm::Function &function : module) {
    if (isShared(function)) continue;
    unsigned size = function.getInstructionCount();
    total += size;
    largest = std::max(largest, size);
  }
  if (largest == 0) return 1;
  return std::max(1u, std::min({threads, total / kSmallestPart, total / largest}));
}

std::vector<Object> compileParts(llvm::Module &module, const Processor &processor, int optLevel, unsigned count, AbandonGate &gate) {
  llvm::StringMap<unsigned> parts = assignParts(module, count);
  Object bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(module, stream);
  std::vector<Object> objects(count);
  support::runOnLargeStacks(
      count, [&](size_t part) { objects[part] = compilePart(stream.str(), parts, unsigned(part), processor, optLevel, gate); });
  return objects;
}

} // namespace qd::backends::cpu
