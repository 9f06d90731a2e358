// memory.cpp: accesses of memory, atomic operations, fences and barriers
//
// Memory of the device is accessed through an address, which becomes a pointer at each access. In a kernel with fences or barriers all
// accesses of memory that is written take part in the memory model (NonPrivatePointer), so that these order them; drivers then read past
// the caches that are not shared, so others do not. Atomic operations are relaxed, or make memory available and visible.
#include "backends/structured/grid_target.h"
#include "backends/vulkan/function_writer.h"

#include "llvm/IR/GetElementPtrTypeIterator.h"

namespace qd::backends::vulkan {

constexpr uint32_t kAllMemory = uint32_t(spirv::MemorySemantics::UniformMemory) | uint32_t(spirv::MemorySemantics::WorkgroupMemory);
constexpr uint32_t kInAndOut = uint32_t(spirv::MemorySemantics::AcquireRelease) | kAllMemory |
                               uint32_t(spirv::MemorySemantics::MakeAvailable) | uint32_t(spirv::MemorySemantics::MakeVisible);
constexpr uint32_t kOut = uint32_t(spirv::MemorySemantics::Release) | kAllMemory | uint32_t(spirv::MemorySemantics::MakeAvailable);
constexpr uint32_t kIn = uint32_t(spirv::MemorySemantics::Acquire) | kAllMemory | uint32_t(spirv::MemorySemantics::MakeVisible);

static unsigned getSpace(const llvm::Value *pointer) { return pointer->getType()->getPointerAddressSpace(); }
static bool isArray(const llvm::Value *pointer) { return getSpace(pointer) != 0; }

Id FunctionWriter::getPlace(const llvm::Value *pointer, llvm::Type *type, bool isConstant) {
  if (isArray(pointer)) {
    Array &array = getArray(pointer);
    if (array.elementBytes != layout.getTypeStoreSize(type)) refuse("atomic operations on an array that has accesses of several sizes");
    return getElement(array, pointer, 0);
  }
  unsigned bits = type->isPointerTy() ? 64 : type->getScalarSizeInBits();
  if (bits == 8) module.require(Capability::StorageBuffer8BitAccess);
  if (bits == 16) module.require(Capability::StorageBuffer16BitAccess);
  Id address = getOperand(pointer);
  if (isConstant) {
    Id block = module.getConstantBlock(getMemoryType(type));
    Id whole = emit(Opcode::OpConvertUToPtr, module.getPointer(StorageClass::PhysicalStorageBuffer, block), {address});
    return emit(Opcode::OpAccessChain, module.getPointer(StorageClass::PhysicalStorageBuffer, getMemoryType(type)),
                {whole, module.getNumber(0)});
  }
  return emit(Opcode::OpConvertUToPtr, module.getPointer(StorageClass::PhysicalStorageBuffer, getMemoryType(type)), {address});
}

std::vector<uint32_t> FunctionWriter::describeAccess(const llvm::Instruction &access, const llvm::Value *pointer, llvm::Type *type,
                                                     llvm::Align align) {
  using Access = spirv::MemoryAccess;
  uint32_t flags = access.isVolatile() ? uint32_t(Access::Volatile) : 0;
  std::vector<uint32_t> operands;
  unsigned space = getSpace(pointer);
  bool isWritten = space == 0 && isShared && !access.hasMetadata(llvm::LLVMContext::MD_invariant_load);
  if (isWritten || space == kShared) flags |= uint32_t(Access::NonPrivatePointer);
  if (space == 0) {
    flags |= uint32_t(Access::Aligned);
    uint64_t size = layout.getTypeStoreSize(type);
    if (align.value() < size) refuse("an access of " + llvm::Twine(size) + " bytes that is aligned to " + llvm::Twine(align.value()));
    operands.push_back(uint32_t(align.value()));
  }
  if (!flags) return {};
  operands.insert(operands.begin(), flags);
  return operands;
}

/// Push constants are words, so that no width needs a capability.
void FunctionWriter::writeParameter(const llvm::LoadInst &load) {
  llvm::Type *type = load.getType();
  auto *whole = llvm::IntegerType::get(type->getContext(), unsigned(layout.getTypeStoreSizeInBits(type)));
  unsigned bits = whole->getBitWidth();
  Id u32 = module.getInt(32), offset = getOperand(load.getPointerOperand());
  llvm::APInt known(32, 0);
  bool isKnown = load.getPointerOperand()->stripAndAccumulateConstantOffsets(layout, known, true) == function.getArg(0);
  if (isKnown) offset = module.getNumber(uint32_t(known.getZExtValue()));
  if (parametersAddress) {
    Id u64 = module.getInt(64), address = emit(Opcode::OpIAdd, u64, {parametersAddress, convertInteger(offset, 32, 64)});
    Id place = emit(Opcode::OpConvertUToPtr, module.getPointer(StorageClass::PhysicalStorageBuffer, getMemoryType(type)), {address});
    auto aligned = uint32_t(spirv::MemoryAccess::Aligned);
    Id held = emit(Opcode::OpLoad, getMemoryType(type), {place, aligned, uint32_t(load.getAlign().value())});
    return define(load, widen(held, type));
  }
  auto loadWord = [&](uint32_t index) {
    Id word = isKnown ? module.getNumber(uint32_t(known.getZExtValue() / 4 + index))
                      : emit(Opcode::OpIAdd, u32,
                             {emit(Opcode::OpShiftRightLogical, u32, {offset, module.getNumber(2)}), module.getNumber(index)});
    Id place = emit(Opcode::OpAccessChain, module.getPointer(StorageClass::PushConstant, u32), {pushed, module.getNumber(0), word});
    return emit(Opcode::OpLoad, u32, {place});
  };
  if (bits == 64) {
    Id pair = emit(Opcode::OpCompositeConstruct, module.getVector(u32, 2), {loadWord(0), loadWord(1)});
    return define(load, bitcast(emit(Opcode::OpBitcast, module.getInt(64), {pair}), whole, type));
  }
  Id word = loadWord(0);
  if (bits < 32) {
    Id byte = emit(Opcode::OpBitwiseAnd, u32, {offset, module.getNumber(3)});
    word = emit(Opcode::OpShiftRightLogical, u32, {word, emit(Opcode::OpShiftLeftLogical, u32, {byte, module.getNumber(3)})});
  }
  define(load, bitcast(mask(whole, word), whole, type));
}

void FunctionWriter::writeLoad(const llvm::LoadInst &load) {
  const llvm::Value *pointer = load.getPointerOperand();
  llvm::Type *type = load.getType();
  if (getSpace(pointer) == kParameters) return writeParameter(load);
  // What other threads write meanwhile is seen.
  auto *whole = llvm::IntegerType::get(type->getContext(), unsigned(layout.getTypeStoreSizeInBits(type)));
  unsigned bits = whole->getBitWidth();
  bool isSeen = load.isVolatile() && !isArray(pointer) && (bits == 32 || (bits == 64 && features.hasI64Atomics));
  if (load.isAtomic() || isSeen) {
    Id place = getPlace(pointer, whole), device = module.getNumber(uint32_t(spirv::Scope::Device));
    requireAtomics(pointer, whole, false);
    define(load, bitcast(emit(more::AtomicLoad, getType(whole), {place, device, module.getNumber(0)}), whole, type));
    return;
  }
  std::vector<uint32_t> access = describeAccess(load, pointer, type, load.getAlign());
  if (!isArray(pointer)) {
    access.insert(access.begin(), getPlace(pointer, type, load.hasMetadata(llvm::LLVMContext::MD_invariant_load)));
    return define(load, widen(emit(Opcode::OpLoad, getMemoryType(type), access), type));
  }
  const Array &array = getArray(pointer);
  auto loadElement = [&](unsigned index) {
    std::vector<uint32_t> operands = access;
    operands.insert(operands.begin(), getElement(array, pointer, index));
    return widen(emit(Opcode::OpLoad, getMemoryType(array.element), operands), array.element);
  };
  auto count = unsigned(layout.getTypeStoreSize(type) / array.elementBytes);
  if (count == 1) return define(load, bitcast(loadElement(0), array.element, type));
  Id result = getNumber(whole, 0);
  for (unsigned i = 0; i < count; ++i) {
    Id part = convertInteger(loadElement(i), getWordBits(array.elementBytes * 8), getWordBits(bits));
    if (i) part = emit(Opcode::OpShiftLeftLogical, getType(whole), {part, module.getNumber(i * array.elementBytes * 8)});
    result = emit(Opcode::OpBitwiseOr, getType(whole), {result, part});
  }
  define(load, bitcast(result, whole, type));
}

void FunctionWriter::writeStore(const llvm::StoreInst &store) {
  const llvm::Value *pointer = store.getPointerOperand(), *value = store.getValueOperand();
  llvm::Type *type = value->getType();
  std::vector<uint32_t> access = describeAccess(store, pointer, type, store.getAlign());
  if (store.isAtomic()) {
    requireAtomics(pointer, type, false);
    Id place = getPlace(pointer, type);
    bool isOrdered = features.hasFences && llvm::isStrongerThan(store.getOrdering(), llvm::AtomicOrdering::Monotonic);
    module.write(more::AtomicStore,
                 {place, module.getNumber(uint32_t(spirv::Scope::Device)), module.getNumber(isOrdered ? kOut : 0), getOperand(value)});
    return;
  }
  auto write = [&](Id place, Id part, llvm::Type *held) {
    std::vector<uint32_t> operands{place, narrow(part, held)};
    operands.insert(operands.end(), access.begin(), access.end());
    module.write(Opcode::OpStore, operands);
  };
  if (!isArray(pointer)) return write(getPlace(pointer, type), getOperand(value), type);
  const Array &array = getArray(pointer);
  auto count = unsigned(layout.getTypeStoreSize(type) / array.elementBytes);
  if (count == 1) return write(getElement(array, pointer, 0), bitcast(getOperand(value), type, array.element), array.element);
  auto *whole = llvm::IntegerType::get(type->getContext(), unsigned(layout.getTypeStoreSizeInBits(type)));
  Id bits = bitcast(getOperand(value), type, whole);
  for (unsigned i = 0; i < count; ++i) {
    Id part = bits;
    if (i) part = emit(Opcode::OpShiftRightLogical, getType(whole), {part, module.getNumber(i * array.elementBytes * 8)});
    part = convertInteger(part, getWordBits(whole->getBitWidth()), getWordBits(array.elementBytes * 8));
    write(getElement(array, pointer, i), part, array.element);
  }
}

//--- Atomic operations ---

void FunctionWriter::requireAtomics(const llvm::Value *pointer, llvm::Type *type, bool isAdded) {
  if (type->isFloatTy() && isAdded) module.require(Capability::AtomicFloat32AddEXT, "SPV_EXT_shader_atomic_float_add");
  if (type->getScalarSizeInBits() != 64) return;
  bool isShared = pointer->getType()->getPointerAddressSpace() == kShared;
  if (!(isShared ? features.hasSharedI64Atomics : features.hasI64Atomics))
    refuse(isShared ? "this device has no atomic operations on 64 bits of shared memory"
                    : "this device has no atomic operations on 64 bits");
  module.require(Capability::Int64Atomics);
}

void FunctionWriter::writeUpdate(const llvm::AtomicRMWInst &update) {
  using Op = llvm::AtomicRMWInst;
  static const std::map<Op::BinOp, Opcode> kInstructions = {
      {Op::Xchg, Opcode::OpAtomicExchange}, {Op::Add, Opcode::OpAtomicIAdd},    {Op::Sub, Opcode::OpAtomicISub},
      {Op::And, Opcode::OpAtomicAnd},       {Op::Or, Opcode::OpAtomicOr},       {Op::Xor, Opcode::OpAtomicXor},
      {Op::Max, Opcode::OpAtomicSMax},      {Op::Min, Opcode::OpAtomicSMin},    {Op::UMax, Opcode::OpAtomicUMax},
      {Op::UMin, Opcode::OpAtomicUMin},     {Op::FAdd, Opcode::OpAtomicFAddEXT}};
  const llvm::Value *pointer = update.getPointerOperand();
  llvm::Type *type = update.getType();
  requireAtomics(pointer, type, true);
  Id place = getPlace(pointer, type);
  bool isOrdered = features.hasFences && llvm::isStrongerThan(update.getOrdering(), llvm::AtomicOrdering::Monotonic);
  Id value = getOperand(update.getValOperand());
  llvm::Type *held = isArray(pointer) ? getArray(pointer).element : type;
  if (getType(held) != getType(type)) {
    if (update.getOperation() == Op::FAdd) refuse("atomic additions to an array that has accesses of several types");
    value = bitcast(value, type, held);
  }
  Id result = emit(kInstructions.at(update.getOperation()), getType(held),
                   {place, module.getNumber(uint32_t(spirv::Scope::Device)), module.getNumber(isOrdered ? kInAndOut : 0), value});
  define(update, bitcast(result, held, type));
}

void FunctionWriter::writeExchange(const llvm::AtomicCmpXchgInst &exchange) {
  const llvm::Value *pointer = exchange.getPointerOperand();
  llvm::Type *type = exchange.getNewValOperand()->getType();
  requireAtomics(pointer, type, false);
  Id place = getPlace(pointer, type), expected = getOperand(exchange.getCompareOperand());
  llvm::Type *held = isArray(pointer) ? getArray(pointer).element : type;
  if (getType(held) != getType(type)) refuse("a compare-exchange in an array that has accesses of several types");
  bool isOrdered = features.hasFences && llvm::isStrongerThan(exchange.getSuccessOrdering(), llvm::AtomicOrdering::Monotonic);
  Id device = module.getNumber(uint32_t(spirv::Scope::Device));
  Id old = emit(Opcode::OpAtomicCompareExchange, getType(type),
                {place, device, module.getNumber(isOrdered ? kInAndOut : 0), module.getNumber(isOrdered ? kIn : 0),
                 getOperand(exchange.getNewValOperand()), expected});
  ids[&exchange] = old;
  successes[&exchange] = emit(Opcode::OpIEqual, module.getBool(), {old, expected});
}

/// Always of the device, which includes the block.
void FunctionWriter::writeFence() {
  if (!features.hasFences) return;
  module.write(Opcode::OpMemoryBarrier, {module.getNumber(uint32_t(spirv::Scope::Device)), module.getNumber(kInAndOut)});
}

void FunctionWriter::writeBarrier(spirv::Scope scope) {
  Id where = module.getNumber(uint32_t(scope));
  module.write(Opcode::OpControlBarrier, {where, where, module.getNumber(kInAndOut)});
}

//--- Addresses ---

void FunctionWriter::writeOffset(const llvm::GetElementPtrInst &gep) {
  llvm::Type *type = gep.getType();
  unsigned bits = type->getPointerAddressSpace() ? 32 : 64;
  Id whole = module.getInt(bits), result = getOperand(gep.getPointerOperand());
  llvm::APInt constant(bits, 0);
  llvm::SmallMapVector<llvm::Value *, llvm::APInt, 4> strides;
  llvm::cast<llvm::GEPOperator>(gep).collectOffset(layout, constant.getBitWidth(), strides, constant);
  for (auto &[index, stride] : strides) {
    Id offset = convertInteger(getSigned(index), getWordBits(index->getType()->getIntegerBitWidth()), bits, true);
    if (!stride.isOne()) offset = emit(Opcode::OpIMul, whole, {offset, module.getConstant(whole, stride.getZExtValue(), bits)});
    result = emit(Opcode::OpIAdd, whole, {result, offset});
  }
  if (!constant.isZero()) result = emit(Opcode::OpIAdd, whole, {result, module.getConstant(whole, constant.getZExtValue(), bits)});
  define(gep, result);
}

} // namespace qd::backends::vulkan
