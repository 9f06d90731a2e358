// printer.h: prints the function of an entry in Metal's shading language, which is C++ with address spaces
//
// Begin reading at printer.cpp: the function, its constructs, names and constants. printer_memory.cpp: accesses; printer_operations.cpp:
// all other instructions.
#pragma once

#include "backends/structured/arrays.h"
#include "backends/structured/steps.h"

#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

namespace qd::backends::metal {

using namespace structured;

/// The source of an entry, as a file of its own.
std::string printEntry(const llvm::Function &entry, const ConstructsOf &constructs, unsigned blockSize);

class FunctionPrinter {
public:
  FunctionPrinter(const llvm::Function &function, const Constructs &constructs, unsigned blockSize);
  /// The function of an entry, after its tables.
  std::string printKernel();
  /// A function of numbers.
  std::string printRoutine();

private:
  //--- printer.cpp ---
  void printBody();
  void printArrays();
  void printVariables();
  void printFrom(const llvm::BasicBlock *block, const llvm::BasicBlock *end);
  const llvm::BasicBlock *printLoop(const llvm::BasicBlock *header);
  void printInstructions(const llvm::BasicBlock &block);
  /// Gives the phis of `to` their values on the way from `from`.
  void printPhis(const llvm::BasicBlock *from, const llvm::BasicBlock *to);
  void line(const llvm::Twine &text);
  /// The variable of a value gets this value.
  void define(const llvm::Value &value, const llvm::Twine &expression);
  bool isLocalToBlock(const llvm::Instruction &instruction) const;
  std::string getType(llvm::Type *type) const;
  std::string get(const llvm::Value *value);
  std::string getConstant(const llvm::Constant &constant) const;
  /// The operand as an integer with a sign, of the type that contains it.
  std::string getSigned(const llvm::Value *value);
  /// The operand as an integer of at least 32 bits: narrower ones would become signed in operations.
  std::string getWide(const llvm::Value *value);

  //--- printer_memory.cpp ---
  void printLoad(const llvm::LoadInst &load);
  void printStore(const llvm::StoreInst &store);
  void printUpdate(const llvm::AtomicRMWInst &update);
  void printExchange(const llvm::AtomicCmpXchgInst &exchange);
  void printFence();
  void printOffset(const llvm::GetElementPtrInst &gep);
  /// What one access of so many bits reads or writes.
  std::string getPlace(const llvm::Value *pointer, unsigned bits, bool isVolatile);
  std::string getElement(const llvm::Value *pointer, unsigned index);
  std::string getAtomic(const llvm::Value *pointer, unsigned bits, llvm::StringRef type = "atomic_uint");

  //--- printer_operations.cpp ---
  void printInstruction(const llvm::Instruction &instruction);
  void printBinary(const llvm::BinaryOperator &binary);
  void printFloatBinary(const llvm::BinaryOperator &binary);
  void printComparison(const llvm::CmpInst &comparison);
  void printCast(const llvm::CastInst &cast);
  void printCall(const llvm::CallInst &call);
  void printIntrinsic(const llvm::IntrinsicInst &call);
  void findFusedProducts();

  const llvm::Function &function;
  const Constructs &constructs;
  const llvm::DataLayout &layout;
  unsigned blockSize;
  ArrayShapes shapes;
  bool isCoherent; ///< blocks read what other blocks wrote before a fence
  llvm::DenseMap<const llvm::Value *, unsigned> numbers, arrayNumbers;
  llvm::DenseSet<const llvm::Value *> fused; ///< products that are part of a sum
  std::string text, tables;
  unsigned depth = 1, nextNumber = 0;
};

/// The integer type of so many bits.
std::string getIntegerType(unsigned bits, bool isSigned = false);
/// Clears the bits of an expression beyond the width of a type that C++ does not have.
std::string mask(llvm::Type *type, const llvm::Twine &expression);
/// Between types of one size.
std::string bitcast(const llvm::Twine &expression, llvm::StringRef from, llvm::StringRef to);

} // namespace qd::backends::metal
