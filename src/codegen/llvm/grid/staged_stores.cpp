// staged_stores.cpp: neighboring elements of several words are written by a subgroup together
//
// In:   the optimized entries of a grid.
// Out:  the same. The words of one element, which each thread stored one after the other, go through shared memory, and the threads of a
//       subgroup store neighboring words. Without that, each store of a subgroup writes a few bytes of many sectors of memory (nine words
//       in each cell of a lattice Boltzmann method: 3.4 times the time on an H100).
//
// Whether the threads of a subgroup run together and have neighboring elements is tested at run time; if not, each stores its own.
#include "codegen/llvm/grid/staged_stores.h"

#include "artifact/artifact.h"
#include "passes/target_traits.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/BasicAliasAnalysis.h"
#include "llvm/Analysis/ScopedNoAliasAA.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Operator.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include <optional>

namespace qd::codegen {

namespace {

constexpr int64_t kWord = 4;
// With fewer words the memory merges the stores in time; with more, the shared memory takes too much of what caches loads.
constexpr size_t kMinWords = 6, kMaxWords = 20;

/// A store of one word, and its distance from the address that all words of an element start from.
struct Word {
  int64_t offset;
  llvm::StoreInst *store;
};
using Words = llvm::SmallVector<Word, 16>;

struct Element {
  Words words;           ///< ordered by their addresses
  llvm::StoreInst *last; ///< of the stores in the order of the code
};

/// How far a value moves from one thread to the next, where it is known. Quotients and what depends on them move rarely: they count as
/// equal, because a wrong guess costs only a test at run time.
class ThreadSteps {
public:
  ThreadSteps(const llvm::DataLayout &layout, const llvm::Function *threadNumber) : layout(layout), threadNumber(threadNumber) {}

  std::optional<int64_t> get(llvm::Value *value) {
    if (auto *call = llvm::dyn_cast<llvm::CallInst>(value); call && call->getCalledFunction() == threadNumber) return 1;
    auto *instruction = llvm::dyn_cast<llvm::Operator>(value);
    if (!instruction) return 0; // a constant or a parameter
    // While it is computed, a value that depends on itself is unknown.
    if (auto [known, isNew] = steps.try_emplace(value, std::nullopt); !isNew) return known->second;
    std::optional<int64_t> step = compute(*instruction);
    steps[value] = step;
    return step;
  }

private:
  std::optional<int64_t> compute(llvm::Operator &instruction) {
    using llvm::Instruction;
    auto operand = [&](unsigned number) { return get(instruction.getOperand(number)); };
    switch (instruction.getOpcode()) {
    case Instruction::Add:
    case Instruction::Or: return combine(operand(0), operand(1), 1);
    case Instruction::Sub: return combine(operand(0), operand(1), -1);
    case Instruction::Mul:
    case Instruction::Shl: return scale(instruction, operand(0), operand(1));
    case Instruction::UDiv:
    case Instruction::SDiv: return 0;
    case Instruction::LShr:
    case Instruction::AShr: return shiftRight(operand(0), instruction.getOperand(1));
    case Instruction::URem:
    case Instruction::SRem:
    case Instruction::ZExt:
    case Instruction::SExt:
    case Instruction::Trunc:
    case Instruction::AddrSpaceCast: return operand(0);
    case Instruction::PHI: // a loop's number moves as its first value does
      for (llvm::Value *incoming : instruction.operands())
        if (std::optional<int64_t> step = get(incoming)) return step;
      return std::nullopt;
    case Instruction::GetElementPtr: return getOfAddress(llvm::cast<llvm::GEPOperator>(instruction));
    default: return isUniform(instruction) ? std::optional<int64_t>(0) : std::nullopt;
    }
  }

  static std::optional<int64_t> combine(std::optional<int64_t> a, std::optional<int64_t> b, int64_t sign) {
    return a && b ? std::optional<int64_t>(*a + sign * *b) : std::nullopt;
  }
  static std::optional<int64_t> scale(llvm::Operator &product, std::optional<int64_t> a, std::optional<int64_t> b) {
    if (!a || !b) return std::nullopt;
    if (*a == 0 && *b == 0) return 0;
    auto *factor = llvm::dyn_cast<llvm::ConstantInt>(product.getOperand(1));
    if (!factor || factor->getBitWidth() > 64) return std::nullopt;
    bool isShift = product.getOpcode() == llvm::Instruction::Shl;
    if (isShift && factor->getZExtValue() > 62) return std::nullopt;
    int64_t result;
    bool overflows = llvm::MulOverflow(*a, isShift ? int64_t(1) << factor->getZExtValue() : factor->getSExtValue(), result);
    return overflows ? std::nullopt : std::optional<int64_t>(result);
  }
  /// The second half of an extension by two shifts; otherwise a quotient.
  static std::optional<int64_t> shiftRight(std::optional<int64_t> step, llvm::Value *bits) {
    auto *count = llvm::dyn_cast<llvm::ConstantInt>(bits);
    if (!step || !count || count->getBitWidth() > 64 || count->getZExtValue() > 62) return 0;
    return *step % (int64_t(1) << count->getZExtValue()) ? 0 : *step >> count->getZExtValue();
  }
  std::optional<int64_t> getOfAddress(llvm::GEPOperator &address) {
    llvm::SmallMapVector<llvm::Value *, llvm::APInt, 4> indices;
    llvm::APInt constant(layout.getIndexTypeSizeInBits(address.getType()), 0);
    std::optional<int64_t> sum = get(address.getPointerOperand());
    if (!address.collectOffset(layout, constant.getBitWidth(), indices, constant)) return std::nullopt;
    for (auto &[index, factor] : indices) {
      std::optional<int64_t> step = get(index);
      sum = combine(sum, step ? std::optional<int64_t>(*step * factor.getSExtValue()) : std::nullopt, 1);
    }
    return sum;
  }
  /// Numbers of the block and the grid, and addresses in memory that nobody writes.
  static bool isUniform(llvm::Operator &value) {
    if (auto *call = llvm::dyn_cast<llvm::CallInst>(&value)) return call->arg_empty() && call->doesNotAccessMemory();
    auto *load = llvm::dyn_cast<llvm::LoadInst>(&value);
    return load && load->hasMetadata(llvm::LLVMContext::MD_invariant_load);
  }

  const llvm::DataLayout &layout;
  const llvm::Function *threadNumber;
  llvm::DenseMap<llvm::Value *, std::optional<int64_t>> steps;
};

class Stager {
public:
  Stager(llvm::Function &entry, const GridTarget &grid, unsigned blockSize, unsigned subgroupSize)
      : entry(entry), grid(grid), blockSize(blockSize), subgroupSize(subgroupSize), layout(entry.getDataLayout()),
        library(llvm::TargetLibraryInfoImpl(entry.getParent()->getTargetTriple())), assumptions(entry), dominators(entry),
        basic(layout, entry, library, assumptions, &dominators), aliases(library) {
    aliases.addAAResult(basic);
    aliases.addAAResult(scoped);
  }

  void run(uint64_t maxSharedBytes);

private:
  std::vector<Element> findElements(llvm::BasicBlock &block, ThreadSteps &steps);
  bool canSink(const Element &element);
  void rewrite(const Element &element, llvm::GlobalVariable *stage);
  void storeTogether(llvm::IRBuilder<> &at, llvm::ArrayRef<Word> words, llvm::GlobalVariable *stage, llvm::Value *first, llvm::Value *lane);
  llvm::GlobalVariable *makeStage(size_t words);
  /// The mask of a subgroup whose threads all take part.
  uint64_t getWholeMask() const { return llvm::maskTrailingOnes<uint64_t>(subgroupSize); }

  llvm::Function &entry;
  const GridTarget &grid;
  const unsigned blockSize, subgroupSize;
  const llvm::DataLayout &layout;
  llvm::TargetLibraryInfo library;
  llvm::AssumptionCache assumptions;
  llvm::DominatorTree dominators;
  llvm::BasicAAResult basic;
  llvm::ScopedNoAliasAAResult scoped;
  llvm::AAResults aliases;
  llvm::Value *thread = nullptr;
};

} // namespace

/// Whether the memory is the device's, and not that of a thread or a block.
static bool isInContainer(llvm::Value *address) {
  auto *load = llvm::dyn_cast<llvm::LoadInst>(llvm::getUnderlyingObject(address));
  return load && load->hasMetadata(llvm::LLVMContext::MD_invariant_load);
}

/// The elements that the block stores whole, where the next thread's element follows.
std::vector<Element> Stager::findElements(llvm::BasicBlock &block, ThreadSteps &steps) {
  llvm::MapVector<llvm::Value *, Words> byBase;
  for (llvm::Instruction &instruction : block) {
    auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
    if (!store || !store->isSimple() || layout.getTypeStoreSize(store->getValueOperand()->getType()) != uint64_t(kWord) ||
        store->getValueOperand()->getType()->isVectorTy())
      continue;
    llvm::APInt offset(layout.getIndexTypeSizeInBits(store->getPointerOperandType()), 0);
    llvm::Value *base = store->getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
    byBase[base].push_back({offset.getSExtValue(), store});
  }
  std::vector<Element> elements;
  for (auto &[base, words] : byBase) {
    if (words.size() < kMinWords || !isInContainer(base)) continue;
    llvm::sort(words, [](const Word &a, const Word &b) { return a.offset < b.offset; });
    for (size_t begin = 0, end; begin < words.size(); begin = end) {
      for (end = begin + 1; end < words.size() && words[end].offset == words[end - 1].offset + kWord;) ++end;
      const size_t count = end - begin;
      if (count < kMinWords || count > kMaxWords || steps.get(base) != int64_t(count) * kWord) continue;
      Element element{Words(words.begin() + begin, words.begin() + end), words[begin].store};
      for (const Word &word : element.words)
        if (element.last->comesBefore(word.store)) element.last = word.store;
      if (canSink(element)) elements.push_back(std::move(element));
    }
  }
  return elements;
}

/// Whether all words can be stored where the last one is.
bool Stager::canSink(const Element &element) {
  llvm::SmallPtrSet<llvm::Instruction *, 16> own;
  for (const Word &word : element.words) own.insert(word.store);
  llvm::SmallVector<llvm::MemoryLocation, 16> passed;
  for (llvm::Instruction &instruction : *element.last->getParent()) {
    if (own.contains(&instruction)) {
      passed.push_back(llvm::MemoryLocation::get(llvm::cast<llvm::StoreInst>(&instruction)));
      if (&instruction == element.last) return true;
    } else if (!passed.empty() && instruction.mayReadOrWriteMemory()) {
      if (instruction.hasMetadata(llvm::LLVMContext::MD_invariant_load)) continue;
      if (llvm::any_of(passed, [&](auto &location) { return isModOrRefSet(aliases.getModRefInfo(&instruction, location)); })) return false;
    }
  }
  return false;
}

llvm::GlobalVariable *Stager::makeStage(size_t words) {
  auto *type = llvm::ArrayType::get(llvm::Type::getInt32Ty(entry.getContext()), blockSize * words);
  auto *stage = new llvm::GlobalVariable(*entry.getParent(), type, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                                         llvm::PoisonValue::get(type), entry.getName() + "_stage", nullptr,
                                         llvm::GlobalValue::NotThreadLocal, grid.getAddressSpaces().shared);
  stage->setAlignment(llvm::Align(16));
  return stage;
}

/// Every thread leaves its words in shared memory, and stores those at the number of its lane. The memory of a subgroup begins at the same
/// place for elements of any number of words, because subgroups do not wait for each other.
void Stager::storeTogether(llvm::IRBuilder<> &at, llvm::ArrayRef<Word> words, llvm::GlobalVariable *stage, llvm::Value *first,
                           llvm::Value *lane) {
  auto count = uint32_t(words.size());
  const auto room = uint32_t(llvm::cast<llvm::ArrayType>(stage->getValueType())->getNumElements() / blockSize); // of a thread
  llvm::Value *region = at.CreateMul(at.CreateAnd(thread, at.getInt32(~(subgroupSize - 1))), at.getInt32(room));
  llvm::Value *own = at.CreateAdd(region, at.CreateMul(lane, at.getInt32(count)));
  for (auto [number, word] : llvm::enumerate(words)) {
    llvm::Value *place = at.CreateInBoundsGEP(at.getInt32Ty(), stage, at.CreateAdd(own, at.getInt32(uint32_t(number))));
    at.CreateAlignedStore(at.CreateBitCast(word.store->getValueOperand(), at.getInt32Ty()), place, llvm::Align(kWord));
  }
  grid.synchronize(at, ThreadScope::Subgroup);
  llvm::Value *begin = at.CreateAdd(region, lane);
  llvm::AAMDNodes scopes = words[0].store->getAAMetadata();
  for (uint32_t number = 0; number < count; ++number) {
    llvm::Value *skipped = at.getInt32(number * subgroupSize);
    llvm::Value *word = at.CreateAlignedLoad(at.getInt32Ty(), at.CreateInBoundsGEP(at.getInt32Ty(), stage, at.CreateAdd(begin, skipped)),
                                             llvm::Align(kWord));
    llvm::Value *place = at.CreateGEP(at.getInt32Ty(), at.CreateGEP(at.getInt32Ty(), first, lane), skipped);
    at.CreateAlignedStore(word, place, llvm::Align(kWord))->setAAMetadata(scopes);
  }
  grid.synchronize(at, ThreadScope::Subgroup); // the next elements use the same memory
}

void Stager::rewrite(const Element &element, llvm::GlobalVariable *stage) {
  llvm::ArrayRef<Word> words = element.words;
  llvm::LLVMContext &ctx = entry.getContext();
  llvm::BasicBlock *head = element.last->getParent(), *end = head->splitBasicBlock(std::next(element.last->getIterator()), "stored");
  auto addBlock = [&](const char *name) { return llvm::BasicBlock::Create(ctx, name, &entry, end); };
  llvm::BasicBlock *test = addBlock("neighbors"), *together = addBlock("together"), *alone = addBlock("alone");

  // All threads that vote and exchange words have to come to the same place.
  head->getTerminator()->eraseFromParent();
  llvm::IRBuilder<> at(head);
  llvm::Value *active = grid.getActiveThreads(at), *all = at.getIntN(active->getType()->getIntegerBitWidth(), getWholeMask());
  at.CreateCondBr(at.CreateICmpEQ(active, all), test, alone);

  at.SetInsertPoint(test);
  llvm::Value *pointer = words[0].store->getPointerOperand(), *address = at.CreatePtrToInt(pointer, at.getInt64Ty());
  llvm::Value *lane = at.CreateAnd(thread, at.getInt32(subgroupSize - 1)), *zero = at.getInt32(0);
  llvm::Value *low = grid.shuffle(at, at.CreateTrunc(address, at.getInt32Ty()), zero, nullptr);
  llvm::Value *high = grid.shuffle(at, at.CreateTrunc(at.CreateLShr(address, 32), at.getInt32Ty()), zero, nullptr);
  llvm::Value *first = at.CreateOr(at.CreateZExt(low, at.getInt64Ty()), at.CreateShl(at.CreateZExt(high, at.getInt64Ty()), 32));
  llvm::Value *distance = at.CreateZExt(at.CreateMul(lane, at.getInt32(uint32_t(words.size() * kWord))), at.getInt64Ty());
  llvm::Value *votes = grid.ballot(at, at.CreateICmpEQ(at.CreateAdd(first, distance), address), nullptr);
  at.CreateCondBr(at.CreateICmpEQ(votes, all), together, alone);

  at.SetInsertPoint(together);
  storeTogether(at, words, stage, at.CreateIntToPtr(first, at.getPtrTy(grid.getAddressSpaces().global)), lane);
  at.CreateBr(end);

  at.SetInsertPoint(alone);
  llvm::BranchInst *done = at.CreateBr(end);
  for (const Word &word : words) word.store->moveBefore(done->getIterator());
}

void Stager::run(uint64_t maxSharedBytes) {
  if (blockSize % subgroupSize) return;
  llvm::IRBuilder<> at(&entry.getEntryBlock(), entry.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
  auto *number = llvm::cast<llvm::CallInst>(grid.getNumber(at, ThreadNumber::Thread));
  thread = number;
  ThreadSteps steps(layout, number->getCalledFunction());
  std::vector<Element> elements;
  for (llvm::BasicBlock &block : entry) llvm::append_range(elements, findElements(block, steps));
  size_t most = 0;
  for (const Element &element : elements) most = std::max(most, element.words.size());
  uint64_t shared = uint64_t(most) * kWord * blockSize;
  for (llvm::GlobalVariable &variable : entry.getParent()->globals())
    if (variable.getAddressSpace() == grid.getAddressSpaces().shared) shared += layout.getTypeAllocSize(variable.getValueType());
  if (elements.empty() || shared > maxSharedBytes) {
    number->eraseFromParent();
    return;
  }
  llvm::GlobalVariable *stage = makeStage(most);
  for (const Element &element : elements) rewrite(element, stage);
}

void stageStores(llvm::Module &module, const artifact::Artifact &artifact, const GridTarget &grid, const passes::TargetTraits &traits) {
  for (const artifact::DeviceTask &task : artifact.tasks)
    if (llvm::Function *entry = task.arrayBytes ? nullptr : module.getFunction(task.entry))
      Stager(*entry, grid, task.blockSize, traits.subgroupSize).run(traits.maxSharedBytes);
}

} // namespace qd::codegen
