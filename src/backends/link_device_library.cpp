// link_device_library.cpp: links the routines of the device library (devlib/) that a module calls, and decides which are inlined
#include "backends/steps.h"
#include "devlib/bitcode.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Transforms/IPO/Internalize.h"

#include <set>

namespace qd::backends {

/// A routine of the device library is called instead of inlined when all its calls would add more instructions than this.
constexpr unsigned kMaxInlined = 800;
/// Routines shorter than this are always inlined.
constexpr unsigned kShortRoutine = 24;

static void callRoutinesUsedOften(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (!function.hasFnAttribute(llvm::Attribute::AlwaysInline) || !function.getName().starts_with("qd_")) continue;
    unsigned size = function.getInstructionCount();
    if (size < kShortRoutine || function.getNumUses() * size <= kMaxInlined) continue;
    function.removeFnAttr(llvm::Attribute::AlwaysInline);
    function.addFnAttr(llvm::Attribute::NoInline);
    function.setCallingConv(llvm::CallingConv::Fast);
    for (llvm::User *user : function.users())
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(user)) call->setCallingConv(llvm::CallingConv::Fast);
  }
}

void linkDeviceLibrary(llvm::Module &module) {
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
}

} // namespace qd::backends
