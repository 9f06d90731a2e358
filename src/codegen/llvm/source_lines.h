// source_lines.h: the lines of the user's source in compiled code, for debuggers and profilers
//
// During emission each instruction gets a debug location: the line of its operation in the user's function, and the calls that lead there,
// as if all of them were inlined. Which LLVM function contains an instruction is known only after regions of long code are outlined. The
// outermost scope of each location, from the user's function to LLVM's, is therefore added at the end.
#pragma once

#include "mlir/IR/Location.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/Module.h"

namespace qd::codegen {

class SourceLines {
public:
  /// `directivesOnly`: for assemblers that generate the tables themselves.
  SourceLines(llvm::Module &module, bool directivesOnly);

  /// The debug location of an operation at `loc`, reached through `calls`, outermost first. Null if the location is unknown.
  llvm::DILocation *find(mlir::Location loc, llvm::ArrayRef<mlir::Operation *> calls);
  /// Gives every function its own description and moves the location of every instruction into it. Afterwards no instruction may move to
  /// another function.
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
  llvm::DICompileUnit *unit = nullptr; ///< of the first file
  llvm::StringMap<llvm::DIFile *> files;
  llvm::StringMap<llvm::DISubprogram *> functions;              ///< user functions, by path and name
  llvm::DenseMap<llvm::DILocation *, llvm::DILocation *> moved; ///< in the function that is being finished
};

} // namespace qd::codegen
