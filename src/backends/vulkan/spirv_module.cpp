// spirv_module.cpp: the words of a SPIR-V module
//
// In:   requests for types, constants, capabilities, decorations; instructions of the function.
// Out:  the words, in the order of sections that SPIR-V prescribes. Declarations are made once, at the first request.
#include "backends/vulkan/spirv_module.h"

namespace qd::backends::vulkan {

constexpr uint32_t kMagic = 0x07230203, kVersion = 0x00010500; // 1.5, which Vulkan 1.2 and later read

void SpirvModule::append(std::vector<uint32_t> &words, Opcode op, llvm::ArrayRef<uint32_t> operands) {
  words.push_back(uint32_t(operands.size() + 1) << 16 | uint32_t(op));
  words.insert(words.end(), operands.begin(), operands.end());
}

void SpirvModule::appendText(std::vector<uint32_t> &operands, llvm::StringRef text) {
  for (size_t i = 0; i <= text.size(); i += 4) {
    uint32_t word = 0;
    for (size_t k = 0; k < 4 && i + k < text.size(); ++k) word |= uint32_t(uint8_t(text[i + k])) << (8 * k);
    operands.push_back(word);
  }
}

void SpirvModule::require(Capability capability, llvm::StringRef extension) {
  capabilities.insert(uint32_t(capability));
  if (!extension.empty()) extensions.insert(extension.str());
}

Id SpirvModule::getInt(unsigned bits) {
  if (bits == 8) require(Capability::Int8);
  if (bits == 16) require(Capability::Int16);
  if (bits == 64) require(Capability::Int64);
  return declare(Opcode::OpTypeInt, {bits, 0});
}

Id SpirvModule::getFloat(unsigned bits) {
  if (bits == 16) require(Capability::Float16);
  if (bits == 64) require(Capability::Float64);
  return declare(Opcode::OpTypeFloat, {bits});
}

Id SpirvModule::getConstant(Id type, uint64_t bits, unsigned width) {
  uint32_t low = uint32_t(bits), high = uint32_t(bits >> 32);
  return width == 64 ? declareTyped(Opcode::OpConstant, type, {low, high}) : declareTyped(Opcode::OpConstant, type, {low});
}

Id SpirvModule::declare(Opcode op, llvm::ArrayRef<uint32_t> operands) {
  std::vector<uint32_t> key{uint32_t(op), 0};
  key.insert(key.end(), operands.begin(), operands.end());
  auto [entry, isNew] = known.try_emplace(key, 0);
  if (!isNew) return entry->second;
  key[1] = entry->second = makeId();
  append(declarations, op, llvm::ArrayRef(key).drop_front());
  return key[1];
}

Id SpirvModule::declareTyped(Opcode op, Id type, llvm::ArrayRef<uint32_t> operands) {
  std::vector<uint32_t> key{uint32_t(op), type};
  key.insert(key.end(), operands.begin(), operands.end());
  auto [entry, isNew] = known.try_emplace(key, 0);
  if (!isNew) return entry->second;
  entry->second = makeId();
  std::vector<uint32_t> words{type, entry->second};
  words.insert(words.end(), operands.begin(), operands.end());
  append(declarations, op, words);
  return entry->second;
}

Id SpirvModule::addWords(unsigned count) {
  Id word = getInt(32), length = getNumber(count), id = makeId();
  append(declarations, Opcode::OpTypeArray, {id, word, length});
  decorate(id, spirv::Decoration::ArrayStride, {4});
  return id;
}

Id SpirvModule::getConstantBlock(Id type) {
  Id &block = constantBlocks[type];
  if (block) return block;
  block = makeId();
  append(declarations, Opcode::OpTypeStruct, {block, type});
  decorate(block, spirv::Decoration::Block);
  decorateMember(block, 0, spirv::Decoration::Offset, {0});
  decorateMember(block, 0, spirv::Decoration::NonWritable, {});
  return block;
}

Id SpirvModule::addVariable(Id type, StorageClass space, Id initializer) {
  Id id = makeId();
  std::vector<uint32_t> operands{getPointer(space, type), id, uint32_t(space)};
  if (initializer) operands.push_back(initializer);
  append(declarations, Opcode::OpVariable, operands);
  interface.push_back(id);
  return id;
}

Id SpirvModule::getBuiltin(spirv::BuiltIn builtin, Id type) {
  Id &variable = builtins[builtin];
  if (variable) return variable;
  variable = addVariable(type, StorageClass::Input);
  decorate(variable, spirv::Decoration::BuiltIn, {uint32_t(builtin)});
  return variable;
}

void SpirvModule::decorate(Id id, spirv::Decoration decoration, llvm::ArrayRef<uint32_t> operands) {
  std::vector<uint32_t> all{id, uint32_t(decoration)};
  all.insert(all.end(), operands.begin(), operands.end());
  append(decorations, Opcode::OpDecorate, all);
}

void SpirvModule::decorateMember(Id id, uint32_t member, spirv::Decoration decoration, llvm::ArrayRef<uint32_t> operands) {
  std::vector<uint32_t> all{id, member, uint32_t(decoration)};
  all.insert(all.end(), operands.begin(), operands.end());
  append(decorations, Opcode::OpMemberDecorate, all);
}

void SpirvModule::addMode(Id entry, spirv::ExecutionMode mode, llvm::ArrayRef<uint32_t> operands) {
  std::vector<uint32_t> all{entry, uint32_t(mode)};
  all.insert(all.end(), operands.begin(), operands.end());
  append(modes, Opcode::OpExecutionMode, all);
}

std::vector<uint32_t> SpirvModule::finish(Id entry) {
  std::vector<uint32_t> words{kMagic, kVersion, 0, next, 0};
  for (uint32_t capability : capabilities) append(words, Opcode::OpCapability, {capability});
  std::vector<uint32_t> operands;
  for (const std::string &extension : extensions) {
    operands.clear();
    appendText(operands, extension);
    append(words, Opcode::OpExtension, operands);
  }
  if (glsl) {
    operands = {glsl};
    appendText(operands, "GLSL.std.450");
    append(words, Opcode::OpExtInstImport, operands);
  }
  append(words, Opcode::OpMemoryModel, {uint32_t(spirv::AddressingModel::PhysicalStorageBuffer64), uint32_t(spirv::MemoryModel::Vulkan)});
  operands = {uint32_t(spirv::ExecutionModel::GLCompute), entry};
  appendText(operands, "main");
  operands.insert(operands.end(), interface.begin(), interface.end());
  append(words, Opcode::OpEntryPoint, operands);
  for (const std::vector<uint32_t> *section : {&modes, &decorations, &declarations, &code})
    words.insert(words.end(), section->begin(), section->end());
  return words;
}

} // namespace qd::backends::vulkan
