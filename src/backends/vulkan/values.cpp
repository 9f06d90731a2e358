// values.cpp: types, constants and operands of the function
//
// Integers are in words of 32 or 64 bits, with zeros above their own bits; those of 8 and 16 bits exist in memory only. NVIDIA's driver
// loses the wrap and the sign of shorter ones where it knows ranges. Pointers are integers: addresses of the device of 64 bits, offsets in
// arrays of 32.
#include "backends/vulkan/function_writer.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Operator.h"

namespace qd::backends::vulkan {

Id FunctionWriter::getType(llvm::Type *type) {
  if (type->isVoidTy()) return module.getVoid();
  if (type->isIntegerTy(1)) return module.getBool();
  if (type->isIntegerTy()) return module.getInt(getWordBits(type->getIntegerBitWidth()));
  if (type->isPointerTy()) return module.getInt(type->getPointerAddressSpace() ? 32 : 64);
  if (type->isHalfTy() || type->isFloatTy() || type->isDoubleTy()) return module.getFloat(type->getScalarSizeInBits());
  if (auto *pair = llvm::dyn_cast<llvm::StructType>(type)) {
    std::vector<uint32_t> members;
    for (llvm::Type *member : pair->elements()) members.push_back(getType(member));
    return module.declare(Opcode::OpTypeStruct, members);
  }
  std::string text;
  llvm::raw_string_ostream(text) << *type;
  refuse("values of the type " + text);
}

Id FunctionWriter::getMemoryType(llvm::Type *type) {
  return isShortInteger(type) ? module.getInt(getContainerBits(type->getIntegerBitWidth())) : getType(type);
}

Id FunctionWriter::getNumber(llvm::Type *type, uint64_t value) {
  return module.getConstant(getType(type), value,
                            type->isPointerTy() ? (type->getPointerAddressSpace() ? 32 : 64) : getWordBits(type->getIntegerBitWidth()));
}

Id FunctionWriter::getConstant(const llvm::Constant &constant) {
  llvm::Type *type = constant.getType();
  if (auto *integer = llvm::dyn_cast<llvm::ConstantInt>(&constant)) {
    if (type->isIntegerTy(1)) return module.getTruth(integer->isOne());
    return getNumber(type, integer->getZExtValue());
  }
  if (auto *number = llvm::dyn_cast<llvm::ConstantFP>(&constant))
    return module.getConstant(getType(type), number->getValueAPF().bitcastToAPInt().getZExtValue(), type->getScalarSizeInBits());
  // Any value will do for poison.
  if (llvm::isa<llvm::UndefValue, llvm::ConstantPointerNull, llvm::ConstantAggregateZero>(constant)) return module.getNull(getType(type));
  if (std::optional<uint64_t> number = structured::readAddress(constant, layout)) return getNumber(type, *number);
  if (auto *aggregate = llvm::dyn_cast<llvm::ConstantStruct>(&constant)) {
    std::vector<uint32_t> members;
    for (const llvm::Use &member : aggregate->operands()) members.push_back(getConstant(*llvm::cast<llvm::Constant>(member.get())));
    return module.declareTyped(Opcode::OpConstantComposite, getType(type), members);
  }
  std::string text;
  llvm::raw_string_ostream(text) << constant;
  refuse("the constant " + text);
}

Id FunctionWriter::getOperand(const llvm::Value *value) {
  if (auto *constant = llvm::dyn_cast<llvm::Constant>(value)) return getConstant(*constant);
  if (llvm::isa<llvm::AllocaInst>(value)) return getNumber(value->getType(), 0); // the beginning of its array
  Id &id = ids[value];
  return id ? id : id = module.makeId();
}

Id FunctionWriter::emit(Opcode op, Id type, llvm::ArrayRef<uint32_t> operands) {
  Id id = module.makeId();
  llvm::SmallVector<uint32_t, 8> words{type, id};
  words.append(operands.begin(), operands.end());
  module.write(op, words);
  return id;
}

void FunctionWriter::define(const llvm::Value &value, Opcode op, llvm::ArrayRef<uint32_t> operands) {
  llvm::SmallVector<uint32_t, 8> words{getType(value.getType()), getOperand(&value)};
  words.append(operands.begin(), operands.end());
  module.write(op, words);
}

void FunctionWriter::define(const llvm::Value &value, Id id) {
  // Another instruction may have named the value already: a phi at the beginning of a loop.
  auto [entry, isNew] = ids.try_emplace(&value, id);
  if (!isNew) module.write(more::CopyObject, {getType(value.getType()), entry->second, id});
}

Id FunctionWriter::emitGlsl(Glsl number, Id type, llvm::ArrayRef<uint32_t> operands) {
  llvm::SmallVector<uint32_t, 8> words{module.getGlsl(), uint32_t(number)};
  words.append(operands.begin(), operands.end());
  return emit(Opcode::OpExtInst, type, words);
}

Id FunctionWriter::mask(llvm::Type *type, Id value) {
  unsigned bits = type->getIntegerBitWidth();
  if (bits == getWordBits(bits)) return value;
  return emit(Opcode::OpBitwiseAnd, getType(type), {value, getNumber(type, llvm::maskTrailingOnes<uint64_t>(bits))});
}

Id FunctionWriter::getSigned(const llvm::Value *value) {
  llvm::Type *type = value->getType();
  Id id = getOperand(value);
  if (!type->isIntegerTy() || type->isIntegerTy(1)) return id;
  unsigned bits = type->getIntegerBitWidth(), free = getWordBits(bits) - bits;
  if (!free) return id;
  Id raised = emit(Opcode::OpShiftLeftLogical, getType(type), {id, module.getNumber(free)});
  return emit(Opcode::OpShiftRightArithmetic, getType(type), {raised, module.getNumber(free)});
}

Id FunctionWriter::convertInteger(Id value, unsigned fromBits, unsigned toBits, bool isSigned) {
  if (fromBits == toBits) return value;
  return emit(isSigned ? Opcode::OpSConvert : Opcode::OpUConvert, module.getInt(toBits), {value});
}

/// Between types of one size.
Id FunctionWriter::bitcast(Id value, llvm::Type *from, llvm::Type *to) {
  if (getType(from) == getType(to)) return value;
  Id own = narrow(value, from), type = getMemoryType(to);
  return widen(getMemoryType(from) == type ? own : emit(Opcode::OpBitcast, type, {own}), to);
}

Id FunctionWriter::narrow(Id value, llvm::Type *type) {
  return isShortInteger(type) ? emit(Opcode::OpUConvert, getMemoryType(type), {value}) : value;
}

Id FunctionWriter::widen(Id value, llvm::Type *type) {
  return isShortInteger(type) ? emit(Opcode::OpUConvert, getType(type), {value}) : value;
}

} // namespace qd::backends::vulkan
