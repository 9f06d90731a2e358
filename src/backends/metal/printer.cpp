// printer.cpp: the source of an entry: its frame, constructs, variables and constants
//
// In:   a function whose control flow is structured, of scalars, with everything inlined.
// Out:  a kernel in Metal's language (3.2). Each value is a variable, assigned in LLVM's order, so that no load moves past a store. A width
//       has one type in memory, unsigned, because accesses through pointers of several types would not be ordered. Addresses of the device
//       are integers until an access; the only input is the address of the launch.
#include "backends/metal/printer.h"
#include "backends/metal/limits.h"

#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Operator.h"

namespace qd::backends::metal {

constexpr char kHead[] = R"(#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;

// The one of the language may fail although the values are equal.
template <typename Place> uint compare_exchange(Place place, uint expected, uint next) {
  uint seen;
  do seen = expected;
  while (!atomic_compare_exchange_weak_explicit(place, &seen, next, memory_order_relaxed, memory_order_relaxed) && seen == expected);
  return seen;
}

)";

std::string printEntry(const llvm::Function &entry, const ConstructsOf &constructs, unsigned blockSize) {
  std::string text = kHead;
  for (const llvm::Function *routine : findRoutines(entry)) text += FunctionPrinter(*routine, constructs.at(routine), 0).printRoutine();
  return text + FunctionPrinter(entry, constructs.at(&entry), blockSize).printKernel();
}

static bool hasFences(const llvm::Function &function) {
  return llvm::any_of(llvm::instructions(function), [](const llvm::Instruction &one) { return llvm::isa<llvm::FenceInst>(one); });
}

FunctionPrinter::FunctionPrinter(const llvm::Function &function, const Constructs &constructs, unsigned blockSize)
    : function(function), constructs(constructs), layout(function.getDataLayout()), blockSize(blockSize),
      shapes(function, qd::metal::kMaxCopyBytes), isCoherent(hasFences(function)) {}

void FunctionPrinter::printBody() {
  findFusedProducts();
  printArrays();
  printVariables();
  printFrom(&function.getEntryBlock(), nullptr);
}

std::string FunctionPrinter::printRoutine() {
  std::string parameters;
  for (const llvm::Argument &parameter : function.args())
    parameters += (parameters.empty() ? "" : ", ") + getType(parameter.getType()) + " " + get(&parameter);
  printBody();
  return tables + getType(function.getReturnType()) + " " + function.getName().str() + "(" + parameters + ") {\n" + text + "}\n\n";
}

std::string FunctionPrinter::printKernel() {
  line("ulong " + get(function.getArg(0)) + " = launch;");
  printBody();
  std::string head = "[[max_total_threads_per_threadgroup(" + std::to_string(blockSize) + ")]]\nkernel void " + function.getName().str() +
                     "(constant ulong &launch [[buffer(0)]], uint thread_number [[thread_position_in_threadgroup]],\n"
                     "    uint block_number [[threadgroup_position_in_grid]], uint block_count [[threadgroups_per_grid]],\n"
                     "    uint lane [[thread_index_in_simdgroup]]) {\n";
  return tables + head + text + "}\n";
}

//--- Control flow ---

void FunctionPrinter::printFrom(const llvm::BasicBlock *block, const llvm::BasicBlock *end) {
  while (block && block != end) {
    if (constructs.continues.contains(block)) {
      block = printLoop(block);
      continue;
    }
    printInstructions(*block);
    auto *branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
    if (!branch) { // the only return
      if (!function.getReturnType()->isVoidTy()) line("return " + get(block->getTerminator()->getOperand(0)) + ";");
      return;
    }
    if (!branch->isConditional()) {
      printPhis(block, branch->getSuccessor(0));
      block = branch->getSuccessor(0);
      continue;
    }
    const llvm::BasicBlock *merge = constructs.merges.lookup(block);
    for (unsigned side : {0, 1}) {
      line(side ? llvm::Twine("} else {") : "if (" + get(branch->getCondition()) + ") {");
      ++depth;
      printPhis(block, branch->getSuccessor(side));
      printFrom(branch->getSuccessor(side), merge);
      --depth;
    }
    line("}");
    block = merge;
  }
}

/// The header has phis only, and the last block is the only one that leaves the loop.
const llvm::BasicBlock *FunctionPrinter::printLoop(const llvm::BasicBlock *header) {
  const llvm::BasicBlock *last = constructs.continues.lookup(header), *merge = constructs.merges.lookup(header);
  line("while (true) {");
  ++depth;
  printFrom(header->getSingleSuccessor(), last);
  printInstructions(*last);
  auto *branch = llvm::cast<llvm::BranchInst>(last->getTerminator());
  printPhis(last, merge);
  if (branch->isConditional())
    line("if (" + llvm::Twine(branch->getSuccessor(0) == merge ? "" : "!") + get(branch->getCondition()) + ") break;");
  printPhis(last, header);
  --depth;
  line("}");
  return merge;
}

void FunctionPrinter::printInstructions(const llvm::BasicBlock &block) {
  for (const llvm::Instruction &instruction : block)
    if (!llvm::isa<llvm::PHINode>(instruction) && !instruction.isTerminator() && !fused.contains(&instruction))
      printInstruction(instruction);
}

void FunctionPrinter::printPhis(const llvm::BasicBlock *from, const llvm::BasicBlock *to) {
  std::vector<std::pair<std::string, std::string>> moves;
  for (const llvm::PHINode &phi : to->phis()) {
    const llvm::Value *source = phi.getIncomingValueForBlock(from);
    if (&phi != source && !llvm::isa<llvm::UndefValue>(source)) moves.emplace_back(get(&phi), get(source));
  }
  // All at once: a phi may be the source of another one.
  for (size_t i = 0; i < moves.size(); ++i) {
    auto &[target, source] = moves[i];
    bool isReadLater = std::any_of(moves.begin() + long(i) + 1, moves.end(), [&](auto &later) { return later.second == target; });
    if (!isReadLater) {
      line(target + " = " + source + ";");
      continue;
    }
    std::string kept = "before" + std::to_string(nextNumber++);
    line("auto " + kept + " = " + target + ";");
    for (size_t k = i + 1; k < moves.size(); ++k)
      if (moves[k].second == target) moves[k].second = kept;
    line(target + " = " + source + ";");
  }
}

//--- Variables ---

void FunctionPrinter::line(const llvm::Twine &content) { text += std::string(2 * depth, ' ') + content.str() + "\n"; }

bool FunctionPrinter::isLocalToBlock(const llvm::Instruction &instruction) const {
  return !llvm::isa<llvm::PHINode>(instruction) && llvm::all_of(instruction.uses(), [&](const llvm::Use &use) {
    auto *user = llvm::cast<llvm::Instruction>(use.getUser());
    auto *phi = llvm::dyn_cast<llvm::PHINode>(user);
    return (phi ? phi->getIncomingBlock(use) : user->getParent()) == instruction.getParent();
  });
}

void FunctionPrinter::define(const llvm::Value &value, const llvm::Twine &expression) {
  auto &instruction = llvm::cast<llvm::Instruction>(value);
  if (value.use_empty()) {
    if (instruction.mayHaveSideEffects()) line("(void)(" + expression + ");");
    return;
  }
  bool isNew = isLocalToBlock(instruction);
  line((isNew ? getType(value.getType()) + " " : std::string()) + get(&value) + " = " + expression + ";");
}

/// Values that are used outside of the block that computes them.
void FunctionPrinter::printVariables() {
  std::map<std::string, std::string> lists;
  auto declare = [&](const llvm::Value &value) {
    std::string &list = lists[llvm::isa<llvm::AtomicCmpXchgInst>(value) ? "uint" : getType(value.getType())];
    list += (list.empty() ? "" : ", ") + get(&value);
  };
  for (const llvm::Instruction &instruction : llvm::instructions(function))
    if (!instruction.use_empty() && !llvm::isa<llvm::AllocaInst>(instruction) && !isLocalToBlock(instruction)) declare(instruction);
  for (auto &[type, list] : lists) line(type + " " + list + ";");
}

void FunctionPrinter::printArrays() {
  for (auto &[root, shape] : shapes.shapes) {
    unsigned number = arrayNumbers[root] = nextNumber++;
    std::string array = getIntegerType(shape.elementBytes * 8) + " a" + std::to_string(number) + "[" + std::to_string(shape.count) + "]";
    if (shape.space != kConstant) {
      line((shape.space == kShared ? "threadgroup " : "") + array + ";");
      continue;
    }
    tables += "constant " + array + " = {";
    for (uint64_t element : listElements(*llvm::cast<llvm::GlobalVariable>(root), shape)) tables += std::to_string(element) + "u, ";
    tables += "};\n";
  }
}

//--- Types, constants and operands ---

std::string getIntegerType(unsigned bits, bool isSigned) {
  const char *name = bits == 64 ? "ulong" : bits == 32 ? "uint" : bits == 16 ? "ushort" : "uchar";
  return name + (isSigned ? 1 : 0);
}

std::string FunctionPrinter::getType(llvm::Type *type) const {
  if (type->isIntegerTy(1)) return "bool";
  if (type->isIntegerTy()) return getIntegerType(getContainerBits(type->getIntegerBitWidth()));
  if (type->isPointerTy()) return getIntegerType(type->getPointerAddressSpace() ? 32 : 64);
  if (type->isHalfTy()) return "half";
  if (type->isFloatTy()) return "float";
  std::string name;
  llvm::raw_string_ostream(name) << *type;
  refuse("values of the type " + name);
}

static std::string printNumber(unsigned bits, uint64_t value) {
  if (bits == 64) return std::to_string(value) + "ul";
  return bits == 32 ? std::to_string(value) + "u" : getIntegerType(bits) + "(" + std::to_string(value) + ")";
}

std::string FunctionPrinter::getConstant(const llvm::Constant &constant) const {
  llvm::Type *type = constant.getType();
  if (auto *integer = llvm::dyn_cast<llvm::ConstantInt>(&constant)) {
    if (type->isIntegerTy(1)) return integer->isOne() ? "true" : "false";
    return printNumber(getContainerBits(type->getIntegerBitWidth()), integer->getZExtValue());
  }
  if (auto *number = llvm::dyn_cast<llvm::ConstantFP>(&constant)) {
    std::string bits = printNumber(type->getScalarSizeInBits(), number->getValueAPF().bitcastToAPInt().getZExtValue());
    return "as_type<" + getType(type) + ">(" + bits + ")";
  }
  // Any value will do for poison.
  if (llvm::isa<llvm::UndefValue, llvm::ConstantPointerNull>(constant)) return getType(type) + "(0)";
  unsigned bits = unsigned(layout.getTypeSizeInBits(type));
  if (std::optional<uint64_t> number = structured::readAddress(constant, layout)) return printNumber(bits, *number);
  std::string name;
  llvm::raw_string_ostream(name) << constant;
  refuse("the constant " + name);
}

std::string FunctionPrinter::get(const llvm::Value *value) {
  if (auto *constant = llvm::dyn_cast<llvm::Constant>(value)) return getConstant(*constant);
  if (llvm::isa<llvm::AllocaInst>(value)) return "0u"; // the beginning of its array
  auto [entry, isNew] = numbers.try_emplace(value, nextNumber);
  if (isNew) ++nextNumber;
  return "v" + std::to_string(entry->second);
}

std::string FunctionPrinter::getSigned(const llvm::Value *value) {
  llvm::Type *type = value->getType();
  if (!type->isIntegerTy() || type->isIntegerTy(1)) return get(value);
  unsigned bits = type->getIntegerBitWidth(), container = getContainerBits(bits), free = container - bits;
  std::string own = getIntegerType(container, /*isSigned=*/true);
  if (!free) return own + "(" + get(value) + ")";
  // In two steps: narrow types would be widened in between.
  std::string raised = own + "(" + getWide(value) + " << " + std::to_string(free) + ")";
  return own + "(" + raised + " >> " + std::to_string(free) + ")";
}

std::string FunctionPrinter::getWide(const llvm::Value *value) {
  llvm::Type *type = value->getType();
  return type->isIntegerTy() && getContainerBits(type->getIntegerBitWidth()) < 32 ? "uint(" + get(value) + ")" : get(value);
}

std::string mask(llvm::Type *type, const llvm::Twine &expression) {
  unsigned bits = type->getIntegerBitWidth(), container = getContainerBits(bits);
  if (bits == container) return expression.str();
  std::string ones = printNumber(container, llvm::maskTrailingOnes<uint64_t>(bits));
  return getIntegerType(container) + "((" + expression.str() + ") & " + ones + ")";
}

std::string bitcast(const llvm::Twine &expression, llvm::StringRef from, llvm::StringRef to) {
  return from == to ? expression.str() : ("as_type<" + to + ">(" + expression + ")").str();
}

} // namespace qd::backends::metal
