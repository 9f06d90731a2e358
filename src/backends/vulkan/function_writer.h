// function_writer.h: writes the function of an entry
//
// Begin reading at writer.cpp. values.cpp: types, constants, operands; arrays.cpp: memory of threads and blocks; memory.cpp: accesses;
// instructions.cpp: all others.
#pragma once

#include "backends/structured/arrays.h"
#include "backends/vulkan/spirv_module.h"
#include "backends/vulkan/steps.h"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

#include <optional>

namespace qd::backends::vulkan {

/// Bits of the word that holds an integer of some width.
inline unsigned getWordBits(unsigned bits) { return std::max(32u, getContainerBits(bits)); }
/// Integers that are shorter in memory than as a value.
inline bool isShortInteger(const llvm::Type *type) {
  return type->isIntegerTy() && !type->isIntegerTy(1) && type->getIntegerBitWidth() <= 16;
}

/// An array in memory of a thread or a block, or a constant table.
struct Array : ArrayShape {
  StorageClass storage;
  Id variable = 0;
};

class FunctionWriter {
public:
  using Routines = llvm::DenseMap<const llvm::Function *, Id>;
  /// `isShared`: threads see during the kernel what others store.
  FunctionWriter(SpirvModule &module, const llvm::Function &function, const Constructs &constructs, const Features &features,
                 const Routines &routines, bool isShared)
      : module(module), function(function), constructs(constructs), features(features), routines(routines), isShared(isShared),
        layout(function.getDataLayout()), shapes(function, qd::vulkan::kMaxCopyBytes) {}
  /// Returns the function's id.
  Id writeKernel();
  /// The same of a function of numbers.
  Id writeRoutine();

private:
  void writeVariables();
  void writeBlocks();
  void reserveShared(unsigned words);

  //--- values.cpp ---
  Id getType(llvm::Type *type);
  /// The type that values of a type have in memory.
  Id getMemoryType(llvm::Type *type);
  Id getConstant(const llvm::Constant &constant);
  Id getNumber(llvm::Type *type, uint64_t value);
  Id getOperand(const llvm::Value *value);
  /// The operand as an integer whose upper bits, beyond its own width, repeat the sign.
  Id getSigned(const llvm::Value *value);
  Id emit(Opcode op, Id type, llvm::ArrayRef<uint32_t> operands);
  /// Writes the instruction that defines `value`.
  void define(const llvm::Value &value, Opcode op, llvm::ArrayRef<uint32_t> operands);
  /// The result of `value` is this id.
  void define(const llvm::Value &value, Id id);
  Id emitGlsl(Glsl number, Id type, llvm::ArrayRef<uint32_t> operands);
  /// Clears the bits of a word beyond the width of a type.
  Id mask(llvm::Type *type, Id value);
  Id convertInteger(Id value, unsigned fromBits, unsigned toBits, bool isSigned = false);
  Id bitcast(Id value, llvm::Type *from, llvm::Type *to);
  /// From a value to what is stored, and back.
  Id narrow(Id value, llvm::Type *type);
  Id widen(Id value, llvm::Type *type);

  //--- arrays.cpp ---
  void declareArrays();
  Array &getArray(const llvm::Value *pointer) { return arrays.at(shapes.findRoot(pointer)); }
  Id getInitializer(const llvm::GlobalVariable &table, const ArrayShape &shape);
  /// A pointer to the element of an array, `index` elements after the one at `pointer`.
  Id getElement(const Array &array, const llvm::Value *pointer, unsigned index);

  //--- memory.cpp ---
  void writeLoad(const llvm::LoadInst &load);
  void writeParameter(const llvm::LoadInst &load);
  void writeStore(const llvm::StoreInst &store);
  void writeUpdate(const llvm::AtomicRMWInst &update);
  void writeExchange(const llvm::AtomicCmpXchgInst &exchange);
  void writeFence();
  void writeBarrier(spirv::Scope scope);
  void writeOffset(const llvm::GetElementPtrInst &gep);
  /// A pointer for one access of a type.
  Id getPlace(const llvm::Value *pointer, llvm::Type *type, bool isConstant = false);
  void requireAtomics(const llvm::Value *pointer, llvm::Type *type, bool isAdded);
  std::vector<uint32_t> describeAccess(const llvm::Instruction &access, const llvm::Value *pointer, llvm::Type *type, llvm::Align align);

  //--- instructions.cpp ---
  void writeInstruction(const llvm::Instruction &instruction);
  void writeBinary(const llvm::BinaryOperator &binary);
  bool isShortQuotient(const llvm::BinaryOperator &quotient) const;
  void writeShortQuotient(const llvm::BinaryOperator &binary);
  void writeRemainder(const llvm::BinaryOperator &binary, Id quotient);
  Id hide(Id value, llvm::Type *type);
  void writeFloatBinary(const llvm::BinaryOperator &binary);
  void writeComparison(const llvm::CmpInst &comparison);
  Id chooseMinusOne(llvm::Type *type, Id condition, bool isMinusOne);
  void writeSelect(const llvm::SelectInst &select);
  void writeCast(const llvm::CastInst &cast);
  void writeCall(const llvm::CallInst &call);
  void writeIntrinsic(const llvm::IntrinsicInst &call);
  void writeBranch(const llvm::BranchInst &branch);
  void writeClock(const llvm::CallInst &call);
  /// `axis`: of a vector of three numbers.
  Id readNumber(spirv::BuiltIn builtin, std::optional<unsigned> axis = {});

  SpirvModule &module;
  const llvm::Function &function;
  const Constructs &constructs;
  const Features &features;
  const Routines &routines; ///< their ids
  bool isShared;
  const llvm::DataLayout &layout;
  llvm::DenseMap<const llvm::Value *, Id> ids;
  llvm::DenseMap<const llvm::Value *, Id> successes; ///< of compare-exchanges
  ArrayShapes shapes;
  std::map<const llvm::Value *, Array> arrays; ///< by root
  Id pushed = 0;                               ///< an entry's push constants: its parameters, or their address
  Id parametersAddress = 0;                    ///< none: they are pushed
  std::vector<uint32_t> localVariables;        ///< ids and types of those in the memory of a thread
};

} // namespace qd::backends::vulkan
