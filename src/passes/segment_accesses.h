// segment_accesses.h: what a stretch of statements that one thread runs does to the elements of a container
#pragma once

#include "passes/accesses.h"
#include "passes/same_elements.h"

namespace qd::passes {

/// Statements of one block, in their order.
using Segment = llvm::SmallVector<mlir::Operation *>;

struct Access {
  mlir::Operation *op; ///< a load or a store
  mutable ir::ElementOp element;
  unsigned address;           ///< number
  bool isKnown = false;       ///< of a load: what is read was written before, for sure
  bool isBefore = false;      ///< of a load: nothing was written before, for sure
  bool isOverwritten = false; ///< of a load: something may be written afterwards
  bool isAfter = false;       ///< of a load: something may have been written when it runs for the first time
  bool isSurelyLost = false;  ///< of a load: it is this address that is written afterwards

  bool isStore() const { return llvm::isa<ir::StoreOp>(op); }
  mlir::Value getPlace() const { return op->getOperand(isStore() ? 1 : 0); }
  /// The indices of the component; none: all of the element.
  mlir::ValueRange getComponent() const;
};

/// All accesses of a segment to one container. Those whose indices are the same have one address.
class SegmentAccesses {
public:
  SegmentAccesses(const Segment &segment, uint32_t container, const SameElements &elements, FunctionAccesses &functions);

  /// Whether the index has one value in all of the segment.
  bool isInvariant(mlir::Value index) const;
  bool isInvariant(llvm::ArrayRef<Index> indices) const;
  /// Whether the value is defined around the segment, or as one of its statements.
  bool isAtHand(mlir::Value value) const { return isOutside(value) || value.getParentBlock() == block; }
  /// Loops of the segment around an operation, from the innermost outwards.
  llvm::SmallVector<mlir::Operation *, 2> listLoops(mlir::Operation *op) const;

  const Segment &segment;
  mlir::Block *block;
  const SameElements &elements;
  llvm::SmallVector<Access> all; ///< in the order of the program
  llvm::SmallVector<Indices> addresses;
  bool hasOthers = false; ///< accesses that are no loads and stores

private:
  static bool isOf(mlir::Value place, uint32_t container);
  void note(mlir::Operation *op, mlir::Value place, uint32_t container);
  bool isOutside(mlir::Value value) const;
};

/// Which loads of a segment find what was written in it.
class Coverage {
public:
  /// Fills in what accesses say about loads. `rowAxes`: those whose indices say which element of a row it is; none: there are no rows.
  Coverage(SegmentAccesses &accesses, llvm::ArrayRef<unsigned> rowAxes);

  /// Whether every component of the element is written when the segment ends.
  bool isWritten(unsigned address) const { return isWritten(address, written); }

private:
  /// All elements that a loop has passed: those of an address inside of it.
  struct Passed {
    unsigned address;
    ir::ForOp loop;
  };
  struct Written {
    llvm::DenseSet<std::pair<unsigned, int64_t>> components; ///< of an address
    llvm::SmallVector<Passed> passed;
  };

  void visit(mlir::Operation *op, Written &known);
  void visit(mlir::Block &block, Written &known);
  void visitIf(ir::IfOp branch, Written &known);
  void write(const Access &access, Written &known);
  void read(Access &access, const Written &known);
  void judge(Access &load);
  bool isWritten(unsigned address, const Written &known) const;
  bool isRowWritten(const Written &known) const;
  bool passes(ir::ForOp loop, unsigned address) const;
  bool isPassed(llvm::ArrayRef<Index> indices, const Written &known) const;
  bool isPassed(llvm::ArrayRef<Index> indices, const Passed &passed) const;

  SegmentAccesses &accesses;
  llvm::ArrayRef<unsigned> rowAxes;
  int64_t componentCount;
  llvm::DenseMap<mlir::Operation *, Access *> byOp;
  Written written;
};

} // namespace qd::passes
