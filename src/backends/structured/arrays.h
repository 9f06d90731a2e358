// arrays.h: arrays in the memory of a thread (locals), of a block (shared arrays), and constant tables
//
// Languages of GPUs cannot cast pointers to them, or lose time with it: an array has elements of one type, and pointers to it are offsets
// in bytes. If all accesses of an array have one type, it is the element's; else elements are integers of the narrowest access, and a wider
// one takes several of them.
#pragma once

#include "backends/structured/grid_target.h"
#include "backends/structured/steps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/GlobalVariable.h"

#include <optional>

namespace qd::backends::structured {

struct ArrayShape {
  unsigned space;      ///< of addresses: kShared, kConstant or kLocal
  llvm::Type *element; ///< scalar
  unsigned elementBytes, count;
};

class ArrayShapes {
public:
  /// `copyBytes`: of the array whose size the host chooses.
  ArrayShapes(const llvm::Function &function, unsigned copyBytes);
  /// The array of a pointer: an alloca or a global variable. Refuses pointers to one of several.
  const llvm::Value *findRoot(const llvm::Value *pointer);
  const ArrayShape &get(const llvm::Value *pointer) { return shapes.find(findRoot(pointer))->second; }
  llvm::MapVector<const llvm::Value *, ArrayShape> shapes; ///< by root, of those that are accessed

private:
  const llvm::Value *findRoot(const llvm::Value *pointer, llvm::SmallPtrSetImpl<const llvm::Value *> &seen);
  llvm::DenseMap<const llvm::Value *, const llvm::Value *> roots;
};

/// The number that stands for a constant pointer, or for one as an integer: an offset in an array, or an address of the device. Empty: it
/// is another expression.
std::optional<uint64_t> readAddress(const llvm::Constant &constant, const llvm::DataLayout &layout);

/// The elements of a constant table, as their bits.
std::vector<uint64_t> listElements(const llvm::GlobalVariable &table, const ArrayShape &shape);

} // namespace qd::backends::structured
