// writer.cpp: the SPIR-V module of an entry
//
// In:   a function whose control flow is structured, of scalars, with everything inlined.
// Out:  a module in Vulkan's dialect. Addresses of the device are 64-bit integers until an access; the only input is the address of the
//       parameters, or these (push constants); the memory model is Vulkan's.
#include "backends/structured/grid_target.h"
#include "backends/vulkan/function_writer.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/InstIterator.h"

namespace qd::backends::vulkan {

/// Call in the first block of the function.
void FunctionWriter::writeVariables() {
  for (size_t i = 0; i < localVariables.size(); i += 2)
    module.write(Opcode::OpVariable, {localVariables[i + 1], localVariables[i], uint32_t(StorageClass::Function)});
  localVariables.clear();
}

void FunctionWriter::writeBlocks() {
  for (const llvm::BasicBlock *source : llvm::ReversePostOrderTraversal<const llvm::Function *>(&function)) {
    module.write(Opcode::OpLabel, {getOperand(source)});
    if (source == &function.getEntryBlock()) {
      writeVariables();
      if (parametersAddress) {
        Id u64 = module.getInt(64), pointer = module.getPointer(StorageClass::PushConstant, u64), first = module.getNumber(0);
        module.write(Opcode::OpLoad, {u64, parametersAddress, emit(Opcode::OpAccessChain, pointer, {pushed, first})});
      }
    }
    for (const llvm::Instruction &instruction : *source) writeInstruction(instruction);
  }
  module.write(Opcode::OpFunctionEnd, {});
}

/// Whether threads wait for each other or order their accesses, so that they may see what others store.
static bool seesOtherThreads(const llvm::Function &entry) {
  return llvm::any_of(llvm::instructions(entry), [](const llvm::Instruction &one) {
    if (auto *call = llvm::dyn_cast<llvm::CallInst>(&one); call && call->getCalledFunction()) {
      llvm::StringRef name = call->getCalledFunction()->getName();
      return name == kBarrierCall || name == kSubgroupBarrierCall;
    }
    if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&one)) return llvm::isStrongerThanMonotonic(update->getOrdering());
    bool isOther = one.isAtomic() && !llvm::isa<llvm::AtomicRMWInst>(one);
    return isOther || one.isVolatile() || llvm::isa<llvm::FenceInst>(one);
  });
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

/// Words of shared memory for each thread that `reserveShared` takes: 2,048 threads have 112 KB.
constexpr unsigned kReservedWords = 14;

/// Takes shared memory that is never used: NVIDIA's driver gives an entry of 128 threads without it 32 registers, whatever it loads, and 80
/// with it, where a grid of fewer threads than the device has loses nothing.
void FunctionWriter::reserveShared(unsigned words) {
  Id room = module.addVariable(module.getArray(module.getInt(32), words), StorageClass::Workgroup);
  module.write(Opcode::OpLabel, {module.makeId()});
  writeVariables();
  Id count = readNumber(spirv::BuiltIn::NumWorkgroups, 0);
  Id never = emit(Opcode::OpIEqual, module.getBool(), {count, module.getNumber(UINT32_MAX)});
  Id use = module.makeId(), begin = getOperand(&function.getEntryBlock());
  module.write(Opcode::OpSelectionMerge, {begin, 0});
  module.write(Opcode::OpBranchConditional, {never, use, begin});
  module.write(Opcode::OpLabel, {use});
  Id place = emit(Opcode::OpAccessChain, module.getPointer(StorageClass::Workgroup, module.getInt(32)), {room, count});
  module.write(Opcode::OpStore, {place, count});
  module.write(Opcode::OpBranch, {begin});
}

Id FunctionWriter::writeKernel() {
  declareArrays();
  Id type = module.declare(Opcode::OpTypeFunction, {module.getVoid()}), id = module.makeId();
  unsigned bytes = describeEntry(function).parameterBytes;
  Id content = module.getInt(64);
  if (bytes <= features.pushBytes) {
    content = module.addWords(bytes / 4);
  } else {
    parametersAddress = module.makeId();
  }
  Id block = module.declare(Opcode::OpTypeStruct, {content});
  module.decorate(block, spirv::Decoration::Block);
  module.decorateMember(block, 0, spirv::Decoration::Offset, {0});
  pushed = module.addVariable(block, StorageClass::PushConstant);
  ids[function.getArg(0)] = module.getNumber(0);
  module.write(Opcode::OpFunction, {module.getVoid(), id, 0, type});
  if (prefersRegisters(function)) reserveShared(describeEntry(function).blockSize * kReservedWords);
  writeBlocks();
  return id;
}

std::vector<uint32_t> writeModule(const llvm::Function &entry, const ConstructsOf &constructs, const Features &features) {
  SpirvModule module;
  for (Capability capability : {Capability::Shader, Capability::VulkanMemoryModel, Capability::VulkanMemoryModelDeviceScope,
                                Capability::PhysicalStorageBufferAddresses})
    module.require(capability);
  FunctionWriter::Routines routines;
  bool isShared = seesOtherThreads(entry);
  for (const llvm::Function *routine : findRoutines(entry))
    routines[routine] = FunctionWriter(module, *routine, constructs.at(routine), features, routines, isShared).writeRoutine();
  Id id = FunctionWriter(module, entry, constructs.at(&entry), features, routines, isShared).writeKernel();
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
