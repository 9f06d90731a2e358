// link_device_library.cpp: links the routines of the device library (devlib/) that a module calls, and decides which are inlined
//
// In:   a module, and the library's bitcode.
// Out:  the module with the routines that it needs; small ones are inlined later.
#include "backends/steps.h"
#include "devlib/bitcode.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Transforms/IPO/Internalize.h"

#include <set>

namespace qd::backends {

/// A routine of the device library is called instead of inlined when all its calls would add more instructions than this.
constexpr unsigned kMaxInlined = 800;
/// The same on GPUs, also for the rare parts of routines. A call in the body of a loop leaves few registers for all that the loop computes
/// before and after it, and takes memory for a stack: `sin(x) * exp(-x)` takes 1.5 times as long on an H100, even where no thread calls.
constexpr unsigned kMaxInlinedOnGpu = 2000;
/// Routines shorter than this are always inlined.
constexpr unsigned kShortRoutine = 24;

static void callRoutinesUsedOften(llvm::Module &module) {
  const unsigned mostAdded = module.getTargetTriple().isGPU() ? kMaxInlinedOnGpu : kMaxInlined;
  for (llvm::Function &function : module) {
    if (!function.hasFnAttribute(llvm::Attribute::AlwaysInline) || !function.getName().starts_with("qd_")) continue;
    unsigned size = function.getInstructionCount();
    if (size < kShortRoutine || function.getNumUses() * size <= mostAdded) continue;
    function.removeFnAttr(llvm::Attribute::AlwaysInline);
    function.addFnAttr(llvm::Attribute::NoInline);
    function.setCallingConv(llvm::CallingConv::Fast);
    for (llvm::User *user : function.users())
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(user)) call->setCallingConv(llvm::CallingConv::Fast);
  }
}

namespace {

/// Finds the rare parts of routines that are short enough to be inlined everywhere.
class RareParts {
public:
  bool isInlined(const llvm::Function &function) {
    if (function.hasFnAttribute(llvm::Attribute::AlwaysInline)) return true;
    if (!function.hasFnAttribute(llvm::Attribute::Cold) || function.isDeclaration()) return false;
    return uint64_t(countCopies(function)) * function.getInstructionCount() <= kMaxInlinedOnGpu;
  }

private:
  /// Copies of the function if it and its callers are inlined.
  unsigned countCopies(const llvm::Function &function) {
    auto [known, isNew] = copies.try_emplace(&function, 0);
    if (!isNew) return known->second;
    unsigned count = 0;
    for (const llvm::User *user : function.users()) {
      const llvm::Function &caller = *llvm::cast<llvm::Instruction>(user)->getFunction();
      count += isInlined(caller) ? countCopies(caller) : 1;
    }
    return copies[&function] = count;
  }

  llvm::DenseMap<const llvm::Function *, unsigned> copies;
};

} // namespace

void inlineRareParts(llvm::Module &module) {
  RareParts parts;
  llvm::SmallVector<llvm::Function *> inlined;
  for (llvm::Function &function : module)
    if (function.hasFnAttribute(llvm::Attribute::Cold) && parts.isInlined(function)) inlined.push_back(&function);
  for (llvm::Function *function : inlined) {
    function->removeFnAttr(llvm::Attribute::NoInline);
    function->addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

/// Moves locals to their address space; pointers to them stay as they are.
static void moveLocals(llvm::Module &module, unsigned space) {
  llvm::SmallVector<llvm::Instruction *> marks;
  llvm::SmallVector<llvm::AllocaInst *> locals;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      if (llvm::isa<llvm::LifetimeIntrinsic>(instruction)) marks.push_back(&instruction);
      auto *local = llvm::dyn_cast<llvm::AllocaInst>(&instruction);
      if (local && local->getAddressSpace() != space) locals.push_back(local);
    }
  for (llvm::Instruction *mark : marks) mark->eraseFromParent();
  for (llvm::AllocaInst *local : locals) {
    llvm::IRBuilder<> at(local);
    auto *moved = at.CreateAlloca(local->getAllocatedType(), space, local->getArraySize());
    moved->setAlignment(local->getAlign());
    local->replaceAllUsesWith(at.CreateAddrSpaceCast(moved, local->getType()));
    local->eraseFromParent();
  }
}

void linkDeviceLibrary(llvm::Module &module, unsigned locals) {
  pairSines(module);
  // The library is written for locals in address space 0, which a data layout with another one would contradict.
  const std::string layout = module.getDataLayoutStr();
  if (locals) {
    auto [before, after] = llvm::StringRef(layout).split("-A" + std::to_string(locals));
    module.setDataLayout((before + after).str());
  }
  std::set<int> lanes;
  for (llvm::Function &function : module)
    if (int count; function.getName().starts_with("qd_") && !function.getName().rsplit('x').second.getAsInteger(10, count))
      lanes.insert(count);
  for (int count : lanes) {
    std::string_view bitcode = devlib::getBitcode(count);
    // Lazily: bodies of functions without calls are never read.
    auto library = take(llvm::getLazyBitcodeModule(llvm::MemoryBufferRef({bitcode.data(), bitcode.size()}, "devlib"), module.getContext()));
    library->setTargetTriple(module.getTargetTriple());
    library->setDataLayout(module.getDataLayout());
    auto internalize = [](llvm::Module &linked, const llvm::StringSet<> &names) {
      llvm::internalizeModule(linked, [&](const llvm::GlobalValue &value) { return !value.hasName() || !names.count(value.getName()); });
    };
    if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded, internalize))
      throw std::runtime_error("the device library cannot be linked");
  }
  callRoutinesUsedOften(module);
  if (!locals) return;
  module.setDataLayout(layout);
  moveLocals(module, locals);
}

} // namespace qd::backends
