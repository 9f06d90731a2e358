// writer.cpp: the SPIR-V module of an entry
//
// In:   a function whose control flow is structured, of scalars, with everything inlined.
// Out:  a module in Vulkan's dialect. Addresses of the device are 64-bit integers until an access; the only input is the address of the
//       launch (a push constant); the memory model is Vulkan's, and all accesses take part in it.
#include "backends/structured/grid_target.h"
#include "backends/vulkan/function_writer.h"

#include "llvm/ADT/PostOrderIterator.h"

namespace qd::backends::vulkan {

void FunctionWriter::writeBlocks() {
  for (const llvm::BasicBlock *source : llvm::ReversePostOrderTraversal<const llvm::Function *>(&function)) {
    module.write(Opcode::OpLabel, {getOperand(source)});
    if (source == &function.getEntryBlock()) {
      for (size_t i = 0; i < localVariables.size(); i += 2)
        module.write(Opcode::OpVariable, {localVariables[i + 1], localVariables[i], uint32_t(StorageClass::Function)});
      if (launch) {
        Id u64 = module.getInt(64), pointer = module.getPointer(StorageClass::PushConstant, u64);
        define(*function.getArg(0), emit(Opcode::OpLoad, u64, {emit(Opcode::OpAccessChain, pointer, {launch, module.getNumber(0)})}));
      }
    }
    for (const llvm::Instruction &instruction : *source) writeInstruction(instruction);
  }
  module.write(Opcode::OpFunctionEnd, {});
}

Id FunctionWriter::writeRoutine() {
  declareArrays();
  Id result = getType(function.getReturnType()), id = module.makeId();
  std::vector<uint32_t> types{result};
  for (const llvm::Argument &parameter : function.args()) types.push_back(getType(parameter.getType()));
  module.write(Opcode::OpFunction, {result, id, 0, module.declare(Opcode::OpTypeFunction, types)});
  for (const llvm::Argument &parameter : function.args()) define(parameter, Opcode::OpFunctionParameter, {});
  writeBlocks();
  return id;
}

Id FunctionWriter::writeKernel() {
  declareArrays();
  Id type = module.declare(Opcode::OpTypeFunction, {module.getVoid()}), id = module.makeId();
  // The address of the launch.
  Id u64 = module.getInt(64), block = module.declare(Opcode::OpTypeStruct, {u64});
  module.decorate(block, spirv::Decoration::Block);
  module.decorateMember(block, 0, spirv::Decoration::Offset, {0});
  launch = module.addVariable(block, StorageClass::PushConstant);
  module.write(Opcode::OpFunction, {module.getVoid(), id, 0, type});
  writeBlocks();
  return id;
}

std::vector<uint32_t> writeModule(const llvm::Function &entry, const ConstructsOf &constructs, const Features &features) {
  SpirvModule module;
  for (Capability capability : {Capability::Shader, Capability::VulkanMemoryModel, Capability::VulkanMemoryModelDeviceScope,
                                Capability::PhysicalStorageBufferAddresses})
    module.require(capability);
  FunctionWriter::Routines routines;
  for (const llvm::Function *routine : findRoutines(entry))
    routines[routine] = FunctionWriter(module, *routine, constructs.at(routine), features, routines).writeRoutine();
  Id id = FunctionWriter(module, entry, constructs.at(&entry), features, routines).writeKernel();
  module.addMode(id, spirv::ExecutionMode::LocalSize, {describeEntry(entry).blockSize, 1, 1});
  auto addMode = [&](bool isOffered, Capability capability, spirv::ExecutionMode mode, unsigned bits) {
    if (!isOffered) return;
    module.require(capability);
    module.addMode(id, mode, {bits});
  };
  addMode(features.keepsNan16 && features.hasF16, Capability::SignedZeroInfNanPreserve, spirv::ExecutionMode::SignedZeroInfNanPreserve, 16);
  addMode(features.keepsNan32, Capability::SignedZeroInfNanPreserve, spirv::ExecutionMode::SignedZeroInfNanPreserve, 32);
  addMode(features.keepsNan64 && features.hasF64, Capability::SignedZeroInfNanPreserve, spirv::ExecutionMode::SignedZeroInfNanPreserve, 64);
  addMode(features.keepsDenormals32, Capability::DenormPreserve, spirv::ExecutionMode::DenormPreserve, 32);
  addMode(features.keepsDenormals64 && features.hasF64, Capability::DenormPreserve, spirv::ExecutionMode::DenormPreserve, 64);
  return module.finish(id);
}

} // namespace qd::backends::vulkan
