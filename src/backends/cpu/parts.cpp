// parts.cpp: the functions of one kernel compiled side by side
//
// LLVM's contexts belong to one thread, so the parts travel as bitcode: every thread reads the whole module and drops the bodies of
// functions that another part has. Functions become hidden symbols, which lld joins. What is always inlined, and constants, every part has
// for itself.
#include "backends/cpu/parts.h"

#include "backends/cpu/abandonable.h"
#include "backends/cpu/optimise.h"
#include "support/large_stack.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <optional>

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

llvm::Expected<Object> compilePart(llvm::StringRef bitcode, const llvm::StringMap<unsigned> &parts, unsigned part,
                                   const Processor &processor, int optLevel) {
  Abandonable ctx(std::make_unique<llvm::LLVMContext>());
  ctx->setDiscardValueNames(true);
  auto parsed = llvm::parseBitcodeFile({bitcode, "part"}, *ctx);
  if (!parsed) return parsed.takeError();
  Abandonable module(std::move(*parsed));
  for (llvm::Function &function : *module)
    if (!isShared(function) && parts.lookup(function.getName()) != part) function.deleteBody();
  Abandonable machine(makeTargetMachine(processor, optLevel));
  optimise(*module, *machine, optLevel);
  return emitObject(*module, *machine, OutputKind::Object);
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

llvm::Expected<std::vector<Object>> compileParts(llvm::Module &module, const Processor &processor, int optLevel, unsigned count) {
  llvm::StringMap<unsigned> parts = assignParts(module, count);
  llvm::SmallVector<char, 0> bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(module, stream);

  std::vector<std::optional<llvm::Expected<Object>>> results(count);
  std::vector<std::exception_ptr> problems(count);
  support::runOnLargeStacks(count, [&](size_t part) {
    try {
      results[part].emplace(compilePart({bitcode.data(), bitcode.size()}, parts, unsigned(part), processor, optLevel));
    } catch (...) { problems[part] = std::current_exception(); }
  });
  std::vector<Object> objects;
  llvm::Error errors = llvm::Error::success();
  for (auto &result : results) {
    if (!result) continue;
    if (*result)
      objects.push_back(std::move(**result));
    else
      errors = llvm::joinErrors(std::move(errors), result->takeError());
  }
  for (const std::exception_ptr &problem : problems)
    if (problem) {
      llvm::consumeError(std::move(errors));
      std::rethrow_exception(problem);
    }
  if (errors) return errors;
  return objects;
}

} // namespace qd::backends::cpu
