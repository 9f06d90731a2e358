// printer_memory.cpp: accesses of memory, atomic operations, fences
//
// Atomic operations are relaxed, of words of 32 bits; fences beside them order. Where blocks read what others wrote, all accesses of the
// device's memory are coherent: fences order no others.
#include "backends/metal/printer.h"

#include "llvm/IR/GetElementPtrTypeIterator.h"

namespace qd::backends::metal {

static bool isArray(const llvm::Value *pointer) { return pointer->getType()->getPointerAddressSpace() != 0; }

std::string FunctionPrinter::getElement(const llvm::Value *pointer, unsigned index) {
  unsigned bytes = shapes.get(pointer).elementBytes;
  std::string number = get(pointer);
  if (bytes > 1) number += " >> " + std::to_string(llvm::Log2_32(bytes));
  if (index) number = "(" + number + ") + " + std::to_string(index);
  return "a" + std::to_string(arrayNumbers.lookup(shapes.findRoot(pointer))) + "[" + number + "]";
}

std::string FunctionPrinter::getPlace(const llvm::Value *pointer, unsigned bits, bool isVolatile) {
  std::string space = std::string(isVolatile ? "volatile " : "") + (isCoherent ? "coherent(device) device " : "device ");
  return "*(" + space + getIntegerType(bits) + " *)" + get(pointer);
}

std::string FunctionPrinter::getAtomic(const llvm::Value *pointer, unsigned bits, llvm::StringRef type) {
  if (bits != 32) refuse("this device has no atomic operations on " + llvm::Twine(bits) + " bits");
  if (!isArray(pointer)) return ("(device " + type + " *)" + get(pointer)).str();
  if (shapes.get(pointer).elementBytes != 4) refuse("atomic operations on an array that has accesses of several sizes");
  return ("(threadgroup " + type + " *)&" + getElement(pointer, 0)).str();
}

void FunctionPrinter::printLoad(const llvm::LoadInst &load) {
  const llvm::Value *pointer = load.getPointerOperand();
  std::string type = getType(load.getType());
  auto bytes = unsigned(layout.getTypeStoreSize(load.getType()));
  std::string whole = getIntegerType(bytes * 8);
  auto defineBits = [&](const llvm::Twine &bits) {
    define(load, load.getType()->isIntegerTy(1) ? "(" + bits.str() + ") != 0" : bitcast(bits, whole, type));
  };
  // What other threads write meanwhile is seen.
  if (load.isAtomic() || (load.isVolatile() && !isArray(pointer) && bytes == 4)) {
    defineBits("atomic_load_explicit(" + getAtomic(pointer, bytes * 8) + ", memory_order_relaxed)");
    if (llvm::isAcquireOrStronger(load.getOrdering())) printFence();
    return;
  }
  if (!isArray(pointer)) {
    if (load.getAlign().value() < bytes) refuse("an access that is not aligned to its size");
    return defineBits(getPlace(pointer, bytes * 8, load.isVolatile()));
  }
  unsigned unit = shapes.get(pointer).elementBytes;
  if (unit == bytes) return defineBits(getElement(pointer, 0));
  std::string bits;
  for (unsigned i = 0; i < bytes / unit; ++i) {
    std::string part = whole + "(" + getElement(pointer, i) + ")";
    bits += i ? " | " + part + " << " + std::to_string(i * unit * 8) : part;
  }
  defineBits(whole + "(" + bits + ")");
}

void FunctionPrinter::printStore(const llvm::StoreInst &store) {
  const llvm::Value *pointer = store.getPointerOperand(), *value = store.getValueOperand();
  auto bytes = unsigned(layout.getTypeStoreSize(value->getType()));
  std::string whole = getIntegerType(bytes * 8);
  std::string bits = value->getType()->isIntegerTy(1) ? "uchar(" + get(value) + ")" : bitcast(get(value), getType(value->getType()), whole);
  if (store.isAtomic()) {
    if (llvm::isReleaseOrStronger(store.getOrdering())) printFence();
    return line("atomic_store_explicit(" + getAtomic(pointer, bytes * 8) + ", " + bits + ", memory_order_relaxed);");
  }
  if (!isArray(pointer)) {
    if (store.getAlign().value() < bytes) refuse("an access that is not aligned to its size");
    return line(getPlace(pointer, bytes * 8, store.isVolatile()) + " = " + bits + ";");
  }
  unsigned unit = shapes.get(pointer).elementBytes;
  if (unit == bytes) return line(getElement(pointer, 0) + " = " + bits + ";");
  for (unsigned i = 0; i < bytes / unit; ++i)
    line(getElement(pointer, i) + " = " + getIntegerType(unit * 8) + "((" + bits + ") >> " + std::to_string(i * unit * 8) + ");");
}

void FunctionPrinter::printUpdate(const llvm::AtomicRMWInst &update) {
  using Op = llvm::AtomicRMWInst;
  const llvm::Value *pointer = update.getPointerOperand();
  unsigned bits = update.getType()->getScalarSizeInBits();
  Op::BinOp op = update.getOperation();
  std::string name, type = "atomic_uint", value = get(update.getValOperand());
  switch (op) {
  case Op::Xchg: name = "exchange"; break;
  case Op::Add:
  case Op::FAdd: name = "fetch_add"; break;
  case Op::Sub: name = "fetch_sub"; break;
  case Op::And: name = "fetch_and"; break;
  case Op::Or: name = "fetch_or"; break;
  case Op::Xor: name = "fetch_xor"; break;
  case Op::Max:
  case Op::UMax: name = "fetch_max"; break;
  case Op::Min:
  case Op::UMin: name = "fetch_min"; break;
  default: refuse("an atomic operation that was not made legal");
  }
  if (op == Op::FAdd) type = "atomic_float";
  bool isSigned = op == Op::Max || op == Op::Min;
  if (isSigned) {
    type = "atomic_int";
    value = "int(" + value + ")";
  }
  if (llvm::isReleaseOrStronger(update.getOrdering())) printFence();
  std::string call = "atomic_" + name + "_explicit(" + getAtomic(pointer, bits, type) + ", " + value + ", memory_order_relaxed)";
  define(update, isSigned ? "uint(" + call + ")" : call);
  if (llvm::isAcquireOrStronger(update.getOrdering())) printFence();
}

/// The pair of results is read at once: the old value is a variable, and the success a comparison (printInstruction).
void FunctionPrinter::printExchange(const llvm::AtomicCmpXchgInst &exchange) {
  if (llvm::isReleaseOrStronger(exchange.getSuccessOrdering())) printFence();
  std::string place = getAtomic(exchange.getPointerOperand(), exchange.getNewValOperand()->getType()->getScalarSizeInBits());
  line((isLocalToBlock(exchange) ? "uint " : "") + get(&exchange) + " = compare_exchange(" + place + ", " +
       get(exchange.getCompareOperand()) + ", " + get(exchange.getNewValOperand()) + ");");
  if (llvm::isAcquireOrStronger(exchange.getSuccessOrdering())) printFence();
}

/// Always of the device, which includes the block.
void FunctionPrinter::printFence() {
  line("atomic_thread_fence(mem_flags::mem_device | mem_flags::mem_threadgroup, memory_order_seq_cst, thread_scope_device);");
}

void FunctionPrinter::printOffset(const llvm::GetElementPtrInst &gep) {
  bool isOffset = gep.getType()->getPointerAddressSpace();
  std::string result = get(gep.getPointerOperand()), suffix = isOffset ? "u" : "ul";
  llvm::APInt constant(layout.getIndexTypeSizeInBits(gep.getType()), 0);
  llvm::SmallMapVector<llvm::Value *, llvm::APInt, 4> strides;
  llvm::cast<llvm::GEPOperator>(gep).collectOffset(layout, constant.getBitWidth(), strides, constant);
  for (auto &[index, stride] : strides) {
    std::string wide = isOffset ? "uint(int(" + getSigned(index) + "))" : "ulong(long(" + getSigned(index) + "))";
    result += " + " + wide + " * " + std::to_string(stride.getZExtValue()) + suffix;
  }
  if (!constant.isZero()) result += " + " + std::to_string(constant.getZExtValue()) + suffix;
  define(gep, result);
}

} // namespace qd::backends::metal
