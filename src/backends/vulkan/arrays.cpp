// arrays.cpp: arrays in the memory of threads and blocks, and constant tables, as variables of SPIR-V (structured/arrays.h)
#include "backends/vulkan/function_writer.h"

namespace qd::backends::vulkan {

static StorageClass getStorage(unsigned space) {
  return space == kShared ? StorageClass::Workgroup : space == kConstant ? StorageClass::Private : StorageClass::Function;
}

void FunctionWriter::declareArrays() {
  for (auto &[root, shape] : shapes.shapes) {
    Array array{shape, getStorage(shape.space)};
    Id type = module.getArray(getMemoryType(shape.element), shape.count);
    if (array.storage == StorageClass::Function) {
      array.variable = module.makeId();
      localVariables.push_back(array.variable);
      localVariables.push_back(module.getPointer(array.storage, type));
    } else {
      Id initializer = shape.space == kConstant ? getInitializer(*llvm::cast<llvm::GlobalVariable>(root), shape) : 0;
      array.variable = module.addVariable(type, array.storage, initializer);
    }
    arrays.insert({root, array});
  }
}

Id FunctionWriter::getInitializer(const llvm::GlobalVariable &table, const ArrayShape &shape) {
  std::vector<uint32_t> elements;
  for (uint64_t bits : listElements(table, shape))
    elements.push_back(module.getConstant(getMemoryType(shape.element), bits, shape.elementBytes * 8));
  return module.declareTyped(Opcode::OpConstantComposite, module.getArray(getMemoryType(shape.element), shape.count), elements);
}

Id FunctionWriter::getElement(const Array &array, const llvm::Value *pointer, unsigned index) {
  Id number = getOperand(pointer), u32 = module.getInt(32);
  if (array.elementBytes > 1)
    number = emit(Opcode::OpShiftRightLogical, u32, {number, module.getNumber(llvm::Log2_32(array.elementBytes))});
  if (index) number = emit(Opcode::OpIAdd, u32, {number, module.getNumber(index)});
  return emit(Opcode::OpAccessChain, module.getPointer(array.storage, getMemoryType(array.element)), {array.variable, number});
}

} // namespace qd::backends::vulkan
