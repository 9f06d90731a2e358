// spirv_module.h: the words of a SPIR-V module that is being written
#pragma once

#include "backends/vulkan/limits.h"

#include "mlir/Dialect/SPIRV/IR/SPIRVEnums.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <set>
#include <vector>

namespace qd::backends::vulkan {

namespace spirv = mlir::spirv;
using spirv::Opcode, spirv::StorageClass, spirv::Capability;
using Id = uint32_t;

/// Instructions that MLIR's list lacks.
namespace more {
constexpr auto CopyObject = Opcode(83), AtomicLoad = Opcode(227), AtomicStore = Opcode(228), ReadClock = Opcode(5056);
}
/// Numbers of GLSL.std.450.
enum class Glsl : uint32_t { RoundEven = 2, Trunc = 3, FAbs = 4, Floor = 8, Ceil = 9, Sqrt = 31, Fma = 50, FindILsb = 73, FindUMsb = 75 };

class SpirvModule {
public:
  Id makeId() { return next++; }

  //--- Declarations: equal ones are one ---
  void require(Capability capability, llvm::StringRef extension = "");
  Id getVoid() { return declare(Opcode::OpTypeVoid, {}); }
  Id getBool() { return declare(Opcode::OpTypeBool, {}); }
  Id getInt(unsigned bits);
  Id getFloat(unsigned bits);
  Id getVector(Id element, unsigned count) { return declare(Opcode::OpTypeVector, {element, count}); }
  Id getArray(Id element, unsigned count) { return declare(Opcode::OpTypeArray, {element, getNumber(count)}); }
  Id getPointer(StorageClass space, Id type) { return declare(Opcode::OpTypePointer, {uint32_t(space), type}); }
  /// A constant of u32.
  Id getNumber(uint32_t value) { return getConstant(getInt(32), value, 32); }
  Id getConstant(Id type, uint64_t bits, unsigned width);
  Id getNull(Id type) { return declareTyped(Opcode::OpConstantNull, type, {}); }
  Id getTruth(bool value) { return declareTyped(value ? Opcode::OpConstantTrue : Opcode::OpConstantFalse, getBool(), {}); }
  /// A type, or anything else that has a result and no type.
  Id declare(Opcode op, llvm::ArrayRef<uint32_t> operands);
  /// A constant.
  Id declareTyped(Opcode op, Id type, llvm::ArrayRef<uint32_t> operands);
  /// A type of words that lie side by side; in other memory arrays have no layout.
  Id addWords(unsigned count);
  /// The type of a value in memory that nobody writes.
  Id getConstantBlock(Id type);
  /// A variable outside of functions, which is part of the entry's interface.
  Id addVariable(Id type, StorageClass space, Id initializer = 0);
  /// The variable of a number that the device knows.
  Id getBuiltin(spirv::BuiltIn builtin, Id type);
  void decorate(Id id, spirv::Decoration decoration, llvm::ArrayRef<uint32_t> operands = {});
  void decorateMember(Id id, uint32_t member, spirv::Decoration decoration, llvm::ArrayRef<uint32_t> operands);
  void addMode(Id entry, spirv::ExecutionMode mode, llvm::ArrayRef<uint32_t> operands = {});
  Id getGlsl() { return glsl ? glsl : glsl = makeId(); }

  //--- Code ---
  void write(Opcode op, llvm::ArrayRef<uint32_t> operands) { append(code, op, operands); }

  /// All words. `bound` beyond ids: none.
  std::vector<uint32_t> finish(Id entry);

private:
  static void append(std::vector<uint32_t> &words, Opcode op, llvm::ArrayRef<uint32_t> operands);
  static void appendText(std::vector<uint32_t> &operands, llvm::StringRef text);

  Id next = 1, glsl = 0;
  std::set<uint32_t> capabilities;
  std::set<std::string> extensions;
  std::map<std::vector<uint32_t>, Id> known;
  std::map<spirv::BuiltIn, Id> builtins;
  std::map<Id, Id> constantBlocks;
  std::vector<Id> interface;
  std::vector<uint32_t> modes, decorations, declarations, code;
};

} // namespace qd::backends::vulkan
