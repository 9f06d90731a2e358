// reuse_loads.cpp: load elements that a kernel does not write once
//
// In:   a kernel in which inlined functions read the same elements, each for itself.
// Out:  a load of an element that a load before it, in the same block or in one around it, has read is replaced by that load.
// Here: before loops change. LLVM would merge these loads, too, but first each becomes code: wide vectors and shuffles for elements with
//       several components, which is much of the time of a long kernel's compilation.
#include "ir/attributes.h"
#include "ir/gates.h"
#include "ir/memory.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/ScopedHashTable.h"

using namespace mlir;
using namespace qd::ir;

namespace qd::passes {

#define GEN_PASS_DEF_REUSELOADS
#include "passes/passes.h.inc"

namespace {

// Longer expressions for an index are compared as values.
constexpr unsigned kIndexDepth = 4;

/// Compares loads by their places, and places by the expressions of their indices.
struct SamePlace : llvm::DenseMapInfo<Operation *> {
  static unsigned getHashValue(const Operation *load) { return hash(const_cast<Operation *>(load), 0); }
  static bool isEqual(const Operation *one, const Operation *other) {
    if (one == other) return true;
    if (isReserved(one) || isReserved(other)) return false;
    return compare(const_cast<Operation *>(one), const_cast<Operation *>(other), 0);
  }

private:
  static bool isReserved(const Operation *load) { return load == getEmptyKey() || load == getTombstoneKey(); }

  /// The operation that computes a value from its operands alone.
  static Operation *findExpression(Value value, unsigned depth) {
    Operation *op = value.getDefiningOp();
    return op && depth < kIndexDepth && op->getNumRegions() == 0 && isPure(op) ? op : nullptr;
  }

  static llvm::hash_code hash(Operation *op, unsigned depth) {
    auto hashOperand = [&](Value operand) {
      Operation *expression = findExpression(operand, depth);
      return expression ? hash(expression, depth + 1) : hash_value(operand);
    };
    return OperationEquivalence::computeHash(op, hashOperand, OperationEquivalence::ignoreHashValue, OperationEquivalence::IgnoreLocations);
  }

  static bool compare(Operation *one, Operation *other, unsigned depth) {
    auto compareOperands = [&](Value left, Value right) {
      if (left == right) return success();
      Operation *first = findExpression(left, depth), *second = findExpression(right, depth);
      return success(first && second && compare(first, second, depth + 1));
    };
    return OperationEquivalence::isEquivalentTo(one, other, compareOperands, nullptr, OperationEquivalence::IgnoreLocations);
  }
};

using Loads = llvm::ScopedHashTable<Operation *, Operation *, SamePlace>;

class LoadMerger {
public:
  explicit LoadMerger(ModuleOp module) : module(module) {}

  void run() {
    if (!collectWrites()) return;
    for (KernelOp kernel : module.getOps<KernelOp>()) visitStatements(kernel.getBody().front());
  }

private:
  /// Lists the containers that the module writes. Fails if they are not known, or if memory may change without it.
  bool collectWrites() {
    return !module
                .walk([&](Operation *op) {
                  if (op->hasAttr(kVolatile)) return WalkResult::interrupt();
                  for (Value place : listWrittenPlaces(op)) {
                    Value base = findBase(place);
                    if (isa<BlockArgument>(base)) return WalkResult::interrupt(); // a parameter of a function
                    auto container = base.getDefiningOp<TensorArgumentOp>();
                    if (!container) continue;
                    written.insert(container.getOffset());
                    writesArray |= !container.getField();
                  }
                  return WalkResult::advance();
                })
                .wasInterrupted();
  }

  /// Visits the statements that become tasks, each for itself: a value that crosses tasks would be kept in memory.
  void visitStatements(Block &block) {
    for (Operation &op : block)
      for (Region &region : op.getRegions())
        for (Block &inside : region)
          if (isa<RepeatOp>(op) || op.hasAttr(kGate))
            visitStatements(inside);
          else
            visit(inside);
  }

  void visit(Block &block) {
    Loads::ScopeTy scope(loads);
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (auto load = dyn_cast<LoadOp>(op); load && isConstant(load)) {
        if (Operation *known = loads.lookup(load)) {
          load->replaceAllUsesWith(known);
          load.erase();
          continue;
        }
        loads.insert(load, load);
      }
      for (Region &region : op.getRegions())
        for (Block &inside : region) visit(inside);
    }
  }

  /// Whether the kernel does not write the element. Fields share no memory, but an array may be any other one.
  bool isConstant(LoadOp load) const {
    TensorArgumentOp container = findContainer(load.getRef());
    return container && load->getDiscardableAttrDictionary().empty() && !written.contains(container.getOffset()) &&
           (container.getField() || !writesArray);
  }

  ModuleOp module;
  llvm::DenseSet<uint64_t> written;
  bool writesArray = false;
  Loads loads;
};

struct ReuseLoadsPass : impl::ReuseLoadsBase<ReuseLoadsPass> {
  void runOnOperation() override { LoadMerger(getOperation()).run(); }
};

} // namespace

} // namespace qd::passes
