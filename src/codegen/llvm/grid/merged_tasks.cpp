// merged_tasks.cpp: merges tasks that a single block of threads runs anyway into one launch
//
// A launch costs a device more time than the few iterations of such a task. The merged entry runs the tasks in order, with a barrier of the
// block between them.
#include "codegen/llvm/grid/task.h"
#include "ir/attributes.h"

using namespace mlir;

namespace qd::codegen {

namespace {
/// Maximum number of iterations that a thread takes at a time; loops with more per thread of the largest block need several blocks.
constexpr int64_t kMaxPerThread = 4;

/// Whether one block may run the task; the number of iterations may be unknown yet.
bool isSmall(ModuleEmitter &module, ir::TaskOp task) {
  if (task->hasAttr(ir::kStreamBlock)) return false;
  if (!task.getParallel()) return true;
  ir::ForOp loop = findLoop(module, task);
  if (!loop || module.isOfBlock(loop)) return false;
  int64_t count = 1, most = kMaxPerThread * module.traits.maxBlockThreads;
  for (unsigned axis = 0; axis < loop.getRank() && count <= most; ++axis)
    count *= std::clamp<int64_t>(findRounds(loop, axis).value_or(INT32_MAX), 0, INT32_MAX);
  return count <= most;
}

/// Whether one block of the task's size runs all iterations in its first round.
bool isOneBlock(const artifact::DeviceTask &deviceTask) {
  using Step = artifact::LaunchExpr::Step;
  if (deviceTask.sharedBytes.isKnown() || deviceTask.branch.number || !deviceTask.iterations.isKnown()) return false;
  if (llvm::any_of(deviceTask.iterations.steps, [](const Step &step) { return step.kind == Step::Kind::Argument; })) return false;
  return deviceTask.iterations.evaluate(nullptr) <= int64_t(deviceTask.blockSize) * deviceTask.perThread;
}

/// Merges entries into the first one.
class Merger {
public:
  Merger(ModuleEmitter &module, llvm::Function *first)
      : module(module), whole(first), at(module.ctx), start(llvm::BasicBlock::Create(module.ctx, "start", first, &first->getEntryBlock())) {
    at.SetInsertPoint(start);
    thread = module.grid->getNumber(at, ThreadNumber::Thread);
  }

  void add(llvm::Function *part, bool isSerial) {
    if (part != whole) module.grid->synchronize(at, ThreadScope::Block);
    std::vector<llvm::BasicBlock *> blocks;
    for (llvm::BasicBlock &block : *part)
      if (&block != start) blocks.push_back(&block);
    if (part != whole) {
      part->getArg(0)->replaceAllUsesWith(whole->getArg(0));
      whole->splice(whole->end(), part);
      part->eraseFromParent();
    }
    // Move them to the entry block: LLVM turns only those allocas into registers.
    for (llvm::Instruction &instruction : llvm::make_early_inc_range(*blocks.front()))
      if (isa<llvm::AllocaInst>(instruction)) instruction.moveBefore(*start, start->begin());
    llvm::BasicBlock *next = llvm::BasicBlock::Create(module.ctx, "next", whole);
    for (llvm::BasicBlock *block : blocks) {
      if (!isa<llvm::ReturnInst>(block->getTerminator())) continue;
      block->getTerminator()->eraseFromParent();
      llvm::BranchInst::Create(next, block);
    }
    isSerial ? at.CreateCondBr(at.CreateIsNull(thread), blocks.front(), next) : at.CreateBr(blocks.front());
    at.SetInsertPoint(next);
  }

  void finish(unsigned blockSize) {
    at.CreateRetVoid();
    module.grid->setBlockSize(*whole, blockSize);
  }

private:
  ModuleEmitter &module;
  llvm::Function *whole;
  llvm::IRBuilder<> at;
  llvm::BasicBlock *start;
  llvm::Value *thread;
};
} // namespace

llvm::SmallVector<ir::TaskOp> findSmallTasks(ModuleEmitter &module, ir::TaskOp first) {
  llvm::SmallVector<ir::TaskOp> tasks{first};
  if (module.options.timed || !isSmall(module, first)) return tasks;
  for (Operation *op = first->getNextNode(); op; op = op->getNextNode()) {
    if (isa<ir::ScratchOp>(op)) continue;
    auto task = dyn_cast<ir::TaskOp>(op);
    if (!task || !isSmall(module, task)) break;
    tasks.push_back(task);
  }
  return tasks;
}

void mergeTasks(ModuleEmitter &module, size_t first) {
  std::vector<artifact::DeviceTask> &tasks = module.artifact.tasks;
  std::vector<artifact::DeviceTask> kept(tasks.begin(), tasks.begin() + ptrdiff_t(first));
  auto getEntry = [&](const artifact::DeviceTask &task) { return module.module->getFunction(task.entry); };
  auto isMergeable = [&](const artifact::DeviceTask &task) { return isOneBlock(task) && !module.outlinedRegions.contains(getEntry(task)); };
  for (size_t begin = first, end; begin < tasks.size(); begin = end) {
    artifact::DeviceTask merged = tasks[begin];
    end = begin + 1;
    // The threads of a block divide the iterations among themselves, so all loops need the same number of threads.
    auto fits = [&](const artifact::DeviceTask &task) {
      return isMergeable(task) && (task.blockSize == 1 || merged.blockSize == 1 || task.blockSize == merged.blockSize);
    };
    if (isMergeable(merged))
      for (; end < tasks.size() && fits(tasks[end]); ++end) {
        merged.blockSize = std::max(merged.blockSize, tasks[end].blockSize);
        merged.arrayBytes = std::max(merged.arrayBytes, tasks[end].arrayBytes);
      }
    if (end > begin + 1) {
      Merger merger(module, getEntry(merged));
      for (size_t i = begin; i < end; ++i) merger.add(getEntry(tasks[i]), tasks[i].blockSize == 1);
      merger.finish(merged.blockSize);
      merged.iterations = {{{artifact::LaunchExpr::Step::Kind::Constant, support::ScalarType::I64, 1}}};
      merged.perThread = merged.maxBlocks = 1;
    }
    kept.push_back(std::move(merged));
  }
  tasks = std::move(kept);
}

} // namespace qd::codegen
