// arrays.cpp: arrays in the memory of a thread (locals), of a block (shared arrays), and constant tables
//
// SPIR-V cannot cast pointers to them: an array has elements of one type. If all accesses of an array have one type, it is the element's;
// else elements are integers of the narrowest access, and a wider one takes several of them.
#include "backends/vulkan/function_writer.h"
#include "backends/vulkan/grid_target.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Operator.h"

namespace qd::backends::vulkan {

const llvm::Value *FunctionWriter::findRoot(const llvm::Value *pointer) {
  llvm::SmallPtrSet<const llvm::Value *, 8> seen;
  const llvm::Value *&root = roots[pointer];
  if (!root) root = findRoot(pointer, seen);
  if (!root) refuse("a pointer to one of several arrays");
  return root;
}

/// The array of a pointer: an alloca or a global. Null: only cycles lead there.
const llvm::Value *FunctionWriter::findRoot(const llvm::Value *pointer, llvm::SmallPtrSetImpl<const llvm::Value *> &seen) {
  if (llvm::isa<llvm::AllocaInst, llvm::GlobalVariable>(pointer)) return pointer;
  if (!seen.insert(pointer).second) return nullptr;
  if (auto *gep = llvm::dyn_cast<llvm::GEPOperator>(pointer)) return findRoot(gep->getPointerOperand(), seen);
  llvm::SmallVector<const llvm::Value *> sources;
  if (auto *phi = llvm::dyn_cast<llvm::PHINode>(pointer)) sources.append(phi->value_op_begin(), phi->value_op_end());
  if (auto *choice = llvm::dyn_cast<llvm::SelectInst>(pointer)) sources = {choice->getTrueValue(), choice->getFalseValue()};
  if (auto *frozen = llvm::dyn_cast<llvm::FreezeInst>(pointer)) sources = {frozen->getOperand(0)};
  const llvm::Value *root = nullptr;
  for (const llvm::Value *source : sources) {
    if (llvm::isa<llvm::UndefValue>(source)) continue;
    const llvm::Value *own = findRoot(source, seen);
    if (own && root && own != root) refuse("a pointer to one of several arrays");
    if (own) root = own;
  }
  if (sources.empty()) refuse("a pointer to an unknown array");
  return root;
}

Array &FunctionWriter::getArray(const llvm::Value *pointer) { return arrays.at(findRoot(pointer)); }

static StorageClass getStorage(unsigned space) {
  return space == kShared ? StorageClass::Workgroup : space == kConstant ? StorageClass::Private : StorageClass::Function;
}

void FunctionWriter::declareArrays() {
  struct Accesses {
    llvm::Type *type = nullptr;
    unsigned bytes = 0;
    bool isUniform = true;
  };
  llvm::MapVector<const llvm::Value *, Accesses> found;
  auto record = [&](const llvm::Value *pointer, llvm::Type *type, llvm::Align align) {
    if (pointer->getType()->getPointerAddressSpace() == 0) return;
    Accesses &own = found[findRoot(pointer)];
    unsigned bytes = unsigned(std::min<uint64_t>(layout.getTypeStoreSize(type), align.value()));
    own.isUniform &= (!own.type || own.type == type) && bytes == layout.getTypeStoreSize(type);
    own.bytes = own.type ? std::min(own.bytes, bytes) : bytes;
    own.type = type;
  };
  for (const llvm::Instruction &instruction : llvm::instructions(function)) {
    if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) record(load->getPointerOperand(), load->getType(), load->getAlign());
    if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction))
      record(store->getPointerOperand(), store->getValueOperand()->getType(), store->getAlign());
    if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction))
      record(update->getPointerOperand(), update->getType(), update->getAlign());
    if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction))
      record(exchange->getPointerOperand(), exchange->getNewValOperand()->getType(), exchange->getAlign());
  }
  for (auto &[root, own] : found) {
    llvm::Type *whole;
    unsigned space = root->getType()->getPointerAddressSpace();
    if (auto *local = llvm::dyn_cast<llvm::AllocaInst>(root)) {
      whole = local->getAllocatedType();
      if (!local->isStaticAlloca()) refuse("a local of a size that is not known");
    } else {
      whole = llvm::cast<llvm::GlobalVariable>(root)->getValueType();
    }
    bool isScalar = own.isUniform && !own.type->isPointerTy() && !own.type->isStructTy();
    llvm::Type *element = isScalar ? own.type : llvm::IntegerType::get(function.getContext(), own.bytes * 8);
    uint64_t bytes = layout.getTypeAllocSize(whole);
    if (bytes == 0) bytes = qd::vulkan::kMaxCopyBytes; // the array whose size the host chooses
    auto count = unsigned((bytes + own.bytes - 1) / own.bytes);
    Array array{getStorage(space), element, own.bytes};
    Id type = module.getArray(getType(element), count);
    if (array.space == StorageClass::Function) {
      array.variable = module.makeId();
      localVariables.push_back(array.variable);
      localVariables.push_back(module.getPointer(array.space, type));
    } else {
      auto *table = llvm::cast<llvm::GlobalVariable>(root);
      Id initializer = array.space == StorageClass::Private ? getInitializer(*table, array, count) : 0;
      array.variable = module.addVariable(type, array.space, initializer);
    }
    arrays.insert({root, array});
  }
}

/// The bytes of a constant, in little-endian order.
static void writeBytes(const llvm::Constant &constant, const llvm::DataLayout &layout, llvm::MutableArrayRef<uint8_t> bytes) {
  llvm::Type *type = constant.getType();
  if (llvm::isa<llvm::ConstantAggregateZero, llvm::UndefValue>(constant)) return;
  if (type->isIntegerTy() || type->isFloatingPointTy()) {
    auto *integer = llvm::dyn_cast<llvm::ConstantInt>(&constant);
    llvm::APInt bits = integer ? integer->getValue() : llvm::cast<llvm::ConstantFP>(constant).getValueAPF().bitcastToAPInt();
    for (unsigned i = 0; i < layout.getTypeStoreSize(type); ++i) bytes[i] = uint8_t(bits.getZExtValue() >> (8 * i));
    return;
  }
  auto *structure = llvm::dyn_cast<llvm::StructType>(type);
  llvm::Type *part = llvm::isa<llvm::ArrayType>(type) ? type->getArrayElementType() : nullptr;
  if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type)) part = vector->getElementType();
  for (unsigned i = 0; const llvm::Constant *element = constant.getAggregateElement(i); ++i) {
    uint64_t offset =
        structure ? layout.getStructLayout(structure)->getElementOffset(i).getFixedValue() : i * layout.getTypeAllocSize(part);
    writeBytes(*element, layout, bytes.drop_front(offset));
  }
}

Id FunctionWriter::getInitializer(const llvm::GlobalVariable &table, Array &array, unsigned count) {
  std::vector<uint8_t> bytes(size_t(count) * array.elementBytes);
  writeBytes(*table.getInitializer(), layout, bytes);
  std::vector<uint32_t> elements;
  for (unsigned i = 0; i < count; ++i) {
    uint64_t bits = 0;
    memcpy(&bits, bytes.data() + size_t(i) * array.elementBytes, array.elementBytes);
    elements.push_back(module.getConstant(getType(array.element), bits, array.elementBytes * 8));
  }
  return module.declareTyped(Opcode::OpConstantComposite, module.getArray(getType(array.element), count), elements);
}

Id FunctionWriter::getElement(const Array &array, const llvm::Value *pointer, unsigned index) {
  Id number = getOperand(pointer), u32 = module.getInt(32);
  if (array.elementBytes > 1)
    number = emit(Opcode::OpShiftRightLogical, u32, {number, module.getNumber(llvm::Log2_32(array.elementBytes))});
  if (index) number = emit(Opcode::OpIAdd, u32, {number, module.getNumber(index)});
  return emit(Opcode::OpAccessChain, module.getPointer(array.space, getType(array.element)), {array.variable, number});
}

} // namespace qd::backends::vulkan
