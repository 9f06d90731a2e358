// arrays.cpp: the shapes of arrays, from all accesses of a function
//
// In:   legalized LLVM IR.
// Out:  for each array that is accessed the type and number of its elements; the elements of constant tables.
#include "backends/structured/arrays.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Operator.h"

namespace qd::backends::structured {

const llvm::Value *ArrayShapes::findRoot(const llvm::Value *pointer) {
  llvm::SmallPtrSet<const llvm::Value *, 8> seen;
  const llvm::Value *&root = roots[pointer];
  if (!root) root = findRoot(pointer, seen);
  if (!root) refuse("a pointer to one of several arrays");
  return root;
}

/// Null: only cycles lead there.
const llvm::Value *ArrayShapes::findRoot(const llvm::Value *pointer, llvm::SmallPtrSetImpl<const llvm::Value *> &seen) {
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

/// The bytes that an array has; 0: the host chooses.
static uint64_t getWholeBytes(const llvm::Value *root, const llvm::DataLayout &layout) {
  if (auto *global = llvm::dyn_cast<llvm::GlobalVariable>(root)) return layout.getTypeAllocSize(global->getValueType());
  auto *local = llvm::cast<llvm::AllocaInst>(root);
  if (!local->isStaticAlloca()) refuse("a local of a size that is not known");
  return layout.getTypeAllocSize(local->getAllocatedType());
}

ArrayShapes::ArrayShapes(const llvm::Function &function, unsigned copyBytes) {
  const llvm::DataLayout &layout = function.getDataLayout();
  struct Accesses {
    llvm::Type *type = nullptr;
    unsigned bytes = 0;
    bool isUniform = true;
  };
  llvm::MapVector<const llvm::Value *, Accesses> found;
  auto record = [&](const llvm::Value *pointer, llvm::Type *type, llvm::Align align) {
    if (unsigned space = pointer->getType()->getPointerAddressSpace(); space == 0 || space == kParameters) return;
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
    bool isScalar = own.isUniform && !own.type->isPointerTy() && !own.type->isStructTy();
    llvm::Type *element = isScalar ? own.type : llvm::IntegerType::get(function.getContext(), own.bytes * 8);
    uint64_t bytes = getWholeBytes(root, layout);
    if (bytes == 0) bytes = copyBytes;
    auto count = unsigned((bytes + own.bytes - 1) / own.bytes);
    shapes.insert({root, {root->getType()->getPointerAddressSpace(), element, own.bytes, count}});
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

std::optional<uint64_t> readAddress(const llvm::Constant &constant, const llvm::DataLayout &layout) {
  auto *number = llvm::dyn_cast<llvm::ConstantExpr>(&constant);
  const llvm::Constant &pointer = number && number->getOpcode() == llvm::Instruction::PtrToInt ? *number->getOperand(0) : constant;
  if (!pointer.getType()->isPointerTy()) return std::nullopt;
  llvm::APInt offset(layout.getIndexTypeSizeInBits(pointer.getType()), 0);
  const llvm::Value *base = pointer.stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
  if (llvm::isa<llvm::GlobalVariable>(base)) return offset.getZExtValue();
  if (auto *cast = llvm::dyn_cast<llvm::ConstantExpr>(base); cast && cast->getOpcode() == llvm::Instruction::IntToPtr)
    if (auto *address = llvm::dyn_cast<llvm::ConstantInt>(cast->getOperand(0))) return address->getZExtValue() + offset.getZExtValue();
  return std::nullopt;
}

std::vector<uint64_t> listElements(const llvm::GlobalVariable &table, const ArrayShape &shape) {
  std::vector<uint8_t> bytes(size_t(shape.count) * shape.elementBytes);
  writeBytes(*table.getInitializer(), table.getDataLayout(), bytes);
  std::vector<uint64_t> elements(shape.count);
  for (size_t i = 0; i < elements.size(); ++i) memcpy(&elements[i], bytes.data() + i * shape.elementBytes, shape.elementBytes);
  return elements;
}

} // namespace qd::backends::structured
