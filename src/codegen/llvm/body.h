// body.h: the emitter of one LLVM function
//
// BodyEmitter walks structured IR and appends LLVM instructions, for one lane or several. Begin reading at emitOp (body.cpp), which hands
// each operation to the class of its subject. These classes share the LaneBuilder, and each takes references to those that it needs. The
// emitters of tasks (cpu/task.cpp, grid/task.cpp) create the BodyEmitter.
#pragma once

#include "codegen/llvm/atomics.h"
#include "codegen/llvm/block_ops.h"
#include "codegen/llvm/calls.h"
#include "codegen/llvm/control.h"
#include "codegen/llvm/memory.h"
#include "codegen/llvm/random_numbers.h"
#include "codegen/llvm/sites.h"

#include <set>

namespace qd::codegen {

class BodyEmitter : public LaneBuilder {
public:
  BodyEmitter(ModuleEmitter &module, llvm::Function *function, unsigned lanes, const BodyFacts &facts)
      : LaneBuilder(module, function, lanes, facts) {}

  void emitBlock(mlir::Block &block);
  void emitOp(mlir::Operation *op);
  /// Begins the code of a vector of iterations, whose lanes are those of the mask.
  void beginIteration() { iterationMask = mask, loadedElements.clear(); }
  llvm::Value *readClock();

  bool compacts = false;        ///< emitting a loop whose stores at counters take places side by side (kCompacts)
  unsigned rowLanes = 0;        ///< lanes of loops along rows (kRows); 0: they are loops like others
  bool takesRowLengths = false; ///< arrays have rows as long as at the launch that caused the compilation (kRowLength)

  LaunchAccess launch{*this};
  ValueMap values{*this};
  Operators operators{*this, values};
  Memory memory{*this, operators};
  RandomNumbers random{*this, launch, operators};
  Atomics atomics{*this, launch, values, operators, memory};
  Sites sites{*this, launch, values};
  BlockOps blocks{*this, launch, values, operators};
  ControlFlow control{*this};
  Calls calls{*this, launch, values, sites, control};

private:
  bool isLoadedBefore(ir::LoadOp op);
  void emitCompaction(ir::StoreOp op);
  /// Marks the code emitted between these two calls as an outlined region (outlined_regions.h).
  void beginRegion();
  void endRegion();

  struct RegionStart {
    llvm::BasicBlock *call;
    int64_t sizeBefore;
  };
  llvm::SmallVector<RegionStart, 4> regionStarts; ///< outlined regions that are being emitted, outermost first
  int64_t emittedSize = 0;                        ///< operations emitted so far, without outlined regions that have ended
  /// Elements that all lanes of the iteration have loaded: a tensor, and indices. So further loads in it need no narrower mask, and LLVM
  /// moves them out of loops.
  std::set<llvm::SmallVector<void *, 4>> loadedElements;
  llvm::Value *iterationMask = nullptr;
  bool cutsBlocks = false; ///< the code that is being emitted is long enough to outline
};

} // namespace qd::codegen
