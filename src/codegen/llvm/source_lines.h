// source_lines.h: the lines of the user's source in compiled code, for debuggers and profilers
//
// While code is emitted, each instruction gets the place of its operation: a line in a function of the user's, and the calls that lead
// there, as if all of them were expanded in place. Which function of LLVM holds an instruction is known only when long code has been cut
// into outlined regions, so the outermost link of every chain, from the user's function to LLVM's, is added then.
#pragma once

#include "mlir/IR/Location.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/Module.h"

namespace qd::codegen {

class SourceLines {
public:
  /// `directivesOnly`: for assemblers that make the tables themselves.
  SourceLines(llvm::Module &module, bool directivesOnly);

  /// The place of code for an operation at `loc`, reached through `calls`, outermost first. Null where the location is unknown.
  llvm::DILocation *find(mlir::Location loc, llvm::ArrayRef<mlir::Operation *> calls);
  /// Gives every function its own description, and every instruction a place within it. Nothing may be moved between functions afterwards.
  void finish();

private:
  llvm::DILocation *append(mlir::Location loc, llvm::DILocation *caller);
  llvm::DIFile *getFile(llvm::StringRef path);
  llvm::DISubprogram *getFunction(llvm::StringRef name, llvm::StringRef path);
  llvm::DISubprogram *describe(llvm::StringRef name, llvm::DIFile *file, unsigned line);
  llvm::DILocation *moveInto(llvm::DILocation *place, llvm::DILocation *outermost);

  llvm::Module &module;
  llvm::DIBuilder builder;
  bool directivesOnly;
  llvm::DICompileUnit *unit = nullptr; ///< of the first file that is met
  llvm::StringMap<llvm::DIFile *> files;
  llvm::StringMap<llvm::DISubprogram *> functions;              ///< of the user's, by path and name
  llvm::DenseMap<llvm::DILocation *, llvm::DILocation *> moved; ///< in the function that is being finished
};

} // namespace qd::codegen
