// partitions.cpp: compiles the functions of one kernel in parallel, and recompiles only changed partitions
//
// An LLVM context belongs to one thread, so partitions are passed as bitcode: every thread reads the module without the bodies of functions
// in other partitions. Functions become hidden symbols, which lld links. Every partition has its own copy of constants and of functions
// that are always inlined.
#include "backends/cpu/steps.h"
#include "backends/leak_on_cancel.h"
#include "support/large_stack.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"

#include <atomic>

namespace qd::backends::cpu {
namespace {

/// A smaller partition is not worth a thread: reading the module takes as long.
constexpr unsigned kMinPartition = 1000;
/// A smaller kernel compiles quickly as a whole.
constexpr unsigned kMinStoredKernel = 10000;
/// Minimum number of instructions of a stored partition with several functions.
constexpr unsigned kMinStoredPartition = 2000;

bool isShared(const llvm::Function &function) { return function.isDeclaration() || function.hasFnAttribute(llvm::Attribute::AlwaysInline); }

struct Sizes {
  unsigned total = 0, largest = 0;
};

Sizes measure(const llvm::Module &module) {
  Sizes sizes;
  for (const llvm::Function &function : module) {
    if (isShared(function)) continue;
    unsigned size = function.getInstructionCount();
    sizes.total += size;
    sizes.largest = std::max(sizes.largest, size);
  }
  return sizes;
}

/// Balances the partitions: the longest functions first, each to the smallest partition.
void assignEvenly(const llvm::Module &module, Partitions &partitions) {
  std::vector<std::tuple<unsigned, size_t, llvm::StringRef>> functions;
  for (const llvm::Function &function : module)
    if (!isShared(function)) functions.push_back({~function.getInstructionCount(), functions.size(), function.getName()});
  llvm::sort(functions);
  std::vector<unsigned> loads(partitions.count);
  for (auto [invertedSize, index, name] : functions) {
    auto least = llvm::min_element(loads);
    *least += ~invertedSize;
    partitions.of[name] = unsigned(least - loads.begin());
  }
}

/// Groups neighboring functions, up to a size. An edit of one function then does not move the borders of other partitions.
void assignNeighbors(const llvm::Module &module, Partitions &partitions) {
  unsigned load = 0;
  for (const llvm::Function &function : module) {
    if (isShared(function)) continue;
    unsigned size = function.getInstructionCount();
    if (load == 0 || load >= kMinStoredPartition || size >= kMinStoredPartition) {
      ++partitions.count;
      load = 0;
    }
    load += size;
    partitions.of[function.getName()] = partitions.count - 1;
  }
}

void makeVisibleToPartitions(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (isShared(function) || !function.hasLocalLinkage()) continue;
    function.setLinkage(llvm::GlobalValue::ExternalLinkage);
    function.setVisibility(llvm::GlobalValue::HiddenVisibility);
  }
}

/// Removes unused functions and variables: those that only other partitions need.
void removeUnused(llvm::Module &module) {
  auto isUnused = [](llvm::GlobalValue &value) { return value.use_empty() && (value.isDeclaration() || value.isDiscardableIfUnused()); };
  for (bool hasChanged = true; hasChanged;) {
    hasChanged = false;
    for (llvm::Function &function : llvm::make_early_inc_range(module)) {
      if (!isUnused(function)) continue;
      function.eraseFromParent();
      hasChanged = true;
    }
    for (llvm::GlobalVariable &variable : llvm::make_early_inc_range(module.globals())) {
      if (!isUnused(variable)) continue;
      variable.eraseFromParent();
      hasChanged = true;
    }
  }
}

Object writeBitcode(const llvm::Module &module) {
  Object bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(module, stream);
  return bitcode;
}

/// State that the threads share.
struct PartitionCompiler {
  const Object bitcode;
  const Partitions &partitions;
  const Processor &processor;
  const TargetOptions &options;
  CancelGate &gate;
  std::atomic<unsigned> found{0};

  Object compile(unsigned partition) {
    LeakOnCancel ctx(std::make_unique<llvm::LLVMContext>());
    ctx->setOptPassGate(gate);
    ctx->setDiscardValueNames(true);
    // Lazily: the bodies of other partitions' functions are never read.
    LeakOnCancel module(take(llvm::getLazyBitcodeModule({llvm::StringRef(bitcode.data(), bitcode.size()), "partition"}, *ctx)));
    for (llvm::Function &function : *module)
      if (!isShared(function) && partitions.of.lookup(function.getName()) != partition) function.deleteBody();
    if (llvm::Error error = module->materializeAll()) throw std::runtime_error(llvm::toString(std::move(error)));
    if (!partitions.areStored) return compile(*module);
    removeUnused(*module);
    Object source = writeBitcode(*module);
    llvm::StringRef key(source.data(), source.size());
    if (std::optional<Object> object = options.objects->find(key)) {
      ++found;
      return std::move(*object);
    }
    Object object = compile(*module);
    if (!gate.isEnabled()) options.objects->publish(key, object);
    return object;
  }

private:
  Object compile(llvm::Module &module) {
    CodeGenerator machine = makeCodeGenerator(processor, options.optLevel);
    optimize(module, *machine, options.optLevel);
    if (gate.isEnabled()) return {};
    return machine.emit(module, llvm::CodeGenFileType::ObjectFile);
  }
};

} // namespace

Partitions choosePartitions(const llvm::Module &module, const TargetOptions &options) {
  Partitions partitions;
  Sizes sizes = measure(module);
  // Line tables contain the line of each function, which every edit above it changes.
  partitions.areStored = options.objects && !options.lineTables && sizes.total >= kMinStoredKernel && sizes.largest < sizes.total;
  if (partitions.areStored) {
    assignNeighbors(module, partitions);
  } else if (sizes.largest > 0) {
    partitions.count = std::min({options.threads, sizes.total / kMinPartition, sizes.total / sizes.largest});
    if (partitions.count > 1) assignEvenly(module, partitions);
  }
  return partitions;
}

std::vector<Object> compilePartitions(llvm::Module &module, const Processor &processor, const TargetOptions &options,
                                      Partitions &partitions, CancelGate &gate) {
  makeVisibleToPartitions(module);
  PartitionCompiler compiler{writeBitcode(module), partitions, processor, options, gate};
  std::vector<Object> objects(partitions.count);
  std::atomic<unsigned> next{0};
  support::runOnLargeStacks(std::min(options.threads, partitions.count), [&](size_t) {
    for (unsigned partition; (partition = next++) < partitions.count;) objects[partition] = compiler.compile(partition);
  });
  partitions.found = compiler.found;
  return objects;
}

} // namespace qd::backends::cpu
