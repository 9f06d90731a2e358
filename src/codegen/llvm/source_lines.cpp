// source_lines.cpp: converts MLIR locations to LLVM debug locations, and gives each function its description at the end
//
// In:   MLIR locations, which are the user's files and lines.
// Out:  debug locations of instructions, for debuggers and profilers.
#include "codegen/llvm/source_lines.h"

#include "mlir/IR/Operation.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace qd::codegen {

SourceLines::SourceLines(llvm::Module &module, bool directivesOnly) : module(module), builder(module), directivesOnly(directivesOnly) {
  module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  module.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 5);
}

llvm::DIFile *SourceLines::getFile(StringRef path) {
  llvm::DIFile *&file = files[path];
  if (!file) file = builder.createFile(llvm::sys::path::filename(path), llvm::sys::path::parent_path(path));
  if (!unit) {
    auto kind = directivesOnly ? llvm::DICompileUnit::DebugDirectivesOnly : llvm::DICompileUnit::LineTablesOnly;
    llvm::DISourceLanguageName language(llvm::dwarf::DW_LANG_Python);
    unit = builder.createCompileUnit(language, file, "quadrants", /*isOptimized=*/true, "", 0, "", kind);
  }
  return file;
}

llvm::DISubprogram *SourceLines::describe(StringRef name, llvm::DIFile *file, unsigned line) {
  llvm::DISubroutineType *type = builder.createSubroutineType(builder.getOrCreateTypeArray({}));
  return builder.createFunction(unit, name, "", file, line, type, line, llvm::DINode::FlagZero,
                                llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized);
}

llvm::DISubprogram *SourceLines::getFunction(StringRef name, StringRef path) {
  llvm::DISubprogram *&function = functions[(path + "\n" + name).str()];
  if (!function) {
    llvm::DIFile *file = getFile(path);
    function = describe(name, file, 0);
  }
  return function;
}

llvm::DILocation *SourceLines::append(Location loc, llvm::DILocation *caller) {
  if (auto call = dyn_cast<CallSiteLoc>(loc)) return append(call.getCallee(), append(call.getCaller(), caller));
  if (auto fused = dyn_cast<FusedLoc>(loc)) return fused.getLocations().empty() ? caller : append(fused.getLocations().front(), caller);
  StringRef name = "kernel";
  if (auto named = dyn_cast<NameLoc>(loc)) {
    name = named.getName();
    loc = named.getChildLoc();
  }
  auto range = dyn_cast<FileLineColRange>(loc);
  if (!range) return caller;
  llvm::DISubprogram *function = getFunction(name, range.getFilename());
  return llvm::DILocation::get(module.getContext(), range.getStartLine(), range.getStartColumn() + 1, function, caller);
}

llvm::DILocation *SourceLines::find(Location loc, ArrayRef<Operation *> calls) {
  llvm::DILocation *place = nullptr;
  for (Operation *call : calls) place = append(call->getLoc(), place);
  return append(loc, place);
}

llvm::DILocation *SourceLines::moveInto(llvm::DILocation *place, llvm::DILocation *outermost) {
  llvm::DILocation *&result = moved[place];
  if (result) return result;
  llvm::DILocation *caller = place->getInlinedAt() ? moveInto(place->getInlinedAt(), outermost) : outermost;
  return moved[place] = llvm::DILocation::getDistinct(module.getContext(), place->getLine(), place->getColumn(), place->getScope(), caller);
}

void SourceLines::finish() {
  if (!unit) return;
  for (llvm::Function &function : module) {
    if (function.isDeclaration()) continue;
    moved.clear();
    llvm::DISubprogram *own = describe(function.getName(), unit->getFile(), 0);
    function.setSubprogram(own);
    llvm::DILocation *outermost = llvm::DILocation::get(module.getContext(), 0, 0, own);
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      llvm::DILocation *place = instruction.getDebugLoc();
      instruction.setDebugLoc(place ? moveInto(place, outermost) : outermost);
    }
  }
  builder.finalize();
}

} // namespace qd::codegen
