// printer_operations.cpp: operations on values, and calls
//
// In:   an instruction of legalized LLVM IR, whose operands have been printed.
// Out:  a statement. Integers are unsigned, with zeros above their own bits; operations that read a sign get operands with one.
#include "backends/metal/printer.h"

#include "llvm/IR/InstIterator.h"

namespace qd::backends::metal {

void FunctionPrinter::printInstruction(const llvm::Instruction &instruction) {
  auto operand = [&](unsigned i) { return get(instruction.getOperand(i)); };
  if (auto *binary = llvm::dyn_cast<llvm::BinaryOperator>(&instruction)) return printBinary(*binary);
  if (auto *comparison = llvm::dyn_cast<llvm::CmpInst>(&instruction)) return printComparison(*comparison);
  if (auto *cast = llvm::dyn_cast<llvm::CastInst>(&instruction)) return printCast(*cast);
  if (auto *gep = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction)) return printOffset(*gep);
  if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) return printLoad(*load);
  if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) return printStore(*store);
  if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) return printUpdate(*update);
  if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction)) return printExchange(*exchange);
  if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction)) return printCall(*call);
  if (auto *part = llvm::dyn_cast<llvm::ExtractValueInst>(&instruction))
    if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(part->getAggregateOperand())) {
      std::string old = get(exchange);
      return define(*part, part->getIndices()[0] ? old + " == " + get(exchange->getCompareOperand()) : old);
    }
  if (llvm::isa<llvm::FenceInst>(instruction)) return printFence();
  switch (instruction.getOpcode()) {
  case llvm::Instruction::Select: return define(instruction, operand(0) + " ? " + operand(1) + " : " + operand(2));
  case llvm::Instruction::Freeze: return define(instruction, operand(0));
  case llvm::Instruction::FNeg: return define(instruction, "-" + operand(0));
  case llvm::Instruction::Alloca: return;
  default: refuse(llvm::Twine("no instructions exist for LLVM's ") + instruction.getOpcodeName());
  }
}

//--- Arithmetic ---

/// A product that one sum may contain unrounded, and no one else reads.
static const llvm::BinaryOperator *getProduct(const llvm::BinaryOperator &sum, unsigned operand) {
  auto *product = llvm::dyn_cast<llvm::BinaryOperator>(sum.getOperand(operand));
  bool mayFuse = product && product->getOpcode() == llvm::Instruction::FMul && product->hasAllowContract() && product->hasOneUse() &&
                 product->getParent() == sum.getParent();
  return mayFuse ? product : nullptr;
}

/// The operand of a sum that is such a product; 2: none.
static unsigned findProduct(const llvm::BinaryOperator &sum) {
  bool isSum = sum.getOpcode() == llvm::Instruction::FAdd || sum.getOpcode() == llvm::Instruction::FSub;
  if (!isSum || !sum.hasAllowContract()) return 2;
  return getProduct(sum, 0) ? 0 : getProduct(sum, 1) ? 1 : 2;
}

void FunctionPrinter::findFusedProducts() {
  for (const llvm::Instruction &instruction : llvm::instructions(function))
    if (auto *sum = llvm::dyn_cast<llvm::BinaryOperator>(&instruction))
      if (unsigned operand = findProduct(*sum); operand < 2) fused.insert(sum->getOperand(operand));
}

void FunctionPrinter::printFloatBinary(const llvm::BinaryOperator &binary) {
  if (unsigned number = findProduct(binary); number < 2) {
    const llvm::BinaryOperator *product = getProduct(binary, number);
    bool isDifference = binary.getOpcode() == llvm::Instruction::FSub;
    std::string factor = (isDifference && number == 1 ? "-" : "") + get(product->getOperand(0));
    std::string rest = (isDifference && number == 0 ? "-" : "") + get(binary.getOperand(1 - number));
    return define(binary, "fma(" + factor + ", " + get(product->getOperand(1)) + ", " + rest + ")");
  }
  std::string a = get(binary.getOperand(0)), b = get(binary.getOperand(1));
  switch (binary.getOpcode()) {
  case llvm::Instruction::FAdd: return define(binary, a + " + " + b);
  case llvm::Instruction::FSub: return define(binary, a + " - " + b);
  case llvm::Instruction::FMul: return define(binary, a + " * " + b);
  case llvm::Instruction::FDiv: return define(binary, a + " / " + b);
  default: return define(binary, "fmod(" + a + ", " + b + ")");
  }
}

void FunctionPrinter::printBinary(const llvm::BinaryOperator &binary) {
  llvm::Type *type = binary.getType();
  if (type->isFloatingPointTy()) return printFloatBinary(binary);
  const llvm::Value *left = binary.getOperand(0), *right = binary.getOperand(1);
  using B = llvm::Instruction;
  if (type->isIntegerTy(1)) {
    switch (binary.getOpcode()) {
    case B::And:
    case B::Mul: return define(binary, get(left) + " && " + get(right));
    case B::Or: return define(binary, get(left) + " || " + get(right));
    case B::Xor:
    case B::Add:
    case B::Sub: return define(binary, get(left) + " != " + get(right));
    default: return define(binary, get(left)); // shifts by 0, quotients by 1: all else is undefined
    }
  }
  auto write = [&](const char *sign) {
    define(binary, mask(type, getType(type) + "(" + getWide(left) + " " + sign + " " + getWide(right) + ")"));
  };
  auto writeSigned = [&](const char *sign, const std::string &other) {
    define(binary, mask(type, getType(type) + "(" + getSigned(left) + " " + sign + " " + other + ")"));
  };
  switch (binary.getOpcode()) {
  case B::Add: return write("+");
  case B::Sub: return write("-");
  case B::Mul: return write("*");
  case B::Shl: return write("<<");
  case B::LShr: return write(">>");
  case B::UDiv: return write("/");
  case B::URem: return write("%");
  case B::And: return write("&");
  case B::Or: return write("|");
  case B::Xor: return write("^");
  case B::AShr: return writeSigned(">>", get(right));
  case B::SDiv: return writeSigned("/", getSigned(right));
  default: return writeSigned("%", getSigned(right));
  }
}

void FunctionPrinter::printComparison(const llvm::CmpInst &comparison) {
  using P = llvm::CmpInst;
  const llvm::Value *left = comparison.getOperand(0), *right = comparison.getOperand(1);
  P::Predicate predicate = comparison.getPredicate();
  std::string a = get(left), b = get(right);
  if (comparison.isSigned() && left->getType()->isIntegerTy(1)) {
    std::swap(a, b); // true is -1
  } else if (comparison.isSigned()) {
    a = getSigned(left);
    b = getSigned(right);
  }
  auto compare = [&](const char *sign) { define(comparison, a + " " + sign + " " + b); };
  auto refute = [&](const char *sign) { define(comparison, "!(" + a + " " + sign + " " + b + ")"); };
  switch (predicate) {
  case P::ICMP_EQ:
  case P::FCMP_OEQ: return compare("==");
  case P::ICMP_NE:
  case P::FCMP_UNE: return compare("!=");
  case P::ICMP_ULT:
  case P::ICMP_SLT:
  case P::FCMP_OLT: return compare("<");
  case P::ICMP_UGT:
  case P::ICMP_SGT:
  case P::FCMP_OGT: return compare(">");
  case P::ICMP_ULE:
  case P::ICMP_SLE:
  case P::FCMP_OLE: return compare("<=");
  case P::ICMP_UGE:
  case P::ICMP_SGE:
  case P::FCMP_OGE: return compare(">=");
  case P::FCMP_ULT: return refute(">=");
  case P::FCMP_UGT: return refute("<=");
  case P::FCMP_ULE: return refute(">");
  case P::FCMP_UGE: return refute("<");
  case P::FCMP_ONE: return define(comparison, a + " < " + b + " || " + a + " > " + b);
  case P::FCMP_UEQ: return define(comparison, "!(" + a + " < " + b + " || " + a + " > " + b + ")");
  case P::FCMP_UNO: return define(comparison, "isnan(" + a + ") || isnan(" + b + ")");
  case P::FCMP_ORD: return define(comparison, "!isnan(" + a + ") && !isnan(" + b + ")");
  default: return define(comparison, predicate == P::FCMP_TRUE ? "true" : "false");
  }
}

//--- Conversions ---

void FunctionPrinter::printCast(const llvm::CastInst &cast) {
  using C = llvm::Instruction;
  const llvm::Value *source = cast.getOperand(0);
  llvm::Type *from = source->getType(), *to = cast.getType();
  std::string type = getType(to), value = get(source);
  auto convert = [&](const std::string &expression) { return type + "(" + expression + ")"; };
  switch (cast.getOpcode()) {
  case C::Trunc: return define(cast, to->isIntegerTy(1) ? "(" + value + " & 1) != 0" : mask(to, convert(value)));
  case C::SExt: {
    std::string wide = getContainerBits(to->getIntegerBitWidth()) == 64 ? "long" : "int";
    std::string number = from->isIntegerTy(1) ? "-" + wide + "(" + value + ")" : wide + "(" + getSigned(source) + ")";
    return define(cast, mask(to, convert(number)));
  }
  case C::SIToFP: return define(cast, convert(from->isIntegerTy(1) ? "-int(" + value + ")" : getSigned(source)));
  case C::FPToSI:
  case C::FPToUI: {
    if (to->isIntegerTy(1)) return define(cast, value + " != 0");
    bool isSigned = cast.getOpcode() == C::FPToSI;
    // Narrow integers by way of those of 32 bits, where each of their values has its place.
    std::string number = getIntegerType(std::max(32u, getContainerBits(to->getIntegerBitWidth())), isSigned);
    return define(cast, mask(to, convert(number + "(" + value + ")")));
  }
  case C::BitCast: return define(cast, bitcast(value, getType(from), type));
  case C::ZExt:
  case C::FPExt:
  case C::FPTrunc:
  case C::UIToFP:
  case C::PtrToInt:
  case C::PtrToAddr:
  case C::IntToPtr: return define(cast, convert(value));
  default: refuse(llvm::Twine("no instructions exist for LLVM's ") + cast.getOpcodeName());
  }
}

//--- Calls ---

void FunctionPrinter::printIntrinsic(const llvm::IntrinsicInst &call) {
  namespace I = llvm::Intrinsic;
  const char *name = nullptr;
  switch (call.getIntrinsicID()) {
  case I::ctpop: name = "popcount"; break;
  case I::ctlz: name = "clz"; break;
  case I::cttz: name = "ctz"; break;
  case I::fabs: name = "fabs"; break;
  case I::sqrt: name = "sqrt"; break;
  case I::floor: name = "floor"; break;
  case I::ceil: name = "ceil"; break;
  case I::trunc: name = "trunc"; break;
  case I::rint:
  case I::nearbyint:
  case I::roundeven: name = "rint"; break;
  case I::fma: name = "fma"; break;
  case I::readcyclecounter:
  case I::readsteadycounter: return define(call, "0ul"); // Metal has no clock
  default: refuse("no instructions exist for " + call.getCalledFunction()->getName());
  }
  std::string arguments = get(call.getArgOperand(0));
  if (call.getIntrinsicID() == I::fma) arguments += ", " + get(call.getArgOperand(1)) + ", " + get(call.getArgOperand(2));
  define(call, name + ("(" + arguments) + ")");
}

void FunctionPrinter::printCall(const llvm::CallInst &call) {
  if (auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&call)) return printIntrinsic(*intrinsic);
  const llvm::Function *callee = call.getCalledFunction();
  if (!callee) refuse("a call through a pointer");
  llvm::StringRef name = callee->getName();
  auto argument = [&](unsigned i) { return get(call.getArgOperand(i)); };
  constexpr char kAll[] = "(mem_flags::mem_device | mem_flags::mem_threadgroup);";
  if (name == kThreadCall) return define(call, "thread_number");
  if (name == kBlockCall) return define(call, "block_number");
  if (name == kBlockCountCall) return define(call, "block_count");
  if (name == kBlockSizeCall) return define(call, std::to_string(blockSize) + "u");
  if (name == kLaneCall) return define(call, "lane");
  if (name == kBarrierCall) return line(llvm::Twine("threadgroup_barrier") + kAll);
  if (name == kSubgroupBarrierCall) return line(llvm::Twine("simdgroup_barrier") + kAll);
  if (name == kShuffleCall) return define(call, "simd_shuffle(" + argument(0) + ", ushort(" + argument(1) + "))");
  if (name.consume_front(kCombineCall)) {
    bool isSigned = name == "min" || name == "max";
    std::string function = name == "add" ? "sum" : name.drop_while([](char letter) { return letter == 'u'; }).str();
    return define(call, "uint(simd_" + function + (isSigned ? "(int(" : "(uint(") + argument(0) + ")))");
  }
  if (name == kBallotCall) return define(call, "ulong(simd_vote::vote_t(simd_ballot(" + argument(0) + ")))");
  if (callee->isDeclaration()) refuse("a call of " + name);
  std::string arguments;
  for (unsigned i = 0; i < call.arg_size(); ++i) arguments += (i ? ", " : "") + argument(i);
  define(call, name + "(" + arguments + ")");
}

} // namespace qd::backends::metal
