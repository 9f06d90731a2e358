// segment_accesses.h: how a segment, consecutive statements that one thread runs, accesses the elements of a container
#pragma once

#include "passes/accesses.h"
#include "passes/autodiff/same_elements.h"

namespace qd::passes {

/// Statements of one block, in their order.
using Segment = llvm::SmallVector<mlir::Operation *>;

struct Access {
  mutable ir::MemoryAccessOpInterface op; ///< a load or a store
  mutable ir::ElementOp element;
  unsigned address; ///< index into SegmentAccesses::addresses
  // For a load:
  bool isKnown = false;             ///< the segment has surely written the element before
  bool isBefore = false;            ///< the segment has surely not written the element before
  bool isOverwritten = false;       ///< the segment may write the element afterwards
  bool isAfter = false;             ///< the segment may have written the element before the load runs for the first time
  bool isSurelyOverwritten = false; ///< a store to the same address follows

  bool isStore() const { return op.writes(); }
  /// The indices of the component; empty if the access is to the whole element.
  mlir::ValueRange getComponent() const;
};

/// All accesses of a segment to one container. Accesses with equal indices have the same address.
class SegmentAccesses {
public:
  SegmentAccesses(const Segment &segment, uint32_t container, const SameElements &elements, FunctionAccesses &functions);

  /// Whether the index has one value throughout the segment.
  bool isInvariant(mlir::Value index) const;
  bool isInvariant(llvm::ArrayRef<Index> indices) const;
  /// Whether the value is defined outside of the segment, or by one of its top-level statements.
  bool isAvailable(mlir::Value value) const { return isOutside(value) || value.getParentBlock() == block; }
  /// The loops of the segment around an operation, innermost first.
  llvm::SmallVector<mlir::Operation *, 2> listLoops(mlir::Operation *op) const;

  const Segment &segment;
  mlir::Block *block;
  const SameElements &elements;
  llvm::SmallVector<Access> all; ///< in program order
  llvm::SmallVector<Indices> addresses;
  bool hasOtherAccesses = false; ///< there are accesses other than loads and stores

private:
  void record(ir::MemoryAccessOpInterface op);
  bool isOutside(mlir::Value value) const;
};

/// Decides which loads of a segment read what the segment has written.
class Coverage {
public:
  /// Fills in the flags of the loads. `rowAxes`: the axes whose indices select an element within a row; empty: there are no rows.
  Coverage(SegmentAccesses &accesses, llvm::ArrayRef<unsigned> rowAxes);

  /// Whether every component of the element has been written at the end of the segment.
  bool isWritten(unsigned address) const { return isWritten(address, written); }

private:
  /// The elements that a loop has written: those of an address inside it, for all its iterations.
  struct LoopWrites {
    unsigned address;
    ir::ForOp loop;
  };
  struct Written {
    llvm::DenseSet<std::pair<unsigned, int64_t>> components; ///< pairs of address and component
    llvm::SmallVector<LoopWrites> loopWrites;
  };

  void visit(mlir::Operation *op, Written &known);
  void visit(mlir::Block &block, Written &known);
  void visitIf(ir::IfOp branch, Written &known);
  void write(const Access &access, Written &known);
  void read(Access &access, const Written &known);
  void classify(Access &load);
  bool isWritten(unsigned address, const Written &known) const;
  bool isRowWritten(const Written &known) const;
  bool coversIndices(ir::ForOp loop, unsigned address) const;
  bool isWrittenByLoop(llvm::ArrayRef<Index> indices, const Written &known) const;
  bool isWrittenByLoop(llvm::ArrayRef<Index> indices, const LoopWrites &loopWrites) const;

  SegmentAccesses &accesses;
  llvm::ArrayRef<unsigned> rowAxes;
  int64_t componentCount;
  llvm::DenseMap<mlir::Operation *, Access *> byOp;
  Written written;
};

} // namespace qd::passes
